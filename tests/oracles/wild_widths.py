"""Criteria by a plain decomposition, and data of all kinds, for bounds over the width of a kernel."""

import numpy as np

from substrate.kernels import RBF, Laplacian, Matern

__all__ = ["KERNELS", "criterion_of", "wild"]

KERNELS = [RBF(1.0), Laplacian(1.0), Matern(1.0, nu=0.5), Matern(1.0, nu=1.5), Matern(1.0, nu=2.5)]


def criterion_of(kernel, X, Y, lam, which, weights=None):
    """By another decomposition, of the matrix itself: no code is shared with the bound."""
    n = len(X)
    v = np.ones(n) if weights is None else weights
    root = np.sqrt(v)
    one = root / np.linalg.norm(root)
    off = np.linalg.qr(np.column_stack([one, np.eye(n)]))[0][:, 1:n]
    s, V = np.linalg.eigh(off.T @ (root[:, None] * kernel(X) * root) @ off)
    U, g = off @ V, 1.0 / (np.maximum(s, 0.0) + lam)
    z = U.T @ (root[:, None] * (Y - v @ Y / v.sum()))
    if which == "evidence":
        return np.square(z).sum(axis=1) @ g / (n - 1) / Y.shape[1] * np.exp(-np.log(g).mean())
    if which == "gcv":
        spare = (v / v.mean()) @ np.square(U) @ g  # leverages by weight
        return n * np.square(g[:, None] * z).sum() / spare**2 / Y.shape[1]
    return np.square((U @ (g[:, None] * z)) / (np.square(U) @ g)[:, None]).sum() / n / Y.shape[1]


def wild(seed):
    """Duplicates, ties, clusters, far points, constant and repeated columns; units, offsets, outliers and weights."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.choice([3, 4, 6, 10, 20])), int(rng.choice([1, 1, 2, 3, 8]))
    X = rng.normal(size=(n, d))
    kind = seed % 7
    if kind == 0:
        X[n // 2 :] = X[: n - n // 2]
    elif kind == 1:
        X = np.round(X)
    elif kind == 2:
        X[: n // 2] *= 1e-3
    elif kind == 3:
        X[0] *= 1e3
    elif kind == 4:
        X[:, 0] = 1.0
    elif kind == 5:
        X = np.column_stack([X, X, X])
    X = X * 10.0 ** rng.choice([-12.0, 0.0, 0.0, 12.0]) + rng.choice([0.0, 0.0, 1e2])
    Y = np.sin(3.0 * np.arange(n) / n)[:, None] + 10.0 ** rng.uniform(-3, 0) * rng.normal(size=(n, rng.choice([1, 3])))
    Y[0] += rng.choice([0.0, 0.0, 1e4])
    Y = (Y + rng.choice([0.0, 1e6])) * 10.0 ** rng.choice([-12.0, 0.0, 12.0])
    weights = rng.uniform(0.05, 5.0, size=n) if rng.random() < 0.3 else None
    return X, Y, KERNELS[seed % 5], None if weights is None else weights / weights.mean(), rng
