"""Penalised fusion (23): declared = active set on the stacked rows = the problem written down; the factor two."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import l1_substrate, penalized_fusion
from substrate.fits.l1 import solve_l1, zeta_max
from substrate.kernels import RBF

TASKS = ("regression", "classification")


def case(task, n=12, n_val=9, seed=0):
    rng = np.random.default_rng(seed)
    X, V = rng.uniform(-3.0, 3.0, size=(n, 2)), rng.uniform(-3.0, 3.0, size=(n_val, 2))
    y, v = (np.sin(P[:, 0]) + 0.3 * rng.normal(size=len(P)) for P in (X, V))
    if task == "classification":
        y, v = (np.where(t > np.median(t), 1.0, -1.0) for t in (y, v))
    return RBF(1.0)(X), y, RBF(1.0)(V, X), v


def written_down(K, y, K_val, y_val, xi, task, half=0.5):
    """(20) and (23) with all their variables; ``half=1`` is the printed objective."""
    n, m = y.size, y_val.size
    alpha, b, c, e, e_val = cp.Variable(n), cp.Variable(), cp.Variable(n), cp.Variable(n), cp.Variable(m)
    signs, signs_val = (y, y_val) if task == "classification" else (np.ones(n), np.ones(m))
    f, f_val = K @ cp.multiply(signs, alpha) + b, K_val @ cp.multiply(signs, alpha) + b
    constraints = [
        cp.multiply(signs, y - f) == e,
        cp.multiply(signs_val, y_val - f_val) == e_val,
        signs @ alpha == 0,
        e == alpha + c,
    ]
    cost = half * (cp.sum_squares(e) + cp.sum_squares(e_val)) + xi * cp.norm1(alpha)
    problem = cp.Problem(cp.Minimize(cost), constraints)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return {
        "support_values": alpha.value,
        "bias": b.value,
        "errors": e.value,
        "constants": c.value,
        "validation_errors": e_val.value,
    }, problem.value


def largest(K, y, K_val, y_val):
    return zeta_max(np.vstack([K, K_val]), np.append(y, y_val))


def assert_same(found, expected, tolerance):
    assert set(found) == set(expected)
    for name, value in expected.items():
        value = np.asarray(value)
        assert_allclose(found[name], value, atol=tolerance * max(np.abs(value).max(), 1e-2), rtol=0.0, err_msg=name)


@pytest.mark.parametrize("share", [0.5, 0.05])
@pytest.mark.parametrize("task", TASKS)
def test_declared_active_set_and_written_down_agree(task, share):
    """:equation [Pelckmans2005]_ (23): the declared problem, the active set and the problem written down anew."""
    given = case(task)
    xi = share * largest(*given)
    expected, value = written_down(*given, xi, task)
    closed = penalized_fusion.closed_form(*given, xi, task)
    assert_same(closed, expected, 1e-5)
    declared = penalized_fusion.declare(*given, xi, task).solve()
    certificate = declared.certificate(against=closed)
    assert certificate.holds, str(certificate)
    assert sum(row.name.startswith("agreement") for row in certificate.rows) == 5
    assert_allclose(declared.problem.value, value, rtol=1e-8)
    assert (closed["support_values"] == 0.0).any()


def test_it_is_the_active_set_on_stacked_rows():
    K, y, below, known = case("regression")
    xi = 0.1 * largest(K, y, below, known)
    solved = solve_l1(np.vstack([K, below]), np.append(y, known), xi)
    found = penalized_fusion.closed_form(K, y, below, known, xi)
    assert_array_equal(found["support_values"], solved.coefficients)
    assert_allclose(found["validation_errors"], known - below @ solved.coefficients - solved.bias, atol=1e-12)


@pytest.mark.parametrize("task", TASKS)
def test_the_printed_xi_is_twice_ours(task):
    given = case(task)
    xi = 0.1 * largest(*given)
    ours = penalized_fusion.closed_form(*given, xi, task)
    assert_same(ours, written_down(*given, 2.0 * xi, task, half=1.0)[0], 1e-5)
    other = written_down(*given, xi, task, half=1.0)[0]
    assert np.abs(other["support_values"] - ours["support_values"]).max() > 1e-2


def test_validation_rows_that_repeat_the_training_rows_halve_xi():
    K, y, _, _ = case("regression")
    alone = l1_substrate.closed_form(K, y, 0.2)
    twice = penalized_fusion.closed_form(K, y, K, y, 0.4)
    for name, value in alone.items():
        assert_allclose(twice[name], value, atol=1e-9)
