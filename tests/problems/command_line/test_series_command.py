"""``substrate fit --series`` and forecasts by its files."""

import csv
import io
import re

import numpy as np
import pytest

from problems import load
from problems.command_line.main import main


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A contraction with one input, and its text."""
    rng = np.random.default_rng(0)
    u, y = rng.uniform(-1.0, 1.0, size=90), np.zeros(90)
    for t in range(1, 90):
        y[t] = 0.5 * np.tanh(y[t - 1]) + np.sin(u[t - 1]) + 0.05 * rng.normal()
    path = tmp_path_factory.mktemp("series") / "plant.csv"
    path.write_text("valve,level\n" + "".join(f"{a:.17g},{b:.17g}\n" for a, b in zip(u, y, strict=True)))
    return path


def columns_of(text):
    rows = list(csv.DictReader(io.StringIO(text)))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def test_a_series_is_fitted_saved_and_forecast(table, tmp_path, capsys):
    model, page = tmp_path / "model.npz", tmp_path / "page.html"
    given = ["--series", "--target", "level", "--lags", "1", "--input-lags", "1"]
    assert main(["fit", str(table), *given, "--out", str(model), "--report", str(page)]) == 0
    printed = capsys.readouterr().out
    assert "rows: the first 68 train, the last 22 judge" in printed
    assert "one step ahead on the last rows" in printed
    assert "of it for any series" in printed
    assert "Forecasts of the last rows" in page.read_text()
    loaded = load(model)
    assert loaded.lags_ == (1,)
    assert loaded.feature_names_in_.tolist() == ["valve"]

    later = tmp_path / "later.csv"
    later.write_text("level,valve\n0.1,0.2\n0.3,-0.4\n0.2,0.1\n")
    assert main(["predict", str(model), str(later), "--coverage", "0.8"]) == 0
    captured = capsys.readouterr()
    columns = columns_of(captured.out)
    assert list(columns) == ["prediction", "lower", "upper"]
    assert "one step ahead" in captured.err
    expected = loaded.predict_one_step(
        np.append(loaded.input_history_[:, 0], [0.2, -0.4, 0.1]), np.append(loaded.history_, [0.1, 0.3, 0.2])
    )
    np.testing.assert_allclose(columns["prediction"], expected[1:])

    later.write_text("valve\n0.2\n-0.4\n0.1\n")
    assert main(["predict", str(model), str(later)]) == 0
    captured = capsys.readouterr()
    np.testing.assert_allclose(columns_of(captured.out)["prediction"], loaded.forecast(3, [0.2, -0.4, 0.1]))
    assert "free run" in captured.err


def test_lags_are_compared_unless_given(table, capsys):
    assert main(["fit", str(table), "--series", "--target", "level", "--validation", "0"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("left-out error") >= 4
    assert "the last 0 judge" in printed


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--lags", "2"], "give --series too"),
        (["--series", "--gamma", "2"], "leave --gamma out"),
        (["--series", "--model", "l1"], "leave another --model"),
        (["--series", "--lags", "0"], "--lags"),
        (["--series", "--lags", "80"], "no window fits"),
        (["--series", "--validation", "1.5"], "--validation"),
        (["--series", "--drop", "valve", "--input-lags", "1"], "other columns than the target"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_what_a_series_has_not_is_refused(table, capsys, given, message):
    assert main(["fit", str(table), "--target", "level", *given]) == 2
    assert message in capsys.readouterr().err


def test_gaps_are_refused(tmp_path, capsys):
    path = tmp_path / "gaps.csv"
    path.write_text("y\n" + "".join("\n" if t == 7 else f"{np.sin(t)}\n" for t in range(30)).replace("\n\n", "\nNA\n"))
    assert main(["fit", str(path), "--series", "--target", "y"]) == 2
    assert "a series has no gaps" in capsys.readouterr().err


def test_forecasts_of_other_tables_are_refused(table, tmp_path, capsys):
    model, later = tmp_path / "model.npz", tmp_path / "later.csv"
    given = ["--series", "--target", "level", "--lags", "1", "--input-lags", "1", "--quiet"]
    assert main(["fit", str(table), *given, "--out", str(model)]) == 0
    later.write_text("pump\n0.2\n")
    assert main(["predict", str(model), str(later)]) == 2
    assert "no column 'valve'" in capsys.readouterr().err
    later.write_text("valve\n0.2\n")
    assert main(["predict", str(model), str(later), "--coverage", "0.9"]) == 2
    assert "needs the targets" in capsys.readouterr().err
    assert main(["predict", str(model), str(later), "--proba"]) == 2
    assert "no --proba" in capsys.readouterr().err


@pytest.mark.parametrize("seed", [1, 2])
def test_a_walk_with_a_drift_is_not_predicted_worse_than_by_its_last_value(tmp_path, capsys, seed):
    y = 100.0 + np.cumsum(3.0 + 5.0 * np.random.default_rng(seed).normal(size=60))
    path = tmp_path / "walk.csv"
    path.write_text("y\n" + "\n".join(map(str, y)) + "\n")
    assert main(["fit", str(path), "--series", "--target", "y"]) == 0
    out = capsys.readouterr().out
    ours, last = map(float, re.search(r"error ([\d.]+); the value before has ([\d.]+)", out).groups())
    assert ours <= last
    assert "NOT GOOD" not in out


def test_a_series_that_is_worse_than_its_last_value_says_so_first(tmp_path, capsys):
    y = np.concatenate([np.zeros(60) + 0.1 * np.sin(np.arange(60.0)), 100.0 + np.arange(20.0)])
    path = tmp_path / "jump.csv"
    path.write_text("y\n" + "\n".join(map(str, y)) + "\n")
    main(["fit", str(path), "--series", "--target", "y"])
    assert capsys.readouterr().out.startswith("NOT GOOD: one step ahead this model is worse than the last value")
