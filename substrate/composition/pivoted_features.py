r"""Coordinates in which the norm of w is Euclidean, from a Cholesky factor with pivots.

With :math:`K \approx L L^T` (centred where there is a bias), f = L z has :math:`w^T w = \|z\|^2`, as with eigenvectors,
at a tenth of their price for many rows. The coefficients of the expansion are those of least norm,

.. math:: a = Q R^{-T} z, \qquad L = Q R ,

so that :math:`K a = L z` up to the remainder :math:`E = K - L L^T`. The factor ends where all pivots left are below
the cut-off [Higham2002]_ (section 10.3). For a matrix that is not positive semi-definite E is not small: it is
estimated by products with random vectors, and a matrix that fails is left to the eigenvalues, which say why.
"""

import numpy as np
from scipy.linalg.lapack import dpstrf

from substrate.arrays import Array

__all__ = ["largest_eigenvalue", "pivoted_factor"]

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
