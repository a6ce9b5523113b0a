"""Maximal variation with one expansion per component: declared = fast path = written down = the lasso; exact zeros."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Lasso

from problems import decoupled_maximal_variation
from substrate.errors import DeclarationError
from substrate.fits.coordinates import decoupled_coordinates
from substrate.fits.variation import rho_max
from substrate.kernels import RBF, Linear

TASKS = ("regression", "classification")
QUANTITIES = ("bias", "errors", "maximal_variation", "component_values")
RIDGE = 0.1
over_tasks = pytest.mark.parametrize("task", TASKS)
over_bias = pytest.mark.parametrize("bias", [True, False])


def case(kernel, task="regression", n=16, d=3, seed=0):
    """Inputs spread evenly in a random order: RBF(0.5) is well conditioned on them."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.permutation(np.linspace(-3.0, 3.0, n)) for _ in range(d)])
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=n)
    y = y if task == "regression" else np.where(y > 0.0, 1.0, -1.0)
    return [kernel(X[:, [part]]) for part in range(d)], y, X


def written_down(factors, y, rho, ridge, bias, task="regression"):
    """The problem in weights w_l, with f^l = L^l w_l where L^l L^l' is the kernel matrix."""
    w = [cp.Variable(L.shape[1]) for L in factors]
    parts = [L @ weights for L, weights in zip(factors, w, strict=True)]
    b = cp.Variable() if bias else cp.Constant(0.0)
    f = sum(parts) + b
    e = y - f if task == "regression" else 1.0 - cp.multiply(y, f)
    objective = 0.5 * cp.sum_squares(e) + rho * sum(cp.norm_inf(part) for part in parts)
    if ridge:
        objective += 0.5 * ridge * sum(cp.sum_squares(weights) for weights in w)
    problem = cp.Problem(cp.Minimize(objective))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it may fall short of 1e-11 and say so; 1e-5 is what is compared
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    values = np.array([part.value for part in parts])
    return problem.value, {
        "bias": b.value,
        "errors": e.value,
        "maximal_variation": np.abs(values).max(axis=1),
        "component_values": values,
    }


def factors_of(kernel, K, X):
    """The input itself for a linear kernel, else all features of the matrix, also those that the cut-off leaves out."""
    if isinstance(kernel, Linear):
        return [X[:, [part]] for part in range(X.shape[1])]
    pairs = [np.linalg.eigh(part) for part in K]
    return [vectors * np.sqrt(np.maximum(values, 0.0)) for values, vectors in pairs]


def largest(K, y, bias=True, ridge=RIDGE):
    return rho_max(decoupled_coordinates(K, bias, ridge=ridge), y)


def assert_same(found, expected, tolerance, size):
    for name in QUANTITIES:
        assert_allclose(found[name], expected[name], atol=tolerance * size, err_msg=name)


