r"""Prediction intervals for series: adaptive conformal inference, whose coverage needs no exchangeable rows.

With the scores :math:`s_i = |y_i - \hat y_i|` of rows that were seen before row t, the interval of row t has the radius

.. math:: q_t = \text{the } \lceil (n_t + 1)(1 - \alpha_t) \rceil\text{-th smallest of } s_1, \dots, s_{n_t},
          \qquad \alpha_{t+1} = \alpha_t + \eta\, (\alpha - \text{err}_t),

where :math:`\text{err}_t` is one if the target was outside and zero otherwise: a row that is missed widens the next
interval, a row that is covered narrows it a little ([Gibbs2021]_ section 2). For :math:`\alpha_t \le 0` the interval is
the whole line, for :math:`\alpha_t \ge 1` it is empty. Then :math:`\alpha_t` stays in :math:`[-\eta, 1 + \eta]`, and
adding all steps up gives, for every sequence whatsoever,

.. math:: \Big| \frac1T \sum_{t=1}^T \text{err}_t - \alpha \Big|
          \le \frac{\max(\alpha_1, 1 - \alpha_1) + \eta}{T \eta}

([Gibbs2021]_ Proposition 4.1; :math:`\eta` is their :math:`\gamma`). That is a statement about the share of rows
covered in the long run, not about any single one. Rounding of the T sums of :math:`\alpha_t` is added to the bound.
"""

import bisect
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from substrate.arrays import Array, positive
from substrate.certificates.rounding import relative_rounding
from substrate.errors import DataError, DeclarationError
from substrate.uncertainty.levels import exact_level

__all__ = ["AdaptiveIntervals", "SeriesIntervals"]


@dataclass(frozen=True, slots=True)
class SeriesIntervals:
    """Intervals of successive rows, what became of them, and the guarantee.

    Parameters
    ----------
    ends
        Lower and upper end for every row, infinite where nothing is excluded, NaN where the interval is empty.
    levels
        :math:`\\alpha_t` of every row.
    covered
        Whether the target was inside.
    coverage
        The share that was asked for.
    bound
        How far the share of covered rows can be from ``coverage``, for any series.
    """

    ends: Array
    levels: Array
    covered: Any
    coverage: float
    bound: float

    @property
    def share(self) -> float:
        """The share of rows that were covered."""
        return float(np.mean(self.covered))

    @property
    def holds(self) -> bool:
        """Whether the share is within the bound, as the theorem says."""
        return abs(self.share - self.coverage) <= self.bound

    def __str__(self) -> str:
        return (
            f"covered {self.share:.3f} of {len(self.ends)} rows, asked for {self.coverage:g}: within {self.bound:.3g} "
            "of it for any series, exchangeable or not (adaptive conformal inference); no promise for a single row"
        )


@dataclass(slots=True)
class AdaptiveIntervals:
    """Intervals one after the other: ask for the radius, then tell whether the target was inside.

    Parameters
    ----------
    scores
        Absolute errors of earlier rows, at best of rows that were left out; at least one.
    coverage
        The share of rows to be covered.
    rate
        :math:`\\eta`, by how much :math:`\\alpha_t` moves; a larger one adapts faster and makes the bound smaller, and
        the intervals less steady.
    """

    scores: list[float]
    coverage: float = 0.9
    rate: float = 0.05
    level: float = field(init=False)
    rows: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        values = np.asarray(self.scores, dtype=np.float64).ravel()
        if not values.size or not np.isfinite(values).all():
            raise DataError("scores must be finite absolute errors of earlier rows, at least one")
        self.scores = sorted(float(score) for score in np.abs(values))
        self.coverage = float(exact_level(self.coverage))
        if positive(self.rate, "rate") >= 1.0:
            raise DeclarationError(f"rate must be below 1, received {self.rate!r}")
        self.level = 1.0 - self.coverage

    @property
    def radius(self) -> float:
        """Half of the width of the next interval: infinite for the whole line, NaN for an empty one."""
        if self.level <= 0.0:
            return math.inf
        if self.level >= 1.0:
            return math.nan
        rank = math.ceil((len(self.scores) + 1) * (1.0 - self.level))
        return math.inf if rank > len(self.scores) else self.scores[max(rank, 1) - 1]

    def observe(self, error: float) -> bool:
        """Take the error of the next row, y less its prediction; return whether it was inside of the interval."""
        size = abs(float(error))
        if not math.isfinite(size):
            raise DataError("an error that is not finite says nothing; give the target that was observed")
        is_inside = size <= self.radius  # false where the interval is empty
        self.level += self.rate * ((1.0 - self.coverage) - (0.0 if is_inside else 1.0))
        bisect.insort(self.scores, size)
        self.rows += 1
        return is_inside

    def bound(self, rows: int | None = None) -> float:
        """Return how far the share of covered rows can be from the coverage after so many rows.

        :place [Gibbs2021]_ Proposition 4.1: the long-run coverage of every series
        """
        count = self.rows if rows is None else rows
        if count == 0:
            return math.inf
        start = 1.0 - self.coverage
        # every sum of a level is rounded once, and a level is at most two
        return (max(start, 1.0 - start) + self.rate) / (count * self.rate) + relative_rounding(8.0) / self.rate

    def follow(self, predictions: Array, targets: Array) -> SeriesIntervals:
        """Go through rows in their order: the interval of each is made before its target is seen."""
        fitted, observed = (np.asarray(values, dtype=np.float64) for values in (predictions, targets))
        if fitted.ndim != 1 or fitted.shape != observed.shape:
            raise DataError(f"predictions and targets must be vectors of one length: {fitted.shape}, {observed.shape}")
        ends, levels, covered = np.empty((fitted.size, 2)), np.empty(fitted.size), np.empty(fitted.size, dtype=bool)
        for row, (prediction, target) in enumerate(zip(fitted, observed, strict=True)):
            radius = self.radius
            ends[row], levels[row] = (prediction - radius, prediction + radius), self.level
            covered[row] = self.observe(float(target - prediction))
        return SeriesIntervals(
            ends=ends, levels=levels, covered=covered, coverage=self.coverage, bound=self.bound(fitted.size)
        )
