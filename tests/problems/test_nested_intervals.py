"""Nested scores: intervals by folds of the whole choice, against explicit loops, in files, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from problems import LSSVMRegressor, LSSVMRegressorCV, StackedLSSVMRegressor, load
from substrate.intervals.conformal import rank
from substrate.kernels import RBF, Laplacian, Linear

RNG = np.random.default_rng(11)
N = 23
X = RNG.normal(size=(N, 2))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * RNG.normal(size=N)
V = RNG.uniform(0.5, 2.0, size=N)
NEW = RNG.normal(size=(5, 2))
SEVERAL = [RBF(0.7), RBF(1.5), RBF(3.0), Laplacian(2.0), Laplacian(6.0), Linear()]
MACHINES = {
    "kernels": LSSVMRegressorCV(kernels=[RBF(1.0), Laplacian(2.0)]),
    "primal": LSSVMRegressorCV(Linear(), gamma_range=(1.0, 1e9)),
    "partially linear": LSSVMRegressorCV(RBF(1.0), linear_columns=[1]),
    "stack": StackedLSSVMRegressor(kernels=[RBF(1.0), Laplacian(2.0)]),
}


def by_hand(machine, model, y, coverage, weights=None):
    """Ends by the machine fitted again without each fold of the model."""
    folds = model.nested_folds_
    scored = np.flatnonzero(folds >= 0)
    centers, sizes = np.empty((5, N)), np.empty(N)
    for fold in range(folds.max() + 1):
        train, test = folds != fold, folds == fold
        given = {} if weights is None else {"sample_weight": weights[train]}
        other = clone(machine).fit(X[train], y[train], **given)
        sizes[test] = np.abs(y[test] - other.predict(X[test]))
        centers[:, test] = other.predict(NEW)[:, None]
    n, k = scored.size, rank(coverage, scored.size)
    centers, sizes = centers[:, scored], sizes[scored]
    return np.column_stack([np.sort(centers - sizes, axis=1)[:, n - k], np.sort(centers + sizes, axis=1)[:, k - 1]])


@pytest.mark.parametrize("name", sorted(MACHINES))
@pytest.mark.parametrize("weights", [None, V], ids=["plain", "weighted"])
@pytest.mark.covering
def test_intervals_are_those_of_explicit_folds(name, weights, tmp_path):
    """Machines without a fold, their errors and order statistics; the same from a file.

    :place [Barber2021]_ CV+: the interval from machines without folds
    """
    given = {} if weights is None else {"sample_weight": weights}
    model = clone(MACHINES[name]).fit(X, Y, **given)
    predicted = model.predict(NEW)
    assert not hasattr(model, "nested_machines_"), "a plain fit pays nothing"
    ends = model.predict_interval(NEW, 0.8)
    assert_allclose(ends, by_hand(MACHINES[name], model, Y, 0.8, weights), atol=1e-6)
    assert_array_equal(model.predict_interval(NEW, 0.8, "nested"), ends)
    assert_array_equal(model.predict(NEW), predicted)
    assert_array_equal(np.bincount(model.nested_folds_ + 1), [3, *[2] * 10])
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert_array_equal(again.predict_interval(NEW, 0.8), ends)
    assert again.interval_guarantee(0.8) == model.interval_guarantee(0.8)
    assert again.interval_guarantee(0.8).method == "nested"


def test_the_default_repeats_a_search_of_few_rows(monkeypatch):
    searched, fixed = LSSVMRegressorCV(RBF(1.0)).fit(X, Y), LSSVMRegressor(RBF(1.0)).fit(X, Y)
    stack = StackedLSSVMRegressor(kernels=[RBF(1.0)]).fit(X, Y)
    methods = [model.interval_guarantee().method for model in (searched, fixed, stack)]
    assert methods == ["nested", "conformal", "nested"]
    few = LSSVMRegressorCV(RBF(1.0)).fit(X[:9], Y[:9])
    grouped = LSSVMRegressorCV(RBF(1.0), cv="groups").fit(X, Y, groups=np.arange(N))
    weighted = LSSVMRegressorCV(RBF(1.0), cv="groups").fit(X, Y, sample_weight=V, groups=np.arange(N))
    assert [m.interval_guarantee().method for m in (few, grouped, weighted)] == ["conformal", "conformal", "jackknife+"]
    monkeypatch.setattr("problems.estimators.full.intervals.MANY_ROWS", N)
    guarantee = searched.interval_guarantee()
    assert guarantee.method == "conformal"
    assert not guarantee.holds, "no coverage is claimed after a search of many rows"
    assert str(guarantee).startswith("approximate: gamma was chosen on these rows")


def test_the_guarantee_counts_the_choice():
    """The level is as in the theorem, and nothing that was chosen breaks it.

    :place [Barber2021]_ theorem 4: the coverage of CV+
    """
    model = LSSVMRegressorCV(kernels=[RBF(), Laplacian()]).fit(X, Y)
    guarantee = model.interval_guarantee(0.9)
    assert guarantee.holds
    assert_allclose(guarantee.level, 0.8 - np.sqrt(2.0 / 20.0), rtol=1e-12)
    assert guarantee.level <= 0.8 - np.sqrt(2.0 / 20.0)
    assert model.interval_guarantee(0.9, "adaptive").level is None
    assert "covers at least" in str(guarantee)
    assert not model.interval_guarantee(0.9, "conformal").holds
    assert model.interval_guarantee(0.5, "nested").level == 0.0
    weighted = LSSVMRegressorCV(RBF(1.0)).fit(X, Y, sample_weight=V)
    assert not weighted.interval_guarantee(0.9, "nested").holds


def test_the_default_covers_after_a_search_over_kernels():
    """On few rows, over which leaving rows out at the chosen kernel covers less: 200 new rows of each of six draws."""
    covered, left_out = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        points = rng.normal(size=(230, 3))
        targets = np.sin(2.0 * points[:, 0]) + 0.3 * rng.normal(size=230)
        model = LSSVMRegressorCV(kernels=SEVERAL).fit(points[:30], targets[:30])
        for found, method in ((covered, "auto"), (left_out, "jackknife+")):
            low, high = model.predict_interval(points[30:], 0.9, method).T
            found.append(np.mean((low <= targets[30:]) & (targets[30:] <= high)))
    assert np.mean(covered) >= 0.9 - 0.02
    assert np.mean(covered) > np.mean(left_out)
