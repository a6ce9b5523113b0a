"""The same call fits arrays, blocks and Dask collections: same bits, same certificate, same leave-one-out."""

import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from problems import LSSVMClassifier, LSSVMRegressor, LSSVMRegressorCV
from substrate.basis import Basis
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

RNG = np.random.default_rng(8)
N = 20_000
X = RNG.normal(size=(N, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.2 * RNG.normal(size=N)
LABELS = np.array(["low", "middle", "high"])[np.digitize(Y, [-0.5, 0.5])]
KERNEL = RBF(1.0)


def frame_of(**target):
    """The rows and a target as a Dask dataframe."""
    return dd.from_pandas(pd.DataFrame({"u": X[:, 0], "v": X[:, 1], **target}), npartitions=3)


@pytest.fixture(scope="module")
def numbers():
    return frame_of(y=Y), "y"


@pytest.fixture(scope="module")
def classes():
    return frame_of(c=LABELS), "c"


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", Y)
    return tmp_path


def same(one, other):
    names = ("support_values_", "bias_", "support_", "support_vectors_", "leverage_factor_", "degrees_of_freedom_")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


@pytest.mark.parametrize("basis", ["renyi", "kmeans++"])
def test_rules_that_need_no_matrix_choose_from_ten_times_the_candidates(basis):
    model = LSSVMRegressor(KERNEL, 5.0, basis=Basis(20, rule=basis, n_candidates=30, random_state=0))
    assert "300 candidates" in dict(clone(model).fit(X, Y).certificate_.record)["basis"]
    assert "candidates" not in dict(clone(model).fit(X[:300], Y[:300]).certificate_.record)["basis"], "all of them"
    with pytest.raises(DeclarationError, match=r"basis\.n=301 exceeds the 300 candidates of basis\.n_candidates=30"):
        clone(model).set_params(basis__n=301).fit(X, Y)


def test_classes_are_learnt_from_the_rows(classes):
    model = LSSVMClassifier(KERNEL, 5.0, basis=Basis(25, random_state=0))
    arrays, streamed = clone(model).fit(X, LABELS), clone(model).fit(*classes)
    assert same(arrays, streamed)
    assert list(streamed.classes_) == ["high", "low", "middle"]
    one, other = arrays.leave_one_out(X, LABELS), streamed.leave_one_out(*classes)
    assert other.misclassification == pytest.approx(one.misclassification, abs=1e-12)
    assert_allclose(other.mean_square, one.mean_square, rtol=1e-10)


@pytest.mark.parametrize("criterion", ["gcv", "loo", "folds"])
def test_gamma_is_chosen_alike(numbers, criterion):
    from sklearn.model_selection import KFold

    model = LSSVMRegressorCV(
        KERNEL, cv=5 if criterion == "folds" else criterion, basis=Basis(15, random_state=0), gamma_range=(0.01, 10.0)
    )
    arrays = clone(model).set_params(cv=KFold(5) if criterion == "folds" else criterion).fit(X, Y)
    streamed = clone(model).fit(*numbers)
    assert same(arrays, streamed)
    assert (streamed.gamma_, streamed.criterion_lower_bound_) == (arrays.gamma_, arrays.criterion_lower_bound_)


def test_leave_one_out_and_certificate_of_a_stream(numbers):
    model = LSSVMRegressor(KERNEL, 5.0, basis=Basis(25, random_state=0)).fit(X, Y)
    for rows in [numbers, (lambda: [(X, Y)],)]:
        left, known = model.leave_one_out(*rows), model.leave_one_out(X, Y)
        assert left.certificate.holds
        for name in ("mean_square", "mean_absolute", "gcv", "degrees_of_freedom"):
            assert_allclose(getattr(left, name), getattr(known, name), rtol=1e-10)
        assert model.certify(*rows).holds
    model.bias_ += 1e-3
    assert not model.certify(*numbers).holds
    with pytest.raises(DataError, match="fitted to 20000 rows, these are 100"):
        model.certify([(X[:100], Y[:100])])


def test_mapped_files_are_read_slice_by_slice(folder):
    model = LSSVMRegressor(KERNEL, 5.0, basis=Basis(25, random_state=0))
    expected = clone(model).fit(X, Y)
    rows, targets = (np.load(folder / name, mmap_mode="r") for name in ("X.npy", "y.npy"))
    assert same(clone(model).fit(rows, targets), expected)
    assert_allclose(
        model.fit(rows, targets).leave_one_out(rows, targets).gcv, expected.leave_one_out(X, Y).gcv, rtol=1e-9
    )
    changed = np.load(folder / "X.npy", mmap_mode="c")
    changed += 1.0
    assert same(clone(model).fit(changed, targets), clone(model).fit(X + 1.0, Y)), "changes that no file has"
    assert same(clone(model).fit(rows, Y), expected), "targets in memory"
    with pytest.raises(DataError, match="one target per row"):
        clone(model).fit(rows, targets[:-1])


def test_a_fault_leaves_no_fit_behind():
    model = LSSVMRegressor(KERNEL, basis=Basis(10, random_state=0)).fit(X, Y)
    spoilt = X.copy()
    spoilt[-1] = np.inf
    with pytest.raises(DataError, match=rf"row {N - 1}"):
        model.fit([(spoilt, Y)])
    assert not model.__sklearn_is_fitted__()


INTERRUPTED = """
import time
import dask.array as da
from problems import LSSVMRegressor

def slowly(block):
    print("begun\\n", end="", flush=True)
    time.sleep(0.1)
    return block

X = da.random.default_rng(0).normal(size=(60 * 16384, 2), chunks=(16384, 2)).map_blocks(slowly, meta=da.zeros(1)._meta)
LSSVMRegressor(basis=5).fit(X, X[:, 0])
"""


def test_an_interrupt_ends_a_fit_of_dask_with_one_traceback():
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "begun\n", child.stderr.read()
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=240)
    assert said.count("Traceback") == 1, said
    assert said.endswith("KeyboardInterrupt\n"), said
