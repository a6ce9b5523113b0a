r"""The rows of a certificate: a residual, the scale it is measured against, and the verdict; and the accuracy row.

A row passes when

.. math:: |\text{value}| \le \text{tolerance} \times \text{scale},

both recomputed from data and solution. Tolerances follow LAPACK: a modest multiple of the unit
roundoff times the dimension, against a scale built from norms of the quantities that were added up, so
that the verdict changes neither when y is multiplied by 1e12 nor when it is divided by it.

The accuracy row bounds the answer: the distance of the fitted values from those of the exact optimum. With sample
weights v, :math:`\|z\|_v^2 = \sum_i v_i z_i^2`, fitted values f as ``predict`` returns them and :math:`f^\star` those
of the exact optimum,

.. math::

    \text{accuracy} \ge \frac{\|f - f^\star\|_v}{\sqrt{\sum_i v_i}}, \qquad
    \text{spread} = \frac{\|y - \bar y_v\|_v}{\sqrt{\sum_i v_i}}, \qquad
    \text{accuracy} \le \max(\text{tolerance} \cdot \text{spread},\ n\,\epsilon \max|y|) .

Both are in units of y. The spread leaves the mean of y out, so an offset makes no certificate easier to hold; the
second term is what rounding y itself to double precision may change. With several outputs, each has its own bound and
its own spread, and every one of them must hold; the largest bound is stated first.

Where the answer is bounded by duality, the squared errors make the objective 1-strongly convex
in the fitted values, so with a primal feasible point of value P and a dual feasible one of value Q

.. math:: \tfrac12 \|f - f^\star\|^2 \le P - Q .

P - Q is never formed as a difference: for every machine here it is a sum of terms that cannot be negative, and what
rounding may have added to each of them is counted. What ``predict`` returns may differ slightly from the feasible
point, and that distance is measured and added.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from substrate.arrays import EPS, Array

__all__ = [
    "ACCURATE",
    "UNPOLISHED",
    "WITH_CUTOFF",
    "Accuracy",
    "Distance",
    "Row",
    "accuracy_of_outputs",
    "accuracy_row",
    "gap_row",
    "power_of_two",
    "ratio_of",
    "root_mean_square",
    "roundoff",
    "scale_of",
    "spread_of",
    "unpolished_tolerance",
    "with_cutoff",
]


def roundoff(dimension: int, factor: float = 30.0) -> float:
    """Return LAPACK's test threshold: ``factor * dimension * eps`` (30 is the threshold of its own test suite)."""
    return factor * max(dimension, 1) * EPS


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a certificate.

    Parameters
    ----------
    name
        What is checked, in a few words.
    value
        The residual, in the units of ``scale``. An unknown residual is infinity, so it can never pass.
    scale
        What the residual is compared with. Zero is allowed: then only an exact zero passes.
    tolerance
        The largest accepted ``value / scale``.
    formula
        How the value was computed, in the letters of the papers.
    """

    name: str
    value: float
    scale: float
    tolerance: float
    formula: str

    @property
    def relative(self) -> float:
        """``value / scale``, with 0/0 = 0 and anything unknown infinite."""
        return ratio_of(self.value, self.scale)

    @property
    def passes(self) -> bool:
        """Whether the residual is small enough; never true for an unknown one."""
        return math.isfinite(self.relative) and self.relative <= self.tolerance


def ratio_of(value: float, scale: float) -> float:
    """Return the size of a value as a multiple of a scale: zero for 0/0, infinity for anything unknown."""
    if math.isnan(value) or math.isnan(scale) or math.isinf(scale):
        return math.inf
    if value == 0.0:
        return 0.0
    return abs(value) / scale if scale > 0.0 else math.inf


#: Share of the spread of y within which closed forms, active sets, paths and polished points must be.
ACCURATE = 1e-6


def unpolished_tolerance(tolerance: float) -> float:
    """Return the tolerance of a conic solver's point: the root, since its duality gap is the square of its error."""
    return max(math.sqrt(tolerance), tolerance)


#: The same for a conic solver's own point.
UNPOLISHED = unpolished_tolerance(ACCURATE)


@dataclass(frozen=True, slots=True)
class Distance(Row):
    """A row whose ``value`` is a distance in units of y; ``spread`` is that of y.

    ``scale`` is the spread, or what makes the tolerance as large as the rounding of y where that is more.
    """

    spread: float = 0.0


