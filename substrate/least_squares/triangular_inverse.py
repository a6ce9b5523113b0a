r"""The inverse of a matrix from its Cholesky factor, the triangle inverted by halves.

.. math:: \begin{bmatrix} A & B \\ & C \end{bmatrix}^{-1} =
          \begin{bmatrix} A^{-1} & -A^{-1} B\, C^{-1} \\ & C^{-1} \end{bmatrix}, \qquad
          (U^T U)^{-1} = U^{-1} U^{-T} .

LAPACK's function inverts a triangle of some hundred rows column by column in many libraries; by halves all work is in
products of triangles with rectangles, as many operations, which at 350 rows take half of the time.
"""

import numpy as np

from substrate.arrays import Array

__all__ = ["invert_from_factor", "invert_triangle"]

#: Rows of a triangle that is inverted at once.
_FEW = 64


def invert_from_factor(factor: Array) -> Array | None:
    """Return the upper triangle of (U'U)^{-1}, in the memory of U, stored by columns; None where U has a zero on its
    diagonal. What is below the diagonal is as it was.
    """
    from scipy.linalg.lapack import dlauum

    if not invert_triangle(factor):
        return None
    inverse, _ = dlauum(factor, lower=0, overwrite_c=1)
    return np.asarray(inverse)


def invert_triangle(U: Array) -> bool:
    """Invert an upper triangle in its memory, stored by columns; return whether there is an inverse."""
    from scipy.linalg.blas import dtrmm
    from scipy.linalg.lapack import dtrtri

    n = U.shape[0]
    if n <= _FEW:
        inverse, info = dtrtri(U, lower=0)
        U[:] = inverse
        return bool(info == 0)
    m = n // 2
    first, beside, last = U[:m, :m], U[:m, m:], U[m:, m:]
    if not (invert_triangle(first) and invert_triangle(last)):
        return False
    beside[:] = dtrmm(1.0, last, dtrmm(-1.0, first, beside), side=1, overwrite_b=1)
    return True
