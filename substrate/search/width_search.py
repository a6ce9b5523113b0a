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

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.rounding import relative_rounding
from substrate.search.best_first import INTERRUPTED, BestFirst, Limits, Progress
from substrate.search.width_bounds import WidthFamily, Zone
from substrate.search.width_criteria import CellBounds, bounded_cells

__all__ = ["WidthSearch", "WidthZones", "ZoneCell", "search_widths"]

#: The longest first zone, in log sigma from its middle.
_HALF = 0.25
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
        """Return the gap of a chosen machine, of the given criterion, as a row of a certificate."""
        formula = "criterion - lower bound, over all widths and gammas"
        return (
            Row(
                name="gap of width and gamma",
                value=value - self.bound,
                scale=value + self.floor / self.gap,
                tolerance=self.gap,
                formula=formula,
            ),
        )

    def facts(self, kernel: Any) -> tuple[tuple[str, str], ...]:
        """Return the widths, whether that of the chosen kernel is at an end, and the effort, for a certificate's
        record.
        """
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


@dataclass(slots=True)
class ZoneCell:
    """Widths around t, intervals of log lambda there, and their bounds so far; ``bound`` is the smallest."""

    t: float
    half: float
    cells: Array
    bounds: Array
    bound: float


@dataclass(slots=True)
class WidthZones:
    """The rectangle, covered by zones (:mod:`substrate.search.best_first`), and the best point so far."""

    #: Length of the first intervals in log lambda.
    first_length: ClassVar[float] = 0.5
    family: WidthFamily
    Y: Array
    criterion: str
    weights: Array | None
    start: list[ZoneCell]
    gap: float
    best_value: float
    limits: Limits
    best: float = np.inf
    floor: float = 0.0
    place: tuple[float, float] = (0.0, 0.0)
    #: Decompositions, and intervals that were looked at.
    solves: int = 0
    evaluated: int = 0
    collapsed: str = "ended by rounding before the gap was reached"
    goes_on: bool = True
    usual: float = 4.0

    def target(self) -> float:
        """Return the bound at which an interval is closed."""
        return (1.0 - self.gap) * min(self.best, self.best_value) - self.floor

    def cover(self) -> list[ZoneCell]:
        """Return the first zones, of which nothing is known."""
        return self.start

    def priority(self, cell: ZoneCell) -> float:
        """Return the bound of a zone: the smallest is first."""
        return cell.bound

    def refine(self, cell: ZoneCell, target: float) -> list[ZoneCell]:
        """Bound the intervals of a zone that are open still, and hand those that stay open to its halves."""
        still = cell.bounds < target
        closed = float(cell.bounds[~still].min(initial=np.inf))
        if not still.any():
            return []
        self.limits.check(self.solves)
        cells, at_least, least = self._explore(cell.t, cell.half, cell.cells[still], cell.bounds[still])
        self.solves += 1
        cells_of_zone = [_close(min(closed, least))]
        if len(cells) and cell.half > _SMALLEST_HALF:
            bound, half = float(at_least.min()), 0.5 * cell.half
            cells_of_zone += [
                ZoneCell(t=cell.t + side * half, half=half, cells=cells, bounds=at_least, bound=bound)
                for side in (-1.0, 1.0)
            ]
        elif len(cells):
            cells_of_zone.append(_close(float(at_least.min())))
        return cells_of_zone

    def _explore(self, t: float, half: float, cells: Array, bounds: Array) -> tuple[Array, Array, float]:
        """Bound all intervals of a zone: those that stay open with their bounds, and the least bound of the others."""
        bound_cells = self._decompose(t, half, cells)
        kept, closed = [], np.inf
        while len(cells):
            first, others = slice(0, _AT_ONCE), slice(_AT_ONCE, None)
            now, later = (cells[first], bounds[first]), (cells[others], bounds[others])
            bounds_found = bound_cells(now[0])
            self.evaluated += len(now[0])
            least = int(bounds_found.values.argmin())
            self._take(t, float(np.exp(now[0][least]).mean()), float(bounds_found.values[least]))
            lower = np.maximum(bounds_found.lower, now[1])
            is_closed = lower >= self.target()
            closed = min(closed, float(lower[is_closed].min(initial=np.inf)))
            long = np.diff(now[0], axis=1)[:, 0] > _SMALLEST_LENGTH
            halve = ~is_closed & long & ~(bounds_found.by_lambda <= _SHARE * bounds_found.by_width)
            stay = ~is_closed & ~halve
            kept.append((now[0][stay], lower[stay]))
            middle = now[0][halve].mean(axis=1)
            halves = [np.column_stack([now[0][halve][:, 0], middle]), np.column_stack([middle, now[0][halve][:, 1]])]
            cells = np.concatenate([*halves, later[0]])
            bounds = np.concatenate([lower[halve], lower[halve], later[1]])
        remaining, at_least = (np.concatenate(arrays) for arrays in zip(*kept, strict=True))
        return remaining, at_least, closed

    def _decompose(self, t: float, half: float, cells: Array) -> Callable[[Array], CellBounds]:
        """Decompose the kernel matrix of a zone; return the function that bounds some of its intervals."""
        zone = Zone.of(self.family, t, half, self.weights)
        targets = zone.spectrum.targets(self.Y)
        spread = float(np.square(targets.coordinates).sum()) / zone.spectrum.n
        self.floor = (relative_rounding(30.0 * zone.spectrum.n)) ** 2 * spread
        return lambda now: bounded_cells(zone, targets, now, self.criterion, self.target())

    def _take(self, t: float, lam: float, value: float) -> None:
        """Take a value where it is the best so far."""
        if value < self.best:
            self.best, self.place = value, (t, lam)


