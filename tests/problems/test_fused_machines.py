"""Fused estimators: no machine of an independent grid validates better, and none is below the bound."""

import warnings
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold

from problems import (
    FusedL1SubstrateClassifier,
    FusedL1SubstrateRegressor,
    FusedMaximalVariationClassifier,
    FusedMaximalVariationRegressor,
    L1SubstrateClassifier,
    L1SubstrateRegressor,
    LSSVMClassifier,
    LSSVMClassifierCV,
    LSSVMRegressor,
    LSSVMRegressorCV,
    MaximalVariationClassifier,
    MaximalVariationRegressor,
)
from substrate.errors import DataError
from substrate.kernels import RBF, Linear

KERNEL = RBF(1.0)
REGRESSORS = {
    "gamma": (LSSVMRegressorCV, LSSVMRegressor),
    "zeta": (FusedL1SubstrateRegressor, L1SubstrateRegressor),
    "rho": (FusedMaximalVariationRegressor, MaximalVariationRegressor),
}
CLASSIFIERS = {
    "gamma": (LSSVMClassifierCV, LSSVMClassifier),
    "zeta": (FusedL1SubstrateClassifier, L1SubstrateClassifier),
    "rho": (FusedMaximalVariationClassifier, MaximalVariationClassifier),
}
GRIDS = {
    "gamma": np.geomspace(1e-2, 1e5, 25),
    "zeta": np.geomspace(2e-3, 20.0, 25),
    "rho": np.geomspace(1e-2, 20.0, 15),
}
ALL = [(over, kind) for over in GRIDS for kind in ("regression", "classification")]
#: Those that take validation rows.
VALIDATED = ("zeta", "rho")
BOTH = [(over, kind) for over, kind in ALL if over in VALIDATED]


def regression(n=22, m=14, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n + m, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.3 * rng.standard_normal(n + m)
    return X[:n], y[:n], X[n:], y[n:]


def classes(n=27, m=15, k=3, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.array(["no", "perhaps", "yes"])[np.arange(n + m) % k]
    X = rng.normal(size=(n + m, 2)) + 1.5 * np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, -1.0]])[np.arange(n + m) % k]
    return X[:n], labels[:n], X[n:], labels[n:]


def made(over, kind, **choices):
    """A fused estimator, the plain one as a function of the value, and data."""
    fused, plain = (REGRESSORS if kind == "regression" else CLASSIFIERS)[over]
    data = regression() if kind == "regression" else classes()
    same = {name: choice for name, choice in choices.items() if name in plain().get_params()}
    return fused(KERNEL, **choices), lambda value: plain(KERNEL, **{over: value}, **same), data


@cache
def fitted(over, kind):
    """The same, fitted, for several tests to look at."""
    model, plain, (X, y, V, v) = made(over, kind)
    return model.fit(X, y, V, v), plain, (X, y, V, v)


def outputs(model, V):
    """What the machines say at the points, from the expansion as it is stored."""
    a, kernel = model.support_values_, model.kernel_
    K = kernel(V, model.support_vectors_) if model.support_.size else np.zeros((V.shape[0], 0))
    return (K @ a + model.bias_).reshape(V.shape[0], -1)


def chosen(model):
    """The value that fusion found."""
    return getattr(model, f"{model.path_['parameter']}_")


def squares(model, V, v):
    """Squared errors of all machines on the rows that concern them, and how many they are."""
    if hasattr(model, "classes_"):
        codes = model.code_book_[np.searchsorted(model.classes_, v)]
        e = np.where(codes != 0.0, codes - outputs(model, V), 0.0)
        return float(np.sum(e**2)), int(np.count_nonzero(codes))
    return float(np.sum((v - model.predict(V)) ** 2)), v.size


def error(model, V, v):
    total, count = squares(model, V, v)
    return total / count


