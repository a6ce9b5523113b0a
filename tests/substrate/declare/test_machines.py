"""Machines of one's own, each in a few lines, against a peer, a closed form or the raw problem."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import QuantileRegressor
from sklearn.svm import SVC, SVR

from problems import ls_svm_regression
from substrate import Machine, Substrate
from substrate.datasets import additive_function, motorcycle, ripley
from substrate.fits.l1 import solve_l1
from substrate.kernels import RBF, Componentwise, Linear


@pytest.fixture
def wave():
    rng = np.random.default_rng(3)
    X = rng.uniform(-2.0, 2.0, size=(40, 1))
    return X, np.sin(2.0 * X[:, 0]) + 0.2 * rng.normal(size=40)


@pytest.fixture
def classes():
    X, y = ripley()
    return X[::5], np.where(y[::5] > 0, 1.0, -1.0)


def features(kernel, X):
    """Columns F with F F' = K, by numpy."""
    values, vectors = np.linalg.eigh(kernel(X))
    keep = values > 1e-13 * values[-1]
    return vectors[:, keep] * np.sqrt(values[keep])


def solved(machine, **parameters):
    result = machine.solve(**parameters)
    assert result.certificate.holds, str(result.certificate)
    return result


def test_the_script_of_a_composer_works_as_written():
    X, y = additive_function(40, n_features=4, random_state=0)
    X_low = np.column_stack([np.full(9, 0.5)] * 2 + [np.linspace(0.0, 0.8, 9), np.full(9, 0.5)])
    X_high = X_low + 0.1 * np.eye(4)[2]

    s = Substrate(Componentwise(RBF(1.0)), X, y)
    rho = cp.Parameter(nonneg=True, name="rho")
    machine = Machine(
        s,
        minimize=0.5 * cp.sum_squares(s.e) + rho * cp.sum(s.maximal_variation),
        subject_to=[s.f(X_low) <= s.f(X_high)],
    )
    result = machine.solve(rho=3.0)

    assert result.certificate.holds, str(result.certificate)
    assert_allclose(result.predict(X), y - result.e, atol=1e-8)
    assert (result.predict(X_high) - result.predict(X_low)).min() >= -1e-8
    assert result.maximal_variation.shape == (4,)
    assert_allclose(result.objective, 0.5 * result.e @ result.e + 3.0 * result.maximal_variation.sum(), rtol=1e-7)


@pytest.mark.parametrize("gamma", [0.05, 2.0, 300.0])
def test_tikhonov_is_the_closed_form(gamma):
    X, y = motorcycle()
    s = Substrate(RBF(6.6), X, y)
    result = solved(Machine(s, minimize=0.5 * s.squared_norm + 0.5 * gamma * cp.sum_squares(s.e)))
    closed = ls_svm_regression.closed_form(RBF(6.6)(X), y, gamma)
    alpha, points = closed["support_values"], np.linspace(0.0, 60.0, 50)[:, None]
    scale = np.abs(y).max()
    assert_allclose(result.e, closed["errors"], atol=1e-6 * scale)
    assert_allclose(result.b, closed["bias"], atol=1e-6 * scale)
    assert_allclose(result.squared_norm, alpha @ RBF(6.6)(X) @ alpha, rtol=1e-6)
    assert_allclose(result.predict(points), RBF(6.6)(points, X) @ alpha + closed["bias"], atol=1e-5 * scale)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_pinball_is_scikit_learns_quantile_regressor(wave, level):
    X, y = wave
    s = Substrate(Linear(), X, y)
    result = solved(Machine(s, minimize=cp.sum(cp.maximum(level * s.e, (level - 1.0) * s.e))))
    peer = QuantileRegressor(quantile=level, alpha=0.0, solver="highs").fit(X, y)
    e = y - peer.predict(X)
    assert_allclose(result.objective, np.maximum(level * e, (level - 1.0) * e).sum(), rtol=1e-8)
    assert_allclose(result.predict(X), peer.predict(X), atol=1e-6)


def test_epsilon_insensitive_is_scikit_learns_svr(wave):
    X, y = wave
    s = Substrate(RBF(1.0), X, y)
    result = solved(Machine(s, minimize=0.5 * s.squared_norm + 5.0 * cp.sum(cp.pos(cp.abs(s.e) - 0.1))))
    peer = SVR(kernel="rbf", gamma=1.0, C=5.0, epsilon=0.1, tol=1e-9).fit(X, y)
    assert_allclose(result.predict(X), peer.predict(X), atol=1e-5)


def test_hinge_is_scikit_learns_svc(classes):
    X, y = classes
    s = Substrate(RBF(0.7), X, y, task="classification")
    result = solved(Machine(s, minimize=0.5 * s.squared_norm + 2.0 * cp.sum(cp.pos(s.e))))
    peer = SVC(kernel="rbf", gamma=1.0 / 0.49, C=2.0, tol=1e-9).fit(X, y)
    assert_allclose(result.predict(X), peer.decision_function(X), atol=1e-5)


