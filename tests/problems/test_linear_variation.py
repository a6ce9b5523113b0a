"""Maximal variation of linear components, columns far from zero included, against exact rational arithmetic."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from exact_linear_variation import exact_linear_errors

from problems import FusedMaximalVariationRegressor, MaximalVariationRegressor
from substrate.certificate import WITH_CUTOFF
from substrate.kernels import Linear

OFFSETS = (0.0, 1e8, 1e2, 1e4, 1e5, 1e6, 1e7, 1e9)


def data(seed, offset):
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(8, 20)), int(rng.integers(1, 4))
    X = offset + rng.normal(size=(n, p))
    y = 10.0 ** rng.uniform(-3.0, 6.0) * (rng.normal(size=n) + X[:, 0] - X[:, 0].mean())
    return X, y, 3 * n // 4


def distance(model, X, y, rho):
    exact = exact_linear_errors(X, y, rho)
    errors = [float(Fraction(float(f)) - Fraction(float(t))) for f, t in zip(model.predict(X), y, strict=True)]
    return float(np.sqrt(np.mean((np.array(errors) - exact) ** 2)))


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("seed", range(9))
@pytest.mark.covering
def test_fitted_values_are_as_near_to_the_optimum_as_stated(seed, offset):
    X, y, n = data(seed, offset)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fused = FusedMaximalVariationRegressor(Linear()).fit(X[:n], y[:n], X[n:], y[n:])
        half = 0.5 * fused.path_["values"][-1]
        plain = MaximalVariationRegressor(Linear(), rho=half or 1.0).fit(X, y)
    assert distance(fused, X[:n], y[:n], fused.rho_) <= fused.certificate_.accuracy
    assert distance(plain, X, y, plain.rho) <= plain.certificate_.accuracy
    if offset <= 1e2:
        assert fused.certificate_.holds
        assert plain.certificate_.holds
        assert WITH_CUTOFF not in plain.certificate_.promise  # all directions of linear components are kept


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("seed", range(9))
@pytest.mark.covering
def test_a_proof_knows_the_kernel_and_not_only_what_was_computed_of_it(seed, offset):
    pytest.importorskip("flint")
    X, y, _ = data(seed, offset)
    model = MaximalVariationRegressor(Linear(), rho=0.1 * float(np.ptp(y)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        proof = model.fit(X, y).prove(X, y)
    assert distance(model, X, y, model.rho) <= proof.accuracy
    assert proof.proved or offset > 1e2


@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e-9])
def test_directions_that_the_cutoff_drops_are_said(scale):
    """A column in a unit in which it is below the cut-off is no part of the machine that is certified."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2)) * (1.0, scale)
    y = X[:, 0] + X[:, 1] / scale + 0.1 * rng.normal(size=20)
    model = MaximalVariationRegressor(Linear(), rho=0.5, cutoff=1e-6).fit(X, y)
    left_out = scale**2 < 1e-6
    assert (WITH_CUTOFF in str(model.certificate_).splitlines()[0]) == left_out
    if not left_out:
        assert distance(model, X, y, model.rho) <= model.certificate_.accuracy
