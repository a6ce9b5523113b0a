"""Machines with two or three parameters, and rows to train and validate them."""

import cvxpy as cp
import numpy as np

from substrate import Machine, Substrate
from substrate.kernels import RBF, Componentwise, Linear


def rows(n=12, d=3, validation=10, seed=0):
    rng = np.random.default_rng(seed)
    X, V = rng.uniform(-2.0, 2.0, size=(n, d)), rng.uniform(-2.0, 2.0, size=(validation, d))
    y, w = (np.sin(P[:, 0]) + 0.3 * P[:, -1] ** 2 + 0.3 * rng.normal(size=len(P)) for P in (X, V))
    return X, y, V, w


def weights(*names):
    return [cp.Parameter(nonneg=True, name=name) for name in names]


def two_groups(X, y, kernel=None, components=2):
    """(a): a weight of maximal variation for each group of inputs."""
    s = Substrate(kernel or Componentwise(RBF(1.5)), X, y, basis=6)
    rho = weights(*(f"rho{k + 1}" for k in range(components)))
    groups = [list(range(X.shape[1]))[k::components] for k in range(components)]
    penalty = sum(
        weight * sum(s.maximal_variation[i] for i in group) for weight, group in zip(rho, groups, strict=True)
    )
    return Machine(s, minimize=0.5 * cp.sum_squares(s.e) + penalty), rho


def sparse_ridge(X, y):
    """(b): the L1 norm of alpha, and a ridge."""
    s = Substrate(RBF(1.0), X, y)
    zeta, tau = weights("zeta", "tau")
    cost = 0.5 * cp.sum_squares(s.e) + zeta * cp.norm1(s.alpha) + 0.5 * tau * s.squared_norm
    return Machine(s, minimize=cost), [zeta, tau]


def variation_ridge(X, y):
    """(c): maximal variation, and a ridge."""
    s = Substrate(Componentwise(RBF(1.5)), X, y, basis=6)
    rho, tau = weights("rho", "tau")
    cost = 0.5 * cp.sum_squares(s.e) + rho * cp.sum(s.maximal_variation) + 0.5 * tau * s.squared_norm
    return Machine(s, minimize=cost), [rho, tau]


#: Each machine with a box for it.
MACHINES = {
    "two groups": (two_groups, ((0.0, 20.0), (0.0, 20.0))),
    "L1 and ridge": (sparse_ridge, ((0.0, 5.0), (1e-2, 1e2))),
    "variation and ridge": (variation_ridge, ((0.0, 20.0), (1e-3, 10.0))),
}


def lines(target=1.0):
    """Return two lines w_1 x_1 + w_2 x_2 with a weight each: w_k = max(target - rho_k / 2, 0), known exactly."""
    X = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    s = Substrate(Linear(), X, target * X.sum(axis=1), bias=False)
    first, second = weights("one", "two")
    penalty = first * cp.norm1(s.f(X[[0]])) + second * cp.norm1(s.f(X[[2]]))
    return Machine(s, minimize=0.5 * cp.sum_squares(s.e) + penalty), [first, second]


def ridge_line():
    """Return a line w x with a weight of |w| and a ridge: w = (2 - rho)_+ / (2 + tau), known exactly."""
    X = np.array([[1.0], [-1.0]])
    s = Substrate(Linear(), X, X[:, 0], bias=False)
    rho, tau = weights("rho", "tau")
    cost = 0.5 * cp.sum_squares(s.e) + rho * cp.norm_inf(s.f()) + 0.5 * tau * s.squared_norm
    return Machine(s, minimize=cost), [rho, tau]
