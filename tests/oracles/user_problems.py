"""Twenty-two convex problems of users that are no kernel machines, with a weight to choose and a validation error.

A function ``kind(rng, weight)`` returns the problem and the validation error; the weight is a parameter of its
objective.
"""

import cvxpy as cp
import numpy as np

__all__ = ["USER_PROBLEMS", "user_problem"]


def _rows(rng, n=14, d=4):
    X, V = rng.normal(size=(n, d)), rng.normal(size=(n, d))
    slope = rng.normal(size=d) * (rng.random(d) < 0.6)
    y, u = (P @ slope + 0.5 * rng.normal(size=n) for P in (X, V))
    return X, y, V, u


def _classes(rng, n=14, d=3):
    X, y, V, u = _rows(rng, n, d)
    return X, np.where(y >= np.median(y), 1.0, -1.0), V, np.where(u >= np.median(u), 1.0, -1.0)


def _series(rng, n=16):
    t = np.linspace(0.0, 1.0, n)
    clean = np.sin(6.0 * t) + (t > 0.5)
    return t, clean + 0.4 * rng.normal(size=n), clean + 0.4 * rng.normal(size=n)


def elastic_net(rng, weight):
    X, y, V, u = _rows(rng, d=6)
    x, b = cp.Variable(6), cp.Variable()
    cost = 0.5 * cp.sum_squares(X @ x + b - y) + weight * (0.7 * cp.norm1(x) + 0.15 * cp.sum_squares(x))
    return cp.Problem(cp.Minimize(cost)), cp.sum_squares(V @ x + b - u) / len(u)


def square_root_lasso(rng, weight):
    X, y, V, u = _rows(rng)
    x = cp.Variable(4)
    return cp.Problem(cp.Minimize(cp.norm(X @ x - y) + 0.1 * weight * cp.norm1(x))), cp.sum_squares(V @ x - u) / len(u)


def ridge_logistic(rng, weight):
    X, y, V, u = _classes(rng)
    x, b = cp.Variable(3), cp.Variable()
    cost = cp.sum(cp.logistic(-cp.multiply(y, X @ x + b))) + weight * cp.sum_squares(x)
    return cp.Problem(cp.Minimize(cost)), cp.sum(cp.logistic(-cp.multiply(u, V @ x + b))) / len(u)


def sparse_logistic(rng, weight):
    X, y, V, u = _classes(rng)
    x = cp.Variable(3)
    cost = cp.sum(cp.logistic(-cp.multiply(y, X @ x))) + weight * cp.norm1(x)
    return cp.Problem(cp.Minimize(cost)), cp.sum(cp.logistic(-cp.multiply(u, V @ x))) / len(u)


def softmax_regression(rng, weight):
    X, _, V, _ = _rows(rng, 12, 2)
    classes, classes_val = rng.integers(3, size=12), rng.integers(3, size=12)
    W = cp.Variable((2, 3))

    def loss(P, labels):
        return cp.sum(cp.log_sum_exp(P @ W, axis=1)) - cp.sum(cp.multiply(np.eye(3)[labels], P @ W))

    return cp.Problem(cp.Minimize(loss(X, classes) + weight * cp.sum_squares(W))), loss(V, classes_val) / 12


def portfolio_with_a_return_target(rng, weight):
    returns, later = (0.1 * np.arange(5) + rng.normal(size=(24, 5)) for _ in range(2))
    holdings, x = np.full(5, 0.2), cp.Variable(5, nonneg=True)
    mean = returns.mean(axis=0)
    risk = cp.sum_squares((returns - mean) @ x) / 24
    target = 0.5 * (mean.mean() + mean.max())
    problem = cp.Problem(
        cp.Minimize(risk + 0.1 * weight * cp.norm1(x - holdings)), [cp.sum(x) == 1, mean @ x >= target]
    )
    return problem, cp.sum_squares(later @ x - target) / 24


def portfolio_of_logarithms(rng, weight):
    returns, later = (np.exp(0.3 * rng.normal(size=(10, 4)) + 0.05) for _ in range(2))
    x = cp.Variable(4, nonneg=True)
    growth = cp.sum(cp.log(returns @ x)) / 10
    return cp.Problem(cp.Maximize(growth - weight * cp.sum_squares(x)), [cp.sum(x) == 1]), -cp.sum(
        cp.log(later @ x)
    ) / 10


def group_lasso(rng, weight):
    X, y, V, u = _rows(rng, d=6)
    x = cp.Variable(6)
    norms = cp.norm(x[:2]) + cp.norm(x[2:4]) + cp.norm(x[4:])
    return cp.Problem(cp.Minimize(0.5 * cp.sum_squares(X @ x - y) + weight * norms)), cp.norm1(V @ x - u) / len(u)


def several_tasks(rng, weight):
    X, V, slope = rng.normal(size=(12, 3)), rng.normal(size=(12, 3)), rng.normal(size=(3, 2))
    Y, U = (P @ slope + 0.5 * rng.normal(size=(12, 2)) for P in (X, V))
    W = cp.Variable((3, 2))
    cost = 0.5 * cp.sum_squares(X @ W - Y) + weight * cp.sum(cp.norm(W, axis=1))
    return cp.Problem(cp.Minimize(cost)), cp.sum_squares(V @ W - U) / 24


def total_variation(rng, weight):
    _, y, u = _series(rng)
    x = cp.Variable(len(y))
    return cp.Problem(cp.Minimize(0.5 * cp.sum_squares(x - y) + 0.1 * weight * cp.tv(x))), cp.sum_squares(x - u) / len(
        u
    )


def trend_filter(rng, weight):
    _, y, u = _series(rng)
    x = cp.Variable(len(y))
    return cp.Problem(cp.Minimize(0.5 * cp.sum_squares(x - y) + weight * cp.norm1(cp.diff(x, 2)))), cp.sum_squares(
        x - u
    ) / len(u)


