"""Small machines with a parameter of each kind, to fuse quickly."""

import cvxpy as cp
import numpy as np

from substrate import Machine, Substrate
from substrate.kernels import RBF, Componentwise

BOX = (0.05, 20.0)


def rows(seed=0, n=14, d=2):
    rng = np.random.default_rng(seed)
    X, V = (rng.uniform(-2.0, 2.0, size=(n, d)) for _ in range(2))
    y, w = (np.sin(2.0 * P[:, 0]) + 0.3 * rng.normal(size=n) for P in (X, V))
    return X, y, V, w


def variation(X, y):
    s, rho = Substrate(Componentwise(RBF(1.5)), X, y), cp.Parameter(nonneg=True, name="rho")
    return Machine(s, minimize=0.5 * cp.sum_squares(s.e) + rho * cp.sum(s.maximal_variation))


def two_weights(X, y):
    s = Substrate(Componentwise(RBF(1.5)), X, y, basis=6)
    rho = [cp.Parameter(nonneg=True, name=name) for name in ("one", "two")]
    penalty = rho[0] * s.maximal_variation[0] + rho[1] * s.maximal_variation[1]
    return Machine(s, minimize=0.5 * cp.sum_squares(s.e) + penalty)


def tube(X, y):
    s, C = Substrate(RBF(1.5), X, y), cp.Parameter(nonneg=True, name="C")
    return Machine(s, minimize=0.5 * s.squared_norm + C * cp.sum(cp.pos(cp.abs(s.e) - 0.1)))


def width(X, y):
    s, eps = Substrate(RBF(1.5), X, y), cp.Parameter(nonneg=True, name="eps")
    return Machine(s, minimize=0.5 * s.squared_norm + 3.0 * cp.sum(cp.pos(cp.abs(s.e) - eps)))
