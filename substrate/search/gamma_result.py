"""What a search of gamma found: the choice, its criterion, the lower bound, and the facts for a certificate."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from substrate.arrays import Array
from substrate.certificates import WIDER, Row

__all__ = ["GammaSearch"]


@dataclass(frozen=True, slots=True)
class GammaSearch:
    """The best gamma per output, its criterion, a lower bound over the range, and the effort.

    ``values``, ``bounds``, ``slack`` (what was subtracted from the bounds for rounding) and ``floor`` (a criterion that
    needs no bound) are in units of ``unit`` squared, in which they neither overflow nor vanish; ``criterion`` and
    ``lower_bound`` are in the units of y squared. ``ended`` is whether the range was ended where rounding reaches the
    gap, or where the criterion is negligible. ``seen`` are the gammas, ascending, at which the criterion was evaluated,
    ``curve`` its values there, one column per output.
    """

    gamma: Array
    values: Array
    bounds: Array
    unit: float
    gamma_range: tuple[float, float]
    gap: float
    evaluations: int
    seen: Array
    curve: Array
    slack: Any = 0.0
    intervals: int = 0
    floor: Any = 0.0
    ended: bool = False

    def per_weight(self, unit: float) -> Self:
        """Return the same for weights in other units: gammas are divided by the unit of those that were searched."""
        low, high = (end / unit for end in self.gamma_range)
        gamma = np.clip(self.gamma / unit, low, high)
        return replace(self, gamma=gamma, gamma_range=(low, high), seen=self.seen / unit)

    @property
    def criterion(self) -> Array:
        """Return the criterion at gamma."""
        return _in_units(self.values, self.unit)

    @property
    def lower_bound(self) -> Array:
        """Return a number that no criterion of the range is below; minus infinity where nothing is claimed."""
        return _in_units(self.bounds, self.unit)

    @property
    def path(self) -> dict[str, Any]:
        """Return the values of the criterion that were seen, in the units of y squared, and their range of gamma."""
        curve = _in_units(self.curve, self.unit)
        values = curve[:, 0] if self.gamma.size == 1 else curve
        return {"parameter": "gamma", "values": self.seen, "criterion": values, "coverage": self.gamma_range}

    @property
    def is_certified(self) -> bool:
        """Return whether the search has a lower bound; a search on a grid has none."""
        return bool(np.isfinite(self.bounds).all())

    @property
    def is_closed(self) -> bool:
        """Return whether every lower bound is within the gap, rounding included."""
        return self.is_certified and self.rows()[0].passes

    def rows(self) -> tuple[Row, ...]:
        """Return the gap of the worst output as a row; none without a lower bound."""
        if not self.is_certified:
            return ()
        rows = [
            Row(
                name="gap of gamma",
                value=float(value - bound),
                scale=float(value + floor / self.gap),
                tolerance=self.gap,
                formula="criterion - lower bound, over the range of gamma",
            )
            for value, bound, floor in np.broadcast(self.values, self.bounds, self.floor)
        ]
        return (max(rows, key=lambda row: row.relative),)

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Return the range, the effort and the rounding, for a certificate's record."""
        low, high = self.gamma_range
        rounding = float(np.max(self.slack / np.where(self.values > 0.0, self.values, 1.0)))
        ends = [
            f"{name} end" for name, end in (("lower", low), ("upper", high)) if np.isclose(self.gamma, end, 1e-6).any()
        ]
        description = f"{low:.3g} to {high:.3g}"
        if ends:
            description += f"; best at the {' and '.join(ends)}, gamma_range widens it"
        if self.ended:
            negligible = bool((self.values <= self.floor).all())
            description += "; it ends where " + (
                "the criterion is negligible" if negligible else "rounding hides what is beyond"
            )
        effort = f"{self.intervals} intervals, {self.evaluations} evaluations, rounding {rounding:.1e}"
        if not self.is_certified:
            effort = f"{self.evaluations} points of a grid, without a lower bound"
        return (("gamma searched", description), ("search of gamma", effort))

    def advice(self) -> tuple[tuple[str, str], ...]:
        """Return advice if the gap is not met."""
        if all(row.passes for row in self.rows()):
            return ()
        needed = float(np.max((self.values - self.bounds) / np.where(self.values > 0.0, self.values, 1.0)))
        said = f"the lower bound is not within gap={self.gap:g} of the criterion: gap={needed:.2g} would be met"
        return ((WIDER, said),)


def _in_units(values: Array, unit: float) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(values * unit * unit)
