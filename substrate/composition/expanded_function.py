r"""A function of a reproducing kernel Hilbert space as numbers: values, derivatives, norms and their rounding.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from substrate.arrays import Array, strips, to_dense
from substrate.composition.linear_operators import (
    DERIVATIVES,
    VALUE,
    LinearOperator,
    add_lengths,
    bound_rounding,
    inner_product_matrix,
)
from substrate.composition.span import Further
from substrate.errors import DeclarationError
from substrate.kernels import (
    Componentwise,
    Kernel,
    Linear,
    Polynomial,
    Product,
    Restricted,
    Scaled,
    Sum,
    Symmetric,
)
from substrate.kernels.derivatives import Orders, split_orders
from substrate.kernels.of_distance import KernelOfDistance
from substrate.numbers import Double, at_most, relative_rounding

__all__ = [
    "EvaluatedTerms",
    "ExpandedFunction",
    "add_orders",
    "bound_derivative",
    "list_summands",
    "multi_indices",
]

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


def list_summands(components: tuple[Kernel, ...], n_features: int) -> list[tuple[Kernel, tuple[int, ...], int]]:
    """Return the kernels whose sum the components are, each with the columns that it reads and its component."""
    return [
        (kernel, _columns(kernel, n_features), part)
        for part, component in enumerate(components)
        for kernel in _summands(component, n_features)
    ]


def _summands(kernel: Kernel, n_features: int) -> list[Kernel]:
    if isinstance(kernel, Sum):
        return [*_summands(kernel.left, n_features), *_summands(kernel.right, n_features)]
    if isinstance(kernel, Componentwise):
        return [inner for component in kernel.components(n_features) for inner in _summands(component, n_features)]
    if isinstance(kernel, Scaled):
        return [Scaled(kernel.factor, inner) for inner in _summands(kernel.kernel, n_features)]
    if isinstance(kernel, Restricted):
        inside = _summands(kernel.kernel, len(kernel.columns))
        # a column of a column is one of the whole input
        return [
            Restricted(inner.kernel, tuple(kernel.columns[c] for c in inner.columns))
            if isinstance(inner, Restricted)
            else Restricted(inner, kernel.columns)
            for inner in inside
        ]
    return [kernel]


def _columns(kernel: Kernel, n_features: int) -> tuple[int, ...]:
    """Return the columns that a kernel reads."""
    if isinstance(kernel, Restricted):
        return tuple(sorted(kernel.columns[c] for c in _columns(kernel.kernel, len(kernel.columns))))
    if isinstance(kernel, Scaled):
        return _columns(kernel.kernel, n_features)
    if isinstance(kernel, Product):
        return tuple(sorted({*_columns(kernel.left, n_features), *_columns(kernel.right, n_features)}))
    return tuple(range(n_features))


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
    if isinstance(kernel, KernelOfDistance):
        return np.full(lower.shape[0], _constant(kernel, tuple(sorted(orders.items())), lower.shape[1]))
    if isinstance(kernel, Symmetric):
        # its features are half the sum or the difference of those at x and at -x
        cells = [(lower, upper), (-upper, -lower)]
        return np.asarray(at_most(0.5) * sum(bound_derivative(kernel.kernel, orders, *cell) for cell in cells))
    if isinstance(kernel, (Linear, Polynomial)):
        return _at_corners(kernel, orders, np.maximum(np.abs(lower), np.abs(upper)))
    raise DeclarationError(
        f"how far functions of {kernel!r} can change in a cell is not known, so that nothing can be proved everywhere; "
        "take RBF, Matern, Laplacian, Linear, Polynomial, and sums, products, multiples and Componentwise of these"
    )


@cache
def _constant(kernel: KernelOfDistance, orders: tuple[tuple[int, int], ...], n_features: int) -> float:
    """Return the norm for a kernel of the difference, which is the same at every point."""
    origin = np.zeros((1, n_features))
    square = kernel.derivative(origin, origin, dict(orders), dict(orders)) if orders else kernel(origin, origin)
    return at_most(math.sqrt(max(float(square[0, 0]), 0.0)))


def _at_corners(kernel: Kernel, orders: Orders, corners: Array) -> Array:
    """Return the norms at the corners that are farthest from zero, where derivatives of monomials are largest."""
    values = np.empty(corners.shape[0])
    distinct, which = np.unique(corners, axis=0, return_inverse=True)
    squares = np.empty(distinct.shape[0])
    for start in range(0, distinct.shape[0], 64):
        block = distinct[start : start + 64]
        matrix = kernel.derivative(block, block, orders, orders) if orders else kernel(block, block)
        squares[start : start + 64] = np.diagonal(matrix)
    values[:] = np.sqrt(np.maximum(squares, 0.0))[np.ravel(which)]
    return np.asarray(at_most(1.0) * values)


def add_orders(orders: Orders, more: Mapping[int, int]) -> dict[int, int]:
    """Add orders column by column."""
    return {c: orders.get(c, 0) + more.get(c, 0) for c in sorted({*orders, *more})}
