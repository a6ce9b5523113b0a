r"""Adaptive refinement: knots are added where the lower bound is weakest, until it reaches the best value found.

The knots start at rho = 0 and grow geometrically until the penalty is as small as the constraints allow; from there on
the machine does not change any more, and where that is proved the bound is for all values
(:mod:`substrate.fusion.fold`), elsewhere for those up to the last knot. Then the interval with the smallest lower bound
is cut where that bound is attained, repeatedly. Of every interval the larger one of two bounds counts: that of
:mod:`substrate.penalized.homotopy.chord_certificate`, which takes the distance of the optimum from the chord in its
worst direction, and that of :mod:`substrate.fusion.simplex_bound`, which takes it in the direction of the error. The
search ends when best value and bound are within the requested gap, when the interval to be cut has collapsed, or when
the budget of solves is spent; the reason is recorded.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.errors import SolverError
from substrate.fusion.fold import Fold
from substrate.fusion.parametric_qp import Knot
from substrate.fusion.simplex_bound import bounded
from substrate.fusion.validated_machine import MARGIN
from substrate.penalized.homotopy.chord_certificate import interval_bounds, merged, settled

__all__ = ["Refined", "refined", "solve_all", "spanned"]


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
    """One knot per fold."""
    if workers < 2 or len(folds) < 2:
        for fold in folds:
            fold.solve(value)
        return
    with ThreadPoolExecutor(min(workers, len(folds))) as pool:
        list(pool.map(lambda fold: fold.solve(value), folds))


def spanned(folds: list[Fold], workers: int, up_to: float | None) -> None:
    """The first knots, from zero to two values where the penalty does not shrink any more, or to a given value."""
    least = [fold.program.least_penalty() for fold in folds]
    unit = max(fold.size or fold.program.unit for fold in folds)
    first = _start(folds, _FIRST * unit if up_to is None else min(_FIRST * unit, 1e-5 * up_to))
    most = [fold.program.penalty(fold.knots[first].x) for fold in folds]
    value, ended = 1e-3 * unit, 0
    for _ in range(_DOUBLINGS):
        value = value if up_to is None else min(value, up_to)
        solve_all(folds, value, workers)
        left = [fold.program.penalty(fold.knots[value].x) for fold in folds]
        ended += all(
            low is not None and now - low <= _NOUGHT * max(top - low, 1e-12)
            for low, now, top in zip(least, left, most, strict=True)
        )
        # one knot more where nothing changes any more: larger values are bounded by the last two
        if value == up_to or (up_to is None and ended > 1):
            return
        value *= _GROWTH


def _start(folds: list[Fold], first: float) -> float:
    """The knots at zero, where bounds like t are not unique, and at a tiny value, which is returned.

    A knot at zero is the limit along the segment of the tiny rho. Where a fold has none, the tiny value is the smallest
    of a few that can be solved, and its primal point is used at zero too.
    """
    found = [_by_limit(fold, first) for fold in folds]
    if all(found):
        return first
    gaps = {}
    for factor in _LADDER:
        for fold in folds:
            fold.solve(factor * first)
        gaps[factor] = max(fold.knots[factor * first].gap for fold in folds)
        if gaps[factor] <= _EXACT:
            break
    low = min(gaps, key=lambda factor: gaps[factor]) * first
    for fold, known in zip(folds, found, strict=True):
        for factor in gaps:
            if factor * first != low:
                del fold.knots[factor * first]
        if not known:
            _stand_in(fold, low)
    return low


def _by_limit(fold: Fold, first: float) -> bool:
    """Whether the segment that begins at zero was found: then its knots at zero and at a tiny value are the fold's."""
    for further in (1e5, 1e3):
        near = fold.program.solve(further * first)
        zero, tiny = fold.program.limit(0.0, near), fold.program.limit(first, near)
        if zero is not None and tiny is not None and max(zero.gap, tiny.gap, near.gap) <= _EXACT:
            fold.knots |= {0.0: zero, first: tiny}
            return True
    return False


