"""The machine as a parametric quadratic program: its numbers, its polished knots, and what their gap covers."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.errors import DeclarationError
from substrate.fusion.parametric_qp import ParametricQP


def box(seed=0, n=4, m=7):
    """min 1/2||x - c||^2 + rho 1't under |B x| <= t, one bound a row."""
    rng = np.random.default_rng(seed)
    B, c = rng.normal(size=(m, n)), rng.normal(size=n)
    x, t, rho = cp.Variable(n, name="x"), cp.Variable(m, name="t"), cp.Parameter(nonneg=True, name="rho")
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(x - c) + rho * cp.sum(t)), [B @ x <= t, -B @ x <= t])
    return problem, rho, x, B, c


def oracle(B, c, rho):
    x = cp.Variable(c.size)
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(x - c) + rho * cp.norm1(B @ x)))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13)
    return x.value


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rho", [0.02, 0.3])
def test_a_knot_solves_the_problem(seed, rho):
    problem, parameter, x, B, c = box(seed)
    program = ParametricQP(problem, parameter, 2.0)
    knot = program.solve(rho)
    found = program.unit * knot.x[program.columns[x.id] :][: c.size]
    assert_allclose(found, oracle(B, c, rho), atol=1e-6)
    assert knot.gap <= 1e-12
    assert knot.allowance <= knot.gap
    assert (knot.dual[program.b.size :] >= 0.0).all()
    assert (knot.slack >= 0.0).all()


def test_a_point_off_its_bounds_does_not_pass_for_a_solution():
    """Stationary, multipliers not negative, products zero: only the bound that it violates tells."""
    seen = 0
    for seed in range(6):
        problem, parameter, _, _, _ = box(seed)
        program = ParametricQP(problem, parameter, 1.0)
        exact, m = program.solve(0.2), program.b.size
        active = np.flatnonzero(exact.dual[m:] > 0.0)
        for left_out in active:
            rows = active[active != left_out]
            x, lam, mu = program._on_rows(0.2, exact.x, exact.dual, rows)
            if not np.isfinite(x).all() or mu.min(initial=0.0) < 0.0 or np.abs(x).max() > 1e3:
                continue
            dual = np.zeros(exact.dual.size)
            dual[:m], dual[m + rows] = lam, mu
            knot = program._knot(0.2, x, dual)
            missing = program.P @ x + program.linear(0.2) + program.A.T @ lam + program.G.T @ dual[m:]
            if np.abs(missing).max() > 1e-9 or program.distance(x, exact.x) < 1e-6:
                continue
            seen += 1
            assert 2.0 * program.distance(x, exact.x) <= knot.gap
    assert seen >= 3


@pytest.mark.parametrize("seed", range(4))
def test_the_gap_bounds_the_distance_wherever_the_point_is(seed):
    problem, parameter, _, _, _ = box(seed)
    program = ParametricQP(problem, parameter, 1.0)
    exact = program.solve(0.2)
    m, rng = program.b.size, np.random.default_rng(seed)
    for size in (1e-6, 1e-3, 1e-1):
        for _ in range(10):
            x = exact.x + size * rng.normal(size=exact.x.size)
            dual = exact.dual.copy()
            dual[m:] = np.maximum(dual[m:] + size * rng.normal(size=dual.size - m), 0.0)
            knot = program._knot(0.2, x, dual)
            assert 2.0 * program.distance(knot.x, exact.x) <= knot.gap
            assert knot.allowance > 0.0


@pytest.mark.parametrize("seed", range(3))
def test_the_gap_of_a_chord_bounds_the_distance_to_the_path(seed):
    problem, parameter, _, _, _ = box(seed)
    program = ParametricQP(problem, parameter, 1.0)
    one, other = program.solve(0.05), program.solve(0.6)
    cross = program.cross(one, other)
    for theta in np.linspace(0.0, 1.0, 9):
        value = (1.0 - theta) * 0.05 + theta * 0.6
        between = (1.0 - theta) * one.x + theta * other.x
        gap = (1.0 - theta) ** 2 * one.gap + theta**2 * other.gap + theta * (1.0 - theta) * cross
        assert 2.0 * program.distance(between, program.solve(value).x) <= gap + 1e-12


