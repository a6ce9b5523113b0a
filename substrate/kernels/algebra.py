"""The operations that keep a kernel positive semi-definite, each a node of its own.

Sums, products, non-negative multiples and the restriction to columns: ``k1 * k2 + k3`` is evaluated and printed as it
was written. Nodes of one kernel are in :mod:`substrate.kernels.nested`.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import ROUNDED_ONCE, add_roundings
from substrate.errors import DeclarationError
from substrate.kernels.base import BaseKernel, Formula, Number
from substrate.kernels.derivatives import Orders, split_orders
from substrate.kernels.integrals import volumes
from substrate.namespaces import namespace_of

__all__ = ["LARGE", "Kernel", "Product", "Sum", "underflows"]

#: k(x, x) below the first may have lost digits to underflow; a factor above the second would reveal it.
_SMALL, LARGE = 1e-290, 1e10


@dataclass(frozen=True, repr=False)
class Kernel(BaseKernel):
    """A kernel with its operators.

    ``k1 + k2``, ``k1 * k2`` and ``2.0 * k`` are kernels again; ``k.on(0, 2)`` uses columns 0 and 2 only.
    """

    #: Results of the operators on one kernel, by name; the classes register themselves when they are imported.
    _nodes: ClassVar[dict[str, Callable[..., "Kernel"]]] = {}

    def __init_subclass__(cls, node: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        if node:
            Kernel._nodes[node] = cls

    def on(self, *columns: int) -> "Kernel":
        """Return this kernel restricted to the given columns of its input."""
        return self._nodes["restricted"](self, columns)

    def __add__(self, right: Any) -> "Kernel":
        return Sum(self, right) if isinstance(right, Kernel) else NotImplemented

    def __mul__(self, right: Any) -> "Kernel":
        return Product(self, right) if isinstance(right, Kernel) else self.__rmul__(right)

    def __rmul__(self, left: Any) -> "Kernel":
        return self._nodes["scaled"](left, self)


@dataclass(frozen=True, repr=False)
class _Pair(Kernel):
    """Two kernels under one operation."""

    left: Kernel
    right: Kernel

    def __post_init__(self) -> None:
        if not isinstance(self.left, Kernel) or not isinstance(self.right, Kernel):
            raise DeclarationError(f"{type(self).__name__} needs two kernels, received {self.left!r}, {self.right!r}")

    @property
    def pairwise(self) -> bool:  # type: ignore[override]
        """Whether either side reads a precomputed matrix."""
        return self.left.pairwise or self.right.pairwise

    def cost(self, n_features: int) -> int:
        """Return the sum of both."""
        return self.left.cost(n_features) + self.right.cost(n_features)

    def compared_columns(self, n_features: int) -> tuple[tuple[int, ...], ...]:
        """Return the groups of both sides."""
        return tuple(dict.fromkeys(self.left.compared_columns(n_features) + self.right.compared_columns(n_features)))

    @property
    def trusted(self) -> bool:
        """Whether both sides are trusted."""
        return self.left.trusted and self.right.trusted

    @property
    def not_smooth(self) -> str:
        """The reason of the side that has no derivatives."""
        return self.left.not_smooth or self.right.not_smooth

    @property
    def no_integral(self) -> str:
        """The reason of the side that has no integrals."""
        return self.left.no_integral or self.right.no_integral

    def largest_order(self, columns: Collection[int]) -> float:
        """Return the least of both sides and all inputs: of a product, each side has some of the derivatives."""
        return min(side.largest_order([column]) for side in (self.left, self.right) for column in columns)

    @property
    def decays(self) -> bool:
        """Whether both sides decay."""
        return self.left.decays and self.right.decays

    @property
    def has_steady_decay(self) -> bool:
        """Whether both sides have."""
        return self.left.has_steady_decay and self.right.has_steady_decay

    def _resolve(self, X: Any) -> Self:
        return type(self)(self.left.resolved(X), self.right.resolved(X))


@dataclass(frozen=True, repr=False)
class Sum(_Pair):
    """k(x, z) = left(x, z) + right(x, z)."""

    binding: ClassVar[int] = 1

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the sum into ``out``."""
        self.left.fill(X, Z, out)
        term = np.empty_like(out)
        self.right.fill(X, Z, term)
        out += term

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return the sum as a new array."""
        values = self.left.evaluate(X, Z, dtype)
        return values + self.right.evaluate(X, Z, dtype)

    def _derivative(self, X: Array, Z: Array, left: Orders, right: Orders) -> Array:
        """Return the sum of both."""
        return self.left._derivative(X, Z, left, right) + self.right._derivative(X, Z, left, right)

    def _integral(self, X: Array, boxes: Array, orders: Orders) -> Array:
        """Return the sum of both."""
        return self.left._integral(X, boxes, orders) + self.right._integral(X, boxes, orders)

    def _double_integral(self, boxes: Array, others: Array) -> Array:
        """Return the sum of both."""
        return self.left._double_integral(boxes, others) + self.right._double_integral(boxes, others)

    def terms(self, n_features: int) -> tuple[tuple[float, Any], ...]:
        """Return the terms of both."""
        return self.left.terms(n_features) + self.right.terms(n_features)

    def relevances(self, spreads: Array) -> Array:
        """Return the root mean square of both, where a sum is a factor of a product."""
        return np.asarray(np.hypot(self.left.relevances(spreads), self.right.relevances(spreads)) / math.sqrt(2.0))

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return the derivatives of both."""
        return np.concatenate([side._scale_gradient(X, Z, weights) for side in (self.left, self.right)])

    def rank(self, n_features: int) -> int | None:
        """Count the features of both."""
        left, right = self.left.rank(n_features), self.right.rank(n_features)
        return None if left is None or right is None else left + right

    def features(self, X: Any) -> Array:
        """Return the features of both, side by side."""
        return np.concatenate([self.left.features(X), self.right.features(X)], axis=1)

    def feature_rounding(self) -> float:
        """Return the larger of the two."""
        return max(self.left.feature_rounding(), self.right.feature_rounding())

    def rounding(self, X: Any) -> float:
        """Return the larger of the two, since the norms of a sum add up."""
        return max(self.left.rounding(X), self.right.rounding(X)) + ROUNDED_ONCE

    def fill_carefully(self, X: Any, Z: Any, out: Array) -> None:
        """Fill in the sum of both, by the more accurate formulas."""
        term = np.empty_like(out)
        self.left.fill_carefully(X, Z, out)
        self.right.fill_carefully(X, Z, term)
        out += term

    def careful_rounding(self, X: Any) -> float:
        """Return the same as :meth:`rounding`."""
        return max(self.left.careful_rounding(X), self.right.careful_rounding(X)) + ROUNDED_ONCE

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """Return the sum of both formulas."""
        left, right = (kernel.exact_formula(number, n_features) for kernel in (self.left, self.right))
        return lambda x, z: left(x, z) + right(x, z)

    def exact_features(self, number: Number, x: Sequence[Any]) -> list[Any]:
        """Return the same as :meth:`features`."""
        return self.left.exact_features(number, x) + self.right.exact_features(number, x)

    def diag(self, X: Any) -> Any:
        """Return the sum of the diagonals."""
        return self.left.diag(X) + self.right.diag(X)

    def __repr__(self) -> str:
        return f"{self.left._bracket(1)} + {self.right._bracket(2)}"


