"""The data of most topics: a smooth function with noise on ten standard normal columns."""

import numpy as np

from substrate.arrays import Array

__all__ = ["COLUMNS", "regression_data"]

COLUMNS = 10


def regression_data(n: int, seed: int = 0) -> tuple[Array, Array]:
    """Return rows of ten columns of which three matter."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, COLUMNS))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n)
    return X, y
