"""``substrate fit`` and ``substrate predict``: the same numbers as from Python, and laws of files and exit codes."""

import csv
import io
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import problems
from problems import load
from problems.command_line.main import main
from problems.tables.table import read_table
from substrate.certificate import Certificate, Row
from substrate.kernels import RBF
from substrate.whole_file import written_whole

README = Path(__file__).resolve().parents[3] / "README.md"
WORDS = np.array(["no", "yes"])
WIDTHS = (0.25, 0.5, 1.0, 2.0)


def written(path, names, columns):
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(names)
        writer.writerows(zip(*columns, strict=True))
    return path


@pytest.fixture
def regression(tmp_path):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(48, 2)) * [3.0, 0.2] + [10.0, -1.0]
    y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=48)
    return written(tmp_path / "regression.csv", ["u", "v", "y"], [*X.T, y]), X, y


@pytest.fixture
def classes(tmp_path):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(60, 2)) * [3.0, 0.2]
    y = WORDS[(X[:, 0] / 3.0 + X[:, 1] / 0.2 + 0.3 * rng.normal(size=60) > 0).astype(int)]
    return written(tmp_path / "classes.csv", ["u", "v", "answer"], [*X.T, y]), X, y


def prepared(X, y, stratify=None):
    """The split by hand, and the scaling of every estimator."""
    train, held = (
        np.sort(part) for part in train_test_split(np.arange(y.size), test_size=0.25, random_state=0, stratify=stratify)
    )
    return StandardScaler().fit(X[train]).transform(X), train, held


def by_hand(model, task, Z, y, train):
    kind = "Regressor" if task == "regression" else "Classifier"
    widths = [RBF(share * RBF().resolved(Z[train]).sigma) for share in WIDTHS]
    if model == "lssvm":
        return getattr(problems, f"LSSVM{kind}CV")(kernel=RBF(), kernels=widths).fit(Z[train], y[train])
    raise AssertionError(model)