def _close(bound: float) -> ZoneCell:
    """Return the bound of intervals that are final."""
    return ZoneCell(t=0.0, half=0.0, cells=np.zeros((0, 2)), bounds=np.zeros(0), bound=bound)


def search_widths(
    family: WidthFamily,
    Y: Array,
    criterion: str,
    lambdas: tuple[float, float],
    logarithms: tuple[float, float],
    gap: float,
    most: int,
    weights: Array | None = None,
    best_value: float = np.inf,
    step: Callable[[str], None] | None = None,
    kind: type[WidthZones] | None = None,
) -> WidthSearch:
    """Minimise over widths (``logarithms``, in units of the family's) and lambda; outputs share both.

    At most ``most`` kernel matrices are decomposed. ``best_value`` is a value that another kernel has reached: cells
    above it are closed. An interrupt of the user ends the search with what is known by then. ``kind`` says how zones
    are decomposed, :class:`WidthZones` unless given.
    """
    kind = WidthZones if kind is None else kind
    start, stop = logarithms
    d = family.dimension
    first = min(_HALF, 1.0 / d, _HALF / np.sqrt(d))
    edges = np.linspace(start, stop, max(1, int(np.ceil((stop - start) / (2.0 * first)))) + 1)
    low, high = np.log(lambdas[0]), np.log(lambdas[1])
    cuts = np.linspace(low, high, max(1, int(np.ceil((high - low) / kind.first_length))) + 1)
    cells = np.column_stack([cuts[:-1], cuts[1:]])
    zones = [
        ZoneCell(
            t=float(0.5 * (left + right)),
            half=float(0.5 * (right - left)),
            cells=cells,
            bounds=np.zeros(len(cells)),
            bound=0.0,
        )
        for left, right in itertools.pairwise(edges)
    ]
    limits = Limits(most)
    space = kind(
        family=family,
        Y=Y,
        criterion=criterion,
        weights=weights,
        start=zones,
        gap=gap,
        best_value=best_value,
        limits=limits,
    )
    search = BestFirst[ZoneCell](space, limits, _progress(step), "")
    search.run()
    bound = max(min(search.lower_bound, space.best), 0.0)
    ended = search.stop
    if ended == INTERRUPTED:
        ended = "interrupted before the gap was reached"
    elif ended and ended != space.collapsed:
        ended = "ended by max_evaluations before the gap was reached"
    t, lam = space.place
    low_width, high_width = (family.unit * float(np.exp(end)) for end in logarithms)
    return WidthSearch(
        t=t,
        lam=lam,
        value=space.best,
        bound=bound,
        floor=space.floor,
        widths=(low_width, high_width),
        gap=gap,
        zones=space.solves,
        cells=space.evaluated,
        ended=ended,
    )


def _progress(step: Callable[[str], None] | None) -> Progress:
    """Announce the bound after every zone."""
    last = 0

    def show(zones: int, best: float, lower: float) -> None:
        nonlocal last
        if step is not None and zones > last:
            last = zones
            step(f"lower bound {100.0 * max(lower, 0.0) / best if best > 0.0 else 100.0:.1f} % of the best")

    return show
