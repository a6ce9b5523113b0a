"""Studentised intervals and distributions of estimators: exact over all orders of rows, in groups, saved, refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import (
    LSSVMRegressor,
    LSSVMRegressorCV,
    PartiallyLinearLSSVMRegressor,
    RobustLSSVMRegressor,
    SparseLSSVMRegressor,
    load,
)
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Linear
from substrate.uncertainty.levels import rank

RNG = np.random.default_rng(5)
N = 15
X = RNG.normal(size=(N, 2))
Y = np.sin(X[:, 0]) + 0.4 * RNG.normal(size=N)
GROUPS = np.array(list("aababbbaabbabab"))
MACHINES = {
    "dense": LSSVMRegressor(RBF(1.0), gamma=4.0),
    "linear": LSSVMRegressor(Linear(), gamma=1e3),
    "partially linear": PartiallyLinearLSSVMRegressor(RBF(1.0), gamma=4.0, linear_columns=[1]),
    "reduced": SparseLSSVMRegressor(RBF(1.0), gamma=4.0, basis=RNG.normal(size=(7, 2))),
}


def without(machine, j, weights=None):
    """The machine without row j, that row, and the arguments that it needs besides."""
    rest = np.arange(N) != j
    given = {} if weights is None else {"sample_weight": weights[rest]}
    model = machine.fit(X[rest], Y[rest], **given)
    rows = {"rows": (X[rest], Y[rest], *given.values())} if isinstance(machine, SparseLSSVMRegressor) else {}
    return model, X[[j]], rows, rest


@pytest.mark.parametrize("name", sorted(MACHINES))
@pytest.mark.parametrize("weight", [None, 2.5])
@pytest.mark.some_cases(4)
def test_as_many_rows_as_guaranteed_are_covered_exactly(name, weight):
    """All rows but one fit, in turn: every machine has the same enlarged set of scores, so k of n + 1 are covered, and
    the counts below the targets are 0 to n, each once.
    """
    weights = None if weight is None else np.full(N, weight)
    covered, grouped, below = np.zeros(N, dtype=bool), np.zeros(N, dtype=bool), []
    for j in range(N):
        model, point, rows, rest = without(MACHINES[name], j, weights)
        low, high = model.predict_interval(point, 0.7, "studentised", **rows)[0]
        covered[j] = low <= Y[j] <= high
        labels = {"groups": (GROUPS[rest], GROUPS[[j]])}
        low, high = model.predict_interval(point, 0.7, "studentised", **rows, **labels)[0]
        grouped[j] = low <= Y[j] <= high
        below.append(model.predict_distribution(point, **rows).bounds(Y[[j]])[0, 0] * N)
    assert covered.sum() == rank(0.7, N - 1)
    for group in "ab":
        assert grouped[group == GROUPS].sum() == rank(0.7, int((group == GROUPS).sum()) - 1)
    assert_allclose(np.sort(below), np.arange(N), atol=1e-9)


def test_weights_may_differ_from_group_to_group():
    weights = np.where(GROUPS == "a", 0.5, 3.0)
    covered = np.zeros(N, dtype=bool)
    for j in range(N):
        model, point, _, rest = without(MACHINES["dense"], j, weights)
        low, high = model.predict_interval(point, 0.6, "studentised", groups=(GROUPS[rest], GROUPS[[j]]))[0]
        covered[j] = low <= Y[j] <= high
    for group in "ab":
        assert covered[group == GROUPS].sum() == rank(0.6, int((group == GROUPS).sum()) - 1)
    with pytest.raises(DataError, match="need rows of equal weight"):
        model.predict_interval(X, method="studentised")
    with pytest.raises(DataError, match="need rows of equal weight"):
        model.predict_distribution(X)


def test_several_outputs_and_a_loaded_model(tmp_path):
    both = np.column_stack([Y, X[:, 1] ** 2])
    model = LSSVMRegressor(RBF(1.0), gamma=[4.0, 20.0]).fit(X, both)
    model.save(tmp_path / "model.npz")
    distribution = load(tmp_path / "model.npz").predict_distribution(X[:4])
    assert distribution.thresholds.shape == (4, 2, N)
    assert distribution.interval(0.8).shape == (4, 2, 2)
    assert distribution.bounds(both[:4]).shape == (4, 2, 2)
    for k, gamma in enumerate((4.0, 20.0)):
        alone = LSSVMRegressor(RBF(1.0), gamma=gamma).fit(X, both[:, k]).predict_distribution(X[:4])
        assert_allclose(distribution.thresholds[:, k], alone.thresholds, atol=1e-10)
        assert_allclose(distribution.crps(both[:4])[:, k], alone.crps(both[:4, k]), atol=1e-10)
        assert_allclose(distribution.quantile(0.3)[:, k], alone.quantile(0.3), atol=1e-10)


def test_units_offsets_and_constants_go_through():
    model = LSSVMRegressor(RBF(1.0), gamma=4.0)
    ours = model.fit(X, Y).predict_distribution(X[:3])
    theirs = model.fit(X, 1e-9 * Y + 3.0).predict_distribution(X[:3])
    assert_allclose((theirs.thresholds - 3.0) / 1e-9, ours.thresholds, atol=1e-5)
    assert_allclose(theirs.crps(1e-9 * Y[:3] + 3.0) / 1e-9, ours.crps(Y[:3]), atol=1e-5)
    flat = model.fit(X, np.full(N, 7.0)).predict_distribution(X[:3])
    assert_array_equal(flat.thresholds, np.full((3, N), 7.0))
    assert_array_equal(flat.crps(7.0), np.zeros(3))
    assert_array_equal(flat.bounds(7.0), [[0.0, 1.0]] * 3)


def test_what_is_guaranteed_and_what_is_refused():
    fixed = LSSVMRegressor(RBF(1.0)).fit(X, Y)
    assert fixed.interval_guarantee(0.9, "studentised").holds
    twice = LSSVMRegressor(RBF(1.0)).fit(X, Y, sample_weight=np.full(N, 2.0))
    assert twice.interval_guarantee(0.9, "studentised").holds, "the new row has the weight of the others"
    assert not twice.interval_guarantee(0.9, "conformal").holds, "the new row has weight one"
    unequal = LSSVMRegressor(RBF(1.0)).fit(X, Y, sample_weight=np.linspace(1.0, 2.0, N))
    assert not unequal.interval_guarantee(0.9, "studentised").holds
    assert not LSSVMRegressorCV(RBF(1.0)).fit(X, Y).interval_guarantee(0.9, "studentised").holds
    with pytest.raises(DeclarationError, match="groups are those of method='studentised', received method='conformal'"):
        fixed.predict_interval(X, method="conformal", groups=(GROUPS, GROUPS))
    for wrong in (GROUPS, (GROUPS,), "ab"):
        with pytest.raises(DataError, match="groups must be a pair"):
            fixed.predict_distribution(X, groups=wrong)
    with pytest.raises(DataError, match="expected 15 labels of the training rows"):
        fixed.predict_distribution(X, groups=(GROUPS[1:], GROUPS))
    with pytest.raises(DeclarationError, match="one of auto, conformal, split, received 'studentised'"):
        RobustLSSVMRegressor(RBF(1.0)).fit(X, Y).predict_interval(X, 0.9, "studentised")
    shaped = LSSVMRegressor(RBF(1.0), bounds=(-3.0, None)).fit(X[:8], Y[:8])
    with pytest.raises(DeclarationError, match="closed form of the machine without a shape"):
        shaped.predict_distribution(X)


@pytest.mark.slow
def test_coverage_at_sparse_places_is_nearer_to_the_level():
    """Points of a normal distribution, the outermost tenth of new ones: plain scores cover less there."""
    held, sets = {"conformal": 0, "studentised": 0}, 600
    machine = LSSVMRegressor(RBF(0.5), gamma=20.0)
    for seed in range(sets):
        rng = np.random.default_rng(seed)
        points = rng.normal(size=(60, 1))
        new = rng.choice([-1.0, 1.0]) * rng.uniform(1.65, 2.5, size=(1, 1))
        targets = np.sin(3.0 * np.append(points, new)) + 0.2 * rng.normal(size=61)
        model = machine.fit(points, targets[:-1])
        for method in held:
            low, high = model.predict_interval(new, 0.9, method)[0]
            held[method] += int(low <= targets[-1] <= high)
    assert held["studentised"] > held["conformal"] + 4.0 * np.sqrt(0.9 * 0.1 * sets)
