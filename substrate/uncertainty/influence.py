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

which is how machines on a reduced basis, and those of a kernel of few features, are computed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from substrate.arrays import Array
from substrate.gram import Gram, mirror_lower
from substrate.least_squares.border import ONES, Border
from substrate.namespaces import (
    blocks_beside,
    is_device_array,
    namespace_of,
    on_device_of,
    paired_sums,
    take_rows,
    zeros_beside,
)
from substrate.threads import blas_threads

__all__ = [
    "FeatureInfluence",
    "Influence",
    "KernelInfluence",
    "LeftOutMachines",
    "ShiftBlock",
    "kernel_influence",
]


class Influence(Protocol):
    """The inverse of a machine's system, as far as predictions at new points need it."""

    @property
    def diagonal(self) -> Array:
        """Return the entries of the inverse's diagonal that belong to the rows."""

    @property
    def represent(self) -> Callable[[Any], Array]:
        """Return what is computed of new points: kernel values with the rows, or features."""

    def at(self, rows: Array, diagonal: Array) -> tuple[Array, Array]:
        """Return c, one line per new point, and p(x), from what represents the points, which is overwritten, and k(x,
        x).
        """

    def own(self, which: Any, rows: Array) -> Array:
        """Return c_i at a copy of row i, for the rows ``which`` in turn, from what represents the copies,
        overwritten.
        """

    def spread(self, rows: Array, diagonal: Array) -> Array:
        """Return p(x) alone."""


@dataclass(frozen=True, slots=True)
class KernelInfluence:
    r"""By the inverse of K + D: with :math:`\eta = (K + D)^{-1} 1` and :math:`b = (\eta^T k - 1) / 1^T \eta`,

    .. math:: c = (K + D)^{-1} (k - b 1), \qquad p = k(x, x) - (k - b 1)^T c - 2 b .

    ``represent`` computes kernel values k of points with the rows; ``root`` is W with :math:`(K + D)^{-1} = W^T W`, or
    the inverse itself where K + D is not positive definite or single entries of c are needed; ``share`` is :math:`\eta`
    over its sum, ``total``. With a border Z, :math:`b = S^{-1} (H^T k - Z(x))` is a vector, ``share`` is :math:`H
    S^{-1}` and ``border`` that border, Z and :math:`S^{-1}`: :math:`c = (K + D)^{-1} (k - Z b)` and :math:`p = k(x, x)
    - (k - Z b)^T c - 2 Z(x)^T b`.
    """

    represent: Callable[[Any], Array]
    root: Array
    triangular: bool
    share: Array
    total: float
    diagonal: Array
    border: tuple[Border, Array, Array] | None = None

    def at(self, rows: Array, diagonal: Array) -> tuple[Array, Array]:
        """Return one triangular product for p, another for c, in the memory of the kernel values."""
        rows, b = self._shift(rows)
        if not self.triangular:
            c = rows @ self.root
            return c, _not_negative(diagonal - paired_sums(rows, c, 1) - 2.0 * b)
        half = self._half(rows)
        p = _not_negative(diagonal - paired_sums(half, half, 1) - 2.0 * b)
        with blas_threads(self.share.shape[0]):
            return half @ self.root, p

    def own(self, which: Any, rows: Array) -> Array:
        """Return products of rows of the inverse, as many operations as kernel values."""
        if self.triangular:
            raise TypeError("single entries of c need the inverse, kernel_influence(..., entries=True)")
        shifted, _ = self._shift(rows)
        c: Array = paired_sums(take_rows(self.root, which), shifted, 1)
        return c

    def spread(self, rows: Array, diagonal: Array) -> Array:
        """Return p alone, with half the work of c."""
        if not self.triangular:
            return self.at(rows, diagonal)[1]
        rows, b = self._shift(rows)
        half = self._half(rows)
        return _not_negative(diagonal - paired_sums(half, half, 1) - 2.0 * b)

    def lines(self, which: Any) -> Array | None:
        r"""Return lines of :math:`B = (K + D)^{-1} - \eta \eta^T / 1^T \eta`, in numpy, of the rows ``which``; None
        on a device, and where the border has more columns than the constant.
        """
        if self.border is not None or is_device_array(self.root):
            return None
        inverse = self.root
        if self.triangular:
            from scipy.linalg.lapack import dlauum

            with blas_threads(self.share.shape[0]):
                inverse, _ = dlauum(self.root, lower=1)
            mirror_lower(inverse)
        eta = self.total * self.share
        return np.asarray(inverse[which] - np.outer(self.share[which], eta))

    def _shift(self, rows: Array) -> tuple[Array, Array]:
        """Return k - Z b, and Z(x)'b."""
        if self.border is None:
            b = rows @ self.share - 1.0 / self.total
            rows -= b[:, None]
            return rows, b
        border, Z, inverse = self.border
        n = int(Z.shape[0])
        k = namespace_of(rows).asarray(rows[:, :n], copy=True)
        border_rows = border.line(rows[:, n:])
        b = k @ self.share - border_rows @ inverse
        k -= b @ Z.T
        return k, paired_sums(b, border_rows, 1)

    def _half(self, rows: Array) -> Array:
        """Return W (k - b 1), one line per point."""
        with blas_threads(self.share.shape[0]):
            half: Array = rows @ self.root.T
            return half


