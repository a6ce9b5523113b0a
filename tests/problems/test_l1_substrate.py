"""The sparse substrate (16): every solver = active set = the problem written down; zeros, certificate, errata."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import l1_substrate
from substrate.datasets import motorcycle
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF
from substrate.solvers import ORDER, installed_solvers, tolerance_of

TASKS = ("regression", "classification")


def case(task, n=16, seed=0):
    """Well conditioned, so that the solution is unique in practice."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, size=(n, 2))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=n)
    return RBF(1.0)(X), y if task == "regression" else np.where(y > 0.0, 1.0, -1.0)


def written_down(K, y, zeta, task, half=0.5):
    """(16) with all its variables, as the paper has them; ``half=1`` is the printed objective."""
    n = y.size
    alpha, b, c, e = cp.Variable(n), cp.Variable(), cp.Variable(n), cp.Variable(n)
    if task == "regression":
        constraints = [y == (K + np.eye(n)) @ alpha + b + c, cp.sum(alpha) == 0, e == alpha + c]
    else:
        omega = y[:, None] * K * y[None, :]
        constraints = [(omega + np.eye(n)) @ alpha + b * y + c == 1.0, y @ alpha == 0, e == alpha + c]
    problem = cp.Problem(cp.Minimize(half * cp.sum_squares(e) + zeta * cp.norm1(alpha)), constraints)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    values = {"support_values": alpha.value, "bias": b.value, "errors": e.value, "constants": c.value}
    return values, problem.value


def assert_same(found, expected, tolerance):
    for name, value in expected.items():
        value = np.asarray(value)
        assert_allclose(found[name], value, atol=tolerance * max(np.abs(value).max(), 1e-2), rtol=0.0, err_msg=name)


# ---- agreement -----------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.8, 0.2, 0.02])
@pytest.mark.parametrize("task", TASKS)
def test_active_set_declared_and_written_down_agree(task, share):
    """:equation [Pelckmans2005]_ (16): the declared problem, the active set and the problem written down anew."""
    K, y = case(task)
    zeta = share * l1_substrate.zeta_max(K, y)
    expected, value = written_down(K, y, zeta, task)
    closed = l1_substrate.closed_form(K, y, zeta, task)
    assert_same(closed, expected, 1e-5)
    cost = 0.5 * np.sum(closed["errors"] ** 2) + zeta * np.abs(closed["support_values"]).sum()
    assert_allclose(cost, value, rtol=1e-8)
    declared = l1_substrate.declare(K, y, zeta, task).solve()
    certificate = declared.certificate(against=closed)
    assert certificate.holds, str(certificate)
    assert sum(row.name.startswith("agreement") for row in certificate.rows) == 4
    assert_allclose(declared.problem.value, value, rtol=1e-8)
    assert (closed["support_values"] == 0.0).any()


@pytest.mark.parametrize("solver", ORDER)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.some_cases(6)
def test_every_solver_agrees(task, solver):
    if solver not in installed_solvers():
        pytest.skip(f"{solver} is not installed")
    K, y = case(task)
    zeta = 0.2 * l1_substrate.zeta_max(K, y)
    declared = l1_substrate.declare(K, y, zeta, task).solve(solver)
    certificate = declared.certificate(against=l1_substrate.closed_form(K, y, zeta, task))
    assert certificate.holds, str(certificate)
    assert_same(declared.solution(), l1_substrate.closed_form(K, y, zeta, task), 10.0 * tolerance_of(solver))


@pytest.mark.parametrize("task", TASKS)
def test_the_constraints_of_the_paper(task):
    K, y = case(task)
    found = l1_substrate.closed_form(K, y, 0.3, task)
    alpha, b, e, c = (found[name] for name in ("support_values", "bias", "errors", "constants"))
    signs = y if task == "classification" else np.ones(y.size)
    assert_allclose(e, alpha + c, atol=1e-12)
    assert_allclose(signs * e, y - K @ (signs * alpha) - b, atol=1e-12)
    assert_allclose(signs @ alpha, 0.0, atol=1e-12)
    assert_allclose(signs @ e, 0.0, atol=1e-12)


def test_tied_inputs_agree_in_objective_and_errors():
    X, y = motorcycle()
    K = RBF(10.0)(X)
    zeta = 0.02 * l1_substrate.zeta_max(K, y)
    closed = l1_substrate.closed_form(K, y, zeta)
    declared = l1_substrate.declare(K, y, zeta).solve()
    assert declared.certificate().holds
    cost = 0.5 * np.sum(closed["errors"] ** 2) + zeta * np.abs(closed["support_values"]).sum()
    assert_allclose(cost, declared.problem.value, rtol=1e-7)
    assert_allclose(closed["errors"], declared.errors, atol=1e-3 * np.abs(y).max())
    assert np.count_nonzero(closed["support_values"]) < 20


# ---- the declaration -----------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_another_zeta_without_declaring_anew(task):
    K, y = case(task)
    largest = l1_substrate.zeta_max(K, y)
    declared = l1_substrate.declare(K, y, 0.5 * largest, task).solve()
    assert declared.problem.is_dpp()
    assert set(declared.problem.parameters()) == {declared.parameters["zeta"]}
    for share in (0.1, 0.01, 2.0):
        declared.parameters["zeta"].value = share * largest
        assert not declared.certificate().holds, "the old point does not solve the new problem"
        declared.solve()
        certificate = declared.certificate(against=l1_substrate.closed_form(K, y, share * largest, task))
        assert certificate.holds, str(certificate)


