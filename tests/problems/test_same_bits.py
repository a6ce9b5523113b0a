"""One model for the same rows wherever they are: every estimator that reads rows, every kind of source, every bit.

All sizes at which the package begins to do things by parts are lowered, so that a few hundred rows are beyond them.
"""

import sys
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits

import problems
from substrate.basis import RULES, Basis
from substrate.kernels import RBF, Componentwise

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

RNG = np.random.default_rng(28)
N = 737
X = RNG.normal(size=(N, 2)).astype(np.float32).astype(np.float64)  # numbers that a float32 file can hold
Y = np.sin(2.0 * X[:, 0]) + 0.1 * RNG.standard_t(2.0, size=N)
LABELS = np.array(["low", "middle", "high"])[np.digitize(Y, [-0.5, 0.9])]
SMALL = Basis(7, n_candidates=30, n_scoring=40, random_state=0)

#: Where parts begin: the constant, the module that has it, and what it is here. None: every module that has it.
THRESHOLDS = [
    ("BLOCK_ROWS", None, 64),
    ("SPAN_ROWS", None, 256),
    ("WIDTH_ROWS", "substrate.operators.sources", 200),
    ("_FEW_ROWS", "problems.estimators.reduced_fit", 50),
    ("_MOST_ROWS", "substrate.kernels.of_distance", 150),
]

READERS = {
    "regression": ("LSSVMRegressor", {}),
    "classes": ("LSSVMClassifier", {}),
    "gamma chosen": ("LSSVMRegressorCV", {}),
    "gamma of classes chosen": ("LSSVMClassifierCV", {}),
    "linear columns": ("LSSVMRegressor", {"linear_columns": [1]}),
    "classes, linear columns": ("LSSVMClassifier", {"linear_columns": [1]}),
    "robust": ("LSSVMRegressor", {"robust": "hampel"}),
    "components": ("LSSVMRegressor", {"kernel": Componentwise(RBF())}),
}
CASES = {
    **READERS,
    **{f"basis {rule}": ("LSSVMRegressor", {"basis__rule": rule}) for rule in RULES},
    "basis of given rows": ("LSSVMRegressor", {"basis__rule": np.arange(700, 0, -60), "basis__n": None}),
    "basis of given points": ("LSSVMRegressor", {"basis__rule": X[:9] + 0.5, "basis__n": None}),
    "pruned classes": ("LSSVMClassifier", {"basis__rule": "pruned"}),
    "sum of kernels": ("LSSVMRegressor", {"kernel": 0.5 * RBF() + RBF().on(0)}),
    "several kernels": ("LSSVMRegressorCV", {"kernels": [RBF(0.7), RBF()], "cv": "gcv"}),
    "folds": ("LSSVMRegressorCV", {"cv": 5}),
    "folds by lot": ("LSSVMRegressorCV", {"cv": KFold(4, shuffle=True, random_state=0)}),
    "folds of classes": ("LSSVMClassifierCV", {"cv": 4}),
}


@pytest.fixture(scope="module", autouse=True)
def _lowered():
    with pytest.MonkeyPatch.context() as patch:
        for constant, owner, value in THRESHOLDS:
            if owner is None:
                ours = [m for name, m in list(sys.modules.items()) if name.startswith(("substrate.", "problems."))]
                owners = [module for module in ours if hasattr(module, constant)]
            else:
                owners = [import_module(owner)]
            assert owners, constant
            for module in owners:
                patch.setattr(module, constant, value)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("rows")
    for name, y in (("numbers", Y), ("classes", LABELS)):
        np.save(made / f"{name}.npy", y)
    np.save(made / "X.npy", X)
    return made


def apart(values):
    """The same numbers with gaps between them in memory."""
    held = np.zeros(tuple(2 * size for size in values.shape), dtype=values.dtype)
    held[tuple(slice(None, None, 2) for _ in values.shape)] = values
    return held[tuple(slice(None, None, 2) for _ in values.shape)]


def shifted(values):
    """The same numbers beginning at an odd place in memory."""
    held = np.zeros(values.size + 1)
    held[1:] = values.ravel()
    return held[1:].reshape(values.shape)


def mapped(path):
    return np.load(path, mmap_mode="r")


def dask_arrays(y):
    return da.from_array(X, chunks=(101, 2)), da.from_array(y, chunks=97)


