"""The componentwise LS-SVM: declared = closed form = a plain solve = the sum kernel; components and certificate."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from variants import componentwise_machine

from problems import (
    LSSVMRegressor,
    componentwise_ls_svm,
    ls_svm_regression,
)
from substrate.datasets import additive_function
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Componentwise, Linear, Polynomial

GAMMA = 3.0
QUANTITIES = ("support_values", "bias", "errors", "component_values", "component_norms")


def case(kernel=None, n=18, d=4, seed=0):
    X, y = additive_function(n, d, random_state=seed)
    kernel = RBF(0.8) if kernel is None else kernel
    return [kernel(X[:, [part]]) for part in range(d)], y


def by_numpy(K, y, gamma):
    """The bordered system of (8), and the components of its solution."""
    n = y.size
    matrix = np.zeros((n + 1, n + 1))
    matrix[0, 1:] = matrix[1:, 0] = 1.0
    matrix[1:, 1:] = sum(K) + np.eye(n) / gamma
    solution = np.linalg.solve(matrix, np.append(0.0, y))
    alpha = solution[1:]
    return {
        "support_values": alpha,
        "bias": solution[0],
        "errors": alpha / gamma,
        "component_values": np.array([part @ alpha for part in K]),
        "component_norms": np.array([np.sqrt(alpha @ part @ alpha) for part in K]),
    }


def written_down(K, y, gamma):
    """(6) itself: a weight vector a component in the features of an eigendecomposition."""
    features = []
    for part in K:
        values, vectors = np.linalg.eigh(part)
        features.append(vectors * np.sqrt(np.maximum(values, 0.0)))
    w = [cp.Variable(y.size) for _ in K]
    b, e = cp.Variable(), cp.Variable(y.size)
    fit = sum(F @ weights for F, weights in zip(features, w, strict=True)) + b + e == y
    norms = sum(cp.sum_squares(weights) for weights in w)
    problem = cp.Problem(cp.Minimize(0.5 * norms + 0.5 * gamma * cp.sum_squares(e)), [fit])
    problem.solve(solver="CLARABEL")
    return problem.value, np.array([F @ weights.value for F, weights in zip(features, w, strict=True)]), b.value


# ---- agreement -----------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [1e-2, GAMMA, 1e3])
@pytest.mark.parametrize("kernel", [RBF(0.8), Linear(), Polynomial(degree=2)], ids=repr)
@pytest.mark.covering
def test_declared_closed_form_numpy_and_written_down_agree(kernel, gamma):
    """:equation [Pelckmans2005]_ (6)-(7): the declared problem, the problem written down anew and its system."""
    K, y = case(kernel)
    expected = by_numpy(K, y, gamma)
    closed = componentwise_ls_svm.closed_form(K, y, gamma)
    for name in QUANTITIES:
        size = np.abs(expected[name]).max()
        assert_allclose(closed[name], expected[name], atol=1e-7 * size, err_msg=name)
    declared = componentwise_ls_svm.declare(K, y, gamma).solve()
    certificate = declared.certificate(against=closed)
    assert certificate.holds, str(certificate)
    assert sum(row.name.startswith("agreement") for row in certificate.rows) == len(QUANTITIES)
    value, components, b = written_down(K, y, gamma)
    assert_allclose(declared.problem.value, value, rtol=1e-5)
    assert_allclose(declared.component_values, components, atol=1e-3 * np.abs(y).max())
    assert_allclose(declared.bias, b, atol=1e-3 * np.abs(y).max())


def test_it_is_the_ls_svm_of_the_sum_kernel():
    """:equation [Pelckmans2005]_ (8): the matrix is the sum of the component matrices."""
    K, y = case()
    closed = componentwise_ls_svm.closed_form(K, y, GAMMA)
    single = ls_svm_regression.closed_form(sum(K), y, GAMMA)
    for name in ("support_values", "bias", "errors"):
        assert_allclose(closed[name], single[name], atol=1e-9 * np.abs(single[name]).max())
    one = componentwise_ls_svm.closed_form(sum(K), y, GAMMA)
    assert_allclose(one["component_values"], closed["component_values"].sum(axis=0)[None, :], atol=1e-9)
    assert_allclose(np.sum(closed["component_norms"] ** 2), one["component_norms"][0] ** 2, rtol=1e-9)


# ---- certificate ---------------------------------------------------------------------------------


def test_tampering_makes_the_right_row_fail():
    K, y = case()
    declared = componentwise_ls_svm.declare(K, y, GAMMA).solve()
    variables = {variable.name(): variable for variable in declared.problem.variables()}
    (fit,) = declared.problem.constraints

    def failures(leaf, change):
        original = np.array(leaf.value, dtype=float)
        leaf.save_value(original + change)
        found = {row.name for row in declared.certificate().failures}
        leaf.save_value(original)
        return found

    size = np.abs(y).max()
    assert "fit equalities" in failures(variables["b"], 1e-2 * size)
    assert {"fit equalities", "stationarity in e"} <= failures(variables["e"], 1e-2 * size * np.eye(y.size)[3])
    for part in range(1, 5):
        weights = variables[f"w{part}"]
        assert any(name.startswith("stationarity in w") for name in failures(weights, 1e-1 * np.eye(weights.size)[-1]))
    moved = failures(fit.dual_variables[0], 1e-2 * GAMMA * size * np.eye(y.size)[0])
    assert {"stationarity in e", "1'alpha = 0"} <= moved
    assert declared.certificate().holds


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [componentwise_ls_svm.declare, componentwise_ls_svm.closed_form])
def test_refusals_say_what_is_wrong(function):
    K, y = case()
    for wrong in (0.0, -1.0, np.nan, "2", None, True):
        with pytest.raises(DeclarationError, match="gamma must be"):
            function(K, y, wrong)
    with pytest.raises(DataError, match=r"matrices of one size, received sizes \[17, 18\]"):
        function([*K, K[0][:17, :17]], y, GAMMA)
    with pytest.raises(DataError, match=r"list\(K\)"):
        function(np.array(K), y, GAMMA)
    with pytest.raises(DataError, match="y must"):
        function(K, y[:5], GAMMA)


def test_one_indefinite_component_is_refused_though_the_sum_is_definite():
    K, y = case()
    K[1] = K[1] - 2.0 * np.eye(18)
    K[2] = K[2] + 5.0 * np.eye(18)
    assert np.linalg.eigvalsh(sum(K)).min() > 0.0
    with pytest.raises(DeclarationError, match="not positive semi-definite: its smallest eigenvalue is -2"):
        componentwise_ls_svm.declare(K, y, GAMMA)
    with pytest.warns(UserWarning, match="semi-definite"):
        componentwise_ls_svm.closed_form(K, y, GAMMA)


# ---- estimators ----------------------------------------------------------------------------------


def test_the_regressor_is_the_closed_form():
    X, y = additive_function(40, 5, random_state=3)
    model = componentwise_machine(RBF(0.8), gamma=GAMMA).fit(X, y)
    assert model.certificate_.holds, str(model.certificate_)
    closed = componentwise_ls_svm.closed_form([RBF(0.8)(X[:, [part]]) for part in range(5)], y, GAMMA)
    assert_allclose(model.support_values_, closed["support_values"], atol=1e-8 * np.abs(closed["support_values"]).max())
    assert_allclose(model.component_functions(X).T, closed["component_values"], atol=1e-8 * np.abs(y).max())
    assert_allclose(model.maximal_variation_, np.abs(closed["component_values"]).max(axis=1), rtol=1e-7)
    twin = LSSVMRegressor(Componentwise(RBF(0.8)), gamma=GAMMA).fit(X, y)
    points = additive_function(15, 5, random_state=4)[0]
    assert_allclose(model.predict(points), twin.predict(points), rtol=1e-12)
