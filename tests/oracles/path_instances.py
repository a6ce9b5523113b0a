"""Problems to follow a path on: kernels, ties, duplicated rows, finite rank, many and few components."""

import numpy as np


def rbf(X, width):
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=-1)
    return np.exp(-squares / (2.0 * width**2))


def l1_instance(seed):
    """Columns and a target."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 90))
    X = rng.standard_normal((n, int(rng.integers(1, 6))))
    y = rng.standard_normal(n) + X[:, 0]
    kind = ("rbf", "duplicated", "linear", "cubic", "integers", "tall", "wide")[seed % 7]
    if kind == "duplicated":
        X = X[rng.integers(0, max(n // 2, 2), n)]
    if kind in ("rbf", "duplicated"):
        return kind, rbf(X, rng.uniform(0.3, 4.0)), y
    if kind == "linear":
        return kind, X @ X.T, y
    if kind == "cubic":
        return kind, (1.0 + X @ X.T) ** 3, y
    if kind == "integers":
        K = rng.integers(-2, 3, (n, n)).astype(float)
        return kind, K + K.T, rng.integers(-2, 3, n).astype(float)
    return kind, rng.standard_normal((n, max(2, n // 3) if kind == "tall" else 2 * n)), y
