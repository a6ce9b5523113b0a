"""Every estimator is written and read back whole, without pickle; a file that is not whole and ours is refused."""

import json
import os
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from every_model import TYPICAL, make_estimator, seeded, way_in_words
from numpy.testing import assert_array_equal
from rewritten_files import rewrite
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import Matern as SklearnMatern
from sklearn.utils.validation import has_fit_parameter

import problems
from problems import LSSVMClassifier, LSSVMRegressor, load
from substrate.arrays import is_sparse
from substrate.basis import Basis
from substrate.errors import DataError, SubstrateError
from substrate.kernels import RBF, Componentwise, Foreign, Laplacian, Linear, Matern, Polynomial, Precomputed

ESTIMATORS = [getattr(problems, name) for name in problems.ESTIMATORS]
over_estimators = pytest.mark.parametrize("estimator", ESTIMATORS)

KERNELS = [
    "rbf",
    RBF(),
    RBF(1.3),
    Linear(),
    Polynomial(2, 0.5),
    Laplacian(),
    Matern(1.1, nu=2.5),
    2.5 * RBF(1.0) + Linear() * RBF(3.0),
    (RBF("each") + Linear()).on(2, 0),
    Componentwise(RBF(1.0)),
    Componentwise([RBF(), Linear(), Matern()]),
    Componentwise({0: 0.5 * RBF(2.0), (2, 1): RBF((1.0, 0.3)) * Polynomial()}),
    0.1 * Linear() + Componentwise(RBF(sigma=2.0)) + RBF(sigma=2.0).on(0, 2),
]


#: Those that take a matrix for a kernel; an additive machine needs inputs to take apart, and its components named.
PAIRWISE = [one for one in ESTIMATORS if one("precomputed").__sklearn_tags__().input_tags.pairwise]
EVERY_KERNEL = [(one, kernel) for one in ESTIMATORS for kernel in (KERNELS if one in PAIRWISE else KERNELS[:-1])]


def make_data(estimator, n=20, columns=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns))
    signal = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2
    if is_classifier(estimator()):
        return X, np.where(signal > np.median(signal), "up", "down")
    return X, signal


def made(estimator, kernel="rbf", **parameters):
    """An estimator with the parameters that it has, making the same random choices every time."""
    own = estimator().get_params(deep=False)
    chosen = {"random_state": 0} | parameters
    return estimator(kernel, **{key: value for key, value in chosen.items() if key in own})


def assert_certifies(model, X, y, **weights):
    """The coefficients still solve the problem on the data, where the model can tell; its search is not repeated."""
    if hasattr(model, "certify"):
        again = model.certify(X, y, **weights)
        repeated = {row.name for row in again.rows}
        assert again.holds == all(row.passes for row in model.certificate_.rows if row.name in repeated)


def output(model, X):
    return model.decision_function(X) if is_classifier(model) else model.predict(X)


def fitted_names(model):
    return {name for name in vars(model) if name.endswith("_")}


def assert_same_value(found, expected, name):
    if is_sparse(expected):
        assert is_sparse(found), name
        assert (found != expected).nnz == 0, name
    elif isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype, name
        assert_array_equal(found, expected, err_msg=name)
    elif isinstance(expected, dict):
        assert list(found) == list(expected), name
        for key, value in expected.items():
            assert_same_value(found[key], value, f"{name}[{key!r}]")
    elif isinstance(expected, list):
        assert len(found) == len(expected), name
        for place, value in enumerate(expected):
            assert_same_value(found[place], value, f"{name}[{place}]")
    elif isinstance(expected, BaseEstimator):
        assert type(found) is type(expected), name
        assert fitted_names(found) == fitted_names(expected), name
        assert_same_value(found.get_params(deep=False), expected.get_params(deep=False), name)
        for key in fitted_names(expected):
            assert_same_value(getattr(found, key), getattr(expected, key), f"{name}.{key}")
    else:
        assert type(found) is type(expected), name
        assert found == expected, name