def underflows(kernel: Kernel, X: Any) -> bool:
    """Return whether a value k(x, x) may have lost digits to underflow."""
    diagonal = kernel.diag(X)
    return float(namespace_of(diagonal).min(diagonal)) < _SMALL


def _loses_digits(left: Kernel, right: Kernel, X: Any) -> bool:
    """Return whether values that underflow on one side are enlarged by the other."""
    diagonal = left.diag(X)
    return float(namespace_of(diagonal).max(diagonal)) > LARGE and underflows(right, X)


@dataclass(frozen=True, repr=False)
class Product(_Pair):
    """k(x, z) = left(x, z) right(x, z), positive semi-definite by Schur's product theorem."""

    binding: ClassVar[int] = 2

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the product into ``out``."""
        self.left.fill(X, Z, out)
        factor = np.empty_like(out)
        self.right.fill(X, Z, factor)
        out *= factor

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return the product as a new array."""
        values = self.left.evaluate(X, Z, dtype)
        return values * self.right.evaluate(X, Z, dtype)

    @property
    def no_integral(self) -> str:
        """Empty where both sides have integrals and are on different columns, so that the integral is a product."""
        columns = [set(getattr(side, "columns", ())) for side in (self.left, self.right)]
        if super().no_integral:
            return super().no_integral
        if not all(columns) or columns[0] & columns[1]:
            return (
                "a product has them where its sides are on different columns, as k.on(0) * m.on(1); sum values in the "
                "place of this one, as s.integral(Measure.of_points(points, weights)) of a quadrature rule"
            )
        return ""

    def _integral(self, X: Array, boxes: Array, orders: Orders) -> Array:
        """Return the product of both: each is times the lengths of the columns of the other, and of those of none."""
        columns = [getattr(side, "columns", ()) for side in (self.left, self.right)]
        sides = [{c: n for c, n in orders.items() if c in own} for own in columns]
        if sum(map(len, sides)) < len(orders):
            return np.zeros((X.shape[0], boxes.shape[0]))
        left, right = (side._integral(X, boxes, own) for side, own in zip((self.left, self.right), sides, strict=True))
        return np.asarray(left * right / volumes(boxes))

    def _double_integral(self, boxes: Array, others: Array) -> Array:
        """Return the product of both, as for one integral."""
        product_of_sides = self.left._double_integral(boxes, others) * self.right._double_integral(boxes, others)
        return np.asarray(product_of_sides / np.multiply.outer(volumes(boxes), volumes(others)))

    def _derivative(self, X: Array, Z: Array, left: Orders, right: Orders) -> Array:
        """Differentiate by the rule of Leibniz in both arguments."""
        total = np.zeros((X.shape[0], Z.shape[0]))
        for times_x, a, c in split_orders(left):
            for times_z, b, d in split_orders(right):
                total += times_x * times_z * (self.left._derivative(X, Z, a, b) * self.right._derivative(X, Z, c, d))
        return total

    def relevances(self, spreads: Array) -> Array:
        """Return the root of the sum of the squares of both."""
        return np.asarray(np.hypot(self.left.relevances(spreads), self.right.relevances(spreads)))

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return the derivatives of both, each side weighted by the other's values."""
        k, m = self.left, self.right
        sides = (k._scale_gradient(X, Z, weights * m(X, Z)), m._scale_gradient(X, Z, weights * k(X, Z)))
        return np.concatenate(sides)

    def rank(self, n_features: int) -> int | None:
        """Count the products of the features of both."""
        left, right = self.left.rank(n_features), self.right.rank(n_features)
        return None if left is None or right is None else left * right

    def features(self, X: Any) -> Array:
        """Return all products of a feature of one with a feature of the other."""
        left, right = self.left.features(X), self.right.features(X)
        return np.asarray((left[:, :, None] * right[:, None, :]).reshape(X.shape[0], -1))

    def feature_rounding(self) -> float:
        """Add the relative errors of both factors."""
        return add_roundings(self.left.feature_rounding(), self.right.feature_rounding())

    def rounding(self, X: Any) -> float:
        """Add the relative errors of both factors."""
        sides = (self.left, self.right)
        if _loses_digits(*sides, X) or _loses_digits(*sides[::-1], X):
            return math.inf
        return add_roundings(self.left.rounding(X), self.right.rounding(X), 2.0)

    def fill_carefully(self, X: Any, Z: Any, out: Array) -> None:
        """Fill in the product of both, by the more accurate formulas."""
        factor = np.empty_like(out)
        self.left.fill_carefully(X, Z, out)
        self.right.fill_carefully(X, Z, factor)
        out *= factor

    def careful_rounding(self, X: Any) -> float:
        """Return the same as :meth:`rounding`."""
        sides = (self.left, self.right)
        if _loses_digits(*sides, X) or _loses_digits(*sides[::-1], X):
            return math.inf
        return add_roundings(self.left.careful_rounding(X), self.right.careful_rounding(X), 2.0)

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """Return the product of both formulas."""
        left, right = (kernel.exact_formula(number, n_features) for kernel in (self.left, self.right))
        return lambda x, z: left(x, z) * right(x, z)

    def exact_features(self, number: Number, x: Sequence[Any]) -> list[Any]:
        """Return the same as :meth:`features`."""
        right = self.right.exact_features(number, x)
        return [first * second for first in self.left.exact_features(number, x) for second in right]

    def diag(self, X: Any) -> Any:
        """Return the product of the diagonals."""
        return self.left.diag(X) * self.right.diag(X)

    def __repr__(self) -> str:
        return f"{self.left._bracket(2)} * {self.right._bracket(3)}"
