"""A declared problem: convex or refused, solved by name, read by name, certified by its rows."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from problems import ls_svm_regression
from substrate.certificate import Row
from substrate.declare.declared import AGREEMENT, TOLERANCE, UNSTATED, Declared
from substrate.declare.solvers import tolerance_of
from substrate.errors import DeclarationError
from substrate.kernels import RBF

TARGET = np.array([1.0, 2.0, 6.0])


def _declare(objective=None):
    x, gamma = cp.Variable(3), cp.Parameter(nonneg=True, value=1.0)
    balance = cp.sum(x) == 0
    problem = cp.Problem(
        cp.Minimize(gamma * cp.sum_squares(x - TARGET) if objective is None else objective(x, gamma)), [balance]
    )

    def rows(tolerance):
        stationarity = 2.0 * gamma.value * (x.value - TARGET) + balance.dual_value
        return (
            Row("sum", float(x.value.sum()), float(np.abs(TARGET).sum()), tolerance, "|1'x|"),
            Row("stationarity", float(np.abs(stationarity).max()), 12.0 * gamma.value, tolerance, "max |grad|"),
        )

    values = {"point": lambda: x.value, "price": lambda: balance.dual_value}
    return Declared("projection", problem, {"gamma": gamma}, values, rows, lambda: (("kernel", "none"),))


def test_a_solved_declaration_is_read_by_name_and_certified():
    declared = _declare().solve()
    assert_allclose(declared.point, TARGET - 3.0, atol=1e-8)
    assert_allclose(declared.price, 6.0, rtol=1e-8)
    assert set(declared.solution()) == {"point", "price"}
    certificate = declared.certificate()
    assert certificate.holds
    assert [row.name for row in certificate.rows] == ["sum", "stationarity"]
    assert certificate.record[0] == ("kernel", "none")
    assert certificate.record[1] == ("no bound on the answer", UNSTATED)
    assert certificate.record[2][0] == "solver"
    assert "accepted" in certificate.record[2][1]
    assert declared.solver_record.accepted


def test_a_new_parameter_value_is_solved_anew_and_the_old_point_no_longer_certified():
    declared = _declare().solve()
    declared.parameters["gamma"].value = 5.0
    assert not declared.certificate().holds
    assert declared.solve().certificate().holds
    assert_allclose(declared.price, 30.0, rtol=1e-8)


def test_a_tampered_point_is_not_certified():
    declared = _declare().solve()
    declared.problem.variables()[0].value = TARGET - 3.0 + np.array([1e-3, -1e-3, 0.0])
    certificate = declared.certificate()
    assert certificate["sum"].passes
    assert not certificate["stationarity"].passes
    assert not certificate.holds


def test_cvxpy_may_solve_directly_and_the_certificate_says_so():
    declared = _declare()
    declared.problem.solve(solver="CLARABEL")
    certificate = declared.certificate()
    assert certificate.holds
    assert certificate.record[-1] == ("solver", "cvxpy directly: optimal")
    assert declared.solver_record is None


def test_what_is_not_affine_in_its_parameters_is_refused():
    with pytest.raises(DeclarationError, match="projection is not affine in its parameters"):
        _declare(lambda x, gamma: gamma * gamma * cp.sum_squares(x))


def test_an_iteration_limit_leaves_a_certificate_that_does_not_hold():
    declared = _declare()
    with pytest.warns(ConvergenceWarning, match="OSQP reports user_limit, rejected"):
        declared.solve("OSQP", max_iter=1)
    certificate = declared.certificate()
    assert not certificate.holds
    assert "rejected" in dict(certificate.record)["solver"]


@pytest.mark.parametrize(("solver", "tolerance"), [("CLARABEL", 1e-6), ("OSQP", 1e-6), ("HIGHS", 1e-5)])
def test_rows_are_judged_at_the_tolerance_of_the_solver_that_made_the_point(solver, tolerance):
    declared = _declare().solve(solver)
    assert tolerance_of(solver) == tolerance
    assert {row.tolerance for row in declared.certificate().rows} == {tolerance}
    assert {row.tolerance for row in declared.certificate(tolerance=1e-3).rows} == {1e-3}


def test_agreement_with_another_way_is_part_of_the_certificate():
    declared = _declare().solve()
    agreed = declared.certificate(against={"point": TARGET - 3.0, "price": np.array(6.0), "other": np.ones(2)})
    assert [row.name for row in agreed.rows[2:]] == ["agreement: point", "agreement: price"]
    assert agreed.holds
    assert agreed["agreement: point"].tolerance == AGREEMENT * TOLERANCE
    assert agreed["agreement: point"].scale == 3.0
    apart = declared.certificate(against={"point": TARGET - 3.0 + 1e-3, "price": np.array(6.0)})
    assert not apart["agreement: point"].passes
    assert apart["agreement: price"].passes
    assert not apart.holds


# ---- limits of a real model ----------------------------------------------------------------------


@pytest.mark.parametrize("form", ["primal", "dual"])
@pytest.mark.parametrize("constant", [3.0, 0.0, -1e6])
def test_a_constant_target_is_solved_certified_and_agreed_on(form, constant):
    K, y = RBF(1.0)(np.linspace(0.0, 3.0, 12)[:, None]), np.full(12, constant)
    declared = ls_svm_regression.declare(K, y, 20.0, form=form).solve()  # a ConvergenceWarning would be an error
    assert_allclose(declared.support_values, 0.0, atol=1e-5 * max(abs(constant), 1.0))
    assert_allclose(declared.bias, constant, atol=1e-5 * max(abs(constant), 1.0))
    certificate = declared.certificate(against=ls_svm_regression.closed_form(K, y, 20.0))
    assert certificate.holds, str(certificate)


@pytest.mark.parametrize("form", ["primal", "dual"])
def test_a_kernel_matrix_of_nought_leaves_the_mean(form):
    K, y = np.zeros((3, 3)), np.array([1.0, 2.0, 6.0])
    declared = ls_svm_regression.declare(K, y, 2.0, form=form).solve()
    assert_allclose(declared.bias, 3.0, rtol=1e-5)
    assert_allclose(declared.support_values, 2.0 * (y - 3.0), rtol=1e-4)
    assert declared.certificate().holds
