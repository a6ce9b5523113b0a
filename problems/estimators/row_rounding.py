"""How far computed kernel values of validation rows may be from the true ones."""

from typing import Any

import numpy as np

from substrate.arrays import Array, is_sparse
from substrate.kernels import Kernel

__all__ = ["joint_rounding", "row_rounding"]


def joint_rounding(kernel: Kernel, X: Any, X_check: Any) -> float:
    """The kernel's p for the rows of both; zero for a matrix from elsewhere, which is what it is."""
    if kernel.pairwise:
        return 0.0
    if is_sparse(X):
        from scipy.sparse import vstack

        return kernel.rounding(vstack([X, X_check]).tocsr())
    return kernel.rounding(np.vstack([X, X_check]))


def row_rounding(p: float, diagonal: Array, checked: Array) -> float:
    """Root mean square length by which centred kernel rows of points may be off, from k(x, x) of both sets."""
    if p == 0.0:
        return 0.0
    # once for the row, once for the mean row that is taken off
    own = float(np.sqrt(np.abs(diagonal).sum()))
    return 2.0 * p * own * float(np.sqrt(max(np.abs(checked).mean(), np.abs(diagonal).mean())))
