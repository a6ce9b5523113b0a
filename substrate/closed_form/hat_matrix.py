r"""The hat matrix of an LS-SVM and its trace, the effective degrees of freedom.

The fitted values are linear in y, :math:`f = H y`, bias included. With :math:`A = K + D`,

.. math:: \alpha = B y, \qquad B = A^{-1} - \frac{A^{-1} 1 1^T A^{-1}}{1^T A^{-1} 1}, \qquad H = I - D B,

since :math:`y - f = D \alpha`; [Suykens2002]_ eq. (5) and (12) with the errors eliminated.
"""

import numpy as np

from substrate.arrays import Array
from substrate.gram import Gram

__all__ = ["effective_degrees_of_freedom", "hat_matrix", "projected_diagonal", "projected_inverse"]


def projected_inverse(gram: Gram, ridge: Array) -> Array:
    """B: the block of the inverse of the bordered matrix that maps y to alpha."""
    gram.factorize(ridge)
    inverse = gram.inverse()
    eta = inverse.sum(axis=1)
    B: Array = inverse - np.outer(eta, eta) / eta.sum()
    return B


def projected_diagonal(gram: Gram, ridge: Array) -> Array:
    """The diagonal of B, for half the work of all of it."""
    gram.factorize(ridge)
    eta = gram.solve(np.ones((gram.n, 1)))[:, 0]
    diagonal: Array = gram.inverse_diagonal() - eta**2 / eta.sum()
    return diagonal


def hat_matrix(gram: Gram, ridge: Array) -> Array:
    """H with f = H y.

    :place [Cawley2004]_ section 2.6: the hat matrix
    """
    H = -ridge[:, None] * projected_inverse(gram, ridge)
    H[np.diag_indices(gram.n)] += 1.0
    return H


def effective_degrees_of_freedom(gram: Gram, ridge: Array) -> float:
    """trace H: 1 (the bias alone) for gamma near 0, up to the number of distinct points as gamma grows."""
    return float(gram.n - ridge @ projected_diagonal(gram, ridge))
