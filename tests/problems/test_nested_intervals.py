"""Nested scores: intervals by folds of the whole choice, against explicit loops, in files, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from problems import (
    LSSVMClassifierCV,
    LSSVMRegressor,
    LSSVMRegressorCV,
    PartiallyLinearLSSVMRegressorCV,
    SparseLSSVMRegressor,
    StackedLSSVMRegressor,
    load,
)
from substrate.errors import DataError, DeclarationError, LongFitWarning
from substrate.kernels import RBF, Laplacian, Linear
from substrate.uncertainty.levels import rank

RNG = np.random.default_rng(11)
N = 23
X = RNG.normal(size=(N, 2))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * RNG.normal(size=N)
V = RNG.uniform(0.5, 2.0, size=N)
NEW = RNG.normal(size=(5, 2))
MACHINES = {
    "kernels": LSSVMRegressorCV(kernels=[RBF(1.0), Laplacian(2.0)]),
    "primal": LSSVMRegressorCV(Linear(), gamma_range=(1.0, 1e9)),
    "partially linear": PartiallyLinearLSSVMRegressorCV(RBF(1.0), linear_columns=[1]),
    "stack": StackedLSSVMRegressor(kernels=[RBF(1.0), Laplacian(2.0)], criteria="loo"),
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
@pytest.mark.some_cases(3)
def test_intervals_are_those_of_explicit_folds(name, weights, tmp_path):
    """Machines without a fold, their errors and order statistics; the same from a file.

    :place [Barber2021]_ CV+: the interval from machines without folds
    """
    given = {} if weights is None else {"sample_weight": weights}
    model = clone(MACHINES[name]).fit(X, Y, nested=4, **given)
    ends = model.predict_interval(NEW, 0.8, "nested")
    assert_allclose(ends, by_hand(MACHINES[name], model, Y, 0.8, weights), atol=1e-9)
    assert_array_equal(np.bincount(model.nested_folds_ + 1), [3, 5, 5, 5, 5])
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert_array_equal(again.predict_interval(NEW, 0.8, "nested"), ends)
    assert again.interval_guarantee(0.8, "nested") == model.interval_guarantee(0.8, "nested")
    plain = clone(MACHINES[name]).fit(X, Y, **given)
    assert_array_equal(plain.predict(NEW), model.predict(NEW))
    assert (np.diff(plain.predict_interval(NEW, 0.8, "nested"), axis=1) > 0.0).all()


def test_the_first_call_makes_ten_folds():
    model, other = LSSVMRegressorCV(RBF(1.0)).fit(X, Y), LSSVMRegressorCV(RBF(1.0)).fit(X, Y, nested=10)
    assert not hasattr(model, "nested_machines_")
    assert_allclose(model.predict_interval(NEW, 0.8, "nested"), other.predict_interval(NEW, 0.8, "nested"), atol=1e-6)
    assert len(model.nested_machines_) == 10
    model.fit(X, Y)
    assert not hasattr(model, "nested_machines_"), "another fit has others"
    fixed = LSSVMRegressor(RBF(1.0), gamma=4.0).fit(X, Y)
    assert_allclose(
        fixed.predict_interval(NEW, 0.8, "nested"),
        by_hand(LSSVMRegressor(RBF(1.0), gamma=4.0), fixed, Y, 0.8),
        atol=1e-8,
    )


def test_long_folds_say_how_long_they_will_take(monkeypatch):
    monkeypatch.setattr("problems.estimators.full.nested._LONG", 0.0)
    with pytest.warns(LongFitWarning, match=r"2 more folds of the whole fit take about \d+ s; fewer folds"):
        LSSVMRegressorCV(RBF(1.0)).fit(X, Y, nested=3)


def test_outputs_have_an_axis_of_their_own():
    both = np.column_stack([Y, X[:, 0] ** 2])
    model = LSSVMRegressorCV(RBF(1.0)).fit(X, both, nested=3)
    ends = model.predict_interval(NEW, 0.7, "nested")
    assert ends.shape == (5, 2, 2)
    for k in range(2):
        alone = LSSVMRegressorCV(RBF(1.0)).fit(X, both[:, k], nested=3)
        assert_allclose(ends[:, k], alone.predict_interval(NEW, 0.7, "nested"), atol=1e-8)
    assert "each output is asked for on its own" in model.interval_guarantee(0.7, "nested").conditions


def test_the_guarantee_counts_the_choice():
    """The level is that of the theorem, and nothing that was chosen breaks it.

    :place [Barber2021]_ theorem 4: the coverage of CV+
    """
    model = LSSVMRegressorCV(kernels=[RBF(), Laplacian()]).fit(X, Y, nested=4)
    guarantee = model.interval_guarantee(0.9, "nested")
    assert guarantee.holds
    assert_allclose(guarantee.level, 0.8 - np.sqrt(2.0 / 20.0), rtol=1e-12)
    assert guarantee.level <= 0.8 - np.sqrt(2.0 / 20.0)
    assert "covers at least" in str(guarantee)
    assert not model.interval_guarantee(0.9, "conformal").holds
    assert model.interval_guarantee(0.5, "nested").level == 0.0
    weighted = LSSVMRegressorCV(RBF(1.0)).fit(X, Y, sample_weight=V, nested=3)
    assert not weighted.interval_guarantee(0.9, "nested").holds


def test_folds_that_cannot_be_are_refused(tmp_path):
    for wrong in (1, 0, -3, 2.5, "ten", True):
        with pytest.raises((DeclarationError, DataError), match="nested"):
            LSSVMRegressorCV(RBF(1.0)).fit(X, Y, nested=wrong)
    with pytest.raises(DataError, match="12 folds need at least two rows each, received 23 rows"):
        LSSVMRegressorCV(RBF(1.0)).fit(X, Y, nested=12)
    with pytest.raises(DeclarationError, match="nested= makes intervals of a regressor"):
        LSSVMClassifierCV(RBF(1.0)).fit(X, Y > 0.0, nested=3)
    with pytest.raises(DeclarationError, match="which cv=None does not allow"):
        LSSVMRegressorCV(RBF(1.0), cv=None).fit(X, Y, nested=3)
    with pytest.raises(DeclarationError, match="not done for a precomputed kernel"):
        LSSVMRegressor("precomputed").fit(X @ X.T, Y).predict_interval(X[:2] @ X.T, method="nested")
    with pytest.raises(DeclarationError, match="method must be one of"):
        SparseLSSVMRegressor(RBF(1.0), basis=5).fit(X, Y).predict_interval(NEW, method="nested")
    model = LSSVMRegressorCV(RBF(1.0)).fit(X, Y, nested=3)
    with pytest.raises(DeclarationError, match="groups are those of method='studentised', received method='nested'"):
        model.predict_interval(NEW, method="nested", groups=(np.zeros(N), np.zeros(5)))
    for change, message in (
        ({"nested_folds_": model.nested_folds_[1:]}, "the fold and the score of every row"),
        ({"nested_folds_": np.zeros(N, dtype=np.intp)}, "every fold of nested scores has one machine"),
        ({"nested_scores_": -model.nested_scores_ - 1.0}, "absolute errors, one column per output"),
        ({"nested_machines_": [*model.nested_machines_[:2], {}]}, "does not belong to the rows of the others"),
    ):
        kept = {name: getattr(model, name) for name in change}
        vars(model).update(change)
        with pytest.raises(DataError, match=message):
            model.save(tmp_path / "other.npz")
        vars(model).update(kept)


@pytest.mark.slow
def test_coverage_after_a_search_is_what_is_asked_for():
    """Where kernel, width and gamma are chosen on few rows: within three binomial deviations."""
    held, sets, kernels = 0, 100, [RBF(0.7), RBF(1.5), RBF(3.0), Laplacian(2.0), Laplacian(6.0), Linear()]
    for seed in range(sets):
        rng = np.random.default_rng(seed)
        points = rng.normal(size=(41, 3))
        targets = np.sin(2.0 * points[:, 0]) + 0.3 * rng.normal(size=41)
        model = LSSVMRegressorCV(kernels=kernels).fit(points[:-1], targets[:-1], nested=5)
        low, high = model.predict_interval(points[-1:], 0.9, "nested")[0]
        held += int(low <= targets[-1] <= high)
    assert held / sets >= 0.9 - 3.0 * np.sqrt(0.9 * 0.1 / sets)
