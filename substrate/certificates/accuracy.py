r"""The row that speaks of the answer: how far the fitted values can be from those of the exact optimum.

With sample weights v, :math:`\|z\|_v^2 = \sum_i v_i z_i^2`, fitted values f as ``predict`` returns them and
:math:`f^\star` those of the exact optimum,

.. math::

    \text{accuracy} \ge \frac{\|f - f^\star\|_v}{\sqrt{\sum_i v_i}}, \qquad
    \text{spread} = \frac{\|y - \bar y_v\|_v}{\sqrt{\sum_i v_i}}, \qquad
    \text{accuracy} \le \max(\text{tolerance} \cdot \text{spread},\ n\,\epsilon \max|y|) .

Both are in units of y. The spread leaves the mean of y out, so an offset makes no certificate easier to hold; the
second term is what rounding y itself to double precision may change.
"""

import math
import sys
from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rows import EPS, Row

__all__ = [
    "ACCURATE", "UNPOLISHED", "Accuracy", "accuracy_row", "root_mean_square", "scale_of", "spread_of", "unpolished",
]  # fmt: skip

#: Share of the spread of y within which closed forms, active sets, paths and polished points must be.
ACCURATE = 1e-6


def unpolished(tolerance: float) -> float:
    """The tolerance of a conic solver's own point: the root, since its duality gap is the square of its error."""
    return max(math.sqrt(tolerance), tolerance)


#: The same for a conic solver's own point.
UNPOLISHED = unpolished(ACCURATE)


@dataclass(frozen=True, slots=True)
class Accuracy(Row):
    """A row named ``"accuracy"``: ``value`` bounds the distance of the fitted values, ``spread`` is that of y.

    ``scale`` is the spread, or what makes the tolerance as large as the rounding of y where that is more. ``about``
    says what is bounded.
    """

    spread: float = 0.0
    about: str = "fitted values"

    def __str__(self) -> str:
        return f"{self.about} within {self.value:.1e} of the exact optimum (spread of y {self.spread:.3g})"


def accuracy_row(
    bound: float,
    spread: float,
    formula: str,
    *,
    tolerance: float = ACCURATE,
    rounding: float = 0.0,
    about: str = "fitted values",
) -> Accuracy:
    """The row from a bound and a spread in units of y; ``rounding`` is n eps max|y|."""
    bound = bound if math.isfinite(bound) else math.inf  # what is not known is no bound
    scale = scale_of(spread, rounding, tolerance)
    return Accuracy("accuracy", bound, scale, tolerance, formula, spread, about)


def scale_of(spread: float, rounding: float, tolerance: float) -> float:
    """What is compared with: the spread, or so much that the tolerance is the rounding of y where that is more."""
    return max(spread, min(rounding / tolerance, sys.float_info.max))


def root_mean_square(values: Array, weights: Array) -> float:
    """sqrt(sum v z^2 / sum v), with no overflow on the way."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0 or not np.isfinite(largest):
        return largest
    shares = weights / weights.max()
    return largest * float(np.sqrt(shares @ np.square(values / largest) / shares.sum()))


def spread_of(y: Array, weights: Array) -> tuple[float, float]:
    """The weighted standard deviation of y about its mean, and n eps max|y|."""
    unit = float(np.abs(y).max(initial=0.0))
    if unit == 0.0:
        return 0.0, 0.0
    shares = weights / weights.max()
    scaled = y / unit
    mean = float(np.clip(shares @ scaled / shares.sum(), scaled.min(), scaled.max()))
    return unit * root_mean_square(scaled - mean, shares), y.size * EPS * unit
