r"""How every training row moves the prediction at a new point, and with it all machines without one row.

This is one matrix product. With the bordered matrix M of [Suykens2002]_ eq. (5),
:math:`D = \operatorname{diag}(1/(\gamma v))` on its diagonal, a new point x and :math:`q = (1, k(x_1, x), \dots, k(x_N,
x))`,

.. math:: M = \begin{bmatrix} 0 & 1^T \\ 1 & K + D \end{bmatrix}, \qquad c = M^{-1} q, \qquad
          f^{(-i)}(x) = f(x) - c_i r_i, \qquad r_i = \frac{\alpha_i}{(M^{-1})_{ii}},

where :math:`r_i` is the left-out residual (:mod:`substrate.left_out.leave_one_out`) and :math:`f^{(-i)}` the
machine without row i, bias included. :math:`c_i = \partial f(x) / \partial y_i` is the influence of the row. The number

.. math:: p(x) = k(x, x) - q^T c \ge 0

measures how far x is from the rows: :math:`p + 1/\gamma` is what an added row (x, z) of weight one leaves on the
diagonal of the factor, and :math:`\gamma s^2 p` is the variance of a Gaussian process at x.

Where further columns z are not penalised (:mod:`substrate.operators.border`), :math:`Z = [1, Q]` is in the place of
1 and :math:`q = (Z(x), k)`; a new point is then represented by its kernel values and, after them, z less its center.

In features :math:`\varphi` centred at their weighted mean, with :math:`P = \operatorname{diag}(\gamma v)` and
:math:`A = I + \Phi^T P \Phi`, the same numbers are

.. math:: c_i = P_{ii} \Big( \frac{1}{\operatorname{tr} P} + \varphi_i^T A^{-1} \varphi(x) \Big), \qquad
          p(x) = \frac{1}{\operatorname{tr} P} + \varphi(x)^T A^{-1} \varphi(x), \qquad
          (M^{-1})_{ii} = P_{ii} (1 - c_i(x_i)),

which is how machines on a reduced basis are computed.

A copy :math:`\tilde x_i` of row i, changed in some input, is predicted by the machine without row i with a single entry
of c, :math:`f(\tilde x_i) - c_i(\tilde x_i) r_i`, by a row of the inverse or by features: N changed rows cost N^2
operations where all entries would cost N^3.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from substrate.arrays import Array, blas_threads, namespace_of, on_device_of, paired_sums, take_rows
from substrate.operators.border import ONES, Border, BorderElimination
from substrate.operators.gram import Gram

__all__ = ["FeatureInfluence", "Influence", "KernelInfluence", "kernel_influence"]


@dataclass(frozen=True)
class KernelInfluence:
    r"""By the inverse of K + D and its border Z: with :math:`H = (K + D)^{-1} Z` and :math:`S = Z^T H`,

    .. math:: b = S^{-1} (H^T k - Z(x)), \qquad c = (K + D)^{-1} (k - Z b), \qquad
              p = k(x, x) - (k - Z b)^T c - 2 Z(x)^T b .

    ``root`` is W with :math:`(K + D)^{-1} = W^T W`, by which p keeps its digits, or the inverse itself where K + D is
    not positive definite; ``eliminated`` has Z, H and :math:`S^{-1}`, and ``diagonal`` is the diagonal of B.
    ``represent`` computes kernel values k of points with the rows, and the columns of the border after them. ``kept``
    are the rows that may be left out, None: all.
    """

    root: Array
    triangular: bool
    eliminated: BorderElimination
    diagonal: Array
    border: Border
    represent: Any = None
    kept: Any = None

    def restrict(self, rows: Any) -> "KernelInfluence":
        """Return the influence of some of the rows, those that may be left out."""
        return replace(self, diagonal=self.diagonal[rows], kept=rows)

    def at(self, rows: Array, diagonal: Array) -> tuple[Array, Array]:
        """Return one triangular product for p, another for c, in the memory of the kernel values."""
        rows, b = self._shift(rows)
        if not self.triangular:
            c = rows @ self.root
            squares = paired_sums(rows, c, 1)
        else:
            with blas_threads(self.root.shape[0]):
                half = rows @ self.root.T
                c, squares = half @ self.root, paired_sums(half, half, 1)
        p = namespace_of(c).clip(diagonal - squares - 2.0 * b, min=0.0)  # it is not negative, up to rounding
        return c if self.kept is None else take_rows(c.T, self.kept).T, p

    def own(self, which: Any, rows: Array) -> Array:
        """Return products of rows of the inverse, as many operations as kernel values."""
        shifted, _ = self._shift(rows)
        c: Array = paired_sums(take_rows(self._inverse, which), shifted, 1)
        return c

    @cached_property
    def _inverse(self) -> Array:
        """The inverse itself, of which single entries of c need a row each."""
        if not self.triangular:
            return self.root
        with blas_threads(self.root.shape[0]):
            inverse: Array = self.root.T @ self.root
        return inverse

    @property
    def projected_inverse(self) -> Array:
        """B, the block of the inverse of the bordered matrix that maps y to alpha."""
        B = np.asarray(self._inverse - self.eliminated.share @ self.eliminated.solved.T)
        np.fill_diagonal(B, self.diagonal)
        return B

    def _shift(self, rows: Array) -> tuple[Array, Array]:
        """Return k - Z b, and Z(x)'b."""
        Z, n = self.eliminated.columns, int(self.root.shape[0])
        k = namespace_of(rows).asarray(rows[:, :n], copy=True)
        border_rows = self.border.line(rows[:, n:])
        b = (k @ self.eliminated.solved - border_rows) @ on_device_of(k, self.eliminated.inverse)
        k -= b @ Z.T
        return k, paired_sums(b, border_rows, 1)


