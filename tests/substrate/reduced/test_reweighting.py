"""Reweighting in passes: weighted sums are those of weighted rows, and the scale is that of all errors at once."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.kernels import RBF
from substrate.least_squares.robust_weights import (
    SCALES,
    quantile_ranks,
    robust_scale,
    robust_weights,
    weighted_quantile,
)
from substrate.reduced.features import eigen_features
from substrate.reduced.moments import origin_of
from substrate.reduced.reweighting import WeightsOfRows, scale_of_errors
from substrate.reduced.rows import KernelRows
from substrate.reduced.solution import residual_pass, solve_reduced
from substrate.reduced.spectrum import reduced_spectrum
from substrate.reduced.statistic import accumulate

RNG = np.random.default_rng(2)
X = RNG.normal(size=(400, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.1 * RNG.standard_t(1.5, size=400)
KERNEL, POINTS = RBF(1.5), X[:12]
ROWS, K = KernelRows.of(KERNEL, X, POINTS, Y[:, None]), KERNEL(POINTS)
K_ALL = KERNEL(X, POINTS)
BETA, BIAS, UNIT = RNG.normal(size=12), 0.3, 2.0
LAM = 0.05


def weights_by_hand():
    errors = Y / UNIT - K_ALL @ BETA - BIAS
    return robust_weights(errors, robust_scale(errors), "huber")


def weights_of_rows():
    return WeightsOfRows(BETA, BIAS, scale_of_errors(ROWS, UNIT, BETA, BIAS, "iqr"), "huber")


@pytest.mark.parametrize("scale", SCALES)
def test_the_scale_is_that_of_all_errors(scale):
    errors = Y / UNIT - K_ALL @ BETA - BIAS
    assert_allclose(scale_of_errors(ROWS, UNIT, BETA, BIAS, scale), robust_scale(errors, scale), rtol=1e-12)


@pytest.mark.parametrize("n", [2, 3, 4, 7, 8, 400, 401])
@pytest.mark.parametrize("level", [0.25, 0.5, 0.75])
def test_quantiles_are_means_of_two_ranks(n, level):
    values = RNG.normal(size=n)
    first, last = quantile_ranks(level, n)
    ranked = np.sort(values)
    assert 0.5 * ranked[first] + 0.5 * ranked[last] == weighted_quantile(values, level)


@pytest.mark.parametrize("method", ["accumulated", "row-wise"])
def test_weighted_sums_solve_the_weighted_problem(method):
    v, features = weights_by_hand(), eigen_features(K)
    origin = origin_of(K, ROWS.target_summary(), UNIT)
    statistic = accumulate(ROWS, features, origin, LAM, method=method, weights=weights_of_rows())
    assert_allclose(statistic.total.mass, v.sum(), rtol=1e-12)
    assert statistic.total.count == 400
    spectrum = reduced_spectrum(features, statistic.origin, statistic.total, statistic.error)
    solved = solve_reduced(ROWS, spectrum, LAM, K, weights_of_rows=weights_of_rows())
    # by hand: the gradient of lam/2 b'K b + 1/2 sum v e^2 in beta and bias
    A = np.block([[K_ALL.T @ (v[:, None] * K_ALL) + LAM * K, (K_ALL.T @ v)[:, None]], [K_ALL.T @ v, v.sum()]])
    expected = np.linalg.solve(A, np.append(K_ALL.T @ (v * Y), v @ Y))
    assert_allclose(K_ALL @ solved.coefficients[:, 0] + solved.bias, K_ALL @ expected[:-1] + expected[-1], atol=1e-9)
    assert all(row.passes for row in solved.rows)


def test_the_check_sees_wrong_weights():
    """A solution of the plain problem does not pass as one of the weighted problem."""
    features = eigen_features(K)
    origin = origin_of(K, ROWS.target_summary(), UNIT)
    statistic = accumulate(ROWS, features, origin, LAM)
    spectrum = reduced_spectrum(features, statistic.origin, statistic.total)
    solved = solve_reduced(ROWS, spectrum, LAM, K, most=0, weights_of_rows=weights_of_rows())
    assert not all(row.passes for row in solved.rows)
    mended = solve_reduced(ROWS, spectrum, LAM, K, most=0)
    assert all(row.passes for row in mended.rows)


def test_residual_sums_are_those_of_weighted_rows():
    v = weights_by_hand()
    found = residual_pass(ROWS, UNIT, 0.5 * BETA[:, None], np.array([0.1]), weights_of_rows())
    errors = Y / UNIT - K_ALL @ (0.5 * BETA) - 0.1
    assert_allclose(found.slope[:, 0], K_ALL.T @ (v * errors), rtol=1e-10)
    assert_allclose(found.total, v @ errors, rtol=1e-10)
    assert_allclose(found.squares, v @ errors**2, rtol=1e-10)
    assert_allclose(found.targets, v @ (Y / UNIT) ** 2, rtol=1e-10)
    assert_allclose(found.kernel_squares, np.sum(v[:, None] * K_ALL**2), rtol=1e-10)


def test_one_correction_from_nothing_is_the_solution():
    features = eigen_features(K)
    origin = origin_of(K, ROWS.target_summary(), UNIT)
    statistic = accumulate(ROWS, features, origin, LAM, weights=weights_of_rows())
    spectrum = reduced_spectrum(features, statistic.origin, statistic.total)
    nothing = residual_pass(ROWS, UNIT, np.zeros((12, 1)), np.zeros(1), weights_of_rows())
    change, shift = spectrum.correction(features.transform.T @ nothing.slope, nothing.total, LAM)
    assert_allclose(change, spectrum.weights(LAM), rtol=1e-9, atol=1e-9)
    assert_allclose(shift, spectrum.bias(spectrum.weights(LAM)), rtol=1e-9)
