r"""The linear system of the LS-SVM classifier, built once for everything that takes columns or rows away from it.

.. math::

    A X = B, \qquad A = \begin{bmatrix} 0 & Y^T \\ Y & \Omega + D \end{bmatrix}, \qquad
    X = \begin{bmatrix} b \\ \alpha \end{bmatrix}, \qquad B = \begin{bmatrix} 0 \\ 1 \end{bmatrix}

[Carvalho2006]_ eq. (4) with :math:`\Omega = Y Y^T \circ K` and :math:`D = I/\gamma`. Errata: its (3) adds
:math:`1/\gamma` to every entry where it belongs on the diagonal, and the :math:`-Y^T` of its (4) makes A non-symmetric
without changing the solution.

With :math:`S = \operatorname{diag}(1, Y)`, :math:`S A S` is the same matrix for labels +1, that of regression, and
:math:`S B = (0, Y)`. S is orthogonal, so singular values, pivots and least squares are those of A whatever the labels:
machines that differ in their labels only share one matrix.
"""

import numpy as np

from substrate.arrays import Array, check_memory

__all__ = ["bordered_matrix", "bordered_system", "bordered_target"]


def bordered_matrix(K: Array, ridge: Array) -> Array:
    """[0 1'; 1 K + D], the matrix of (4) when every label is +1; symmetric, a fresh array."""
    n = K.shape[0]
    check_memory(
        8.0 * (n + 1) ** 2, f"the {n + 1} x {n + 1} matrix of the linear system", "Take a reduced set of rows."
    )
    M = np.empty((n + 1, n + 1))
    M[0, 0], M[0, 1:], M[1:, 0] = 0.0, 1.0, 1.0
    M[1:, 1:] = K
    M[np.arange(1, n + 1), np.arange(1, n + 1)] += ridge
    return M


def bordered_target(Y: Array) -> Array:
    """(0, Y): a zero for the row of the bias above the targets of every output."""
    return np.concatenate([np.zeros((1, *Y.shape[1:])), Y])


def bordered_system(K: Array, y: Array, ridge: Array) -> tuple[Array, Array]:
    """A and B of (4) for labels -1, +1.

    :equation [Carvalho2006]_ (4): the matrix A and the right-hand side B
    """
    signs = np.append(1.0, y)
    A: Array = signs[:, None] * bordered_matrix(K, ridge) * signs
    return A, np.append(0.0, np.ones(y.size))
