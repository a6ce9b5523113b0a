r"""Best-first search over simplices of parameters: a family of bounds in, the best values and what is proved out.

A box is covered by simplices (intervals for one parameter) whose vertices are shared. A family of programs evaluates
the validation error at a vertex, and bounds it from below on a simplex; a simplex whose bound is too low is cut in two
along an edge. What has been cut is a tree, from which the simplices follow again.

With the smallest error :math:`\bar v` that was found, and a proved bound :math:`\beta_T \le v(\theta)` for all
:math:`\theta \in T` of every simplex T,

.. math:: \min_T \beta_T \;\le\; \min_\theta v(\theta) \;\le\; \bar v ,

whatever has been cut and whatever has not: a simplex is replaced by parts that cover it, and stays until all of them
are known. So the search may end at any time, and its bound covers all simplices, those that were never looked at
included.

A simplex whose bound reaches the target, :math:`\bar v` less the gap that was asked for, is settled. The target falls
with :math:`\bar v`, so a settled one stays settled. The most doubtful of the others is next. The search ends when none
is open, when one has collapsed to rounding, when the budget of solves or the time is spent, when a solver fails, or at
an interrupt of the user; ``stop`` says which, and only the first is a proof of the gap.
"""

import math
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product
from typing import Any, NamedTuple

import numpy as np

from substrate.arrays import Array
from substrate.declare.program import Point, Program
from substrate.errors import LongFitWarning, SolverError

__all__ = [
    "INTERRUPTED",
    "Cell",
    "Family",
    "Limits",
    "Progress",
    "SearchResult",
    "SpentError",
    "Theta",
    "along",
    "cover",
    "describe_met",
    "geometric_share",
    "minimise",
]

Theta = tuple[float, ...]
Box = Sequence[tuple[float, float]]

#: Ratio of neighbouring values at the start, by the number of parameters.
_RATIOS = {1: 4.0, 2: 10.0, 3: 100.0}
#: The smallest positive value at the start, as a share of the largest, where the range begins at zero.
_LOWEST = 1e-4
#: Ratio of the ends of an edge from which on it is cut at the geometric mean.
_RATIO = 4.0
#: An edge shorter than this, relative to its ends, is not cut any more.
_COLLAPSED = 1e-12
#: A weight of zero is solved for as this share of its range: zero leaves variables such as a maximum undetermined.
_TINY = 1e-9
#: How many times the solves of the first simplices a search takes in all, as a rule.
_USUAL = 15.0
#: Called with the number of solves, the best value and the bound of the cell at hand.
Progress = Callable[[int, float, float], None]

#: Why a search ended where the user interrupted it.
INTERRUPTED = "interrupted; the best so far is kept"
#: Seconds from which on an estimate is stated as a warning, as for other long fits.
_LONG = 600.0
#: Share of the gap within which the search stays, for what rounding changes afterwards.
_MARGIN = 1e-2


class SpentError(Exception):
    """The budget of solves or the time is spent."""


@dataclass(slots=True)
class Limits:
    """The largest number of solves and of seconds; the clock runs from where the limits are made.

    ``spent`` are the solves of an earlier search that count too.
    """

    budget: int
    time_limit: float = math.inf
    spent: int = 0
    started: float = field(default_factory=time.monotonic)

    @property
    def seconds_left(self) -> float:
        """Return the remaining time in seconds."""
        return self.time_limit - (time.monotonic() - self.started)

    def check(self, solves: int, more: int = 1) -> None:
        """Raise where ``more`` solves after ``solves`` would exceed the budget, or where the time is spent."""
        if self.spent + solves + more > self.budget:
            raise SpentError(f"the budget of {self.budget} solves is spent")
        self.check_time()

    def check_time(self) -> None:
        """Raise where the time is spent."""
        if self.seconds_left <= 0.0:
            raise SpentError(f"the time limit of {self.time_limit:g} s is reached")

    def announce(self, solves: int, usual: float, began: float) -> None:
        """Warn where a search takes very long as a rule, estimated from its first solves since ``began``."""
        expected = min(max(self.budget, solves), usual * solves)
        seconds = min(began - self.started + (time.monotonic() - began) / max(solves, 1) * expected, self.time_limit)
        if seconds > _LONG:
            warnings.warn(
                f"this search takes about {seconds / 60.0:.0f} minutes, by its first {solves} solves. A larger gap, a "
                "narrower range, fewer rows or time_limit= (the best so far is returned, with the bound that is proved "
                "by then) take less",
                LongFitWarning,
                stacklevel=2,
            )


def describe_met(gap: float) -> str:
    """State that a search has met the gap that was asked for."""
    return f"the gap of {gap:g} is met"


