r"""The decomposition of a matrix of known finite rank, by what it makes of as many vectors.

A symmetric M of rank p at most maps m > p random vectors :math:`\Omega` onto its range ([Halko2011]_ algorithm 4.1), up
to rounding, so that with all reflections of a QR factorisation of :math:`M \Omega`

.. math:: M \Omega = [Q_1, Q_2] \begin{bmatrix} R \\ 0 \end{bmatrix}, \qquad Q_1^T M Q_1 = S \Lambda S^T, \qquad
          M = Q_1 S \Lambda S^T Q_1^T ,

and :math:`Q_2` spans the directions whose eigenvalue is zero. That takes :math:`O(m N^2)` operations; the distance from
M is measured by those who use it (:mod:`~substrate.least_squares.spectrum_error`).
"""

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rows import roundoff

__all__ = ["decompose_of_rank"]

#: Vectors beyond the rank.
_MORE = 8
#: The rank as a share of the rows beyond which all eigenvectors take no longer.
_SHARE = 0.125


def decompose_of_rank(matrix: Array, rank: int | None) -> tuple[Array, Array] | None:
    """Return eigenvalues, ascending, and vectors, from the upper triangle of a matrix in LAPACK's order.

    None where the rank is not small beside the number of rows, and where an eigenvalue is negative beyond rounding.
    """
    from scipy.linalg import eigh, qr
    from scipy.linalg.blas import dsymm

    n = matrix.shape[0]
    if rank is None or rank + _MORE > _SHARE * n:
        return None
    vectors = np.asfortranarray(np.random.default_rng(n).standard_normal((n, rank + _MORE)))
    images = dsymm(1.0, matrix, vectors, lower=0)
    size = float(np.abs(images).max())
    if not np.isfinite(size) or size == 0.0:
        return None
    Q, _ = qr(images / size, mode="full", overwrite_a=True, check_finite=False)
    range_ = np.asfortranarray(Q[:, : rank + _MORE])
    inner = range_.T @ dsymm(1.0, matrix, range_, lower=0)
    values, within = eigh(0.5 * (inner + inner.T), check_finite=False)
    if float(values[0]) < -roundoff(n, 1.0) * float(np.abs(values).max()):
        return None
    ordered = np.empty((n, n), order="F")
    ordered[:, : n - values.size] = Q[:, values.size :]
    ordered[:, n - values.size :] = range_ @ within
    return np.concatenate([np.zeros(n - values.size), np.maximum(values, 0.0)]), ordered