def round_trip(model, path, X):
    """Save, load, compare everything bit for bit, and return the loaded model."""
    model.save(path)
    other = load(path)
    assert type(other) is type(model)
    assert list(other.get_params(deep=False)) == list(model.get_params(deep=False))
    for name, value in model.get_params(deep=False).items():
        assert_same_value(getattr(other, name), value, name)
    assert fitted_names(other) == fitted_names(model)
    for name in fitted_names(model):
        assert_same_value(getattr(other, name), getattr(model, name), name)
    if fitted_names(model):
        assert output(other, X).tobytes() == output(model, X).tobytes()
        assert_array_equal(other.predict(X), model.predict(X))
        assert str(other.certificate_) == str(model.certificate_)
        assert other.certificate_.holds == model.certificate_.holds
    return other


# ---- round trip ----------------------------------------------------------------------------------


def test_every_exported_estimator_can_be_saved():
    exported = [getattr(problems, name) for name in problems.__all__ if name not in problems.PAGES]
    assert all(hasattr(thing, "save") for thing in exported if hasattr(thing, "fit"))


# some of these chosen machines are so smooth that double precision cannot tell their answer
@pytest.mark.filterwarnings("ignore:.*certificate does not hold:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("estimator", "kernel"), EVERY_KERNEL, ids=repr)
def test_fitted_and_unfitted_for_every_kernel(tmp_path, estimator, kernel):
    X, y = make_data(estimator)
    model = made(estimator, kernel, gamma=3.0)
    unfitted = round_trip(model, tmp_path / "unfitted.npz", X)
    with pytest.raises(NotFittedError):
        unfitted.predict(X)
    loaded = round_trip(model.fit(X, y), tmp_path / "fitted.npz", np.random.default_rng(1).normal(size=(301, 3)))
    assert_certifies(loaded, X, y)
    assert output(unfitted.fit(X, y), X).tobytes() == output(model, X).tobytes()


@pytest.mark.parametrize(("estimator", "choice"), [way for way in TYPICAL if "basis" in way[1]], ids=way_in_words)
def test_a_model_on_a_basis_is_loaded_bit_for_bit(tmp_path, estimator, choice):
    X, y = make_data(estimator)
    loaded = round_trip(make_estimator(estimator, **choice).fit(X, y), tmp_path / "m.npz", X)
    assert_certifies(loaded, X, y)


@pytest.mark.parametrize("estimator", PAIRWISE)
@pytest.mark.parametrize("kernel", ["precomputed", Precomputed(), 2.0 * Precomputed()], ids=repr)
def test_a_precomputed_kernel_with_rows_left_out(tmp_path, estimator, kernel):
    X, y = make_data(estimator)
    K = RBF(1.0)(X)
    weighted = has_fit_parameter(estimator, "sample_weight")
    weights = {"sample_weight": np.where(np.arange(20) % 5 == 0, 0.0, 1.0)} if weighted else {}
    model = made(
        estimator,
        kernel,
        zeta=0.1,
        growth=0.6,
        threshold=0.6,
        basis=Basis(rule="feature_vectors", reconstruction_tolerance=0.6, random_state=0),
    ).fit(K, y, **weights)
    assert model.support_.size < 20 or not (weighted or hasattr(model, "n_support_"))
    loaded = round_trip(model, tmp_path / "m.npz", K)
    assert_certifies(loaded, K, y, **weights)
    assert not hasattr(loaded, "support_vectors_")


LABELS = {
    "text": np.array(["ά", "bb", "c"]),
    "objects": np.array(["ά", "bb", "c"], dtype=object),
    "integers": np.array([-5, 9, 700]),
    "small integers": np.array([1, 2, 3], dtype=np.uint8),
    "floats": np.array([0.0, 1.0, 2.0]),
}


@pytest.mark.parametrize("coding", ["one_vs_rest", "minimum_output", "ecoc"])
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.covering
def test_labels_of_every_kind(tmp_path, labels, coding):
    X, _ = make_data(LSSVMRegressor, n=24)
    y = LABELS[labels][np.arange(24) % 3]
    loaded = round_trip(LSSVMClassifier(RBF(1.0), coding=coding).fit(X, y), tmp_path / "m.npz", X)
    assert loaded.predict(X).dtype == y.dtype
    assert loaded.certify(X, y).holds


# ---- what cannot be saved ------------------------------------------------------------------------


def my_similarity(X, Z):
    return X @ Z.T


@over_estimators
@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (my_similarity, "my_similarity"),
        (lambda X, Z: X @ Z.T, "lambda"),
        (SklearnMatern(), "Matern"),
        (RBF(1.0) + 2.0 * Foreign(my_similarity), "my_similarity"),
    ],
    ids=["function", "lambda", "scikit-learn", "inside a sum"],
)
def test_somebodys_function_is_refused_by_name(tmp_path, estimator, kernel, name):
    X, y = make_data(estimator)
    path = tmp_path / "m.npz"
    seeded(estimator, kernel=RBF(1.0)).fit(X, y).save(path)
    before = path.read_bytes()
    for model in (estimator(kernel), estimator(kernel).fit(X, y)):
        with pytest.raises(DataError, match=f"{name}.*cannot be saved"):
            model.save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m.npz"]


