"""Splits name the rows that were given to fit: with rows of weight zero they are the splits of the other rows alone."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut, PredefinedSplit, ShuffleSplit

from problems import LSSVMClassifierCV, LSSVMRegressorCV
from substrate.errors import DataError
from substrate.kernels import RBF

N = 40
EVERY = (
    LSSVMRegressorCV,
    LSSVMClassifierCV,
    LSSVMRegressorCV,
    LSSVMClassifierCV,
)
#: Those that take any splits, not only folds.
DENSE = (LSSVMRegressorCV, LSSVMClassifierCV)


def data(machine, seed):
    """Rows, targets or labels, weights of which some are zero, and groups of which no class is absent."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.2 * rng.normal(size=N)
    if "Classifier" in machine.__name__:
        y = np.array(["no", "yes"])[(y + 0.5 * rng.normal(size=N) > 0.0).astype(int)]
    weights = np.where(rng.uniform(size=N) < 0.3, 0.0, rng.uniform(0.5, 2.0, size=N))
    return X, y, weights, rng.integers(0, 4, size=N)


def made(machine, cv, **parameters):
    return machine(RBF(1.0) if "kernel" not in parameters else parameters.pop("kernel"), cv=cv, **parameters)


def renumbered(splits, weights):
    """The same splits of the rows of positive weight, as a user would write them for these rows alone."""
    own = {int(row): place for place, row in enumerate(np.flatnonzero(weights))}
    parts = [tuple(np.array([own[int(row)] for row in part if int(row) in own]) for part in pair) for pair in splits]
    return [(train, test) for train, test in parts if len(train) and len(test)]


def assert_same(machine, cv, splits, X, y, weights, **parameters):
    kept = weights > 0.0
    model = made(machine, cv, **parameters).fit(X, y, sample_weight=weights)
    alone = made(machine, renumbered(splits, weights), **parameters).fit(X[kept], y[kept], sample_weight=weights[kept])
    assert_allclose(model.gamma_, alone.gamma_, rtol=1e-9)
    decide = "predict" if "Regressor" in machine.__name__ else "decision_function"
    assert_allclose(getattr(model, decide)(X), getattr(alone, decide)(X), rtol=1e-9, atol=1e-12)
    if hasattr(model, "criterion_"):
        assert_allclose(model.criterion_, alone.criterion_, rtol=1e-9)


@pytest.mark.parametrize("machine", EVERY)
@pytest.mark.parametrize("how", ["a list", "a splitter", "groups"])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.covering
def test_row_numbers_are_those_of_the_rows_given(machine, how, seed):
    X, y, weights, groups = data(machine, seed)
    splits = list(LeaveOneGroupOut().split(X, y, groups))
    cv = {"a list": splits, "a splitter": PredefinedSplit(groups), "groups": GroupKFold(4).split(X, y, groups)}[how]
    if how == "groups":
        cv = splits = list(cv)
    assert_same(machine, cv, splits, X, y, weights)


@pytest.mark.parametrize("machine", DENSE)
@pytest.mark.parametrize("seed", range(2))
def test_splits_that_are_no_folds(machine, seed):
    X, y, weights, _ = data(machine, seed)
    splits = list(ShuffleSplit(3, test_size=0.3, train_size=0.5, random_state=seed).split(X))
    assert_same(machine, splits, splits, X, y, weights)
    weights[splits[0][1]] = 0.0  # a split that validates no row of positive weight is none
    assert_same(machine, splits, splits, X, y, weights)


@pytest.mark.parametrize("machine", EVERY)
def test_a_number_that_is_no_row_is_refused_by_the_number_of_rows_given(machine):
    X, y, weights, groups = data(machine, 0)
    splits = list(LeaveOneGroupOut().split(X, y, groups))
    splits[0] = (splits[0][0], np.append(splits[0][1], N))
    with pytest.raises(DataError, match=f"row {N} of {N} rows"):
        made(machine, splits).fit(X, y, sample_weight=weights)
    only = np.zeros(N)
    only[[0, 1]] = 1.0
    with pytest.raises(DataError, match="positive weight"):
        made(LSSVMRegressorCV, [(np.arange(2), np.arange(2, N))]).fit(X, np.arange(N) * 1.0, sample_weight=only)
