r"""Partial pivoted Cholesky: :math:`K \approx L L^T` with few columns, without ever forming K.

At each step the point with the largest remaining diagonal becomes the next pivot, so after r steps the trace of
:math:`K - L L^T`, which bounds its norm, is as small as a greedy choice makes it [Harbrecht2012]_.
"""

from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.kernels import Kernel

__all__ = ["pivoted_cholesky"]


def pivoted_cholesky(kernel: Kernel, X: Any, rank: int, tolerance: float = 1e-12) -> Array:
    """L of at most ``rank`` columns; fewer when what remains is below ``tolerance`` times the largest diagonal."""
    remaining = kernel.diag(X)
    n, largest = remaining.size, float(remaining.max(initial=0.0))
    L = np.empty((n, min(rank, n)), order="F")
    column = np.empty((n, 1))
    for k in range(L.shape[1]):
        pivot = int(remaining.argmax())
        if remaining[pivot] <= tolerance * largest:
            return L[:, :k]
        kernel.fill(X, X[pivot : pivot + 1], column)
        L[:, k] = (column[:, 0] - L[:, :k] @ L[pivot, :k]) / np.sqrt(remaining[pivot])
        remaining -= L[:, k] ** 2
        np.maximum(remaining, 0.0, out=remaining)
        remaining[pivot] = 0.0  # exactly, so that rounding cannot choose it twice
    return L