class LSSVMRegressor2(LSSVMRegressor):
    pass


LSSVMRegressor2.__name__ = "LSSVMRegressor"


# ---- damaged and hostile files -------------------------------------------------------------------


@pytest.fixture(scope="module", params=["regressor", "classifier", "sparse", "precomputed"])
def written(request, tmp_path_factory):
    """A fitted model, the bytes of its file and rows to predict."""
    path = tmp_path_factory.mktemp("written") / "m.npz"
    if request.param == "classifier":
        X, _ = make_data(LSSVMRegressor)
        model = LSSVMClassifier(2.0 * RBF(1.0) + Linear()).fit(X, np.array(["a", "b", "c"])[np.arange(20) % 3])
    elif request.param == "precomputed":
        X, y = make_data(LSSVMRegressor)
        X = RBF(1.0)(X)
        model = LSSVMRegressor(Precomputed()).fit(X, y)
    else:
        X, y = make_data(LSSVMRegressor)
        X = sp.csr_matrix(np.where(X > 0.0, X, 0.0)) if request.param == "sparse" else X
        model = LSSVMRegressor(RBF(1.0), gamma=2.0).fit(X, y)
    model.save(path)
    return model, path.read_bytes(), X


@pytest.fixture
def saved(written, tmp_path):
    """The same with a file of the test's own, to spoil."""
    model, content, X = written
    path = tmp_path / "m.npz"
    path.write_bytes(content)
    return model, path, X


def works_or_is_refused(path, model, X):
    """A file is refused with a DataError, or what it holds predicts like a model; which of the two is returned."""
    try:
        other = load(path)
    except SubstrateError:
        return "refused"
    if not hasattr(other, "support_values_"):
        with pytest.raises(NotFittedError):
            other.predict(X)
        return "unfitted"
    if getattr(other, "n_features_in_", None) != X.shape[1]:  # a matrix of other rows is a matrix all the same
        assert type(other.n_features_in_) is int
        with pytest.raises(ValueError, match=f"is expecting {other.n_features_in_} features"):
            other.predict(X)
        return "expects other rows"
    found = output(other, X)
    assert found.dtype == np.float64
    assert found.shape == output(model, X).shape
    assert np.isfinite(found).all()
    assert other.predict(X).shape == (X.shape[0],)
    clone(other)
    return "loads"


def listed(failures):
    return "\n" + "\n".join(f"{what} <- {why}" for what, why in failures.items())