@pytest.mark.parametrize("what", ["x", "dual"])
def test_a_tampered_knot_has_a_larger_gap(what):
    problem, parameter, _, _, _ = box(1)
    program = ParametricQP(problem, parameter, 1.0)
    knot = program.solve(0.2)
    parts = {"x": knot.x, "dual": knot.dual}
    for k in range(parts[what].size):
        changed = {name: part.copy() for name, part in parts.items()}
        changed[what][k] += 1e-3
        again = program._knot(0.2, changed["x"], changed["dual"])
        # what an equality alone says is put right again
        assert again.gap > knot.gap + 1e-6 or np.abs(again.x - knot.x).max() <= 1e-12


def test_the_limit_stays_on_the_segment():
    problem, parameter, _, _, c = box(0)
    program = ParametricQP(problem, parameter, 1.0)
    near = program.solve(1e-4)
    zero = program.limit(0.0, near)
    assert zero.gap <= 1e-13
    assert_allclose(program.cross(zero, near), 0.0, atol=1e-12)
    assert_allclose(zero.x[program.columns[problem.variables()[0].id] :][: c.size], c, atol=1e-12)


def test_units_change_nothing():
    problem, parameter, _, _, _ = box(2)
    plain, other = (ParametricQP(problem, parameter, unit) for unit in (1.0, 1e6))
    assert_allclose(1e6 * other.solve(0.2).x, plain.solve(0.2).x, atol=1e-9)
    assert_allclose(other.penalty(other.solve(0.2).x) * 1e6, plain.penalty(plain.solve(0.2).x), rtol=1e-9)


def test_the_parameter_keeps_its_value():
    problem, parameter, _, _, _ = box()
    parameter.value = 0.7
    ParametricQP(problem, parameter, 1.0)
    assert parameter.value == 0.7


def test_the_sensitivity_is_the_largest_ratio():
    problem, parameter, x, _, c = box()
    program = ParametricQP(problem, parameter, 1.0)
    rng = np.random.default_rng(3)
    M = np.zeros((2, program.q0.size))
    start = program.columns[x.id]
    M[:, start : start + c.size] = rng.normal(size=(2, c.size))
    x = program.solve(0.2).x
    assert_allclose(program.tie(M, x).factor, np.linalg.norm(M, 2), rtol=1e-6)
    assert program.tie(M, x).remainder <= 1e-9
    t = M.copy()
    t[:, :] = 1.0  # the bounds t are not determined by the quadratic term
    assert program.tie(t, x) is None


def test_the_least_penalty():
    problem, parameter, _, _, _ = box()
    assert abs(ParametricQP(problem, parameter, 1.0).least_penalty()) <= 1e-9
    x, rho = cp.Variable(2), cp.Parameter(nonneg=True, name="rho")
    free = cp.Problem(cp.Minimize(cp.sum_squares(x) + rho * x[0]))
    assert ParametricQP(free, rho, 1.0).least_penalty() is None


def test_refusals():
    x, rho = cp.Variable(2, name="x"), cp.Parameter(nonneg=True, name="rho")
    squares = cp.sum_squares(x - 1.0)
    for problem, words in [
        (cp.Problem(cp.Minimize(squares + rho * cp.norm2(x))), "second-order"),
        (cp.Problem(cp.Minimize(squares + rho * cp.sum_squares(x))), "linear term only"),
        (cp.Problem(cp.Minimize(squares + cp.norm1(x)), [x[0] <= rho]), "linear term only"),
        (cp.Problem(cp.Minimize(squares), [rho * 0.0 <= x]), "does not depend"),
    ]:
        with pytest.raises(DeclarationError, match=words):
            ParametricQP(problem, rho, 1.0)