def _not_negative(p: Array) -> Array:
    """Return a difference that is zero, or above, up to rounding."""
    return namespace_of(p).clip(p, min=0.0)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class FeatureInfluence:
    """``rows`` are psi_i with psi(x)'psi(z) = phi(x)'A^{-1} phi(z), which ``represent`` computes; ``pulls`` gamma v."""

    represent: Callable[[Any], Array]
    rows: Array
    pulls: Array

    @property
    def total(self) -> float:
        """Return the sum of the pulls."""
        return float(namespace_of(self.pulls).sum(self.pulls))

    @property
    def spare(self) -> Array:
        """Return one minus the leverage of every row."""
        spare: Array = 1.0 - self.pulls * (1.0 / self.total + paired_sums(self.rows, self.rows, 1))
        return spare

    @property
    def diagonal(self) -> Array:
        """Return P_ii (1 - h_i)."""
        diagonal: Array = self.pulls * self.spare
        return diagonal

    def at(self, rows: Array, diagonal: Array) -> tuple[Array, Array]:
        """Return p and c from psi of the new points; k(x, x) is not needed."""
        constant = 1.0 / self.total
        with blas_threads(self.rows.shape[0]):
            c = rows @ self.rows.T
        c += constant
        c *= self.pulls
        return c, constant + paired_sums(rows, rows, 1)

    def own(self, which: Any, rows: Array) -> Array:
        """Return the influence of the copies on themselves, from their psi."""
        c: Array = 1.0 / self.total + paired_sums(take_rows(self.rows, which), rows, 1)
        return take_rows(self.pulls, which) * c  # type: ignore[no-any-return]

    def spread(self, rows: Array, diagonal: Array) -> Array:
        """Return p from psi of the new points alone."""
        spread: Array = 1.0 / self.total + paired_sums(rows, rows, 1)
        return spread


def kernel_influence(
    gram: Gram, ridge: Array, represent: Callable[[Any], Array], border: Border = ONES, entries: bool = False
) -> KernelInfluence:
    """Compute the influence from a Gram matrix, which is factored, and the diagonal 1/(gamma v).

    ``entries`` states that single entries of c are needed, and so the inverse itself.
    """
    gram.factorize(ridge)
    Z = border.matrix(ridge[:, None])
    eliminated = border.eliminate(gram.solve(Z))
    total = float(eliminated.schur[0, 0]) if border.constant else 0.0
    factor = None if entries else gram.inverse_factor()
    root = gram.inverse() if factor is None else factor
    triangular = factor is not None
    inverse_diagonal = paired_sums(root, root, 0) if triangular else namespace_of(root).linalg.diagonal(root)
    return KernelInfluence(
        represent=represent,
        root=root,
        triangular=triangular,
        share=eliminated.share[:, 0] if border.plain else eliminated.share,
        total=total,
        diagonal=border.without_rows(inverse_diagonal - eliminated.diagonal, ridge),
        border=None if border.plain else (border, Z, on_device_of(Z, eliminated.inverse)),
    )


