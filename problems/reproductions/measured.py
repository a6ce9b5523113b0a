r"""What a study measures: numbers a seed, curves a seed, and their spread.

.. math:: q_{1/4} \le q_{1/2} \le q_{3/4} \quad\text{or}\quad \bar x \pm s, \qquad
          s^2 = \tfrac{1}{n - 1} \textstyle\sum_i (x_i - \bar x)^2

over the seeds; a study says which of the two it prints.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from substrate.errors import DataError

__all__ = ["Curve", "Measured", "Printed", "Round", "collected"]


class Printed(NamedTuple):
    """A figure of a paper: as it stands there, and as a number where it is one, with its deviation."""

    text: str
    value: float | None = None
    deviation: float | None = None


class Round(NamedTuple):
    """What one seed gives: numbers by name, and curves by name, each a grid and the values over it."""

    values: Mapping[str, float]
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]] = {}


@dataclass(frozen=True, slots=True)
class Curve:
    """Quartiles over the seeds, at every point of a grid."""

    x: tuple[float, ...]
    low: tuple[float, ...]
    middle: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """Numbers by name, one a seed, and curves by name."""

    of: Mapping[str, tuple[float, ...]]
    curves: Mapping[str, Curve]

    @property
    def seeds(self) -> int:
        """How many seeds there were."""
        return len(next(iter(self.of.values())))

    def median(self, name: str) -> float:
        """The middle of a number's values."""
        return float(np.median(self.of[name]))

    def quartiles(self, name: str) -> tuple[float, float]:
        """First and third quartile."""
        low, high = np.quantile(self.of[name], (0.25, 0.75))
        return float(low), float(high)

    def mean(self, name: str) -> float:
        """The mean of a number's values."""
        return float(np.mean(self.of[name]))

    def deviation(self, name: str) -> float:
        """Their standard deviation; zero of one value."""
        values = self.of[name]
        return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0

    def wins(self, name: str, against: str) -> int:
        """On how many seeds one number is below another."""
        return sum(one < other for one, other in zip(self.of[name], self.of[against], strict=True))

    def ratio(self, name: str, against: str) -> float:
        """The median over the seeds of one number divided by another."""
        return float(np.median(np.divide(self.of[name], self.of[against])))

    def told(self, name: str, spread: str) -> str:
        """Median and quartiles, or mean and deviation, in words."""
        if spread == "deviation":
            return f"{self.mean(name):.3g} ± {self.deviation(name):.2g}"
        low, high = self.quartiles(name)
        return f"{self.median(name):.3g} ({low:.3g} to {high:.3g})"


def collected(rounds: Sequence[Round]) -> Measured:
    """All seeds together; every seed must have measured the same."""
    first = rounds[0]
    if any(r.values.keys() != first.values.keys() or r.curves.keys() != first.curves.keys() for r in rounds):
        raise DataError("the seeds of a study measured different things, so there is nothing to compare")
    values = {name: tuple(float(r.values[name]) for r in rounds) for name in first.values}
    curves = {}
    for name, (x, _) in first.curves.items():
        low, middle, high = np.quantile([r.curves[name][1] for r in rounds], (0.25, 0.5, 0.75), axis=0)
        curves[name] = Curve(*(tuple(map(float, part)) for part in (x, low, middle, high)))
    return Measured(values, curves)
