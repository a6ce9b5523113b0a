r"""The best width and gamma of a rectangle, with a proof: branch and bound on cells.

.. math:: \min_{\sigma_0 \le \sigma \le \sigma_1} \; \min_{\lambda_0 \le \lambda \le \lambda_1} F(\sigma, \lambda),
          \qquad \lambda = 1/\gamma

The widths are cut into zones, each with one decomposition and a list of intervals of lambda. An interval whose lower
bound (:mod:`~substrate.search.width_criteria`) comes within ``gap`` of the best value known is closed. Those that are
wide compared with the zone are halved at once, for the same decomposition; those that remain are handed to the two
halves of the zone. The bound is of second order in the size of a cell, so around the optimum, where the criterion is
flat, cells are about the root of the gap wide, and elsewhere wider.

The zone with the smallest bound is next, so the search may stop at any time: the smallest bound of all cells, open and
closed, holds over the whole rectangle.
"""

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.rounding import relative_rounding
from substrate.search.width_bounds import WidthFamily, Zone
from substrate.search.width_criteria import bounded_cells

__all__ = ["WidthSearch", "search_widths"]

#: Length of the first intervals in log lambda, and the longest first zone, in log sigma from its middle.
_LENGTH, _HALF = 0.5, 0.25
#: An interval is halved without a new decomposition while its part of the perturbation exceeds the width's so often.
_SHARE = 1.5
#: Below these sizes nothing is halved: what remains is rounding.
_SMALLEST_HALF, _SMALLEST_LENGTH = 1e-6, 1e-5
_AT_ONCE = 128
#: A width this near an end of its range, in the logarithm, is reported to be there.
_AT_END = 0.1


@dataclass(frozen=True, slots=True)
class WidthSearch:
    """The best point found and a lower bound over the rectangle.

    ``value`` and ``bound`` are in units of y's ``unit`` squared; ``floor`` is a criterion of rounding size, which needs
    no bound; ``t`` is the logarithm of the width in units of the family's. ``ended`` is empty where the gap is reached,
    else the reason why not.
    """

    t: float
    lam: float
    value: float
    bound: float
    floor: float
    widths: tuple[float, float]
    gap: float
    zones: int
    cells: int
    ended: str = ""

    def rows(self, value: float) -> tuple[Row, ...]:
        """The gap of a chosen machine, of the given criterion, as a row of a certificate."""
        formula = "criterion - lower bound, over all widths and gammas"
        return (Row("gap of width and gamma", value - self.bound, value + self.floor / self.gap, self.gap, formula),)

    def facts(self, kernel: Any) -> tuple[tuple[str, str], ...]:
        """The widths, whether that of the chosen kernel is at an end, and the effort, for a certificate's record."""
        (low, high), width = self.widths, float(kernel.sigma)
        searched = f"{low:.4g} to {high:.4g}, every width and every gamma of the range"
        ends = [name for name, end in (("lower", low), ("upper", high)) if abs(np.log(width / end)) < _AT_END]
        if ends:
            searched += f"; best near the {ends[0]} end, sigma_range widens it"
        effort = f"{self.zones} kernel matrices, {self.cells} cells"
        return (
            ("width searched", searched),
            ("search of width", f"{effort}; {self.ended}" if self.ended else effort),
        )


class _Open:
    """Zones still to be looked at, the smallest bound first; what was closed; and the best point."""

    def __init__(self, gap: float, known: float) -> None:
        self.gap, self.closed, self.best, self.known, self.floor = gap, np.inf, np.inf, known, 0.0
        self.place = (0.0, 0.0)
        self._order = itertools.count()
        self.zones: list[tuple[float, int, float, float, Array, Array]] = []

    @property
    def wanted(self) -> float:
        """The bound at which a cell is closed."""
        return (1.0 - self.gap) * min(self.best, self.known) - self.floor

    def put(self, t: float, half: float, cells: Array, bounds: Array) -> None:
        """Add a zone with intervals of log lambda and their bounds so far."""
        heapq.heappush(self.zones, (float(bounds.min()), next(self._order), t, half, cells, bounds))

    def next(self) -> tuple[float, float, Array, Array]:
        """The zone of the smallest bound, less what has become good enough."""
        _, _, t, half, cells, bounds = heapq.heappop(self.zones)
        still = bounds < self.wanted
        self.close(bounds[~still])
        return t, half, cells[still], bounds[still]

    def close(self, bounds: Array) -> None:
        """Count bounds that are final."""
        self.closed = min(self.closed, float(bounds.min(initial=np.inf)))

    def take(self, t: float, cells: Array, values: Array) -> None:
        """Values in the middle of cells."""
        least = int(values.argmin())
        if values[least] < self.best:
            middle = float(np.exp(cells[least]).mean())
            self.best, self.place = float(values[least]), (t, middle)

    @property
    def bound(self) -> float:
        """No point of the rectangle is below this."""
        remaining = self.zones[0][0] if self.zones else np.inf
        return max(min(self.closed, remaining, self.best), 0.0)