def cross_validated(plain, X, y, splits, by_fold=False):
    """The mean over all rows that validate; or of the means of the folds, as a search over gamma has it."""
    parts = [squares(plain.fit(X[train], y[train]), X[test], y[test]) for train, test in splits]
    if by_fold:
        return np.mean([total / count for total, count in parts])
    return sum(total for total, _ in parts) / sum(count for _, count in parts)


# ---- a validation set --------------------------------------------------------------------------------


@pytest.mark.parametrize(("over", "kind"), BOTH)
def test_no_machine_of_a_grid_validates_better(over, kind):
    model, plain, (X, y, V, v) = fitted(over, kind)
    grid = [error(plain(value).fit(X, y), V, v) for value in GRIDS[over]]
    assert model.criterion_ <= min(grid) * (1.0 + 1e-6)
    assert model.criterion_lower_bound_ <= min(grid)
    assert model.criterion_lower_bound_ <= model.criterion_ <= model.criterion_lower_bound_ * (1.0 + 1e-3)
    assert min(grid) <= 1.05 * model.criterion_, "the grid comes near, or it shows nothing"
    assert model.certificate_.holds
    assert f"gap of {over}" in {row.name for row in model.certificate_.rows}
    at_best = plain(chosen(model)).fit(X, y)
    assert_allclose(outputs(model, V), outputs(at_best, V), atol=1e-6)


@pytest.mark.parametrize(("over", "kind"), BOTH)
def test_the_path_has_the_errors_of_plain_machines(over, kind):
    model, plain, (X, y, V, v) = fitted(over, kind)
    path = model.path_
    values, errors = path["values"], path["criterion"]
    assert path["parameter"] == over
    assert values.shape == errors.shape
    assert (np.diff(values) > 0.0).all()
    low, high = path["coverage"]
    assert low <= chosen(model) <= high
    assert errors.min() >= model.criterion_lower_bound_ * (1.0 - 1e-9)
    for k in np.linspace(1, values.size - 2, 4).astype(int):
        assert error(plain(values[k]).fit(X, y), V, v) == pytest.approx(errors[k], rel=1e-4)
    assert high == np.inf
    assert path["stop"]
    assert ("maximal_variation" in path) == (over == "rho" and kind == "regression"), "of one path, not of many"


