"""Maximal variation by generated rows: a conic solver's optimum, exact zeros, rho_max as a linear program, polish."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog

from substrate.datasets import additive_function
from substrate.errors import SolverError
from substrate.fits import variation as maximal_variation
from substrate.fits.coordinates import center, decoupled_coordinates, shared_coordinates
from substrate.fits.variation import (
    VariationPoint,
    gap_of,
    rho_bound,
    rho_max,
    solution_rows,
    solve_maximal_variation,
    trivial_cost,
)
from substrate.kernels import RBF, Linear, Polynomial

#: Every expansion with a kernel it accepts: coordinates and whether components can vanish alone.
CHOICES = {
    "shared RBF": (shared_coordinates, RBF(1.0), 0.0, False),
    "shared RBF, ridge": (shared_coordinates, RBF(1.0), 0.3, False),
    "shared linear": (shared_coordinates, Linear(), 0.0, True),
    "shared quadratic": (shared_coordinates, Polynomial(degree=2), 0.0, True),
    "decoupled RBF, ridge": (decoupled_coordinates, RBF(1.0), 0.3, True),
    "decoupled linear": (decoupled_coordinates, Linear(), 0.0, True),
}
over_choices = pytest.mark.parametrize("choice", CHOICES)
over_bias = pytest.mark.parametrize("bias", [True, False])


def instance(choice, bias=True, n=20, d=5, seed=0):
    make, kernel, ridge, _ = CHOICES[choice]
    X, y = additive_function(n, max(d, 4), random_state=seed)
    return make([kernel(X[:, [part]]) for part in range(d)], bias, ridge=ridge), y


def cost(coordinates, y, rho, v):
    values = coordinates.parts @ v
    e = y - values.sum(axis=0) - coordinates.bias_of(y, v)
    ridge = 0.5 * coordinates.ridge * np.sum((coordinates.weights @ v) ** 2) if coordinates.ridge else 0.0
    return 0.5 * e @ e + ridge + rho * np.abs(values).max(axis=1).sum()


def reference(coordinates, y, rho):
    """The same problem, written down with norms and handed to Clarabel."""
    v, b = cp.Variable(coordinates.metric.shape[0]), cp.Variable() if coordinates.bias else 0.0
    objective = 0.5 * cp.sum_squares(y - coordinates.parts.sum(axis=0) @ v - b)
    objective += rho * cp.sum([cp.norm_inf(part @ v) for part in coordinates.parts])
    if coordinates.ridge:
        objective += 0.5 * coordinates.ridge * cp.sum_squares(coordinates.weights @ v)
    problem = cp.Problem(cp.Minimize(objective))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it may fall short of 1e-11 and say so; 1e-7 is what is compared
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return problem.value, np.abs(coordinates.parts @ v.value).max(axis=1)


def linear_program(coordinates, y):
    """min s with sum_l C^l'(p^l - q^l) = F'P y, 1'(p^l + q^l) <= s, p, q >= 0, by HiGHS: all rows at once."""
    parts = coordinates.parts
    d, n, r = parts.shape
    F = parts.sum(axis=0)
    effect = parts.reshape(d * n, r).T
    sums = np.kron(np.eye(d), np.ones((1, n)))
    solved = linprog(
        np.append(np.zeros(2 * d * n), 1.0),
        A_ub=np.hstack([sums, sums, -np.ones((d, 1))]),
        b_ub=np.zeros(d),
        A_eq=np.hstack([effect, -effect, np.zeros((r, 1))]),
        b_eq=center(F, coordinates.bias).T @ y,
        method="highs",
    )
    assert solved.success, solved.message
    return solved.fun


def assert_solved(coordinates, y, rho, tolerance=1e-6):
    solved = solve_maximal_variation(coordinates, y, rho)
    rows = solution_rows(coordinates, y, rho, solved, tolerance)
    assert all(row.passes for row in rows), [(row.name, row.relative) for row in rows if not row.passes]
    return solved


# ---- agreement -----------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.7, 0.2, 0.01])
@over_bias
@over_choices
@pytest.mark.covering
def test_the_optimum_is_that_of_a_conic_solver(choice, bias, share):
    """:equation [Pelckmans2005]_ (25): against a conic solver."""
    coordinates, y = instance(choice, bias)
    rho = share * rho_max(coordinates, y)
    solved = assert_solved(coordinates, y, rho)
    best, t = reference(coordinates, y, rho)
    assert cost(coordinates, y, rho, solved.v) - best <= 1e-7 * trivial_cost(y, bias)
    assert_allclose(solved.maximal_variation, t, atol=1e-4 * np.abs(y).max())
    if solved.polished:
        assert (t[solved.maximal_variation == 0.0] <= 1e-4 * np.abs(y).max()).all()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.sampled_from(sorted(CHOICES)),
    st.booleans(),
    st.integers(0, 10**6),
    st.integers(6, 16),
    st.integers(1, 4),
    st.floats(-4.0, 0.1),
    st.sampled_from([1.0, 1e6, 1e-6]),
)
def test_any_instance_is_optimal(choice, bias, seed, n, d, exponent, unit):
    rng = np.random.default_rng(seed)
    make, kernel, ridge, _ = CHOICES[choice]
    X, y = rng.integers(0, 7, size=(n, d)) / 3.0, unit * rng.normal(size=n)  # with ties
    X += np.arange(n)[:, None] * 1e-3 * rng.uniform(size=(1, d))  # ... which leave an input some variation
    matrices = [kernel(X[:, [part]]) for part in range(d)]
    coordinates = make(matrices, bias, ridge=ridge)
    rho = rho_bound(coordinates, y) * 10.0**exponent
    solved = assert_solved(coordinates, y, rho)
    # the duality gap of the multipliers bounds what any other point could gain
    net = solved.xi_plus - solved.xi_minus
    pulled = np.tensordot(net, coordinates.parts, 2)
    u = coordinates.targets(y) - np.linalg.solve(coordinates.metric.T, pulled)
    values = coordinates.parts @ np.linalg.solve(coordinates.metric, u)
    gap = rho * np.abs(values).max(axis=1).sum() - np.sum(net * values)
    assert gap <= 1e-5 * trivial_cost(y, bias)


