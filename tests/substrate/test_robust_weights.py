"""Weights and scales by their formulas, their limits, and rows that count twice."""

import naive_pruning as naive
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from substrate.robust_weights import (
    LEAST_WEIGHT,
    SCALES,
    WEIGHTINGS,
    density_thresholds,
    robust_scale,
    robust_weights,
    weighted_quantile,
)

over_weightings = pytest.mark.parametrize("weighting", WEIGHTINGS[:-1])
over_scales = pytest.mark.parametrize("scale", SCALES)


def test_the_quantiles_of_a_gaussian_have_the_usual_thresholds():
    """:place [Suykens2002]_ section 3, after (15): c1 and c2 by a density estimate"""
    quantiles = norm.ppf((np.arange(400) + 0.5) / 400)
    assert_allclose(density_thresholds(quantiles, 1.0), (2.5, 3.0), atol=0.1)


def test_hampel_is_the_table_of_the_paper_kept_off_zero():
    """:equation [Suykens2002]_ (14): by hand, and kept off zero."""
    r = np.array([0.0, 1.0, -2.5, 2.6, 2.75, -2.9, 2.99999, 3.0, -3.1, 50.0])
    expected = [1.0, 1.0, 1.0, 0.8, 0.5, 0.2, 1e-4, 1e-4, 1e-4, 1e-4]
    assert_allclose(robust_weights(7.0 * r, 7.0), expected, rtol=1e-10)
    assert_allclose(robust_weights(7.0 * r, 7.0), naive.hampel(7.0 * r, 7.0), rtol=1e-12)


@pytest.mark.parametrize(
    ("weighting", "formula"),
    [
        ("huber", lambda r: 1.0 if r <= 1.345 else 1.345 / r),
        ("logistic", lambda r: np.tanh(r) / r),
        ("myriad", lambda r: 0.6745**2 / (0.6745**2 + r**2)),
    ],
)
def test_the_other_weights_are_their_formulas(weighting, formula):
    r = np.geomspace(1e-9, 40.0, 200)
    assert_allclose(robust_weights(-0.3 * r, 0.3, weighting), [max(formula(x), 1e-4) for x in r], rtol=1e-12)


@over_weightings
def test_a_weight_is_one_for_no_error_falls_with_it_and_never_reaches_nought(weighting):
    r = np.r_[0.0, np.geomspace(1e-200, 1e200, 400)]
    v = robust_weights(r, 1.0, weighting)
    assert v[0] == 1.0
    assert (np.diff(v) <= 1e-15).all()
    assert v[-1] == LEAST_WEIGHT
    assert_array_equal(robust_weights(-r, 1.0, weighting), v)


def test_the_mad_is_that_of_the_errors():
    """:equation [Suykens2002]_ (15): both scales by hand."""
    errors = np.array([1.0, 2.0, 4.0, 8.0, 100.0])
    assert_allclose(robust_scale(errors, "mad"), 1.483 * 3.0)  # |e - 4| = 3, 2, 0, 4, 96
    assert_allclose(robust_scale(errors, "iqr"), (8.0 - 2.0) / 1.349)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 101])
@pytest.mark.parametrize("level", [0.25, 0.5, 0.75])
def test_quantiles_against_the_list_written_out(n, level):
    rng = np.random.default_rng(n)
    values, counts = rng.normal(size=n).round(1), rng.integers(1, 4, size=n)
    assert_allclose(weighted_quantile(values, level), naive.quantile(values, level))
    assert_allclose(weighted_quantile(values, level, counts.astype(float)), naive.quantile(values, level, counts))


@over_scales
def test_a_weight_of_two_is_a_row_twice_and_a_common_factor_is_nothing(scale):
    rng = np.random.default_rng(4)
    errors, counts = rng.normal(size=60), rng.integers(1, 5, size=60)
    weights = counts.astype(float)
    expected = robust_scale(np.repeat(errors, counts), scale)
    assert robust_scale(errors, scale, weights) == expected
    assert robust_scale(errors, scale, weights / 7.0) == expected
    order = rng.permutation(60)
    assert robust_scale(errors[order], scale, weights[order]) == expected