@dataclass(frozen=True, slots=True)
class FeatureInfluence:
    """``rows`` are psi_i with psi(x)'psi(z) = phi(x)'A^{-1} phi(z), which ``represent`` computes; ``pulls`` gamma v.

    ``diagonal`` is P_ii (1 - h_i), and ``constant`` one over the sum of the pulls.
    """

    represent: Callable[[Any], Array]
    rows: Array
    pulls: Array
    diagonal: Array
    constant: float

    def at(self, rows: Array, diagonal: Array) -> tuple[Array, Array]:
        """Return c and p from psi of the new points; k(x, x) is not needed."""
        with blas_threads(self.rows.shape[0]):
            c = rows @ self.rows.T
        c += self.constant
        c *= self.pulls
        return c, self.constant + paired_sums(rows, rows, 1)

    def own(self, which: Any, rows: Array) -> Array:
        """Return the influence of the copies on themselves, from their psi."""
        c: Array = self.constant + paired_sums(take_rows(self.rows, which), rows, 1)
        return take_rows(self.pulls, which) * c  # type: ignore[no-any-return]


#: The inverse of a machine's system, as far as predictions at new points need it.
Influence = KernelInfluence | FeatureInfluence


def kernel_influence(gram: Gram, ridge: Array, border: Border = ONES, represent: Any = None) -> KernelInfluence:
    """Compute the influence from a Gram matrix, which is factored, and the diagonal 1/(gamma v)."""
    gram.factorize(ridge)
    eliminated = border.eliminate(gram.solve(border.matrix(ridge[:, None])))
    root, triangular = gram.inverse_factor(), True
    if root is None:  # K + D is not positive definite
        root, triangular = np.ascontiguousarray(gram.solve(np.eye(gram.n, order="F"))), False
    inverse_diagonal = paired_sums(root, root, 0) if triangular else root.diagonal()
    return KernelInfluence(
        root=root,
        triangular=triangular,
        eliminated=eliminated,
        diagonal=border.without_rows(inverse_diagonal - eliminated.diagonal, ridge),
        border=border,
        represent=represent,
    )
