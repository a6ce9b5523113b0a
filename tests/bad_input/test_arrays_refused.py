"""Rows, targets, labels and weights that cannot be learnt from are refused, and the model stays unfitted."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from every_model import (
    CLASSIFIERS,
    SIGMA,
    assert_unfitted,
    make_data,
    make_estimator,
    output,
    over_all_weighted,
    over_estimators,
    over_numbers,
    over_rows,
    parameters_of,
)
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import is_classifier
from spoilt_values import dates, with_entry

from problems import FusedL1SubstrateRegressor, LSSVMClassifier, LSSVMRegressor, NARXRegressor
from substrate.errors import DataError
from substrate.kernels import RBF

BAD_X = {
    "NaN": (lambda X: with_entry(X, np.nan), "X.*NaN"),
    "infinity": (lambda X: with_entry(X, np.inf), "X.*inf"),
    "minus infinity": (lambda X: with_entry(X, -np.inf), "X.*inf"),
    "overflow of float16": (lambda X: with_entry(X.astype(np.float16), np.inf), "X.*inf"),
    "overflow of float32": (lambda X: with_entry(X.astype(np.float32), np.inf), "X.*inf"),
    "NaN in a sparse matrix": (lambda X: sp.csr_matrix(with_entry(X, np.nan)), "X.*NaN"),
    "NaN in a frame": (lambda X: pd.DataFrame(with_entry(X, np.nan)), "X.*NaN"),
    "None in a frame": (lambda X: pd.DataFrame(X, dtype="Float64").mask(pd.DataFrame(X) > 0), "X.*NaN"),
    "a null in a polars frame": (lambda X: pl.DataFrame({"a": [None, *X[1:, 0]], "b": X[:, 1]}), "X.*NaN"),
    "None inside": (lambda X: with_entry(X, None, object), "X.*NaN|None"),
    "None": (lambda X: None, "X|2D"),
    "numbers as strings": (lambda X: X.astype(str), "string|str|real numbers"),
    "lists of strings": (lambda X: X.astype(str).tolist(), "string|str|real numbers"),
    "numbers as bytes": (lambda X: X.astype("S"), "string|bytes|real numbers"),
    "a frame of strings": (lambda X: pd.DataFrame(X.astype(str)), "string|str|real numbers"),
    "a polars frame of strings": (lambda X: pl.DataFrame(X.astype(str)), "string|str|real numbers"),
    "words": (lambda X: np.full(X.shape, "word"), "string|str|real numbers"),
    "one column of words": (lambda X: pd.DataFrame({"a": X[:, 0], "b": "word"}), "string|str|real numbers"),
    "complex": (lambda X: X + 0j, "[Cc]omplex"),
    "no rows": (lambda X: X[:0], "0 sample"),
    "no columns": (lambda X: X[:, :0], "0 feature"),
    "one dimension": (lambda X: X[:, 0], "2D|2-D"),
    "three dimensions": (lambda X: X[:, :, None], "dim 3|3D|3-D"),
    "a scalar": (lambda X: 3.0, "2D|2-D"),
    "dates": (lambda X: dates(X.size).reshape(X.shape), "X.*dates"),
    "durations": (lambda X: (dates(X.size) - dates(1)).reshape(X.shape), "X.*dates"),
    "lists of dates": (lambda X: [[date] for date in dates(len(X))], "dates"),
    "a frame with a date": (lambda X: pd.DataFrame({"a": X[:, 0], "b": dates(len(X))}), "X.*dates"),
    "a frame with a zoned date": (
        lambda X: pd.DataFrame({"a": X[:, 0], "b": pd.date_range("2020", periods=len(X), tz="UTC")}),
        "X.*dates",
    ),
    "a frame with a duration": (
        lambda X: pd.DataFrame({"a": X[:, 0], "b": dates(len(X)) - dates(1)}),
        "X.*dates",
    ),
    "a polars frame with a date": (
        lambda X: pl.DataFrame({"a": X[:, 0], "b": [datetime.date(2020, 1, 1)] * len(X)}),
        "X.*dates",
    ),
    "a polars frame with a time": (
        lambda X: pl.DataFrame({"a": X[:, 0], "b": [datetime.datetime(2020, 1, 1)] * len(X)}),
        "X.*dates",
    ),
    "a polars frame with a duration": (
        lambda X: pl.DataFrame({"a": X[:, 0], "b": [datetime.timedelta(1)] * len(X)}),
        "X.*dates",
    ),
    "a masked array": (lambda X: np.ma.array(X, mask=X > 0), "X.*mask"),
    "a masked array without a mask": (lambda X: np.ma.array(X), "X.*mask"),
}
#: Refused as well, but scikit-learn's checks want a TypeError for some of them.
BAD_OBJECTS_X = {
    "a dictionary inside": lambda X: with_entry(X, {"a": 1}, object),
    "date objects": lambda X: [[datetime.datetime(2020, 1, 1)]] * len(X),
    "ragged rows": lambda X: [[1.0], [1.0, 2.0], *([[1.0]] * (len(X) - 2))],
}


@over_rows
@pytest.mark.parametrize("case", BAD_X)
def test_bad_rows_are_refused_by_fit(estimator, case):
    X, y = make_data(estimator)
    change, message = BAD_X[case]
    given = change(X)
    rows = len(y) if given is None or np.isscalar(given) else given.shape[0] if hasattr(given, "shape") else len(given)
    model = make_estimator(estimator)
    with pytest.raises(ValueError, match=message):
        model.fit(given, y[:rows])
    assert_unfitted(model)


@over_estimators
@pytest.mark.parametrize("case", [name for name in BAD_X if "frame" not in name and "column" not in name])
def test_bad_rows_are_refused_by_predict(estimator, case):
    X, y = make_data(estimator)
    model = make_estimator(estimator).fit(X, y)
    expected = output(model, X)
    with pytest.raises(ValueError):  # noqa: PT011  the message of fit, or of the wrong width
        model.predict(BAD_X[case][0](X))
    assert_array_equal(output(model, X), expected)


@over_estimators
def test_one_row_is_too_few_and_two_are_enough(estimator):
    X, y = make_data(estimator)
    two = [int(np.argmin(y == y[0])) if is_classifier(estimator()) else 1, 0]
    with pytest.raises(ValueError, match=r"minimum of 2|at least two|1 sample|n_samples=1"):
        make_estimator(estimator).fit(X[:1], y[:1])
    if parameters_of(estimator).get("cv", "none") is None:  # some of the rows would validate
        with pytest.raises(DataError, match="has 1 training and 1 validation rows of 2"):
            make_estimator(estimator).fit(X[two], y[two])
        model = make_estimator(estimator).fit(X[two], y[two], X[2:6], y[2:6])
    else:
        model = make_estimator(estimator).fit(X[two], y[two])
    assert np.isfinite(output(model, X)).all()


BAD_Y = {
    "NaN": (lambda y: with_entry(y, np.nan), "NaN"),
    "infinity": (lambda y: with_entry(y, np.inf), "inf"),
    "too short": (lambda y: y[:-1], "inconsistent|length|entr"),
    "too long": (lambda y: np.append(y, y[0]), "inconsistent|length|entr"),
    "empty": (lambda y: y[:0], "inconsistent|length|entr|0 sample"),
    "None": (lambda y: None, "y"),
    "None inside": (lambda y: with_entry(y, None, object), "NaN|None"),
    "complex": (lambda y: y + 0j, "[Cc]omplex"),
    "three dimensions": (lambda y: y[:, None, None], "dim 3|3D|3-D|shape"),
}
DISGUISED_Y = {
    "dates": (lambda y: dates(len(y)), "y.*dates"),
    "durations": (lambda y: dates(len(y)) - dates(1), "y.*dates"),
    "a list of dates": (lambda y: list(dates(len(y))), "dates"),
    "a series of dates": (lambda y: pd.Series(dates(len(y))), "y.*dates"),
    "a series of zoned dates": (lambda y: pd.Series(pd.date_range("2020", periods=len(y), tz="UTC")), "y.*dates"),
    "a series of durations": (lambda y: pd.Series(dates(len(y)) - dates(1)), "y.*dates"),
    "a polars series of dates": (lambda y: pl.Series([datetime.date(2020, 1, 1)] * len(y)), "y.*dates"),
    "a polars series of times": (lambda y: pl.Series([datetime.datetime(2020, 1, 1)] * len(y)), "y.*dates"),
    "a masked array": (lambda y: np.ma.array(y), "y.*mask"),
    "sparse": (lambda y: sp.csr_matrix(np.arange(1.0, len(y) + 1.0)[:, None]), "[Ss]parse"),
    "sparse with two columns": (lambda y: sp.csr_array(np.ones((len(y), 2))), "[Ss]parse"),
}
STRINGS_Y = {
    "numbers as strings": (lambda y: y.astype(str), "string|str|real numbers"),
    "strings as objects": (lambda y: y.astype(str).astype(object), "string|str|real numbers"),
    "a list of strings": (lambda y: y.astype(str).tolist(), "string|str|real numbers"),
    "a series of strings": (lambda y: pd.Series(y.astype(str)), "string|str|real numbers"),
    "words": (lambda y: np.full(y.size, "word"), "string|str|real numbers"),
}


@over_numbers
@pytest.mark.parametrize("case", BAD_Y | DISGUISED_Y | STRINGS_Y)
def test_bad_targets_are_refused(estimator, case):
    X, y = make_data(estimator)
    change, message = (BAD_Y | DISGUISED_Y | STRINGS_Y)[case]
    model = make_estimator(estimator)
    with pytest.raises((ValueError, TypeError) if "sparse" in case else ValueError, match=message):
        model.fit(X, change(y))
    assert_unfitted(model)


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize("case", ["too short", "too long", "empty", "None", *DISGUISED_Y])
def test_bad_labels_are_refused(estimator, case):
    X, y = make_data(estimator)
    change, message = (BAD_Y | DISGUISED_Y)[case]
    model = make_estimator(estimator)
    with pytest.raises((ValueError, TypeError) if "sparse" in case else ValueError, match=message):
        model.fit(X, change(y))
    assert_unfitted(model)


def make_series():
    return NARXRegressor(LSSVMRegressor(RBF(SIGMA)), lags=2, inputs=1)


#: A series of one input may be a vector.
BAD_INPUTS = {**{name: change for name, (change, _) in BAD_X.items() if name != "one dimension"}, **BAD_OBJECTS_X}


@pytest.mark.parametrize("case", BAD_INPUTS)
def test_bad_inputs_of_a_series_are_refused(case):
    X, y = make_data(LSSVMRegressor)
    given = BAD_INPUTS[case](X)
    model = make_series()
    with pytest.raises(ValueError, match=r"\bX\b|inputs"):
        model.fit(given, y)
    assert_unfitted(model)
    with pytest.raises(ValueError, match=r"\bX\b|inputs"):
        make_series().fit(X, y).forecast(len(X), given)


@pytest.mark.parametrize("case", BAD_Y | DISGUISED_Y | STRINGS_Y)
def test_bad_series_are_refused(case):
    X, y = make_data(LSSVMRegressor)
    given = (BAD_Y | DISGUISED_Y | STRINGS_Y)[case][0](y)
    model = make_series()
    with pytest.raises(ValueError, match=r"\by\b|outputs"):
        model.fit(X, given)
    assert_unfitted(model)
    if case not in ("too short", "too long"):
        model = make_series().fit(X, y)
        with pytest.raises(ValueError, match=r"\by\b|outputs"):
            model.forecast(3, X[:3], history=(X, given))
        assert_array_equal(model.forecast(3, X[:3]), make_series().fit(X, y).forecast(3, X[:3]))


# labels by turns cannot be learnt, and the chosen weight may lie where rounding decides
@pytest.mark.filterwarnings("ignore:.*certificate does not hold:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_labels(estimator):
    X, y = make_data(estimator)
    first = output(make_estimator(estimator).fit(X, y), X)
    for names in (("a", "b"), (False, True), (-7, 12), (0, 1)):
        labels = np.where(y == "up", *reversed(names))
        model = make_estimator(estimator).fit(X, labels)
        assert_array_equal(model.classes_, sorted(names))
        assert set(model.predict(X)) <= set(names)
        # "down" < "up" and each pair is in the same order
        assert_allclose(output(model, X), first, atol=1e-12)
    with pytest.raises(ValueError, match="class"):
        make_estimator(estimator).fit(X, np.full(len(X), "only"))
    with pytest.raises(ValueError, match=r"[Uu]nknown label type|continuous"):
        make_estimator(estimator).fit(X, np.linspace(0.0, 1.0, len(X)))
    three = make_estimator(estimator).fit(X, np.arange(len(X)) % 3)
    assert_array_equal(three.classes_, [0, 1, 2])
    assert three.decision_function(X).shape == (len(X), 3)


BAD_WEIGHTS = {
    "NaN": (lambda w: with_entry(w, np.nan), "NaN"),
    "infinity": (lambda w: with_entry(w, np.inf), "inf"),
    "negative": (lambda w: with_entry(w, -1.0), "[Nn]egative"),
    "all zero": (lambda w: 0.0 * w, "zero|positive weight"),
    "one positive": (lambda w: with_entry(0.0 * w, 1.0), "positive weight|two rows|class"),
    "too short": (lambda w: w[:-1], "shape|length|entr|inconsistent"),
    "too long": (lambda w: np.append(w, 1.0), "shape|length|entr|inconsistent"),
    "two dimensions": (lambda w: w[:, None] * w, "1D|1-D|dim"),
    "strings": (lambda w: w.astype(str), "string|str|real numbers"),
    "complex": (lambda w: w + 0j, "[Cc]omplex"),
    "dates": (lambda w: dates(w.size), "sample_weight.*dates"),
    "masked": (lambda w: np.ma.array(w), "sample_weight.*mask"),
    "out of range": (lambda w: with_entry(w, 5e-324), "floating point"),
}


@over_all_weighted
@pytest.mark.parametrize("case", BAD_WEIGHTS)
def test_bad_weights_are_refused(estimator, case):
    X, y = make_data(estimator)
    change, message = BAD_WEIGHTS[case]
    model = make_estimator(estimator)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, sample_weight=change(np.ones(len(y))))
    assert_unfitted(model)


@over_estimators
def test_paths_are_refused_with_what_reads_them(estimator, tmp_path):
    X, y = make_data(estimator)
    np.save(tmp_path / "X.npy", X)
    for path in (tmp_path / "X.npy", str(tmp_path / "X.npy")):
        with pytest.raises(DataError, match=r"files are not read here; give its rows, numpy\.load"):
            make_estimator(estimator).fit(path, y)


def test_missing_cells_are_refused_with_what_fills_them_in():
    """In a fit, at new rows and in validation rows; a precomputed matrix has no cells of a table."""
    X, y = np.random.default_rng(0).normal(size=(12, 2)), np.arange(12.0)
    spoilt = with_entry(X, np.nan)
    regressor = r"X contains NaN.*SimpleImputer\(.*problems\.tables\.TabularRegressor\(impute='median'\)"
    model = LSSVMRegressor(RBF(1.0)).fit(X, y)
    with pytest.raises(DataError, match=regressor):
        model.predict(spoilt)
    with pytest.raises(DataError, match=regressor):
        LSSVMRegressor(RBF(1.0)).fit(spoilt, y)
    with pytest.raises(DataError, match=r"X_val contains NaN.*TabularRegressor"):
        FusedL1SubstrateRegressor(RBF(1.0)).fit(X, y, X_val=spoilt, y_val=y)
    with pytest.raises(DataError, match=r"X contains NaN.*TabularClassifier"):
        LSSVMClassifier(RBF(1.0)).fit(spoilt, y > 5.0)
    K = with_entry(X @ X.T, np.nan)
    with pytest.raises(ValueError, match="NaN") as refused:
        LSSVMRegressor("precomputed").fit(K, y)
    assert "Tabular" not in str(refused.value)
