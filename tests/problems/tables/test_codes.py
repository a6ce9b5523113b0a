"""Integers with leading zeros are codes: text that stays text, as inputs, as targets, from files and from frames."""

import numpy as np
import pandas as pd
import pytest

from problems import TabularClassifier, TabularRegressor
from problems.command_line.main import main
from substrate.errors import DataError

CODES = ["01", "1", "2", "02"]


def _coded_rows(n=60):
    """Return a frame whose codes differ by their zeros only, and a target that depends on the code alone."""
    rng = np.random.default_rng(0)
    codes = rng.choice(CODES, size=n)
    effect = dict(zip(CODES, (0.0, 10.0, 0.0, 10.0), strict=True))
    y = np.array([effect[code] for code in codes]) + 0.01 * rng.normal(size=n)
    return pd.DataFrame({"code": codes, "noise": rng.normal(size=n)}), y


def test_codes_that_differ_by_a_zero_are_two_categories():
    X, y = _coded_rows()
    model = TabularRegressor(max_evaluations=0).fit(X, y)
    assert model.score(X, y) > 0.99
    predictions = model.predict(pd.DataFrame({"code": ["01", "1"], "noise": [0.0, 0.0]}))
    np.testing.assert_allclose(predictions, [0.0, 10.0], atol=1.0)


def test_a_file_has_the_codes_of_its_cells(tmp_path, capsys):
    X, y = _coded_rows()
    X.assign(y=y).to_csv(tmp_path / "codes.csv", index=False)
    assert main(["fit", str(tmp_path / "codes.csv"), "--target", "y", "--max-evaluations", "0"]) == 0
    assert "one-hot: code (4 categories)" in capsys.readouterr().out


def test_many_codes_are_refused_with_what_to_write():
    X = pd.DataFrame({"number": [f"{k:03d}" for k in range(40)], "x": np.arange(40.0)})
    with pytest.raises(
        DataError, match=r"leading zeros.*categories=\['number'\].*drop=\['number'\].*without the zeros"
    ):
        TabularRegressor().fit(X, np.arange(40.0))


def test_integers_without_leading_zeros_and_decimals_stay_numbers():
    y = np.linspace(0.0, 1.0, 40)
    for cells in (["0", "1", "10", "100"], ["0.5", "00.25", "1.5", "2.5"]):
        model = TabularRegressor(max_evaluations=0).fit(pd.DataFrame({"x": cells * 10, "z": np.arange(40.0)}), y)
        assert model.preparation_.features == ("x", "z")


def test_codes_of_a_target_are_classes():
    X, _ = _coded_rows()
    model = TabularClassifier(max_evaluations=0, categories=["code"]).fit(X, X["code"].to_numpy())
    assert model.classes_.tolist() == sorted(CODES)
    assert (model.predict(X) == X["code"].to_numpy()).all()
