"""Errors: the sizes from which on they are rare, by their density."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from substrate.least_squares.error_distribution import (
    density_thresholds,
)
from substrate.least_squares.robust_weights import robust_scale

GAUSSIAN = norm.ppf((np.arange(400) + 0.5) / 400)


def naive_density(t, sizes, weights):
    """The estimate of the density at one point, summed row by row."""
    shares = weights / weights.sum()
    h = 0.9 * (1.0 / np.sum(shares**2)) ** -0.2
    q, pairs = np.sqrt(1.0 + h * h), zip(shares, sizes, strict=True)
    return sum(v * (norm.pdf((q * t - r) / h) + norm.pdf((q * t + r) / h)) for v, r in pairs) * q / (2 * h)


def test_the_quantiles_of_a_gaussian_have_the_usual_thresholds():
    """:place [Suykens2002]_ section 3, after (15): c1 and c2 by a density estimate"""
    assert_allclose(density_thresholds(GAUSSIAN, 1.0), (2.5, 3.0), atol=0.1)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_density_is_at_the_level_at_the_thresholds_and_above_it_before(weighted):
    errors = np.random.default_rng(0).standard_t(3, 60)
    weights = np.random.default_rng(1).integers(1, 4, 60).astype(float) if weighted else None
    c1, c2 = density_thresholds(errors, 1.0, weights)
    v = np.ones(60) if weights is None else weights
    sizes = np.abs(errors)
    for c, usual, start in ((c1, 2.5, np.median(sizes)), (c2, 3.0, c1)):
        assert_allclose(naive_density(c, sizes, v), norm.pdf(usual), rtol=1e-3)
        before = np.linspace(start, c - 0.02, 25)
        assert all(naive_density(t, sizes, v) > norm.pdf(usual) for t in before)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_thresholds_do_not_depend_on_units_or_repeated_rows(unit):
    errors = np.random.default_rng(2).standard_normal(40)
    scale = robust_scale(errors)
    expected = density_thresholds(errors, scale)
    assert_allclose(density_thresholds(unit * errors, unit * scale), expected, rtol=1e-9)
    assert_allclose(density_thresholds(errors, scale, np.full(40, 1e-30)), expected, rtol=1e-9)
    assert density_thresholds(errors, 0.0) == (2.5, 3.0)
    far = density_thresholds(np.array([-1.0, 1.0, 1e300]), 1.0)
    assert 0.0 < far[0] < far[1] < np.inf
