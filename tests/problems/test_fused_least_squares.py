"""Fusion by least squares (20)-(22): closed form = declared = lstsq after elimination; the warning of section 4.2."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from problems import fused_least_squares
from substrate.errors import DataError, DeclarationError, OverfittingWarning
from substrate.kernels import RBF

TASKS = ("regression", "classification")


def case(task, n=8, n_val=14, seed=0):
    rng = np.random.default_rng(seed)
    X, V = rng.normal(size=(n, 2)), rng.normal(size=(n_val, 2))
    y, v = (np.sin(P[:, 0]) + 0.3 * rng.normal(size=len(P)) for P in (X, V))
    if task == "classification":
        y, v = (np.where(t > np.median(t), 1.0, -1.0) for t in (y, v))
    return RBF(1.5)(X), y, RBF(1.5)(V, X), v


def eliminated(K, y, K_val, y_val, task):
    """(22) with a_N = -(a_1 + ... + a_{N-1}), by numpy."""
    stacked, t = np.vstack([K, K_val]), np.append(y, y_val)
    matrix = np.column_stack([stacked[:, :-1] - stacked[:, -1:], np.ones(t.size)])
    e = t - matrix @ np.linalg.lstsq(matrix, t, rcond=1e-12)[0]
    e = t * e if task == "classification" else e
    return {"errors": e[: y.size], "validation_errors": e[y.size :]}


def assert_same(found, expected, tolerance):
    for name, value in expected.items():
        assert_allclose(found[name], value, atol=tolerance, rtol=0.0, err_msg=name)


# ---- agreement -----------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_closed_form_declared_and_lstsq_agree(task):
    """:equation [Pelckmans2005]_ (21)-(22): the declared problem against the eliminated one."""
    given = case(task)
    expected = eliminated(*given, task)
    closed = fused_least_squares.closed_form(*given, task)
    assert_same(closed, expected, 1e-10)
    K, y, below, _ = given
    for values, name, targets in ((K, "errors", y), (below, "validation_errors", given[3])):
        left = targets - values @ closed["support_values"] - closed["bias"]
        assert_allclose(targets * left if task == "classification" else left, closed[name], atol=1e-6)
    declared = fused_least_squares.declare(*given, task).solve()
    assert_same(declared.solution(), expected, 1e-6)
    certificate = declared.certificate(against=closed)
    assert certificate.holds, str(certificate)
    cost = sum(np.sum(errors**2) for errors in expected.values())
    assert_allclose(declared.problem.value, cost, rtol=1e-8)


def test_classification_is_regression_on_the_labels():
    given = case("classification")
    labels = fused_least_squares.closed_form(*given, "classification")
    values = fused_least_squares.closed_form(*given, "regression")
    assert_allclose(labels["errors"], given[1] * values["errors"], atol=1e-12)
    assert_allclose(labels["validation_errors"], given[3] * values["validation_errors"], atol=1e-12)


def test_all_errors_are_orthogonal_to_all_that_can_be_fitted():
    K, y, below, known = case("regression")
    found = fused_least_squares.closed_form(K, y, below, known)
    e = np.append(found["errors"], found["validation_errors"])
    stacked = np.vstack([K, below])
    assert_allclose(e.sum(), 0.0, atol=1e-12)
    assert_allclose((stacked[:, :-1] - stacked[:, -1:]).T @ e, 0.0, atol=1e-10)


def test_the_solution_satisfies_the_under_determined_system():
    """:equation [Pelckmans2005]_ (20): block by block as printed, with c = e - alpha."""
    K, y, below, known = case("regression", n=8, n_val=14)
    found = fused_least_squares.closed_form(K, y, below, known)
    alpha, c = found["support_values"], found["errors"] - found["support_values"]
    matrix = np.block(
        [
            [np.zeros((1, 8)), np.zeros((1, 14)), np.zeros((1, 1)), np.ones((1, 8))],
            [np.eye(8), np.zeros((8, 14)), np.ones((8, 1)), K + np.eye(8)],
            [np.zeros((14, 8)), np.eye(14), np.ones((14, 1)), below],
        ]
    )
    unknowns = np.concatenate([c, found["validation_errors"], [found["bias"]], alpha])
    assert_allclose(matrix @ unknowns, np.concatenate([[0.0], y, known]), atol=1e-9)


# ---- the warning ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "n_val"), [(8, 7), (8, 1), (9, 8), (8, 8), (8, 9), (2, 3)])
def test_a_warning_exactly_when_training_exceeds_validation(n, n_val):
    given = case("regression", n, n_val)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fused_least_squares.declare(*given)
    assert [w.category for w in caught] == ([OverfittingWarning] if n > n_val else [])
    for warning in caught:
        assert f"{n} training points are fused with only {n_val} validation points" in str(warning.message)
        assert "penalized_fusion" in str(warning.message)
        assert warning.filename == __file__


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [fused_least_squares.declare, fused_least_squares.closed_form])
def test_refusals_say_what_is_wrong(function):
    K, y, below, known = case("regression")
    with pytest.raises(DataError, match=r"K_val has a row per validation point.*expected 8 columns.*\(8, 14\)"):
        function(K, y, below.T, known)
    with pytest.raises(DataError, match="y_val must have one entry per row of K_val: expected 14, received 13"):
        function(K, y, below, known[:-1])
    with pytest.raises(DataError, match="K_val is empty"):
        function(K, y, below[:0], known[:0])
    with pytest.raises(DataError, match="K_val contains NaN or infinity"):
        function(K, y, np.where(below == below.max(), np.nan, below), known)
    with pytest.raises(DataError, match="y_val must be 1-D"):
        function(K, y, below, known[:, None])
    with pytest.raises(DeclarationError, match="cutoff must be positive"):
        function(K, y, below, known, cutoff=0.0)
    labels = np.where(y > np.median(y), 1.0, -1.0)
    with pytest.raises(DataError, match=r"y_val must hold labels -1 and \+1"):
        function(K, labels, below, known, "classification")
    one_class = function(K, labels, below, np.ones(14), "classification")
    assert one_class is not None, "validation points may be of one class"
