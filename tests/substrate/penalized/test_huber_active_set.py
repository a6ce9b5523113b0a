"""The active set of linear rows: certified on anything, the LS-SVM where no row is linear, exact by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from substrate.errors import SolverError
from substrate.gram import Gram
from substrate.ingredients import huber_loss
from substrate.kernels import RBF, Linear, Polynomial
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.saddle_system import solve_saddle_system
from substrate.penalized.clipped_slope import find_root
from substrate.penalized.huber import active_set
from substrate.penalized.huber.active_set import MOST_SYSTEMS, huber_solution_rows, solve_huber


def instance(n=30, seed=0, kernel=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return Gram.of(RBF(1.0) if kernel is None else kernel, X), np.sin(X[:, 0]) + 0.3 * rng.standard_t(2.0, size=n)


def rows(gram, y, ridge, delta, solved, **changed):
    alpha, bias = (changed.get(name, getattr(solved, name)) for name in ("support_values", "bias"))
    return huber_solution_rows(gram.product(alpha), gram.diagonal, y, ridge, delta, alpha, bias)


@pytest.mark.filterwarnings("ignore::substrate.errors.DegenerateKernelWarning")
@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.integers(0, 10**6),
    st.integers(2, 40),
    st.floats(-3.0, 5.0),
    st.floats(-4.0, 1.5),
    st.sampled_from([RBF(0.5), RBF(2.0), Linear()]),
    st.sampled_from(["plain", "tied", "constant", "far"]),
)
def test_any_instance_is_certified(seed, n, log_gamma, log_delta, kernel, kind):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.sin(X[:, 0]) + rng.standard_t(1.5, size=n)
    if kind == "tied":
        X[1::2] = X[: n // 2]
    y = {"constant": np.full(n, 3.7), "far": y + 1e6}.get(kind, y)
    gram, ridge, delta = (
        Gram.of(kernel, X),
        Regularization(10.0**log_gamma).ridge(rng.uniform(0.1, 3.0, n)),
        10.0**log_delta,
    )
    solved = solve_huber(gram, y, ridge, delta)
    assert solved.settled
    assert not [row for row in rows(gram, y, ridge, delta, solved) if not row.passes]
    errors = y - solved.products - solved.bias
    outside = np.abs(np.abs(errors) - delta) > 1e-9 * (np.abs(y).max() + delta)
    assert_array_equal(solved.signs[outside], np.where(np.abs(errors) > delta, np.sign(errors), 0.0)[outside])


def test_without_linear_rows_it_is_the_ls_svm():
    gram, y = instance()
    ridge = np.full(30, 0.2)
    plain = solve_saddle_system(gram, y, ridge)
    gram.release()
    largest = float(np.abs(ridge * plain.support_values).max())
    solved = solve_huber(gram, y, ridge, 1.001 * largest)
    assert_allclose(solved.support_values, plain.support_values, rtol=1e-12)
    assert not solved.signs.any()
    assert solved.steps == 1
    assert np.abs(solve_huber(gram, y, ridge, 0.9 * largest).signs).sum() >= 1


def test_a_location_by_hand():
    """A kernel of zeros leaves the bias: with errors -1, 0 and 9 and delta 2 it solves (b+1) + b = 2."""
    gram = Gram.from_matrix(np.zeros((3, 3)))
    solved = solve_huber(gram, np.array([-1.0, 0.0, 9.0]), np.ones(3), 2.0)
    assert_allclose(solved.bias, 0.5)
    assert_allclose(solved.support_values, [-1.5, -0.5, 2.0])
    assert_array_equal(solved.signs, [0, 0, 1])


def test_a_small_delta_is_the_weighted_median():
    gram = Gram.from_matrix(np.zeros((5, 5)))
    y, v = np.array([0.0, 1.0, 2.0, 50.0, 60.0]), np.array([1.0, 1.0, 3.0, 1.0, 1.0])
    assert_allclose(solve_huber(gram, y, 1.0 / v, 1e-6).bias, 2.0, atol=1e-5)
    even = solve_huber(gram, np.array([0.0, 0.0, 4.0, 4.0, 4.0]), 1.0 / np.array([1.5, 1.5, 1.0, 1.0, 1.0]), 0.1)
    assert 0.1 - 1e-12 <= even.bias <= 3.9 + 1e-12, "of a stretch of biases that cost the same, any"
    assert_allclose(even.support_values, 0.1 * np.array([-1.5, -1.5, 1.0, 1.0, 1.0]))


def test_nothing_costs_less():
    gram, y = instance(seed=3)
    ridge, delta, rng = np.full(30, 0.1), 0.2, np.random.default_rng(1)

    def cost(alpha, b):
        f = gram.product(alpha) + b
        return 0.5 * alpha @ (f - b) + huber_loss(y - f, delta).sum() / 0.1

    solved = solve_huber(gram, y, ridge, delta)
    best = cost(solved.support_values, solved.bias)
    for size in (1.0, 1e-2, 1e-4):
        for _ in range(20):
            other = solved.support_values + size * rng.normal(size=30)
            assert cost(other, solved.bias + size * rng.normal()) > best


def test_an_outlier_further_away_changes_nothing():
    gram, y = instance(seed=4)
    ridge = np.full(30, 0.1)
    solved = solve_huber(gram, y, ridge, 0.3)
    (linear,) = np.nonzero(solved.signs)
    assert 0 < linear.size < 30
    further = y.copy()
    further[linear] += 1e3 * solved.signs[linear]
    again = solve_huber(gram, further, ridge, 0.3)
    assert_allclose(again.support_values, solved.support_values, atol=1e-9)
    assert_allclose(again.bias, solved.bias, atol=1e-9)


@pytest.mark.parametrize("unit", [1e-200, 1e-3, 1e9, 1e200])
def test_units_of_the_target(unit):
    gram, y = instance(seed=5)
    ridge = np.full(30, 0.1)
    one, other = solve_huber(gram, y, ridge, 0.3), solve_huber(gram, unit * y, ridge, unit * 0.3)
    assert_allclose(other.support_values / unit, one.support_values, atol=1e-10)
    assert_array_equal(other.signs, one.signs)
    assert all(row.passes for row in rows(gram, unit * y, ridge, unit * 0.3, other))


def test_every_row_of_the_certificate_sees_a_change():
    gram, y = instance(seed=6)
    ridge = np.full(30, 0.1)
    solved = solve_huber(gram, y, ridge, 0.3)
    for i in range(30):
        moved = solved.support_values.copy()
        moved[i] *= 1.0 + 1e-6
        assert [row for row in rows(gram, y, ridge, 0.3, solved, support_values=moved) if not row.passes], f"row {i}"
    names = {row.name for row in rows(gram, y, ridge, 0.3, solved, bias=solved.bias + 1e-6) if not row.passes}
    assert "stationarity in e" in names
    wrong = {row.name for row in rows(gram, y, ridge, 0.2, solved) if not row.passes}
    assert wrong >= {"stationarity in e", "bound on alpha"}, "another delta"


#: Eight rows and Huber's loss that is an absolute value to any precision: gamma delta = 123, weights over six decades.
EIGHT = np.array(
    [[-1.52, -0.94, 1.02, -2.27, 0.09, 0.01, 1.4, 0.46], [-0.27, 0.45, -0.17, -1.71, 1.42, -0.06, 0.46, -0.21]]
).T
EIGHT_Y = np.array([0.03, -1.94, -0.18, 0.06, 0.36, 2.01, 0.65, 0.96])
EIGHT_WEIGHTS = np.array([240.0, 0.17, 2800.0, 2390.0, 117.0, 0.59, 0.001, 0.21])


def test_eight_rows_at_a_vanishing_delta_take_few_systems():
    gram, ridge = Gram.of(RBF(50.0), EIGHT), Regularization(2.55e193).ridge(EIGHT_WEIGHTS)
    solved = solve_huber(gram, EIGHT_Y, ridge, 4.83e-192)
    assert solved.settled
    assert solved.steps <= MOST_SYSTEMS
    assert not [row for row in rows(gram, EIGHT_Y, ridge, 4.83e-192, solved) if not row.passes]
    assert (solved.signs == 0).any(), "a row that is met exactly is not linear"
    assert_array_equal(np.sign(solved.support_values)[solved.signs != 0], solved.signs[solved.signs != 0])


def hostile(seed):
    """Eight rows or so, badly scaled in every way at once."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([2, 3, 5, 8, 12, 20]))
    X = rng.normal(size=(n, 2)) * 10.0 ** rng.uniform(-3.0, 4.0)
    y = np.sin(X[:, 0]) + rng.standard_t(1.5, size=n)
    y = [y, y + 1e6, np.round(y), np.sign(y), 1e-9 * y][rng.integers(5)]
    kernel = [RBF(0.5), RBF(50.0), Linear(), Polynomial(2, 1.0), Polynomial(3, 1.0)][rng.integers(5)]
    delta = float(np.ptp(y) or 1.0) * 10.0 ** rng.uniform(
        *[(-3.0, 1.0), (-12.0, 0.0), (-200.0, -12.0)][rng.integers(3)]
    )
    gamma = 10.0 ** rng.uniform(-3.0, 3.0) / (delta if rng.random() < 0.3 else 1.0)
    return Gram.of(kernel, X), y, Regularization(gamma).ridge(10.0 ** rng.uniform(-3.0, 3.0, n)), delta


