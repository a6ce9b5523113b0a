r"""Branch and bound over simplices: that of the smallest lower bound is cut, until the bound meets the best knot.

The box is covered by simplices, whose bounds (:mod:`substrate.fusion.simplex_bound`) need nothing of their neighbours,
so that a cut may leave a vertex of one inside an edge of another. The edge with the largest :math:`Q_{ij}` is cut: in
the middle, or, where its ends differ by more than a factor of four in some parameter, at the geometric mean. Where the
bound of a simplex is as good as exact but no knot reaches it, the next knot is the place at which it is attained.

The search is that of :mod:`substrate.search.best_first`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations, product

import numpy as np

from substrate.arrays import Array
from substrate.fusion.affine_program import Corner
from substrate.fusion.knot_store import KnotStore
from substrate.fusion.simplex_bound import SimplexBound, simplex_bound
from substrate.fusion.validated_machine import MARGIN
from substrate.search.best_first import BestFirst, Limits, Progress, describe_met

__all__ = [
    "COLLAPSED",
    "NOT_COVERED",
    "Progress",
    "Searched",
    "Simplex",
    "SimplexSpace",
    "between",
    "cell_simplices",
    "halves",
    "search_simplices",
]

Simplex = tuple[int, ...]

#: Why a search ends where rounding keeps a bound below its target.
COLLAPSED = "the simplices have collapsed to rounding"
#: Why nothing is proved where a search ended too early.
NOT_COVERED = "the search ended before all of the box was covered"
#: Ratio of the ends of an edge from which on it is cut at the geometric mean, and the share that replaces zero.
_RATIO, _ZERO = 4.0, 1e-4
#: An edge shorter than this, relative to its ends, is not cut any more.
_COLLAPSED = 1e-9
#: The loss of a simplex, in units of that of a vertex alone, at which it is not cut any more.
_EXHAUSTED = 1.05
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
    """Return every cell of a grid cut into simplices along its diagonal, one for each order of the parameters."""
    simplices = []
    k = len(levels)
    for cell in product(*(range(len(level) - 1) for level in levels)):
        for order in permutations(range(k)):
            at = list(cell)
            corners = [tuple(float(level[i]) for level, i in zip(levels, at, strict=True))]
            for axis in order:
                at[axis] += 1
                corners.append(tuple(float(level[i]) for level, i in zip(levels, at, strict=True)))
            simplices.append(tuple(corners))
    return simplices


@dataclass(slots=True)
class SimplexCell:
    """A simplex of knots, and the bound of the squares over it."""

    simplex: Simplex
    bound: float
    bound_of_simplex: SimplexBound


@dataclass(slots=True)
class SimplexSpace:
    """A box covered by simplices of knots, bounded by chords (:mod:`substrate.search.best_first`).

    ``least`` is the sum of squares below which one counts as none.
    """

    store: KnotStore
    start: Sequence[tuple[Corner, ...]]
    gap: float
    limits: Limits
    least: float = 0.0
    collapsed: str = COLLAPSED
    usual: float = 4.0
    #: The bound at single knots.
    _alone: dict[int, float] = field(default_factory=dict)

    @property
    def solves(self) -> int:
        """Return how many programs were solved."""
        return self.store.solves

    @property
    def best(self) -> float:
        """Return the smallest sum of squares at a knot."""
        return float(self.store.squares.min(initial=np.inf))

    def target(self) -> float:
        """Return the bound at which a simplex is settled."""
        best = self.best
        return best - (1.0 - MARGIN) * self.gap * max(best, self.least)

    def cover(self) -> list[SimplexCell]:
        """Solve the corners of all simplices, and bound each."""
        for corners in self.start:
            for corner in corners:
                self._add(corner)
        return [self._bound(tuple(self.store.add(corner) for corner in corners), 0.0) for corners in self.start]

    def priority(self, cell: SimplexCell) -> float:
        """Return the bound of a simplex: the smallest is first."""
        return cell.bound

    def refine(self, cell: SimplexCell, target: float) -> list[SimplexCell]:
        """Cut a simplex; one whose bound was good enough at a larger best value is bounded again first."""
        self._check()
        if not cell.bound_of_simplex.sharp:
            return [self._bound(cell.simplex, cell.bound)]
        if self._is_exhausted(cell, target):
            return []
        parts = _cut_simplex(self.store, cell.simplex, cell.bound_of_simplex, self.gap)
        return [self._bound(part, cell.bound) for part in parts]

    def _is_exhausted(self, cell: SimplexCell, target: float) -> bool:
        """Return whether a vertex alone, by its gap, has a bound below the target that the simplex has nearly reached:
        every part with this vertex has no larger one.
        """
        for vertex in cell.simplex:
            if vertex not in self._alone:
                self._alone[vertex] = simplex_bound(self.store, (vertex,)).value
        limit, best = min(self._alone[vertex] for vertex in cell.simplex), self.best
        return limit < target and best - cell.bound <= _EXHAUSTED * (best - limit)

    def _bound(self, simplex: Simplex, floor: float) -> SimplexCell:
        found = simplex_bound(self.store, simplex, (1.0 - 0.5 * self.gap) * self.best)
        return SimplexCell(simplex, max(found.value, floor), found)

    def _add(self, corner: Corner) -> None:
        if self.store.corners and not self.store.holds(corner):  # the first one is solved whatever the limits
            self._check()
        self.store.add(corner)

    def _check(self) -> None:
        self.limits.check(self.store.solves, len(self.store.folds))


def search_simplices(
    store: KnotStore,
    start: Sequence[tuple[Corner, ...]],
    gap: float,
    budget: int | Limits,
    progress: Progress,
    least: float = 0.0,
) -> Searched:
    """Minimise the validation error over the simplices; an interruption ends the search with the best so far.

    ``budget`` is the largest number of solves, or limits of solves and time; ``least`` is the sum of squares below
    which one counts as none.
    """
    limits = budget if isinstance(budget, Limits) else Limits(budget)
    space = SimplexSpace(store=store, start=start, gap=gap, limits=limits, least=least)
    search = BestFirst[SimplexCell](space, limits, progress, describe_met(gap))
    search.run()
    cells = search.cells
    unproved = "" if search.covered else NOT_COVERED
    bounds = np.array([cell.bound for cell in cells])
    return Searched(
        simplices=tuple(cell.simplex for cell in cells),
        bounds=bounds,
        lower_bound=search.lower_bound,
        stop=search.stop,
        unproved=unproved,
    )


def _cut_simplex(store: KnotStore, simplex: Simplex, bound: SimplexBound, gap: float) -> list[Simplex]:
    """Return the parts of a simplex, with one more knot; none where it has collapsed."""
    best = float(store.squares.min())
    if bound.flat < best and bound.flat - bound.value <= _SETTLED * gap * best:
        return _star(store, simplex, bound.place)
    return halves(store, simplex, bound.radii)


def halves(store: KnotStore, simplex: Simplex, radii: Array) -> list[Simplex]:
    """Return the two parts of a simplex, cut at the edge with the largest radius that has not collapsed."""
    pairs = sorted(combinations(range(len(simplex)), 2), key=lambda pair: -radii[pair])
    for i, j in pairs:
        corner = between(store.corners[simplex[i]], store.corners[simplex[j]])
        if corner is not None:
            new = store.add(corner)
            return [tuple(new if k == out else v for k, v in enumerate(simplex)) for out in (i, j)]
    return []


def _star(store: KnotStore, simplex: Simplex, place: Array) -> list[Simplex]:
    """Return the simplices with a new knot at a place instead of one vertex each."""
    weights = np.where(place > _ON_FACE, place, 0.0)
    weights = weights / weights.sum()
    corners = np.array([store.corners[v] for v in simplex])
    corner = tuple(float(v) for v in np.clip(weights @ corners, corners.min(axis=0), corners.max(axis=0)))
    if corner in (store.corners[v] for v in simplex):
        return []
    new = store.add(corner)
    return [tuple(new if k == out else v for k, v in enumerate(simplex)) for out in np.flatnonzero(weights)]


def between(first: Corner, second: Corner) -> Corner | None:
    """Return where an edge is cut; None where it has collapsed."""
    a, b = np.array(first), np.array(second)
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
