"""``substrate explore``: a page for a table or a model file, exit codes, and messages with the next step."""

import base64
import json
import re

import numpy as np
import pytest

import problems
from problems.command_line.explore import subject_of_file
from problems.command_line.main import main
from problems.command_line.report.moving import moving
from problems.tables.table import Table, read_table
from problems.tables.tabular_model import TabularModel
from substrate.errors import DataError


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(24, 2))
    y = np.sin(X[:, 0]) + X[:, 1]
    columns = [[repr(float(v)) for v in values] for values in (*X.T, y)]
    columns.append(["ab"[int(v > 0.0)] for v in y])
    path = tmp_path / "table.csv"
    path.write_text("u,v,y,label\n" + "".join(",".join(row) + "\n" for row in zip(*columns, strict=True)))
    return path, X, y


def numbers_of(path):
    (found,) = re.findall(r'id="numbers">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)
    return json.loads(found)


def explore(tmp_path, *arguments):
    out = tmp_path / "page.html"
    assert main(["explore", *map(str, arguments), "--out", str(out)]) == 0
    return numbers_of(out)


@pytest.mark.parametrize(
    ("model", "sign", "titles"),
    [
        ("l1", "ζ", ["Multipliers and their slack"]),
        pytest.param("lssvm", "γ", ["Residuals", "Multipliers"], marks=pytest.mark.slow),
        pytest.param("structure", "ρ", ["One component and its multipliers"], marks=pytest.mark.slow),
    ],
)
def test_a_table_becomes_a_page(tmp_path, table, capsys, model, sign, titles):
    data = explore(tmp_path, table[0], "--target", "y", "--drop", "label", "--model", model)
    assert data["sign"] == sign
    assert set(titles) < {panel["title"] for panel in data["panels"]}
    assert capsys.readouterr().out == f"written: {tmp_path / 'page.html'}\n"
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.index('<div id="moving" hidden>') < text.index('<div id="still"><figure>') < text.index("<noscript>")


def test_the_file_of_an_ls_svm_holds_the_rows_of_its_page(tmp_path, table):
    path, _, _ = table
    file = tmp_path / "model.npz"
    problems_of = ["fit", str(path), "--target", "y", "--drop", "label", "--gamma", "3", "--out", str(file), "--quiet"]
    assert main(problems_of) == 0
    alone = explore(tmp_path, file)
    beside = explore(tmp_path, file, "--table", path)
    for data in (alone, beside):
        stops = np.frombuffer(base64.b64decode(data["stops"]))
        assert stops[data["start"]] == pytest.approx(3.0)
    assert alone["inputs"] == beside["inputs"] == ["u", "v"]


def test_rows_from_the_file_and_from_the_table_are_the_same(table):
    _, X, y = table
    model = problems.LSSVMRegressor(gamma=2.0).fit(X, y)
    own = subject_of_file(TabularModel(model, None), None, None)
    np.testing.assert_allclose(own.y, y, atol=1e-10)
    cells = {name: tuple(map(repr, map(float, part))) for name, part in zip("uvy", (*X.T, y), strict=True)}
    given = subject_of_file(TabularModel(model, None), Table("t.csv", cells), "y")
    np.testing.assert_array_equal(given.X, own.X)
    labels = np.array(["no", "yes"])[(y > 0.0).astype(int)]
    classes = subject_of_file(TabularModel(problems.LSSVMClassifier().fit(X, labels), None), None, None)
    assert classes.y.tolist() == labels.tolist()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # without noise the error falls for ever
def test_a_sparse_file_needs_its_table_and_knows_which_rows_it_held_out(table):
    _, X, y = table
    model = problems.FusedL1SubstrateRegressor(random_state=0).fit(X, y)
    with pytest.raises(DataError, match="does not hold the targets it was fitted to; give its table, --table FILE"):
        subject_of_file(TabularModel(model, None), None, None)
    cells = {name: tuple(map(repr, map(float, part))) for name, part in zip("uvy", (*X.T, y), strict=True)}
    with pytest.raises(DataError, match="--target is missing"):
        subject_of_file(TabularModel(model, None), Table("t.csv", cells), None)
    subject = subject_of_file(TabularModel(model, None), Table("t.csv", cells), "y")
    assert subject.y_val.size == 6
    page = moving(subject)
    np.testing.assert_allclose(page.at("held", page.start), model.predict(subject.X_val), atol=1e-9)
    (curve,) = [one.values for one in page.curves if one.name == "RMSE, held-out rows"]
    assert curve[page.start] == pytest.approx(np.sqrt(model.criterion_))
    other = Table("t.csv", cells | {"u": cells["v"]})
    with pytest.raises(DataError, match=r"t\.csv does not hold the rows that this FusedL1SubstrateRegressor"):
        subject_of_file(TabularModel(model, None), other, "y")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "y", "--drop", "label", "--model", "robust", "--gamma", "1"], "has no path in closed form"),
        (["--drop", "label"], "--target is missing; "),
        (["--target", "y", "--drop", "label", "--table", "other.csv"], "--table goes with a model file"),
        (["--target", "z"], "has no column 'z'"),
    ],
)
def test_what_cannot_be_explored_ends_with_2_and_writes_nothing(tmp_path, table, capsys, arguments, message):
    out = tmp_path / "page.html"
    assert main(["explore", str(table[0]), *arguments, "--out", str(out)]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_a_page_reads_the_table_that_fit_reads(tmp_path):
    """Dates, decimal commas, encodings, missing cells, and a row without a target: by options, and from a file."""
    rng = np.random.default_rng(4)
    u, y = rng.normal(size=30), rng.normal(size=30)
    lines = ["größe;Measured on;y"]
    for k in range(30):
        size = "" if k == 4 else f"{u[k]:.4f}".replace(".", ",")
        target = "" if k == 7 else f"{y[k]:.4f}".replace(".", ",")
        lines.append(f"{size};2024-01-{k + 1:02d};{target}")
    path, out = tmp_path / "t.csv", tmp_path / "m.npz"
    path.write_bytes("\n".join(lines).encode("cp1252"))
    columns = ["--date", "Measured on", "--impute", "median", "--target", "y"]
    assert explore(tmp_path, path, *columns)
    fit = ["fit", str(path), *columns, "--gamma", "1", "--sigma", "1", "--kernel", "rbf", "--out", str(out), "--quiet"]
    assert main([*fit, "--no-refit"]) == 0
    assert explore(tmp_path, out, "--table", path)
    assert count_rows(out, path) == 29
    assert main(["fit", str(path), *columns[:-4], "--impute", "drop", *fit[8:], "--target", "y"]) == 0
    assert explore(tmp_path, out, "--table", path)
    assert count_rows(out, path) == 28


def count_rows(model, path):
    """Return the rows of a table that a model was fitted to or judged by."""
    subject = subject_of_file(TabularModel.load(model), read_table(path, decided=True), "y")
    return len(subject.y) + len(subject.y_val)
