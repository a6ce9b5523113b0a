r"""The accuracy row of machines whose losses have clipped slopes: Huber's loss and the squared hinge.

The bound of :mod:`substrate.penalized.residual_bound` is computed in double precision first, and with products in
doubled precision where that does not pass. Of a declared problem on :math:`K = R R^T`, where alpha is dual feasible and
belongs to errors :math:`\tilde e` near the errors e of a point (w, b),

.. math::

    P - Q \le \tfrac12 \|w - R^T \alpha\|^2 + \tfrac12 \sum_i \gamma v_i (e_i - \tilde e_i)^2 , \qquad
    \|f - f^\star\| \le \sqrt{2 (P - Q)}\, \|R - \bar R\| + \|f - R w\| ,

about the means, since the slope is Lipschitz and :math:`\tfrac12 w^T w` strongly convex.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from substrate.arrays import Array
from substrate.certificates.enclosed import Double, Doubled
from substrate.certificates.rows import Accuracy
from substrate.certificates.tolerance import Tolerance
from substrate.least_squares.kernel_products import CarefulProducts
from substrate.penalized.computed_kernel import ComputedKernel
from substrate.penalized.residual_bound import ABOUT_MEAN, BoundedMachine

__all__ = ["ResidualProducts", "StoredMachine", "balancing_bias", "bound_primal", "residual_accuracy"]


class StoredMachine(BoundedMachine, Protocol):
    """A machine of which it is known whether a bound is worth computing."""

    @property
    def diagonal(self) -> Array:
        """Return k(x_i, x_i)."""

    @property
    def is_sound(self) -> bool:
        """Whether all stored numbers are finite, and of the signs that they must have."""


@dataclass(frozen=True)
class ResidualProducts(ComputedKernel):
    """K by products, its diagonal, and what a kernel value may be at most; entries are used where ``has_blocks``."""

    entries: Array
    roots: Array
    has_blocks: bool

    def diagonal(self) -> Doubled:
        """Return k(x_i, x_i)."""
        return Doubled(self.entries, radius=self.plain.rounding * np.abs(self.entries))

    def block(self, rows: Any, columns: Any) -> Double:
        """Return a part of the matrix."""
        sizes = self.roots[rows][:, None] * self.roots[columns]
        return Double(self.plain.matrix[np.ix_(rows, columns)], self.plain.rounding * sizes)


def residual_accuracy(
    machine: StoredMachine,
    careful: CarefulProducts,
    tolerance: Tolerance,
    formula: str,
    bound: Callable[[ResidualProducts], tuple[float, str]],
) -> tuple[Accuracy, bool]:
    """Return the row, and whether doubled precision was needed; ``bound`` computes it and says what it is about."""
    roots = np.sqrt(np.maximum(machine.diagonal, 0.0) + machine.negative)
    is_definite = machine.negative * machine.gamma * float(machine.weights.max()) < 1.0

    def row(products: Any, has_blocks: bool, words: str) -> Accuracy:
        value, about = math.inf, ABOUT_MEAN
        if machine.is_sound and is_definite:
            kernel = ResidualProducts(products, careful.plain, machine.diagonal, roots, has_blocks=has_blocks)
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                value, about = bound(kernel)
        return tolerance.row(value, words, about)

    plain = row(careful.plain, False, formula)
    if plain.passes or not machine.is_sound:
        return plain, False
    careful_row = row(careful, True, f"{formula}, in doubled precision")
    return min(plain, careful_row, key=lambda row: row.value), True


def bound_primal(rows: Double, w: Array, alpha: Any, pulls: Any, off: Any, apart: Any) -> Any:
    """Bound the norm of the distance of the fitted values, about their mean, from those of the exact optimum.

    ``alpha`` is dual feasible, the coefficients of the rows; ``off`` is how far the errors of the point are from those
    alpha belongs to, ``pulls`` are gamma v, and ``apart`` is what the stored fitted values are away from R w.
    """
    n = alpha.sizes.size
    slope = w - rows.T @ alpha
    energy = (slope * slope).sum() + (pulls * off * off).sum()
    centred = rows - (Double(np.ones((1, n))) @ rows) / float(n)
    apart = apart - apart.total() / float(n)
    return energy.bound_root() * float(np.linalg.norm(centred.sizes)) + (apart * apart).sum().bound_root()


def balancing_bias(low: float, high: float, total: Callable[[float], float]) -> float:
    """Return a b between two for which a ``total`` that decreases with b is nearly zero, by bisection."""
    for _ in range(200):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (middle, high) if total(middle) > 0.0 else (low, middle)
    return low
