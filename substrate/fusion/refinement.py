r"""Adaptive refinement: knots are added where the lower bound is weakest, until it reaches the best value found.

The knots start at rho = 0 and grow geometrically until the penalty is as small as the constraints allow; from there on
the machine does not change any more, and where that is proved the bound is for all values
(:mod:`substrate.fusion.fold`), elsewhere for those up to the last knot. Then the interval with the smallest lower bound
is cut where that bound is attained, repeatedly. Of every interval the larger one of two bounds counts: that of
:mod:`substrate.penalized.homotopy.chord_certificate`, which takes the distance of the optimum from the chord in its
worst direction, and that of :mod:`substrate.fusion.simplex_bound`, which takes it in the direction of the error. The
search is that of :mod:`substrate.search.best_first`; what lies beyond the last knot is a cell of its own.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.errors import SolverError
from substrate.fusion.fold import Fold
from substrate.fusion.simplex_bound import bound_simplex
from substrate.fusion.validated_machine import MARGIN
from substrate.penalized.homotopy.chord_certificate import find_settled, interval_bounds
from substrate.search.best_first import BestFirst, Limits, Progress, SpentError, end_by

__all__ = ["BELOW", "IntervalSpace", "Refined", "bound_beyond", "common_values", "refine", "solve_all", "span_knots"]


#: Penalty, as a share of its value at weight zero, that counts as the smallest possible.
_NOUGHT = 1e-9
#: The first knot above zero, in units of the target.
_FIRST = 1e-8
#: Gap, in the units of the program, up to which a knot counts as exact.
_EXACT = 1e-12
_GROWTH = 4.0
#: Multiples of the first knot that replace it where it cannot be solved.
_LADDER = (1.0, 1e1, 1e2, 1e3, 1e4)
_DOUBLINGS = 60


def solve_all(folds: list[Fold], value: float, workers: int) -> None:
    """Solve one knot per fold."""
    if workers < 2 or len(folds) < 2:
        for fold in folds:
            fold.solve(value)
        return
    with ThreadPoolExecutor(min(workers, len(folds))) as pool:
        list(pool.map(lambda fold: fold.solve(value), folds))


def span_knots(folds: list[Fold], workers: int, up_to: float | None, limits: Limits) -> None:
    """Solve the first knots, from zero to two values where the penalty shrinks no more, or to a given value."""
    least = [fold.program.least_penalty() for fold in folds]
    unit = max(fold.size or fold.program.unit for fold in folds)
    first = _start(folds, _FIRST * unit if up_to is None else min(_FIRST * unit, 1e-5 * up_to))
    most = [fold.program.penalty(fold.knots[first].x) for fold in folds]
    value, ended = 1e-3 * unit, 0
    for _ in range(_DOUBLINGS):
        value = value if up_to is None else min(value, up_to)
        limits.check(sum(len(fold.knots) for fold in folds), len(folds))
        solve_all(folds, value, workers)
        penalties = [fold.program.penalty(fold.knots[value].x) for fold in folds]
        ended += all(
            low is not None and now - low <= _NOUGHT * max(top - low, 1e-12)
            for low, now, top in zip(least, penalties, most, strict=True)
        )
        # one knot more where nothing changes any more: larger values are bounded by the last two
        if value == up_to or (up_to is None and ended > 1):
            return
        value *= _GROWTH


def _start(folds: list[Fold], first: float) -> float:
    """Return the knots at zero, where bounds like t are not unique, and at a tiny value, which is returned.

    A knot at zero is the limit along the segment of the tiny rho. Where a fold has none, the tiny value is the smallest
    of a few that can be solved, and its primal point is used at zero too.
    """
    limits = [_by_limit(fold, first) for fold in folds]
    if all(limits):
        return first
    gaps = {}
    for factor in _LADDER:
        for fold in folds:
            fold.solve(factor * first)
        gaps[factor] = max(fold.knots[factor * first].gap for fold in folds)
        if gaps[factor] <= _EXACT:
            break
    low = min(gaps, key=lambda factor: gaps[factor]) * first
    for fold, limit in zip(folds, limits, strict=True):
        for factor in gaps:
            if factor * first != low:
                del fold.knots[factor * first]
        if not limit:
            _stand_in(fold, low)
    return low


def _by_limit(fold: Fold, first: float) -> bool:
    """Return whether the segment that begins at zero was found: then its knots at zero and at a tiny value are the
    fold's.
    """
    for further in (1e5, 1e3):
        near = fold.program.solve(further * first)
        zero, tiny = fold.program.limit(0.0, near), fold.program.limit(first, near)
        if zero is not None and tiny is not None and max(zero.gap, tiny.gap, near.gap) <= _EXACT:
            fold.knots |= {0.0: zero, first: tiny}
            return True
    return False


def _stand_in(fold: Fold, low: float) -> None:
    """Add a knot at zero from the primal point of a small rho and the multipliers of zero."""
    near, program = fold.knots[low], fold.program
    limit = program.limit(0.0, near)
    at_zero = min([program.solve(0.0), *([limit] if limit else [])], key=lambda knot: knot.gap)
    fold.stand_in(low, near, at_zero)


#: An interval shorter than this, relative to its upper end, is not cut any more.
_COLLAPSED = 1e-12
#: Ratio of neighbouring knots in a search without bounds.
_RATIO = 1.5
#: The effect of rounding in the few operations of a bound.
BELOW = 1.0 - 1e-10


@dataclass(frozen=True, slots=True)
class Refined:
    """The result of the search: knots, the sum of squares at each, the lower bound, and why it ended."""

    values: Array
    squares: Array
    lower_bound: float
    complete: bool
    solves: int
    stop: str

    @property
    def best(self) -> int:
        """Return the knot with the smallest error; the largest of several that are equal."""
        return int(self.order()[0])

    def order(self, positive: bool = False) -> NDArray[np.intp]:
        """Return the knots by their error, the larger of two equal ones first; ``positive`` leaves out that at zero.

        A knot at zero may have been taken from a small value that can be solved: its machine is that of the small one.
        """
        every = np.lexsort((-self.values, self.squares))
        return np.asarray(every[self.values[every] > 0.0] if positive else every, dtype=np.intp)

    def ends(self, value: float) -> list[tuple[str, str]]:
        """Return facts for a certificate where the chosen value is at an end of its range."""
        chosen, best = f"{value:g}", int(np.abs(self.values - value).argmin())
        if best == 0:
            return [("choice", f"at {chosen}, the lower end of its range")]
        if self.complete and self.squares[-1] <= (1.0 + 1e-9) * self.squares[best]:
            return [("choice", f"at {chosen}; the largest values of its range validate as well")]
        if best < self.values.size - 1:
            return []
        return [("choice", f"at {chosen}, the upper end of its range; up_to= looks further")]


@dataclass(slots=True)
class Interval:
    """The values between two knots, or beyond the last one, with the bound of the squares there.

    ``place`` is where the bound of the chord is attained, ``errors`` and ``radii`` the quadratics of the chord.
    """

    low: float
    high: float
    bound: float
    place: float = np.nan
    errors: Array = field(default_factory=lambda: np.zeros((0, 3)))
    radii: Array = field(default_factory=lambda: np.zeros((0, 3)))


@dataclass(slots=True)
class IntervalSpace:
    """The values of one weight, covered by the intervals between knots (:mod:`substrate.search.best_first`).

    ``least`` is the sum of squares below which one counts as none.
    """

    folds: list[Fold]
    gap: float
    limits: Limits
    workers: int = 1
    up_to: float | None = None
    least: float = 0.0
    collapsed: str = "the intervals have collapsed to rounding"
    goes_on: bool = True
    usual: float = 4.0
    #: The best value of the knots that all folds have, and how many there were when it was looked for.
    _best: tuple[int, float] = (0, np.inf)

    @property
    def solves(self) -> int:
        """Return how many programs were solved."""
        return common_values(self.folds).size * len(self.folds)

    @property
    def best(self) -> float:
        """Return the smallest sum of squares at a knot."""
        values = common_values(self.folds)
        if values.size != self._best[0]:
            self._best = values.size, float(_squares(self.folds, values).min(initial=np.inf))
        return self._best[1]

    def target(self) -> float:
        """Return the bound at which an interval is settled."""
        best = self.best
        return best - (1.0 - MARGIN) * self.gap * max(best, self.least)

    def cover(self) -> list[Interval]:
        """Solve the first knots, and bound the intervals between them and what lies beyond."""
        span_knots(self.folds, self.workers, self.up_to, self.limits)
        values = common_values(self.folds)
        beyond = bound_beyond(self.folds, values)
        tail = [] if beyond is None else [Interval(float(values[-1]), np.inf, beyond)]
        return [self.bound_interval(float(low), float(high)) for low, high in pairwise(values)] + tail

    def priority(self, cell: Interval) -> float:
        """Return the bound of an interval: the smallest is first."""
        return cell.bound

    def refine(self, cell: Interval, target: float) -> list[Interval]:
        """Cut an interval where its bound is attained; none where it has collapsed, or where that would not help."""
        width = cell.high - cell.low
        if np.isinf(width):  # knots that were added since may bound the tail better
            beyond = bound_beyond(self.folds, common_values(self.folds))
            return [] if beyond is None or beyond <= cell.bound else [Interval(cell.low, cell.high, beyond)]
        best = self.best
        collapsed = width <= _COLLAPSED * cell.high or cell.bound >= best
        if collapsed or find_settled(cell.errors, cell.radii, best)[0]:
            return []
        self.limits.check(self.solves, len(self.folds))
        middle = float(cell.low + np.clip(cell.place, 0.1, 0.9) * width)
        solve_all(self.folds, middle, self.workers)
        return [self.bound_interval(cell.low, middle), self.bound_interval(middle, cell.high)]

    def bound_interval(self, low: float, high: float) -> Interval:
        """Return the larger one of both bounds; the second is computed where the first leaves a better value
        possible.
        """
        ends = np.array([low, high])
        pairs = [fold.track(ends).quadratics() for fold in self.folds]
        errors, radii = (np.sum(parts, axis=0) for parts in zip(*pairs, strict=True))
        bounds, places = interval_bounds(errors, radii)
        bound = float(bounds[0])
        if bound < self.best:
            bound = max(bound, _directional(self.folds, low, high))
        return Interval(low=low, high=high, bound=bound, place=float(places[0]), errors=errors, radii=radii)


def refine(
    folds: list[Fold],
    gap: float,
    budget: int | Limits,
    progress: Progress,
    workers: int = 1,
    up_to: float | None = None,
    least: float = 0.0,
) -> Refined:
    """Minimise the validation error over rho >= 0; an interruption ends the search with the best value so far.

    ``workers`` folds are solved at a time; the result does not depend on it. ``budget`` is the largest number of
    solves, or limits of solves and time. ``up_to`` is the largest value of rho, unless the search ends by itself;
    ``least`` is the sum of squares below which one counts as none.
    """
    limits = budget if isinstance(budget, Limits) else Limits(budget)
    if not all(np.isfinite(fold.sigma) for fold in folds):
        return _grid(folds, gap, limits, progress, workers, up_to)
    space = IntervalSpace(folds=folds, gap=gap, limits=limits, workers=workers, up_to=up_to, least=least)
    search = BestFirst[Interval](space, limits, progress, f"the gap of {gap:g} is met")
    search.run()
    values = common_values(folds)
    squares = _squares(folds, values)
    complete = any(np.isinf(cell.high) for cell in search.cells)
    lower = BELOW * min(search.lower_bound, float(squares.min()))
    return Refined(
        values=values, squares=squares, lower_bound=lower, complete=complete, solves=space.solves, stop=search.stop
    )


def _grid(
    folds: list[Fold], gap: float, limits: Limits, progress: Progress, workers: int, up_to: float | None
) -> Refined:
    """Search without bounds, where the squares do not determine the predictions: a grid, and then around its best."""
    stop = "the best knot of a grid is settled"
    try:
        span_knots(folds, workers, up_to, limits)
        while True:
            values = common_values(folds)
            squares = _squares(folds, values)
            progress(values.size * len(folds), float(squares.min()), -np.inf)
            cut = _choose_cut_of_grid(values, squares, gap)
            if cut is None:
                break
            limits.check(values.size * len(folds), len(folds))
            solve_all(folds, cut, workers)
    except (KeyboardInterrupt, SolverError, SpentError) as error:
        stop = end_by(error, bool(common_values(folds).size))
    values = common_values(folds)
    return Refined(
        values=values,
        squares=_squares(folds, values),
        lower_bound=-np.inf,
        complete=False,
        solves=values.size * len(folds),
        stop=stop,
    )


def bound_beyond(folds: list[Fold], values: Array) -> float | None:
    """Return a lower bound of the sum of squares at all values beyond the last knot; None where there is none."""
    radii, squares = [], []
    for fold in folds:
        radius = fold.tail(values)
        if radius is None:
            return None
        errors = fold.errors(fold.knots[float(values[-1])])
        radii.append(radius)
        squares.append(float(errors @ errors))
    return float(max(np.sqrt(np.sum(squares)) - np.linalg.norm(radii), 0.0) ** 2)


def common_values(folds: list[Fold]) -> Array:
    """Return the values at which every fold has a knot."""
    return np.array(sorted(set.intersection(*(set(fold.knots) for fold in folds))))


def _squares(folds: list[Fold], values: Array) -> Array:
    """Return the sum of squares of all folds at each of the common knots."""
    total = np.zeros(values.size)
    for fold in folds:
        errors = [fold.errors(fold.knots[float(value)]) for value in values]
        total += [float(e @ e) for e in errors]
    return total


def _directional(folds: list[Fold], low: float, high: float) -> float:
    """Return the bound in the direction of the error between two knots."""
    sizes = np.cumsum([0, *(fold.errors_at_zero.size for fold in folds)])
    errors_at_ends = [np.array([fold.errors(fold.knots[value]) for value in (low, high)]) for fold in folds]
    radii = np.array([sum(fold.beside([fold.knots[value]]) for fold in folds) for value in (low, high)])

    def along(u: Array) -> tuple[list[float], float]:
        directions = np.split(u, sizes[1:-1])
        bounds = [fold.along(direction, (low, high)) for fold, direction in zip(folds, directions, strict=True)]
        return [sigma for sigma, _ in bounds], sum(loss for _, loss in bounds)

    forms = [fold.forms(low, high) for fold in folds]
    return bound_simplex(np.concatenate(errors_at_ends, axis=1), radii, forms, along).value


def _choose_cut_of_grid(values: Array, squares: Array, gap: float) -> float | None:
    """Choose a cut without bounds: a geometric grid, since a minimum may be anywhere, then next to its best knot."""
    low, high = values[1:-1], values[2:]  # the first interval starts at zero
    ratios = high / low
    if ratios.size and ratios.max() > _RATIO:
        k = int(ratios.argmax())
        return float(np.sqrt(low[k] * high[k]))
    best = int(squares.argmin())
    sides = [k for k in (best - 1, best) if 0 < k < values.size - 1 and values[k + 1] > (1.0 + gap) * values[k]]
    if not sides:
        return None
    k = max(sides, key=lambda side: values[side + 1] / values[side])
    return float(np.sqrt(values[k] * values[k + 1]))
