"""The bounds on components: the signs of their multipliers, and rows that fail where they should."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.declare.solvers import ORDER, installed_solvers
from substrate.ingredients import component_bounds, slackness_products, variation_rows

RHO = 0.7


def solved(solver="CLARABEL"):
    """min half ||z - goal||^2 + rho 1't with the values z of two components bounded by t."""
    goal = np.array([3.0, 1.0, -0.5, -2.5, 0.2, 1.0])
    z, t = cp.Variable(6), cp.Variable(2)
    bounds = component_bounds(z, t)
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(z - goal) + RHO * cp.sum(t)), bounds.constraints)
    problem.solve(solver=solver)
    minus, plus = bounds.multipliers
    return goal, z.value.reshape(2, 3), t.value, minus, plus


def rows(values, t, minus, plus, tolerance=1e-4, rho=RHO, cost=8.0, unit=3.0):
    return variation_rows(values, t, minus, plus, rho, cost, unit, tolerance)


def broken(*point, **options):
    return {row.name for row in rows(*point, **options) if not row.passes}


@pytest.mark.parametrize("solver", ORDER)
def test_the_multipliers_have_the_papers_sign_with_every_solver(solver):
    """:equation [Pelckmans2005]_ (26): stationarity of the Lagrangian, with the signs of its multipliers."""
    if solver not in installed_solvers():
        pytest.skip(f"{solver} is not installed")
    goal, values, t, minus, plus = solved(solver)
    assert_allclose(t, [2.3, 1.8], atol=1e-3)
    assert_allclose(plus, [[RHO, 0.0, 0.0], [0.0, 0.0, 0.0]], atol=1e-3)
    assert_allclose(minus, [[0.0, 0.0, 0.0], [RHO, 0.0, 0.0]], atol=1e-3)
    # stationarity in z: z - goal = xi^- - xi^+
    assert_allclose(values - goal.reshape(2, 3), minus - plus, atol=1e-3)


def test_products_are_those_of_the_paper():
    """:equation [Pelckmans2005]_ (27e)-(27f): by hand."""
    values, t = np.array([[1.0, -2.0]]), np.array([2.0])
    minus, plus = np.array([[0.5, 1.0]]), np.array([[2.0, 3.0]])
    lower, upper = slackness_products(values, t, minus, plus)
    assert_allclose(lower, [[1.5, 0.0]])
    assert_allclose(upper, [[2.0, 12.0]])


def test_each_row_sees_what_it_is_for():
    """:equation [Pelckmans2005]_ (27b)-(27f): each row fails where its condition is broken."""
    _, values, t, minus, plus = solved()
    more = plus.copy()
    more[0, 0] += 0.01
    assert broken(values, t, minus, more) == {"(27b) sums of multipliers"}, "at its bound a product stays nought"
    # a negative multiplier whose sum is mended on the active row
    shifted = plus.copy()
    shifted[0] += [0.01, -0.01, 0.0]
    assert "(27c) multipliers >= 0" in broken(values, t, minus, shifted)
    assert "(27b) sums of multipliers" not in broken(values, t, minus, shifted)
    assert "(27d) bounds" in broken(values, 0.99 * t, minus, plus)
    assert broken(values, 1.01 * t, minus, plus) >= {"(27e) lower slackness", "(27f) upper slackness"}
    assert "(27d) bounds" not in broken(values, 1.01 * t, minus, plus)
    moved = minus.copy()
    moved[1] = [0.0, RHO, 0.0]  # the right sum on a row that is not at its bound
    assert broken(values, t, moved, plus) == {"(27e) lower slackness", "sum of all products"}
    moved = plus.copy()
    moved[0] = [0.0, RHO, 0.0]
    assert broken(values, t, minus, moved) == {"(27f) upper slackness", "sum of all products"}
