r"""The smallest value of a shape in a box, with proof: branch and bound by Taylor polynomials with remainders.

On a cell of centre m and half-widths h, with :math:`F = \langle w, \psi(\cdot) \rangle + \text{const}` a derivative of
f, or a sum of some,

.. math:: \Big| F(x) - \sum_{|a| < q} \frac{D^a F(m)}{a!} (x - m)^a \Big|
          \le \|w\| \sum_{|a| = q} \frac{h^a}{a!} \sup_x \|D^a \psi(x)\| ,

since every derivative that the kernel has is a bounded functional of w (RBF(sigma) with F a slope of one input and
q = 2 has :math:`\sqrt{120}/\sigma^3`). The norm of w is the norm of the returned function, :math:`\sqrt{a^T K a}`
rounded up, and the values at m are known up to the rounding of the kernel. In each part of a cell the polynomial is a
convex combination of its coefficients of Bernstein [Farouki2012]_. A Hessian counts by its smallest eigenvalue, a
concave function of its entries, so that no value is below the smallest one of a coefficient; a shape that is a number
is a matrix of one entry. The remainder is added in the norm of Frobenius.

A kernel that is a sum makes F a sum of functions of fewer columns, each with its own norm; the smallest value of the
sum is the sum of their smallest values. So an additive machine is proved column by column, whatever their number. Cells
grow in number as :math:`h^{-d}`; more than three columns at once are refused.

*Functions as numbers.*

.. math:: f = \sum_j c_j \, D_j k(z_j, \cdot) + b , \qquad \|w\|^2 = \sum_{jk} c_j c_k \, D_j D_k k(z_j, z_k) .

The inner products are formulas of the kernel, so that nothing is left out of the norm, as coordinates would; what
rounding changes is bounded by the sum of the sizes of the terms.

The norm bounds every derivative. With the features :math:`\varphi` of a kernel,
:math:`D^a f(x) = \langle w, D^a \varphi(x) \rangle`, so that

.. math:: |D^a f(x)| \le \|w\| \, \|D^a \varphi(x)\| , \qquad
          \|D^a \varphi(x)\|^2 = D_x^a D_z^a k(x, z) |_{z = x} ,

a constant for a kernel of the difference x - z. The features of linear and polynomial kernels are monomials with
factors >= 0, whose derivatives are largest where every :math:`|x_c|` is. A product of kernels has the products of
features, and by the rule of Leibniz

.. math:: \|D^a (\varphi \otimes \psi)\| \le \sum_{b \le a} \binom{a}{b} \|D^b \varphi\| \, \|D^{a-b} \psi\| .
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, reduce
from itertools import pairwise, product
from typing import Any

import numpy as np

from substrate.arrays import Array, strips, to_dense
from substrate.certificate import Row
from substrate.declare.linear_operators import (
    DERIVATIVES,
    VALUE,
    LinearOperator,
    add_lengths,
    bound_rounding,
    inner_product_matrix,
)
from substrate.declare.place_holders import RegionConstraint
from substrate.declare.span import Further
from substrate.errors import DeclarationError
from substrate.kernels import (
    Componentwise,
    Linear,
    Polynomial,
    Product,
    Restricted,
    Scaled,
    Sum,
    Symmetric,
)
from substrate.kernels.derivatives import Orders, split_orders
from substrate.kernels.kernel import Kernel
from substrate.kernels.of_distance import KernelOfDistance
from substrate.numbers import Double, at_most, relative_rounding

__all__ = [
    "BoundShape",
    "EvaluatedTerms",
    "ExpandedFunction",
    "LowestValue",
    "ShapeConstraint",
    "ShapeReport",
    "ShapeTerm",
    "bound_derivative",
]


# --- functions as numbers ---------------------------------------------------------------------------------------------

#: Entries of a matrix of kernel values that is made at once.
_BLOCK = 200_000


@dataclass(frozen=True, slots=True, eq=False)
class ExpandedFunction:
    """One substrate's function as numbers: its expansion and its bias."""

    substrate: Any
    terms: tuple[Further, ...]
    bias: float

    @classmethod
    def of(cls, expansion: Any) -> "ExpandedFunction":
        """Return one substrate's part of a solution as numbers."""
        s = expansion.substrate
        first = Further(to_dense(s.X if s.basis is None else s.basis), np.asarray(expansion.coefficients))
        further = [replace(term, points=to_dense(term.points)) for term in expansion.further]
        return cls(s, (first, *further), float(np.asarray(expansion.b)))

    def terms_in(self, part: int) -> list[Further]:
        """Return the terms that a component has a share of."""
        several = len(self.substrate.components) > 1
        return [term for term in self.terms if term.part is None or not several or term.part == part]

    def squared_norm(self) -> float:
        """Return w'w, rounded up; for functions with terms of components, the sum over the components."""
        s = self.substrate
        if all(term.part is None for term in self.terms):
            return EvaluatedTerms(s.kernel, self.terms).square
        return sum(EvaluatedTerms(kernel, self.terms_in(part)).square for part, kernel in enumerate(s.components))


