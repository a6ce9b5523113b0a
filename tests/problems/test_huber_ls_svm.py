"""The Huber LS-SVM: declared = closed form with every solver, its limits, and the estimator."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from problems import huber_ls_svm
from substrate.datasets import sinc_outliers
from substrate.kernels import RBF

FORMS = ("primal", "dual")
KERNEL, GAMMA, DELTA = RBF(1.0), 10.0, 0.2
DATA = sinc_outliers(60, n_outliers=4, random_state=0)
X, Y, OUTLIERS = DATA.data, DATA.target, DATA.outliers
K = KERNEL(X)


@pytest.mark.parametrize("form", FORMS)
def test_both_forms_have_one_value_and_clipped_multipliers(form):
    declared = huber_ls_svm.declare(K, Y, GAMMA, DELTA, form=form).solve("CLARABEL")
    factor = 1.0 if form == "primal" else GAMMA  # the dual is declared in shares of gamma
    closed = huber_ls_svm.closed_form(K, Y, GAMMA, DELTA)
    alpha, e = closed["support_values"], closed["errors"]
    loss = np.where(np.abs(e) <= DELTA, 0.5 * e**2, DELTA * np.abs(e) - 0.5 * DELTA**2)
    assert_allclose(factor * declared.problem.value, 0.5 * alpha @ K @ alpha + GAMMA * loss.sum(), rtol=1e-7)
    assert_allclose(declared.support_values, GAMMA * np.clip(declared.errors, -DELTA, DELTA), atol=1e-5)


@pytest.mark.parametrize("size", [1e-3, 0.1])
def test_the_bound_of_a_changed_point_is_its_distance_at_least(size):
    declared = huber_ls_svm.declare(K, Y, GAMMA, DELTA).solve("CLARABEL")
    variables = {variable.name(): variable for variable in declared.problem.variables()}
    w, e, fit = variables["w"], variables["e"], declared.problem.constraints[0]
    errors, accuracy = e.value, declared.certificate().accuracy
    w.value = w.value * (1.0 + size * np.random.default_rng(0).normal(size=w.size))
    e.value = e.value + fit.expr.value
    assert np.abs(fit.expr.value).max() < 1e-12, "the errors follow the changed function"
    moved = float(np.sqrt(np.mean((e.value - errors) ** 2)))
    assert declared.certificate().accuracy >= moved - accuracy
    assert moved > 10.0 * accuracy


# ---- limits --------------------------------------------------------------------------------------


def test_a_small_delta_is_least_absolute_deviations():
    """1/2 w'w + c sum |e|, by a conic solver, against gamma delta = c and delta to zero."""
    import cvxpy as cp

    bound, values, vectors = 2.0, *np.linalg.eigh(K)
    R = vectors[:, values > 1e-10] * np.sqrt(values[values > 1e-10])
    w, b = cp.Variable(R.shape[1]), cp.Variable()
    cost = 0.5 * cp.sum_squares(w) + bound * cp.norm1(Y - R @ w - b)
    cp.Problem(cp.Minimize(cost)).solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10)
    distances = []
    for delta in (1e-1, 1e-3, 1e-5):
        found = huber_ls_svm.closed_form(K, Y, bound / delta, delta)
        distances.append(float(np.abs(Y - found["errors"] - R @ w.value - b.value).max()))
        assert (np.abs(found["support_values"]) <= bound * (1.0 + 1e-9)).all()
    assert distances[0] > 10.0 * distances[1]
    assert distances[2] < 1e-4


# ---- the estimator -------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [1.0, 1e-3, 1e-7])
@pytest.mark.parametrize("form", FORMS)
def test_the_declared_problem_agrees_where_many_rows_are_linear(delta, form):
    """Least absolute deviations nearly: gamma delta = 2, weights over three decades, targets tied."""
    rng = np.random.default_rng(11)
    points = rng.normal(size=(12, 2))
    targets, weights = np.round(rng.standard_t(1.5, size=12)), 10.0 ** rng.uniform(-1.5, 1.5, 12)
    matrix = RBF(1.0)(points)
    closed = huber_ls_svm.closed_form(matrix, targets, 2.0 / delta, delta, weights)
    declared = huber_ls_svm.declare(matrix, targets, 2.0 / delta, delta, weights, form).solve("CLARABEL")
    assert_allclose(declared.support_values, closed["support_values"], atol=1e-5 * 2.0 * weights.max())
    assert_allclose(matrix @ declared.support_values, matrix @ closed["support_values"], atol=1e-4)