def test_logistic_loss_is_certified_by_its_exponential_cones(classes):
    X, y = classes
    s = Substrate(RBF(0.7), X, y)
    loss = cp.sum(cp.logistic(-cp.multiply(y, s.f())))
    machine = Machine(s, minimize=0.5 * s.squared_norm + loss)
    for solver, row in (("CLARABEL", "cones: stationarity"), (None, "stationarity")):
        result = machine.solve(solver)
        assert result.certificate.holds
        assert result.certificate[row].passes
        # stationarity by hand: a = y / (1 + exp(y f)), up to what the kernel does not see
        assert_allclose(result.f - result.b, RBF(0.7)(X) @ (y / (1.0 + np.exp(y * result.f))), atol=1e-5)


def test_monotone_is_the_raw_problem_and_active(wave):
    X, y = wave
    grid = np.linspace(-2.0, 2.0, 60)[:, None]
    s = Substrate(RBF(1.0), X, y)
    rising = s.f(grid[:-1]) <= s.f(grid[1:])
    result = solved(Machine(s, minimize=0.5 * s.squared_norm + 5.0 * cp.sum_squares(s.e), subject_to=[rising]))
    fine = result.predict(np.linspace(-2.0, 2.0, 1000)[:, None])
    assert np.diff(fine).min() > -1e-4 * np.ptp(fine)
    assert rising.dual_value.max() > 1e-2
    assert np.diff(result.predict(grid)).min() >= -1e-8

    F = features(RBF(1.0), np.vstack([X, grid]))  # weights in the span of all points: the representer theorem
    w, b = cp.Variable(F.shape[1]), cp.Variable()
    at = F[40:] @ w
    raw = cp.Problem(
        cp.Minimize(0.5 * cp.sum_squares(w) + 5.0 * cp.sum_squares(y - F[:40] @ w - b)), [at[:-1] <= at[1:]]
    )
    raw.solve(solver="CLARABEL", tol_gap_rel=1e-11, tol_gap_abs=1e-11)
    assert_allclose(result.objective, raw.value, rtol=1e-7)
    assert_allclose(result.f, F[:40] @ w.value + b.value, atol=1e-5)


@pytest.mark.parametrize("zeta", [0.1, 1.0])
def test_the_l1_substrate_is_the_active_set(wave, zeta):
    X, y = wave
    K = RBF(0.8)(X)
    s = Substrate(RBF(0.8), X, y)
    result = solved(Machine(s, minimize=0.5 * cp.sum_squares(s.e) + zeta * cp.norm1(s.alpha)))
    exact = solve_l1(K, y, zeta)
    e = y - K @ exact.coefficients - exact.bias
    assert_allclose(result.objective, 0.5 * e @ e + zeta * np.abs(exact.coefficients).sum(), rtol=1e-8)
    assert_allclose(result.e, e, atol=1e-5)
    assert_allclose(result.alpha, exact.coefficients, atol=1e-3 * np.abs(exact.coefficients).max())
    zero = exact.coefficients == 0.0
    assert zero.sum() > 20
    assert np.abs(result.alpha[zero]).max() < 1e-4 * np.abs(result.alpha).max()


@pytest.mark.parametrize("objective", ["nothing", "errors", "norm"])
def test_given_constants_c_make_the_linear_system_of_the_substrate(wave, objective):
    X, y = wave
    c = 0.1 * np.random.default_rng(0).normal(size=40)
    s = Substrate(RBF(1.0), X, y)
    wanted = {"nothing": 0.0 * cp.sum(s.alpha), "errors": cp.norm1(s.e), "norm": s.squared_norm}[objective]
    result = solved(Machine(s, minimize=wanted, subject_to=[s.c == c]))
    system = np.block([[np.zeros((1, 1)), np.ones((1, 40))], [np.ones((40, 1)), RBF(1.0)(X) + np.eye(40)]])
    expected = np.linalg.solve(system, np.append(0.0, y - c))
    assert_allclose(result.alpha, expected[1:], atol=1e-6)
    assert_allclose(result.b, expected[0], atol=1e-6)
    assert_allclose(result.e, result.alpha + c, atol=1e-6)
    assert_allclose(result.c, c, atol=1e-6)


def test_validation_errors_are_a_term_like_any_other(wave):
    """:equation [Pelckmans2005]_ (11): the errors are targets minus predictions."""
    X, y = wave
    s = Substrate(RBF(1.0), X[:25], y[:25])
    held_out = s.errors(X[25:], y[25:])
    result = solved(Machine(s, minimize=cp.sum_squares(s.e) + cp.sum_squares(held_out) + 0.1 * s.squared_norm))
    assert_allclose(held_out.value, y[25:] - result.predict(X[25:]), atol=1e-8)


def test_a_variable_of_ones_own_is_a_quantile_of_the_errors(wave):
    X, y = wave
    s = Substrate(Linear(), X, y)
    t = cp.Variable(nonneg=True, name="tube")
    tube = Machine(s, minimize=t, subject_to=[cp.abs(s.e) <= t])
    result = solved(tube)
    assert_allclose(t.value, np.abs(result.e).max(), atol=1e-7)
    assert (np.abs(result.e) > t.value - 1e-6).sum() >= 3  # Chebyshev: as many touch as there are unknowns