#: From (targets, their name, folder) to what ``fit`` is given, and parameters that say how it is read.
SOURCES = {
    "Fortran order": lambda y, name, folder: ((np.asfortranarray(X), y), {}),
    "gaps": lambda y, name, folder: ((apart(X), apart(y)), {}),
    "odd place": lambda y, name, folder: ((shifted(X), y), {}),
    "single precision": lambda y, name, folder: ((X.astype(np.float32), y), {}),
    "frame": lambda y, name, folder: ((pd.DataFrame(X), pd.Series(y)), {}),
    "map": lambda y, name, folder: ((mapped(folder / "X.npy"), mapped(folder / f"{name}.npy")), {}),
    "map of rows only": lambda y, name, folder: ((mapped(folder / "X.npy"), y), {}),
    "blocks": lambda y, name, folder: (
        ([(X[a:b], y[a:b]) for a, b in [(0, 1), (1, 333), (333, 340), (340, N)]],),
        {},
    ),
    "Dask array": lambda y, name, folder: (dask_arrays(y), {}),
    "Dask frame": lambda y, name, folder: (
        (dd.from_pandas(pd.DataFrame({"u": X[:, 0], "v": X[:, 1], "t": y}), npartitions=5), "t"),
        {},
    ),
}


def machine(case):
    name, options = CASES[case]
    return getattr(problems, name)(basis=SMALL).set_params(**options)


def targets_of(model):
    return (LABELS, "classes") if is_classifier(model) else (Y, "numbers")


@pytest.fixture(scope="module")
def of_arrays():
    """Fits of plain arrays, each made once."""
    made = {}

    def fitted(case):
        if case not in made:
            made[case] = machine(case).fit(X, targets_of(machine(case))[0])
        return made[case]

    return fitted


def fitted_numbers(model):
    """All that a fit leaves behind, but the seconds it took and the names of columns."""
    kept = {name: value for name, value in vars(model).items() if name.endswith("_")}
    names = kept.pop("feature_names_in_", None)
    kept["predictions"] = model.predict(X if names is None else pd.DataFrame(X, columns=names))
    for name, value in kept.pop("cv_results_", {}).items():
        if "time" not in name:
            kept[f"cv_results_ {name}"] = value
    if "support_values_path_" in kept:
        kept["support_values_path_"] = kept["support_values_path_"].toarray()
    kept |= {f"path_ {name}": value for name, value in kept.pop("path_", {}).items()}
    history = kept.pop("history_", ())
    return kept | {
        f"step {k}, {name}": getattr(step, name) for k, step in enumerate(history) for name in step.__slots__
    }


def assert_same(found, expected):
    found, expected = fitted_numbers(found), fitted_numbers(expected)
    assert found.keys() == expected.keys()
    assert {"support_values_", "certificate_", "kernel_", "basis_indices_"} <= found.keys()
    for name, value in expected.items():
        if isinstance(value, np.ndarray):
            assert_array_equal(found[name], value, err_msg=name)
        else:
            assert found[name] == value, name


#: Regression and classification are read in all ways, the other estimators in the main ones, options in a few.
FEW = ("map", "blocks")
MAIN = (*FEW, "Fortran order", "Dask array")
KINDS = dict.fromkeys(READERS, MAIN) | dict.fromkeys(["regression", "classes"], tuple(SOURCES))
PAIRS = [(case, kind) for case in CASES for kind in KINDS.get(case, FEW)]


@pytest.mark.parametrize(("case", "kind"), PAIRS)
def test_where_rows_are_changes_no_bit(case, kind, of_arrays, folder):
    model = machine(case)
    given, how = SOURCES[kind](*targets_of(model), folder)
    assert_same(model.set_params(**how).fit(*given), of_arrays(case))


@pytest.fixture(scope="module")
def client():
    """A cluster inside this process, whose tasks run in threads that are not its first."""
    with (
        distributed.LocalCluster(n_workers=2, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        distributed.Client(cluster) as opened,
    ):
        yield opened


@pytest.mark.parametrize("case", ["folds of classes", "basis pruned"])
def test_a_cluster_changes_no_bit(case, client, of_arrays):
    """Nor do more BLAS threads than one, which none of the workers may use."""
    y, _ = targets_of(machine(case))
    with threadpool_limits(2, user_api="blas"):
        expected = machine(case).fit(X, y)
        assert_same(machine(case).fit(*dask_arrays(y)), expected)


@pytest.mark.parametrize("rule", RULES)
def test_a_device_is_given_the_same_rows(rule):
    """Its sums are rounded in another order; what is drawn and chosen is not."""
    torch = pytest.importorskip("torch")
    model = problems.LSSVMRegressor(basis=SMALL.with_params(rule=rule), gamma=3.0)
    expected = clone(model).fit(X, Y)
    found = clone(model).fit(torch.from_numpy(X), torch.from_numpy(Y))
    assert found.kernel_ == expected.kernel_
    assert_array_equal(found.basis_indices_, expected.basis_indices_)
    assert_array_equal(found.support_vectors_.numpy(), expected.support_vectors_)
    assert_allclose(found.predict(torch.from_numpy(X)).numpy(), expected.predict(X), atol=1e-7)
