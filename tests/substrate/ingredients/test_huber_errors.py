"""Huber's error term: its values, the sign and bound of its multipliers with every solver, its dual, its rows."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.declare.solvers import ORDER, installed_solvers
from substrate.ingredients import huber_conjugate, huber_errors, huber_loss, huber_rows, regression_fit

GAMMA, DELTA = 3.0, 0.5
Y = np.array([0.0, 0.2, -0.1, 4.0, -3.0, 0.3])
V = np.array([1.0, 2.0, 0.5, 1.0, 1.5, 1.0])


def location(solver="CLARABEL", **options):
    """min gamma sum v h(e) + b^2/2 s.t. y - b - e = 0: the multipliers are gamma v clip(e) and sum to b."""
    b, e = cp.Variable(), cp.Variable(Y.size)
    gamma = cp.Parameter(nonneg=True, value=GAMMA)
    errors, fit = huber_errors(e, gamma, V, DELTA), regression_fit(Y, b * np.ones(Y.size), e)
    problem = cp.Problem(cp.Minimize(errors.term + 0.5 * b**2), [fit.constraint])
    problem.solve(solver=solver, **options)
    return problem, errors, fit, b


@pytest.mark.parametrize("solver", ORDER)
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
def test_the_multipliers_are_clipped_errors_in_our_sign(solver):
    if solver not in installed_solvers():
        pytest.skip(f"{solver} is not installed")
    _, errors, fit, b = location(solver)
    e = Y - b.value
    assert_allclose(fit.multiplier, GAMMA * V * np.clip(e, -DELTA, DELTA), atol=2e-2)
    assert_allclose(fit.multiplier.sum(), b.value, atol=2e-2)
    assert_allclose(fit.multiplier[3:5], [GAMMA * DELTA, -1.5 * GAMMA * DELTA], atol=2e-2), "the bound, with its sign"
    assert all(row.passes for row in errors.rows(fit.multiplier, Y, 1e-2))


def test_the_term_is_the_formula_and_dpp():
    e = cp.Variable(4, value=np.array([0.1, -0.5, 0.6, -3.0]))
    gamma = cp.Parameter(nonneg=True, value=2.0)
    errors = huber_errors(e, gamma, np.array([1.0, 1.0, 2.0, 1.0]), 0.5)
    expected = 2.0 * (0.5 * 0.01 + 0.5 * 0.25 + 2.0 * (0.5 * 0.6 - 0.125) + (1.5 - 0.125))
    assert_allclose(errors.term.value, expected, rtol=1e-12)
    assert_allclose(huber_loss(e.value, 0.5), [0.005, 0.125, 0.175, 1.375])
    assert cp.Problem(cp.Minimize(errors.term)).is_dpp()


def test_the_dual_has_the_value_of_the_primal():
    """max y'alpha - sum alpha^2/(2 gamma v) - (1'alpha)^2/2 under the bound, in shares of gamma."""
    problem, _, fit, b = location()
    shares = cp.Variable(Y.size)
    conjugate, bounds = huber_conjugate(shares, V, DELTA)
    dual = cp.Problem(
        cp.Maximize(GAMMA * (Y @ shares - conjugate) - 0.5 * GAMMA**2 * cp.sum(shares) ** 2),
        bounds,
    )
    dual.solve(solver="CLARABEL")
    assert_allclose(dual.value, problem.value, rtol=1e-7)
    assert_allclose(GAMMA * shares.value, fit.multiplier, atol=1e-5)
    assert_allclose(GAMMA * shares.value.sum(), b.value, atol=1e-6)
    labels = [constraint.label for constraint in bounds]
    assert labels == ["alpha >= -gamma v delta", "alpha <= gamma v delta"]
    free = cp.Problem(cp.Maximize(Y @ shares - conjugate))
    free.solve(solver="CLARABEL")
    assert np.abs(shares.value / V).max() > 2.0 * DELTA, "without its bound the dual is the dual of squares"


def test_each_row_sees_what_it_is_for():
    e = np.array([0.1, -0.4, 2.0, -3.0])
    gamma_v = GAMMA * np.ones(4)
    alpha = gamma_v * np.clip(e, -DELTA, DELTA)

    def broken(alpha, e):
        return {row.name for row in huber_rows(alpha, gamma_v, e, DELTA, 1e-9, np.ones(4)) if not row.passes}

    assert broken(alpha, e) == set()
    assert broken(alpha, e + np.array([0.0, 0.0, 5.0, -5.0])) == set(), "how far an outlier is does not matter"
    assert broken(alpha, e + np.array([0.01, 0.0, 0.0, 0.0])) == {"stationarity in e"}
    assert broken(alpha, -e) == {"stationarity in e"}
    assert broken(gamma_v * e, e) == {"stationarity in e", "bound on alpha"}
    assert broken(0.9 * alpha, e) == {"stationarity in e"}
    assert broken(np.nan * alpha, e) >= {"stationarity in e"}