def end_by(error: BaseException, has_point: bool) -> str:
    """Return why a search ended at an interrupt, a limit or a solver's failure; raise where nothing was found."""
    if not has_point:
        raise error
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return str(error) if isinstance(error, SpentError) else f"a solver failed: {error}"


class Cut(NamedTuple):
    """An edge of a simplex, by the numbers of its ends, and the share of it at which it is cut."""

    first: int
    second: int
    share: float


class Family(ABC):
    """What is searched: the sum of validation errors at values of the parameters, and a lower bound on simplices."""

    def __init__(self, base: Program, highest: Theta) -> None:
        self.base, self._highest = base, np.array(highest)
        #: What is known at every vertex that was solved.
        self.knots: dict[Theta, Any] = {}
        #: How many programs were solved.
        self.solves = 0

    def evaluate(self, theta: Theta) -> float:
        """Return the validation error at a vertex, solved if it is new."""
        if theta not in self.knots:
            weighs = self.base.q[1:].any(axis=1) | np.array([abs(P).sum() > 0.0 for P in self.base.P[1:]])
            raised = np.where(weighs, np.maximum(theta, _TINY * self._highest), theta)
            point = self.base.solve(np.append(1.0, raised))
            self.solves += 1
            self.knots[theta] = self.knot(theta, point)
        return self.error(theta)

    def error(self, theta: Theta) -> float:
        """Return the validation error at a vertex that was solved."""
        return float(self.knots[theta].error)

    @abstractmethod
    def knot(self, theta: Theta, point: Point) -> Any:
        """Return what is known at a vertex by any point and multipliers near its optimum."""

    @abstractmethod
    def bound(self, corners: Sequence[Theta], target: float, patience: int, limits: Limits) -> float:
        """Return a lower bound on a simplex.

        It may be solved for where it can reach the target: for a target of minus infinity nothing is solved.
        ``patience`` is how often the simplex was cut without a solve.
        """

    @abstractmethod
    def cut(self, corners: Sequence[Theta], target: float) -> Cut:
        """Return where a simplex is cut."""