# ---- agreement -----------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.6, 0.1])
@pytest.mark.parametrize(("kernel", "ridge"), [(RBF(0.5), RIDGE), (Linear(), 0.0), (Linear(), RIDGE)], ids=str)
@over_bias
@over_tasks
@pytest.mark.covering
def test_declared_fast_path_and_written_down_agree(task, bias, kernel, ridge, share):
    K, y, X = case(kernel, task)
    rho = share * largest(K, y, bias, ridge)
    value, expected = written_down(factors_of(kernel, K, X), y, rho, ridge, bias, task)
    fast = decoupled_maximal_variation.closed_form(K, y, rho, ridge, task, bias)
    assert_same(fast, expected, 1e-5, np.abs(y).max())
    declared = decoupled_maximal_variation.declare(K, y, rho, ridge, task, bias).solve()
    certificate = declared.certificate(against=fast)
    assert certificate.holds, str(certificate)
    assert sum(row.name.startswith("agreement") for row in certificate.rows) == 4
    assert_allclose(declared.problem.value, value, rtol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_linear_components_are_the_lasso_on_columns_of_unit_maximum(seed):
    """t_l = |w_l| max|x^l|: with columns divided by their maxima the problem is a lasso with alpha = rho / N."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 6)) * [1.0, 5.0, 0.2, 1.0, 1.0, 1.0]
    y = X @ [1.0, -0.2, 0.0, 0.5, 0.0, 0.0] + 0.3 * rng.normal(size=30) + 1.0
    K = [Linear()(X[:, [part]]) for part in range(6)]
    for share in (0.7, 0.3, 0.05):
        rho = share * largest(K, y, ridge=0.0)
        fast = decoupled_maximal_variation.closed_form(K, y, rho)
        lasso = Lasso(alpha=rho / 30, tol=1e-13, max_iter=100000).fit(X / np.abs(X).max(axis=0), y)
        assert_allclose(fast["maximal_variation"], np.abs(lasso.coef_), atol=1e-7)
        assert_array_equal(fast["maximal_variation"] == 0.0, lasso.coef_ == 0.0)
        assert_allclose(fast["bias"], lasso.intercept_, atol=1e-7)


@over_tasks
def test_support_values_have_a_column_a_component(task):
    K, y, _ = case(RBF(0.5), task)
    declared = decoupled_maximal_variation.declare(K, y, 0.5, RIDGE, task).solve()
    a = declared.support_values * (y[:, None] if task == "classification" else 1.0)
    assert a.shape == (16, 3)
    expected = [part @ own for part, own in zip(K, a.T, strict=True)]
    assert_allclose(declared.component_values, expected, atol=1e-8)


# ---- certificate ---------------------------------------------------------------------------------


def test_tampering_makes_the_right_row_fail():
    K, y, _ = case(RBF(0.5))
    rho = 0.3 * largest(K, y)
    declared = decoupled_maximal_variation.declare(K, y, rho, RIDGE).solve()
    variables = {variable.name(): variable for variable in declared.problem.variables()}
    duals = {constraint.label: constraint.dual_variables[0] for constraint in declared.problem.constraints}

    def failures(leaf, change):
        original = np.array(leaf.value, dtype=float)
        leaf.save_value(original + change)
        found = {row.name for row in declared.certificate().failures}
        leaf.save_value(original)
        return found

    size = np.abs(y).max()
    assert declared.certificate().holds
    at = int(np.argmax(variables["t"].value))
    assert "(27d) bounds" in failures(variables["t"], -0.01 * size * np.eye(3)[at])
    assert {"sum of all products"} <= failures(variables["t"], 0.01 * size * np.eye(3)[at])
    below = duals["components below t"]
    assert {"(27a) stationarity", "(27b) sums of multipliers"} <= failures(below, 0.05 * rho * np.eye(48)[0])
    assert "(27c) multipliers >= 0" in failures(below, -1.01 * rho * np.eye(48)[0])
    v = variables["v"]
    assert {"fit equalities", "(27a) stationarity"} & failures(v, 0.1 * size * np.eye(v.size)[0])
    assert "1'e = 0" in failures(variables["e"], 0.01 * size)


def test_the_ridge_is_part_of_what_is_certified():
    K, y, _ = case(RBF(0.5))
    declared = decoupled_maximal_variation.declare(K, y, 0.5, RIDGE).solve()
    facts = dict(declared.certificate().record)
    assert facts["ridge"].startswith("0.1/2")
    other = decoupled_maximal_variation.declare(K, y, 0.5, 2.0 * RIDGE)
    for mine, theirs in zip(other.problem.variables(), declared.problem.variables(), strict=True):
        mine.save_value(theirs.value)
    for mine, theirs in zip(other.problem.constraints, declared.problem.constraints, strict=True):
        mine.dual_variables[0].save_value(theirs.dual_variables[0].value)
    assert {row.name for row in other.certificate().failures} == {"accuracy", "(27a) stationarity"}


# ---- zeros ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_positive_definite_components_do_vanish_here(seed):
    K, y, X = case(RBF(4.0), d=4, seed=seed)
    for share in (0.9, 0.6, 0.3):
        rho = share * largest(K, y, ridge=1.0)
        t = decoupled_maximal_variation.closed_form(K, y, rho, 1.0)["maximal_variation"]
        zeros = written_down(factors_of(RBF(4.0), K, X), y, rho, 1.0, True)[1]["maximal_variation"] < 1e-5
        assert_array_equal(t == 0.0, zeros)
        assert share == 0.3 or 0 < zeros.sum() < 4, "some vanish, not all"


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [decoupled_maximal_variation.declare, decoupled_maximal_variation.closed_form])
def test_without_a_ridge_positive_definite_components_are_refused(function):
    K, y, _ = case(RBF(0.5))
    with pytest.raises(DeclarationError, match=r"not determined by the data.*add a ridge \(ridge=0.1\)"):
        function(K, y, 1.0)
    function(K, y, 1.0, 1e-3)
    K, y, _ = case(Linear(), d=5)
    function(K, y, 1.0)
    K, y, _ = case(Linear(), n=5, d=5)
    with pytest.raises(DeclarationError, match="total rank 5 on 4 free rows"):
        function(K, y, 1.0)
