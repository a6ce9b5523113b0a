r"""What a space leaves of a symmetric matrix: a bound on all its eigenvalues but the leading ones, from products.

With orthonormal columns V let :math:`H = V^T A V`, :math:`R = A V - V H`, and C be A on the complement of V. In
coordinates of both A is :math:`\begin{pmatrix} H & R^T \\ R & C \end{pmatrix}`, so that

.. math:: \|C\|_F^2 = \|A\|_F^2 - 2 \|A V\|_F^2 + \|H\|_F^2, \qquad \|R\|_F^2 = \|A V\|_F^2 - \|H\|_F^2 ,

and with :math:`\theta_1 \ge \theta_2 \ge \dots` the eigenvalues of H, by the theorem of Courant and Fischer
([Parlett1998]_ section 10.2) for the complement of the first k of its eigenvectors,

.. math:: \lambda_{k+1}(A) \le \lambda_{\max} \begin{pmatrix} \theta_{k+1} & \|R\| \\ \|R\| & \|C\|_F \end{pmatrix} .

No vector need have converged. All Ritz values take their part of the sum of squares, so that this is at most what the k
leading ones leave of it.

The computed V are orthonormal up to :math:`\delta = \|V^T V - I\|_F`: what is measured is that of
:math:`V (V^T V)^{-1/2}` up to factors :math:`(1 \pm \delta)^{1/2}` for every V.
"""

import math
from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import at_most, eigenvalue_rounding, relative_rounding
from substrate.namespaces import to_numpy
from substrate.spectral.centred_operator import MeasuredOperator

__all__ = ["Remainder", "bound_remainder"]

#: Defect of orthonormality beyond which nothing is said.
_MOST_DEFECT = 0.1


@dataclass(frozen=True, slots=True)
class Remainder:
    """Bounds on the eigenvalues of H, largest first, on the norm of R and on that of C; and the error of A itself."""

    values: Array
    coupling: float
    outside: float
    matrix_error: float

    def above(self, count: int) -> float:
        """Return a number that at most ``count`` eigenvalues of A exceed."""
        if count >= self.values.size:
            largest = self.outside
        else:
            theta = float(self.values[count])
            middle, half = 0.5 * (theta + self.outside), 0.5 * (theta - self.outside)
            largest = middle + math.hypot(half, self.coupling)
        rounding = relative_rounding(8.0) * (abs(largest) + self.outside + self.coupling)
        return largest + rounding + self.matrix_error


def bound_remainder(operator: MeasuredOperator, vectors: Array, products: Array) -> Remainder | None:
    """Bound what a space leaves of the matrix; None where its vectors are not orthonormal, or the products not its.

    Parameters
    ----------
    operator
        The matrix, with a bound on the sum of the squares of its eigenvalues.
    vectors, products
        Orthonormal vectors and their computed products with the matrix, one row each.
    """
    m, n = vectors.shape
    G, H = (np.asarray(to_numpy(vectors @ right.T)) for right in (vectors, products))
    summed = relative_rounding(n + 2.0)
    defect = at_most(float(np.linalg.norm(G - np.eye(m))) + summed * m)
    if not defect <= _MOST_DEFECT:
        return None
    # the products are right to this in the norm of Frobenius, and the coordinates of exact ones to the next
    product_error = at_most(operator.product_error * math.sqrt(m * (1.0 + defect)))
    lengths = math.sqrt(float(np.sum(np.square(np.asarray(to_numpy(products))))))
    length_rounding = relative_rounding(float(n + m)) * lengths
    inner_error = at_most(math.sqrt(1.0 + defect) * (product_error + summed * math.sqrt(m) * lengths))
    inner = float(np.linalg.norm(H))
    shrink, stretch = 1.0 - defect, 1.0 + defect
    slack = product_error + length_rounding
    product_most, product_least = (lengths + slack) ** 2 / shrink, max(lengths - slack, 0.0) ** 2 / stretch
    inner_most, inner_least = ((inner + inner_error) / shrink) ** 2, (max(inner - inner_error, 0.0) / stretch) ** 2
    total = operator.square_sum
    rounding = relative_rounding(16.0) * (total + product_most)
    left = total - 2.0 * product_least + inner_most
    if not left >= -rounding:
        return None
    # the exact matrix is symmetric, so that the symmetric part is no farther from it
    values = np.linalg.eigvalsh((H + H.T) / 2.0)[::-1] + inner_error + eigenvalue_rounding(m) * inner
    return Remainder(
        values=np.where(values > 0.0, values / shrink, 0.0),
        coupling=math.sqrt(max(product_most - inner_least, 0.0) + rounding),
        outside=math.sqrt(max(left, 0.0) + rounding),
        matrix_error=operator.matrix_error,
    )