@pytest.mark.filterwarnings("ignore::substrate.errors.DegenerateKernelWarning")
@pytest.mark.parametrize("seeds", [range(50), pytest.param(range(50, 150), marks=pytest.mark.slow)], ids=str)
def test_no_data_take_more_systems_than_stated_and_settled_is_what_the_certificate_says(seeds):
    settled, tried = 0, 0
    for seed in seeds:
        gram, y, ridge, delta = hostile(seed)
        try:
            solved = solve_huber(gram, y, ridge, delta)
        except SolverError:  # K + D is exactly singular in floating point, as it would be for the LS-SVM
            continue
        found = huber_solution_rows(solved.products, gram.diagonal, y, ridge, delta, solved.support_values, solved.bias)
        assert solved.settled == all(row.passes for row in found), seed
        assert 1 <= solved.steps <= MOST_SYSTEMS, seed
        settled, tried = settled + solved.settled, tried + 1
    assert tried > 0.8 * len(seeds)
    assert settled >= 0.9 * tried, "most of them can be solved"


@pytest.mark.filterwarnings("ignore::substrate.errors.IndefiniteKernelWarning")
@pytest.mark.parametrize("seed", range(4))
def test_a_matrix_without_a_minimum_takes_no_more_and_gives_finite_numbers(seed):
    rng = np.random.default_rng(seed)
    K = rng.normal(size=(12, 12))
    gram, y = Gram.from_matrix(5.0 * (K + K.T)), rng.normal(size=12)
    solved = solve_huber(gram, y, np.ones(12), 0.05)
    assert solved.steps <= MOST_SYSTEMS
    assert np.isfinite(solved.support_values).all()
    found = huber_solution_rows(
        solved.products, gram.diagonal, y, np.ones(12), 0.05, solved.support_values, solved.bias
    )
    assert solved.settled == all(row.passes for row in found)


