"""A model file holds what the lists name and nothing else: no address, no path, and no other certificate."""

import socket
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from rewritten_files import rewrite
from sklearn.base import is_classifier

import problems
from problems import LSSVMClassifier, LSSVMRegressor, LSSVMRegressorCV, load
from substrate import files
from substrate.errors import DataError, SubstrateError
from substrate.kernels import RBF, Laplacian

ESTIMATORS = [getattr(problems, name) for name in problems.ESTIMATORS]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2


def made(estimator, rows=X, **parameters):
    own = estimator().get_params(deep=False)
    chosen = {key: value for key, value in ({"random_state": 0} | parameters).items() if key in own}
    targets = np.where(np.median(Y) < Y, "up", "down") if is_classifier(estimator()) else Y
    return estimator(RBF(1.0), **chosen).fit(rows, targets)


# ---- what acts outside ---------------------------------------------------------------------------


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.parametrize("name", ["passes", "executor", "checkpoint", "memory_budget", "verbose", "n_jobs"])
@pytest.mark.parametrize("value", [None, "tcp://127.0.0.1:1"])
def test_what_acts_outside_is_not_read(tmp_path, no_network, name, value):
    """Not even as null: a file of this version has no such key."""
    path = tmp_path / "m.npz"
    made(LSSVMRegressorCV if name == "n_jobs" else LSSVMRegressor).save(path)
    rewrite(path, lambda header, arrays: header["content"]["parameters"].update({name: value}))
    with pytest.raises(DataError, match=rf"has parameters .*'{name}'"):
        load(path)


# ---- the digest ----------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [LSSVMRegressor, LSSVMClassifier])
def test_an_edited_file_is_refused(tmp_path, estimator):
    path = tmp_path / "m.npz"
    model = made(estimator)
    model.save(path)
    assert model.certificate_.holds
    rewrite(path, lambda header, arrays: header["content"]["fitted"].update(n_features_in_=3), digest=False)
    assert load(path).certificate_.holds, "nothing has changed"
    rewrite(path, lambda header, arrays: header["content"]["parameters"].update(tol=2e-6), digest=False)
    with pytest.raises(DataError, match="changed after it was written"):
        load(path)


# ---- sizes ---------------------------------------------------------------------------------------


def test_an_array_belongs_to_one_value(tmp_path):
    """400 references to one array of text would each become a list of objects."""
    path = tmp_path / "m.npz"
    made(LSSVMClassifier).save(path)

    def refer(header, arrays):
        arrays["labels"] = np.full(10_000, "a")
        reference = {"kind": "text", "name": "labels"}
        header["content"]["parameters"]["gamma"] = {"kind": "list", "items": [reference] * 400}

    rewrite(path, refer)
    with pytest.raises(DataError, match="the array 'labels' is missing, or belongs to two values"):
        load(path)


SPARSE = sp.csr_matrix(np.where(np.abs(X) > 0.7, X, 0.0))


@pytest.mark.parametrize(
    ("model", "columns"),
    [
        (lambda: LSSVMRegressor("precomputed").fit(RBF(1.0)(X), Y), 10**15),
        (lambda: LSSVMRegressor(RBF(1.0)).fit(SPARSE, Y), 10**12),
        (lambda: LSSVMRegressor(Laplacian(1.0)).fit(SPARSE, Y), 10**7),
    ],
    ids=["a matrix", "sparse rows", "sparse rows made dense"],
)
def test_columns_that_are_announced_are_counted(tmp_path, monkeypatch, model, columns):
    path = tmp_path / "m.npz"
    model().save(path)

    def widen(header, arrays):
        fitted = header["content"]["fitted"]
        fitted["n_features_in_"] = columns
        if "support_vectors_" in fitted:
            fitted["support_vectors_"]["shape"] = [20, columns]

    rewrite(path, widen)

    def never(*_, **__):
        raise AssertionError("decoded before the sizes were added up")

    monkeypatch.setattr(files, "_Reader", never)
    with pytest.raises(DataError, match="bytes of memory, and 1073741824 are allowed"):
        load(path)


@pytest.mark.parametrize("shape", [[20], [20, -3], [20, 3.0], [True, 3], None, "20", [20, 3, 1]])
def test_sparse_shapes_of_another_form(tmp_path, shape):
    path = tmp_path / "m.npz"
    LSSVMRegressor(RBF(1.0)).fit(SPARSE, Y).save(path)
    rewrite(path, lambda header, arrays: header["content"]["fitted"]["support_vectors_"].update(shape=shape))
    with pytest.raises(DataError, match="two lengths are needed"):
        load(path)


# ---- what is saved can be loaded -----------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e308])
def test_a_model_that_could_not_be_loaded_is_not_saved(tmp_path, value):
    path = tmp_path / "m.npz"
    made(LSSVMRegressor).save(path)
    before = path.read_bytes()
    model = made(LSSVMRegressor)
    model.support_values_ = np.full_like(model.support_values_, value)
    with pytest.raises(DataError, match=r"this LSSVMRegressor is not saved, because .*could not be loaded again"):
        model.save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.npz"]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_cell_of_1e200_is_refused_or_gives_a_model_that_loads_and_predicts(tmp_path, estimator):
    rows = X.copy()
    rows[3, 1] = 1e200
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = made(estimator, rows)
            model.save(tmp_path / "m.npz")
        except SubstrateError:
            assert list(tmp_path.iterdir()) == []
            return
        loaded = load(tmp_path / "m.npz")
        assert_array_equal(loaded.predict(rows), model.predict(rows))
