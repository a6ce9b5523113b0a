"""Bad input and faults, and the answer each must get, over every estimator and every declared problem there is.

Estimators, ``declare`` and ``closed_form`` functions are found by walking the package, so a new model is put through
the whole list by being exported.
"""

import copy
import datetime
import importlib.util
import inspect
import json
import os
import pickle
import subprocess
import sys
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

import problems
from problems.command_line.verify import problem_modules
from substrate.arrays import memory_limit
from substrate.errors import (
    DataError,
    DeclarationError,
    DegenerateKernelWarning,
    IndefiniteKernelWarning,
    SolverError,
    SubstrateError,
)
from substrate.kernels import RBF, Componentwise, Laplacian, Linear, Matern, Precomputed
from substrate.solvers import ORDER, installed_solvers

SIGMA = 1.5


# --- the walk -------------------------------------------------------------------------------------------------------


def exported_estimators():
    exported = [getattr(problems, name) for name in problems.__all__]
    return [thing for thing in exported if inspect.isclass(thing) and issubclass(thing, BaseEstimator)]


def parameters_of(estimator):
    return estimator().get_params(deep=False)


ESTIMATORS = exported_estimators()
WEIGHTED = [estimator for estimator in ESTIMATORS if has_fit_parameter(estimator, "sample_weight")]
KERNELED = [estimator for estimator in ESTIMATORS if "kernel" in parameters_of(estimator)]
#: Those that take a matrix for a kernel; an additive machine needs inputs to take apart.
PAIRWISE = [e for e in KERNELED if e(kernel="precomputed").__sklearn_tags__().input_tags.pairwise]
WITH_GAMMA = [estimator for estimator in ESTIMATORS if "gamma" in parameters_of(estimator)]
#: Those that can solve the declared problem; the sparse ones choose between closed forms only.
WITH_SOLVER = [e for e in ESTIMATORS if "solver" in parameters_of(e) and not e.__name__.startswith("SparseLSSVM")]
REGRESSORS = [estimator for estimator in ESTIMATORS if is_regressor(estimator())]
CLASSIFIERS = [estimator for estimator in ESTIMATORS if is_classifier(estimator())]
MULTI_OUTPUT = [e for e in REGRESSORS if e().__sklearn_tags__().target_tags.multi_output]
MODULES = problem_modules()
WITH_CLOSED_FORM = {name: module for name, module in MODULES.items() if hasattr(module, "closed_form")}
#: Everything that takes (K, y, parameters).
FUNCTIONS = {
    **{f"{name}.declare": (module.declare, module) for name, module in MODULES.items()},
    **{f"{name}.closed_form": (module.closed_form, module) for name, module in WITH_CLOSED_FORM.items()},
}

over_estimators = pytest.mark.parametrize("estimator", ESTIMATORS)
over_weighted = pytest.mark.parametrize("estimator", WEIGHTED)
over_kerneled = pytest.mark.parametrize("estimator", KERNELED)
over_pairwise = pytest.mark.parametrize("estimator", PAIRWISE)
over_regressors = pytest.mark.parametrize("estimator", REGRESSORS)
over_functions = pytest.mark.parametrize("function", FUNCTIONS)
over_modules = pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)


def test_the_walk_finds_estimators_and_problems():
    assert ESTIMATORS
    assert KERNELED
    assert {"ls_svm_regression.declare", "ls_svm_regression.closed_form"} <= set(FUNCTIONS)
    assert set(REGRESSORS) | set(CLASSIFIERS) == set(ESTIMATORS)