def test_support_values_beyond_their_bounds_are_seen_however_small_the_bounds_are():
    """Interpolating all rows meets every other condition where delta is below the rounding of y."""
    gram, y = instance(seed=7)
    ridge = np.full(30, 1e-100)
    plain = solve_saddle_system(gram, y, ridge)
    gram.release()
    found = huber_solution_rows(
        plain.products, gram.diagonal, y, ridge, 1e-100, plain.support_values, float(plain.bias)
    )
    assert [row.name for row in found if not row.passes] == ["bound on alpha"]


@pytest.mark.parametrize("delta", [0.5, 1e-2, 1e-6, 1e-100])
def test_from_inside_and_from_the_ls_svm_the_same_point_is_reached(delta, monkeypatch):
    """Without steps from the LS-SVM the interior-point method has to find the linear rows."""
    gram, y = instance(seed=7)
    ridge = np.full(30, delta)  # a constant bound gamma delta = 1
    one = solve_huber(gram, y, ridge, delta)
    gram.release()
    monkeypatch.setattr(active_set, "_FEW_STEPS", 0)
    other = solve_huber(gram, y, ridge, delta)
    assert one.settled
    assert other.settled
    assert other.steps > 5
    assert_allclose(other.products, one.products, atol=1e-9)
    assert_array_equal(other.signs, one.signs)


@pytest.mark.parametrize("seed", range(5))
def test_the_root_is_where_the_slope_is_zero(seed):
    rng = np.random.default_rng(seed)
    e, move, pulls = rng.normal(size=9), rng.normal(size=9), rng.uniform(0.5, 2.0, 9)
    slope, curvature, d = rng.normal(), 0.3, 0.4
    s = find_root(e, move, pulls, (-d, d), slope, curvature)
    assert_allclose(slope + curvature * s - (pulls * np.clip(e - s * move, -d, d)) @ move, 0.0, atol=1e-12)
