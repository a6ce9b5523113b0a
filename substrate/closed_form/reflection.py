r"""The Householder reflection that takes the direction 1 to the first axis.

Sums to zero and free constants both mean "off the direction 1". Reflected, that is "without the first entry", exactly;
a projection :math:`I - 11^T/N` instead leaves rounding errors that a division by small singular values then magnifies.
"""

import numpy as np

from substrate.arrays import Array

__all__ = ["off_ones", "reflect"]


def reflect(V: Array) -> Array:
    """Apply the reflection, its own inverse, to the columns of V."""
    n = V.shape[0]
    v = np.full(n, 1.0 / np.sqrt(n))
    v[0] -= 1.0
    length = float(np.linalg.norm(v))
    if length == 0.0:  # one row: 1 is the first axis already
        return V.copy()
    v /= length
    return V - np.outer(2.0 * v, v @ V)


def off_ones(V: Array) -> Array:
    """Columns of n entries that sum to zero, from their n - 1 reflected coordinates."""
    return reflect(np.vstack([np.zeros((1, V.shape[1])), V]))