@dataclass(slots=True)
class Cell:
    """A simplex, its bound, the error that is expected on it, how often it was cut without a solve, and its parts."""

    corners: tuple[Theta, ...]
    bound: float
    expected: float
    patience: int = 0
    cut: Cut | None = None
    parts: tuple["Cell", ...] = ()

    def walk(self) -> "Iterator[Cell]":
        """Yield the simplex, and then all parts of its first half and of its second."""
        yield self
        for part in self.parts:
            yield from part.walk()


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best values, their error, the bound over the box, why the search ended, and the first cells.

    ``cells`` are those that cover the box in the end.
    """

    best: Theta
    error: float
    lower_bound: float
    stop: str
    roots: tuple[Cell, ...]
    cells: tuple[Cell, ...]


def levels(low: float, high: float, parameters: int) -> Array:
    """Return the values at which a search starts: geometric, with zero where the range begins there."""
    if low < 0.0:
        return np.linspace(low, high, 5)
    bottom = low if low > 0.0 else _LOWEST * high
    steps = max(math.ceil(math.log(high / bottom) / math.log(_RATIOS[parameters]) - 1e-9), 1)
    values = np.geomspace(bottom, high, steps + 1)
    values[0], values[-1] = bottom, high
    return values if low > 0.0 else np.append(0.0, values)


def cover(box: Box) -> list[tuple[Theta, ...]]:
    """Return simplices that cover a box: the cells of a grid along their diagonals, one for each order."""
    grid = [levels(low, high, len(box)) for low, high in box]
    simplices = []
    for cell in product(*(range(len(values) - 1) for values in grid)):
        for order in permutations(range(len(box))):
            at = list(cell)
            corners = [tuple(float(values[i]) for values, i in zip(grid, at, strict=True))]
            for axis in order:
                at[axis] += 1
                corners.append(tuple(float(values[i]) for values, i in zip(grid, at, strict=True)))
            simplices.append(tuple(corners))
    return simplices


def along(first: Theta, second: Theta, share: float) -> Theta:
    """Return the point of an edge at a share of it."""
    a, b = np.array(first), np.array(second)
    return tuple(float(v) for v in np.clip(a + share * (b - a), np.minimum(a, b), np.maximum(a, b)))


def geometric_share(first: Theta, second: Theta) -> float:
    """Return the share at which an edge is cut: the middle, or the geometric mean if its ends are far apart."""
    a, b = np.array(first), np.array(second)
    low, high = np.minimum(a, b), np.maximum(a, b)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where((low >= 0.0) & (high > low), high / np.maximum(low, _LOWEST * high), 1.0)
    k = int(ratios.argmax())
    if ratios[k] <= _RATIO:
        return 0.5
    mean = math.sqrt(high[k] * max(low[k], high[k] / _RATIO**2))
    return float((mean - a[k]) / (b[k] - a[k]))


def width(first: Theta, second: Theta) -> float:
    """Return the length of an edge: of logarithms, where its ends are positive."""
    a, b = np.array(first), np.array(second)
    size = np.maximum(np.abs(a), np.abs(b))
    return float((np.abs(a - b) / np.where(size > 0.0, size, 1.0)).max())


@dataclass(slots=True)
class _Search:
    """What a search has for every simplex: the family, the gap, and whether a simplex could not be cut."""

    family: Family
    gap: float
    least: float
    limits: Limits
    has_collapsed: bool = False

    @property
    def best(self) -> float:
        """Return the smallest error found so far; infinite before the first."""
        return min(map(self.family.error, self.family.knots), default=np.inf)

    def target(self) -> float:
        """Return the bound at which a simplex is settled."""
        best = self.best
        return best - (1.0 - _MARGIN) * self.gap * max(abs(best), self.least)

    def evaluate(self, theta: Theta) -> None:
        """Solve a vertex that is new."""
        if theta not in self.family.knots:
            if self.family.knots:  # the first one is solved whatever the limits
                self.limits.check(self.family.solves)
            self.family.evaluate(theta)

    def cell(self, corners: tuple[Theta, ...], bound: float, patience: int) -> Cell:
        """Return a cell with the bound that follows from what is known; without any, the best vertices are first."""
        proved = self.family.bound(corners, -np.inf, 0, self.limits)
        least = min(self.family.error(theta) for theta in corners)
        return Cell(corners, max(bound, proved), proved if np.isfinite(proved) else least, patience)

    def refine(self, cell: Cell) -> tuple[Cell, ...]:
        """Give the simplex a better bound; return its halves where that is not enough, none if it has collapsed."""
        before = self.family.solves
        cell.bound = max(cell.bound, self.family.bound(cell.corners, self.target(), cell.patience, self.limits))
        target = self.target()
        if cell.bound >= target:
            return ()
        cut = self.family.cut(cell.corners, target)
        ends = cell.corners[cut.first], cell.corners[cut.second]
        theta = along(*ends, cut.share)
        if width(*ends) <= _COLLAPSED or theta in ends:
            self.has_collapsed = True
            return ()
        patience = cell.patience + 1 if self.family.solves == before else 0
        self.evaluate(theta)
        halves = []
        for out in (cut.first, cut.second):
            corners = tuple(theta if k == out else corner for k, corner in enumerate(cell.corners))
            halves.append(self.cell(corners, cell.bound, patience))
        cell.cut, cell.parts = cut, tuple(halves)  # both at once, so that an interrupt leaves no hole
        return cell.parts


def _leaves(roots: Sequence[Cell]) -> tuple[Cell, ...]:
    """Return the simplices that were not cut, which cover all others."""
    return tuple(cell for root in roots for cell in root.walk() if not cell.parts)


def minimise(
    family: Family,
    box: Box,
    *,
    gap: float,
    limits: Limits,
    progress: Progress,
    floor: float = -np.inf,
    least: float = 0.0,
    start: tuple[Theta, ...] = (),
) -> SearchResult:
    """Minimise the validation error over a box, until no value can be better by more than a gap or the limits are met.

    ``least`` is the error below which one counts as none, ``floor`` what no error is below, proved before all of the
    box is covered. An interrupt, a failure of the solver, a spent budget or time ends the search with the best so far;
    what is proved until then stays proved. Values of ``start`` are tried first: a good one settles most simplices at
    once.
    """
    search, began, solved = _Search(family, gap, least, limits), time.monotonic(), family.solves
    roots: tuple[Cell, ...] = ()
    try:
        simplices = cover(box)
        for corners in (start, *simplices):
            for theta in corners:
                search.evaluate(theta)
        roots = tuple(search.cell(corners, floor, 0) for corners in simplices)
        limits.announce(family.solves - solved, _USUAL, began)
        waiting = list(roots)
        while waiting:
            cell = waiting.pop(min(range(len(waiting)), key=lambda k: waiting[k].expected))
            best = search.best
            progress(family.solves, best, min(cell.bound, best))
            if cell.bound < search.target():
                limits.check_time()
                waiting += search.refine(cell)
        stop = describe_met(gap)
        if search.has_collapsed and min(cell.bound for cell in _leaves(roots)) < search.target():
            stop = "the cells have collapsed: the optimum is not unique there, or not known well enough"
    except (SpentError, KeyboardInterrupt, SolverError) as error:
        stop = end_by(error, math.isfinite(search.best))
    cells = _leaves(roots)
    smallest, place = min((family.error(theta), theta) for theta in family.knots)
    lower = min((cell.bound for cell in cells), default=floor)
    return SearchResult(place, smallest, min(lower, smallest), stop, roots, cells)
