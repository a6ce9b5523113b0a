r"""The accuracy row of a machine whose answer is bounded by duality.

The squared errors make the objective 1-strongly convex in the fitted values, so with a primal feasible point of value P
and a dual feasible one of value Q

.. math:: \tfrac12 \|f - f^\star\|^2 \le P - Q .

P - Q is never formed as a difference: for every machine here it is a sum of terms that cannot be negative, and what
rounding may have added to each of them is counted. What ``predict`` returns may be a little apart from the feasible
point, and that distance is measured and added.
"""

import math

from substrate.arrays import Array
from substrate.certificates.accuracy import Accuracy, accuracy_row, spread_of

__all__ = ["distance_row", "gap_accuracy", "power_of_two"]

#: Room for the rounding of the few operations that put a bound together.
_ROOM = 1.0 + 1e-3


def gap_accuracy(
    y: Array, weights: Array, gap: float, apart: float, formula: str, *, tolerance: float, unit: float = 1.0
) -> Accuracy:
    """The row from a gap of non-negative terms and the distance of what predict returns from the feasible point.

    ``gap`` is in units of ``unit`` squared, ``apart`` (root mean square) in units of ``unit``, y in its own.
    """
    bound = math.sqrt(2.0 * gap / float(weights.sum())) + apart if gap >= 0.0 else math.inf
    return distance_row(y, weights, unit * bound, formula, tolerance=tolerance)


def distance_row(
    y: Array, weights: Array, bound: float, formula: str, *, tolerance: float, about: str = "fitted values"
) -> Accuracy:
    """The row from a bound in units of y."""
    spread, rounding = spread_of(y, weights)
    found = _ROOM * bound if math.isfinite(bound) else math.inf
    return accuracy_row(found, spread, formula, tolerance=tolerance, rounding=rounding, about=about)


def power_of_two(size: float) -> float:
    """The power of two above a size, by which numbers are divided without rounding; 1 for zero."""
    if size == 0.0 or not math.isfinite(size):
        return 1.0
    return math.ldexp(1.0, max(min(math.frexp(size)[1], 1000), -1000))