class EvaluatedTerms:
    """An expansion in one kernel in double precision: its norm, rounded up, and derivatives with their rounding."""

    numbers: Any = Double

    def __init__(self, kernel: Kernel, terms: Sequence[Further]) -> None:
        self.kernel, self.terms = kernel, terms
        self.coefficients = self.numbers.exact(np.concatenate([term.coefficients for term in terms]))
        self._prepare([(term.operator or VALUE, term.points) for term in terms])
        total = (self.coefficients * self.multiply(self.coefficients)).total()
        #: w'w and its root, rounded up.
        self.square = max(float(total.upper_ends().midpoint), 0.0)
        self.norm = total.bound_root().upper()

    def _prepare(self, readings: Sequence[tuple[Any, Array]]) -> None:
        """Compute the inner products of all terms, and their rounding."""
        self._matrix: Any = np.block(
            [[inner_product_matrix(self.kernel, *left, *right) for right in readings] for left in readings]
        )
        self._lengths = np.concatenate([add_lengths(self.kernel, *reading) for reading in readings])
        self._rounding = bound_rounding(self.kernel, readings)

    def multiply(self, c: Any) -> Any:
        """Return the readings of the terms of the expansion with other coefficients."""
        relative = self._rounding + relative_rounding(self._lengths.size + 4.0)
        sizes = relative * float(self._lengths @ c.sizes)
        sizes += float(self._lengths @ np.broadcast_to(c.radius, self._lengths.shape))
        return Double(self._matrix @ c.middle, self._lengths * sizes)

    def evaluate(self, points: Array, every: Sequence[dict[int, int]]) -> list[tuple[Array, Array]]:
        """Return derivatives of these orders at points, and what rounding may change in them."""
        size, derivatives = at_most(float(self._lengths @ self.coefficients.sizes)), []
        for orders in every:
            operator, total = LinearOperator.derivative(orders), np.zeros(points.shape[0])
            for rows in strips(points.shape[0], max(1, _BLOCK // max(self._lengths.size, 1))):
                for term in self.terms:
                    reading = (term.operator or VALUE, term.points)
                    total[rows] += (
                        inner_product_matrix(self.kernel, operator, points[rows], *reading) @ term.coefficients
                    )
            # what the readings of the terms lose is in the rounding of each value, too
            loss = self._rounding * (DERIVATIVES * 2.0 ** sum(orders.values()) if orders else 1.0)
            share = loss + relative_rounding(self._lengths.size + len(self.terms) + 4.0)
            derivatives.append((total, at_most(share * size) * bound_derivative(self.kernel, orders, points, points)))
        return derivatives


def multi_indices(columns: tuple[int, ...], order: int) -> Iterator[dict[int, int]]:
    """Yield all orders in these columns that add up to ``order``."""
    if not columns:
        if not order:
            yield {}
        return
    for first in range(order, -1, -1):
        for orders in multi_indices(columns[1:], order - first):
            yield ({columns[0]: first} if first else {}) | orders


def _summands(kernel: Kernel, n_features: int) -> list[tuple[Kernel, tuple[int, ...]]]:
    """Return the kernels whose sum a kernel is, each with the columns that it reads."""
    if isinstance(kernel, (Sum, Componentwise)):
        return [pair for term in kernel.parts(n_features) for pair in _summands(term, n_features)]
    if isinstance(kernel, Scaled):
        return [(Scaled(kernel.factor, inner), columns) for inner, columns in _summands(kernel.kernel, n_features)]
    if isinstance(kernel, Restricted):
        inside = _summands(kernel.kernel, len(kernel.columns))
        return [
            (Restricted(inner, kernel.columns), tuple(sorted(kernel.columns[c] for c in columns)))
            for inner, columns in inside
        ]
    if isinstance(kernel, Product):
        sides = [*_summands(kernel.left, n_features), *_summands(kernel.right, n_features)]
        return [(kernel, tuple(sorted({c for _, columns in sides for c in columns})))]
    return [(kernel, tuple(range(n_features)))]


def bound_derivative(kernel: Kernel, orders: Orders, lower: Array, upper: Array) -> Array:
    """Return bounds on the norm of the feature's derivative of these orders, one for each cell [lower, upper]."""
    if isinstance(kernel, Sum):
        sides = [bound_derivative(side, orders, lower, upper) for side in (kernel.left, kernel.right)]
        return np.asarray(at_most(1.0) * np.hypot(*sides))
    if isinstance(kernel, Scaled):
        return np.asarray(at_most(math.sqrt(kernel.factor)) * bound_derivative(kernel.kernel, orders, lower, upper))
    if isinstance(kernel, Restricted):
        if not set(orders) <= set(kernel.columns):
            return np.zeros(lower.shape[0])
        columns = list(kernel.columns)
        inside = {columns.index(c): order for c, order in orders.items()}
        return bound_derivative(kernel.kernel, inside, lower[:, columns], upper[:, columns])
    if isinstance(kernel, Product):
        total = np.zeros(lower.shape[0])
        for times, first, second in split_orders(orders):
            factor = bound_derivative(kernel.left, first, lower, upper)
            total += times * factor * bound_derivative(kernel.right, second, lower, upper)
        return np.asarray(at_most(1.0) * total)
    operator = LinearOperator.derivative(orders)
    if isinstance(kernel, KernelOfDistance):
        return np.full(lower.shape[0], _constant(kernel, operator, lower.shape[1]))
    if isinstance(kernel, Symmetric):
        # its features are half the sum or the difference of those at x and at -x
        cells = [(lower, upper), (-upper, -lower)]
        return np.asarray(at_most(0.5) * sum(bound_derivative(kernel.kernel, orders, *cell) for cell in cells))
    if isinstance(kernel, (Linear, Polynomial)):
        # derivatives of monomials are largest at the corner that is farthest from zero, which many cells share
        corners, which = np.unique(np.maximum(np.abs(lower), np.abs(upper)), axis=0, return_inverse=True)
        return np.asarray(at_most(1.0) * add_lengths(kernel, operator, corners)[np.ravel(which)])
    raise DeclarationError(
        f"how far functions of {kernel!r} can change in a cell is not known, so that nothing can be proved everywhere; "
        "take RBF, Matern, Laplacian, Linear, Polynomial, and sums, products, multiples and Componentwise of these"
    )


@cache
def _constant(kernel: KernelOfDistance, operator: LinearOperator, n_features: int) -> float:
    """Return the norm for a kernel of the difference, which is the same at every point."""
    return at_most(float(add_lengths(kernel, operator, np.zeros((1, n_features)))[0]))


def add_orders(orders: Orders, more: Mapping[int, int]) -> dict[int, int]:
    """Add orders column by column."""
    return {c: orders.get(c, 0) + more.get(c, 0) for c in sorted({*orders, *more})}


# --- the oracle -------------------------------------------------------------------------------------------------------

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
_PARTS = {0: 1, 1: 8, 2: 4, 3: 2}
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
    value: float
    point: Array
    cells: int
    stop: str


@dataclass(frozen=True, eq=False)
class ShapeTerm:
    """A factor, a substrate, the orders of a derivative by column, and the component (None: of f, with its bias)."""

    factor: float
    substrate: Any
    orders: tuple[tuple[int, int], ...] = ()
    part: int | None = None

    @property
    def has_bias(self) -> bool:
        """Return whether the expression includes the bias of the substrate."""
        return self.part is None and not self.orders and bool(self.substrate.bias)


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """A term of a shape in one summand of a kernel: on the columns that this reads, in a component."""

    factor: float
    orders: dict[int, int]
    substrate: Any
    kernel: Kernel
    columns: tuple[int, ...]
    part: int


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """The pieces on some columns, the columns in which the box has a width, and the order of the remainder."""

    columns: tuple[int, ...]
    moving: tuple[int, ...]
    pieces: tuple[_Piece, ...]
    order: int


@dataclass(frozen=True, eq=False)
class ShapeConstraint(RegionConstraint):
    """``D f >= bound`` everywhere in a box; with ``hessian``, the smallest eigenvalue of the second derivatives."""

    region: Any
    terms: tuple[ShapeTerm, ...]
    bound: float
    hessian: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        raise DeclarationError("a constraint that holds everywhere has no truth value; pass it in subject_to=[...]")

    @property
    def substrates(self) -> tuple[Any, ...]:
        """The substrates that it reads, each once."""
        return tuple({id(term.substrate): term.substrate for term in self.terms}.values())

    @property
    def description(self) -> str:
        """The constraint in words, as a row of a certificate names it."""
        if self.hessian:
            sign = "" if self.terms[0].factor > 0.0 else "-"
            return f"eigenvalues of {sign}Hessian >= {self.bound:g}"
        negated = all(term.factor < 0.0 for term in self.terms)
        parts = [_describe(term, -1.0 if negated else 1.0) for term in self.terms]
        left_side = parts[0] + "".join(f" - {p[1:]}" if p.startswith("-") else f" + {p}" for p in parts[1:])
        return f"{left_side} <= {0.0 - self.bound:g}" if negated else f"{left_side} >= {self.bound:g}"

    @cached_property
    def box(self) -> Array:
        """The lower and the upper end of every column."""
        limits: Array = self.region.limits(self.substrates)
        return limits

    @cached_property
    def groups(self) -> tuple[_Group, ...]:
        """The groups of columns that are searched, each by itself; refused where the kernel is too rough."""
        return tuple(_find_groups(self, self.box))

    def refuse(self) -> None:
        """Raise before long work where a group has too many columns or the kernel has no bound."""
        middle = self.box.mean(axis=1)[None, :]
        for group in self.groups:
            d = len(group.moving)
            if d > _MOST_COLUMNS:
                raise DeclarationError(
                    f"{self.description} everywhere is a function of {d} columns at once ({group.moving}), "
                    f"and cells grow in number as the power of that: {_BUDGET} cells are {_BUDGET ** (1.0 / d):.1f} "
                    f"per column. Up to {_MOST_COLUMNS} are proved; an additive kernel, Componentwise(...), has any "
                    "number of columns, each proved by itself; or fix columns in Everywhere({column: (value, value)}), "
                    "or give points"
                )
            for piece in group.pieces:  # raises where no bound is known
                bound_derivative(piece.kernel, piece.orders, middle, middle)

    def bind(self, functions: Sequence[ExpandedFunction], numbers: Any = EvaluatedTerms) -> "BoundShape":
        """Return the shape of functions as numbers: in double precision, or in balls by ``BallTerms``."""
        return BoundShape(self, functions, numbers)


def _describe(term: ShapeTerm, sign: float) -> str:
    s = term.substrate
    name = (s.name or "f") if term.part is None else f"{s.name or 'f'}^{term.part + 1}"
    names = s.column_names
    for column, order in term.orders:
        which = names[column] if names else column
        name = f"d{order if order > 1 else ''} {name}/d {which}"
    factor = sign * term.factor
    return {1.0: "", -1.0: "-"}.get(factor, f"{factor:g} ") + name


@dataclass(frozen=True, slots=True)
class ShapeReport:
    """What was proved of one shape: its words, its bound c, the slack with D f >= c + slack everywhere, and the box."""

    description: str
    bound: float
    slack: float
    box: Array
    cells: int
    scale: float

    @classmethod
    def of(cls, shape: ShapeConstraint, proof: LowestValue, scale: float) -> "ShapeReport":
        """Return what a proof says of a shape; ``scale`` is the size of its values."""
        bound = shape.bound
        return cls(shape.description, bound, proof.lower - bound, shape.box, proof.cells, scale)

    def row(self) -> Row:
        """Return the row of a certificate."""
        return Row(
            name=f"holds everywhere: {self.description}",
            value=max(-self.slack, 0.0) if math.isfinite(self.slack) else math.inf,
            scale=self.scale,
            tolerance=0.0,
            formula=f"violation, proved over the box; slack {self.slack:.1e}, {self.cells} cells",
        )


def _find_groups(constraint: ShapeConstraint, box: Array) -> list[_Group]:
    pieces: list[_Piece] = []
    for term in constraint.terms:
        s = term.substrate
        orders = dict(term.orders)
        for part, component in enumerate(s.components):
            for kernel, columns in _summands(component, box.shape[0]):
                if set(orders) <= set(columns) and term.part in (None, part):
                    pieces.append(_Piece(term.factor, orders, s, kernel, columns, part))
    groups: list[tuple[set[int], list[_Piece]]] = []
    for piece in pieces:
        joined, members = set(piece.columns), [piece]
        for group in [g for g in groups if g[0] & joined]:
            groups.remove(group)
            joined |= group[0]
            members = group[1] + members
        groups.append((joined, members))
    if constraint.hessian:
        groups = [(columns, members) for columns, members in groups if columns & set(constraint.hessian)]
    return [_group(constraint, box, columns, members) for columns, members in groups]


def _group(constraint: ShapeConstraint, box: Array, columns: set[int], pieces: list[_Piece]) -> _Group:
    moving = tuple(c for c in sorted(columns) if box[c, 1] > box[c, 0])
    order = _ORDER
    for piece in pieces:
        kernel, read = piece.kernel, sum(piece.orders.values()) + (2 if constraint.hessian else 0)
        order = int(min(order, kernel.largest_order(piece.columns) - read))
        if order < 1:
            what = {0: "values", 1: "slopes"}.get(read, f"derivatives of order {read}")
            raise DeclarationError(
                f"{what} of functions of {kernel!r} can be proved at points only: their change in a cell is bounded by "
                f"no multiple of ||w||, which takes one derivative more. Take RBF, or Matern with nu > {read + 1}"
            )
    return _Group(tuple(sorted(columns)), moving, tuple(pieces), order)


class BoundShape:
    """The shape of functions as numbers: values, minimisers and proofs."""

    def __init__(self, shape: ShapeConstraint, functions: Sequence[ExpandedFunction], numbers: Any) -> None:
        self.shape = shape
        by_substrate = {id(function.substrate): function for function in functions}

        def bind(piece: _Piece) -> Any:
            return numbers(piece.kernel, by_substrate[id(piece.substrate)].terms_in(piece.part))

        self.targets = [_Target(shape, group, [bind(piece) for piece in group.pieces]) for group in shape.groups]
        #: What does not depend on x: the bias, with its rounding.
        biases = [t.factor * by_substrate[id(t.substrate)].bias for t in shape.terms if t.has_bias]
        biases = [] if shape.hessian else biases
        self.constant = math.fsum(biases)
        self.constant_radius = relative_rounding(4.0) * math.fsum(map(abs, biases))

    def proof(
        self, gap: float, level: float | None = None, time_limit: float = math.inf, budget: int = _BUDGET
    ) -> LowestValue:
        """Prove a lower bound within ``gap`` of the smallest value, or one that reaches ``level``, by so many cells.

        A Hessian of several groups has blocks, the smallest eigenvalue of which counts; other shapes are their sums.
        """
        if not self.shape.groups:
            value = self.constant - self.constant_radius if not self.shape.hessian else 0.0
            return LowestValue(value, self.constant, self.shape.box.mean(axis=1), 0, "")
        single = len(self.shape.groups) == 1 or bool(self.shape.hessian)
        share = gap if single else gap / len(self.shape.groups)
        sufficient_level = None if level is None or not single else level - self.constant + self.constant_radius
        proofs = [target.prove(share, sufficient_level, time_limit, budget) for target in self.targets]
        point = self.shape.box.mean(axis=1)
        for group, proof in zip(self.shape.groups, proofs, strict=True):
            point[list(group.columns)] = proof.point[list(group.columns)]
        cells, stop = sum(p.cells for p in proofs), next((p.stop for p in proofs if p.stop), "")
        if self.shape.hessian:
            lower, value = min(p.lower for p in proofs), min(p.value for p in proofs)
            if set(self.shape.hessian) - {c for group in self.shape.groups for c in group.columns}:
                lower, value = min(lower, 0.0), min(value, 0.0)  # a column that the kernel does not read
            return LowestValue(lower, value, point, cells, stop)
        lowers, values = [p.lower for p in proofs], [p.value for p in proofs]
        lower = math.fsum([*lowers, self.constant, -self.constant_radius])
        lower -= relative_rounding(4.0) * (abs(lower) + abs(self.constant))
        return LowestValue(lower, math.fsum([*values, self.constant]), point, cells, stop)

    def minimisers(self, below: float, most: int) -> list[Array]:
        """Return points where the shape is locally smallest and below a level, found without proof, the lowest first.

        Of several groups: the smallest point of each, and one at a time another of its local minima.
        """
        minima = [target.local_minima(most) for target in self.targets]
        base, least = self.shape.box.mean(axis=1), 0.0
        if not minima:
            return [base]
        if not self.shape.hessian:  # of which every group is a block by itself
            least = math.fsum([*(float(values[0]) for values, _ in minima), self.constant])
            for group, (_, at) in zip(self.shape.groups, minima, strict=True):
                base[list(group.columns)] = at[0][list(group.columns)]
        chosen: dict[tuple[float, ...], float] = {}
        for group, (values, at) in zip(self.shape.groups, minima, strict=True):
            for value, where in zip(values, at, strict=True):
                level = float(value) if self.shape.hessian else least - float(values[0]) + float(value)
                if level < below:
                    point = base.copy()
                    point[list(group.columns)] = where[list(group.columns)]
                    chosen[tuple(point)] = level
        return [np.array(point) for point in sorted(chosen, key=lambda point: chosen[point])][:most]

    def scale(self) -> float:
        """Return the spread of its values on a coarse grid, by which violations are measured."""
        c, values = self.shape, [target.values(target.grid(9)) for target in self.targets]
        # the level of a value says nothing about its size, the level of a slope does
        level = [np.zeros(0 if any(term.has_bias for term in c.terms) and values else 1)]
        return max(float(np.ptp(np.concatenate([*level, *values]))), 1e-9 * abs(c.bound)) or 1.0

    def values(self, points: Array) -> Array:
        """Return the shape at points, without a bound on its rounding."""
        if self.shape.hessian:
            return np.asarray(np.min([target.values(points) for target in self.targets], axis=0))
        return np.asarray(sum((target.values(points) for target in self.targets), np.full(len(points), self.constant)))

    def direction(self, point: Array) -> Array:
        """Return the eigenvector of the smallest eigenvalue of the Hessian at a point, over all columns."""
        least, vector = math.inf, np.zeros(point.size)
        for target in self.targets:
            values, vectors = np.linalg.eigh(target.derivatives(point[None, :], [{}])[0][0][0])
            if values[0] < least:
                least, vector = float(values[0]), np.zeros(point.size)
                vector[list(target.inner)] = vectors[:, 0]
        return vector


class _Target:
    """The function of one group of columns: values at points, and lower bounds in cells.

    It is the smallest eigenvalue of a symmetric matrix of derivatives: the Hessian in the columns ``inner``, or a
    matrix of one entry, the shape itself.
    """

    def __init__(self, shape: ShapeConstraint, group: _Group, terms: Sequence[Any]) -> None:
        self.group, self.pieces = group, list(zip(group.pieces, terms, strict=True))
        self.middle, self.box = shape.box.mean(axis=1), shape.box[list(group.moving)]
        self.inner = tuple(c for c in group.columns if c in shape.hessian)
        entries = [
            (i, j, add_orders({c: 1}, {other: 1}))
            for i, c in enumerate(self.inner)
            for j, other in enumerate(self.inner[: i + 1])
        ]
        self.entries: list[tuple[int, int, dict[int, int]]] = entries or [(0, 0, {})]

    def whole_points(self, moving: Array) -> Array:
        """Return points of all columns from the moving columns."""
        points = np.repeat(self.middle[None, :], moving.shape[0], axis=0)
        points[:, list(self.group.moving)] = moving
        return points

    def _evaluate(self, points: Array, every: Sequence[dict[int, int]]) -> tuple[Array, Array]:
        """Return derivatives of the function at points, one row for each of the orders, and their rounding."""
        totals, radii = np.zeros((2, len(every), points.shape[0]))
        for piece, terms in self.pieces:
            derivatives = terms.evaluate(points, [add_orders(piece.orders, more) for more in every])
            values, radius = (piece.factor * np.array(part) for part in zip(*derivatives, strict=True))
            totals += values
            radii += at_most(1.0) * np.abs(radius) + relative_rounding(len(self.pieces) + 1.0) * np.abs(values)
        return totals, radii

    def derivatives(self, points: Array, every: Sequence[dict[int, int]]) -> list[tuple[Array, Array]]:
        """Return derivatives of the matrices at points, each with a bound on its rounding in the Frobenius norm."""
        orders = sorted({tuple(add_orders(entry, more).items()) for *_, entry in self.entries for more in every})
        table = dict(zip(orders, zip(*self._evaluate(points, list(map(dict, orders))), strict=True), strict=True))
        k, matrices = max(len(self.inner), 1), []
        for more in every:
            H, square = np.empty((points.shape[0], k, k)), np.zeros(points.shape[0])
            for i, j, entry in self.entries:
                values, radius = table[tuple(add_orders(entry, more).items())]
                H[:, i, j] = H[:, j, i] = values
                square += (1.0 if i == j else 2.0) * np.square(radius)
            matrices.append((H, np.asarray(at_most(1.0) * np.sqrt(square))))
        return matrices

    def values(self, points: Array) -> Array:
        """Return the function at points of all columns."""
        return _smallest_eigenvalue(self.derivatives(points, [{}])[0][0])

    def bounds(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return lower bounds in cells of the moving columns, and values at their centres, rounded up."""
        centres = (lower + upper) / 2.0
        # the half-widths are rounded up, so that the cell is covered
        half = np.maximum(upper - centres, centres - lower) * (1.0 + relative_rounding(4.0))
        moving, degrees = self.group.moving, range(self.group.order if self.group.moving else 1)
        orders = [more for degree in degrees for more in multi_indices(moving, degree)]
        powers = np.stack([_power(more, moving, half) for more in orders])
        derivatives = self.derivatives(self.whole_points(centres), orders)
        terms = np.stack([H for H, _ in derivatives], axis=1) * powers.T[:, :, None, None]
        loss = at_most(1.0) * (np.stack([radius for _, radius in derivatives]) * powers).sum(axis=0)
        size, remainder = np.sqrt(np.square(terms).sum(axis=(2, 3))).sum(axis=1), self.remainder(lower, upper, half)
        rounding = relative_rounding(_OPERATIONS * 2.0 ** len(moving)) * (size + remainder)
        value = _smallest_eigenvalue(terms[:, 0])
        exponents = tuple(tuple(more.get(c, 0) for c in moving) for more in orders)
        return self._least(terms, exponents) - loss - remainder - rounding, value + loss + rounding

    def _least(self, terms: Array, exponents: tuple[tuple[int, ...], ...]) -> Array:
        """Return the smallest eigenvalue of the coefficients of Bernstein, which no value of a polynomial is below."""
        bernstein = _bernstein(exponents, _PARTS[len(self.group.moving)] if self.group.order > 2 else 1)
        n, t, k, _ = terms.shape
        flat, step = terms.reshape(n, t, k * k), max(1, _ENTRIES // (bernstein.shape[0] * k * k))
        blocks = [
            (bernstein @ flat[start : start + step]).reshape(-1, len(bernstein), k, k) for start in range(0, n, step)
        ]
        return np.concatenate([_smallest_eigenvalue(block).min(axis=1) for block in blocks])

    def remainder(self, lower: Array, upper: Array, half: Array) -> Array:
        """Bound the distance of the matrices from their Taylor polynomials in cells, in the Frobenius norm."""
        moving, square = self.group.moving, np.zeros(half.shape[0])
        low, high = self.whole_points(lower), self.whole_points(upper)
        for i, j, entry in self.entries if moving else ():
            total = np.zeros(half.shape[0])
            for more in multi_indices(moving, self.group.order):
                for piece, terms in self.pieces:
                    orders = add_orders(piece.orders, add_orders(entry, more))
                    length = bound_derivative(piece.kernel, orders, low, high)
                    total += at_most(abs(piece.factor) * terms.norm) * length * _power(more, moving, half)
            square += (1.0 if i == j else 2.0) * np.square(total)
        return np.asarray(at_most(1.0) * np.sqrt(square))

    def prove(self, gap: float, level: float | None, time_limit: float, budget: int) -> LowestValue:
        """Bound the smallest value from below, by halving the cells whose bound misses the smallest value found less
        the gap, or the level if that is lower.
        """
        end, d = time.monotonic() + time_limit, len(self.box)
        # a bound of a low order gains little by more cells
        budget = budget if self.group.order > 1 else min(budget, _ROUGH_BUDGET)
        edges = [np.linspace(low, high, _COVER[d] + 1) for low, high in self.box]
        lower, upper = (_mesh([e[part] for e in edges]) for part in (slice(None, -1), slice(1, None)))
        # no cell is known better than the rounding of its value, however narrow
        _, radius = self.derivatives(self.whole_points((lower + upper) / 2.0), [{}])[0]
        gap = max(gap, _ROUNDING_GAP * float(radius.max(initial=0.0)))
        settled, best, point, cells, stop = math.inf, math.inf, self.middle, 0, ""
        while True:
            bounds, values = self.bounds(lower, upper)
            bounds, cells = np.where(np.isfinite(bounds), bounds, -math.inf), cells + len(bounds)
            k = int(values.argmin())
            if values[k] < best:
                best, point = float(values[k]), self.whole_points((lower + upper)[k : k + 1] / 2.0)[0]
            is_open = bounds < (best - gap if level is None else min(best - gap, level))
            settled = min(settled, float(bounds[~is_open].min(initial=math.inf)))
            lower, upper = lower[is_open], upper[is_open]
            if not len(lower):
                return LowestValue(settled, best, point, cells, "")
            if not d or ((upper - lower) <= _NARROWEST * np.ptp(self.box, axis=1)).all(axis=1).any():
                stop = "cells are as narrow as rounding"
            elif cells + len(lower) * 2**d > budget:
                stop = f"the budget of {budget} cells is spent"
            elif time.monotonic() > end:
                stop = f"the time limit of {time_limit:g} s is reached"
            if stop:
                return LowestValue(min(settled, float(bounds.min())), best, point, cells, stop)
            middle = (lower + upper) / 2.0
            halves = [np.array(each) for each in product((False, True), repeat=d)]
            lower, upper = (
                np.vstack([np.where(high, middle, lower) for high in halves]),
                np.vstack([np.where(high, upper, middle) for high in halves]),
            )

    def grid(self, counts: int) -> Array:
        """Return a grid of the moving columns, ends included, as points of all columns."""
        return self.whole_points(_mesh([np.linspace(low, high, counts) for low, high in self.box]))

    def local_minima(self, most: int) -> tuple[Array, Array]:
        """Return values and points of local minima on a grid, refined by finer grids, the lowest first; at least
        one.
        """
        from scipy.ndimage import minimum_filter

        d, moving = len(self.box), list(self.group.moving)
        points, counts = self.grid(_GRID[d]), _GRID[d]
        values = self.values(points)
        if not d:
            return values, points
        shaped = values.reshape((counts,) * d)
        at = np.flatnonzero(shaped <= minimum_filter(shaped, size=3, mode="nearest"))
        chosen = points[at[np.argsort(values[at], kind="stable")][:most]]
        offsets, spacing = _mesh([np.linspace(-1.0, 1.0, _ZOOM[d])] * d), np.ptp(self.box, axis=1) / (counts - 1)
        step, every = spacing, np.arange(len(chosen))
        for _ in range(_ZOOMS):  # the point itself is one of those tried
            tried = np.clip(chosen[:, None, moving] + offsets * step, *self.box.T)
            flat = self.whole_points(tried.reshape(-1, d))
            levels = self.values(flat).reshape(len(chosen), -1)
            chosen = flat.reshape(len(chosen), -1, flat.shape[1])[every, levels.argmin(axis=1)]
            step = step * 2.0 / (_ZOOM[d] - 1)
        lowest = levels.min(axis=1)
        kept: list[int] = []
        for k in np.argsort(lowest, kind="stable"):  # two cuts at one place help little
            if all((np.abs(chosen[k, moving] - chosen[j, moving]) > 2.0 * spacing).any() for j in kept):
                kept.append(int(k))
        return lowest[kept], chosen[kept]


def _mesh(sides: Sequence[Array]) -> Array:
    """Return all points whose coordinates are on these sides; without sides, one point without coordinates."""
    return np.array(list(product(*sides))).reshape(math.prod(map(len, sides)), len(sides))


def _smallest_eigenvalue(matrices: Array) -> Array:
    """Return the smallest eigenvalues of symmetric matrices, by a formula for two columns."""
    if matrices.shape[-1] == 1:
        return np.asarray(matrices[..., 0, 0])
    if matrices.shape[-1] == 2:
        a, b, c = matrices[..., 0, 0], matrices[..., 0, 1], matrices[..., 1, 1]
        return np.asarray(0.5 * (a + c) - np.hypot(0.5 * (a - c), b))
    return np.asarray(np.linalg.eigvalsh(matrices)[..., 0])


@cache
def _bernstein(exponents: tuple[tuple[int, ...], ...], parts: int) -> Array:
    r"""Return the matrix that takes coefficients of monomials in :math:`[-1, 1]^d` to Bernstein's in its parts.

    Of degree n on [u, v], the coefficient b of :math:`t^k` is the polar form of the monomial at n - b arguments u and b
    arguments v, the elementary symmetric polynomial of these of order k, divided by :math:`\binom n k`.
    """
    n = max(map(sum, exponents))
    edges = np.linspace(-1.0, 1.0, parts + 1)
    factor = np.array(
        [
            [
                sum(math.comb(b, j) * math.comb(n - b, k - j) * v**j * u ** (k - j) for j in range(k + 1))
                / math.comb(n, k)
                for k in range(n + 1)
            ]
            for u, v in pairwise(edges)
            for b in range(n + 1)
        ]
    )
    kron: Any = np.kron
    return np.column_stack([reduce(kron, [factor[:, k] for k in exponent], np.ones(1)) for exponent in exponents])


def _power(more: dict[int, int], moving: tuple[int, ...], half: Array) -> Array:
    """Return h^a / a!."""
    value = np.ones(half.shape[0])
    for c, order in more.items():
        value = value * half[:, moving.index(c)] ** order / math.factorial(order)
    return np.asarray(value)
