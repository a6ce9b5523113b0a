r"""How far a machine with one loss per row is from its exact optimum, by the inequality of Fenchel and Young.

For :math:`F(w, b) = p\, w^T w + \sum_i \ell_i(f_i)`, :math:`f = \Phi w + b 1`, any g with finite conjugates
:math:`\ell_i^*(g_i)`, and :math:`1^T g = 0` where there is a bias, the dual value
:math:`D(g) = -\tfrac{1}{4p} g^T K g - \sum_i \ell_i^*(g_i)` is a lower bound of F, and with
:math:`w_g = -\tfrac{1}{2p} \Phi^T g`

.. math:: F(w, b) - D(g) = \sum_i (\ell_i(f_i) + \ell_i^*(g_i) - f_i g_i) + p\, \|w - w_g\|^2 ,

a sum of terms that are not negative (:mod:`substrate.composition.row_losses`). F is strongly convex, so that

.. math:: p\, \|w - w^\star\|^2 \le F(w, b) - D(g), \qquad
    \tfrac12 \sum_i q_i (f_i - f_i^\star)^2 \le F(w, b) - D(g) ,

q the weights of squared errors. The second bounds the fitted values where every row has a squared error; the first
bounds them, about their mean where there is a bias, by the largest eigenvalue of K. No assumption on the size of the
optimum is needed, and K is the exact kernel matrix: what rounding does to kernel values and sums is part of the values
at which the terms are bounded.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, is_sparse
from substrate.certificates import Row
from substrate.certificates.doubled_precision import SlicedMatrix
from substrate.certificates.rounding import at_most, relative_rounding, sum_rounding
from substrate.certificates.rows import UNPOLISHED, Accuracy, accuracy_row, root_mean_square
from substrate.composition.largest_loss import LargestLoss
from substrate.composition.level import Substrate
from substrate.composition.refusals import FITTED, scale_of_targets
from substrate.composition.row_losses import RAMP, RowLosses
from substrate.kernels.base import row_blocks

__all__ = ["RowCheck", "is_known"]

FORMULA = "sqrt((F - D)/p) ||K||^(1/2), F - D a sum over the rows; with rounding"
#: Terms of the partial sums of a product with the kernel matrix.
_BLOCK = 64


@dataclass(frozen=True)
class RowCheck:
    """The losses, the weight p of w'w and the dual point of one solution of a machine.

    ``g`` may be off by ``remainder`` in one row.
    """

    substrate: Substrate
    losses: RowLosses | LargestLoss
    p: float
    g: Array
    remainder: float
    row: int

    @property
    def coefficients(self) -> Array:
        """Return the coefficients of w_g."""
        return -self.g / (2.0 * self.p)

    def rows(self, a: Array, b: float, tolerance: float, label: str = "") -> tuple[Accuracy, tuple[Row, ...], float]:
        """Return the bound on the answer, the other rows, and the objective, for coefficients a and a bias."""
        f, radius, size = self._values(a, b, careful=False)
        accuracy, gap = self._accuracy(a, f, radius, size, label)
        if not accuracy.passes and math.isfinite(accuracy.value) and not is_sparse(self.substrate.X):
            careful_values, careful_radius, size = self._values(a, b, careful=True)
            again, careful_gap = self._accuracy(a, careful_values, careful_radius, size, label)
            if again.value < accuracy.value:
                accuracy, gap = again, careful_gap
        norm = self.p * float(a @ (f - b))
        costs = self.losses.values(f)
        objective = norm + self.losses.constant + float(costs.sum())
        # a gap is measured by the terms that it is the difference of, by what the constant machine costs, and, where
        # all that vanishes, by a millionth of what a change of the size of the targets costs
        y = self.substrate.y
        level, unit = float(np.mean(y)) if self.substrate.bias else 0.0, float(np.abs(y).max()) or 1.0
        constant, moved = (np.abs(self.losses.values(np.full(f.size, at))).sum() for at in (level, level + unit))
        scale = abs(norm) + float(np.abs(costs).sum()) + float(constant) + 1e-6 * float(moved)
        before = f"{label}: " if label else ""
        product = self.substrate.gram.product(a) + b
        size = float(np.linalg.norm(self.substrate.y) + np.linalg.norm(f))
        rows = (
            Row(
                name=f"{before}kernel expansion",
                value=float(np.linalg.norm(product - f)),
                scale=size,
                tolerance=tolerance,
                formula="||K a + b - f||",
            ),
            Row(
                name=f"{before}duality gap",
                value=gap,
                scale=scale,
                tolerance=tolerance,
                formula="F - D, a sum over the rows",
            ),
            Row(
                name=f"{before}stationarity",
                value=self.losses.tension(f, -2.0 * self.p * a, float(np.abs(self.substrate.y).max())),
                scale=1.0,
                tolerance=tolerance,
                formula="share by which -2 p a misses the slopes at f, or f their values",
            ),
        )
        return accuracy, rows, objective

    def _values(self, a: Array, b: float, careful: bool) -> tuple[Array, Array, float]:
        """Return the fitted values, how far those of the exact kernel can be, and a bound on the norm of K."""
        s = self.substrate
        lengths = np.sqrt(s.gram.diagonal)
        reach = lengths * float(lengths @ np.abs(a))
        products, rounding = np.zeros(s.n), np.zeros(s.n)
        relative = of_matrix = float(s.kernel.rounding(s.X))
        if careful:
            relative = float(s.kernel.careful_rounding(s.X))
            for rows in row_blocks(s.n, s.n):
                K = np.empty((rows.stop - rows.start, s.n))
                s.kernel.fill_carefully(s.X[rows], s.X, K)
                (high, low), rounding[rows] = SlicedMatrix(K).times(a)
                products[rows] = high + low
        else:
            for start in range(0, s.n, _BLOCK):  # sums of sums round less than long sums
                products += s.gram.matrix[:, start : start + _BLOCK] @ a[start : start + _BLOCK]
            rounding = sum_rounding(_BLOCK + s.n / _BLOCK + 2.0) * reach
        values = products + b
        radius = at_most(1.0) * (relative * reach + rounding) + relative_rounding(2.0) * (np.abs(products) + abs(b))
        size = float(np.linalg.norm(s.gram.matrix)) + of_matrix * float(lengths @ lengths)
        return values, radius, at_most(size)

    def _accuracy(self, a: Array, f: Array, radius: Array, size: float, label: str) -> tuple[Accuracy, float]:
        losses, s = self.losses, self.substrate
        gaps = losses.young_gaps(f, radius, self.g)
        if self.remainder > 0.0:
            gaps[self.row] += self.remainder * losses.reach(f, radius, self.g, self.row)
        lengths = np.sqrt(s.gram.diagonal)
        other = np.abs(a - self.coefficients) + relative_rounding(2.0 + RAMP) * np.abs(a)
        other[self.row] += self.remainder / (2.0 * self.p)
        gap = at_most(float(gaps.sum()) + self.p * float(lengths @ other) ** 2)
        gap = gap if math.isfinite(gap) else math.inf
        if (losses.square > 0.0).all():
            weights, factor, centred = losses.square, math.sqrt(2.0), False
        else:
            weights, factor, centred = np.ones(s.n), math.sqrt(size / self.p), s.bias
        bound = factor * math.sqrt(gap / float(weights.sum())) + root_mean_square(radius, weights)
        spread, rounding_of_y = scale_of_targets(s.y, weights)
        about = f"{FITTED} of {label}" if label else FITTED
        about = f"{about} about their mean" if centred else about
        row = accuracy_row(at_most(bound), spread, FORMULA, tolerance=UNPOLISHED, rounding=rounding_of_y, about=about)
        return row, gap


def is_known(substrate: Substrate) -> bool:
    """Return whether the theory of this page covers a substrate: all rows, one output, a positive definite kernel."""
    kernel: Any = substrate.kernel
    plain = substrate.basis is None and not substrate.columns and substrate.cutoff is None
    plain = plain and substrate.y is not None and substrate.observed is None
    return plain and kernel.trusted and not kernel.pairwise
