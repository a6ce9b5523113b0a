"""The values of an expansion over kernel values, block by block in memory that does not grow with the rows."""

from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.kernels import Kernel
from substrate.kernels.base import row_blocks
from substrate.threads import blas_threads

__all__ = ["expansion_values"]


def expansion_values(kernel: Kernel, points: Any, a: Array, b: Any, X: Any, columns: Any = None) -> Array:
    """sum_i a_i k(x_i, x) + b for every row x of X; ``a`` has one column per output, or none.

    ``points`` are the x_i. A precomputed kernel has none: its rows X hold kernel values, of the x_i in ``columns``.
    """
    result = np.zeros((X.shape[0], *a.shape[1:]))
    if a.shape[0] == 0:  # nothing but the bias is left
        return np.asarray(result + b)
    buffer = np.empty((256, a.shape[0]))
    with blas_threads(a.shape[0]):
        for rows in row_blocks(X.shape[0], a.shape[0]):
            block = buffer[: rows.stop - rows.start]
            given = X[rows][:, columns] if kernel.pairwise and columns is not None else X[rows]
            kernel.fill(given, points, block)
            np.matmul(block, a, out=result[rows])
    result += b
    return result