@pytest.mark.parametrize("bound", ["zeta", "shared", "decoupled"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.covering
def test_where_the_mean_validates_best_everything_is_exactly_zero(bound, seed):
    """The best value is the end of a path, the machine is solved anew: what rounding makes of both must not matter."""
    X, y, V, _ = regression(seed=seed)
    if bound == "zeta":
        model = FusedL1SubstrateRegressor(KERNEL)
    else:
        ridge = 0.3 if bound == "decoupled" else 0.0
        model = FusedMaximalVariationRegressor(KERNEL, expansion=bound, ridge=ridge)
    model.fit(X, y, V, np.full(V.shape[0], y.mean()))
    assert_array_equal(model.support_values_, 0.0)
    rounding = y.size * np.finfo(float).eps * np.abs(y).max()
    assert_allclose(model.predict(V), y.mean(), rtol=0.0, atol=rounding)
    if bound == "zeta":
        assert model.n_support_ == 0
    else:
        assert_array_equal(model.maximal_variation_, 0.0)


# ---- folds, leave-one-out, a fraction ----------------------------------------------------------------


@pytest.mark.parametrize(("over", "kind"), ALL)
def test_folds_add_up(over, kind):
    model, plain, (X, y, _, _) = made(over, kind, cv=3)
    model.fit(X, y)
    splits = list((KFold(3) if kind == "regression" else StratifiedKFold(3)).split(X, y))
    by_fold = over == "gamma"
    assert cross_validated(plain(chosen(model)), X, y, splits, by_fold) == pytest.approx(model.criterion_, rel=1e-5)
    grid = [cross_validated(plain(value), X, y, splits, by_fold) for value in GRIDS[over][::4]]
    assert model.criterion_ <= min(grid) * (1.0 + 1e-6)
    assert model.criterion_lower_bound_ <= min(grid)
    assert model.criterion_ <= model.criterion_lower_bound_ * (1.0 + 1e-2)
    final = plain(chosen(model)).fit(X, y)
    assert_allclose(outputs(model, X), outputs(final, X), atol=1e-5)
    assert ("validated on", "3 folds") in model.certificate_.record


@pytest.mark.parametrize(
    ("over", "kind"), [("gamma", "regression"), ("gamma", "classification"), ("zeta", "regression")]
)
def test_leave_one_out_is_explicit_refits(over, kind):
    model, plain, (X, y, _, _) = made(over, kind, cv="loo")
    model.fit(X, y)
    splits = [(np.delete(np.arange(y.size), i), np.array([i])) for i in range(y.size)]
    assert cross_validated(plain(chosen(model)), X, y, splits) == pytest.approx(model.criterion_, rel=1e-7)
    for value in GRIDS[over][::12]:
        assert model.criterion_lower_bound_ <= cross_validated(plain(value), X, y, splits) * (1.0 + 1e-9)
    assert ("validated on", "every row left out in turn") in model.certificate_.record


# ---- codings, expansions, selection ------------------------------------------------------------------


@pytest.mark.parametrize("over", VALIDATED)
@pytest.mark.parametrize("coding", ["minimum_output", "ecoc"])
@pytest.mark.covering
def test_codings_share_one_value(over, coding):
    model, plain, (X, y, V, v) = made(over, "classification", coding=coding)
    model.fit(X, y, V, v)
    assert error(model, V, v) == pytest.approx(model.criterion_, rel=1e-6)
    grid = [error(plain(value).fit(X, y), V, v) for value in GRIDS[over][::5]]
    assert model.criterion_ <= min(grid) * (1.0 + 1e-6)
    assert model.criterion_lower_bound_ <= min(grid)
    at_best = plain(chosen(model)).fit(X, y)
    assert_array_equal(model.predict(V), at_best.predict(V))
    assert_allclose(model.decision_function(V), at_best.decision_function(V), atol=1e-5)


# ---- refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("over", "kind"), BOTH)
def test_half_a_validation_set_is_refused(over, kind):
    model, _, (X, y, V, v) = made(over, kind)
    for given in ({"X_val": V}, {"y_val": v}):
        with pytest.raises(DataError, match="X_val and y_val come together; one of them is missing"):
            model.fit(X, y, **given)
    with pytest.raises(DataError, match="y_val must have one entry per row of X_val: expected 3, received 2"):
        model.fit(X, y, V[:3], v[:2])
    with pytest.raises(DataError, match="X_val has 1 features, X has 2"):
        model.fit(X, y, V[:, :1], v)
    assert not hasattr(model, f"{over}_")


@pytest.mark.parametrize(("over", "kind"), BOTH)
def test_validation_rows_beside_folds_are_refused(over, kind):
    model, _, (X, y, V, v) = made(over, kind, cv=3)
    with pytest.raises(DataError, match="X_val and y_val are used only with cv=None, received cv=3"):
        model.fit(X, y, V, v)


# ---- hard cases --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [RBF(1.0), Linear()], ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_rho_is_the_weight_at_which_the_machine_was_solved(kernel, seed):
    """Without noise the best weight is often zero; the machine that is certified has a small positive one."""
    rng = np.random.default_rng(seed)
    X = 10.0 ** rng.uniform(-3.0, 3.0) * rng.normal(size=(24, 2))
    y = 10.0 ** rng.uniform(-6.0, 6.0) * (X[:, 0] / np.abs(X[:, 0]).max() + 1e-3 * rng.normal(size=24) * (seed % 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = FusedMaximalVariationRegressor(kernel).fit(X[:16], y[:16], X[16:], y[16:])
        plain = MaximalVariationRegressor(model.kernel_, rho=model.rho_).fit(X[:16], y[:16])
    assert model.rho_ > 0.0
    apart = np.sqrt(np.mean((model.predict(X[:16]) - plain.predict(X[:16])) ** 2))
    assert apart <= model.certificate_.accuracy + plain.certificate_.accuracy
