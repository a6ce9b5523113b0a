"""The LS-SVM substrate: declared = closed form = the bordered matrix (10); (12) and (15) as laws."""

import bordered_system
import numpy as np
import pytest
from numpy.testing import assert_allclose

from problems import ls_svm_classification, ls_svm_regression, ls_svm_substrate
from substrate.kernels import RBF

TASKS = ("regression", "classification")


def case(task, n=14, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=n)
    return RBF(1.5)(X), y if task == "regression" else np.where(y > 0.0, 1.0, -1.0)


def constants(kind, n):
    return {"scalar": 0.7, "vector": np.random.default_rng(5).normal(size=n), "nought": 0.0}[kind]


def bordered(K, y, c, task):
    """(10) by numpy; in classification for Omega = y y'K and the target 1, whose border is y."""
    n = y.size
    c = np.broadcast_to(c, n)
    if task == "regression":
        alpha, b = bordered_system.solve(K, y - c, np.ones(n))
        return {"support_values": alpha, "bias": b, "errors": y - K @ alpha - b}
    omega = np.array([[y[i] * y[j] * K[i, j] for j in range(n)] for i in range(n)])
    matrix = np.block([[np.zeros((1, 1)), y[None, :]], [y[:, None], omega + np.eye(n)]])
    solution = np.linalg.solve(matrix, np.append(0.0, 1.0 - c))
    alpha, b = solution[1:], solution[0]
    return {"support_values": alpha, "bias": b, "errors": 1.0 - y * (K @ (y * alpha) + b)}


def assert_same(found, expected, tolerance):
    for name, value in expected.items():
        value = np.asarray(value)
        assert_allclose(found[name], value, atol=tolerance * max(np.abs(value).max(), 1e-3), rtol=0.0, err_msg=name)


# ---- agreement -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["scalar", "vector", "nought"])
@pytest.mark.parametrize("task", TASKS)
def test_declared_closed_form_and_numpy_agree(task, kind):
    """:equation [Pelckmans2005]_ (9)-(10): the declared problem and the system written out."""
    K, y = case(task)
    c = constants(kind, y.size)
    expected = bordered(K, y, c, task)
    closed = ls_svm_substrate.closed_form(K, y, c, task)
    assert_same(closed, expected, 1e-10)
    declared = ls_svm_substrate.declare(K, y, c, task).solve()
    assert_same(declared.solution(), expected, 1e-6)
    certificate = declared.certificate(against=closed)
    assert certificate.holds, str(certificate)
    assert sum(row.name.startswith("agreement") for row in certificate.rows) == 3


@pytest.mark.parametrize("task", TASKS)
def test_the_errors_are_alpha_plus_c(task):
    K, y = case(task)
    c = constants("vector", y.size)
    for found in (
        ls_svm_substrate.closed_form(K, y, c, task),
        ls_svm_substrate.declare(K, y, c, task).solve().solution(),
    ):
        assert_allclose(found["errors"], found["support_values"] + c, atol=1e-6)
        signs = y if task == "classification" else 1.0
        assert_allclose((signs * found["support_values"]).sum(), 0.0, atol=1e-6)


# ---- (12) and (15) -------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.02, 1.0, 3.0, 500.0])
@pytest.mark.parametrize("task", TASKS)
def test_tikhonov_is_a_special_case(task, gamma):
    """:equation [Pelckmans2005]_ (12): the constants make the LS-SVM, and meet the printed equation."""
    K, y = case(task)
    module = ls_svm_regression if task == "regression" else ls_svm_classification
    machine = module.closed_form(K, y, gamma)
    c = ls_svm_substrate.tikhonov_constants(machine["support_values"], gamma)
    assert_allclose(machine["support_values"] / gamma, machine["support_values"] + c, rtol=1e-9)  # (12)
    assert_same(ls_svm_substrate.closed_form(K, y, c, task), machine, 1e-8)
    assert_same(ls_svm_substrate.declare(K, y, c, task).solve().solution(), machine, 1e-5)


@pytest.mark.parametrize("task", TASKS)
def test_alpha_is_minus_the_slope_of_the_optimal_value(task):
    """:equation [Pelckmans2005]_ (15): against differences of the optimal value."""
    K, y = case(task, n=8)
    c = constants("vector", y.size)
    signs = y if task == "classification" else np.ones(y.size)

    def optimal(c):
        solved = ls_svm_substrate.closed_form(K, y, c, task)
        a = signs * solved["support_values"]
        return 0.5 * a @ K @ a + 0.5 * np.sum((solved["errors"] - c) ** 2)

    assert_allclose(ls_svm_substrate.declare(K, y, c, task).solve().problem.value, optimal(c), rtol=1e-7)
    step = 1e-5
    slopes = [(optimal(c + step * unit) - optimal(c - step * unit)) / (2.0 * step) for unit in np.eye(y.size)]
    assert_allclose(ls_svm_substrate.closed_form(K, y, c, task)["support_values"], -np.array(slopes), atol=1e-8)
