"""Where a search begins: knots from nothing to where the penalty cannot shrink any more."""

from concurrent.futures import ThreadPoolExecutor

from substrate.fusion.fold import Fold
from substrate.fusion.parametric_qp import Knot

__all__ = ["solve_all", "spanned"]

#: Penalty, as a share of what it is without any weight, that counts as the smallest possible.
_NOUGHT = 1e-9
#: Where the first knot above zero stands for zero: rho in units of the target.
_FIRST = 1e-8
#: Gap, in the units of the program, up to which a knot counts as exact.
_EXACT = 1e-12
_GROWTH = 4.0
#: Multiples of that first knot which stand in for it where it cannot be solved.
_LADDER = (1.0, 1e1, 1e2, 1e3, 1e4)
_DOUBLINGS = 60


def solve_all(folds: list[Fold], value: float, workers: int) -> None:
    """A knot for every fold."""
    if workers < 2 or len(folds) < 2:
        for fold in folds:
            fold.solve(value)
        return
    with ThreadPoolExecutor(min(workers, len(folds))) as pool:
        list(pool.map(lambda fold: fold.solve(value), folds))


def spanned(folds: list[Fold], workers: int, up_to: float | None) -> None:
    """The first knots, from nothing to twice beyond where the penalty cannot shrink any more, or to a given value."""
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
        # one knot more where nothing changes any more: what is beyond is bounded by the last two
        if value == up_to or (up_to is None and ended > 1):
            return
        value *= _GROWTH


def _start(folds: list[Fold], first: float) -> float:
    """The knots at zero, where nothing keeps bounds like t tight, and at a tiny value, which is handed back.

    A knot at zero is the limit along the segment of the tiny rho. Where a fold has none, the tiny value is the smallest
    of a few that can be solved, and its primal point stands at zero too.
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

    With primal x and dual w apart, the optimum is within twice the gap of x, hence the factors.
    """
    near, program = fold.knots[low], fold.program
    limit = program.limit(0.0, near)
    at_zero = min([program.solve(0.0), *([limit] if limit else [])], key=lambda knot: knot.gap)
    gap = program.distance(near.x, at_zero.x) + float(at_zero.dual[program.b.size :] @ near.slack) + at_zero.gap
    fold.knots[0.0] = Knot(0.0, near.x, at_zero.dual, near.slack, 2.0 * gap, 2.0 * gap, near.apart)
    fold.knots[low] = Knot(low, near.x, near.dual, near.slack, 2.0 * near.gap, 2.0 * near.gap, near.apart)
