"""Numbers with a radius: whatever is computed in double precision contains what balls find."""

import numpy as np
import pytest

from substrate.numbers import Double, at_most

pytest.importorskip("flint", reason="the exact values need python-flint")

from substrate.balls import Balls, above, ball, precision

BITS = 2400


def vectors(seed, n=12):
    """Numbers of very different sizes, with pairs that nearly cancel, zeros, and numbers near underflow."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n) * 10.0 ** rng.uniform(-12.0, 12.0, size=n)
    y = np.where(rng.random(n) < 0.5, x * (1.0 + 1e-15 * rng.normal(size=n)), rng.normal(size=n))
    x[rng.integers(n)] = 0.0
    tiny = 10.0 ** rng.choice([0.0, 0.0, -160.0, -300.0])
    return tiny * x, y, rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-6.0, 6.0, size=(n, n))


FORMULAS = {
    "sum": lambda number, x, y, A: number(x) + number(y),
    "difference": lambda number, x, y, A: (number(x) + 3.0) - number(y) - (number(x) - number(y)),
    "product": lambda number, x, y, A: number(x) * number(y) * number(y) - number(x) * 1e-150,
    "quotient": lambda number, x, y, A: (number(x) + y) / (number(y) * number(y) + 2.0),
    "reciprocal": lambda number, x, y, A: 1.0 / (3.0 * number(y)),
    "matrix": lambda number, x, y, A: number(A) @ number(x) - number(A) @ number(y),
    "matrix with radius": lambda number, x, y, A: (number(A) - number(y)) @ number(x),
    "pairs": lambda number, x, y, A: (number(A) - number(y)) @ (number(x) * number(y) - 1.0),
    "side by side": lambda number, x, y, A: (number(A) - number(y)).beside(number(A)).T @ number(x),
    "sums of pairs": lambda number, x, y, A: (number(np.tile(A, 3)) - number(np.tile(y, 3))) @ number(np.tile(x, 3)),
    "roots": lambda number, x, y, A: (number(x) * number(x) + (number(y) - number(y))).sqrt(),
    "total": lambda number, x, y, A: (number(x) - number(y)).total() + 0.0,
    "sum of one sign": lambda number, x, y, A: (number(x) * number(x)).total() + 0.0,
    "largest": lambda number, x, y, A: (number(x) * number(y)).largest() + 0.0,
    "positive part": lambda number, x, y, A: (number(x) - number(y)).positive_part() + 0.0,
    "size": lambda number, x, y, A: abs(number(x) - number(y)) + 0.0,
    "selected": lambda number, x, y, A: (number(x) - 1.0).select(y > 0.0, number(y) * 3.0),
    "some": lambda number, x, y, A: (number(x) * number(y)).take([2, 5]).place([1, 0], 4) - 1.0,
    "absorbed": lambda number, x, y, A: number(x).absorb(number(y) * 1e-9) * 2.0,
}


def in_balls(value):
    return list(np.atleast_1d(value.values))


def ends(value):
    """Midpoints and radii of numbers in double precision, in balls without radius."""
    high, low = value.middle, np.zeros_like(value.middle)
    high, low = np.atleast_1d(high), np.atleast_1d(low)
    radius = np.broadcast_to(value.radius, high.shape)
    return [(ball(h) + ball(rest), at_most(r)) for h, rest, r in zip(high, low, radius, strict=True)]


@pytest.mark.parametrize("name", FORMULAS)
def test_the_exact_value_is_within_the_radius(name):
    for seed in range(20):
        data, formula = vectors(seed), FORMULAS[name]
        with precision(BITS), np.errstate(all="ignore"):
            exact = in_balls(formula(Balls.exact, *data))
            for value, (middle, radius) in zip(exact, ends(formula(Double.exact, *data)), strict=True):
                assert not np.isnan(radius)
                assert above(abs(value - middle)) <= radius or abs(value - middle) <= ball(radius), (seed, name)


@pytest.mark.parametrize("radius", [0.0, 1e-17, 1e-8, 0.3, 1.0, 1.5, 20.0])
@pytest.mark.parametrize("middle", [-30.0, -1.0, 0.0, 2.0])
def test_an_exponential_contains_both_ends_of_its_numbers(middle, radius):
    value = Double(np.array([middle]), np.array([radius])).exp()
    with precision(BITS):
        for end in (ball(middle) - ball(radius), ball(middle) + ball(radius)):
            assert above(abs(end.exp() - ball(value.middle[0]))) <= value.radius[0]
    assert value.radius[0] <= np.exp(middle) * (1.7 * np.expm1(radius) + 1e-15)


@pytest.mark.parametrize("seed", range(10))
def test_the_norm_is_not_exceeded(seed):
    x, y, _ = vectors(seed)
    v = np.abs(y) + 1e-3
    with precision(BITS):
        exact = (Balls.exact(x) - y).bound_norm(v)
        for numbers in (Double,):
            bound = (numbers.exact(x) - y).bound_norm(v).upper()
            assert above(exact.value) <= bound
            assert bound <= 1.02 * exact.upper() + 1e-9 * np.abs(x).max()


@pytest.mark.parametrize("seed", range(10))
def test_a_small_system_is_solved_within_its_radius(seed):
    rng = np.random.default_rng(seed)
    A, b = rng.normal(size=(4, 4)), rng.normal(size=4)
    A = A @ A.T + 10.0 ** rng.uniform(-8.0, 0.0) * np.eye(4)
    found = Double.exact(A).solve(Double.exact(b))
    with precision(BITS):
        exact = Balls.exact(A).solve(Balls.exact(b))
        for value, (middle, radius) in zip(in_balls(exact), ends(found), strict=True):
            assert above(abs(value - middle)) <= radius


@pytest.mark.parametrize("seed", range(10))
def test_the_norm_by_an_inverse_is_not_exceeded(seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(15, 4))
    A[:, 3] = A[:, 2] + 10.0 ** rng.uniform(-6.0, 0.0) * A[:, 3]
    A = A * 10.0 ** rng.uniform(-9.0, 9.0, size=4)
    g = rng.normal(size=4)
    found = Double.exact(A).bound_inverse(Double.exact(g))[0].upper()
    with precision(BITS):
        exact = above(Balls.exact(A).bound_inverse(Balls.exact(g))[0].value)
    assert exact <= found <= 1.05 * exact


def test_the_norm_by_an_inverse_of_dependent_columns_is_unknown():
    A = np.ones((5, 2))
    assert Double.exact(A).bound_inverse(Double.exact(np.array([1.0, -1.0])))[0].upper() == np.inf


def test_a_singular_system_has_no_finite_radius():
    A = np.ones((3, 3))
    assert not np.isfinite(Double.exact(A).solve(Double.exact(np.ones(3))).radius).any()


def test_zeros_are_exact_and_what_is_unknown_is_infinite():
    zero = Double.exact(np.zeros(3))
    assert (zero * 5.0 - zero).bound_norm(np.ones(3)).upper() == 0.0
    with np.errstate(all="ignore"):
        assert (Double.exact(np.array([1e308])) * 1e10).bound_norm(np.ones(1)).upper() == np.inf
        assert (Double.exact(1.0) / Double(1.0, 2.0)).upper() == np.inf
        assert Double.exact(np.array([np.inf, -np.inf])).total().upper() == np.inf
        assert Double.exact(np.array([1e308, 1e308])).total().upper() == np.inf
