r"""The smallest value of a shape in a box, with proof: branch and bound by Taylor polynomials with remainders.

On a cell of centre m and half-widths h, with :math:`F = \langle w, \psi(\cdot) \rangle + \text{const}` a derivative of
f, or a sum of some,

.. math:: \Big| F(x) - \sum_{|a| < q} \frac{D^a F(m)}{a!} (x - m)^a \Big|
          \le \|w\| \sum_{|a| = q} \frac{h^a}{a!} \sup_x \|D^a \psi(x)\| ,

since every derivative that the kernel has is a bounded functional of w (:mod:`substrate.composition.derivative_bounds`;
RBF(sigma) with F a slope of one input and q = 2 has :math:`\sqrt{120}/\sigma^3`). The norm of w is the norm of the
returned function, :math:`\sqrt{a^T K a}` rounded up, and the values at m are known up to the rounding of the kernel.
The polynomial is bounded from below in parts of the cell. A Hessian counts by its smallest eigenvalue, a concave
function of its entries, so that over a part the smallest value for the linear polynomial is at a vertex; a shape that
is a number is a matrix of one entry. Terms of higher degree count by their sizes, and the remainder is added in the
norm of Frobenius.

A kernel that is a sum makes F a sum of functions of fewer columns, each with its own norm; the smallest value of the
sum is the sum of their smallest values. So an additive machine is proved column by column, whatever their number. Cells
grow in number as :math:`h^{-d}`; more than three columns at once are refused.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.composition.derivative_bounds import (
    Summand,
    add_orders,
    bound_derivative,
    list_summands,
    multi_indices,
)
from substrate.composition.everywhere import ShapeConstraint
from substrate.composition.expanded_function import EvaluatedTerms, ExpandedFunction
from substrate.errors import DeclarationError
from substrate.numbers import UNIT, at_most, relative_rounding
from substrate.search.best_first import BestFirst, Limits

__all__ = ["BoundShape", "LowestValue", "ShapePlan"]

#: Columns that are searched at once.
_MOST_COLUMNS = 3
#: Cells of one search, and entries of a matrix of kernel values that is made at once.
_BUDGET, _ROUGH_BUDGET, _ENTRIES = 300_000, 60_000, 4_000_000
#: Cells of a first cover and points of a grid, per column, by the number of columns.
_COVER = {0: 1, 1: 64, 2: 12, 3: 6}
_GRID = {0: 1, 1: 257, 2: 33, 3: 13}
#: Points per column of the finer grids around a minimiser, and how many of these, each that much finer.
_ZOOM = {0: 1, 1: 9, 2: 5, 3: 5}
_ZOOMS = 4
#: Parts per column of a cell in which the polynomial is bounded, and the largest order of its remainder.
_PARTS = {1: 16, 2: 8, 3: 4}
_ORDER = 4
#: The least gap of a search, in units of the rounding of its values.
_ROUNDING_GAP = 8.0
#: Cells narrower than this share of the box are not cut.
_NARROWEST = 1e-11
#: Rounded operations of the bound of a cell.
_OPERATIONS = 128.0


@dataclass(frozen=True, slots=True)
class LowestValue:
    """A proved lower bound on the smallest value in a box, the smallest value found and where, and the cells."""

    lower: float
    found: float
    point: Array
    cells: int
    stop: str


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """A term of a shape in one summand of a kernel."""

    factor: float
    orders: dict[int, int]
    substrate: Any
    summand: Summand


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """The pieces on some columns, the columns in which the box has a width, and the order of the remainder."""

    columns: tuple[int, ...]
    moving: tuple[int, ...]
    pieces: tuple[_Piece, ...]
    order: int


@dataclass(frozen=True, eq=False)
class ShapePlan:
    """A shape in a box: the groups of columns that are searched, each by itself.

    Refused before long work where a group has too many columns or the kernel is too rough.
    """

    constraint: ShapeConstraint
    box: Array
    groups: tuple[_Group, ...]

    @classmethod
    def of(cls, constraint: ShapeConstraint) -> "ShapePlan":
        """Return the plan of a constraint."""
        box = constraint.everywhere.limits(constraint.substrates)
        groups = _find_groups(constraint, box)
        plan = cls(constraint, box, tuple(groups))
        plan._refuse()
        return plan

    def _refuse(self) -> None:
        middle = self.box.mean(axis=1)[None, :]
        for group in self.groups:
            d = len(group.moving)
            if d > _MOST_COLUMNS:
                raise DeclarationError(
                    f"{self.constraint.description} everywhere is a function of {d} columns at once ({group.moving}), "
                    f"and cells grow in number as the power of that: {_BUDGET} cells are {_BUDGET ** (1.0 / d):.1f} "
                    f"per column. Up to {_MOST_COLUMNS} are proved; an additive kernel, Componentwise(...), has any "
                    "number of columns, each proved by itself; or fix columns in Everywhere({column: (value, value)}), "
                    "or give points"
                )
            for piece in group.pieces:  # raises where no bound is known
                bound_derivative(piece.summand.kernel, piece.orders, middle, middle)

    def bind(self, functions: Sequence[ExpandedFunction], numbers: Any = EvaluatedTerms) -> "BoundShape":
        """Return the shape of functions as numbers: in double precision, or in balls by ``BallTerms``."""
        return BoundShape(self, functions, numbers)


def _find_groups(constraint: ShapeConstraint, box: Array) -> list[_Group]:
    pieces: list[_Piece] = []
    for term in constraint.terms:
        s = term.substrate
        summands = list_summands(s.components, box.shape[0])
        orders = dict(term.orders)
        for summand in summands:
            if set(orders) <= set(summand.columns) and term.part in (None, summand.part):
                pieces.append(_Piece(term.factor, orders, s, summand))
    groups: list[tuple[set[int], list[_Piece]]] = []
    for piece in pieces:
        columns, members = set(piece.summand.columns), [piece]
        for group in [g for g in groups if g[0] & columns]:
            groups.remove(group)
            columns |= group[0]
            members = group[1] + members
        groups.append((columns, members))
    if constraint.hessian:
        groups = [(columns, members) for columns, members in groups if columns & set(constraint.hessian)]
    return [_group(constraint, box, columns, members) for columns, members in groups]


def _group(constraint: ShapeConstraint, box: Array, columns: set[int], pieces: list[_Piece]) -> _Group:
    moving = tuple(c for c in sorted(columns) if box[c, 1] > box[c, 0])
    order = _ORDER
    for piece in pieces:
        kernel, read = piece.summand.kernel, sum(piece.orders.values()) + (2 if constraint.hessian else 0)
        order = int(min(order, kernel.largest_order(piece.summand.columns) - read))
        if order < 1:
            what = {0: "values", 1: "slopes"}.get(read, f"derivatives of order {read}")
            raise DeclarationError(
                f"{what} of functions of {kernel!r} can be proved at points only: their change in a cell is bounded by "
                f"no multiple of ||w||, which takes one derivative more. Take RBF, or Matern with nu > {read + 1}"
            )
    return _Group(tuple(sorted(columns)), moving, tuple(pieces), order)


class _BoundPiece:
    """A piece with numbers: the derivatives and the norm of an expansion in its summand."""

    def __init__(self, piece: _Piece, function: ExpandedFunction, known: dict[Any, Any], numbers: Any) -> None:
        self.piece = piece
        kernel, part = piece.summand.kernel, piece.summand.part
        several = len(function.substrate.components) > 1
        key = (id(function), id(piece.summand))
        if key not in known:
            known[key] = numbers(kernel, [t for t in function.terms if t.part is None or not several or t.part == part])
        self.terms = known[key]
        self._points: Array | None = None
        self._table: dict[tuple[tuple[int, int], ...], tuple[Array, Array]] = {}

    def values(self, points: Array, more: dict[int, int]) -> tuple[Array, Array]:
        """Return D^more of the piece at points, and what rounding may change in it."""
        key = tuple(sorted(more.items()))
        if self._points is not points or key not in self._table:
            self.prepare(points, [more])
        return self._table[key]

    def prepare(self, points: Array, every: Sequence[dict[int, int]]) -> None:
        """Compute derivatives at points together, and keep them until other points are asked for."""
        factor = self.piece.factor
        found = self.terms.evaluate(points, [add_orders(self.piece.orders, more) for more in every])
        self._points = points
        self._table = {
            tuple(sorted(more.items())): (factor * values, at_most(abs(factor)) * (radius + UNIT * np.abs(values)))
            for more, (values, radius) in zip(every, found, strict=True)
        }

    def size(self, more: dict[int, int], lower: Array, upper: Array) -> Array:
        """Return the largest size of D^more in cells, by the norm."""
        orders = add_orders(self.piece.orders, more)
        length = bound_derivative(self.piece.summand.kernel, orders, lower, upper)
        return np.asarray(at_most(abs(self.piece.factor) * self.terms.norm) * length)


class BoundShape:
    """The shape of functions as numbers: values, minimisers and proofs."""

    def __init__(self, plan: ShapePlan, functions: Sequence[ExpandedFunction], numbers: Any) -> None:
        self.plan = plan
        by_substrate = {id(function.substrate): function for function in functions}
        known: dict[Any, Any] = {}
        self.groups = [
            [_BoundPiece(piece, by_substrate[id(piece.substrate)], known, numbers) for piece in group.pieces]
            for group in plan.groups
        ]
        terms = plan.constraint.terms
        #: What does not depend on x: the bias, with its rounding.
        self.constant = 0.0
        self.constant_radius = 0.0
        if not plan.constraint.hessian:
            biases = [t.factor * by_substrate[id(t.substrate)].bias for t in terms if t.has_bias]
            self.constant = math.fsum(biases)
            self.constant_radius = relative_rounding(4.0) * math.fsum(map(abs, biases))

    def target(self, number: int) -> "_Target":
        """Return the function of one group of columns."""
        return _Target(self.plan, self.plan.groups[number], self.groups[number])

    def proof(self, gap: float, level: float | None = None, time_limit: float = math.inf) -> LowestValue:
        """Prove a lower bound within ``gap`` of the smallest value, or one that reaches ``level``.

        A Hessian of several groups has blocks, the smallest eigenvalue of which counts; other shapes are their sums.
        """
        if not self.plan.groups:
            value = self.constant - self.constant_radius if not self.plan.constraint.hessian else 0.0
            return LowestValue(value, self.constant, self.plan.box.mean(axis=1), 0, "")
        single = len(self.plan.groups) == 1 or bool(self.plan.constraint.hessian)
        share = gap if single else gap / len(self.plan.groups)
        own = None if level is None or not single else level - self.constant + self.constant_radius
        proofs = [self._prove(k, share, own, time_limit) for k in range(len(self.plan.groups))]
        point = self.plan.box.mean(axis=1)
        for group, proof in zip(self.plan.groups, proofs, strict=True):
            point[list(group.columns)] = proof.point[list(group.columns)]
        cells, stop = sum(p.cells for p in proofs), next((p.stop for p in proofs if p.stop), "")
        if self.plan.constraint.hessian:
            lower, found = min(p.lower for p in proofs), min(p.found for p in proofs)
            if set(self.plan.constraint.hessian) - {c for group in self.plan.groups for c in group.columns}:
                lower, found = min(lower, 0.0), min(found, 0.0)  # a column that the kernel does not read
            return LowestValue(lower, found, point, cells, stop)
        lowers, founds = [p.lower for p in proofs], [p.found for p in proofs]
        lower = math.fsum([*lowers, self.constant, -self.constant_radius])
        lower -= relative_rounding(4.0) * (abs(lower) + abs(self.constant))
        return LowestValue(lower, math.fsum([*founds, self.constant]), point, cells, stop)

    def _prove(self, number: int, gap: float, level: float | None, time_limit: float) -> LowestValue:
        cells = _Cells(self.target(number), gap, level, time_limit)
        search: BestFirst[_Batch] = BestFirst(cells, cells.limits, lambda *_: None, "")
        search.run()
        return LowestValue(search.lower_bound, cells.best, cells.best_point, cells.solves, search.stop)

    def minimisers(self, below: float, most: int) -> list[Array]:
        """Return points where the shape is locally smallest and below a level, found without proof, the lowest first.

        Of several groups: the smallest point of each, and one at a time another of its local minima.
        """
        found = [self.target(k).local_minima(most) for k in range(len(self.plan.groups))]
        base, least = self.plan.box.mean(axis=1), 0.0
        if not found:
            return [base]
        if not self.plan.constraint.hessian:  # of which every group is a block by itself
            least = math.fsum([*(float(values[0]) for values, _ in found), self.constant])
            for group, (_, at) in zip(self.plan.groups, found, strict=True):
                base[list(group.columns)] = at[0][list(group.columns)]
        chosen: dict[tuple[float, ...], float] = {}
        for group, (values, at) in zip(self.plan.groups, found, strict=True):
            for value, where in zip(values, at, strict=True):
                level = float(value) if self.plan.constraint.hessian else least - float(values[0]) + float(value)
                if level < below:
                    point = base.copy()
                    point[list(group.columns)] = where[list(group.columns)]
                    chosen[tuple(point)] = level
        return [np.array(point) for point in sorted(chosen, key=lambda point: chosen[point])][:most]

    def scale(self) -> float:
        """Return the spread of its values on a coarse grid, by which violations are measured."""
        c, targets = self.plan.constraint, [self.target(k) for k in range(len(self.groups))]
        values = [target.values(target.grid(9)) for target in targets]
        # the level of a value says nothing about its size, the level of a slope does
        level = [np.zeros(0 if any(term.has_bias for term in c.terms) and values else 1)]
        return max(float(np.ptp(np.concatenate([*level, *values]))), 1e-9 * abs(c.bound)) or 1.0

    def values(self, points: Array) -> Array:
        """Return the shape at points, without a bound on its rounding."""
        if self.plan.constraint.hessian:
            return np.asarray(np.min([self.target(k).values(points) for k in range(len(self.groups))], axis=0))
        total = np.full(points.shape[0], self.constant)
        for k in range(len(self.groups)):
            total += self.target(k).values(points)
        return total

    def direction(self, point: Array) -> Array:
        """Return the eigenvector of the smallest eigenvalue of the Hessian at a point, over all columns."""
        least, vector = math.inf, np.zeros(point.size)
        for k in range(len(self.groups)):
            target = self.target(k)
            values, vectors = np.linalg.eigh(target.matrices(point[None, :], {})[0][0])
            if values[0] < least:
                least, vector = float(values[0]), np.zeros(point.size)
                vector[list(target.inner)] = vectors[:, 0]
        return vector


class _Target:
    """The function of one group of columns: values at points, and lower bounds in cells.

    It is the smallest eigenvalue of a symmetric matrix of derivatives: the Hessian in the columns ``inner``, or a
    matrix of one entry, the shape itself.
    """

    def __init__(self, plan: ShapePlan, group: _Group, pieces: list[_BoundPiece]) -> None:
        self.plan, self.group, self.pieces = plan, group, pieces
        self.inner = tuple(c for c in group.columns if c in plan.constraint.hessian)
        entries = [
            (i, j, add_orders({c: 1}, {other: 1}))
            for i, c in enumerate(self.inner)
            for j, other in enumerate(self.inner[: i + 1])
        ]
        self.entries: list[tuple[int, int, dict[int, int]]] = entries or [(0, 0, {})]

    def whole_points(self, moving: Array) -> Array:
        """Return points of all columns from the moving columns."""
        points = np.repeat(self.plan.box.mean(axis=1)[None, :], moving.shape[0], axis=0)
        fixed = [c for c in range(points.shape[1]) if self.plan.box[c, 0] == self.plan.box[c, 1]]
        points[:, fixed] = self.plan.box[fixed, 0]
        points[:, list(self.group.moving)] = moving
        return points

    def derivative(self, points: Array, more: dict[int, int]) -> tuple[Array, Array]:
        """Return a derivative of the function at points, and what rounding may change in it."""
        found = [piece.values(points, more) for piece in self.pieces]
        totals, radii = (np.sum([pair[k] for pair in found], axis=0) for k in range(2))
        return totals, radii + relative_rounding(len(found)) * np.sum([np.abs(values) for values, _ in found], axis=0)

    def prepare_matrices(self, points: Array, every: Sequence[dict[int, int]]) -> None:
        """Compute derivatives of the matrices at points together."""
        orders = {tuple(add_orders(entry, more).items()) for *_, entry in self.entries for more in every}
        for piece in self.pieces:
            piece.prepare(points, [dict(each) for each in sorted(orders)])

    def matrices(self, points: Array, more: dict[int, int]) -> tuple[Array, Array]:
        """Return the derivative ``more`` of the matrices at points, and a bound on the rounding in the Frobenius
        norm.
        """
        k = max(len(self.inner), 1)
        H, square = np.empty((points.shape[0], k, k)), np.zeros(points.shape[0])
        for i, j, entry in self.entries:
            values, radius = self.derivative(points, add_orders(entry, more))
            H[:, i, j] = H[:, j, i] = values
            square += (1.0 if i == j else 2.0) * np.square(radius)
        return H, np.asarray(at_most(1.0) * np.sqrt(square))

    def values(self, points: Array) -> Array:
        """Return the function at points of all columns."""
        self.prepare_matrices(points, [{}])
        return _smallest_eigenvalue(self.matrices(points, {})[0])

    def bounds(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return lower bounds in cells of the moving columns, and values at their centres, rounded up.

        By the vertices of parts of the cell for a polynomial, and the remainder in the norm of Frobenius.
        """
        centres = (lower + upper) / 2.0
        # the half-widths are rounded up, so that the cell is covered
        half = np.maximum(upper - centres, centres - lower) * (1.0 + relative_rounding(4.0))
        points, low, high = self.whole_points(centres), self.whole_points(lower), self.whole_points(upper)
        moving, orders = self.group.moving, self._polynomial_orders()
        self.prepare_matrices(points, orders)
        terms, size, loss = [], np.zeros(points.shape[0]), np.zeros(points.shape[0])
        for more in orders:
            matrices, radius = self.matrices(points, more)
            power = _power(more, moving, half) / at_most(1.0)
            terms.append(matrices * power[:, None, None])
            size += np.sqrt(np.square(terms[-1]).sum(axis=(1, 2)))
            loss += radius * power
        value = _smallest_eigenvalue(terms[0])
        least = value if len(terms) == 1 else self._least_of_parts(np.stack(terms, axis=1))
        remainder = self.remainder(low, high, half)
        rounding = relative_rounding(_OPERATIONS * 2.0 ** len(moving)) * (size + remainder)
        return least - at_most(1.0) * loss - remainder - rounding, value + loss + rounding

    def _polynomial_orders(self) -> list[dict[int, int]]:
        """Return the orders of the polynomial's terms, the constant first and then the first degree."""
        moving = self.group.moving
        degrees = range(self.group.order) if moving else range(1)
        return [more for degree in degrees for more in multi_indices(moving, degree)]

    def _least_of_parts(self, terms: Array) -> Array:
        r"""Return the smallest value, or eigenvalue, of polynomials in :math:`[-1, 1]^d`, from below, rounding aside.

        Each part of the cube has the polynomial about its centre: the eigenvalue is concave, so the linear part has its
        smallest eigenvalue at a vertex, and terms of higher degree count by their norms.
        """
        moving = self.group.moving
        orders = [tuple(more.get(c, 0) for c in moving) for more in self._polynomial_orders()]
        d = len(moving)
        parts = _PARTS[d] if len(orders) > d + 1 else 1
        shifts = _shift_polynomials(tuple(orders), parts)
        least = np.empty(terms.shape[0])
        step = max(1, _ENTRIES // (shifts.shape[0] * len(orders) * terms[0, 0].size))
        for start in range(0, terms.shape[0], step):
            block = terms[start : start + step]
            k = block.shape[-1]
            # cells x parts x terms x entries
            moved = np.tensordot(block.reshape(block.shape[0], len(orders), k * k), shifts, axes=([1], [2]))
            moved = np.moveaxis(moved, 1, 3).reshape(block.shape[0], *shifts.shape[:2], k, k)
            higher = np.sqrt(np.square(moved[:, :, d + 1 :]).sum(axis=(3, 4))).sum(axis=2)
            lowest = np.full(moved.shape[:2], np.inf)
            for signs in product((-1.0, 1.0), repeat=d):
                vertex = moved[:, :, 0] + np.einsum("c,npcij->npij", np.array(signs), moved[:, :, 1 : d + 1])
                lowest = np.minimum(lowest, _smallest_eigenvalue(vertex))
            least[start : start + step] = (lowest - higher).min(axis=1)
        return least

    def remainder(self, low: Array, high: Array, half: Array) -> Array:
        """Bound the distance of the matrices from their Taylor polynomials in cells, in the Frobenius norm."""
        moving, square = self.group.moving, np.zeros(half.shape[0])
        if not moving:
            return square
        for i, j, entry in self.entries:
            total = np.zeros(half.shape[0])
            for more in multi_indices(moving, self.group.order):
                power, orders = _power(more, moving, half), add_orders(entry, more)
                for piece in self.pieces:
                    total += piece.size(orders, low, high) * power
            square += (1.0 if i == j else 2.0) * np.square(total)
        return np.asarray(at_most(1.0) * np.sqrt(square))

    def grid(self, counts: int) -> Array:
        """Return a grid of the moving columns, ends included, as points of all columns."""
        sides = [np.linspace(float(self.plan.box[c, 0]), float(self.plan.box[c, 1]), counts) for c in self.group.moving]
        mesh = np.meshgrid(*sides, indexing="ij") if sides else []
        return self.whole_points(np.stack([m.ravel() for m in mesh], axis=1) if sides else np.zeros((1, 0)))

    def local_minima(self, most: int) -> tuple[Array, Array]:
        """Return values and points of local minima on a grid, refined by finer grids, the lowest first; at least
        one.
        """
        from scipy.ndimage import minimum_filter

        d = len(self.group.moving)
        counts = _GRID[d]
        points = self.grid(counts)
        values = self.values(points)
        if d:
            shaped = values.reshape((counts,) * d)
            is_least = (shaped <= minimum_filter(shaped, size=3, mode="nearest")).ravel()
            at = np.flatnonzero(is_least)
            at = at[np.argsort(values[at], kind="stable")][:most]
        else:
            at = np.zeros(1, dtype=np.intp)
        chosen = points[at]
        if not d:
            return values, chosen
        moving = list(self.group.moving)
        box = self.plan.box[moving]
        step = (box[:, 1] - box[:, 0]) / (counts - 1)
        n = _ZOOM[d]
        offsets = np.stack([m.ravel() for m in np.meshgrid(*[np.linspace(-1.0, 1.0, n)] * d, indexing="ij")], axis=1)
        lowest = values[at]
        for _ in range(_ZOOMS):
            tried = np.clip(chosen[:, None, moving] + offsets[None] * step, box[:, 0], box[:, 1])
            flat = self.whole_points(tried.reshape(-1, d))
            found = self.values(flat).reshape(len(chosen), -1)
            best = found.argmin(axis=1)
            better = found[np.arange(len(chosen)), best] < lowest
            chosen[better] = flat.reshape(len(chosen), -1, flat.shape[1])[np.arange(len(chosen)), best][better]
            lowest = np.minimum(lowest, found.min(axis=1))
            step = step * 2.0 / (n - 1)
        order = np.argsort(lowest, kind="stable")
        kept: list[int] = []
        apart = 2.0 * (box[:, 1] - box[:, 0]) / (counts - 1)
        for k in order:  # two cuts at one place help little
            if all((np.abs(chosen[k, moving] - chosen[j, moving]) > apart).any() for j in kept):
                kept.append(int(k))
        return lowest[kept], chosen[kept]


def _smallest_eigenvalue(matrices: Array) -> Array:
    """Return the smallest eigenvalues of symmetric matrices, by a formula for two columns."""
    if matrices.shape[-1] == 1:
        return np.asarray(matrices[..., 0, 0])
    if matrices.shape[-1] == 2:
        a, b, c = matrices[..., 0, 0], matrices[..., 0, 1], matrices[..., 1, 1]
        return np.asarray(0.5 * (a + c) - np.hypot(0.5 * (a - c), b))
    return np.asarray(np.linalg.eigvalsh(matrices)[..., 0])


@cache
def _shift_polynomials(orders: tuple[tuple[int, ...], ...], parts: int) -> Array:
    """Return the matrices that take coefficients of a polynomial in the cube to those about the centres of its parts.

    The half-widths of the parts are in the coefficients: parts x new terms x old terms.
    """
    d = len(orders[0])
    sides = (2.0 * np.arange(parts) + 1.0) / parts - 1.0
    shifts = np.zeros((parts**d, len(orders), len(orders)))
    for number, centre in enumerate(product(sides, repeat=d)):
        for i, new in enumerate(orders):
            for j, old in enumerate(orders):
                if all(a <= b for a, b in zip(new, old, strict=True)):
                    factor = float(parts) ** -sum(new)
                    for a, b, at in zip(new, old, centre, strict=True):
                        factor *= math.comb(b, a) * at ** (b - a)
                    shifts[number, i, j] = factor
    return shifts


def _power(more: dict[int, int], moving: tuple[int, ...], half: Array) -> Array:
    """Return h^a / a!."""
    value = np.ones(half.shape[0])
    for c, order in more.items():
        value = value * half[:, moving.index(c)] ** order / math.factorial(order)
    return np.asarray(at_most(1.0) * value)


@dataclass(slots=True, eq=False)
class _Batch:
    """Cells that are bounded at once, and the smallest of their bounds."""

    bound: float
    lower: Array
    upper: Array
    bounds: Array


@dataclass(eq=False)
class _Cells:
    """The space of the search: batches of cells of one group, cut in half in every column."""

    shape: _Target
    gap: float
    level: float | None
    time_limit: float
    collapsed: str = "cells are as narrow as rounding"
    usual: float = 1.0
    solves: int = 0
    best: float = math.inf
    best_point: Array = field(default_factory=lambda: np.zeros(0))
    limits: Limits = field(init=False)

    def __post_init__(self) -> None:
        # a bound of a low order gains little by more cells
        self.limits = Limits(_BUDGET if self.shape.group.order > 1 else _ROUGH_BUDGET, self.time_limit)

    def target(self) -> float:
        """Return the smallest value found less the gap, or the level if that is lower."""
        known = self.best - self.gap
        return known if self.level is None else min(known, self.level)

    def cover(self) -> Sequence[_Batch]:
        """Return a grid of cells."""
        box = self.shape.plan.box[list(self.shape.group.moving)]
        count = _COVER[len(box)]
        edges = [np.linspace(low, high, count + 1) for low, high in box]
        lower = _mesh([e[:-1] for e in edges])
        upper = _mesh([e[1:] for e in edges])
        # no cell is known better than the rounding of its value, however narrow
        _, radius = self.shape.matrices(self.shape.whole_points((lower + upper) / 2.0), {})
        self.gap = max(self.gap, _ROUNDING_GAP * float(radius.max(initial=0.0)))
        return [self._batch(lower, upper)]

    def priority(self, cell: _Batch) -> float:
        """Return the bound: the lowest comes first."""
        return cell.bound

    def refine(self, cell: _Batch, target: float) -> Sequence[_Batch]:
        """Return the settled cells unchanged, and the halves of the others."""
        settled = cell.bounds >= target
        lower, upper = cell.lower[~settled], cell.upper[~settled]
        box = self.shape.plan.box[list(self.shape.group.moving)]
        if not len(box) or ((upper - lower) <= _NARROWEST * (box[:, 1] - box[:, 0])).all(axis=1).any():
            return []
        d = lower.shape[1]
        self.limits.check(self.solves, lower.shape[0] * 2**d)
        middle = (lower + upper) / 2.0
        lows, highs = [], []
        for halves in product((False, True), repeat=d):
            high = np.array(halves)
            lows.append(np.where(high, middle, lower))
            highs.append(np.where(high, upper, middle))
        batches = [self._batch(np.vstack(lows), np.vstack(highs))]
        if settled.any():
            kept = cell.bounds[settled]
            batches.append(_Batch(float(kept.min()), cell.lower[settled], cell.upper[settled], kept))
        return batches

    def _batch(self, lower: Array, upper: Array) -> _Batch:
        self.solves += lower.shape[0]
        bounds, values = self.shape.bounds(lower, upper)
        bounds = np.where(np.isfinite(bounds), bounds, -math.inf)
        k = int(values.argmin())
        if values[k] < self.best:
            self.best = float(values[k])
            self.best_point = self.shape.whole_points(((lower + upper) / 2.0)[k : k + 1])[0]
        return _Batch(float(bounds.min()), lower, upper, bounds)


def _mesh(sides: list[Array]) -> Array:
    if not sides:
        return np.zeros((1, 0))
    return np.stack([m.ravel() for m in np.meshgrid(*sides, indexing="ij")], axis=1)
