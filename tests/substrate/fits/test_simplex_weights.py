"""Weights of a stack: errors and lower bounds in rational numbers, where sums cancel."""

from fractions import Fraction

import numpy as np
import pytest

from substrate.fits.simplex_weights import bound_stack, weigh_machines


def exactly(values):
    return [Fraction(float(value)) for value in np.ravel(values)]


def squared_error(errors, weights, u):
    """The weighted mean square of the errors of a stack, as a rational number."""
    v, u = exactly(weights), exactly(u)
    stacked = [sum(a * b for a, b in zip(exactly(row), u, strict=True)) for row in errors]
    return sum(w * r * r for w, r in zip(v, stacked, strict=True)) / sum(v)


def least_squared_error(errors, weights):
    """The smallest one of two machines: a parabola in the weight of the second, between 0 and 1."""
    v, first, second = exactly(weights), exactly(errors[:, 0]), exactly(errors[:, 1])
    steps = [b - a for a, b in zip(first, second, strict=True)]
    slope = sum(w * a * d for w, a, d in zip(v, first, steps, strict=True))
    bend = sum(w * d * d for w, d in zip(v, steps, strict=True))
    t = min(max(-slope / bend, Fraction(0)), Fraction(1)) if bend else Fraction(0)
    return sum(w * (a + t * d) ** 2 for w, a, d in zip(v, first, steps, strict=True)) / sum(v)


def opposed(seed, n, size):
    """Two machines whose errors are the same but for large parts that cancel, and weights of the rows."""
    rng = np.random.default_rng(seed)
    r, z = rng.normal(size=(2, n))
    z -= (z @ r) / (r @ r) * r
    return np.column_stack([r + size * z, r - size * z]), rng.uniform(0.5, 2.0, n)


@pytest.mark.parametrize("size", [0.0, 1.0, 1e4, 1e12])
def test_bounds_are_true_where_errors_cancel(size):
    for seed in range(40):
        errors, weights = opposed(seed, 7, size)
        u = weigh_machines(errors, weights)
        gap = bound_stack(errors, weights, u, 1.0)
        total = Fraction(float(u[0])) + Fraction(float(u[1]))
        assert abs(total - 1) < 1e-15
        assert Fraction(gap.error) ** 2 >= squared_error(errors, weights, u)
        assert Fraction(gap.lower_bound) ** 2 <= least_squared_error(errors, weights) * (1 + Fraction(1, 10**15))


@pytest.mark.parametrize("seed", range(20))
def test_an_error_that_cancels_to_nothing_is_bounded_by_its_rounding(seed):
    rng = np.random.default_rng(seed)
    first, u = rng.normal(size=5), np.array([0.3, 0.7])
    errors = np.column_stack([first, -(u[0] * first) / u[1]])  # zero up to rounding
    gap = bound_stack(errors, np.ones(5), u, 0.0)
    exact = squared_error(errors, np.ones(5), u)
    assert exact <= Fraction(gap.error) ** 2 <= Fraction(1, 10**28)
