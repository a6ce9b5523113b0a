r"""Best-first search over cells with a lower bound each: the one loop behind every proof over a range of parameters.

A range is covered by cells :math:`T`, each with a proved bound :math:`\beta_T \le v(\theta)` for all
:math:`\theta \in T`. With the smallest value :math:`\bar v` that was found,

.. math:: \min_T \beta_T \;\le\; \min_\theta v(\theta) \;\le\; \bar v ,

whatever has been cut and whatever has not: a cell is replaced by parts that cover it, and stays until all of them are
known. So the search may end at any time, and its bound covers all cells, including cells that were never looked at.

A cell whose bound reaches the target, :math:`\bar v` less the gap that was asked for, is settled. The target falls
with :math:`\bar v`, so a settled cell stays settled. The most doubtful of the others is next. The search ends when no
cell is open, when one has collapsed to rounding, when the budget of solves or the time is spent, when a solver fails,
or at an interrupt of the user; ``stop`` says which, and only the first is a proof of the gap.

What a cell is, how it is bounded and how it is cut is the business of a :class:`CellSpace`: intervals and simplices of
weights (:mod:`substrate.fusion`). One parameter is several with one.
"""

import heapq
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from substrate.errors import LongFitWarning, SolverError
from substrate.progress import LateProgress

__all__ = [
    "INTERRUPTED",
    "BestFirst",
    "CellSpace",
    "Limits",
    "Progress",
    "SpentError",
    "describe_met",
    "end_by",
    "late_progress",
]

#: Called with the number of solves, the best value and the bound of the cell at hand.
Progress = Callable[[int, float, float], None]

#: Why a search ended where the user interrupted it.
INTERRUPTED = "interrupted; the best so far is kept"
#: Seconds from which on an estimate is stated as a warning, as for other long fits.
_LONG = 600.0


class BoundedCell(Protocol):
    """A part of a range with a proved lower bound."""

    bound: float


C = TypeVar("C", bound=BoundedCell)


class CellSpace(Protocol[C]):
    """The space of a search: how a range is covered by cells, how they are ordered, and how one is refined."""

    #: Why the bound misses its target where a cell has collapsed, in words; others are refined all the same.
    collapsed: str
    #: How many times the solves of the first cells a search takes in all, as a rule.
    usual: float

    @property
    def solves(self) -> int:
        """Return how many problems were solved."""

    @property
    def best(self) -> float:
        """Return the smallest value found so far; infinite before the first."""

    def target(self) -> float:
        """Return the bound at which a cell is settled."""

    def cover(self) -> Sequence[C]:
        """Solve what the first cells need, and return cells that cover the range."""

    def priority(self, cell: C) -> float:
        """Return where a cell stands in the queue, the smallest first."""

    def refine(self, cell: C, target: float) -> Sequence[C]:
        """Return cells that cover this one: the same with a better bound, or its parts; none if it has collapsed."""


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


@contextmanager
def late_progress(what: str) -> Iterator[Progress]:
    """Yield a function that writes a line to a terminal from ten seconds on."""
    line = LateProgress()

    def show(solves: int, best: float, lower: float) -> None:
        line.piece(f"{what}: {solves} solves, best {best:.6g}, bound {lower:.6g}")

    try:
        yield show
    finally:
        line.close()


@dataclass(slots=True)
class BestFirst(Generic[C]):
    """A search over a space: its open and settled cells, and why it ended (changed in place)."""

    space: CellSpace[C]
    limits: Limits
    progress: Progress
    #: The words of a search that ended with all cells settled.
    met: str
    #: What is proved before all of the range is covered.
    floor: float = -math.inf
    stop: str = ""
    covered: bool = False
    settled: list[C] = field(default_factory=list)
    open: list[tuple[float, int, C]] = field(default_factory=list)
    _number: int = 0
    #: Whether a cell could not be refined.
    _failed: bool = False

    @property
    def cells(self) -> list[C]:
        """Return all cells, which cover the range."""
        return [*self.settled, *(cell for _, _, cell in self.open)]

    @property
    def lower_bound(self) -> float:
        """Return the smallest bound of all cells, also of those that were not reached."""
        if not self.covered:
            return self.floor
        return min((cell.bound for cell in self.cells), default=self.floor)

    def run(self) -> None:
        """Search until every cell is settled, or until something ends it; what is proved until then stays proved."""
        try:
            began = time.monotonic()
            solved = self.space.solves
            for cell in self.space.cover():
                self._push(cell)
            self.covered = True
            self.limits.announce(self.space.solves - solved, self.space.usual, began)
            while self.open:
                self._step()
            self.stop = self.met
            if self._failed and self.lower_bound < self.space.target():
                self.stop = self.space.collapsed
        except (SpentError, KeyboardInterrupt, SolverError) as error:
            self.stop = end_by(error, math.isfinite(self.space.best))

    def _push(self, cell: C) -> None:
        self._number += 1
        heapq.heappush(self.open, (self.space.priority(cell), self._number, cell))

    def _step(self) -> None:
        """Settle the most doubtful cell, or replace it by cells that cover it."""
        _, number, cell = self.open[0]
        best = self.space.best
        self.progress(self.space.solves, best, min(cell.bound, best))
        target = self.space.target()
        if cell.bound >= target:
            self.settled.append(cell)
        else:
            self.limits.check_time()
            children = self.space.refine(cell, target)
            if not children:
                self._failed = True
                self.settled.append(cell)
            target = self.space.target()  # it falls with the best value
            for child in children:
                if child.bound >= target:
                    self.settled.append(child)
                else:
                    self._push(child)
        # after its parts, so that an interrupt leaves no hole
        if self.open[0][1] == number:
            heapq.heappop(self.open)
        else:
            remaining = [entry for entry in self.open if entry[1] != number]
            heapq.heapify(remaining)
            self.open = remaining
