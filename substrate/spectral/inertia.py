r"""How many eigenvalues of a symmetric matrix lie above a threshold, by its inertia.

By Sylvester's law the factors :math:`A - t I + E = L D L^T`, D with blocks of one or two rows, have as many positive
eigenvalues in D as there are in :math:`A - t I + E`, so by Weyl's inequality

.. math:: \#\{\lambda_i(A) > t + \epsilon\} \le n_+(D) \le \#\{\lambda_i(A) \ge t - \epsilon\}, \quad
          \|E\| \le \epsilon .

The error E of the factorisation is not estimated: what LAPACK returns is multiplied again, and the difference from
:math:`A - t I` measured, with the rounding of that product,
:math:`\gamma_{n+6} \max_i (|A - t I| + |L| |D| |L|^T)\, 1_i`, whose last part takes three products with a vector.
"""

import math
from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import at_most, relative_rounding
from substrate.kernels.base import strips
from substrate.threads import blas_threads

__all__ = ["Count", "count_above"]

#: Rows of a strip in which the product of the factors is formed.
_STRIP = 256
#: A block of two rows with this share of its squared off-diagonal entry, or less, on its diagonal has one sign each.
_CLEAR = 0.9


@dataclass(frozen=True, slots=True)
class Count:
    """At most ``count`` eigenvalues are above ``threshold + radius``, at least so many from ``threshold - radius`` on.

    The radius is infinite where the factors do not say.
    """

    threshold: float
    count: int
    radius: float

    @property
    def above(self) -> float:
        """The number above which there are at most ``count`` eigenvalues."""
        return float(np.nextafter(self.threshold + self.radius, math.inf))


def count_above(matrix: Array, threshold: float, error: float = 0.0) -> Count:
    """Count the eigenvalues above a threshold; ``error`` bounds the norm of the error of the matrix itself.

    Only the lower triangle is read.
    """
    from scipy.linalg import ldl

    n = matrix.shape[0]
    shifted = np.array(matrix, dtype=np.float64)
    np.fill_diagonal(shifted, shifted.diagonal() - threshold)
    with blas_threads(n):
        factor, blocks, order = ldl(shifted, lower=True, check_finite=False)
        L = np.ascontiguousarray(factor[order])
        lower = np.tril(shifted) + np.tril(shifted, -1).T
        permuted = lower[np.ix_(order, order)]
        measured = _difference(permuted, L, blocks)
    sizes = np.abs(L)
    rows = sizes @ (np.abs(blocks) @ (sizes.sum(axis=0)))
    largest = float((rows + np.abs(permuted).sum(axis=1)).max(initial=0.0))
    # the shift rounds every entry of the diagonal once
    shift = relative_rounding(1.0) * (float(np.abs(matrix.diagonal()).max(initial=0.0)) + abs(threshold))
    radius = at_most(measured + relative_rounding(n + 8.0) * largest + shift + error)
    count = _positive(blocks)
    return Count(threshold=threshold, count=max(count, 0), radius=radius if count >= 0 else math.inf)


def _difference(matrix: Array, L: Array, blocks: Array) -> float:
    """Return the Frobenius norm of matrix - L D L', of which half the entries are formed."""
    total, scaled = 0.0, _times_blocks(L, blocks)
    for rows in strips(matrix.shape[0], _STRIP):
        stop = rows.stop
        part = matrix[rows, :stop] - scaled[rows, :stop] @ L[:stop, :stop].T
        square = np.square(part)
        total += 2.0 * float(square[:, : rows.start].sum()) + float(square[:, rows.start :].sum())
    return at_most(math.sqrt(total))


def _times_blocks(L: Array, blocks: Array) -> Array:
    """Return L D."""
    scaled = L * blocks.diagonal()
    if blocks.shape[0] > 1:
        off = blocks.diagonal(-1)
        scaled[:, :-1] += L[:, 1:] * off
        scaled[:, 1:] += L[:, :-1] * off
    return np.asarray(scaled)


def _positive(blocks: Array) -> int:
    """Return the number of positive eigenvalues of D; -1 where a sign is not clear."""
    n, k, count = blocks.shape[0], 0, 0
    diagonal = blocks.diagonal()
    below = blocks.diagonal(-1) if n > 1 else np.zeros(0)
    if not np.isfinite(blocks).all():
        return -1
    while k < n:
        if k + 1 < n and below[k] != 0.0:
            if not abs(diagonal[k] * diagonal[k + 1]) <= _CLEAR * below[k] ** 2 and not (
                diagonal[k] * diagonal[k + 1] <= 0.0
            ):
                return -1
            count, k = count + 1, k + 2  # the determinant is negative: one of each sign
            continue
        if diagonal[k] == 0.0:
            return -1
        count, k = count + int(diagonal[k] > 0.0), k + 1
    return count