def _stand_in(fold: Fold, low: float) -> None:
    """A knot at zero from the primal point of a small rho and the multipliers of zero.

    With different primal x and dual w, the optimum is within twice the gap of x, hence the factors.
    """
    near, program = fold.knots[low], fold.program
    limit = program.limit(0.0, near)
    at_zero = min([program.solve(0.0), *([limit] if limit else [])], key=lambda knot: knot.gap)
    gap = program.distance(near.x, at_zero.x) + float(at_zero.dual[program.b.size :] @ near.slack) + at_zero.gap
    fold.knots[0.0] = Knot(0.0, near.x, at_zero.dual, near.slack, 2.0 * gap, 2.0 * gap, near.apart)
    fold.knots[low] = Knot(low, near.x, near.dual, near.slack, 2.0 * near.gap, 2.0 * near.gap, near.apart)


#: An interval shorter than this, relative to its upper end, is not cut any more.
_COLLAPSED = 1e-12
#: Ratio of neighbouring knots in a search without bounds.
_RATIO = 1.5
#: The effect of rounding in the few operations of a bound.
_BELOW = 1.0 - 1e-10


#: Bounds of intervals that were computed before, by their ends.
Sharper = dict[tuple[float, float], float]


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
        """The knot with the smallest error; the largest of several that are equal."""
        return int(self.order()[0])

    def order(self, positive: bool = False) -> NDArray[np.intp]:
        """The knots by their error, the larger of two equal ones first; ``positive`` leaves out that at zero.

        A knot at zero may have been taken from a small value that can be solved: its machine is that of the small one.
        """
        every = np.lexsort((-self.values, self.squares))
        return np.asarray(every[self.values[every] > 0.0] if positive else every, dtype=np.intp)

    def ends(self, value: float) -> list[tuple[str, str]]:
        """Facts for a certificate where the chosen value is at an end of its range."""
        chosen, best = f"{value:g}", int(np.abs(self.values - value).argmin())
        if best == 0:
            return [("choice", f"at {chosen}, the lower end of its range")]
        if self.complete and self.squares[-1] <= (1.0 + 1e-9) * self.squares[best]:
            return [("choice", f"at {chosen}; the largest values of its range validate as well")]
        if best < self.values.size - 1:
            return []
        return [("choice", f"at {chosen}, the upper end of its range; up_to= looks further")]


def refined(
    folds: list[Fold],
    gap: float,
    budget: int,
    progress: Callable[[int, float, float], None],
    workers: int = 1,
    up_to: float | None = None,
    least: float = 0.0,
) -> Refined:
    """Minimise the validation error over rho >= 0; an interruption ends the search with the best value so far.

    ``workers`` folds are solved at a time; the result does not depend on it. ``up_to`` is the largest value of rho,
    unless the search ends by itself; ``least`` is the sum of squares below which one counts as none.
    """
    certified = all(np.isfinite(fold.sigma) for fold in folds)
    stop, solves = "", 0
    sharper: Sharper = {}
    try:
        spanned(folds, workers, up_to)
        while True:
            values, squares, bounds, places = _assessed(folds, sharper)
            beyond = _beyond(folds, values) if certified else None
            solves = len(values) * len(folds)
            best = float(squares.min())
            lower = min(float(bounds.min(initial=np.inf)), best, np.inf if beyond is None else beyond)
            progress(solves, best, lower)
            if certified and best - lower <= (1.0 - MARGIN) * gap * max(best, least):
                stop = f"the gap of {gap:g} is met"
                break
            if solves + len(folds) > budget:
                stop = f"the budget of {budget} solves is spent"
                break
            cut = _cut(values, squares, bounds, places) if certified else _grid_cut(values, squares, gap)
            if cut is None:
                stop = "the intervals have collapsed to rounding" if certified else "the best knot of a grid is settled"
                break
            solve_all(folds, cut, workers)
    except KeyboardInterrupt:
        if not _common(folds).size:
            raise
        stop = "interrupted; the best so far is kept"
    except SolverError as error:
        if not _common(folds).size:
            raise
        stop = f"a solver failed: {error}"
    values, squares, bounds, _ = _assessed(folds, sharper)
    if not certified or values.size < 2:
        return Refined(values, squares, -np.inf, False, len(values) * len(folds), stop)
    beyond = _beyond(folds, values)
    lower = min(float(bounds.min(initial=np.inf)), float(squares.min()), np.inf if beyond is None else beyond)
    return Refined(values, squares, _BELOW * lower, beyond is not None, len(values) * len(folds), stop)


