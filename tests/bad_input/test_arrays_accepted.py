"""Arrays of every kind are read as the numbers they hold and never modified, and columns are known by name."""

import pickle
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from every_model import (
    ESTIMATORS,
    SIGMA,
    WITH_SOLVER,
    make_data,
    make_estimator,
    output,
    over_estimators,
    over_pairwise,
    over_weighted,
    way_in_words,
)
from numpy.testing import assert_allclose, assert_array_equal
from spoilt_values import read_only

from problems import FusedL1SubstrateRegressor
from substrate.errors import DataError
from substrate.kernels import RBF, Precomputed


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


#: Estimators and kinds of rows; those that iterate do so on a few kinds.
KINDS_OF_ROWS = [(estimator, case, {}) for estimator in ESTIMATORS for case in GOOD_X] + [
    (estimator, case, {"solver": "cg"}) for estimator in WITH_SOLVER for case in ("csr array", "float32", "polars")
]


@cache
def of_plain_rows(estimator, content):
    """What the estimator says of these rows as an ordinary array, which many kinds of rows have in common."""
    X, y = make_data(estimator)
    rows = np.frombuffer(content).reshape(X.shape).copy()
    return output(make_estimator(estimator).fit(rows, y), rows)


@pytest.mark.parametrize(("estimator", "case", "choice"), KINDS_OF_ROWS, ids=way_in_words)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # certificates are asserted
def test_rows_of_many_kinds(estimator, case, choice, tmp_path):
    X, y = make_data(estimator)
    given = GOOD_X[case](X, tmp_path)
    before = pickle.dumps(plain(given))
    # equal rows, of zeros, lead validation to weights so small that nothing is proved of them, as the certificate says
    is_unproved = estimator is FusedL1SubstrateRegressor and sp.issparse(given)
    model = make_estimator(estimator, **choice).fit(given, y)
    predicted = output(model, given)
    assert pickle.dumps(plain(given)) == before
    if "certificate_" in vars(model):
        assert model.certificate_.holds or is_unproved
    expected = of_plain_rows(estimator, plain(given).tobytes())
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
    model = make_estimator(estimator).fit(X, given)
    assert list(given) == before
    assert_array_equal(output(model, X), output(make_estimator(estimator).fit(X, y), X))


@over_weighted
@pytest.mark.parametrize("kind", [list, pd.Series, pl.Series, read_only, lambda w: w.astype(np.float32)])
def test_weights_of_many_kinds(estimator, kind):
    X, y = make_data(estimator)
    weights = 1.0 + np.arange(len(y)) % 4
    given = kind(weights)
    model = make_estimator(estimator).fit(X, y, sample_weight=given)
    assert list(given) == list(weights)
    assert_array_equal(output(model, X), output(make_estimator(estimator).fit(X, y, sample_weight=weights), X))


@over_estimators
def test_a_fitted_model_keeps_no_hold_on_its_data(estimator):
    X, y = make_data(estimator)
    model = make_estimator(estimator).fit(X, y)
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
    model = make_estimator(estimator, kernel=Precomputed()).fit(given, y)
    predicted = output(model, given)
    assert_array_equal(given, K)
    given[...] = 0.0
    assert_array_equal(output(model, K), predicted)
    assert_allclose(predicted, output(make_estimator(estimator).fit(X, y), X), atol=1e-10)
    sparse = make_estimator(estimator, kernel=Precomputed()).fit(sp.csr_matrix(K), y)
    assert_array_equal(output(sparse, sp.csr_matrix(K)), predicted)


@over_estimators
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_are_known_by_name(estimator, frame):
    X, y = make_data(estimator)
    table = frame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
    model = make_estimator(estimator).fit(table, y)
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
def test_a_certificate_for_other_rows_is_refused_in_words(estimator):
    if not hasattr(estimator, "certify"):
        pytest.skip("nothing to certify again")
    X, y = make_data(estimator)
    model = make_estimator(estimator).fit(X, y)
    for rows in (7, len(y) // 2):
        with pytest.raises(DataError, match=r"support values|rows"):
            model.certify(X[::-1][:rows], y[::-1][:rows])
