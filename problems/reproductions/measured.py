r"""The measurements of a study, one number or curve per seed, their spread, and the verdict on the claims of a paper.

Over the seeds, a study prints one of

.. math:: q_{1/4} \le q_{1/2} \le q_{3/4} \quad\text{or}\quad \bar x \pm s, \qquad
          s^2 = \tfrac{1}{n - 1} \textstyle\sum_i (x_i - \bar x)^2

A claim is of one of two kinds: a *ranking* states which is larger, or how a curve behaves; a *level* is a printed
number. The verdict follows from how many of each hold, by the rule of :func:`verdict`, and from nothing else. Claims
are made by the functions below, whose rules are the same for all studies:

.. math:: \text{better: } \#\{s : a_s < b_s\} \ge \tfrac34 n, \qquad
          \text{level: } q_{1/4} - \tau \le p \le q_{3/4} + \tau

for numbers a and b of n seeds, a printed p and its tolerance :math:`\tau`, a tenth of p unless a study states another.
Where a level does not hold, the claim says whether p is between the smallest and the largest of the seeds: a paper that
shows one split shows one draw.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from substrate.errors import DataError, DeclarationError

__all__ = ["Claim", "Curve", "Measured", "Printed", "Round", "better", "collect", "level", "verdict"]


class Printed(NamedTuple):
    """A figure of a paper: as printed, and as a number where it is one, with its deviation."""

    text: str
    value: float | None = None
    deviation: float | None = None


class Round(NamedTuple):
    """The measurements of one seed: numbers by name, and curves by name, each a grid and the values over it."""

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
    """Numbers by name, one per seed, and curves by name."""

    of: Mapping[str, tuple[float, ...]]
    curves: Mapping[str, Curve]

    @property
    def seeds(self) -> int:
        """Return the number of seeds."""
        return len(next(iter(self.of.values())))

    def median(self, name: str) -> float:
        """Return the median of a number's values."""
        return float(np.median(self.of[name]))

    def quartiles(self, name: str) -> tuple[float, float]:
        """Return first and third quartile."""
        low, high = np.quantile(self.of[name], (0.25, 0.75))
        return float(low), float(high)

    def mean(self, name: str) -> float:
        """Return the mean of a number's values."""
        return float(np.mean(self.of[name]))

    def deviation(self, name: str) -> float:
        """Return their standard deviation; zero for one value."""
        values = self.of[name]
        return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0

    def place(self, name: str, printed: float) -> str:
        """Return whether a printed number is one that a single split can give, in words."""
        values = self.of[name]
        low, high = min(values), max(values)
        if low <= printed <= high:
            below = sum(value < printed for value in values)
            return f"the printed number is one draw of many: {below} of {len(values)} seeds are below it"
        return f"the printed number is outside of all {len(values)} seeds, {low:.3g} to {high:.3g}"

    def wins(self, name: str, against: str) -> int:
        """Return the number of seeds on which one number is below another."""
        return sum(first < second for first, second in zip(self.of[name], self.of[against], strict=True))

    def ratio(self, name: str, against: str) -> float:
        """Return the median over the seeds of one number divided by another."""
        return float(np.median(np.divide(self.of[name], self.of[against])))

    def summary(self, name: str, spread: str) -> str:
        """Return median and quartiles, or mean and deviation, in words."""
        if spread == "deviation":
            return f"{self.mean(name):.3g} ± {self.deviation(name):.2g}"
        low, high = self.quartiles(name)
        return f"{self.median(name):.3g} ({low:.3g} to {high:.3g})"


def collect(rounds: Sequence[Round]) -> Measured:
    """Return all seeds together; every seed must have measured the same."""
    first = rounds[0]
    if any(r.values.keys() != first.values.keys() or r.curves.keys() != first.curves.keys() for r in rounds):
        raise DataError("the seeds of a study measured different things, so there is nothing to compare")
    values = {name: tuple(float(r.values[name]) for r in rounds) for name in first.values}
    curves = {}
    for name, (x, _) in first.curves.items():
        low, middle, high = np.quantile([r.curves[name][1] for r in rounds], (0.25, 0.5, 0.75), axis=0)
        curves[name] = Curve(*(tuple(map(float, numbers)) for numbers in (x, low, middle, high)))
    return Measured(values, curves)


class Claim(NamedTuple):
    """One statement of a paper with what was measured; ``erratum`` is its place on the errata page, if it has one."""

    says: str
    kind: Literal["ranking", "level"]
    rule: str
    seen: str
    holds: bool
    erratum: str = ""


def verdict(claims: Sequence[Claim]) -> str:
    """Say whether all claims hold, or none, or one kind does and the other not, or some of each."""
    counts = {kind: [claim.holds for claim in claims if claim.kind == kind] for kind in ("ranking", "level")}
    if not claims:
        raise DeclarationError("a study without a claim has no verdict")
    if all(claim.holds for claim in claims):
        return "reproduces"
    if not any(claim.holds for claim in claims):
        return "does not reproduce"
    ranking, level = counts["ranking"], counts["level"]
    if ranking and level and all(ranking):
        return f"the ranking reproduces, the level {_part(level)}"
    if ranking and level and all(level):
        return f"the level reproduces, the ranking {_part(ranking)}"
    clauses = [f"{sum(outcomes)} of {len(outcomes)} {kind}s" for kind, outcomes in counts.items() if outcomes]
    return f"reproduces in part: {', '.join(clauses)}"


def _part(outcomes: list[bool]) -> str:
    return f"in part ({sum(outcomes)} of {len(outcomes)})" if any(outcomes) else "does not"


def better(measured: Measured, name: str, against: str, says: str, erratum: str = "") -> Claim:
    """Claim that the first number is below the second on at least three quarters of the seeds."""
    wins, n = measured.wins(name, against), measured.seeds
    observation = f"on {wins} of {n}; median ratio {measured.ratio(name, against):.3g}"
    rule = f"{name} below {against} on at least three quarters of the seeds"
    return Claim(says=says, kind="ranking", rule=rule, seen=observation, holds=wins >= 0.75 * n, erratum=erratum)


def level(measured: Measured, name: str, printed: Printed, tolerance: float | None = None, erratum: str = "") -> Claim:
    """Claim that the printed number lies between our quartiles, widened by the tolerance (a tenth of it)."""
    if printed.value is None:
        raise DeclarationError(f"{name}: {printed.text!r} is not a number, so it has no level")
    wide = 0.1 * abs(printed.value) if tolerance is None else tolerance
    low, high = measured.quartiles(name)
    rule = f"the printed number between our quartiles widened by {wide:.2g}"
    holds = low - wide <= printed.value <= high + wide
    place = "" if holds else f"; {measured.place(name, printed.value)}"
    return Claim(
        says=f"{name}: {printed.text}",
        kind="level",
        rule=rule,
        seen=measured.summary(name, "quartiles") + place,
        holds=holds,
        erratum=erratum,
    )