def _beyond(folds: list[Fold], values: Array) -> float | None:
    """A lower bound of the sum of squares at all values beyond the last knot; None where there is none."""
    radii, squares = [], []
    for fold in folds:
        radius = fold.tail(values)
        if radius is None:
            return None
        errors = fold.errors(fold.knots[float(values[-1])])
        radii.append(radius)
        squares.append(float(errors @ errors))
    return float(max(np.sqrt(np.sum(squares)) - np.linalg.norm(radii), 0.0) ** 2)


def _common(folds: list[Fold]) -> Array:
    """The values at which every fold has a knot."""
    return np.array(sorted(set.intersection(*(set(fold.knots) for fold in folds))))


def _assessed(folds: list[Fold], sharper: Sharper) -> tuple[Array, Array, Array, Array]:
    """Knots, sums of squares, bounds of the intervals, and where to cut each: NaN where a cut would not help."""
    values = _common(folds)
    tracks = [fold.track(values) for fold in folds]
    squares = np.sum([track.squares() for track in tracks], axis=0)
    if values.size < 2 or not all(np.isfinite(fold.sigma) for fold in folds):
        return values, squares, np.zeros(max(values.size - 1, 0)), np.full(max(values.size - 1, 0), 0.5)
    quadratics = merged(tracks, values)
    bounds, places = interval_bounds(*quadratics)
    places[settled(*quadratics, float(squares.min()))] = np.nan
    for k in np.flatnonzero(bounds < squares.min()):
        bounds[k] = max(bounds[k], _directional(folds, float(values[k]), float(values[k + 1]), sharper))
    return values, squares, bounds, places


def _directional(folds: list[Fold], low: float, high: float, known: Sharper) -> float:
    """The bound in the direction of the error between two knots, computed once."""
    if (low, high) not in known:
        sizes = np.cumsum([0, *(fold.errors_at_zero.size for fold in folds)])
        both = [np.array([fold.errors(fold.knots[value]) for value in (low, high)]) for fold in folds]
        blurs = np.array([sum(fold.beside([fold.knots[value]]) for fold in folds) for value in (low, high)])

        def along(u: Array) -> tuple[list[float], float]:
            parts = np.split(u, sizes[1:-1])
            found = [fold.along(part, (low, high)) for fold, part in zip(folds, parts, strict=True)]
            return [sigma for sigma, _ in found], sum(rest for _, rest in found)

        forms = [fold.forms(low, high) for fold in folds]
        known[low, high] = bounded(np.concatenate(both, axis=1), blurs, forms, along).value
    return known[low, high]


def _cut(values: Array, squares: Array, bounds: Array, places: Array) -> float | None:
    """Where to solve next: inside the interval of the smallest bound; None where all have collapsed."""
    widths = np.diff(values)
    open_ones = (widths > _COLLAPSED * values[1:]) & np.isfinite(places)
    k = int(np.where(open_ones, bounds, np.inf).argmin())
    if not open_ones[k] or bounds[k] >= squares.min():
        return None
    return float(values[k] + np.clip(places[k], 0.1, 0.9) * widths[k])


def _grid_cut(values: Array, squares: Array, gap: float) -> float | None:
    """Without bounds: a geometric grid first, since a minimum may be anywhere, then the neighbours of its best knot."""
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
