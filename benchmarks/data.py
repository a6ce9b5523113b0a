"""The one data set of all topics: smooth, noisy, standardised, ten columns."""

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array

__all__ = ["COLUMNS", "classification_data", "regression_data"]

COLUMNS = 10


def regression_data(n: int, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, COLUMNS))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n)
    return X, y


def classification_data(
    n: int, n_classes: int = 2, noise: float = 0.0, seed: int = 0
) -> tuple[Array, NDArray[np.intp]]:
    """Classes by equal slices of the same smooth function; a share ``noise`` of the labels is replaced at random."""
    X, y = regression_data(n, seed)
    labels = np.searchsorted(np.quantile(y, np.linspace(0.0, 1.0, n_classes + 1)[1:-1]), y)
    rng = np.random.default_rng(seed + 1)
    redrawn = rng.random(n) < noise
    labels[redrawn] = rng.integers(n_classes, size=int(redrawn.sum()))
    return X, labels
