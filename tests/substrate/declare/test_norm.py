"""The norm of w as an expression: against the raw problem, as a constraint, and over several kernels."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from problems import ls_svm_regression
from substrate import Machine, Substrate
from substrate.kernels import RBF, Componentwise


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(2)
    X = rng.uniform(-2.0, 2.0, size=(30, 3))
    return X, np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.2 * rng.normal(size=30)


def solved(machine):
    result = machine.solve()
    assert result.certificate.holds, str(result.certificate)
    return result


@pytest.mark.parametrize("loss", [lambda e: 0.5 * cp.sum_squares(e), cp.norm1], ids=["squares", "absolute values"])
def test_the_norm_is_the_raw_problem(data, loss):
    X, y = data
    s = Substrate(RBF(1.0), X, y)
    result = solved(Machine(s, minimize=loss(s.e) + 0.7 * s.norm))
    values, vectors = np.linalg.eigh(RBF(1.0)(X))
    F = vectors * np.sqrt(np.maximum(values, 0.0))
    w, b = cp.Variable(30), cp.Variable()
    raw = cp.Problem(cp.Minimize(loss(y - F @ w - b) + 0.7 * cp.norm2(w)))
    raw.solve(solver="CLARABEL")
    assert_allclose(result.objective, raw.value, rtol=1e-6)
    assert_allclose(result.norm, np.linalg.norm(w.value), rtol=1e-3)
    assert_allclose(s.norm.value, np.sqrt(result.squared_norm), rtol=1e-9)


@pytest.mark.parametrize("mention", [lambda s: 0.0, lambda s: s.alpha[0]], ids=["features", "alpha"])
def test_the_norm_is_the_same_in_all_coordinates(data, mention):
    X, y = data
    s = Substrate(Componentwise(RBF(1.0)), X, y)
    result = solved(Machine(s, minimize=0.5 * cp.sum_squares(s.e) + s.norm + 0.0 * mention(s)))
    a = result.alpha
    assert_allclose(result.norm, np.sqrt(a @ s.kernel(X) @ a), rtol=1e-9)
    assert_allclose(result.objective, 0.5 * result.e @ result.e + result.norm, rtol=1e-6)


def test_a_bound_on_the_norm_is_a_weight_on_its_square(data):
    """Ivanov and Tikhonov: the multiplier of the bound is the weight of the norm."""
    X, y = data
    s = Substrate(RBF(1.0), X, y)
    free = solved(Machine(s, minimize=0.5 * s.squared_norm + cp.sum_squares(s.e)))
    bound = s.norm <= free.norm
    result = solved(Machine(s, minimize=cp.sum_squares(s.e), subject_to=[bound]))
    assert_allclose(result.f, free.f, atol=1e-4)
    assert_allclose(bound.dual_value, free.norm, rtol=1e-3)


def test_the_sum_of_norms_squared_is_multiple_kernel_learning(data):
    """[Bach2004]_: the best convex combination of kernels, here by alternation between weights and the closed form.

    1/2 (sum_k |w_k|)^2 is the least 1/2 sum_k |w_k|^2 / d_k over weights d that sum to one.
    """
    X, y = data
    parts = [Substrate(RBF(1.0).on(k), X, y, bias=k == 0, name=f"input {k}") for k in range(3)]
    e = y - sum(s.f() for s in parts)
    cost = 0.5 * cp.square(sum(s.norm for s in parts)) + 0.5 * cp.sum_squares(e)
    result = solved(Machine(parts, minimize=cost, predict=sum(parts)))
    matrices, d = [s.kernel(X) for s in parts], np.full(3, 1.0 / 3.0)
    for _ in range(300):
        K = sum(weight * one for weight, one in zip(d, matrices, strict=True))
        closed = ls_svm_regression.closed_form(K, y, 1.0)
        alpha = closed["support_values"]
        norms = d * np.sqrt([alpha @ one @ alpha for one in matrices])
        d = norms / norms.sum()
    objective = 0.5 * norms.sum() ** 2 + 0.5 * closed["errors"] @ closed["errors"]
    assert_allclose(result.objective, objective, rtol=1e-4)
    assert result.objective <= objective * (1.0 + 1e-6)
    assert_allclose(result.predict(X), y - closed["errors"], atol=1e-2)
    assert_allclose([result[s].norm for s in parts], norms, atol=2e-2)


def test_a_large_weight_sets_whole_functions_to_zero(data):
    X, y = data
    parts = [Substrate(RBF(1.0).on(k), X, y, bias=k == 0, name=f"input {k}") for k in range(3)]
    e = y - sum(s.f() for s in parts)
    result = solved(
        Machine(parts, minimize=0.5 * cp.sum_squares(e) + 2.5 * sum(s.norm for s in parts), predict=sum(parts))
    )
    sizes = np.array([result[s].norm for s in parts])
    assert sizes[2] < 1e-6 * sizes[0]
    # optimality of a group at zero: the slope of the loss is shorter than the weight
    assert np.sqrt(e.value @ parts[2].kernel(X) @ e.value) < 2.5
    assert_allclose(np.sqrt(e.value @ parts[0].kernel(X) @ e.value), 2.5, rtol=1e-4)