def test_rows_that_never_settle_are_a_solver_error(monkeypatch):
    coordinates, y = instance("shared RBF", n=60, d=3)
    monkeypatch.setattr(maximal_variation, "_ROUNDS", 1)
    with pytest.raises(SolverError, match="still being added after 1 rounds; use a larger cutoff"):
        solve_maximal_variation(coordinates, y, 20.0)


@over_choices
def test_where_the_active_set_does_not_settle_the_point_is_that_of_the_interior(choice, monkeypatch):
    """As at a knot in rho, where rounding decides: the fitted values are known to the root of a gap."""
    coordinates, y = instance(choice)
    rho = 0.3 * rho_max(coordinates, y)
    exact = assert_solved(coordinates, y, rho)
    monkeypatch.setattr(maximal_variation, "polish", lambda *point: None)
    near = assert_solved(coordinates, y, rho)
    assert exact.polished
    assert not near.polished
    far = np.linalg.norm(coordinates.metric @ (near.v - exact.v))
    assert far <= 1e-4 * np.linalg.norm(coordinates.targets(y))


# ---- zeros and rho_max ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@over_bias
@over_choices
@pytest.mark.covering
def test_rho_max_is_the_linear_program(choice, bias, seed):
    coordinates, y = instance(choice, bias, n=14, d=3, seed=seed)
    assert_allclose(rho_max(coordinates, y), linear_program(coordinates, y), rtol=1e-6)


@over_bias
@over_choices
def test_rho_bound_is_never_below_rho_max(choice, bias):
    for seed in range(10):
        coordinates, _ = instance(choice, bias, n=9, d=1 + seed % 3, seed=seed)
        y = np.random.default_rng(seed).exponential(size=9) ** 2  # skewed: mean and median are far apart
        assert rho_max(coordinates, y) <= rho_bound(coordinates, y) * (1.0 + 1e-7)


@over_bias
@over_choices
@pytest.mark.covering
def test_from_rho_max_on_everything_is_exactly_zero(choice, bias):
    for seed in range(2):
        coordinates, y = instance(choice, bias, seed=seed)
        largest = rho_max(coordinates, y)
        for factor in (1.0, 1.0 + 1e-9, 1.0 + 1e-6, 1.001, 1.3, 1e3):
            solved = assert_solved(coordinates, y, factor * largest)
            assert_array_equal(solved.maximal_variation, 0.0)
            assert_allclose(solved.v, 0.0, atol=1e-10 * np.abs(y).max())
            assert solved.polished
        for factor in (0.9999, 0.99, 0.9):
            solved = assert_solved(coordinates, y, factor * largest)
            assert solved.maximal_variation.max() > 0.0


@over_bias
@over_choices
def test_at_rho_max_no_rounding_turns_a_zero_into_a_small_number(choice, bias):
    """Another BLAS, another unit: kernel values that differ in the last place, and rho_max of the ones for the others.

    Directions down to a millionth of the largest are kept, so that rounding moves rho_max by a few 1e6 eps at most, and
    zero is taken from 1e-8 below it on.
    """
    rng = np.random.default_rng(0)
    make, kernel, ridge, _ = CHOICES[choice]
    X, y = additive_function(20, 5, random_state=1)
    matrices = [kernel(X[:, [part]]) for part in range(5)]
    largest = rho_max(make(matrices, bias, ridge=ridge), y)
    for unit in (1.0, 3e7, 1e-7 / 3.0):
        noise = [1.0 + 2.0 * np.finfo(float).eps * rng.integers(-1, 2, size=(20, 20)) for _ in matrices]
        moved = [matrix * (one + one.T) / 2.0 for matrix, one in zip(matrices, noise, strict=True)]
        solved = assert_solved(make(moved, bias, ridge=ridge), unit * y, unit * largest)
        assert_array_equal(solved.maximal_variation, 0.0)
        assert_array_equal(solved.v, 0.0)
        assert solved.polished


# ---- polish --------------------------------------------------------------------------------------


def in_u(choice, share=0.3, seed=0):
    """B, target and rho of the problem in u, and the exact point."""
    coordinates, y = instance(choice, seed=seed)
    rho = share * rho_max(coordinates, y)
    solved = assert_solved(coordinates, y, rho)
    assert solved.polished
    B = coordinates.parts @ np.linalg.inv(coordinates.metric)
    point = VariationPoint(coordinates.metric @ solved.v, solved.xi_plus - solved.xi_minus)
    return B, coordinates.targets(y), np.full(len(B), rho), point


def test_the_gap_sees_any_change_of_the_multipliers():
    B, target, rho, exact = in_u("shared linear")
    size = np.linalg.norm(target)
    for change in (1.01, 0.99, -1.0, 0.0):
        xi = change * exact.xi
        primal = target - np.tensordot(xi, B, 2)
        assert_allclose(
            gap_of(B, target, rho, VariationPoint(exact.u, xi)),
            rho @ np.abs(B @ primal).max(axis=1) - np.sum(xi * (B @ primal)),
        )
        inside = (np.abs(xi).sum(axis=1) <= rho * (1.0 + 1e-9)).all()
        assert not inside or gap_of(B, target, rho, VariationPoint(exact.u, xi)) > 1e-6 * size**2
