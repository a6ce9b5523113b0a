"""Fits that are meant to go wrong: units, offsets, weights, gammas, duplicates and kernels at random, from one seed."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from problems import LSSVMClassifier, LSSVMRegressor
from substrate.kernels import RBF, Laplacian, Linear, Matern, Polynomial

__all__ = ["WildFit", "wild_fit"]


@dataclass(frozen=True)
class WildFit:
    """An estimator that is not fitted yet, and its data."""

    model: Any
    X: Any
    y: Any
    weights: Any

    def __str__(self):
        return f"{self.model} on {self.X!r}, {self.y!r}, {self.weights!r}"


def wild_fit(seed, solvers=("auto",) * 38 + ("cg", "CLARABEL")):
    """Return the fit of a seed: small, and strange in most ways at once."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(4, 15)), int(rng.integers(1, 4))
    unit, gamma = 10.0 ** rng.choice([-12, -6, -3, 0, 0, 0, 3, 6, 12]), 10.0 ** rng.uniform(-12, 14)
    X = unit * rng.normal(size=(n, d))
    X += unit * rng.choice([0.0, 0.0, 10.0, 1e4, 1e10])
    if rng.random() < 0.2:
        X[rng.integers(n, size=n // 2)] = X[0]
    if rng.random() < 0.15:
        X[:, rng.integers(d)] = X[0, 0]
    if rng.random() < 0.1:
        X = np.round(X / unit) * unit
    y = np.sin(rng.normal(size=n)) + rng.normal(size=n) * rng.choice([0.0, 0.1])
    y = 10.0 ** rng.choice([-12, 0, 0, 0, 12]) * (y + rng.choice([0.0, 0.0, 1e4, 1e10]))
    weights = [None, rng.uniform(0.1, 2.0, size=n), 10.0 ** rng.uniform(-30, 12, size=n), np.ones(n)][rng.integers(4)]
    if weights is not None and rng.random() < 0.3:
        weights[rng.integers(n)] = 1e-30
    spread = float(X.std()) or unit
    width = float(spread * 10.0 ** rng.uniform(-1, 2))
    kernels = [
        RBF(width),
        Laplacian(width),
        Matern(width),
        Linear(),
        Polynomial(2),
        Polynomial(3),
        Polynomial(2, 0.0),
        RBF(width) + Linear(),
        2.5 * RBF(width),
        RBF(width) * Polynomial(2),
    ]
    kernel: Any = kernels[rng.integers(len(kernels))]
    style = rng.random()
    solver = str(solvers[rng.integers(len(solvers))])
    if style < 0.1:
        X = kernel(X) + (1e-8 * np.abs(kernel(X)).max() * _symmetric_noise(rng, n) if rng.random() < 0.5 else 0.0)
        kernel = "precomputed"
    elif style < 0.2:
        kernel_used = kernel
        kernel = lambda A, B: kernel_used(A, B)  # noqa: E731
    elif style < 0.3:
        X = sparse.csr_array(np.where(rng.random(X.shape) < 0.5, X, 0.0))
    if rng.random() < 0.3:
        classes = int(rng.integers(2, 4))
        labels = rng.permutation(np.arange(n) % classes)
        coding = str(rng.choice(["one_vs_rest", "minimum_output", "ecoc"]))
        return WildFit(LSSVMClassifier(kernel, gamma, coding=coding, solver=solver, max_iter=100), X, labels, weights)
    if rng.random() < 0.2:
        y = np.stack([y, y[::-1] ** 2, np.full(n, y[0])][: int(rng.integers(2, 4))], axis=1)
    return WildFit(LSSVMRegressor(kernel, gamma, solver=solver, max_iter=100), X, y, weights)


def _symmetric_noise(rng, n):
    noise = rng.normal(size=(n, n))
    return noise + noise.T
