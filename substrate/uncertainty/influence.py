r"""How every training row moves the prediction at a new point: all machines without one row, by one matrix product.

With the bordered matrix M of [Suykens2002]_ eq. (5), :math:`D = \operatorname{diag}(1/(\gamma v))` on its diagonal, a
new point x and :math:`q = (1, k(x_1, x), \dots, k(x_N, x))`,

.. math:: M = \begin{bmatrix} 0 & 1^T \\ 1 & K + D \end{bmatrix}, \qquad c = M^{-1} q, \qquad
          f^{(-i)}(x) = f(x) - c_i r_i, \qquad r_i = \frac{\alpha_i}{(M^{-1})_{ii}},

where :math:`r_i` is the left-out residual (:mod:`substrate.least_squares.leave_one_out`) and :math:`f^{(-i)}` the
machine without row i, bias included. :math:`c_i = \partial f(x) / \partial y_i` is the influence of the row. The number

.. math:: p(x) = k(x, x) - q^T c \ge 0

measures how far x is from the rows: :math:`p + 1/\gamma` is what an added row (x, z) of weight one leaves on the
diagonal of the factor, and :math:`\gamma s^2 p` is the variance of a Gaussian process at x.

Where further columns z are not penalised (:mod:`substrate.least_squares.border`), :math:`Z = [1, Q]` is in the place of
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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from substrate.arrays import (
    Array,
    blocks_beside,
    namespace_of,
    on_device_of,
    paired_sums,
    take_rows,
    to_numpy,
    zeros_beside,
)
from substrate.gram import Gram
from substrate.least_squares.border import ONES, Border
from substrate.threads import blas_threads

__all__ = [
    "FeatureInfluence",
    "Influence",
    "KernelInfluence",
    "LeftOutMachines",
    "kernel_influence",
    "predict_copies",
]


@dataclass(frozen=True)
class KernelInfluence:
    r"""By the inverse of K + D and its border Z: with :math:`H = (K + D)^{-1} Z` and :math:`S = Z^T H`,

    .. math:: b = S^{-1} (H^T k - Z(x)), \qquad c = (K + D)^{-1} (k - Z b), \qquad
              p = k(x, x) - (k - Z b)^T c - 2 Z(x)^T b .

    ``represent`` computes kernel values k of points with the rows, and the columns of the border after them; ``root``
    is W with :math:`(K + D)^{-1} = W^T W`, by which p keeps its digits, or the inverse itself where K + D is not
    positive definite; ``share`` is :math:`H S^{-1}`, ``columns`` Z and ``inverse`` :math:`S^{-1}`. ``kept`` are the
    rows that may be left out, None: all.
    """

    represent: Callable[[Any], Array]
    root: Array
    triangular: bool
    share: Array
    diagonal: Array
    border: Border
    columns: Array
    inverse: Array
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
            with blas_threads(self.share.shape[0]):
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
        with blas_threads(self.share.shape[0]):
            inverse: Array = self.root.T @ self.root
        return inverse

    def _shift(self, rows: Array) -> tuple[Array, Array]:
        """Return k - Z b, and Z(x)'b."""
        n = int(self.columns.shape[0])
        k = namespace_of(rows).asarray(rows[:, :n], copy=True)
        border_rows = self.border.line(rows[:, n:])
        b = k @ self.share - border_rows @ self.inverse
        k -= b @ self.columns.T
        return k, paired_sums(b, border_rows, 1)


@dataclass(frozen=True, slots=True)
class FeatureInfluence:
    """``rows`` are psi_i with psi(x)'psi(z) = phi(x)'A^{-1} phi(z), which ``represent`` computes; ``pulls`` gamma v."""

    represent: Callable[[Any], Array]
    rows: Array
    pulls: Array

    @property
    def constant(self) -> float:
        """Return one over the sum of the pulls."""
        return 1.0 / float(namespace_of(self.pulls).sum(self.pulls))

    @property
    def leverages(self) -> Array:
        """Return c_i at every row itself."""
        leverages: Array = self.pulls * (self.constant + paired_sums(self.rows, self.rows, 1))
        return leverages

    @property
    def diagonal(self) -> Array:
        """Return P_ii (1 - h_i)."""
        diagonal: Array = self.pulls * (1.0 - self.leverages)
        return diagonal

    def at(self, rows: Array, diagonal: Array) -> tuple[Array, Array]:
        """Return p and c from psi of the new points; k(x, x) is not needed."""
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


def kernel_influence(
    gram: Gram, ridge: Array, represent: Callable[[Any], Array], border: Border = ONES
) -> KernelInfluence:
    """Compute the influence from a Gram matrix, which is factored, and the diagonal 1/(gamma v)."""
    gram.factorize(ridge)
    Z = border.matrix(ridge[:, None])
    eliminated = border.eliminate(gram.solve(Z))
    factor = gram.inverse_factor()
    root, triangular = (gram.inverse(), False) if factor is None else (factor, True)
    inverse_diagonal = paired_sums(root, root, 0) if triangular else namespace_of(root).linalg.diagonal(root)
    return KernelInfluence(
        represent=represent,
        root=root,
        triangular=triangular,
        share=eliminated.share,
        diagonal=border.without_rows(inverse_diagonal - eliminated.diagonal, ridge),
        border=border,
        columns=Z,
        inverse=on_device_of(Z, eliminated.inverse),
    )


@dataclass(frozen=True, slots=True)
class LeftOutMachines:
    """One output: the influence of the rows, their support values and left-out residuals, and 1/(gamma v) of each."""

    influence: Influence
    support_values: Array
    residuals: Array
    ridge: Array

    @property
    def n(self) -> int:
        """Return the number of machines, one without each row."""
        return int(self.residuals.shape[0])

    def blocks(self, X: Any, diagonal: Array) -> Iterator[tuple[slice, Array, Array]]:
        """Yield the new points block by block, with c, which is the caller's to overwrite, and p."""
        for block in blocks_beside(self.residuals, int(X.shape[0]), self.n):
            yield block, *self.influence.at(self.influence.represent(X[block, :]), diagonal[block])

    def lines(self, X: Any) -> Array:
        """Return the influence of every row on f(x), the derivative in its target, one line per new point."""
        n = int(X.shape[0])
        lines: Array = zeros_beside(self.residuals, (n, self.n))
        for block, c, _ in self.blocks(X, zeros_beside(self.residuals, n)):  # k(x, x) is for p(x) alone
            lines[block, :] = c
        return lines

    def spread(self, X: Any, diagonal: Array) -> Array:
        """Return p(x) of all new points."""
        spread: Array = namespace_of(self.residuals).concat([p for _, _, p in self.blocks(X, diagonal)])
        return spread


def predict_copies(machines: Sequence[LeftOutMachines], which: Any, points: Any, fitted: Array) -> Array:
    """Return the outputs at changed copies ``points`` of the rows ``which``, by the machines without them, in numpy.

    ``fitted`` are the outputs of the whole machines there, one column each. Machines that share an influence share its
    entries.
    """
    outputs, entries = np.array(to_numpy(fitted)), dict[int, Array]()
    for column, machine in enumerate(machines):
        influence = machine.influence
        if id(influence) not in entries:
            entries[id(influence)] = to_numpy(influence.own(which, influence.represent(points)))
        outputs[:, column] -= entries[id(influence)] * to_numpy(machine.residuals)[which]
    return outputs