def read_csv(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_regression_is_that_of_python(tmp_path, regression):
    path, X, y = regression
    out, predictions = tmp_path / "model.npz", tmp_path / "predictions.csv"
    line = [
        "fit",
        str(path),
        "--target",
        "y",
        "--model",
        "lssvm",
        "--out",
        str(out),
        "--quiet",
        "--no-refit",
        "--kernel",
        "rbf",
    ]
    Z, train, _ = prepared(X, y)
    expected = by_hand("lssvm", "regression", Z, y, train)
    assert main(line) == 0
    assert main(["predict", str(out), str(path), "--out", str(predictions)]) == 0
    found = np.array([float(row["prediction"]) for row in read_csv(predictions)])
    np.testing.assert_array_equal(found, expected.predict(Z))
    assert problems.load(out).certificate_ == expected.certificate_


def test_classification_is_that_of_python(tmp_path, classes, capsys):
    model = "lssvm"
    path, X, y = classes
    out = tmp_path / "model.npz"
    line = ["fit", str(path), "--target", "answer", "--model", model, "--out", str(out), "--no-refit"]
    assert main([*line, "--kernel", "rbf"]) == 0
    assert "classification, since the target answer is not numeric" in capsys.readouterr().out
    assert main(["predict", str(out), str(path)]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    Z, train, _ = prepared(X, y, stratify=y)
    expected = by_hand(model, "classification", Z, y, train)
    assert [row["prediction"] for row in rows] == expected.predict(Z).tolist()
    decisions = [float(row["decision"]) for row in rows]
    np.testing.assert_allclose(decisions, expected.decision_function(Z), rtol=0.0, atol=5.1e-7)


@pytest.mark.parametrize("model", ["lssvm", "sparse"])
def test_what_is_saved_was_fitted_again_to_all_rows_with_what_was_chosen(tmp_path, regression, capsys, model):
    path, X, y = regression
    once, again = tmp_path / "once.npz", tmp_path / "again.npz"
    line = ["fit", str(path), "--target", "y", "--model", model, "--n-basis", "12", "--kernel", "rbf"]
    assert main([*line, "--no-refit", "--out", str(once), "--quiet"]) == 0
    assert main([*line, "--out", str(again)]) == 0
    assert "fitted again to all 48 rows" in capsys.readouterr().out
    judged, kept = load(once).estimator_, load(again)
    assert (load(once).preparation_.refitted, kept.preparation_.refitted) == (False, True)
    gamma = getattr(judged, "gamma_", judged.gamma)
    assert (kept.estimator_.kernel_, kept.estimator_.gamma) == (judged.kernel_, gamma)
    Z = prepared(X, y)[0]
    expected = kept.estimator_.__sklearn_clone__().fit(Z, y)
    np.testing.assert_array_equal(kept.predict(path), expected.predict(Z))
    assert kept.estimator_.certificate_ == expected.certificate_
    assert main(["predict", str(again), str(path), "--coverage", "0.9"]) == 0
    assert "by method split" not in (said := capsys.readouterr().err)
    assert "cover about 0.9 of new rows" in said


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["DATA", "--target", "y", "--sigma", "0"], "sigma"),
        (["DATA", "--target", "y", "--max-evaluations", "-1"], "max_evaluations must be an integer >= 0, received -1"),
        (["DATA", "--target", "y", "--class-weight", "balanced"], "weighs classes, and this is a regression"),
        (["DATA", "--target", "y", "--id", "y"], "cannot be an input or an id .--id y"),
        (
            ["DATA", "--target", "y", "--id", "u", "--categories", "u"],
            "'u' is named by two of categories, dates and id",
        ),
        (["DATA", "--target", "y", "--dates", "u"], "'u' of .* does not hold dates in one clear format"),
        (["DATA", "--target", "y", "--decimal", "x"], "decimal must be"),
        (["DATA", "--target", "y", "--delimiter", ";;"], "delimiter must be one character"),
        (["@iris", "--out", "m.npz"], "no data set 'iris'"),
        (["DATA", "--out", "m.npz"], "--target is missing; .* has the columns u, v, y"),
        (["DATA", "--target", "z", "--out", "m.npz"], "no column 'z'; it has u, v, y"),
        (["DATA", "--target", "y", "--drop", "w", "--out", "m.npz"], "no column 'w'"),
        (["DATA", "--target", "y", "--drop", "u", "v", "--out", "m.npz"], "no column other than the target"),
        (["DATA", "--target", "y", "--categories", "y", "--out", "m.npz"], "cannot be an input"),
        (["DATA", "--target", "y", "--gamma", "-1", "--out", "m.npz"], "gamma"),
        (["DATA", "--target", "y", "--sigma", "1", "--kernel", "linear", "--out", "m.npz"], "has no width"),
        (["DATA", "--target", "y", "--validation", "1", "--out", "m.npz"], "validation must be"),
        (["DATA", "--target", "y", "--model", "stack", "--gamma", "1", "--out", "m.npz"], "chooses gamma"),
        (
            ["@ionosphere", "--task", "regression", "--out", "m.npz"],
            "not numeric .row 1 has 'g'.; correct the cell, or take a classifier",
        ),
        (["DATA", "--target", "y", "--out", "no/such/m.npz"], "does not exist; make it first"),
        (["DATA", "--target", "y", "--out", "."], "is a folder"),
        (["DATA", "--target", "y", "--out", "DATA"], "is named twice"),
        (["DATA", "--target", "y", "--out", "same", "--report", "./same"], "is named twice"),
    ],
)
def test_a_line_that_cannot_be_followed_is_two_and_one_sentence(
    regression, line, message, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    path = str(regression[0])
    assert main(["fit", *(path if word == "DATA" else word for word in line)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.search(message, captured.err), captured.err
    assert captured.err.startswith("substrate: ")
    assert captured.err.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


def test_a_certificate_that_does_not_hold_is_one_and_said_in_the_report(tmp_path, regression, capsys, monkeypatch):
    path, _, _ = regression
    failing = Certificate("Broken", (Row("broken row", 1.0, 1.0, 1e-9, "1 - 0"),))
    fit = problems.LSSVMRegressor.fit

    def broken(self, X, y, **choices):
        fit(self, X, y, **choices)
        self.certificate_ = failing
        return self

    monkeypatch.setattr(problems.LSSVMRegressor, "fit", broken)
    out, report = tmp_path / "m.npz", tmp_path / "r.html"
    line = ["fit", str(path), "--target", "y", "--gamma", "2", "--out", str(out), "--report", str(report), "--quiet"]
    assert main(line) == 1
    assert capsys.readouterr().err == "substrate: the certificate does not hold: broken row\n"
    assert out.exists()
    page = report.read_text(encoding="utf-8")
    assert "the certificate does not hold" in page
    assert "broken row" in page


def fails(*arguments):
    raise OSError("the disk is full")


def test_a_report_that_cannot_be_drawn_leaves_nothing(tmp_path, regression, monkeypatch, capsys):
    path, _, _ = regression
    monkeypatch.setattr("problems.command_line.report.page", fails)
    before = sorted(tmp_path.iterdir())
    files = ["--out", str(tmp_path / "m.npz"), "--report", str(tmp_path / "r.html")]
    assert main(["fit", str(path), "--target", "y", "--gamma", "2", *files]) == 2
    assert capsys.readouterr().err == "substrate: the disk is full\n"
    assert sorted(tmp_path.iterdir()) == before


def test_an_interrupted_writer_leaves_no_file(tmp_path):
    def writes_half():
        with written_whole(tmp_path / "half.txt") as stream:
            stream.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        writes_half()
    assert list(tmp_path.iterdir()) == []


def run(*words, cwd):
    command = [sys.executable, "-W", "error", "-m", "problems.command_line.main", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=cwd)


def test_a_pipe_hears_results_and_nothing_else(tmp_path):
    done = run("fit", "@motorcycle", "--out", "m.npz", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\r" not in done.stdout


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_sees_a_bar_that_is_cleared(tmp_path, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["fit", "@motorcycle", "--gamma", "2", "--out", str(tmp_path / "m.npz"), "--quiet"]) == 0
    assert "fitting" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_the_line_of_the_readme_makes_model_and_report(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (line,) = re.findall(r"^\.venv/bin/substrate (fit .*)$", README.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert main(line.split()) == 0
    said = capsys.readouterr().out
    assert "report: report.html\nsaved: model.npz, fitted again to all 133 rows" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.npz", "report.html"]


def test_help_has_fifteen_options_and_all_of_them_where_asked(capsys):
    for line, count in ((["fit", "--help"], 16), (["fit", "--help-all"], 30)):
        with pytest.raises(SystemExit) as ended:
            main(line)
        assert ended.value.code == 0
        said = capsys.readouterr().out
        assert len(re.findall(r"^  (?:-h, )?--[a-z]", said, re.M)) in range(count - 1, count + 3)
        assert "substrate fit @motorcycle --out model.npz --report report.html" in said


def _intervals(tmp_path, capsys, model, table, *more, coverage="0.9"):
    assert main(["predict", str(model), str(table), "--coverage", coverage, *more]) == 0
    out, err = capsys.readouterr()
    lines = list(csv.DictReader(io.StringIO(out)))
    return np.array([[float(line["lower"]), float(line["upper"])] for line in lines]), " ".join(err.split())


def test_intervals_rest_on_the_rows_that_were_held_out_and_only_judged(tmp_path, regression, capsys):
    path, X, _ = regression
    kept = tmp_path / "model.npz"
    assert (
        main(["fit", str(path), "--target", "y", "--quiet", "--no-refit", "--kernel", "rbf", "--out", str(kept)]) == 0
    )
    model = load(kept)
    ends, err = _intervals(tmp_path, capsys, kept, path)
    wanted = model.estimator_.predict_interval(model.matrix(read_table(path)), 0.9, "split")
    np.testing.assert_allclose(ends, wanted)
    assert model.estimator_.calibration_scores_.size == 12
    assert "intervals by method split cover at least 0.9 of new rows" in err
    ends, err = _intervals(tmp_path, capsys, kept, path, "--adaptive")
    X_table = model.matrix(read_table(path))
    np.testing.assert_allclose(ends, model.estimator_.predict_interval(X_table, 0.9, "adaptive"))
    assert "intervals by method adaptive cover about 0.9 of new rows" in err
    assert np.ptp(ends[:, 1] - ends[:, 0]) > 0.0
    assert (
        main(["fit", str(path), "--target", "y", "--quiet", "--validation", "0", "--kernel", "rbf", "--out", str(kept)])
        == 0
    )
    ends, err = _intervals(tmp_path, capsys, kept, path)
    model = load(kept)
    np.testing.assert_allclose(ends, model.estimator_.predict_interval(model.matrix(read_table(path))))
    assert hasattr(model.estimator_, "nested_machines_"), "the file holds them"
    assert "of the fit; approximate, since the inputs were standardised by these rows" in err
    assert X.shape[0] == ends.shape[0]


def test_probabilities_and_label_sets_of_classes(tmp_path, regression, classes, capsys):
    path, kept = classes[0], tmp_path / "model.npz"
    line = ["fit", str(path), "--target", "answer", "--quiet", "--kernel", "rbf", "--out", str(kept)]
    for model in ("lssvm", "sparse"):
        assert main([*line, "--model", model]) == 0
        assert main(["predict", str(kept), str(path), "--proba", "--coverage", "0.8"]) == 0
        out, err = capsys.readouterr()
        lines = list(csv.DictReader(io.StringIO(out)))
        loaded = load(kept)
        X, names = loaded.matrix(read_table(path)), [str(label) for label in loaded.estimator_.classes_]
        p = np.array([[float(one[f"probability_{name}"]) for name in names] for one in lines])
        np.testing.assert_allclose(p, loaded.estimator_.predict_proba(X), rtol=0.0, atol=5.1e-7)
        assert [names[k] for k in p.argmax(axis=1)] == [one["prediction"].lstrip("'") for one in lines]
        held = np.array([[int(one[f"set_{name}"]) for name in names] for one in lines])
        np.testing.assert_array_equal(held, loaded.estimator_.predict_set(X, 0.8))
        assert "sets of labels cover " in err
    assert main(["fit", str(regression[0]), "--target", "y", "--quiet", "--kernel", "rbf", "--out", str(kept)]) == 0
    assert main(["predict", str(kept), str(regression[0]), "--proba"]) == 2
    assert "this model predicts numbers; use --coverage" in capsys.readouterr().err