def search_widths(
    family: WidthFamily,
    Y: Array,
    criterion: str,
    lambdas: tuple[float, float],
    logarithms: tuple[float, float],
    gap: float,
    most: int,
    weights: Array | None = None,
    known: float = np.inf,
    step: Callable[[str], None] | None = None,
) -> WidthSearch:
    """Minimise over widths (``logarithms``, in units of the family's) and lambda; outputs share both.

    At most ``most`` kernel matrices are decomposed. ``known`` is a value that another kernel has reached: cells above
    it are closed. An interrupt of the user ends the search with what is known by then.
    """
    start, stop = logarithms
    d = family.dimension
    first = min(_HALF, 1.0 / d, _HALF / np.sqrt(d))
    edges = np.linspace(start, stop, max(1, int(np.ceil((stop - start) / (2.0 * first)))) + 1)
    low, high = np.log(lambdas[0]), np.log(lambdas[1])
    cuts = np.linspace(low, high, max(1, int(np.ceil((high - low) / _LENGTH))) + 1)
    cells = np.column_stack([cuts[:-1], cuts[1:]])
    todo, ended, zones, evaluated = _Open(gap, known), "", 0, 0
    for left, right in itertools.pairwise(edges):
        todo.put(float(0.5 * (left + right)), float(0.5 * (right - left)), cells, np.zeros(len(cells)))
    current: tuple[float, float, Array, Array] | None = None
    try:
        while todo.zones:
            if zones >= most:
                ended = "ended by max_evaluations before the gap was reached"
                break
            current = todo.next()
            if len(current[2]):
                evaluated += _explored(todo, family, Y, criterion, weights, *current)
                zones += 1
            current = None
            if step is not None:
                step(f"lower bound {100.0 * todo.bound / todo.best if todo.best > 0.0 else 100.0:.1f} % of the best")
    except KeyboardInterrupt:
        if not np.isfinite(todo.best):
            raise
        ended = "interrupted before the gap was reached"
        if current is not None and len(current[2]):
            todo.put(*current)
    if not ended and todo.bound < todo.wanted:
        ended = "ended by rounding before the gap was reached"
    widths = tuple(family.unit * float(np.exp(end)) for end in logarithms)
    found = (*todo.place, todo.best, todo.bound, todo.floor)
    return WidthSearch(*found, (widths[0], widths[1]), gap, zones, evaluated, ended)


def _explored(
    todo: _Open,
    family: WidthFamily,
    Y: Array,
    criterion: str,
    weights: Array | None,
    t: float,
    half: float,
    cells: Array,
    bounds: Array,
) -> int:
    """Bound all cells of a zone, and hand what stays open to its halves; the number of cells looked at."""
    zone = Zone.of(family, t, half, weights)
    targets = zone.spectrum.targets(Y)
    spread = float(np.square(targets.coordinates).sum()) / zone.spectrum.n
    todo.floor = (relative_rounding(30.0 * zone.spectrum.n)) ** 2 * spread
    kept, count = [], 0
    while len(cells):
        part, rest = slice(0, _AT_ONCE), slice(_AT_ONCE, None)
        now, later = (cells[part], bounds[part]), (cells[rest], bounds[rest])
        found = bounded_cells(zone, targets, now[0], criterion, todo.wanted)
        count += len(now[0])
        todo.take(t, now[0], found.values)
        lower = np.maximum(found.lower, now[1])
        done = lower >= todo.wanted
        todo.close(lower[done])
        long = np.diff(now[0], axis=1)[:, 0] > _SMALLEST_LENGTH
        halve = ~done & long & ~(found.by_lambda <= _SHARE * found.by_width)
        stay = ~done & ~halve
        kept.append((now[0][stay], lower[stay]))
        middle = now[0][halve].mean(axis=1)
        halves = [np.column_stack([now[0][halve][:, 0], middle]), np.column_stack([middle, now[0][halve][:, 1]])]
        cells = np.concatenate([*halves, later[0]])
        bounds = np.concatenate([lower[halve], lower[halve], later[1]])
    remaining, at_least = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    if len(remaining) and half > _SMALLEST_HALF:
        for side in (-0.5, 0.5):
            todo.put(t + side * half, 0.5 * half, remaining, at_least)
    elif len(remaining):
        todo.close(at_least)
    return count
