"""Kernel matrices of a few points in doubled precision, by the formulas of the kernels."""

from typing import Any

import numpy as np

from substrate.arrays import Array, is_sparse
from substrate.certificates.doubled_numbers import DoubledNumbers
from substrate.errors import DataError
from substrate.kernels.algebra import Kernel
from substrate.kernels.foreign import Foreign
from substrate.namespaces import to_numpy

__all__ = ["doubled_matrix"]

#: Entries of a block: what the formulas hold at a time stays in the cache.
_ENTRIES = 1 << 14
#: Differences of coordinates up to which a matrix is computed: seconds.
_MOST = 3e8
#: A rounding of doubled precision in units of one of double precision, with eight bits to spare.
_FINER = 2.0**-44


def doubled_matrix(kernel: Kernel, points: Any) -> tuple[tuple[Array, Array], float] | None:
    """Return k(x, z) of all pairs of points as an unevaluated sum of two matrices, and its rounding, as Kernel.rounding
    is.

    None where the kernel has no formula in this arithmetic, where numbers leave its range, or where the matrix is too
    large. The values of a user's function are exact by definition.
    """
    if isinstance(kernel, Foreign):
        K = np.asarray(kernel(points))
        return (K, np.zeros_like(K)), 0.0
    X = to_numpy(points.toarray() if is_sparse(points) else points)
    n, d = X.shape
    if float(n) * n * d > _MOST:
        return None
    high, low = np.empty((n, n)), np.empty((n, n))
    step = max(1, _ENTRIES // max(n, 1))
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            formula = kernel.exact_formula(DoubledNumbers, d)
            for first in range(0, n, step):
                block, before = slice(first, min(first + step, n)), slice(0, min(first + step, n))
                value = formula(
                    *([DoubledNumbers(X[(*place, c)]) for c in range(d)] for place in ((block, None), (None, before)))
                )
                for whole, half in zip((high, low), value.pair, strict=True):
                    whole[block, before] = half
                    whole[before, block] = half.T
    except (DataError, TypeError, AttributeError):  # no formula, or one with functions that this arithmetic lacks
        return None
    if not (np.isfinite(high).all() and np.isfinite(low).all()):
        return None
    return (high, low), float(kernel.rounding(points)) * _FINER
