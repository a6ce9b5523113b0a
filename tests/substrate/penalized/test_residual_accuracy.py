"""The bound of a declared point: true for any dual point, any errors that belong to it, and any fitted values."""

import numpy as np
import pytest

from substrate.certificates.enclosed import Double
from substrate.penalized.residual_accuracy import balancing_bias, bound_primal


def least_squares(seed, n=25, gamma=4.0):
    """The optimum of squared errors on K = R R' with a bias: w and alpha, from the bordered system."""
    rng = np.random.default_rng(seed)
    R, y = rng.normal(size=(n, 6)), rng.normal(size=n)
    system = np.ones((n + 1, n + 1))
    system[:n, :n], system[n, n] = R @ R.T + np.eye(n) / gamma, 0.0
    alpha, b = np.split(np.linalg.solve(system, np.append(y, 0.0)), [n])
    return rng, R, y, alpha, float(b[0])


def centred_norm(values):
    return float(np.linalg.norm(values - values.mean()))


@pytest.mark.parametrize("seed", range(4))
def test_a_point_whose_errors_are_not_those_of_its_multipliers_is_bounded(seed):
    """w = R'alpha for a wrong alpha: nothing but the errors tells that it is wrong."""
    rng, R, y, alpha, b = least_squares(seed)
    change = rng.normal(size=y.size)
    wrong = alpha + 0.1 * (change - change.mean())
    w, best = R.T @ wrong, R @ (R.T @ alpha)
    off = y - R @ w - b - wrong / 4.0
    bound = bound_primal(Double(R), w, Double(wrong), Double(np.full(y.size, 4.0)), Double(off), Double(0.0 * y))
    assert 1e-3 < centred_norm(R @ w - best) <= bound.upper()


@pytest.mark.parametrize("seed", range(4))
def test_a_point_that_is_not_that_of_its_multipliers_and_other_fitted_values_are_bounded(seed):
    rng, R, y, alpha, _ = least_squares(seed)
    best = R @ (R.T @ alpha)
    zeros, pulls = Double(0.0 * y), Double(np.full(y.size, 4.0))
    w = R.T @ alpha + 0.1 * rng.normal(size=6)
    bound = bound_primal(Double(R), w, Double(alpha), pulls, zeros, zeros)
    assert 1e-3 < centred_norm(R @ w - best) <= bound.upper()
    apart = 0.1 * rng.normal(size=y.size)
    bound = bound_primal(Double(R), R.T @ alpha, Double(alpha), pulls, zeros, Double(apart))
    assert 1e-3 < centred_norm(apart) <= bound.upper()


def test_the_bias_is_where_the_total_changes_its_sign():
    found = balancing_bias(-10.0, 10.0, lambda b: 1.25 - b**3)
    assert found == pytest.approx(1.25 ** (1.0 / 3.0), rel=1e-12)
