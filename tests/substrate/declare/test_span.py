"""What an expansion is built on: the optimum over all w where w is penalised, the training rows where it is not."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from substrate import Machine, Substrate
from substrate.errors import DeclarationError
from substrate.kernels import RBF, Polynomial, Precomputed


@pytest.fixture
def half():
    """A sample of an even function on one side of zero."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.2, 2.0, size=(12, 1))
    return X, np.cos(2.0 * X[:, 0]) + 0.1 * rng.normal(size=12)


def ridge(s, weight=10.0):
    return 0.5 * s.squared_norm + 0.5 * weight * cp.sum_squares(s.e)


def fact(result):
    return dict(result.certificate.record).get("span", "")


def least_squares_over(kernel, points, rows, y, weight, equal, bias=True):
    """min w'w/2 + weight/2 |y - f(rows)|^2 with equal values at pairs of points, by one dense system."""
    values, vectors = np.linalg.eigh(kernel(points))
    keep = values > 1e-13 * values[-1]
    F = vectors[:, keep] * np.sqrt(values[keep])
    J = np.hstack([F[rows], np.full((len(rows), 1), float(bias))])
    C = np.hstack([F[equal[0]] - F[equal[1]], np.zeros((len(equal[0]), 1))])
    H = weight * J.T @ J + np.diag(np.append(np.ones(F.shape[1]), 0.0 if bias else 1.0))
    system = np.block([[H, C.T], [C, np.zeros((len(C), len(C)))]])
    u = np.linalg.lstsq(system, np.concatenate([weight * J.T @ y, np.zeros(len(C))]), rcond=1e-14)[0][: H.shape[0]]
    w, e = u[:-1], y - J @ u
    return 0.5 * w @ w + 0.5 * weight * e @ e, J @ u


@pytest.mark.parametrize("kernel", [RBF(1.0), Polynomial(3, 1.0)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_constraint_away_from_the_training_rows_costs_what_it_costs_over_all_w(half, kernel, bias):
    X, y = half
    s = Substrate(kernel, X, y, bias=bias)
    result = Machine(s, minimize=ridge(s), subject_to=[s.f(X) == s.f(-X)]).solve()
    both, n = np.vstack([X, -X]), np.arange(12)
    truth, fitted = least_squares_over(kernel, both, n, y, 10.0, (n, n + 12), bias)
    assert_allclose(result.objective, truth, rtol=1e-7)
    assert_allclose(result.f, fitted, atol=1e-6)
    assert result.certificate.holds


def test_what_joined_is_reported_and_predicts(half):
    X, y = half
    s = Substrate(RBF(1.0), X, y)
    there = s.f(-X)
    result = Machine(s, minimize=ridge(s), subject_to=[s.f() == there]).solve()
    (further,) = result.further
    assert result.alpha.shape == (12,)
    assert_array_equal(further.points, -X)
    assert further.part is None
    new = np.linspace(-2.0, 2.0, 9)[:, None]
    expected = RBF(1.0)(new, X) @ result.alpha + RBF(1.0)(new, -X) @ further.coefficients + result.b
    assert_allclose(result.predict(new), expected, atol=1e-12)
    assert_allclose(result.predict(new), result.predict(-new), atol=1e-6)
    assert_allclose(there.value, result.predict(-X), atol=1e-12)
    assert_allclose(result.alpha.sum() + further.coefficients.sum(), 0.0, atol=1e-10)
    G, a = RBF(1.0)(np.vstack([X, -X])), np.append(result.alpha, further.coefficients)
    assert_allclose([result.squared_norm, float(s.squared_norm.value)], a @ G @ a, rtol=1e-9)
    assert fact(result).startswith("12 training rows and what else the machine mentions, 12 further points:")
    assert fact(result).endswith("the optimum over all w")


@pytest.mark.parametrize("seed", range(3))
def test_more_points_never_cost_more(seed):
    """The span grows by points that are mentioned with weight zero."""
    rng = np.random.default_rng(seed)
    X, P, Q = rng.normal(size=(10, 2)), rng.normal(size=(4, 2)), rng.normal(size=(3, 2))
    y = rng.normal(size=10)
    costs = []
    for idle in (False, True):
        s = Substrate(RBF(1.0), X, y)
        objective = ridge(s) + (0.0 * cp.sum(s.f(Q)) if idle else 0.0)
        costs.append(Machine(s, minimize=objective, subject_to=[s.f(P) >= 0.5]).solve().objective)
    assert_allclose(costs[0], costs[1], rtol=1e-6)  # what is mentioned without effect is not used


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        (lambda s: cp.sum_squares(s.e), "does not penalise w"),
        (lambda s: ridge(s) + cp.norm1(s.alpha), "mentions alpha, one per row"),
    ],
)
def test_where_the_span_is_the_training_rows_it_is_said(half, terms, why):
    X, y = half
    s = Substrate(RBF(1.0), X, y)
    result = Machine(s, minimize=terms(s), subject_to=[s.f(-X[:3]) <= 1.0]).solve()
    assert fact(result).startswith("the training rows: ")
    assert why in fact(result)
    assert result.further == ()


def test_a_precomputed_matrix_stays_with_its_rows(half):
    X, y = half
    K, below = RBF(1.0)(X), RBF(1.0)(-X[:3], X)
    s = Substrate(Precomputed(), K, y)
    result = Machine(s, minimize=ridge(s), subject_to=[s.f(below) <= 0.5]).solve()
    assert "no kernel values between other points" in fact(result)


def test_an_indefinite_kernel_is_refused_where_the_points_show_it(half):
    X, y = half

    def odd(A, B):
        return np.where((A < 0.0) & (B.T < 0.0), -1.0, 1.0) * (A @ B.T)

    s = Substrate(odd, X, y)
    with pytest.raises(DeclarationError, match="smallest eigenvalue"):
        Machine(s, minimize=ridge(s), subject_to=[s.f(-X) <= 1.0])
