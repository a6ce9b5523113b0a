"""No value of the parameter lies below the bound: random searches against criteria with hundreds of digits."""

import warnings

import numpy as np
import pytest
from exact_criteria import exact_criterion
from exact_l1 import exact_l1_error
from sklearn.model_selection import KFold

from problems import (
    FusedL1SubstrateRegressor,
    FusedMaximalVariationRegressor,
    LSSVMRegressorCV,
    MaximalVariationRegressor,
)
from substrate.fits.l1 import zeta_max
from substrate.kernels import RBF, Componentwise, Laplacian, Linear, Polynomial

pytest.importorskip("flint", reason="the exact criteria need python-flint")

#: From this seed on gamma is chosen by the evidence.
EVIDENCE = 5000


def task(seed):
    """Data of any smoothness, noise and unit; a kernel; a criterion; a range that may be far too wide."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(6, 15)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.choice([-2.0, 0.0, 0.0, 0.0, 2.0])
    X += rng.choice([0.0, 0.0, 1e3])
    unit = float(X.std())
    y = np.sin((X[:, 0] - X[:, 0].mean()) / unit) + 10.0 ** rng.uniform(-9.0, 0.0) * rng.normal(size=n)
    y = y * 10.0 ** rng.choice([-6.0, 0.0, 6.0]) + rng.choice([0.0, 100.0])
    width = unit * 10.0 ** rng.uniform(-0.5, 1.5)
    kernel = [RBF(width), Laplacian(width), Linear(), Polynomial(2, 1.0), RBF(30.0 * width)][int(rng.integers(5))]
    which = ["loo", "gcv", "folds"][int(rng.integers(3))] if seed < EVIDENCE else "evidence"
    gammas = [None, (1e-4, 1e8), (1e-2, 1e12), (1.0, 1e16)][int(rng.integers(4))]
    return X, y, kernel, which, gammas


def below_the_bound(model, X, y, which, points=10):
    """By how much, relatively, the smallest exact criterion of a scan is below the bound; positive is false."""
    low, high = model.gamma_range_
    scan = np.append(np.geomspace(low, high, points), model.gamma_)
    splits = list(KFold(5).split(X)) if which == "folds" else ()
    exact = exact_criterion(which, model.kernel_, X, y, scan, splits).min()
    return model.criterion_lower_bound_ / exact - 1.0


def searched(seed):
    X, y, kernel, which, gammas = task(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a range that is too wide fails its certificate, and says so
        model = LSSVMRegressorCV(kernel, cv=KFold(5) if which == "folds" else which, gamma_range=gammas).fit(X, y)
    return model, X, y, which


@pytest.mark.parametrize("seed", [*range(12), *range(EVIDENCE, EVIDENCE + 4)])
def test_no_gamma_of_the_range_is_below_the_bound(seed):
    model, *data = searched(seed)
    assert below_the_bound(model, *data) <= 1e-12


def fusion_task(seed):
    rng = np.random.default_rng(1000 + seed)
    n, d = int(rng.integers(8, 22)), int(rng.integers(1, 3))
    X = rng.normal(size=(2 * n, d))
    y = np.sin(2.0 * X[:, 0]) + 10.0 ** rng.uniform(-3.0, 0.0) * rng.normal(size=2 * n)
    y = y * 10.0 ** rng.choice([-3.0, 0.0, 3.0]) + rng.choice([0.0, 50.0])
    return X[:n], y[:n], X[n:], y[n:], RBF(10.0 ** rng.uniform(-0.5, 0.7))


def fused_l1_below(seed, points=8):
    """As :func:`below_the_bound`, for zeta; points whose active set rounding hides are left out."""
    X, y, V, v, kernel = fusion_task(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FusedL1SubstrateRegressor(kernel).fit(X, y, V, v)
    K, rows = kernel(X), kernel(V, X)
    low, top = model.path_["coverage"][0], zeta_max(K, y)
    if not low < top:
        return -np.inf
    scan = np.append(np.geomspace(low, 0.99 * top, points), model.zeta_)
    exact = [exact_l1_error(K, y, zeta, rows, v) for zeta in scan]
    return max((model.criterion_lower_bound_ / error - 1.0 for error in exact if error is not None), default=-np.inf)


def fused_rho_below(seed, points=4):
    """The same for rho, from zero on, by fits whose certificates hold."""
    X, y, V, v, kernel = fusion_task(seed)
    kernel = Componentwise(kernel)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FusedMaximalVariationRegressor(kernel).fit(X, y, V, v)
        top = model.path_["values"][-1]
        worst = -np.inf
        for rho in np.append(np.geomspace(1e-6 * top, 0.99 * top, points), max(model.rho_, 1e-9 * top)):
            plain = MaximalVariationRegressor(kernel, rho=float(rho)).fit(X, y)
            error = float(np.mean((v - plain.predict(V)) ** 2))
            worst = max(worst, model.criterion_lower_bound_ / error - 1.0)
    return worst


@pytest.mark.parametrize("seed", range(6))
def test_no_zeta_that_is_covered_is_below_the_bound(seed):
    assert fused_l1_below(seed) <= 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_no_rho_is_below_the_bound(seed):
    assert fused_rho_below(seed) <= 1e-6
