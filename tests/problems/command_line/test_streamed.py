"""``substrate fit --executor`` and ``substrate predict`` on tables that are never held: the same model and numbers."""

import csv

import numpy as np
import pytest

import problems
from problems.command_line.main import main
from problems.tables.tabular_model import TabularModel, predict_stream
from substrate.kernels import RBF
from substrate.reduced import Basis

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

RNG = np.random.default_rng(6)
N = 3000
X = RNG.normal(size=(N, 2)) * [3.0, 0.2] + [10.0, -1.0]
Y = np.sin(X[:, 0]) + X[:, 1]
WORDS = np.array(["no", "yes"])[(Y > 0.0).astype(int)]


@pytest.fixture
def table(tmp_path):
    names = {"u": X[:, 0], "v": X[:, 1], "name": ["a"] * N, "y": Y, "answer": WORDS}
    pq.write_table(pa.table(names), tmp_path / "rows.parquet", row_group_size=700)
    return tmp_path / "rows.parquet"


def run(*arguments):
    return main([str(argument) for argument in arguments])


def fit(table, out, *more, target="y", drop=("name", "answer")):
    options = ["--model", "sparse", "--executor", "serial", "--n-basis", 20, "--out", out]
    return run("fit", table, "--target", target, "--drop", *drop, *options, *more)


def test_the_model_is_that_of_python(table, tmp_path, capsys):
    assert fit(table, tmp_path / "m.npz", "--sigma", 1.0, "--gamma", 5.0) == 0
    said = capsys.readouterr().out
    assert "rows: all 3000 train, read in passes" in said
    assert said.endswith(f"saved: {tmp_path / 'm.npz'}\n")
    assert "fit equalities" not in said
    model = TabularModel.load(tmp_path / "m.npz")
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    expected = problems.SparseLSSVMRegressor(RBF(1.0), 5.0, basis=Basis(20, random_state=0)).fit(scaled, Y)
    np.testing.assert_allclose(model.estimator.predict(scaled), expected.predict(scaled), atol=1e-9)
    assert model.preparation.split.n_rows == N


def test_a_choice_in_passes_is_said_with_its_error(table, tmp_path, capsys):
    assert fit(table, tmp_path / "m.npz", "--sigma", 1.0) == 0
    model = TabularModel.load(tmp_path / "m.npz").estimator
    said = capsys.readouterr().out
    assert f"RMSE {np.sqrt(model.criterion_):.4g}, by generalised cross-validation" in said
    assert f"choice: gamma {model.gamma_:.4g}, kernel RBF(sigma=1)" in said
    assert "certificate: holds" in said


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npy"])
def test_predictions_go_from_file_to_file(table, tmp_path, suffix):
    assert fit(table, tmp_path / "m.npz", "--sigma", 1.0, "--gamma", 5.0, "--quiet") == 0
    assert run("predict", tmp_path / "m.npz", table, "--out", tmp_path / f"p.{suffix}") == 0
    expected = TabularModel.load(tmp_path / "m.npz").estimator.predict((X - X.mean(axis=0)) / X.std(axis=0))
    with (tmp_path / f"p.{suffix}").open("rb") as stream:
        found = {
            "csv": lambda: [float(row["prediction"]) for row in csv.DictReader(map(bytes.decode, stream))],
            "parquet": lambda: pq.read_table(stream)["prediction"].to_numpy(),
            "npy": lambda: np.load(stream),
        }[suffix]()
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_classes_of_a_folder(table, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    whole = pq.read_table(table)
    for k in range(3):
        pq.write_table(whole.slice(1000 * k, 1000), folder / f"{k}.parquet")
    assert fit(folder, tmp_path / "m.npz", "--quiet", target="answer", drop=("name", "y")) == 0
    model = TabularModel.load(tmp_path / "m.npz")
    assert model.preparation.task == "classification"
    assert len(model.estimator.cv_results_["params"]) == 4
    predict_stream(model, str(folder), str(tmp_path / "p.parquet"))
    found = pq.read_table(tmp_path / "p.parquet")
    assert found.column_names == ["prediction", "decision"]
    assert np.mean(np.array(found["prediction"].to_pylist()) == WORDS) > 0.9


def test_a_cluster_by_its_address_gives_the_same_file(table, tmp_path):
    distributed = pytest.importorskip("distributed")
    options = ("--sigma", 1.0, "--gamma", 5.0, "--quiet")
    with distributed.LocalCluster(
        n_workers=1, processes=False, protocol="tcp://", host="127.0.0.1", dashboard_address="127.0.0.1:0"
    ) as cluster:
        more = ("--executor", "dask", "--scheduler", cluster.scheduler_address)
        assert fit(table, tmp_path / "there.npz", *options, *more) == 0
    assert fit(table, tmp_path / "here.npz", *options) == 0
    here, there = (TabularModel.load(tmp_path / name).estimator for name in ("here.npz", "there.npz"))
    assert np.array_equal(here.support_values_, there.support_values_)
    assert here.passes is None


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--report", "r.html"), "--report draws all rows"),
        (("--model", "lssvm"), "--model sparse"),
        (("--one-hot", "name"), "takes numbers as they are: no --one-hot"),
        (("--impute", "median"), "takes numbers as they are"),
        (("--scheduler", "tcp://x:1", "--executor", "joblib"), "--scheduler goes with --executor dask"),
        (("--checkpoint", "nowhere/c.npz"), "does not exist"),
        (("--target", "z"), "has no column 'z'"),
        (("--drop", "answer"), "column 'name' of"),
    ],
)
def test_what_cannot_be_done_is_said(table, tmp_path, capsys, more, words):
    assert fit(table, tmp_path / "m.npz", *more) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "m.npz").exists()


LABELS = np.array(["-no", "=yes"])


@pytest.mark.parametrize(("suffix", "mark"), [("csv", "'"), ("parquet", "")])
@pytest.mark.parametrize("executor", [["--executor", "serial"], []])
def test_labels_that_are_formulas_are_text_in_a_csv_and_as_they_are_elsewhere(tmp_path, suffix, mark, executor):
    labels = LABELS[(Y[:200] > 0.0).astype(int)]
    pq.write_table(pa.table({"u": X[:200, 0], "v": X[:200, 1], "=y": labels}), tmp_path / "t.parquet")
    line = ["fit", tmp_path / "t.parquet", "--target", "=y", "--model", "sparse", "--gamma", 5, "--sigma", 1, "--quiet"]
    assert run(*line, "--out", tmp_path / "m.npz", *executor) == 0
    assert run("predict", tmp_path / "m.npz", tmp_path / "t.parquet", "--out", tmp_path / f"p.{suffix}") == 0
    if suffix == "csv":
        with (tmp_path / "p.csv").open(newline="", encoding="utf-8") as stream:
            found = [row["prediction"] for row in csv.DictReader(stream)]
    else:
        found = pq.read_table(tmp_path / "p.parquet")["prediction"].to_pylist()
    assert set(found) == {f"{mark}{label}" for label in LABELS}
