"""The one search over simplices: what it finds, what it proves, and that no end leaves a hole."""

from types import SimpleNamespace

import numpy as np
import pytest

from substrate.errors import SolverError
from substrate.fusion.search import INTERRUPTED, Cut, Family, Limits, minimise

STEEPEST = 12.0


def wave(x):
    return np.sin(9.0 * x) + 0.5 * np.cos(3.0 * x) + x


class Wave(Family):
    """A function of one number with a known largest slope; ``fails_at`` raises at a solve."""

    def __init__(self, fails_at=10**9, error=None):
        super().__init__(None, (1.0,))
        self.fails_at, self.failure = fails_at, error

    def evaluate(self, theta):
        if theta not in self.knots:
            self.solves += 1
            if self.solves == self.fails_at:
                raise self.failure
            self.knots[theta] = self.knot(theta, None)
        return self.error(theta)

    def knot(self, theta, point):
        return SimpleNamespace(error=float(wave(theta[0])))

    def bound(self, corners, target, patience, limits):
        (low,), (high,) = corners
        return 0.5 * (wave(low) + wave(high)) - 0.5 * STEEPEST * (high - low)

    def cut(self, corners, target):
        return Cut(0, 1, 0.5)


def searched(gap=1e-2, budget=10**6, **failure):
    limits = Limits(budget, np.inf)
    return minimise(Wave(**failure), [(0.0, 1.0)], gap=gap, limits=limits, progress=lambda *_: None, floor=-99.0)


def assert_covered(result):
    place = 0.0
    for low, high in sorted((cell.corners[0][0], cell.corners[1][0]) for cell in result.cells):
        assert low <= place
        place = max(place, high)
    assert place == 1.0
    assert result.lower_bound <= wave(np.linspace(0.0, 1.0, 2001)).min()
    for cell in result.cells:
        assert wave(np.linspace(cell.corners[0][0], cell.corners[1][0], 50)).min() >= cell.bound - 1e-12


def test_a_search_that_ends_by_itself_proves_the_gap():
    result = searched()
    assert result.stop == "the gap of 0.01 is met"
    assert result.lower_bound >= result.error - 1e-2 * abs(result.error)
    assert_covered(result)


@pytest.mark.parametrize("k", [12, 13, 15, 20, 33])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SolverError("out of luck")])
def test_no_end_leaves_a_hole(k, error):
    result = searched(fails_at=k, error=error)
    assert result.stop == (INTERRUPTED if isinstance(error, KeyboardInterrupt) else "a solver failed: out of luck")
    assert result.lower_bound < result.error - 1e-2 * abs(result.error)
    assert_covered(result)


def test_a_spent_budget_keeps_what_is_proved():
    result = searched(budget=20)
    assert result.stop == "the budget of 20 solves is spent"
    assert_covered(result)
