"""The corrected (27): its smallest sum of products is zero, at the solution of (25) and nowhere else."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from problems import maximal_variation, maximal_variation_kkt
from substrate.kernels import RBF, Componentwise

FORMS = ("conditioned", "raw")


def case(n=9, d=2, seed=0, task="regression"):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, d))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=n)
    if task == "classification":
        y = np.where(y > np.median(y), 1.0, -1.0)
    return [part(X) for part in Componentwise(RBF(0.7)).components(d)], y


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rho", [0.1, 0.6])
def test_the_conditions_have_the_solution_of_the_problem(form, bias, rho):
    """:equation [Pelckmans2005]_ (27a)-(27d): the conditions alone lead to the solution of (25)."""
    K, y = case()
    declared = maximal_variation_kkt.declare(K, y, rho, form=form, bias=bias).solve()
    closed = maximal_variation.closed_form(K, y, rho, bias=bias)
    certificate = declared.certificate(against=closed)
    assert certificate.holds, str(certificate)
    assert abs(declared.problem.value) <= 1e-7
    assert declared.complementarity <= 1e-6
    minus, plus = declared.lower_multipliers, declared.upper_multipliers
    assert_allclose((minus + plus).sum(axis=1), rho, rtol=1e-6)


def test_the_products_are_the_duality_gap_wherever_the_linear_conditions_hold():
    """Any feasible point will do: here the one with the smallest t_1 + 3 t_2 and no regard for the products."""
    K, y = case()
    for form in FORMS:
        level = maximal_variation_kkt.conditions(K, y, 0.5, form=form)
        cost = level.t[0] + 3.0 * level.t[1] + 0.1 * cp.sum(level.t) + 0.01 * cp.sum_squares(level.xi_plus)
        cp.Problem(cp.Minimize(cost), level.constraints).solve(solver="CLARABEL")
        report = level.complementary_slackness()
        assert_allclose(report.products.sum(), level.products.value, rtol=1e-5, atol=1e-7)
        assert report.products.min() >= -1e-7
        assert not report.holds


def test_the_printed_27a_is_not_met():
    """Without the component matrix on its right-hand side the stationarity is off; with it, it holds."""
    K, y = case()
    declared = maximal_variation_kkt.declare(K, y, 0.5, form="raw", bias=False).solve()
    omega, net = sum(K), declared.lower_multipliers - declared.upper_multipliers
    left = omega.T @ (omega @ declared.support_values - y)
    assert_allclose(left, sum(part.T @ xi for part, xi in zip(K, net, strict=True)), atol=1e-6)
    assert np.linalg.norm(left - net.sum(axis=0)) > 0.1