def make_data(estimator, n=24, columns=3, seed=0):
    """Rows and a target or labels that suit the estimator."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns))
    signal = np.sin(2.0 * X[:, 0]) + (X[:, 1:2] ** 2).sum(axis=1)
    if is_classifier(estimator()):
        return X, np.where(signal > np.median(signal), "up", "down")
    return X, signal + 0.1 * rng.normal(size=n)


def seeded(estimator, **parameters):
    """An estimator that makes the same random choices every time, where it makes any."""
    if "random_state" in parameters_of(estimator):
        parameters.setdefault("random_state", 0)
    return estimator(**parameters)


def made(estimator, **parameters):
    """An estimator with a fixed kernel where it has one, so that its width does not hide what is tested."""
    if "kernel" in parameters_of(estimator):
        parameters.setdefault("kernel", RBF(SIGMA))
    return seeded(estimator, **parameters)


def in_units(estimator, factor):
    """The parameters that are measured in the units of the target, for a target multiplied by the factor."""
    own = parameters_of(estimator)
    return {name: abs(factor) * own[name] for name in ("zeta", "c", "rho") if name in own}


def first_rows(parameters, rows):
    """The arguments of a declaration for some of the training rows: validation points are compared with those only."""
    return parameters | {"K_val": parameters["K_val"][:, rows]} if "K_val" in parameters else parameters


def output(model, X):
    """The numbers a fitted model computes."""
    return model.decision_function(X) if is_classifier(model) else model.predict(X)


def arguments_of(module, n=12, seed=3):
    """A small kernel matrix, a target or labels, and the parameters of the demonstration."""
    rng = np.random.default_rng(seed)
    case = module.DEMONSTRATION.cases[0]
    rows = 2 * n if case.validation else n  # every other row validates
    X = rng.normal(size=(rows, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=rows)
    if case.task == "classification":
        y = y > np.median(y)
    arguments = replace(case, kernel=RBF(SIGMA), every=1, standardize=False).arguments(X, y)
    return arguments.pop("K"), arguments.pop("y"), arguments


def assert_unfitted(model):
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    left = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    assert left <= {"n_features_in_", "feature_names_in_"}


# --- arrays: refused ------------------------------------------------------------------------------------------------


def with_entry(values, entry, dtype=None):
    changed = np.array(values, dtype=dtype)
    changed[(3,) + (0,) * (changed.ndim - 1)] = entry
    return changed


def dates(n):
    return np.datetime64("2020-01-01") + np.arange(n)


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


@over_estimators
@pytest.mark.parametrize("case", BAD_X)
def test_bad_rows_are_refused_by_fit(estimator, case):
    X, y = make_data(estimator)
    change, message = BAD_X[case]
    given = change(X)
    rows = len(y) if given is None or np.isscalar(given) else given.shape[0] if hasattr(given, "shape") else len(given)
    model = made(estimator)
    with pytest.raises(ValueError, match=message):
        model.fit(given, y[:rows])
    assert_unfitted(model)


@over_estimators
@pytest.mark.parametrize("case", BAD_OBJECTS_X)
def test_objects_in_rows_are_refused_by_fit(estimator, case):
    X, y = make_data(estimator)
    model = made(estimator)
    with pytest.raises((ValueError, TypeError)):
        model.fit(BAD_OBJECTS_X[case](X), y)
    assert_unfitted(model)


@over_estimators
@pytest.mark.parametrize("case", [name for name in BAD_X if "frame" not in name and "column" not in name])
def test_bad_rows_are_refused_by_predict(estimator, case):
    X, y = make_data(estimator)
    model = made(estimator).fit(X, y)
    expected = output(model, X)
    with pytest.raises(ValueError):  # noqa: PT011  the words are those of fit, or of the wrong width
        model.predict(BAD_X[case][0](X))
    assert_array_equal(output(model, X), expected)


@over_estimators
def test_one_row_is_too_few_and_two_are_enough(estimator):
    X, y = make_data(estimator)
    two = [int(np.argmin(y == y[0])) if is_classifier(estimator()) else 1, 0]
    with pytest.raises(ValueError, match=r"minimum of 2|at least two|1 sample|n_samples=1"):
        made(estimator).fit(X[:1], y[:1])
    if "gap" in parameters_of(estimator) and "validation_fraction" in parameters_of(estimator):
        with pytest.raises(DataError, match="would train on 1 row"):  # the other one would validate
            made(estimator).fit(X[two], y[two])
        model = made(estimator).fit(X[two], y[two], X[2:6], y[2:6])
    else:
        model = made(estimator).fit(X[two], y[two])
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


@over_regressors
@pytest.mark.parametrize("case", BAD_Y | DISGUISED_Y | STRINGS_Y)
def test_bad_targets_are_refused(estimator, case):
    X, y = make_data(estimator)
    change, message = (BAD_Y | DISGUISED_Y | STRINGS_Y)[case]
    model = made(estimator)
    with pytest.raises((ValueError, TypeError) if "sparse" in case else ValueError, match=message):
        model.fit(X, change(y))
    assert_unfitted(model)


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize("case", ["too short", "too long", "empty", "None", *DISGUISED_Y])
def test_bad_labels_are_refused(estimator, case):
    X, y = make_data(estimator)
    change, message = (BAD_Y | DISGUISED_Y)[case]
    model = made(estimator)
    with pytest.raises((ValueError, TypeError) if "sparse" in case else ValueError, match=message):
        model.fit(X, change(y))
    assert_unfitted(model)


# labels by turns cannot be learnt, and the chosen weight may lie where rounding decides
@pytest.mark.filterwarnings("ignore:.*certificate does not hold:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_labels(estimator):
    X, y = make_data(estimator)
    first = output(made(estimator).fit(X, y), X)
    for names in (("a", "b"), (False, True), (-7, 12), (0, 1)):
        labels = np.where(y == "up", *reversed(names))
        model = made(estimator).fit(X, labels)
        assert_array_equal(model.classes_, sorted(names))
        assert set(model.predict(X)) <= set(names)
        # "down" < "up" and each pair is in the same order
        assert_allclose(output(model, X), first, atol=1e-12)
    with pytest.raises(ValueError, match="class"):
        made(estimator).fit(X, np.full(len(X), "only"))
    with pytest.raises(ValueError, match=r"[Uu]nknown label type|continuous"):
        made(estimator).fit(X, np.linspace(0.0, 1.0, len(X)))
    three = made(estimator).fit(X, np.arange(len(X)) % 3)
    assert_array_equal(three.classes_, [0, 1, 2])
    assert three.decision_function(X).shape == (len(X), 3)


@over_regressors
def test_a_column_is_read_as_a_vector_with_a_warning(estimator):
    X, y = make_data(estimator)
    with pytest.warns(DataConversionWarning, match="column-vector"):
        model = made(estimator).fit(X, y[:, None])
    assert model.predict(X).shape == y.shape
    assert_array_equal(model.predict(X), made(estimator).fit(X, y).predict(X))


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


@over_weighted
@pytest.mark.parametrize("case", BAD_WEIGHTS)
def test_bad_weights_are_refused(estimator, case):
    X, y = make_data(estimator)
    change, message = BAD_WEIGHTS[case]
    model = made(estimator)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, sample_weight=change(np.ones(len(y))))
    assert_unfitted(model)


# --- arrays: accepted, and never modified ---------------------------------------------------------------------------


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def on_disk(X, folder):
    mapped = np.memmap(folder / "X.dat", dtype=X.dtype, mode="w+", shape=X.shape)
    mapped[...] = X
    mapped.flush()
    return np.memmap(folder / "X.dat", dtype=X.dtype, mode="r", shape=X.shape)


def with_stored_zeros(X):
    matrix = sp.csr_matrix(X)
    matrix.data[::3] = 0.0
    return matrix


GOOD_X = {
    "float16": lambda X, _: X.astype(np.float16),
    "float32": lambda X, _: X.astype(np.float32),
    "long double": lambda X, _: X.astype(np.longdouble),
    "other byte order": lambda X, _: X.astype(">f8"),
    "int": lambda X, _: (10.0 * X).astype(int),
    "uint8": lambda X, _: (10.0 * np.abs(X)).astype(np.uint8),
    "bool": lambda X, _: X > 0.0,
    "objects that are numbers": lambda X, _: X.astype(object),
    "lists": lambda X, _: X.tolist(),
    "read-only": lambda X, _: read_only(X),
    "on disk": on_disk,
    "Fortran order": lambda X, _: np.asfortranarray(X),
    "every second row": lambda X, _: np.repeat(X, 2, axis=0)[::2],
    "every second column": lambda X, _: np.repeat(X, 2, axis=1)[:, ::2],
    "backwards": lambda X, _: X[::-1, ::-1],
    "csr": lambda X, _: sp.csr_matrix(X * (X > 0.0)),
    "csc": lambda X, _: sp.csc_matrix(X * (X > 0.0)),
    "coo": lambda X, _: sp.coo_matrix(X * (X > 0.0)),
    "lil": lambda X, _: sp.lil_matrix(X * (X > 0.0)),
    "csr array": lambda X, _: sp.csr_array(X * (X > 0.0)),
    "coo array": lambda X, _: sp.coo_array(X * (X > 0.0)),
    "sparse float32": lambda X, _: sp.csr_matrix((X * (X > 0.0)).astype(np.float32)),
    "sparse int": lambda X, _: sp.csr_matrix((10.0 * X).astype(int)),
    "sparse with stored zeros": lambda X, _: with_stored_zeros(X),
    "sparse and empty": lambda X, _: sp.csr_matrix(X.shape),
    "pandas": lambda X, _: pd.DataFrame(X, columns=list("abc")),
    "pandas with nullable columns": lambda X, _: pd.DataFrame(X, columns=list("abc")).astype("Float64"),
    "pandas, mixed": lambda X, _: pd.DataFrame({"a": X[:, 0], "b": X[:, 1] > 0.0, "c": (9 * X[:, 2]).astype(int)}),
    "polars": lambda X, _: pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]}),
}


def plain(X):
    if sp.issparse(X):
        return X.toarray().astype(np.float64)
    return np.array(X.to_numpy() if hasattr(X, "to_numpy") else X, dtype=np.float64)


@over_estimators
@pytest.mark.parametrize("solver", ["auto", "cvxpy"])
@pytest.mark.parametrize("case", GOOD_X)
def test_rows_of_many_kinds(estimator, case, solver, tmp_path):
    if solver != "auto" and (estimator not in WITH_SOLVER or case not in ("csr array", "float32", "polars")):
        pytest.skip("the declared problem is tried on a few kinds only, where there is a choice")
    choice = {"solver": solver} if estimator in WITH_SOLVER else {}
    X, y = make_data(estimator)
    given = GOOD_X[case](X, tmp_path)
    before = pickle.dumps(plain(given))
    model = made(estimator, **choice).fit(given, y)
    predicted = output(model, given)
    assert pickle.dumps(plain(given)) == before
    if "certificate_" in vars(model):
        assert model.certificate_.holds
    expected = output(made(estimator).fit(plain(given), y), plain(given))
    assert_allclose(predicted, expected, atol=1e-6 * np.ptp(predicted))
    if case.startswith(("pandas", "polars")):
        assert_array_equal(model.feature_names_in_, list("abc"))


@over_estimators
@pytest.mark.parametrize(
    "kind",
    [list, tuple, pd.Series, pl.Series, read_only, lambda y: np.repeat(y, 2)[::2], lambda y: y.astype(object)],
    ids=["list", "tuple", "pandas", "polars", "read-only", "every second", "objects"],
)
def test_y_of_many_kinds(estimator, kind):
    X, y = make_data(estimator)
    given = kind(y)
    before = list(given)
    model = made(estimator).fit(X, given)
    assert list(given) == before
    assert_array_equal(output(model, X), output(made(estimator).fit(X, y), X))


@over_regressors
@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool, np.uint8])
def test_y_of_many_types(estimator, dtype):
    X, y = make_data(estimator)
    given = (10.0 * np.abs(y)).astype(dtype)
    expected = made(estimator).fit(X, given.astype(np.float64)).predict(X)
    assert_array_equal(made(estimator).fit(X, given).predict(X), expected)


@over_weighted
@pytest.mark.parametrize("kind", [list, pd.Series, pl.Series, read_only, lambda w: w.astype(np.float32)])
def test_weights_of_many_kinds(estimator, kind):
    X, y = make_data(estimator)
    weights = 1.0 + np.arange(len(y)) % 4
    given = kind(weights)
    model = made(estimator).fit(X, y, sample_weight=given)
    assert list(given) == list(weights)
    assert_array_equal(output(model, X), output(made(estimator).fit(X, y, sample_weight=weights), X))


@over_estimators
def test_a_fitted_model_keeps_no_hold_on_its_data(estimator):
    X, y = make_data(estimator)
    model = made(estimator).fit(X, y)
    expected = output(model, X.copy())
    probe = X.copy()
    X[...] = 7.0
    y[...] = y[0]
    assert_array_equal(output(model, probe), expected)


@over_pairwise
def test_precomputed_matrices_are_not_modified(estimator):
    X, y = make_data(estimator)
    K = RBF(SIGMA)(X)
    given = K.copy()
    model = made(estimator, kernel=Precomputed()).fit(given, y)
    predicted = output(model, given)
    assert_array_equal(given, K)
    given[...] = 0.0
    assert_array_equal(output(model, K), predicted)
    assert_allclose(predicted, output(made(estimator).fit(X, y), X), atol=1e-10)
    sparse = made(estimator, kernel=Precomputed()).fit(sp.csr_matrix(K), y)
    assert_array_equal(output(sparse, sp.csr_matrix(K)), predicted)


@over_estimators
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_are_known_by_name(estimator, frame):
    X, y = make_data(estimator)
    table = frame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
    model = made(estimator).fit(table, y)
    assert_array_equal(model.feature_names_in_, ["a", "b", "c"])
    with pytest.raises(ValueError, match="must be in the same order"):
        model.predict(table[["c", "a", "b"]])
    with pytest.raises(ValueError, match="Feature names seen at fit time, yet now missing"):
        model.predict(table[["a", "b"]])
    with pytest.raises(ValueError, match="Feature names unseen at fit time"):
        model.predict(frame({"a": X[:, 0], "b": X[:, 1], "other": X[:, 2]}))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)


@over_estimators
def test_another_width_is_refused(estimator):
    X, y = make_data(estimator)
    model = made(estimator).fit(X, y)
    for other in (X[:, :2], np.hstack([X, X]), sp.csr_matrix(X[:, :1])):
        with pytest.raises(ValueError, match=f"X has {other.shape[1]} features, but .* is expecting 3"):
            model.predict(other)


@over_estimators
def test_predicting_before_fitting(estimator):
    X, y = make_data(estimator)
    readers = [name for name in ("predict", "decision_function", "predict_proba") if hasattr(estimator, name)]
    for name in readers:
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(made(estimator), name)(X)
    if hasattr(estimator, "certify"):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            made(estimator).certify(X, y)
    with pytest.raises(NotFittedError):
        made(estimator).score(X, y)


@over_estimators
def test_a_certificate_for_other_rows_is_refused_in_words(estimator):
    if not hasattr(estimator, "certify"):
        pytest.skip("nothing to certify again")
    X, y = make_data(estimator)
    model = made(estimator).fit(X, y)
    for rows in (7, len(y) // 2):
        with pytest.raises(DataError, match=r"support values|rows"):
            model.certify(X[::-1][:rows], y[::-1][:rows])


# --- weights --------------------------------------------------------------------------------------------------------


@over_weighted
@pytest.mark.parametrize("kernel", [RBF(SIGMA), RBF(), Laplacian(), Linear()], ids=repr)
@pytest.mark.parametrize("solver", ["auto", "cvxpy"])
def test_a_weight_counts_rows(estimator, kernel, solver):
    parameters = {"kernel": kernel} if estimator in KERNELED else {}
    parameters |= {"solver": solver} if estimator in WITH_SOLVER else {}
    X, y = make_data(estimator)
    times = np.arange(len(y)) % 3  # nought, once, twice
    weighted = seeded(estimator, **parameters).fit(X, y, sample_weight=times)
    repeated = seeded(estimator, **parameters).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    scale = np.ptp(output(repeated, X))
    assert_allclose(output(weighted, X), output(repeated, X), atol=(1e-10 if solver == "auto" else 1e-5) * scale)


@over_weighted
def test_rows_of_no_weight_leave_no_trace(estimator):
    X, y = make_data(estimator)
    weights = np.ones(len(y))
    weights[[2, 5]] = 0.0
    kept = weights > 0.0
    spoilt = X.copy()
    spoilt[[2, 5]] = 1e6
    model = seeded(estimator).fit(spoilt, y, sample_weight=weights)
    assert_array_equal(output(model, X), output(seeded(estimator).fit(X[kept], y[kept]), X))
    if estimator in PAIRWISE:
        K = RBF(SIGMA)(X)
        paired = seeded(estimator, kernel=Precomputed()).fit(K, y, sample_weight=weights)
        alone = seeded(estimator, kernel=Precomputed()).fit(K[kept][:, kept], y[kept])
        assert_array_equal(output(paired, K), output(alone, K[:, kept]))


@over_weighted
def test_a_common_weight_is_a_factor_of_gamma(estimator):
    if estimator not in WITH_GAMMA:
        pytest.skip("no gamma")
    X, y = make_data(estimator)
    weighted = made(estimator, gamma=1.0).fit(X, y, sample_weight=np.full(len(y), 4.0))
    assert_allclose(output(weighted, X), output(made(estimator, gamma=4.0).fit(X, y), X), rtol=1e-12)


# --- degenerate data ------------------------------------------------------------------------------------------------


@over_regressors
@pytest.mark.parametrize("solver", ["auto", "cvxpy"])
@pytest.mark.parametrize("constant", [0.0, 3.7, -1e8])
def test_a_constant_target_is_the_bias(estimator, solver, constant):
    X, _ = make_data(estimator)
    model = made(estimator, **({"solver": solver} if estimator in WITH_SOLVER else {}))
    model.fit(X, np.full(len(X), constant))
    exact = solver == "auto"
    assert_allclose(model.support_values_, 0.0, atol=0.0 if exact else 1e-6 * max(abs(constant), 1.0))
    rounding = len(X) * np.finfo(float).eps  # of a mean
    assert_allclose(model.bias_, constant, rtol=rounding if exact else 1e-6, atol=0.0 if exact else 1e-6)
    assert model.certificate_.holds


@over_estimators
@pytest.mark.parametrize("solver", ["auto", "cvxpy"])
@pytest.mark.filterwarnings("ignore::substrate.errors.DegenerateKernelWarning")
def test_degenerate_rows_work(estimator, solver):
    choice = {"solver": solver} if estimator in WITH_SOLVER else {}
    X, y = make_data(estimator)
    flat = X.copy()
    flat[:, 1] = 5.0
    twice = X.copy()
    twice[1::2] = twice[::2]  # different targets at the same place
    nought = np.zeros_like(X)
    cases = [(flat, RBF()), (np.ones_like(X), RBF()), (twice, RBF()), (twice, RBF(SIGMA)), (np.ones_like(X), Linear())]
    for rows, kernel in [*cases, (nought, Linear()), (nought, RBF())]:
        parameters = {"kernel": kernel} if estimator in KERNELED else {}
        model = seeded(estimator, **parameters, **choice).fit(rows, y)
        values = output(model, rows)
        assert np.isfinite(values).all()
        if np.ptp(rows) == 0.0:  # nothing to tell rows apart: everyone gets the same answer
            assert_allclose(values, values[0], atol=1e-12)
            if is_regressor(model) and "validation_fraction" not in parameters_of(estimator):
                kept = y[model.support_] if hasattr(model, "pruning_path_") else y  # rows may have been pruned
                if hasattr(model, "delta_"):  # Huber's location in place of the mean
                    kept = values + np.clip(y - values, -model.delta_, model.delta_)
                assert_allclose(values, np.average(kept, weights=getattr(model, "weights_", None)), atol=1e-6)
        if "certificate_" in vars(model):
            assert model.certificate_.holds, str(model.certificate_)


@pytest.mark.parametrize("estimator", WITH_GAMMA)
@pytest.mark.parametrize("gamma", [1e-8, 1e-4, 1e4, 1e8, 1e10])
@pytest.mark.parametrize("kernel", [RBF(SIGMA), RBF(30.0), Linear()], ids=repr)
def test_extreme_gamma_with_duplicates(estimator, gamma, kernel):
    X, y = make_data(estimator)
    X[1::2] = X[::2]
    if is_classifier(estimator()):
        y[1::2] = y[::2]
        y[:2] = "down", "up"
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", ConvergenceWarning)
        model = seeded(estimator, kernel=kernel, gamma=gamma).fit(X, y)
    assert np.isfinite(output(model, X)).all()
    # beyond a million support values may be so large that double precision cannot know the answer, and that is said
    told = gamma > 1e6 and any("the certificate does not hold" in str(one.message) for one in raised)
    assert model.certificate_.holds != told, str(model.certificate_)


def brief(value):
    return repr(value)[:20]


#: Parameters that may be nought or negative.
OF_ANY_SIGN = {"c"}
BAD_NUMBERS = [0, 0.0, -1.0, np.nan, np.inf, -np.inf, "1", "many", None, True, 1j, {}, [], 10**400]


@pytest.mark.parametrize("estimator", WITH_GAMMA)
@pytest.mark.parametrize("gamma", [*BAD_NUMBERS, [1.0, 2.0], [[1.0]], np.array([1.0, np.nan])], ids=brief)
def test_bad_gamma_is_refused(estimator, gamma):
    X, y = make_data(estimator)
    model = made(estimator, gamma=gamma)
    with pytest.raises(ValueError, match="gamma"):
        model.fit(X, y)
    assert_unfitted(model)


@pytest.mark.parametrize("estimator", WITH_GAMMA)
@pytest.mark.parametrize("gamma", [2, np.float32(2.0), np.int64(2), np.array(2.0), [2.0]], ids=repr)
def test_gamma_of_many_kinds(estimator, gamma):
    X, y = make_data(estimator)
    if estimator not in MULTI_OUTPUT and isinstance(gamma, list):
        pytest.skip("one gamma for each output is for regression with several")
    expected = output(made(estimator, gamma=2.0).fit(X, y), X)
    assert_array_equal(output(made(estimator, gamma=gamma).fit(X, y), X), expected)


@pytest.mark.parametrize("sigma", [0.0, -1.0, np.nan, np.inf, "mean", None, True, 1j, 10**400], ids=brief)
@pytest.mark.parametrize("kernel", [RBF, Laplacian, Matern])
def test_bad_sigma_is_refused(kernel, sigma):
    with pytest.raises(ValueError, match="sigma"):
        kernel(sigma=sigma)


#: The rows of what is chosen or cut by rounding where kernel values are nothing else.
CHOICES = ("gap of gamma", "predictions are the projection")


@over_kerneled
@pytest.mark.parametrize("kernel", [RBF, Laplacian, Matern])
@pytest.mark.parametrize("sigma", [1e-200, 1e-12, 1e7, 1e10, 1e200])
def test_a_sigma_that_tells_no_points_apart_warns_and_works(estimator, kernel, sigma):
    if kernel is not RBF and sigma == 1e7:
        pytest.skip("these kernels still tell points apart at this width")
    X, y = make_data(estimator)
    if estimator in PAIRWISE:  # for an additive machine it would be a component that is rightly constant
        X[:, 1] = 2.0  # a constant column, so that 0 / sigma occurs
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = seeded(estimator, kernel=kernel(sigma=sigma)).fit(X, y)
    assert {w.category for w in caught} <= {DegenerateKernelWarning, ConvergenceWarning}
    told = " ".join(str(w.message) for w in caught)
    assert ("is the identity" if sigma < 1.0 else "is constant") in told
    assert np.isfinite(output(model, X)).all()
    assert np.isfinite(output(model, X + 0.1)).all()
    # what tells the points apart is rounding of the kernel values, and a machine that rests on it cannot be known
    assert {row.name for row in model.certificate_.failures} <= (set() if sigma < 1.0 else {"accuracy", *CHOICES})
    assert ("certificate does not hold" in told) != model.certificate_.holds


@over_kerneled
@pytest.mark.parametrize("kernel", [RBF(), Laplacian(), Matern()], ids=repr)
@pytest.mark.parametrize("factor", [1e150, 1e-150])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_rows_on_an_extreme_scale(estimator, kernel, factor, form):
    X, y = make_data(estimator)
    model = seeded(estimator, kernel=kernel).fit(form(X * factor), y)
    expected = output(seeded(estimator, kernel=kernel).fit(X, y), X)
    assert_allclose(output(model, form(X * factor)), expected, rtol=1e-9, atol=1e-12)


@over_kerneled
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_rows_far_from_the_origin(estimator, form):
    X, y = make_data(estimator)
    X = np.round(X * 2**20) / 2**20
    far = X + 2.0**27  # about 1e8, and no digit is lost
    assert np.array_equal(far - 2.0**27, X)
    model = made(estimator).fit(form(far), y)
    assert_allclose(output(model, form(far)), output(made(estimator).fit(X, y), X), rtol=1e-9, atol=1e-11)


@over_kerneled
def test_a_linear_kernel_that_overflows_says_so(estimator):
    X, y = make_data(estimator)
    with pytest.raises(ValueError, match=r"overflows.*scale X"):
        seeded(estimator, kernel=Linear()).fit(X * 1e160, y)


@over_regressors
@pytest.mark.parametrize("solver", ["auto", "cvxpy"])
@pytest.mark.parametrize("factor", [1e12, 1e-12, -1.0])
def test_targets_on_an_extreme_scale(estimator, solver, factor):
    choice = {"solver": solver} if estimator in WITH_SOLVER else {}
    X, y = make_data(estimator)
    plain_model = made(estimator, **choice).fit(X, y)
    model = made(estimator, **choice, **in_units(estimator, factor)).fit(X, y * factor)
    assert model.certificate_.holds
    tolerance = 1e-10 if solver == "auto" else 1e-5
    assert_allclose(model.predict(X) / factor, plain_model.predict(X), atol=tolerance)
    largest = np.abs(plain_model.support_values_).max()
    assert_allclose(model.support_values_ / factor, plain_model.support_values_, atol=tolerance * largest)


@over_regressors
def test_a_target_far_from_nought(estimator):
    X, y = make_data(estimator)
    y = np.round(y * 2**20) / 2**20
    model = made(estimator).fit(X, y + 2.0**27)
    expected = made(estimator).fit(X, y)
    if hasattr(model, "validation_error_"):  # what is chosen feels the rounding of the target
        assert_allclose(output(model, X) - 2.0**27, output(expected, X), atol=1e-4)
    else:
        assert_allclose(model.support_values_, expected.support_values_, atol=1e-9)
        assert_allclose(model.bias_ - 2.0**27, expected.bias_, atol=1e-6)
    assert model.certificate_.holds


# --- kernels --------------------------------------------------------------------------------------------------------


def indefinite(n, smallest=-5.0):
    """A symmetric matrix with one eigenvalue far below nought."""
    rng = np.random.default_rng(9)
    Q, _ = np.linalg.qr(rng.normal(size=(n, n)))
    K = (Q * np.r_[smallest, np.linspace(1.0, 2.0, n - 1)]) @ Q.T
    return (K + K.T) / 2.0


@over_pairwise
def test_precomputed_matrices_of_wrong_shape_or_form(estimator):
    X, y = make_data(estimator)
    K = RBF(SIGMA)(X)
    for wrong in (K[:, :-1], np.hstack([K, K])):
        with pytest.raises(ValueError, match="square"):
            seeded(estimator, kernel=Precomputed()).fit(wrong, y)
    model = seeded(estimator, kernel=Precomputed()).fit(K, y)
    for wrong in (K[:, :-1], np.hstack([K, K]), K[:, 0]):
        with pytest.raises(ValueError, match=r"features|2D"):
            model.predict(wrong)
    lopsided = K.copy()
    lopsided[0, 1] += 0.01
    with pytest.raises(ValueError, match="not symmetric"):
        seeded(estimator, kernel=Precomputed()).fit(lopsided, y)
    rounded = K.copy()
    rounded[0, 1] += 1e-13
    model = seeded(estimator, kernel=Precomputed()).fit(rounded, y)
    assert "symmetrised" in str(model.certificate_)


def solves_the_saddle_system(model):
    """Whether its closed form factors a K + D that may be indefinite.

    Some are convex in the coefficients whatever K is, and those that choose gamma choose it so that K + D is definite.
    """
    title = model.certificate_.title
    return title.startswith("LS-SVM") and "gamma selected" not in title


@over_pairwise
def test_an_indefinite_matrix_warns_in_closed_form_and_is_recorded(estimator):
    _, y = make_data(estimator)
    K = indefinite(len(y))
    with pytest.warns(IndefiniteKernelWarning, match=r"smallest eigenvalue -5"):
        model = seeded(estimator, kernel=Precomputed()).fit(K, y)
    if not solves_the_saddle_system(model):
        assert "not positive semi-definite" in str(model.certificate_)
        return
    assert "indefinite factorisation" in str(model.certificate_)
    if is_regressor(model):
        system = np.block([[np.zeros((1, 1)), np.ones((1, len(y)))], [np.ones((len(y), 1)), K + np.eye(len(y))]])
        solution = np.linalg.solve(system, np.r_[0.0, y])
        assert_allclose(model.bias_, solution[0], rtol=1e-9)
        assert_allclose(model.support_values_, solution[1:], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("estimator", [e for e in WITH_SOLVER if e in PAIRWISE])
def test_an_indefinite_matrix_is_refused_by_the_declared_problem(estimator):
    _, y = make_data(estimator)
    model = seeded(estimator, kernel=Precomputed(), solver="cvxpy")
    with pytest.raises(DeclarationError, match=r"smallest eigenvalue is -5"):
        model.fit(indefinite(len(y)), y)
    assert_unfitted(model)


def wrong_shape(X, Z):
    return np.ones((len(X), len(Z) + 1))


def one_number(X, Z):
    return 1.0


def not_a_number(X, Z):
    return np.full((len(X), len(Z)), np.nan)


def raises(X, Z):
    raise ZeroDivisionError("no such luck")


def words(X, Z):
    return np.full((len(X), len(Z)), "word")


def nothing(X, Z):
    return None


@over_kerneled
@pytest.mark.parametrize("fault", [wrong_shape, one_number, not_a_number, raises, words, nothing])
def test_faulty_callable_kernels_are_named(estimator, fault):
    X, y = make_data(estimator)
    model = seeded(estimator, kernel=fault)
    with pytest.raises(DataError, match=f"kernel {fault.__name__}") as caught:
        model.fit(X, y)
    if fault is raises:
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert_unfitted(model)


@over_kerneled
def test_a_callable_kernel_works_like_the_kernel_it_computes(estimator):
    X, y = make_data(estimator)

    def radial(X, Z):
        return np.exp(-((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=-1) / SIGMA**2)

    expected = output(made(estimator).fit(X, y), X)
    for rows in (X, sp.csr_matrix(X)):
        assert_allclose(output(seeded(estimator, kernel=radial).fit(rows, y), rows), expected, rtol=1e-9)


@over_kerneled
@pytest.mark.parametrize("kernel", ["gaussian", 3, None, RBF, object()], ids=brief)
def test_what_is_no_kernel_is_refused(estimator, kernel):
    X, y = make_data(estimator)
    model = seeded(estimator, kernel=kernel)
    with pytest.raises(ValueError, match="kernel"):
        model.fit(X, y)
    assert_unfitted(model)


# --- declared problems and closed forms -----------------------------------------------------------------------------

BAD_K = {
    "NaN": (lambda K: with_entry(K, np.nan), "K.*NaN"),
    "infinity": (lambda K: with_entry(K, np.inf), "K.*(NaN|inf)"),
    "not square": (lambda K: K[:, :-1], "K.*square"),
    "not symmetric": (lambda K: with_entry(K, K[3, 0] + 0.1), "K.*symmetric"),
    "one dimension": (lambda K: K[0], "K.*2-D"),
    "three dimensions": (lambda K: K[None], "K.*2-D"),
    "no rows": (lambda K: K[:0, :0], "K.*empty"),
    "None": (lambda K: None, "K"),
    "strings": (lambda K: K.astype(str), "K.*real numbers"),
    "objects": (lambda K: K.astype(object), "K.*real numbers"),
    "complex": (lambda K: K + 0j, "K.*complex"),
    "dates": (lambda K: dates(K.size).reshape(K.shape), "K.*dates"),
    "masked": (lambda K: np.ma.array(K), "K.*mask"),
    "sparse": (lambda K: sp.csr_matrix(K), "K"),
}
BAD_DECLARED_Y = {
    "NaN": (lambda y: with_entry(y, np.nan), "y.*NaN"),
    "infinity": (lambda y: with_entry(y, np.inf), "y.*(NaN|inf)"),
    "too short": (lambda y: y[:-1], "y.*expected 12.*received 11"),
    "too long": (lambda y: np.append(y, y[0]), "y.*expected 12.*received 13"),
    "empty": (lambda y: y[:0], "y.*empty"),
    "a column": (lambda y: y[:, None], "y.*1-D"),
    "a scalar": (lambda y: 3.0, "y.*1-D"),
    "None": (lambda y: None, "y"),
    "strings": (lambda y: y.astype(str), "y.*real numbers"),
    "objects": (lambda y: y.astype(object), "y.*real numbers"),
    "complex": (lambda y: y + 0j, "y.*complex"),
    "dates": (lambda y: dates(y.size), "y.*dates"),
    "a list of dates": (lambda y: list(dates(y.size)), "y.*(dates|real numbers)"),
    "a series of dates": (lambda y: pd.Series(dates(y.size)), "y.*dates"),
    "masked": (lambda y: np.ma.array(y), "y.*mask"),
}
BAD_DECLARED_WEIGHTS = {
    "NaN": (lambda w: with_entry(w, np.nan), "weights.*NaN"),
    "infinity": (lambda w: with_entry(w, np.inf), "weights.*(NaN|inf)"),
    "negative": (lambda w: with_entry(w, -1.0), "weights.*negative"),
    "a zero": (lambda w: with_entry(w, 0.0), "weights.*positive"),
    "all zero": (lambda w: 0.0 * w, "weights.*positive"),
    "too short": (lambda w: w[:-1], "weights.*expected 12.*received 11"),
    "a column": (lambda w: w[:, None], "weights.*1-D"),
    "strings": (lambda w: w.astype(str), "weights.*real numbers"),
}


@over_functions
@pytest.mark.parametrize("case", BAD_K)
def test_bad_matrices_are_refused_by_name(function, case):
    call, module = FUNCTIONS[function]
    K, y, parameters = arguments_of(module)
    change, message = BAD_K[case]
    with pytest.raises(ValueError, match=message):
        call(change(K), y, **parameters)


@over_functions
@pytest.mark.parametrize("case", BAD_DECLARED_Y)
def test_bad_targets_are_refused_by_name(function, case):
    call, module = FUNCTIONS[function]
    K, y, parameters = arguments_of(module)
    change, message = BAD_DECLARED_Y[case]
    with pytest.raises(ValueError, match=message):
        call(K, change(y), **parameters)


@over_functions
@pytest.mark.parametrize("case", BAD_DECLARED_WEIGHTS)
def test_bad_weights_are_refused_by_name(function, case):
    call, module = FUNCTIONS[function]
    if "weights" not in inspect.signature(call).parameters:
        pytest.skip("no weights")
    K, y, parameters = arguments_of(module)
    change, message = BAD_DECLARED_WEIGHTS[case]
    with pytest.raises(ValueError, match=message):
        call(K, y, **parameters, weights=change(np.ones(y.size)))


@over_functions
@pytest.mark.parametrize("value", [*BAD_NUMBERS, np.array([1.0])], ids=brief)
def test_bad_parameters_are_refused_by_name(function, value):
    call, module = FUNCTIONS[function]
    K, y, parameters = arguments_of(module)
    numbers = [name for name, given in parameters.items() if isinstance(given, float)]
    numbers += [name for name in inspect.signature(call).parameters if name == "cutoff"]
    assert numbers
    for name in numbers:
        if name in OF_ANY_SIGN and not isinstance(value, bool) and value in (0, -1.0):
            continue
        with pytest.raises(ValueError, match=name):
            call(K, y, **parameters | {name: value})


@over_functions
def test_one_row_is_too_few_to_declare_and_two_are_enough(function):
    call, module = FUNCTIONS[function]
    K, y, parameters = arguments_of(module)
    two = [int(np.argmin(y)), int(np.argmax(y))]
    with pytest.raises(ValueError, match=r"two|2"):
        call(K[:1, :1], y[:1], **first_rows(parameters, [0]))
    result = call(K[np.ix_(two, two)], y[two], **first_rows(parameters, two))
    solution = result if isinstance(result, dict) else result.solve().solution()
    assert all(np.isfinite(value).all() for value in solution.values())


@over_modules
def test_an_unknown_form_is_refused(module):
    if "form" not in inspect.signature(module.declare).parameters:
        pytest.skip("one form only")
    K, y, parameters = arguments_of(module)
    for form in ("lagrangian", "", None, 1):
        with pytest.raises(DeclarationError, match="form"):
            module.declare(K, y, **parameters, form=form)


def forms(module):
    if "form" not in inspect.signature(module.declare).parameters:
        return [{}]
    return [dict(case.choice) for case in module.DEMONSTRATION.cases]


@over_modules
def test_an_indefinite_matrix_cannot_be_declared(module):
    _, y, parameters = arguments_of(module)
    for form in forms(module):
        with pytest.raises(DeclarationError, match=r"not positive semi-definite: its smallest eigenvalue is -5"):
            module.declare(indefinite(y.size), y, **parameters, **form)
        with pytest.raises(DeclarationError, match=r"smallest eigenvalue is -0\.001"):
            module.declare(indefinite(y.size, -0.001), y, **parameters, **form)


@pytest.mark.parametrize("module", WITH_CLOSED_FORM.values(), ids=WITH_CLOSED_FORM)
def test_an_indefinite_matrix_warns_in_the_closed_form(module):
    _, y, parameters = arguments_of(module)
    with pytest.warns(IndefiniteKernelWarning, match="smallest eigenvalue -5"):
        solution = module.closed_form(indefinite(y.size), y, **parameters)
    assert all(np.isfinite(value).all() for value in solution.values())


KINDS = {
    "list": lambda values: values.tolist(),
    "float32": lambda values: values.astype(np.float32),
    "read-only": read_only,
    "Fortran order": np.asfortranarray,
    "strided": lambda values: (
        np.repeat(np.repeat(values, 2, axis=0), 2, axis=-1)[::2, ::2] if values.ndim == 2 else np.repeat(values, 2)[::2]
    ),
    "pandas": lambda values: pd.DataFrame(values) if values.ndim == 2 else pd.Series(values),
    "polars": lambda values: pl.DataFrame(values) if values.ndim == 2 else pl.Series(values),
}


@over_functions
@pytest.mark.parametrize("kind", KINDS)
def test_matrices_of_many_kinds_are_read_and_not_modified(function, kind):
    call, module = FUNCTIONS[function]
    K, y, parameters = arguments_of(module)
    given = KINDS[kind](K), KINDS[kind](y)
    before = copy.deepcopy(given)

    def solved(K, y):
        result = call(K, y, **parameters)
        return result if isinstance(result, dict) else result.solve().solution()

    found, expected = solved(*given), solved(np.array(given[0], dtype=float), np.array(given[1], dtype=float))
    for name, value in expected.items():
        assert_allclose(found[name], value, rtol=1e-9, atol=1e-12)
    for now, then in zip(given, before, strict=True):
        assert_array_equal(np.asarray(now), np.asarray(then))


@over_modules
@pytest.mark.parametrize("matrix", [np.zeros, np.ones, lambda n: np.eye(n[0])], ids=["zeros", "ones", "identity"])
def test_degenerate_matrices_are_solved(module, matrix):
    _, y, parameters = arguments_of(module)
    K = matrix((y.size, y.size))
    expected = module.closed_form(K, y, **parameters) if hasattr(module, "closed_form") else None
    for form in forms(module):
        declared = module.declare(K, y, **parameters, **form).solve()
        certificate = declared.certificate(against=expected)
        assert certificate.holds, str(certificate)


@over_modules
def test_reading_comes_after_solving(module):
    K, y, parameters = arguments_of(module)
    for form in forms(module):
        declared = module.declare(K, y, **parameters, **form)
        for name in declared.values:
            with pytest.raises(DeclarationError, match=rf"call solve\(\) before reading '{name}'"):
                getattr(declared, name)
        for read in (declared.solution, declared.certificate):
            with pytest.raises(DeclarationError, match="call solve"):
                read()
        with pytest.raises(AttributeError, match="no_such_quantity"):
            declared.no_such_quantity  # noqa: B018


# --- solvers --------------------------------------------------------------------------------------------------------


def hide(monkeypatch, *modules):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in modules else find(name, *rest))


MODULE_OF = {"CLARABEL": "clarabel", "PIQP": "piqp", "OSQP": "osqp", "ECOS": "ecos", "SCS": "scs", "HIGHS": "highspy"}


def test_the_solvers_are_those_known_here():
    assert set(ORDER) == set(MODULE_OF)


@pytest.mark.parametrize("solver", ORDER)
def test_an_absent_solver_is_named_with_the_command_that_brings_it(monkeypatch, solver):
    hide(monkeypatch, MODULE_OF[solver])
    for estimator in WITH_SOLVER:
        X, y = make_data(estimator)
        model = made(estimator, solver=solver)
        with pytest.raises(SolverError, match=f"{solver} is not installed.*pip install {MODULE_OF[solver]}"):
            model.fit(X, y)
        assert_unfitted(model)
    for module in MODULES.values():
        K, y, parameters = arguments_of(module)
        with pytest.raises(SolverError, match=f"{solver} is not installed.*pip install"):
            module.declare(K, y, **parameters).solve(solver)


@over_modules
def test_the_next_solver_steps_in_for_an_absent_one(monkeypatch, module):
    K, y, parameters = arguments_of(module)
    there = installed_solvers()
    first = module.declare(K, y, **parameters).solve().solver_record
    assert [attempt.solver for attempt in first.attempts] == [there[0]]
    hide(monkeypatch, MODULE_OF[there[0]])
    second = module.declare(K, y, **parameters).solve()
    assert [attempt.solver for attempt in second.solver_record.attempts] == [there[1]]
    assert second.certificate().holds


@over_modules
def test_no_solver_at_all_is_an_error_with_the_command(monkeypatch, module):
    hide(monkeypatch, *MODULE_OF.values())
    K, y, parameters = arguments_of(module)
    with pytest.raises(SolverError, match="pip install"):
        module.declare(K, y, **parameters).solve()


@pytest.mark.parametrize("estimator", WITH_SOLVER)
def test_an_estimator_says_when_its_solver_did_not_converge(estimator, monkeypatch):
    import substrate.solvers

    X, y = make_data(estimator)
    short = substrate.solvers._SOLVERS["OSQP"]
    monkeypatch.setitem(
        substrate.solvers._SOLVERS, "OSQP", type(short)(short.module, short.package, {"max_iter": 1}, short.tolerance)
    )
    with pytest.warns(ConvergenceWarning, match="no solver met the certificate's tolerances.*OSQP"):
        model = made(estimator, solver="OSQP").fit(X, y)
    assert not model.certificate_.holds
    assert "rejected" in str(model.certificate_)


@pytest.mark.parametrize("solver", ["GUROBY", "", None, 3, ["OSQP"]], ids=repr)
def test_an_unknown_solver_is_refused_with_the_choices(solver):
    for estimator in WITH_SOLVER:
        X, y = make_data(estimator)
        model = made(estimator, solver=solver)
        with pytest.raises(ValueError, match=r"solver.*CLARABEL"):
            model.fit(X, y)
        assert_unfitted(model)
    if solver is not None:  # None means: the first whose residuals are accepted
        for module in MODULES.values():
            K, y, parameters = arguments_of(module)
            with pytest.raises(ValueError, match=r"solver.*CLARABEL"):
                module.declare(K, y, **parameters).solve(solver)


LIMITS = {
    "CLARABEL": {"max_iter": 1},
    "PIQP": {"max_iter": 1},
    "OSQP": {"max_iter": 1},
    "ECOS": {"max_iters": 1},
    "SCS": {"max_iters": 1},
    "HIGHS": {"qp_iteration_limit": 0},
}


@over_modules
@pytest.mark.parametrize("solver", ORDER)
def test_solvers_options_limits_and_silence(module, solver, capfd):
    if solver not in installed_solvers():
        pytest.skip(f"{solver} is not installed")
    K, y, parameters = arguments_of(module)
    declared = module.declare(K, y, **parameters)
    (limit,) = LIMITS[solver]
    with pytest.raises(DeclarationError, match=rf"{solver} has no option \['nonsense'\]; it understands .*{limit}"):
        declared.solve(solver, nonsense=1)
    with pytest.raises(DeclarationError, match="name it"):
        declared.solve(**LIMITS[solver])
    # A limit that ends the work too early: a point that is said to be bad, or no point at all, never a good report.
    # An interior-point method may need no second step for a quadratic: then the report is good and nobody warns.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            declared.solve(solver, **LIMITS[solver])
        except SolverError as failure:
            error = str(failure)
        else:
            error = None
    if error is not None:
        assert solver in error
        with pytest.raises(DeclarationError, match="call solve"):
            declared.certificate()
    else:
        warned = [warning for warning in caught if issubclass(warning.category, ConvergenceWarning)]
        assert declared.certificate().holds == declared.solver_record.accepted == (not warned)
        assert solver in ("CLARABEL", "PIQP", "ECOS") or warned
    try:
        declared.solve(solver)
    except SolverError as failure:
        # its active-set method for quadratics may lose feasibility to a small right-hand side, and says so
        if solver != "HIGHS":
            raise
        pytest.skip(str(failure))
    assert declared.certificate().holds
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")


def test_a_solver_speaks_when_asked_to(capfd):
    module = MODULES["ls_svm_regression"]
    K, y, parameters = arguments_of(module)
    module.declare(K, y, **parameters).solve("CLARABEL", verbose=True)
    assert "clarabel" in capfd.readouterr().out.lower()


# --- size -----------------------------------------------------------------------------------------------------------


@over_kerneled
def test_a_matrix_that_cannot_fit_is_refused_before_it_is_allocated(estimator):
    X, y = make_data(estimator, n=3000, columns=1)
    # of the rules that choose a basis, the one that looks at all pairs of candidates and scoring rows
    rule = {"basis": "feature_vectors"} if "basis" in parameters_of(estimator) else {}
    model = seeded(estimator, kernel=Linear(), **rule)
    tracemalloc.start()
    try:
        with memory_limit(1e6), pytest.raises(DataError) as caught:
            model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    own = parameters_of(estimator)
    rows = 3000 - int(np.ceil(3000 * own.get("validation_fraction", 0.0)))  # the others validate
    entries = own["n_candidates"] * own["n_scoring"] if "n_candidates" in own else rows**2  # never all pairs
    for pattern in (
        f"{8 * entries} bytes",
        "1000000 bytes",
        "available",
        "reduced set",
        "memory_limit",
    ):
        assert caught.match(pattern)
    assert peak < 0.1 * 8 * 3000**2
    assert_unfitted(model)


@over_kerneled
def test_the_memory_guard_can_be_lifted(estimator):
    X, y = make_data(estimator)
    with memory_limit(1.0), memory_limit(float("inf")):
        assert np.isfinite(output(made(estimator).fit(X, y), X)).all()
    with memory_limit(1.0), pytest.raises(DataError, match="available"):
        made(estimator).fit(X, y)


# --- habits ---------------------------------------------------------------------------------------------------------


@over_estimators
def test_fitting_twice_replaces_everything(estimator):
    X, y = make_data(estimator)
    other, target = make_data(estimator, n=17, columns=2, seed=5)
    model = seeded(estimator).fit(pd.DataFrame(X, columns=list("abc")), y, **weight(estimator, y))
    model.fit(other, target)
    fresh = seeded(estimator).fit(other, target)
    assert set(vars(model)) == set(vars(fresh))
    assert_array_equal(output(model, other), output(fresh, other))
    if estimator in PAIRWISE:
        K = RBF(SIGMA)(X)
        model.set_params(kernel=Precomputed()).fit(K, y)
        assert set(vars(model)) == set(vars(seeded(estimator, kernel=Precomputed()).fit(K, y)))


def weight(estimator, y):
    return {"sample_weight": np.linspace(0.5, 2.0, len(y))} if estimator in WEIGHTED else {}


@over_estimators
def test_a_fit_that_fails_leaves_nothing_of_the_one_before(estimator):
    X, y = make_data(estimator)
    spoilt = with_entry(X, np.nan)
    failures = [({}, spoilt, y), ({}, X, y[:-1])]
    failures += [({"gamma": -1.0}, X, y)] if estimator in WITH_GAMMA else []
    failures += [({"kernel": raises}, X, y), ({"kernel": "nonsense"}, X, y)] if estimator in KERNELED else []
    failures += [({"solver": "nonsense"}, X, y)] if estimator in WITH_SOLVER else []
    for parameters, rows, target in failures:
        model = made(estimator).fit(X, y)
        model.set_params(**parameters)
        with pytest.raises((ValueError, SubstrateError)):
            model.fit(rows, target)
        assert_unfitted(model)
        with pytest.raises(NotFittedError):
            model.predict(X)


def interrupted(X, Z):
    raise KeyboardInterrupt


@over_kerneled
def test_an_interrupt_goes_through_and_leaves_the_model_unfitted(estimator, monkeypatch):
    X, y = make_data(estimator)
    model = made(estimator).fit(X, y)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(kernel=interrupted).fit(X, y)
    assert_unfitted(model)
    # and later, in the solver
    if estimator in WITH_SOLVER:
        import cvxpy

        model = made(estimator).fit(X, y).set_params(solver="cvxpy")
        monkeypatch.setattr(cvxpy.Problem, "solve", lambda *_, **__: interrupted(X, X))
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
        assert_unfitted(model)


@over_estimators
def test_clones_and_parameters(estimator):
    X, y = make_data(estimator)
    model = made(estimator).fit(X, y)
    twin = clone(model)
    assert_unfitted(twin)
    assert twin.get_params() == model.get_params()
    assert estimator(**model.get_params(deep=False)).get_params() == model.get_params()
    assert estimator().set_params(**model.get_params(deep=False)).get_params() == model.get_params()
    assert_array_equal(output(twin.fit(X, y), X), output(model, X))
    with pytest.raises(ValueError, match="nonsense"):
        estimator().set_params(nonsense=1)


@over_kerneled
def test_parameters_of_the_kernel(estimator):
    X, y = make_data(estimator)
    model = made(estimator)
    kernel = model.kernel
    assert model.get_params()["kernel__sigma"] == SIGMA
    model.set_params(kernel__sigma=0.3)
    assert model.kernel == RBF(0.3)
    assert kernel == RBF(SIGMA), "the kernel itself is a value and did not change"
    assert_array_equal(output(model.fit(X, y), X), output(seeded(estimator, kernel=RBF(0.3)).fit(X, y), X))
    assert seeded(estimator, kernel="rbf").set_params(kernel__sigma=2.0).kernel == RBF(2.0)
    assert estimator().set_params(kernel=RBF(1.0) + Linear(), kernel__left__sigma=4.0).kernel == RBF(4.0) + Linear()
    with pytest.raises(ValueError, match="no parameter 'sigma'"):
        seeded(estimator, kernel=Linear()).set_params(kernel__sigma=1.0)
    with pytest.raises(ValueError, match="sigma"):
        seeded(estimator, kernel=RBF(1.0)).set_params(kernel__sigma=-1.0)


@over_estimators
def test_models_survive_being_stored(estimator, tmp_path):
    X, y = make_data(estimator)
    model = made(estimator).fit(X, y)
    joblib.dump(model, tmp_path / "model.joblib")
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), joblib.load(tmp_path / "model.joblib")):
        assert_array_equal(output(other, X), output(model, X))
        assert str(other.certificate_) == str(model.certificate_)
        assert other.get_params() == model.get_params()


@over_estimators
def test_fits_in_several_threads_do_not_meet(estimator):
    X, y = make_data(estimator, n=200)
    seeds = range(4)

    def fitted(seed):
        rows = np.random.default_rng(seed).permutation(len(y))[:150]
        return output(made(estimator).fit(X[rows], y[rows]), X)

    alone = [fitted(seed) for seed in seeds]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(fitted, seeds))
    for one, other in zip(alone, together, strict=True):
        # rounding depends on how many BLAS threads there were; fits that meet would be grossly wrong
        assert_allclose(other, one, rtol=1e-8, atol=1e-9)


THREADS = """
import threading
import scipy.linalg
from threadpoolctl import threadpool_info
from substrate.threads import blas_threads

