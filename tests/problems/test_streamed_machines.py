"""Every machine on a reduced basis fits files, blocks and clusters as it fits arrays: same bits, same certificate."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from problems import (
    RobustSparseLSSVMRegressor,
    SparseL1SubstrateClassifier,
    SparseL1SubstrateRegressor,
    SparseMaximalVariationRegressor,
)
from substrate.errors import DataError
from substrate.kernels import RBF
from substrate.reduced import Basis
from substrate.streaming import Passes
from substrate.streaming.executors import Joblib, Serial
from substrate.streaming.survey import CountsOfLeaf

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
distributed = pytest.importorskip("distributed")

RNG = np.random.default_rng(18)
N = 35_000
X = RNG.normal(size=(N, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.1 * RNG.standard_t(1.5, size=N)
LABELS = np.array(["low", "middle", "high"])[np.digitize(Y, [-0.5, 0.5])]
COMMON = {"kernel": RBF(1.0), "basis": Basis(15, "random", random_state=0)}
MACHINES = {
    "robust": RobustSparseLSSVMRegressor(gamma=10.0, scale="mad", **COMMON),
    "l1": SparseL1SubstrateRegressor(zeta=300.0, **COMMON),
    "l1 classes": SparseL1SubstrateClassifier(zeta=300.0, **COMMON),
    "maximal variation": SparseMaximalVariationRegressor(rho=1000.0, **COMMON),
}
over_machines = pytest.mark.parametrize("name", MACHINES)


def targets_of(name):
    return LABELS if "classes" in name else Y


@pytest.fixture(scope="module")
def in_memory():
    return {name: clone(machine).fit(X, targets_of(name)) for name, machine in MACHINES.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("rows")
    table = pa.table({"u": X[:, 0], "v": X[:, 1], "y": Y, "c": LABELS})
    pq.write_table(table.drop_columns("c"), made / "numbers.parquet", row_group_size=6000)
    pq.write_table(table.drop_columns("y"), made / "classes.parquet", row_group_size=9000)
    np.save(made / "X.npy", X)
    np.save(made / "y.npy", Y)
    return made


def assert_same(one, other):
    names = [name for name in vars(other) if name.endswith("_") and isinstance(vars(other)[name], (np.ndarray, float))]
    assert {"support_values_", "bias_"} <= set(names)
    for name in names:
        assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert one.certificate_ == other.certificate_
    assert one.certificate_.holds


@over_machines
@pytest.mark.some_cases(2)
def test_a_table_is_fitted_like_an_array(name, in_memory, folder):
    file, column = ("classes", "c") if "classes" in name else ("numbers", "y")
    fitted = clone(MACHINES[name]).fit(folder / f"{file}.parquet", column)
    assert list(fitted.feature_names_in_) == ["u", "v"]
    assert_same(fitted, in_memory[name])


@over_machines
@pytest.mark.some_cases(2)
def test_blocks_of_any_size_are_fitted_like_an_array(name, in_memory):
    y = targets_of(name)
    blocks = [(X[start : start + 7777], y[start : start + 7777]) for start in range(0, N, 7777)]
    assert_same(clone(MACHINES[name]).set_params(passes__memory_budget=1e5).fit(blocks), in_memory[name])


@over_machines
@pytest.mark.some_cases(2)
def test_threads_change_no_bit(name, in_memory):
    threaded = clone(MACHINES[name]).set_params(passes=Passes(Joblib(n_jobs=2)))
    assert_same(threaded.fit(X, targets_of(name)), in_memory[name])


@pytest.mark.slow
def test_a_cluster_changes_no_bit(in_memory, folder):
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        distributed.Client(cluster) as client,
    ):
        for name in MACHINES:
            file, column = ("classes", "c") if "classes" in name else ("numbers", "y")
            fitted = clone(MACHINES[name]).set_params(passes=Passes(client)).fit(folder / f"{file}.parquet", column)
            assert_same(fitted, in_memory[name])


def test_a_check_of_files_is_that_of_arrays(in_memory, folder):
    robust = in_memory["robust"]
    again = robust.certify(folder / "X.npy", folder / "y.npy")
    assert again.holds
    assert again == robust.certify(X, Y)


@over_machines
def test_predictions_go_from_file_to_file(name, in_memory, folder, tmp_path):
    in_memory[name].predict_to(folder / "X.npy", tmp_path / "out.npy")
    found, wanted = np.load(tmp_path / "out.npy"), in_memory[name].predict(X)
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


def test_an_interrupted_fit_goes_on_where_it_was(in_memory, folder, tmp_path, monkeypatch):
    """The second pass for the scale is stopped at its second leaf; the next call reads what was not yet summed."""
    leaf_by_leaf = Serial()
    object.__setattr__(leaf_by_leaf, "level", 0)
    machine = clone(MACHINES["robust"]).set_params(passes=Passes(leaf_by_leaf, checkpoint=tmp_path / "sums.npz"))
    honest, calls = CountsOfLeaf.__call__, []

    def stopped(self, blocks):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return honest(self, blocks)

    def counted(self, blocks):
        calls.append(1)
        return honest(self, blocks)

    monkeypatch.setattr(CountsOfLeaf, "__call__", stopped)
    with pytest.raises(KeyboardInterrupt):
        machine.fit(folder / "X.npy", folder / "y.npy")
    monkeypatch.setattr(CountsOfLeaf, "__call__", counted)
    assert (tmp_path / "sums.npz").exists()
    calls.clear()
    assert_same(machine.fit(folder / "X.npy", folder / "y.npy"), in_memory["robust"])
    # of two passes over three leaves each, two leaves were left; twice the shape of a sum was asked for
    assert len(calls) == 4
    assert not (tmp_path / "sums.npz").exists()
