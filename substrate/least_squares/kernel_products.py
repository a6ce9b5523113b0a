"""The values of an expansion, block by block, in memory that does not grow with the rows.

On the host their sums are formed in blocks, too: less is lost than in one.
"""

from typing import Any

import numpy as np

from substrate.arrays import Array, blocks_beside, is_device_array, namespace_of, strips, take_columns, zeros_beside
from substrate.kernels import Kernel
from substrate.numbers import block_length
from substrate.threads import blas_threads

__all__ = ["expansion_values"]


def expansion_values(kernel: Kernel, points: Any, a: Array, b: Any, X: Any, columns: Any = None) -> Array:
    """Return sum_i a_i k(x_i, x) + b for every row x of X; ``a`` has one column per output, or none.

    ``points`` are the x_i. A precomputed kernel has none: its rows X hold kernel values, of the x_i in ``columns``.
    """
    result: Array = zeros_beside(a, (X.shape[0], *a.shape[1:]))
    is_on_device, xp = is_device_array(X), namespace_of(a)
    if a.shape[0] == 0:  # only the bias is left
        result += b
        return result
    buffer = None if is_on_device else np.empty((256, a.shape[0]))
    with blas_threads(a.shape[0]):
        for rows in blocks_beside(a, X.shape[0], a.shape[0]):
            rows_of_X = X[rows, :]
            if kernel.pairwise and columns is not None:
                rows_of_X = take_columns(rows_of_X, columns)
            if buffer is None:
                columns_of_X = a if points is None else points  # of a given matrix only the number of columns matters
                result[rows, ...] = kernel.evaluate(rows_of_X, columns_of_X, xp.float64) @ a
                continue
            block = buffer[: rows.stop - rows.start]
            kernel.fill(rows_of_X, points, block)
            first, *others = strips(a.shape[0], block_length(a.shape[0]))
            np.matmul(block[:, first], a[first], out=result[rows])
            for terms in others:
                result[rows] += block[:, terms] @ a[terms]
    result += b
    return result
