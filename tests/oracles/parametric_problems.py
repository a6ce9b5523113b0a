"""Random convex problems of several kinds with a weight to choose, and their validation error."""

import cvxpy as cp
import numpy as np

__all__ = ["KINDS", "parametric_problem"]


def _rows(rng, n, d):
    X, V = rng.normal(size=(n, d)), rng.normal(size=(n, d))
    slope = rng.normal(size=d) * (rng.random(d) < 0.5)
    unit = 10.0 ** rng.uniform(-2.0, 2.0) if rng.random() < 0.4 else 1.0
    offset = rng.normal()
    y, u = (unit * (np.sin(P @ slope) + offset + 0.4 * rng.normal(size=n)) for P in (X, V))
    if rng.random() < 0.3:
        X[1], y[1] = X[0], y[0]
    return X, y, V, u, unit


def elastic_net(rng, weight):
    X, y, V, u, _ = _rows(rng, 15, 4)
    x = cp.Variable(4)
    cost = 0.5 * cp.sum_squares(X @ x - y) + weight * (cp.norm1(x) + 0.3 * cp.sum_squares(x))
    return cp.Problem(cp.Minimize(cost)), cp.sum_squares(V @ x - u) / 15


def lasso(rng, weight):
    X, y, V, u, _ = _rows(rng, 12, 6)
    x, b = cp.Variable(6), cp.Variable()
    cost = 0.5 * cp.sum_squares(X @ x + b - y) + weight * cp.norm1(x)
    return cp.Problem(cp.Minimize(cost)), cp.norm1(V @ x + b - u) / 12


def logistic(rng, weight):
    X, y, V, u, _ = _rows(rng, 12, 3)
    labels, labels_val = np.sign(y - np.median(y) + 1e-9), np.sign(u - np.median(u) + 1e-9)
    x, b = cp.Variable(3), cp.Variable()
    cost = cp.sum(cp.logistic(-cp.multiply(labels, X @ x + b))) + weight * cp.sum_squares(x)
    return cp.Problem(cp.Minimize(cost)), cp.sum(cp.logistic(-cp.multiply(labels_val, V @ x + b))) / 12


def tube(rng, weight):
    X, y, V, u, unit = _rows(rng, 12, 3)
    x, b = cp.Variable(3), cp.Variable()
    loss = cp.sum(cp.pos(cp.abs(X @ x + b - y) - 0.1 * unit))
    return cp.Problem(cp.Minimize(0.5 * cp.sum_squares(x) + weight * loss)), cp.sum_squares(V @ x + b - u) / 12


def pinball(rng, weight):
    X, y, V, u, _ = _rows(rng, 13, 3)
    x, b = cp.Variable(3), cp.Variable()

    def loss(e):
        return cp.sum(cp.maximum(0.8 * e, -0.2 * e))

    cost = 0.5 * cp.sum_squares(x) + weight * loss(y - X @ x - b)
    return cp.Problem(cp.Minimize(cost)), loss(u - V @ x - b) / 13


def portfolio(rng, weight):
    returns, later = rng.normal(size=(20, 5)) + 0.1, rng.normal(size=(20, 5)) + 0.1
    x = cp.Variable(5, nonneg=True)
    risk = cp.sum_squares((returns - returns.mean(axis=0)) @ x) / 20
    problem = cp.Problem(cp.Maximize(weight * (returns.mean(axis=0) @ x) - risk), [cp.sum(x) == 1])
    return problem, cp.sum_squares(later @ x - 0.2) / 20


def monotone(rng, weight):
    _, y, _, u, _ = _rows(rng, 14, 2)
    t = np.sort(rng.uniform(size=14))
    B = np.exp(-30.0 * (t[:, None] - np.linspace(0.0, 1.0, 6)) ** 2)
    x = cp.Variable(6)
    cost = 0.5 * cp.sum_squares(B @ x - np.sort(y)) + weight * cp.sum_squares(x)
    return cp.Problem(cp.Minimize(cost), [cp.diff(B @ x) >= 0]), cp.sum_squares(B @ x - np.sort(u)) / 14


def groups(rng, weight):
    X, y, V, u, _ = _rows(rng, 15, 4)
    x = cp.Variable(4)
    cost = 0.5 * cp.sum_squares(X @ x - y) + weight * (cp.norm(x[:2]) + cp.norm(x[2:]))
    return cp.Problem(cp.Minimize(cost)), cp.sum(cp.pos(1.0 - cp.multiply(np.sign(u), V @ x))) / 15


KINDS = (elastic_net, lasso, tube, pinball, portfolio, monotone, groups, logistic)


def parametric_problem(kind, seed):
    """Return a problem, its weight, and a validation error."""
    weight = cp.Parameter(nonneg=True, name="weight")
    return (weight, *kind(np.random.default_rng(seed), weight))