WRONG = [
    None,
    True,
    0,
    -1,
    10**30,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "1.5",
    "predict",
    [],
    [1.0],
    {},
    {"kind": "nonsense"},
    {"kind": []},
    {"kind": "array"},
    {"kind": "array", "name": "absent"},
    {"kind": "array", "name": ["x"]},
    {"kind": "array", "name": "support_"},
    {"kind": "array", "name": "support_values_"},
    {"kind": "text", "name": "support_values_"},
    {"kind": "sparse", "name": "support_vectors_", "shape": [2, 2]},
    {"kind": "list", "items": [1.0, 2.0]},
    {"kind": "list", "items": 3},
    {"kind": "tuple", "items": [{"kind": "mapping", "items": [[1]]}]},
    {"kind": "mapping", "items": [[{"kind": "list", "items": []}, 1]]},
    {"kind": "certificate", "title": "forged", "rows": [[1]], "record": []},
    {"kind": "certificate", "title": 3, "rows": [], "record": []},
    {"kind": "value", "class": "RBF", "fields": {}},
    {"kind": "value", "class": "RBF", "fields": {"sigma": -1.0}},
    {"kind": "value", "class": "RBF", "fields": {"sigma": "wide"}},
    {"kind": "value", "class": "RBF", "fields": {"width": 1.0}},
    {"kind": "value", "class": "RBF", "fields": []},
    {"kind": "value", "class": "Scaled", "fields": {"factor": 2.0, "kernel": 3.0}},
    {"kind": "value", "class": "Sum", "fields": {"left": 1.0, "right": 2.0}},
    {
        "kind": "value",
        "class": "Restricted",
        "fields": {"kernel": {"kind": "value", "class": "Linear", "fields": {}}},
    },
    {"kind": "value", "class": "Precomputed", "fields": {}},
]


def test_every_attribute_replaced_by_every_wrong_value(saved):
    """The file is well formed and lies about one thing at a time."""
    model, path, X = saved
    original = path.read_bytes()
    with zipfile.ZipFile(path) as stored:
        names = list(json.loads(stored.read("header.json"))["content"]["fitted"])
    failures, outcomes = {}, []
    for place, name in enumerate(names):
        for wrong in WRONG[place % 4 :: 4]:
            path.write_bytes(original)

            def lie(header, arrays, name=name, wrong=wrong):
                header["content"]["fitted"][name] = wrong

            rewrite(path, lie)
            try:
                outcomes.append(works_or_is_refused(path, model, X))
            except Exception as error:
                failures.setdefault(f"{name}: {type(error).__name__}: {error}"[:120], str(wrong))
    assert not failures, listed(failures)
    assert outcomes.count("refused") > len(outcomes) / 3


def spoilt_arrays(arrays):
    """One array at a time: cut, stretched, made text, made NaN, made huge."""
    for name, array in arrays.items():
        yield name, "cut", array[:-1]
        yield name, "stretched", np.concatenate([array, array])
        yield name, "another dimension", array[..., None]
        yield name, "no rows", array[:0]
        yield name, "text", array.astype(str)
        yield name, "numbers in text", np.full(array.shape, "1.5")
        yield name, "booleans", np.ones(array.shape, dtype=bool)
        if array.dtype.kind in "fi":
            yield name, "NaN", np.full(array.shape, np.nan)
            yield name, "infinity", np.where(np.arange(array.size).reshape(array.shape) == 1, np.inf, array)
            yield name, "huge", np.full(array.shape, 10**6, dtype=array.dtype)
            yield name, "negative", -1 - np.abs(array)
            yield name, "single precision", array.astype(np.float32)


def test_every_array_spoilt_in_every_way(saved):
    model, path, X = saved
    original = path.read_bytes()
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files if name != "header.json"}
    failures, refused = {}, 0
    for name, how, spoilt in spoilt_arrays(arrays):
        path.write_bytes(original)

        def spoil(header, arrays, name=name, spoilt=spoilt):
            arrays[name] = spoilt

        rewrite(path, spoil)
        try:
            refused += works_or_is_refused(path, model, X) == "refused"
        except Exception as error:
            failures[f"{name}, {how}"] = f"{type(error).__name__}: {error}"
    assert not failures, listed(failures)
    assert refused > 5


@pytest.mark.parametrize(
    "name", ["__import__", "Foreign", "Kernel", "as_kernel", "BaseKernel", "eval", "os.system", ""]
)
@pytest.mark.parametrize("place", ["fitted", "parameters"])
def test_kernels_the_package_does_not_know(saved, name, place):
    _, path, _ = saved
    kernel = {"kind": "value", "class": name, "fields": {"function": "os.system"}}
    key = "kernel_" if place == "fitted" else "kernel"
    rewrite(path, lambda header, arrays: header["content"][place].update({key: kernel}))
    with pytest.raises(DataError, match=f"there is no kernel or record named '{name}'"):
        load(path)