def counts():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

entered, leave = threading.Event(), threading.Event()

def later():
    with blas_threads(10):
        entered.set()
        leave.wait(10.0)

before, other = counts(), threading.Thread(target=later)
with blas_threads(10):
    other.start()
    entered.wait(10.0)
    inside = counts()
leave.set()
other.join()
print(before, inside, counts(), sep="; ")
"""


def test_limits_on_threads_are_given_back_whoever_finishes_first():
    # in a process of its own, which may be left in a bad state
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    before, inside, after = (json.loads(counts) for counts in done.stdout.split(";"))
    assert set(inside) == {1}
    assert after == before


FORK = """
import multiprocessing
import numpy as np
import problems

X = np.random.default_rng(0).normal(size=(1001, 2))  # large enough for several threads
y = X[:, 0] > 0.0

def fitted(name):
    return bool(getattr(problems, name)().fit(X, y).certificate_.holds)

if __name__ == "__main__":
    names = {names}
    here = [fitted(name) for name in names]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        there = pool.map_async(fitted, names).get(250)
    assert all(here) and all(there), [name for name, *held in zip(names, here, there) if not all(held)]
    print("done")
"""


@pytest.mark.parametrize(
    "names",
    [
        # all rows at once by factor, spectrum and path; rows in passes
        pytest.param(["LSSVMRegressor", "LSSVMClassifierCV", "L1SubstrateRegressor", "SparseLSSVMRegressor"], id="few"),
        pytest.param([estimator.__name__ for estimator in ESTIMATORS], id="all", marks=pytest.mark.slow),
    ],
)
def test_a_fork_after_blas_threads_does_not_hang(tmp_path, names):
    script = tmp_path / "fork.py"
    script.write_text(FORK.format(names=names), encoding="utf-8")
    # a newer Python warns of every fork with threads about, ours or not
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(script)]
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, env=environment)
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr


# the widest of these kernels is so smooth that double precision cannot tell every answer
@pytest.mark.filterwarnings("ignore:.*certificate does not hold:sklearn.exceptions.ConvergenceWarning")
@over_kerneled
def test_grid_search_reaches_the_kernel(estimator):
    X, y = make_data(estimator, n=60)
    grid = {"kernel__sigma": [0.3, 1.0, 30.0]}
    for kernel in ("rbf", RBF(5.0)):
        search = GridSearchCV(seeded(estimator, kernel=kernel), grid, cv=3).fit(X, y)
        scores = search.cv_results_["mean_test_score"]
        # shares of right answers of a machine that chooses its own weight may coincide
        distinct = 2 if is_classifier(estimator()) and "gap" in parameters_of(estimator) else 3
        assert np.unique(np.round(scores, 6)).size >= distinct, scores
        chosen = RBF(search.best_params_["kernel__sigma"])
        assert search.best_estimator_.kernel_ == (chosen if estimator in PAIRWISE else Componentwise(chosen))
    if estimator is KERNELED[0]:  # starting workers takes seconds
        parallel = GridSearchCV(seeded(estimator, kernel=RBF(5.0)), grid, cv=3, n_jobs=2).fit(X, y)
        assert_allclose(parallel.cv_results_["mean_test_score"], scores, rtol=1e-9)
    pipeline = make_pipeline(StandardScaler(), seeded(estimator, kernel=RBF(5.0)))
    name = pipeline.steps[-1][0]
    search = GridSearchCV(pipeline, {f"{name}__kernel__sigma": [0.3, 1.0, 30.0]}, cv=3).fit(X, y)
    assert np.unique(np.round(search.cv_results_["mean_test_score"], 6)).size >= distinct


@over_pairwise
@pytest.mark.parametrize("kernel", ["precomputed", Precomputed(), 2.0 * Precomputed()], ids=repr)
def test_cross_validation_cuts_a_precomputed_matrix_both_ways(estimator, kernel):
    X, y = make_data(estimator, n=60)
    factor = 0.5 if kernel == 2.0 * Precomputed() else 1.0
    # a range that nobody gives ends where rounding hides what is beyond, and a given matrix has none
    ranges = {name: (1e-3, 1e3) for name in ("gamma_range",) if name in parameters_of(estimator)}
    given = cross_val_score(seeded(estimator, kernel=kernel, **ranges), factor * RBF(SIGMA)(X), y, cv=4)
    expected = cross_val_score(seeded(estimator, kernel=RBF(SIGMA), **ranges), X, y, cv=4)
    assert_allclose(given, expected, rtol=1e-8)


@over_estimators
def test_pipelines(estimator):
    X, y = make_data(estimator)
    scaled = StandardScaler().fit_transform(X)
    pipeline = make_pipeline(StandardScaler(), made(estimator)).fit(X, y)
    assert_allclose(pipeline.predict(X) == made(estimator).fit(scaled, y).predict(scaled), True)


@pytest.mark.parametrize("estimator", [estimator for estimator in MULTI_OUTPUT if estimator in WITH_GAMMA])
@pytest.mark.parametrize("solver", ["auto", "cvxpy"])
def test_several_outputs_are_several_fits(estimator, solver):
    X, y = make_data(estimator)
    Y = np.column_stack([y, 1e3 * np.cos(y), y**2])
    gammas = [0.5, 20.0, 0.5]
    choice = {"solver": solver} if estimator in WITH_SOLVER else {}
    model = made(estimator, gamma=gammas, **choice).fit(X, Y, **weight(estimator, y))
    assert model.predict(X).shape == Y.shape
    assert model.certificate_.holds
    for column, gamma in enumerate(gammas):
        alone = made(estimator, gamma=gamma, **choice).fit(X, Y[:, column], **weight(estimator, y))
        scale = np.abs(Y[:, column]).max()
        assert_allclose(model.predict(X)[:, column], alone.predict(X), atol=1e-9 * scale)
    for wrong in ([1.0], [1.0, 2.0], [1.0, 2.0, -3.0]):
        with pytest.raises(ValueError, match="gamma"):
            made(estimator, gamma=wrong, **choice).fit(X, Y)