class PointBlock(NamedTuple):
    """A block of new points: which they are, with f(x), the influence c of every row, and p(x)."""

    block: slice
    fitted: Array
    influence: Array
    spread: Array


class ShiftBlock(NamedTuple):
    """A block of new points: which they are, with f(x), what leaving out each row adds to it, and, where asked for, the
    deviation of the error at x over that at the row, both of the machine without the row.
    """

    block: slice
    fitted: Array
    shifts: Array
    stretches: Array | None = None


@dataclass(frozen=True, slots=True)
class LeftOutMachines:
    """One output: the influence of the rows, their support values and left-out residuals, the diagonal, and gamma.

    Where ``bias`` is given, f(x) is the sum of support values times what represents x, plus the bias. ``ridge`` is
    1/(gamma v) of every row; None: all have weight one.
    """

    influence: Influence
    support_values: Array
    residuals: Array
    diagonal: Array
    gamma: float
    bias: float | None = None
    ridge: Array | None = None

    @property
    def n(self) -> int:
        """Return the number of machines, one without each row."""
        return int(self.residuals.shape[0])

    def blocks(self, X: Any, diagonal: Array, fitted: Array | None) -> Iterator[PointBlock]:
        """Yield the new points block by block; c is the caller's to overwrite."""
        for block in blocks_beside(self.residuals, int(X.shape[0]), self.n):
            rows = self.influence.represent(X[block, :])
            if self.bias is not None:
                f = rows @ self.support_values + self.bias
            elif fitted is not None:
                f = fitted[block]
            else:
                raise TypeError("predictions are needed where the machines have no bias of their own")
            yield PointBlock(block, f, *self.influence.at(rows, diagonal[block]))

    def shifts(self, X: Any, diagonal: Array, fitted: Array | None, studentised: bool = False) -> Iterator[ShiftBlock]:
        r"""Yield :math:`f^{(-i)}(x) - f(x)`, one column per row, and, where ``studentised``, :math:`s_i(x) / s_i(x_i)`.

        The machine without row i has :math:`p^{(-i)}(x) = p(x) + c_i^2 / B_{ii}`, B the lower block of :math:`M^{-1}`,
        and the error at x of a target with the weight of that row the variance :math:`s_i^2(x) = p^{(-i)}(x) + D_{ii}`
        in units of its own, which is :math:`1 / B_{ii}` at the row itself: the ratio is
        :math:`\sqrt{B_{ii} (p(x) + D_{ii}) + c_i^2}`.
        """
        xp = namespace_of(self.residuals)
        for block, f, c, p in self.blocks(X, diagonal, fitted):
            stretches = None
            if studentised:
                new = p[:, None] + (1.0 / self.gamma if self.ridge is None else self.ridge)
                stretches = xp.sqrt(self.diagonal * new + c * c)
            c *= -self.residuals
            yield ShiftBlock(block, f, c, stretches)

    def lines(self, X: Any) -> Array:
        """Return the influence of every row on f(x), the derivative in its target, one line per new point."""
        n = int(X.shape[0])
        lines: Array = zeros_beside(self.residuals, (n, self.n))
        none = zeros_beside(self.residuals, n)  # k(x, x) is for p(x) alone
        for block in blocks_beside(self.residuals, n, self.n):
            lines[block, :] = self.influence.at(self.influence.represent(X[block, :]), none[block])[0]
        return lines

    def changes(self, X: Any) -> Array:
        """Return f(x) less f(x) of the machine without row i, one line per new point and one column per row."""
        changes: Array = self.lines(X) * self.residuals[None, :]
        return changes

    def spread(self, X: Any, diagonal: Array) -> Array:
        """Return p(x) of all new points."""
        spreads: Array = zeros_beside(self.residuals, int(X.shape[0]))
        for block in blocks_beside(self.residuals, int(X.shape[0]), self.n):
            spreads[block] = self.influence.spread(self.influence.represent(X[block, :]), diagonal[block])
        return spreads