@pytest.mark.parametrize("task", TASKS)
def test_zeta_max(task):
    K, y = case(task)
    largest = l1_substrate.zeta_max(K, y)
    for zeta in (largest, 1.5 * largest):
        found = l1_substrate.closed_form(K, y, zeta, task)
        assert_array_equal(found["support_values"], 0.0)
        assert_allclose(found["bias"], y.mean(), rtol=0.0, atol=y.size * np.finfo(float).eps * np.abs(y).max())
        declared = l1_substrate.declare(K, y, zeta, task).solve()
        # at zeta_max itself a bound is met without its atom in use: a solver's alpha is the root of its gap there
        certificate = declared.certificate(against=found if zeta > largest else None)
        assert certificate.holds, str(certificate)
    assert np.count_nonzero(l1_substrate.closed_form(K, y, 0.999 * largest, task)["support_values"]) >= 2


@pytest.mark.parametrize("task", TASKS)
def test_the_certificate_sees_every_change(task):
    K, y = case(task)
    declared = l1_substrate.declare(K, y, 0.1 * l1_substrate.zeta_max(K, y), task).solve()
    assert declared.certificate().holds
    assert "1'e = 0" in {row.name for row in declared.certificate().rows}
    for leaf in declared.problem.variables():
        original = np.array(leaf.value, dtype=float)
        for index in np.ndindex(original.shape):
            for change in (1e-2, -1e-2):
                changed = original.copy()
                changed[index] += change * max(np.abs(original).max(), 1.0)
                leaf.save_value(changed)
                assert not declared.certificate().holds, f"entry {index} of {leaf}"
        leaf.save_value(original)
    assert declared.certificate().holds


@pytest.mark.parametrize("task", TASKS)
def test_tampering_that_keeps_all_equalities_is_seen(task):
    K, y = case(task)
    declared = l1_substrate.declare(K, y, 0.1 * l1_substrate.zeta_max(K, y), task).solve()
    a, b, e = (next(v for v in declared.problem.variables() if v.name() == name) for name in "abe")
    original = a.value.copy()
    for i in range(y.size):
        changed = original.copy()
        changed[i] += 1e-2 * np.abs(original).max()
        changed[(i + 1) % y.size] -= 1e-2 * np.abs(original).max()
        a.save_value(changed)
        b.save_value(np.asarray((y - K @ changed).mean()))
        e.save_value(y - K @ changed - b.value)
        seen = {"accuracy", "subgradient bound", "subgradient slackness"}
        assert {row.name for row in declared.certificate().failures} <= seen
        assert not declared.certificate().holds, f"coefficient {i}"


# ---- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1e12, 1e-12])
def test_units_of_the_target(factor):
    K, y = case("regression")
    zeta = 0.1 * l1_substrate.zeta_max(K, y)
    plain, scaled = (l1_substrate.closed_form(K, f * y, f * zeta) for f in (1.0, factor))
    assert_allclose(scaled["support_values"] / factor, plain["support_values"], atol=1e-9)
    declared = l1_substrate.declare(K, factor * y, factor * zeta).solve()
    certificate = declared.certificate(against=scaled)
    assert certificate.holds, str(certificate)


@pytest.mark.parametrize("constant", [0.0, 3.7, -1e6])
def test_a_constant_target_is_the_bias(constant):
    K, _ = case("regression")
    declared = l1_substrate.declare(K, np.full(16, constant), 1.0).solve()
    assert declared.certificate().holds, str(declared.certificate())
    assert_allclose(declared.support_values, 0.0, atol=1e-6 * max(abs(constant), 1.0))
    assert_allclose(declared.bias, constant, rtol=1e-6, atol=1e-9)


def test_a_small_zeta_interpolates():
    K, y = case("regression")
    solved = l1_substrate.closed_form(K, y, 1e-9)
    assert_allclose(solved["errors"], 0.0, atol=1e-6)


def test_two_points():
    for zeta in (0.1, 5.0):
        declared = l1_substrate.declare(np.eye(2), [0.0, 2.0], zeta).solve()
        size = max(1.0 - zeta, 0.0)
        assert_allclose(declared.support_values, [-size, size], atol=1e-6)
        assert declared.certificate().holds


# ---- errata --------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_the_printed_zeta_is_twice_ours(task):
    K, y = case(task)
    zeta = 0.1 * l1_substrate.zeta_max(K, y)
    ours = l1_substrate.closed_form(K, y, zeta, task)
    assert_same(ours, written_down(K, y, 2.0 * zeta, task, half=1.0)[0], 1e-5)
    other = written_down(K, y, zeta, task, half=1.0)[0]
    assert np.abs(other["support_values"] - ours["support_values"]).max() > 1e-2


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [l1_substrate.declare, l1_substrate.closed_form])
def test_refusals_say_what_is_wrong(function):
    K, y = case("regression")
    for wrong in (0.0, -1.0, np.nan, np.inf, "2", None, True):
        with pytest.raises(DeclarationError, match="zeta must be"):
            function(K, y, wrong)
    with pytest.raises(DeclarationError, match="task must be one of regression, classification"):
        function(K, y, 1.0, "both")
    with pytest.raises(DataError, match=r"y must hold labels -1 and \+1"):
        function(K, y, 1.0, "classification")
