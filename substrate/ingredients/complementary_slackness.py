r"""Complementary slackness as a report: every product of a multiplier and its slack, and their sum.

.. math:: \xi^{-l}_i (t_l + f^l_i), \qquad \xi^{+l}_i (t_l - f^l_i), \qquad i = 1, \dots, N, \quad l = 1, \dots, d

[Pelckmans2005]_ eq. (27e), (27f). Where the linear conditions (27a) to (27d) hold, no product is negative and their sum
is the duality gap of the training problem: it vanishes exactly where the machine is trained. The check works on plain
numbers from any source; :math:`\rho \sum_l t_l`, the cost of the penalty, is the size they are compared with.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, positive, real_array
from substrate.certificates import Row
from substrate.errors import DataError
from substrate.ingredients.component_bounds import slackness_products

__all__ = ["ComplementarySlackness", "complementary_slackness"]


@dataclass(frozen=True, slots=True)
class ComplementarySlackness:
    """All products (27e) and (27f), one row per component, the size they are compared with, and the tolerance."""

    lower: Array
    upper: Array
    size: float
    tolerance: float

    @property
    def products(self) -> Array:
        """Return all of them in one vector: (27e) first."""
        return np.concatenate([self.lower.ravel(), self.upper.ravel()])

    @property
    def largest(self) -> float:
        """Return the product farthest from zero, by its absolute value."""
        return float(np.abs(self.products).max(initial=0.0))

    @property
    def sum(self) -> float:
        """Return the sum of absolute values: the duality gap, where (27a) to (27d) hold."""
        return float(np.abs(self.products).sum())

    @property
    def holds(self) -> bool:
        """Return whether the sum is small against the size."""
        return self.row().passes

    @property
    def verdict(self) -> str:
        """Return the finding in words."""
        summary = f"{self.products.size} products, the largest {self.largest:.3g}, together {self.sum:.3g}"
        against = f"against {self.size:.3g}"
        if self.holds:
            return f"complementary slackness holds: {summary} {against}; the machine is trained at this weight"
        return (
            f"complementary slackness fails: {summary} {against}; the machine is not trained at this weight, so its "
            "validation error does not belong to a trained machine"
        )

    def row(self) -> Row:
        """Return the sum as a row of a certificate."""
        return Row(
            name="complementary slackness",
            value=self.sum,
            scale=self.size,
            tolerance=self.tolerance,
            formula="sum of products (27e,f)",
        )

    def __str__(self) -> str:
        return self.verdict


def complementary_slackness(
    values: Any, t: Any, xi_minus: Any, xi_plus: Any, size: float | None = None, tolerance: float = 1e-6
) -> ComplementarySlackness:
    """Return the report on a point: component values (d x N), bounds t (d), multipliers (d x N each).

    ``size`` is what the sum of products is compared with; unless given, the sum of multipliers times their bounds,
    which is rho sum(t) where (27b) holds.

    :equation [Pelckmans2005]_ (27e)-(27f): complementary slackness, all products
    """
    arrays = [real_array(array, name, ndim=2) for array, name in _label_pairs(values, xi_minus, xi_plus)]
    bounds = real_array(t, "t", ndim=1)
    if len({array.shape for array in arrays}) > 1 or bounds.size != arrays[0].shape[0]:
        shapes = [array.shape for array in arrays]
        raise DataError(
            f"values, xi_minus and xi_plus have a row per entry of t and one shape: received {shapes} and {bounds.size}"
        )
    f, minus, plus = arrays
    judged = float(np.abs((minus + plus).sum(axis=1) * bounds).sum()) if size is None else positive(size, "size")
    lower, upper = slackness_products(f, bounds, minus, plus)
    return ComplementarySlackness(lower, upper, judged, positive(tolerance, "tolerance"))


def _label_pairs(*arrays: Any) -> list[tuple[Any, str]]:
    return list(zip((np.atleast_2d(array) for array in arrays), ("values", "xi_minus", "xi_plus"), strict=True))
