"""Ingredients: labelled constraints, multipliers in the paper's sign, residuals by their formulas."""

import importlib

import bordered_system as oracle
import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.declare.solvers import ORDER, installed_solvers
from substrate.ingredients import (
    error_row,
    fit_row,
    norm_row,
    regression_fit,
    squared_errors,
    squared_norm,
    zero_sum,
    zero_sum_row,
)
from substrate.kernels import RBF

RNG = np.random.default_rng(0)
N = 15
X = RNG.normal(size=(N, 1))
Y = np.sin(2.0 * X[:, 0]) + 3.0
GAMMA = 4.0
WEIGHTS = RNG.uniform(0.5, 2.0, N)
K = RBF(0.8)(X)
RIDGE = 1.0 / (GAMMA * WEIGHTS)
ALPHA, BIAS = oracle.solve(K, Y, RIDGE)
VALUES, VECTORS = np.linalg.eigh(K)
FACTOR = VECTORS * np.sqrt(np.maximum(VALUES, 0.0))

every_solver = pytest.mark.parametrize("solver", ORDER)


def _needs(solver):
    if solver not in installed_solvers():
        pytest.skip(f"the optional solver {solver} is not installed")


def _accurate(solver):
    return dict(importlib.import_module("substrate.declare.solvers")._SOLVERS[solver].options)


def _primal():
    w, b, e = cp.Variable(N), cp.Variable(), cp.Variable(N)
    gamma = cp.Parameter(nonneg=True, value=GAMMA)
    fit = regression_fit(Y, FACTOR @ w + b, e)
    norm, errors = squared_norm(w, FACTOR), squared_errors(e, gamma, WEIGHTS)
    return cp.Problem(cp.Minimize(norm.term + errors.term), [fit.constraint]), fit, norm, errors, b


def _dual():
    alpha = cp.Variable(N)
    balance = zero_sum(alpha)
    norm = squared_norm(FACTOR.T @ alpha, FACTOR)
    ridge = squared_errors(alpha, cp.Parameter(nonneg=True, value=1.0 / GAMMA), 1.0 / WEIGHTS)
    return cp.Problem(cp.Maximize(Y @ alpha - norm.term - ridge.term), [balance.constraint]), alpha, balance


# ---- signs ---------------------------------------------------------------------------------------


@every_solver
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
def test_the_multiplier_of_the_fit_equalities_is_plus_alpha(solver):
    """:equation [Suykens2002]_ (3): the sign of the multipliers, with every solver."""
    _needs(solver)
    problem, fit, _, _, b = _primal()
    problem.solve(solver=solver, **_accurate(solver))
    assert np.abs(ALPHA).max() > 0.5
    assert_allclose(fit.multiplier, ALPHA, atol=1e-3 * np.abs(ALPHA).max())
    assert_allclose(b.value, BIAS, rtol=1e-4)


@every_solver
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
def test_the_multiplier_of_the_zero_sum_is_plus_b(solver):
    _needs(solver)
    problem, alpha, balance = _dual()
    problem.solve(solver=solver, **_accurate(solver))
    assert BIAS > 1.0
    assert_allclose(balance.multiplier, BIAS, rtol=1e-3)
    assert_allclose(alpha.value, ALPHA, atol=1e-3 * np.abs(ALPHA).max())


# ---- values --------------------------------------------------------------------------------------


def test_the_terms_are_the_formulas():
    """:equation [Suykens2002]_ (11): the weighted error term, and its stationarity in e."""
    _, fit, norm, errors, b = _primal()
    values = [RNG.normal(size=N), RNG.normal(size=N)]
    norm.w.value, errors.e.value = values
    b.value = 0.3
    assert_allclose(norm.term.value, 0.5 * sum(v * v for v in values[0]), rtol=1e-14)
    assert_allclose(
        errors.term.value, 0.5 * GAMMA * sum(v * e * e for v, e in zip(WEIGHTS, values[1], strict=True)), rtol=1e-14
    )
    row = fit.row(1e-6)
    assert_allclose(row.value, np.linalg.norm(Y - FACTOR @ values[0] - 0.3 - values[1]), rtol=1e-13)
    alpha = RNG.normal(size=N)
    assert_allclose(norm.row(alpha, 1e-6).value, np.linalg.norm(values[0] - FACTOR.T @ alpha), rtol=1e-13)
    assert_allclose(errors.row(alpha, Y, 1e-6).value, np.linalg.norm(alpha / (GAMMA * WEIGHTS) - values[1]), rtol=1e-13)


def test_rows_pass_at_the_solution_and_only_there():
    w, e = FACTOR.T @ ALPHA, RIDGE * ALPHA
    f = FACTOR @ w + BIAS
    tolerance = 1e-10
    assert fit_row(Y, f, e, tolerance).passes
    assert error_row(ALPHA, 1.0 / RIDGE, e, tolerance, Y).passes
    assert norm_row(w, FACTOR, ALPHA, tolerance).passes
    assert zero_sum_row(ALPHA, tolerance).passes
    moved = ALPHA + 1e-6 * np.abs(ALPHA).max() * np.eye(N)[3]
    assert not fit_row(Y, f + 1e-6, e, tolerance).passes
    assert not fit_row(Y, f, -e, tolerance).passes
    assert not error_row(moved, 1.0 / RIDGE, e, tolerance, Y).passes
    assert not norm_row(w, FACTOR, moved, tolerance).passes
    assert not norm_row(-w, FACTOR, ALPHA, tolerance).passes
    assert not zero_sum_row(moved, tolerance).passes


@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_rows_do_not_depend_on_the_unit_of_the_target(unit):
    e, f = RIDGE * ALPHA, K @ ALPHA + BIAS
    for y_row, unit_row in (
        (fit_row(Y, f, 2 * e, 1e-6), fit_row(unit * Y, unit * f, unit * 2 * e, 1e-6)),
        (error_row(ALPHA, 1.0 / RIDGE, f, 1e-6, Y), error_row(unit * ALPHA, 1.0 / RIDGE, unit * f, 1e-6, unit * Y)),
        (norm_row(FACTOR.T @ Y, FACTOR, ALPHA, 1.0), norm_row(unit * FACTOR.T @ Y, FACTOR, unit * ALPHA, 1.0)),
        (zero_sum_row(Y, 1e-6), zero_sum_row(unit * Y, 1e-6)),
    ):
        assert_allclose(unit_row.relative, y_row.relative, rtol=1e-12)
