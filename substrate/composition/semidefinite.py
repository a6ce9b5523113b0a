r"""Positive semi-definite matrices as vectors: the cone that norms of matrices, eigenvalues and determinants need.

A symmetric matrix is its upper triangle, column by column, with off-diagonal entries times :math:`\sqrt 2`, as cvxpy
and Clarabel write it. Then :math:`s^T z = \operatorname{tr} S Z`, the cone is its own dual, and
:math:`\|s\| = \|S\|_F \ge \|S\|_2`, so that for every s within a radius r, entry by entry, of one that was computed

.. math:: \lambda_{\min}(S) \ge \hat\lambda_{\min} - \|r\| - c\, n\, u\, \|\hat S\|_F

(Weyl's inequality, and the backward error of a symmetric eigenvalue decomposition).
"""

import math

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding

__all__ = ["SEMIDEFINITE", "least_eigenvalue", "matrix_of", "order_of", "raise_to_cone", "vector_of"]

#: What cvxpy calls the cone.
SEMIDEFINITE = "SvecPSD"
#: Rounded operations per row that the decomposition is taken to need, with room for those of the entries.
_OPERATIONS = 32.0


def order_of(size: int) -> int:
    """Return the order n of a matrix with this many entries in its triangle."""
    return (math.isqrt(8 * size + 1) - 1) // 2


def matrix_of(s: Array) -> Array:
    """Return the symmetric matrix of a vector."""
    n = order_of(s.size)
    S = np.zeros((n, n))
    columns, rows = np.tril_indices(n)  # the upper triangle, column by column
    S[rows, columns] = np.where(rows == columns, s, s / math.sqrt(2.0))
    return np.asarray(np.where(S == 0.0, S.T, S))


def vector_of(S: Array) -> Array:
    """Return the vector of a symmetric matrix."""
    columns, rows = np.tril_indices(S.shape[0])
    return np.asarray(np.where(rows == columns, 1.0, math.sqrt(2.0)) * S[rows, columns])


def least_eigenvalue(s: Array, radius: Array | float = 0.0) -> tuple[float, float, Array]:
    """Return the least eigenvalue, how far it may be from that of a vector within ``radius``, and its direction."""
    values, directions = np.linalg.eigh(matrix_of(s))
    wide = float(np.linalg.norm(np.broadcast_to(radius, s.shape)))
    rounding = relative_rounding(_OPERATIONS * max(values.size, 1)) * float(np.linalg.norm(s))
    direction = directions[:, 0]
    return float(values[0]), 1.01 * wide + rounding, vector_of(np.outer(direction, direction))


def raise_to_cone(z: Array) -> Array:
    """Return a vector of the cone near z: its projection, and a little more where rounding could leave it outside."""
    value, radius, _ = least_eigenvalue(z)
    if value >= radius:
        return z
    values, directions = np.linalg.eigh(matrix_of(z))
    S = (directions * np.maximum(values, 0.0)) @ directions.T
    margin = 4.0 * radius
    return vector_of(0.5 * (S + S.T) + margin * np.eye(values.size))
