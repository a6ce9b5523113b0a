"""Confined fusion: declared = closed form = the problem written down; what columns can and cannot do; the estimator."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from problems import LSSVMRegressor, confined_fusion, ls_svm_substrate
from substrate.errors import DataError
from substrate.kernels import RBF

TASKS = ("regression", "classification")


def case(task="regression", n=12, n_val=15, seed=0):
    rng = np.random.default_rng(seed)
    X, V = rng.uniform(-2.0, 2.0, size=(n, 2)), rng.uniform(-2.0, 2.0, size=(n_val, 2))
    y, v = (np.sin(P[:, 0]) + 0.3 * rng.normal(size=len(P)) for P in (X, V))
    if task == "classification":
        y, v = (np.where(t > np.median(t), 1.0, -1.0) for t in (y, v))
    Z = np.column_stack([X[:, 0] > 0.0, X[:, 0] <= 0.0, np.abs(X[:, 1])]).astype(float)
    return (RBF(1.0)(X), y, RBF(1.0)(V, X), v), Z


def written_down(K, y, K_val, y_val, Z, task):
    """(20)-(21) with c = Z u and all their variables."""
    n, m = y.size, y_val.size
    alpha, b, u, e, e_val = cp.Variable(n), cp.Variable(), cp.Variable(Z.shape[1]), cp.Variable(n), cp.Variable(m)
    signs, signs_val = (y, y_val) if task == "classification" else (np.ones(n), np.ones(m))
    f, f_val = K @ cp.multiply(signs, alpha) + b, K_val @ cp.multiply(signs, alpha) + b
    constraints = [
        cp.multiply(signs, y - f) == e,
        cp.multiply(signs_val, y_val - f_val) == e_val,
        signs @ alpha == 0,
        e == alpha + Z @ u,
    ]
    problem = cp.Problem(cp.Minimize(cp.sum_squares(e) + cp.sum_squares(e_val)), constraints)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    return {"errors": e.value, "validation_errors": e_val.value, "support_values": alpha.value, "bias": b.value}


@pytest.mark.parametrize("task", TASKS)
def test_declared_closed_form_and_the_problem_written_down_agree(task):
    """:place [Pelckmans2005]_ section 4.2, "confining the space of possible c values": constants of few columns"""
    given, Z = case(task)
    closed = confined_fusion.closed_form(*given, Z, task)
    declared = confined_fusion.declare(*given, Z, task).solve("CLARABEL")
    assert declared.certificate().holds
    expected = written_down(*given, Z, task)
    for name, value in closed.items():
        assert_allclose(value, expected[name], atol=1e-6, err_msg=name)
        assert_allclose(declared.solution()[name], value, atol=1e-5, err_msg=name)


def test_the_closed_form_is_least_squares_over_the_substrates_of_all_u():
    """:place [Pelckmans2005]_ section 4.2, "confining the space of possible c values": the projection"""
    (K, y, K_val, y_val), Z = case()

    def errors(u):
        solved = ls_svm_substrate.closed_form(K, y, Z @ u)
        return np.append(solved["errors"], y_val - K_val @ solved["support_values"] - solved["bias"])

    solved = confined_fusion.closed_form(K, y, K_val, y_val, Z)
    found = np.append(solved["errors"], solved["validation_errors"])
    start = errors(np.zeros(3))
    M = np.column_stack([errors(column) - start for column in np.eye(3)])
    assert_allclose(errors(-np.linalg.lstsq(M, start, rcond=None)[0]), found, atol=1e-10)
    assert_allclose(M.T @ found, 0.0, atol=1e-10)
    assert found @ found <= start @ start


@pytest.mark.parametrize("factors", [(1e9, 1.0, 1e-9), (1e200, 1e-200, 1.0)])
def test_units_and_copies_of_columns_change_nothing(factors):
    given, Z = case()
    expected = confined_fusion.closed_form(*given, Z)
    again = confined_fusion.closed_form(*given, np.column_stack([Z * factors, Z[:, 0], np.zeros(12)]))
    for name, value in expected.items():
        assert_allclose(again[name], value, atol=1e-9, err_msg=name)


@pytest.mark.parametrize(
    ("Z", "match"),
    [(np.ones(11), "one row per training row"), (np.ones((12, 0)), "empty"), (np.full(12, np.nan), "Z")],
)
def test_columns_that_do_not_fit_are_refused(Z, match):
    given, _ = case()
    with pytest.raises(DataError, match=match):
        confined_fusion.closed_form(*given, Z)


# ---- the estimator -------------------------------------------------------------------------------------


def test_the_closed_form_predicts_at_new_points():
    """In one column, a constant, the machine is the LS-SVM with gamma = 1 but for its bias."""
    rng = np.random.default_rng(0)
    X, V, new = (rng.uniform(-2.0, 2.0, size=(n, 2)) for n in (12, 15, 6))
    y, v, kernel = np.sin(X[:, 0]), np.sin(V[:, 0]), RBF(1.0)
    solved = confined_fusion.closed_form(kernel(X), y, kernel(V, X), v, np.ones((12, 1)))
    predicted = kernel(new, X) @ solved["support_values"] + solved["bias"]
    apart = predicted - LSSVMRegressor(kernel, gamma=1.0).fit(X, y).predict(new)
    assert_allclose(apart, apart[0], atol=1e-9)