def smoothing(rng, weight):
    _, y, u = _series(rng)
    x = cp.Variable(len(y))
    return cp.Problem(cp.Minimize(cp.sum_squares(x - y) + weight * cp.sum_squares(cp.diff(x, 2)))), cp.norm1(
        x - u
    ) / len(u)


def rising_curve(rng, weight):
    t, y, u = _series(rng)
    x = cp.Variable(len(y))
    cost = cp.sum_squares(x - y - t) + weight * cp.sum_squares(cp.diff(x))
    return cp.Problem(cp.Minimize(cost), [cp.diff(x) >= 0]), cp.sum_squares(x - u - t) / len(u)


def quantiles(rng, weight):
    X, y, V, u = _rows(rng, 15, 3)
    x, b = cp.Variable(3), cp.Variable()

    def loss(e):
        return cp.sum(cp.maximum(0.7 * e, -0.3 * e))

    cost = loss(y - X @ x - b) + weight * cp.sum_squares(x)
    return cp.Problem(cp.Minimize(cost)), loss(u - V @ x - b) / len(u)


def huber_regression(rng, weight):
    X, y, V, u = _rows(rng)
    y[::5] += 5.0
    x = cp.Variable(4)
    cost = cp.sum(cp.huber(X @ x - y, 0.5)) + weight * cp.sum_squares(x)
    return cp.Problem(cp.Minimize(cost)), cp.sum(cp.huber(V @ x - u, 0.5)) / len(u)


def counts(rng, weight):
    X, V = 0.5 * rng.normal(size=(12, 3)), 0.5 * rng.normal(size=(12, 3))
    y, u = (rng.poisson(np.exp(P[:, 0] + 0.5)) for P in (X, V))
    x, b = cp.Variable(3), cp.Variable()

    def loss(P, observed):
        return cp.sum(cp.exp(P @ x + b) - cp.multiply(observed, P @ x + b))

    return cp.Problem(cp.Minimize(loss(X, y) + weight * cp.sum_squares(x))), loss(V, u) / 12 + 10.0


def linear_classifier(rng, weight):
    X, y, V, u = _classes(rng)
    x = cp.Variable(3)
    cost = 0.5 * cp.sum_squares(x) + weight * cp.sum(cp.pos(1.0 - cp.multiply(y, X @ x)))
    return cp.Problem(cp.Minimize(cost)), cp.sum(cp.pos(1.0 - cp.multiply(u, V @ x))) / len(u)


def mixture_of_sources(rng, weight):
    """Non-negative least squares, with a price of what is used."""
    A, B = rng.uniform(size=(14, 5)), rng.uniform(size=(14, 5))
    truth = np.array([1.0, 0.0, 2.0, 0.0, 0.5])
    y, u = (M @ truth + 0.3 * rng.normal(size=14) for M in (A, B))
    x = cp.Variable(5, nonneg=True)
    return cp.Problem(cp.Minimize(cp.sum_squares(A @ x - y) + weight * cp.sum(x))), cp.sum_squares(B @ x - u) / 14


def distribution(rng, weight):
    """Return the probabilities of largest entropy whose moments are near those that were measured."""
    M = rng.normal(size=(3, 8))
    p, q = rng.dirichlet(np.ones(8)), rng.dirichlet(np.full(8, 2.0))
    x = cp.Variable(8, nonneg=True)
    cost = -cp.sum(cp.entr(x)) + weight * cp.sum_squares(M @ x - M @ p)
    return cp.Problem(cp.Minimize(cost), [cp.sum(x) == 1]), cp.sum_squares(x - 0.5 * (p + q))


def largest_error(rng, weight):
    X, y, V, u = _rows(rng, 10, 3)
    x = cp.Variable(3)
    cost = cp.norm_inf(X @ x - y) + 0.1 * weight * cp.sum_squares(x)
    return cp.Problem(cp.Minimize(cost), [cp.norm(x) <= 5.0]), cp.sum_squares(V @ x - u) / len(u)


def low_rank(rng, weight):
    """A nuclear norm: singular values of a matrix."""
    clean = np.outer(rng.normal(size=4), rng.normal(size=2))
    Y, U = (clean + 0.3 * rng.normal(size=clean.shape) for _ in range(2))
    X = cp.Variable((4, 2))
    return cp.Problem(cp.Minimize(0.5 * cp.sum_squares(X - Y) + weight * cp.normNuc(X))), cp.sum_squares(X - U) / U.size


def covariance(rng, weight):
    """A determinant: the inverse of a covariance with few entries."""
    samples = [rng.normal(size=(12, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]) for _ in "ab"]
    S, S_val = (P.T @ P / len(P) for P in samples)
    X = cp.Variable((3, 3), PSD=True)
    cost = cp.trace(S @ X) - cp.log_det(X) + weight * cp.norm1(X)
    return cp.Problem(cp.Minimize(cost)), cp.trace(S_val @ X) - cp.log_det(X)


USER_PROBLEMS = (
    elastic_net,
    ridge_logistic,
    portfolio_with_a_return_target,
    total_variation,
    square_root_lasso,
    sparse_logistic,
    softmax_regression,
    portfolio_of_logarithms,
    group_lasso,
    several_tasks,
    trend_filter,
    smoothing,
    rising_curve,
    quantiles,
    huber_regression,
    counts,
    linear_classifier,
    mixture_of_sources,
    distribution,
    largest_error,
    low_rank,
    covariance,
)


def user_problem(kind, seed):
    """Return a problem, its weight, and a validation error."""
    weight = cp.Parameter(nonneg=True, name="weight")
    return (weight, *kind(np.random.default_rng(seed), weight))
