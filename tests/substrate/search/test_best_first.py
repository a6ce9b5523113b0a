"""The one search over cells: what it finds, what it proves, and that no end leaves a hole."""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest

from substrate.errors import SolverError
from substrate.search.best_first import INTERRUPTED, BestFirst, Limits

STEEPEST = 12.0


def wave(x):
    return np.sin(9.0 * x) + 0.5 * np.cos(3.0 * x) + x


@dataclass(slots=True)
class Piece:
    low: float
    high: float
    bound: float


@dataclass
class Wave:
    """A function of one number with a known largest slope, minimised over [0, 1]; ``fails_at`` raises at a solve."""

    gap: float
    limits: Limits
    fails_at: int = 10**9
    error: BaseException = field(default_factory=KeyboardInterrupt)
    smallest: float = 0.0
    collapsed: str = "collapsed"
    usual: float = 4.0
    solves: int = 0
    best: float = np.inf

    def value(self, x):
        self.solves += 1
        if self.solves == self.fails_at:
            raise self.error
        found = float(wave(x))
        self.best = min(self.best, found)
        return found

    def target(self):
        return self.best - self.gap

    def cover(self):
        edges = np.linspace(0.0, 1.0, 5)
        return [self.piece(low, high, -np.inf) for low, high in pairwise(edges)]

    def piece(self, low, high, floor):
        middle = 0.5 * (low + high)
        return Piece(low, high, max(self.value(middle) - 0.5 * STEEPEST * (high - low), floor))

    def priority(self, cell):
        return cell.bound

    def refine(self, cell, target):
        if cell.high - cell.low <= self.smallest:
            return []
        self.limits.check(self.solves, 2)
        middle = 0.5 * (cell.low + cell.high)
        return [self.piece(cell.low, middle, cell.bound), self.piece(middle, cell.high, cell.bound)]


def searched(gap=1e-3, budget=10**6, time_limit=np.inf, **options):
    limits = Limits(budget, time_limit)
    space = Wave(gap, limits, **options)
    search = BestFirst(space, limits, lambda *_: None, "met", floor=-99.0)
    search.run()
    return space, search


def assert_covered(search):
    cells = sorted((cell.low, cell.high) for cell in search.cells)
    place = 0.0
    for low, high in cells:
        assert low <= place
        place = max(place, high)
    assert place == 1.0
    least = wave(np.linspace(0.0, 1.0, 2001)).min()
    assert search.lower_bound <= least
    for cell in search.cells:
        assert wave(np.linspace(cell.low, cell.high, 50)).min() >= cell.bound - 1e-12


def test_a_search_that_ends_by_itself_proves_the_gap():
    space, search = searched()
    assert search.stop == "met"
    assert search.lower_bound >= space.best - 1e-3
    assert not search.open
    assert_covered(search)


@pytest.mark.parametrize("k", [5, 6, 7, 8, 11, 20, 33])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SolverError("out of luck")])
def test_no_end_leaves_a_hole(k, error):
    space, search = searched(fails_at=k, error=error)
    assert search.covered
    assert search.stop == (INTERRUPTED if isinstance(error, KeyboardInterrupt) else "a solver failed: out of luck")
    assert search.lower_bound < space.best - 1e-3
    assert_covered(search)