@dataclass(frozen=True, slots=True)
class Accuracy(Distance):
    """A row named ``"accuracy"``: ``value`` bounds the distance of the fitted values from those of the exact optimum.

    ``about`` names what is bounded. ``outputs`` holds the row of every output where there are several: ``value``,
    ``scale`` and ``spread`` are then those of the output with the largest bound, in its own units, and the row passes
    where the rows of all outputs do.
    """

    about: str = "fitted values"
    outputs: "tuple[Accuracy, ...]" = ()

    @property
    def each(self) -> "tuple[Accuracy, ...]":
        """The row of every output; this one where it is the only one."""
        return self.outputs or (self,)

    @property
    def relative(self) -> float:
        """``value / scale``, the largest of all outputs."""
        return max(ratio_of(output.value, output.scale) for output in self.each)

    def plain(self, name: str) -> Row:
        """Return the row of the output that is nearest to failing, under another name."""
        worst = max(self.each, key=lambda output: output.relative)
        return Row(name=name, value=worst.value, scale=worst.scale, tolerance=worst.tolerance, formula=worst.formula)

    def __str__(self) -> str:
        several = f", the largest of {len(self.outputs)} outputs" if self.outputs else ""
        unit = "f" if self.about.startswith(VALUES) else "y"
        return (
            f"{self.about} within {self.value:.1e} of the exact optimum (spread of {unit} {self.spread:.3g}){several}"
        )


#: A row that bounds an answer, in a certificate or a proof.
_Answer = TypeVar("_Answer", bound=Accuracy)

#: What a bound is for where there are no targets: its unit is the spread of f.
VALUES = "values of f"


def accuracy_of_outputs(rows: Sequence[_Answer]) -> _Answer:
    """Return one row for several outputs: the largest bound, in its own units, and the row of every output."""
    each: tuple[Any, ...] = tuple(output for row in rows for output in row.each)
    largest: _Answer = max(each, key=lambda row: row.value)
    if len(each) == 1:
        return largest
    return replace(largest, formula=f"{largest.formula}, largest of {len(each)} outputs", outputs=each)


def accuracy_row(
    bound: float,
    spread: float,
    formula: str,
    *,
    tolerance: float = ACCURATE,
    rounding: float = 0.0,
    about: str = "fitted values",
) -> Accuracy:
    """Return the row from a bound and a spread in units of y; ``rounding`` is n eps max|y|."""
    bound = bound if math.isfinite(bound) else math.inf  # an unknown number is no bound
    scale = scale_of(spread, rounding, tolerance)
    return Accuracy(
        name="accuracy", value=bound, scale=scale, tolerance=tolerance, formula=formula, spread=spread, about=about
    )


def scale_of(spread: float, rounding: float, tolerance: float) -> float:
    """Return the scale: the spread, or the value at which the tolerance is the rounding of y, if that is larger."""
    return max(spread, min(rounding / tolerance, sys.float_info.max))


def root_mean_square(values: Array, weights: Array) -> float:
    """Return sqrt(sum v z^2 / sum v), with no overflow on the way."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    shares = weights / weights.max()
    return largest * math.sqrt(float(shares @ np.square(values / largest)) / float(shares.sum()))


def spread_of(y: Array, weights: Array) -> tuple[float, float]:
    """Return the weighted standard deviation of y about its mean, and n eps max|y|."""
    unit = float(np.abs(y).max(initial=0.0))
    if unit == 0.0:
        return 0.0, 0.0
    shares = weights / weights.max()
    scaled = y / unit
    mean = min(max(float(shares @ scaled) / float(shares.sum()), float(scaled.min())), float(scaled.max()))
    return unit * root_mean_square(scaled - mean, shares), y.size * EPS * unit


#: What a bound is for where a parameter of the model, its cutoff, leaves directions of the kernel out.
WITH_CUTOFF = "of the machine with its cutoff"


def with_cutoff(row: Accuracy) -> Accuracy:
    """Return the same row, saying that the optimum is that of the machine with its cutoff."""
    return replace(row, about=f"{row.about} {WITH_CUTOFF}")


def power_of_two(size: float) -> float:
    """Return the power of two above a size, by which numbers are divided without rounding; 1 for zero."""
    if size == 0.0 or not math.isfinite(size):
        return 1.0
    return math.ldexp(1.0, max(min(math.frexp(size)[1], 1000), -1000))


def gap_row(primal: Sequence[float], dual: Sequence[float], tolerance: float, data: float = 0.0) -> Row:
    """Return the row of primal minus dual objective, each given by its terms, against the sum of the terms' sizes.

    Measured against the terms, not against the difference: an optimum near zero between large terms is as well
    solved as any other. ``data`` is what a trivial point costs; a solver's noise is small against that even where every
    term of the optimum vanishes.
    """
    scale = float(sum(abs(term) for term in (*primal, *dual))) + data
    return Row(
        name="duality gap",
        value=float(sum(primal)) - float(sum(dual)),
        scale=scale,
        tolerance=tolerance,
        formula="primal - dual objective",
    )
