r"""Coordinates in which the norm of w is Euclidean, from a Cholesky factor with pivots.

With :math:`K \approx L L^T` (centred where there is a bias), f = L z has :math:`w^T w = \|z\|^2`, as with eigenvectors,
at a tenth of their price for many rows. The coefficients of the expansion are those of least norm,

.. math:: a = Q R^{-T} z, \qquad L = Q R ,

so that :math:`K a = L z` up to the remainder :math:`E = K - L L^T`. The factor ends where all pivots left are below
the cut-off [Higham2002]_ (section 10.3). For a matrix that is not positive semi-definite E is not small: it is
estimated by products with random vectors, and a matrix that fails is left to the eigenvalues, which say why.
"""

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dgeqrf, dormqr, dpstrf

from substrate.arrays import Array

__all__ = ["PivotedCoefficients", "largest_eigenvalue", "pivoted_factor"]

_POWERS, _PROBES = 12, 3
#: Largest accepted remainder, in units of the cut-off and of the root of the number of rows.
_REMAINDER = 10.0


def largest_eigenvalue(K: Array) -> float:
    """Return a lower bound on the largest eigenvalue of a symmetric matrix, within a few hundredths."""
    vector: Array = np.random.default_rng(0).standard_normal((K.shape[0], 1))
    for _ in range(_POWERS):
        vector = K @ vector
        length = float(np.linalg.norm(vector))
        if not 0.0 < length < np.inf:
            return 0.0
        vector = vector / length
    return float(np.vdot(vector, K @ vector))


def pivoted_factor(K: Array, relative: float) -> Array | None:
    """Return L with as many columns as there are pivots above the cut-off; None where K is not semi-definite up to
    it.
    """
    n, largest = K.shape[0], largest_eigenvalue(K)
    tolerance = relative * largest
    if not 0.0 < tolerance < np.inf:
        return None
    packed, pivots, rank, _ = dpstrf(K, tol=tolerance, lower=1)
    if not rank:
        return None
    L = np.empty((n, rank))
    L[pivots - 1] = np.tril(packed[:, :rank])
    probes = np.random.default_rng(1).standard_normal((n, _PROBES))
    remainder = np.linalg.norm(K @ probes - L @ (L.T @ probes), axis=0)
    accepted = _REMAINDER * np.sqrt(n) * tolerance * np.linalg.norm(probes, axis=0)
    return L if bool((remainder <= accepted).all()) else None


class PivotedCoefficients:
    """A with a = A z: multiplied from either side, never formed."""

    __array_ufunc__ = None  # numpy leaves products with it to __rmatmul__

    def __init__(self, L: Array) -> None:
        lwork = 64 * L.shape[1]
        self._reflectors, self._tau, _, _ = dgeqrf(np.asfortranarray(L), lwork=lwork)
        self._lwork, self._rank, self._n = lwork, L.shape[1], L.shape[0]

    def __matmul__(self, z: Any) -> Array:
        """Return A z."""
        z = np.asarray(z, dtype=np.float64)
        columns = z if z.ndim == 2 else z[:, None]
        inner = np.zeros((self._n, columns.shape[1]), order="F")
        inner[: self._rank] = self._triangle(columns, "T")
        product = np.asarray(dormqr("L", "N", self._reflectors, self._tau, inner, self._lwork)[0])
        return product if z.ndim == 2 else product[:, 0]

    def __rmatmul__(self, rows: Any) -> Array:
        """Return rows times A."""
        right = np.asfortranarray(np.asarray(rows, dtype=np.float64).T)
        turned = dormqr("L", "T", self._reflectors, self._tau, right, max(self._lwork, 64 * right.shape[1]))[0]
        return np.ascontiguousarray(self._triangle(turned[: self._rank], "N").T)

    def _triangle(self, right: Array, transposed: str) -> Array:
        R = self._reflectors[: self._rank]
        return np.asarray(solve_triangular(R, right, trans=transposed, check_finite=False))
