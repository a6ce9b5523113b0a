"""``substrate export``: a file of a model, its inputs in the units of the table, and what it promises."""

import csv

import numpy as np
import pytest
from onnx_graphs import run_onnx

from problems import LSSVMClassifier
from problems.command_line.main import main
from substrate.kernels import RBF


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A model file of ``substrate fit`` on a table with categories, its table, and the predictions of the command."""
    folder = tmp_path_factory.mktemp("export")
    rng = np.random.default_rng(0)
    rows = [(100.0 * rng.normal() + 1e4, rng.choice(["red", "blue"])) for _ in range(40)]
    lines = ["size,colour,price", *(f"{size!r},{colour},{size / 100.0 + (colour == 'red')!r}" for size, colour in rows)]
    (folder / "table.csv").write_text("\n".join(lines), encoding="utf-8")
    model, out = str(folder / "model.npz"), str(folder / "predictions.csv")
    arguments = ["--kernel", "rbf", "--sigma", "2", "--gamma", "10", "--quiet", "--validation", "0.1"]
    assert main(["fit", str(folder / "table.csv"), "--target", "price", "--out", model, *arguments]) == 0
    assert main(["predict", model, str(folder / "table.csv"), "--out", out]) == 0
    with open(out, encoding="utf-8") as stream:
        predictions = np.array([float(row["prediction"]) for row in csv.DictReader(stream)])
    columns = np.array([[size, colour == "blue", colour == "red"] for size, colour in rows], dtype=np.float64)
    return model, columns, predictions


def test_onnx_of_a_table(fitted, tmp_path, capsys):
    model, X, predictions = fitted
    out = tmp_path / "model.onnx"
    assert main(["export", model, str(out)]) == 0
    said = capsys.readouterr().out
    assert "outputs prediction" in said
    assert "all rounding counted, if exp and pow are accurate to 4 units of the last place" in said
    values = run_onnx(out.read_bytes(), X)["prediction"]
    np.testing.assert_allclose(values, predictions, rtol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["model.txt"], "does not end with .onnx"),
        (["model.onnx", "--tol", "-1"], "tol"),
        (["absent/model.onnx"], "folder"),
    ],
)
def test_wrong_arguments_say_what_to_do(fitted, tmp_path, capsys, arguments, message):
    out, *options = arguments
    assert main(["export", fitted[0], str(tmp_path / out), *options]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / out).exists()


def test_the_model_is_not_overwritten(fitted, capsys):
    assert main(["export", fitted[0], fitted[0]]) == 2
    assert "named twice" in capsys.readouterr().err
    assert main(["export", "absent.npz", "out.onnx"]) == 2
    assert "substrate fit" in capsys.readouterr().err


def test_a_classifier_of_python_exports_with_and_without_probabilities(tmp_path, capsys):
    X = np.random.default_rng(0).normal(size=(30, 2))
    LSSVMClassifier(RBF(1.0)).fit(X, X[:, 0] > 0.0).save(tmp_path / "model.npz")
    for options, outputs in (([], "label, scores, probabilities;"), (["--no-proba"], "label, scores;")):
        assert main(["export", str(tmp_path / "model.npz"), str(tmp_path / "m.onnx"), *options]) == 0
        assert outputs in capsys.readouterr().out
