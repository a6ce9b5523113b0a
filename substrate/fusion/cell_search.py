r"""Best-first search over cells of parameters, with the bound of :mod:`substrate.fusion.universal_bound` on each.

A box is covered by simplices (intervals for one parameter) whose vertices are shared. Parameters in constraints have
simplices of their own: a cell is the product of one of weights and one of those. What a vertex costs is one solve,
and one more for every s at which its h is known; h belongs to the vertex, so that all cells around it use it. Along s

.. math:: v(x_k) - h_k(s) \approx c_k / s ,

and the loss of a cell is about :math:`c_k / s + s D_k / 2`, smallest at :math:`s = \sqrt{2 c_k / D_k}`. D is known from
the vertices alone, and c from the nearest vertex with a known h: a cell whose bound is predicted to be too low is cut
at once, without a fused solve. The bounds of several folds add up.

A cell is settled when its bound is within the gap of the best vertex (:mod:`substrate.search.best_first`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding, subtract_below
from substrate.fusion.fused_family import FusedColumn, FusedFamily, FusedKnot, FusedVertex, excesses
from substrate.fusion.simplex_search import between, cell_simplices
from substrate.fusion.universal_bound import bound_game, bound_interval
from substrate.search.best_first import BestFirst, Limits, Progress, describe_met

__all__ = ["Cell", "CellSearch", "Progress", "starting_levels"]

Theta = tuple[float, ...]

#: Ratio of neighbouring values at the start, for one parameter and for several.
_RATIOS = (4.0, 10.0)
#: The smallest positive value at the start, as a share of the largest, where the range begins at zero.
_LOWEST = 1e-4
#: How far from all others a parameter of zero is, in logarithms.
_FAR = 1e3
#: How often a cell is cut at most by a prediction alone.
_BLIND = 6
#: Share of the gap that the residual of a dual point may take.
_RESOLUTION = 1e-3
#: Share of the gap that counts as no loss.
_NEGLIGIBLE = 1e-2
#: Share of the gap within which the search stays, for what rounding changes afterwards.
_MARGIN = 1e-2
#: An error below this share of the scale is not resolved further.
SMALLEST = 1e-6


def starting_levels(low: float, high: float, several: bool) -> Array:
    """Return the values at which a search starts: geometric, with zero where the range begins there."""
    if high == low:
        return np.array([low, high])
    bottom = low if low > 0.0 else _LOWEST * high
    if low < 0.0:
        return np.linspace(low, high, 5)
    steps = max(math.ceil(math.log(high / bottom) / math.log(_RATIOS[several])), 1)
    values = np.geomspace(bottom, high, steps + 1)
    values[0], values[-1] = bottom, high
    return values if low > 0.0 else np.append(0.0, values)


@dataclass(slots=True)
class Cell:
    """A simplex of weights times one of parameters in constraints: their vertices, and the bound that is proved there.

    ``blind`` is how often it was cut without a fused solve.
    """

    corners: tuple[Theta, ...]
    bound: float
    blind: int = 0
    places: tuple[Theta, ...] = ((),)


@dataclass(slots=True)
class CellSearch:
    """One search: families (one per fold), the range, and what was found (changed in place).

    Validation errors and bounds are sums over the folds.
    """

    families: Sequence[FusedFamily]
    gap: float
    limits: Limits
    progress: Progress
    floor: float = -np.inf
    #: The error below which one counts as none; None: a millionth of the largest one so far.
    least: float | None = None
    scale: float = 0.0
    box: Sequence[tuple[float, float]] = ()
    stop: str = ""
    knots: dict[Theta, tuple[FusedKnot, ...]] = field(default_factory=dict)
    collapsed: str = "the cells have collapsed: the optimum is not unique there, or not known well enough"
    #: A vertex has about this many solves with the validation error beside it, and there are a few times the first.
    usual: float = 15.0
    _search: BestFirst[Cell] = field(init=False)
    #: For each fold the vertices where h is known, and the columns of parameters in constraints.
    _fused: list[list[FusedVertex]] = field(init=False)
    _columns_at: list[dict[tuple[Theta, tuple[Theta, ...]], FusedColumn]] = field(init=False)
    _positions: list[Array] = field(init=False)

    def __post_init__(self) -> None:
        self._fused = [[] for _ in self.families]
        self._columns_at = [{} for _ in self.families]
        count = len(self.families[0].base.parameters) if self.families else 0
        self._positions = [np.zeros((0, count)) for _ in self.families]
        met = describe_met(self.gap)
        self._search = BestFirst(space=self, limits=self.limits, progress=self.progress, met=met, floor=self.floor)

    @property
    def solves(self) -> int:
        """Return how many problems were solved."""
        return sum(family.solves for family in self.families)

    @property
    def best(self) -> float:
        """Return the smallest validation error at a vertex."""
        return self.best_vertex[0] if self.knots else np.inf

    @property
    def best_vertex(self) -> tuple[float, Theta]:
        """Return the smallest validation error at a vertex, and the vertex."""
        return min((sum(knot.validation for knot in knots), theta) for theta, knots in self.knots.items())

    @property
    def cells(self) -> list[Cell]:
        """Return the cells that cover the box."""
        return self._search.cells

    @property
    def lower_bound(self) -> float:
        """Return what no parameter of the box is below."""
        return self._search.lower_bound

    def run(self, box: Sequence[tuple[float, float]]) -> None:
        """Search a box; an interrupt, a failure of the solver, a spent budget or time ends it with the best so far."""
        self.box = box
        self._search.run()
        self.stop = self._search.stop

    def narrow(self, gap: float) -> None:
        """Search on for a smaller gap, with what is known already."""
        self.gap = gap
        self._search.go_on(describe_met(gap))
        self.stop = self._search.stop

    def cover(self) -> list[Cell]:
        """Solve the problem at the vertices of the first cells."""
        levels = [starting_levels(low, high, len(self.box) > 1) for low, high in self.box]
        weights, places = (cell_simplices(levels_of_part) for levels_of_part in self._join.split(levels))
        cells = [Cell(corners, self.floor, 0, at) for corners in weights for at in places]
        for cell in cells:
            for theta, place in product(cell.corners, cell.places):
                self._solve(theta, place)
        return cells

    def target(self) -> float:
        """Return what a cell's bound must reach."""
        best = self.best
        return best - (1.0 - _MARGIN) * self.gap * max(abs(best), self.smallest)

    @property
    def smallest(self) -> float:
        """Return the error below which one counts as none."""
        return SMALLEST * self.scale if self.least is None else self.least

    def _check(self, more: int = 1) -> None:
        self.limits.check(self.solves, more)

    @property
    def _join(self) -> Any:
        """Return what tells weights from parameters in constraints, the same in all folds."""
        return self.families[0].base

    def _solve(self, weights: Theta, place: Theta) -> None:
        theta = self._join.join(weights, place)
        if theta in self.knots:
            return
        if self.knots:  # the first one is solved whatever the budget
            self._check(len(self.families))
        self.knots[theta] = tuple(family.solve(theta) for family in self.families)
        self.scale = max(self.scale, abs(sum(knot.validation for knot in self.knots[theta])))

    def _columns(self, cell: Cell) -> list[list[FusedVertex]]:
        """Return the vertices of a cell, fold by fold."""
        return [[self.vertex(fold, theta, cell.places) for theta in cell.corners] for fold in range(len(self.families))]

    def vertex(self, fold: int, theta: Theta, places: tuple[Theta, ...]) -> FusedVertex:
        """Return what is known of a fold at weights, and at a place or over a simplex of the other parameters."""
        if len(places) == 1:
            return self.knots[self._join.join(theta, places[0])][fold]
        columns = self._columns_at[fold]
        if (theta, places) not in columns:
            columns[theta, places] = FusedColumn(
                tuple(self.knots[self._join.join(theta, place)][fold] for place in places)
            )
        return columns[theta, places]

    def refine(self, cell: Cell, target: float) -> list[Cell]:
        """Bound a cell by fused solves at its vertices where that is likely to settle it; cut it elsewhere."""
        best = self.best
        for family in self.families:
            family.resolution = _RESOLUTION * self.gap * max(abs(best), self.smallest) / len(self.families)
        cell.bound = max(cell.bound, self._bound_from_vertices(cell))
        hopeful = self.priority(cell) >= target or cell.blind >= _BLIND
        if cell.bound < target and hopeful:
            for fold, knots in enumerate(self._columns(cell)):
                wanted = zip(knots, self._choose_multipliers(fold, knots), strict=True)
                # a vertex without any h first: with one for each, the bound of one side may be enough
                for knot, s in sorted(wanted, key=lambda pair: pair[0].is_known):
                    if s in knot.fused or cell.bound >= target:
                        continue
                    self._check()
                    before = knot.is_known
                    if np.isfinite(self.families[fold].fuse(knot, s)) and not before:
                        self._fused[fold].append(knot)
                    target = self.target()
                    cell.bound = max(cell.bound, self._bound_from_vertices(cell))
        return [cell] if cell.bound >= target else self._cut_cell(cell, 0 if hopeful else cell.blind + 1)

    def _cut_cell(self, cell: Cell, blind: int) -> list[Cell]:
        """Return both halves of a cell at its steepest edge, with one more vertex for each of the other simplex."""
        lengths: dict[tuple[bool, int, int], float] = {}
        for number, vertices in enumerate(self._columns(cell)):
            wanted = self._choose_multipliers(number, vertices)
            for i, j in combinations(range(len(cell.corners)), 2):
                D = excesses([vertices[i], vertices[j]])
                rise = wanted[j] * max(D[0, 1], 0.0) + wanted[i] * max(D[1, 0], 0.0)
                lengths[True, i, j] = lengths.get((True, i, j), 0.0) + rise
            for i, j in combinations(range(len(cell.places)), 2):
                bends = [vertex.bend(i, j) for vertex in vertices if isinstance(vertex, FusedColumn)]
                rise = 2.0 * max(s * bend for s, bend in zip(wanted, bends, strict=True))
                lengths[False, i, j] = lengths.get((False, i, j), 0.0) + rise
        for weighing, i, j in sorted(lengths, key=lambda edge: -lengths[edge]):
            ends = cell.corners if weighing else cell.places
            theta = between(ends[i], ends[j])
            if theta is not None and theta not in (ends[i], ends[j]):
                for place in cell.places if weighing else cell.corners:
                    self._solve(*((theta, place) if weighing else (place, theta)))
                halves = []
                for out in (i, j):
                    corners_of_half = tuple(theta if k == out else corner for k, corner in enumerate(ends))
                    corners, places = (corners_of_half, cell.places) if weighing else (cell.corners, corners_of_half)
                    halves.append(Cell(corners=corners, bound=cell.bound, blind=blind, places=places))
                return halves
        return []

    def _bound_from_vertices(self, cell: Cell) -> float:
        """Return the bound of a cell by what is known at its vertices."""
        total = 0.0
        for knots in self._columns(cell):
            total += self._universal(knots)
        return total

    def _universal(self, knots: Sequence[FusedVertex]) -> float:
        """Return the universal bound of a cell in one fold."""
        D = excesses(knots)
        pairs = [[(s, h) for s, h in knot.fused.items() if np.isfinite(h)] for knot in knots]
        if not all(pairs):
            return -np.inf
        if len(knots) == 2 and isinstance(knots[0], FusedKnot):
            return bound_interval(pairs, D, [knot.epsilon for knot in knots])
        steep = np.maximum(D.max(axis=0), 0.0)
        chosen = []
        for pair, d in zip(pairs, steep, strict=True):
            gains = [h - 0.5 * s * d for s, h in pair]
            chosen.append(pair[int(np.argmax(gains))])
        weights, values = np.array(chosen).T
        return bound_game(subtract_below(values, weights * D))

    def priority(self, cell: Cell) -> float:
        """Return what the bound of a cell would be with the best s, by the model of h."""
        total = 0.0
        for number, knots in enumerate(self._columns(cell)):
            D, s = excesses(knots), np.array(self._choose_multipliers(number, knots))
            losses = np.array(
                [
                    self._loss(number, knot, value) + 0.5 * value * knot.steep
                    for knot, value in zip(knots, s, strict=True)
                ]
            )
            v = np.array([knot.validation for knot in knots])
            total += float(v.min()) if np.isnan(losses).any() else bound_game(v - losses - s * D)
        return max(total, cell.bound)

    def _choose_multipliers(self, number: int, knots: Sequence[FusedVertex]) -> list[float]:
        """Return the s of each vertex of a fold, a power of two, at which the loss of the cell is predicted to be
        least.
        """
        D = excesses(knots)
        target = self.target()
        multipliers = []
        for k, knot in enumerate(knots):
            size = abs(knot.validation) + self.smallest
            # what the bound may lose at this vertex
            room = max(self._error(knot) - target, self.gap * size)
            model = self._model(number, knot)
            radius = 4.0 * (knot if model is None else model).objective_radius
            rounding = relative_rounding(4.0) * abs(knot.value) + np.finfo(float).tiny
            steep = max(float(D[:, k].max()), 0.0) + knot.steep + radius + rounding
            # a smaller s than the first gains nothing, and one above the last loses all
            first = math.floor(math.log2(_NEGLIGIBLE * self.gap * size / steep))
            last = max(math.floor(math.log2(room / steep)), first)
            ladder = {} if model is None else {2.0**k: model.loss(2.0**k) for k in range(first, last + 1)}
            losses = {s: loss + 0.5 * s * steep for s, loss in ladder.items() if not math.isnan(loss)}
            multipliers.append(min(losses, key=lambda s: losses[s]) if losses else 2.0 ** (last - 1))
        return multipliers

    def _error(self, vertex: FusedVertex) -> float:
        """Return the smallest sum of the folds' validation errors at a vertex."""
        thetas = [self._join.join(knot.theta, knot.place) for knot in vertex.points]
        return min(sum(knot.validation for knot in self.knots[theta]) for theta in thetas)

    def _model(self, number: int, vertex: FusedVertex) -> FusedVertex | None:
        """Return the vertex itself, or the nearest one where h is known; None where it is known nowhere."""
        positions = self._fused[number]
        if vertex.is_known or not positions:
            return vertex if vertex.is_known else None
        if self._positions[number].shape[0] < len(positions):
            new = [_position(knot) for knot in positions[self._positions[number].shape[0] :]]
            self._positions[number] = np.vstack([*self._positions[number], *new])
        return positions[int(np.abs(self._positions[number] - _position(vertex)).sum(axis=1).argmin())]

    def _loss(self, number: int, knot: FusedVertex, s: float) -> float:
        model = self._model(number, knot)
        return math.nan if model is None else model.loss(s)


def _position(vertex: FusedVertex) -> Array:
    """Return the logarithms of the weights of a vertex, and of the middle of its parameters in constraints."""
    values = np.array([*vertex.theta, *np.mean([knot.place for knot in vertex.points], axis=0)])
    return np.where(values > 0.0, np.log(np.maximum(np.abs(values), np.finfo(float).tiny)), -_FAR + values)
