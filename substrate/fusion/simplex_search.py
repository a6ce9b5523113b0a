r"""Branch and bound over simplices: that of the smallest lower bound is cut, until the bound meets the best knot.

The box is covered by simplices, whose bounds (:mod:`substrate.fusion.simplex_bound`) need nothing of their neighbours,
so that a cut may leave a vertex of one inside an edge of another. The edge with the largest :math:`Q_{ij}` is cut: in
the middle, or, where its ends differ by more than a factor of four in some parameter, at the geometric mean. Where the
bound of a simplex is as good as exact but no knot reaches it, the next knot is the place at which it is attained.

The search ends when best value and bound are within the requested gap, when what is to be cut has collapsed to
rounding, or when the budget of solves is spent; the reason is recorded.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations, product

import numpy as np

from substrate.arrays import Array
from substrate.errors import SolverError
from substrate.fusion.affine_program import Corner
from substrate.fusion.knot_store import KnotStore
from substrate.fusion.simplex_bound import SimplexBound, simplex_bound
from substrate.fusion.validated_machine import MARGIN

__all__ = ["Progress", "Searched", "Simplex", "between", "cell_simplices", "halves", "searched"]

Simplex = tuple[int, ...]
Progress = Callable[[int, float, float], None]

#: Ratio of the ends of an edge from which on it is cut at the geometric mean, and the share that replaces zero.
_RATIO, _ZERO = 4.0, 1e-4
#: An edge shorter than this, relative to its ends, is not cut any more.
_COLLAPSED = 1e-9
#: Share of the gap up to which the bound of a simplex counts as exact.
_SETTLED = 0.25
#: Weights below which a place counts as lying on a face.
_ON_FACE = 1e-3


@dataclass(frozen=True, slots=True)
class Searched:
    """The simplices with their bounds (sums of squares), the bound over all, and why the search ended.

    ``unproved`` is the reason where there is no bound.
    """

    simplices: tuple[Simplex, ...]
    bounds: Array
    lower_bound: float
    stop: str
    unproved: str = ""


def cell_simplices(levels: Sequence[Array]) -> list[tuple[Corner, ...]]:
    """Every cell of a grid cut into simplices along its diagonal, one for each order of the parameters."""
    found = []
    k = len(levels)
    for cell in product(*(range(len(level) - 1) for level in levels)):
        for order in permutations(range(k)):
            at = list(cell)
            corners = [tuple(float(level[i]) for level, i in zip(levels, at, strict=True))]
            for axis in order:
                at[axis] += 1
                corners.append(tuple(float(level[i]) for level, i in zip(levels, at, strict=True)))
            found.append(tuple(corners))
    return found


def searched(
    store: KnotStore,
    start: Sequence[tuple[Corner, ...]],
    gap: float,
    budget: int,
    progress: Progress,
    least: float = 0.0,
) -> Searched:
    """Minimise the validation error over the simplices; an interruption ends the search with the best so far.

    ``least`` is the sum of squares below which one counts as none.
    """
    heap: list[tuple[float, int, Simplex, SimplexBound]] = []
    number, stop, complete = 0, "", False

    def enough() -> float:
        return (1.0 - 0.5 * gap) * float(store.squares.min())

    def push(simplex: Simplex, floor: float) -> None:
        nonlocal number
        number += 1
        found = simplex_bound(store, simplex, enough())
        heapq.heappush(heap, (max(found.value, floor), number, simplex, found))

    try:
        for corners in start:
            for corner in corners:
                store.add(corner)
        for corners in start:
            push(tuple(store.add(corner) for corner in corners), 0.0)
        complete = True
        while True:
            lower, _, simplex, found = heap[0]
            best = float(store.squares.min())
            progress(store.solves, best, min(lower, best))
            if best - lower <= (1.0 - MARGIN) * gap * max(best, least):
                stop = f"the gap of {gap:g} is met"
                break
            if store.solves + len(store.folds) > budget:
                stop = f"the budget of {budget} solves is spent"
                break
            if not found.sharp:  # it was enough before the best value fell
                push(simplex, lower)
                heapq.heappop(heap)
                continue
            children = _cut(store, simplex, found, gap)
            if not children:
                stop = "the simplices have collapsed to rounding"
                break
            for child in children:
                push(child, lower)
            heapq.heappop(heap)  # after its parts, so that an interruption leaves no hole
    except (KeyboardInterrupt, SolverError) as error:
        stop = store.ended_by(error)
    bounds = np.array([entry[0] for entry in heap])
    simplices = tuple(entry[2] for entry in heap)
    if not complete:
        return Searched(simplices, bounds, -np.inf, stop, "the search ended before all of the box was covered")
    return Searched(simplices, bounds, float(bounds.min()), stop)


def _cut(store: KnotStore, simplex: Simplex, found: SimplexBound, gap: float) -> list[Simplex]:
    """The parts of a simplex, with one more knot; none where it has collapsed."""
    best = float(store.squares.min())
    if found.flat < best and found.flat - found.value <= _SETTLED * gap * best:
        return _starred(store, simplex, found.place)
    return halves(store, simplex, found.radii)


def halves(store: KnotStore, simplex: Simplex, radii: Array) -> list[Simplex]:
    """The two parts of a simplex, cut at the edge with the largest radius that has not collapsed."""
    pairs = sorted(combinations(range(len(simplex)), 2), key=lambda pair: -radii[pair])
    for i, j in pairs:
        corner = between(store.corners[simplex[i]], store.corners[simplex[j]])
        if corner is not None:
            new = store.add(corner)
            return [tuple(new if k == out else v for k, v in enumerate(simplex)) for out in (i, j)]
    return []


def _starred(store: KnotStore, simplex: Simplex, place: Array) -> list[Simplex]:
    """The simplices with a new knot at a place instead of one vertex each."""
    weights = np.where(place > _ON_FACE, place, 0.0)
    weights = weights / weights.sum()
    corners = np.array([store.corners[v] for v in simplex])
    corner = tuple(float(v) for v in np.clip(weights @ corners, corners.min(axis=0), corners.max(axis=0)))
    if corner in (store.corners[v] for v in simplex):
        return []
    new = store.add(corner)
    return [tuple(new if k == out else v for k, v in enumerate(simplex)) for out in np.flatnonzero(weights)]


def between(one: Corner, other: Corner) -> Corner | None:
    """Where an edge is cut; None where it has collapsed."""
    a, b = np.array(one), np.array(other)
    width = np.abs(a - b)
    if (width <= _COLLAPSED * np.maximum(np.abs(a), np.abs(b))).all():
        return None
    low, high = np.minimum(a, b), np.maximum(a, b)
    moving = (width > 0.0) & (low >= 0.0)  # numbers of either sign have no geometric mean
    ratios = np.ones(a.size)
    ratios[moving] = high[moving] / np.maximum(low, _ZERO * high)[moving]
    k = int(ratios.argmax())
    share = 0.5
    if ratios[k] > _RATIO:
        mean = float(np.sqrt(high[k] * max(low[k], high[k] / _RATIO**2)))
        share = float((mean - a[k]) / (b[k] - a[k]))
    return tuple(float(v) for v in np.clip(a + share * (b - a), low, high))
