r"""A row of a certificate: one residual, the scale it is measured against, and the verdict.

A row passes when

.. math:: |\text{value}| \le \text{tolerance} \times \text{scale},

both recomputed from data and solution. Tolerances follow LAPACK's habit: a modest multiple of the unit
roundoff times the dimension, against a scale built from norms of the quantities that were added up, so
that the verdict changes neither when y is multiplied by 1e12 nor when it is divided by it.
"""

import math
from dataclasses import dataclass

from substrate.arrays import EPS

__all__ = ["EPS", "Row", "roundoff"]


def roundoff(dimension: int, factor: float = 30.0) -> float:
    """LAPACK's test threshold: ``factor * dimension * eps`` (30 is the threshold of its own test suite)."""
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
        if math.isnan(self.value) or math.isnan(self.scale) or math.isinf(self.scale):
            return math.inf
        if self.value == 0.0:
            return 0.0
        return abs(self.value) / self.scale if self.scale > 0.0 else math.inf

    @property
    def passes(self) -> bool:
        """Whether the residual is small enough; never true for an unknown one."""
        return math.isfinite(self.relative) and self.relative <= self.tolerance
