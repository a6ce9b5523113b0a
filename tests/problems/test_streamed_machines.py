"""Every machine on a reduced basis fits blocks and Dask collections as it fits arrays: same bits, same certificate."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from problems import (
    L1SubstrateClassifier,
    L1SubstrateRegressor,
    LSSVMRegressor,
    MaximalVariationRegressor,
    Robust,
)
from substrate.errors import DataError
from substrate.kernels import RBF
from substrate.reduced import Basis

dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

RNG = np.random.default_rng(18)
N = 35_000
X = RNG.normal(size=(N, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.1 * RNG.standard_t(1.5, size=N)
LABELS = np.array(["low", "middle", "high"])[np.digitize(Y, [-0.5, 0.5])]
COMMON = {"kernel": RBF(1.0), "basis": Basis(15, "random", random_state=0)}
MACHINES = {
    "robust": LSSVMRegressor(gamma=10.0, robust=Robust(scale="mad"), **COMMON),
    "l1": L1SubstrateRegressor(zeta=300.0, **COMMON),
    "l1 classes": L1SubstrateClassifier(zeta=300.0, **COMMON),
    "maximal variation": MaximalVariationRegressor(rho=1000.0, expansion="decoupled", ridge=1.0, **COMMON),
}
over_machines = pytest.mark.parametrize("name", MACHINES)


def targets_of(name):
    return LABELS if "classes" in name else Y


@pytest.fixture(scope="module")
def in_memory():
    return {name: clone(machine).fit(X, targets_of(name)) for name, machine in MACHINES.items()}


def frame_of(name):
    """The rows and their targets as a Dask dataframe."""
    frame = pd.DataFrame({"u": X[:, 0], "v": X[:, 1], "t": targets_of(name)})
    return dd.from_pandas(frame, npartitions=4), "t"


def assert_same(one, other):
    names = [name for name in vars(other) if name.endswith("_") and isinstance(vars(other)[name], (np.ndarray, float))]
    assert {"support_values_", "bias_"} <= set(names)
    for name in names:
        assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert one.certificate_ == other.certificate_
    assert one.certificate_.holds


@over_machines
@pytest.mark.some_cases(2)
def test_a_frame_is_fitted_like_an_array(name, in_memory):
    fitted = clone(MACHINES[name]).fit(*frame_of(name))
    assert list(fitted.feature_names_in_) == ["u", "v"]
    assert_same(fitted, in_memory[name])


@over_machines
@pytest.mark.some_cases(2)
def test_blocks_of_any_size_are_fitted_like_an_array(name, in_memory):
    y = targets_of(name)
    blocks = [(X[start : start + 7777], y[start : start + 7777]) for start in range(0, N, 7777)]
    assert_same(clone(MACHINES[name]).fit(blocks), in_memory[name])


@pytest.mark.slow
def test_a_cluster_changes_no_bit(in_memory):
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        distributed.Client(cluster),
    ):
        for name in MACHINES:
            assert_same(clone(MACHINES[name]).fit(*frame_of(name)), in_memory[name])


def test_a_check_of_blocks_is_that_of_arrays(in_memory):
    robust = in_memory["robust"]
    again = robust.certify([(X[:9000], Y[:9000]), (X[9000:], Y[9000:])])
    assert again.holds
    assert again == robust.certify(X, Y)


@over_machines
def test_blocks_are_predicted_like_an_array(name, in_memory):
    found, wanted = in_memory[name].predict([X[:9000], X[9000:]]), in_memory[name].predict(X)
    assert_array_equal(found, wanted) if "classes" in name else assert_allclose(found, wanted, atol=1e-12)


@over_machines
def test_a_row_that_is_not_a_number_is_named(name):
    bad = X.copy()
    bad[20_001, 1] = np.nan
    blocks = [(bad[start : start + 5000], targets_of(name)[start : start + 5000]) for start in range(0, N, 5000)]
    machine = clone(MACHINES[name])
    with pytest.raises(DataError, match="20001"):
        machine.fit(blocks)
    assert not hasattr(machine, "support_values_")
