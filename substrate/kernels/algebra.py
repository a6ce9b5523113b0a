"""The operations that keep a kernel positive semi-definite, each a node of its own.

Sums, products, non-negative multiples, the restriction to columns, and the even or the odd part: ``k1 * k2 + k3`` is
evaluated and printed as it was written. A node has one formula, ``combine``, for values in whatever arithmetic: arrays
of any library, balls, nodes of a graph.
"""

import math
import operator
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product as cartesian
from typing import Any, ClassVar, Self

import numpy as np

from substrate.arrays import Array, namespace_of, non_negative, take_columns, to_numpy
from substrate.errors import DataError, DeclarationError
from substrate.kernels.base import BaseKernel, Formula, Number, SumOfProducts, paired_values, refuse_overflow
from substrate.kernels.derivatives import Orders, split_orders
from substrate.kernels.integrals import integrate_by_rule, volumes
from substrate.numbers import ROUNDED_ONCE, Double, add_roundings, at_most, relative_rounding

__all__ = [
    "Composite",
    "Kernel",
    "Nested",
    "Polynomials",
    "Product",
    "Restricted",
    "Scaled",
    "Sum",
    "Symmetric",
    "add_values",
    "column_tuple",
]

#: k(x, x) below the first may have lost digits to underflow; a factor above the second would reveal it.
_SMALL, _LARGE = 1e-290, 1e10
#: Factors beyond which values may overflow, also in single precision.
_HUGE = 1e30
#: Points of the rule of Gauss on a piece as long as the width of an RBF kernel.
_POINTS = 24


@dataclass(frozen=True, repr=False)
class Kernel(BaseKernel):
    """A kernel with its operators.

    ``k1 + k2``, ``k1 * k2`` and ``2.0 * k`` are kernels again; ``k.on(0, 2)`` uses columns 0 and 2 only.
    """

    def on(self, *columns: int) -> "Kernel":
        """Return this kernel restricted to the given columns of its input."""
        return Restricted(self, columns)

    def __add__(self, right: Any) -> "Kernel":
        return Sum(self, right) if isinstance(right, Kernel) else NotImplemented

    def __mul__(self, right: Any) -> "Kernel":
        return Product(self, right) if isinstance(right, Kernel) else self.__rmul__(right)

    def __rmul__(self, left: Any) -> "Kernel":
        return Scaled(left, self)


class Composite(Kernel):
    """A kernel made of others by a formula of their values."""

    #: Fields that are kernels.
    made_of: ClassVar[tuple[str, ...]] = ("kernel",)
    #: Why no part can be a precomputed matrix, where it cannot.
    no_matrix: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for name in self.made_of:
            if not isinstance(getattr(self, name), Kernel):
                raise DeclarationError(
                    f"{type(self).__name__} is made of other kernels, received {getattr(self, name)!r} as its {name}"
                )
        if self.no_matrix and self.pairwise:
            raise DeclarationError(self.no_matrix)

    @abstractmethod
    def combine(self, values: Iterator[Any]) -> Any:
        """Return the value made of those of all parts, in whatever arithmetic they are."""

    def parts(self, n_features: int) -> Sequence[Kernel]:
        """Return the kernels whose values are combined, for points with so many columns."""
        return self.inside

    def _points(self, X: Any) -> Any:
        """Return the points of the parts."""
        return X

    def enclose(self, X: Any, Z: Any) -> Double:
        """Return the combined values of the parts, each with a radius."""
        values: Double = self._combined(X, Z, lambda part, x, z: part.enclose(x, z))
        return values

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return the combined values as a new array."""
        return self._combined(X, Z, lambda part, x, z: part.evaluate(x, z, dtype))

    def _combined(self, X: Any, Z: Any, read: Callable[[Kernel, Any, Any], Any]) -> Any:
        x, z = self._points(X), None if Z is None else self._points(Z)
        return self.combine(read(part, x, z) for part in self.parts(X.shape[1]))

    def diag(self, X: Any) -> Any:
        """Return the combined diagonals."""
        points = self._points(X)
        return self.combine(part.diag(points) for part in self.parts(X.shape[1]))

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """Return the combined formulas of the parts."""
        formulas = [part.exact_formula(number, n_features) for part in self.parts(n_features)]
        return lambda x, z: self.combine(formula(x, z) for formula in formulas)

    def _resolve(self, X: Any) -> Self:
        points = self._points(X)
        return replace(self, **{name: getattr(self, name).resolved(points) for name in self.made_of})


class Polynomials(Composite):
    """A kernel that is a polynomial of others: what is known of sums and of products is known of it."""

    def expand(self, n_features: int) -> SumOfProducts:
        """Return the combined sums of the parts."""
        expanded: SumOfProducts = self.combine(part.expand(n_features) for part in self.parts(n_features))
        return expanded

    def rounding(self, X: Any, by_differences: bool = False) -> float:
        """Return the largest of all products, whose roundings add up, and the rounding of the operations.

        No bound is known where a value that underflows is enlarged by what it is multiplied with.
        """
        expanded = self.expand(X.shape[1])
        kernels = dict.fromkeys(kernel for _, product in expanded.products for kernel in product)
        lost = {kernel: kernel.rounding(X, by_differences) for kernel in kernels}
        if any(factor > _LARGE or len(product) > 1 for factor, product in expanded.products):
            ends = {kernel: _ends(kernel.diag(X)) for kernel in kernels}
            if any(_is_enlarged([(f, f), *(ends[kernel] for kernel in product)]) for f, product in expanded.products):
                return math.inf
        shares = (reduce(add_roundings, (lost[kernel] for kernel in product)) for _, product in expanded.products)
        return float(max(shares) + relative_rounding(expanded.operations))

    def _derivative(self, X: Array, Z: Array, left: Orders, right: Orders) -> Array:
        """Return the sum over all products, each by the rule of Leibniz."""
        total = np.zeros((X.shape[0], Z.shape[0]))
        for factor, kernels in self.expand(X.shape[1]).products:
            total += factor * _differentiate_product(kernels, X, Z, left, right)
        return total

    @property
    def no_integral(self) -> str:
        """Empty where all parts have integrals; whether those of a product are on different columns is seen later."""
        return next((kernel.no_integral for kernel in self.inside if kernel.no_integral), "")

    def _integral(self, boxes: Array, others: Array, orders: Orders) -> Array:
        """Return the sum over all products, of kernels on different columns."""
        total = np.zeros((boxes.shape[0], others.shape[0]))
        for factor, kernels in self.expand(boxes.shape[1]).products:
            total += factor * _integrate_product(kernels, boxes, others, orders)
        return total

    def rank(self, n_features: int) -> int | None:
        """Count the features of all products."""
        products = self.expand(n_features).products
        ranks = [[kernel.rank(n_features) for kernel in kernels] for _, kernels in products]
        if any(None in product for product in ranks):
            return None
        return int(sum(math.prod(rank for rank in product if rank is not None) for product in ranks))

    def exact_features(self, number: Number, x: Sequence[Any]) -> Iterable[Any]:
        """Return the products of the features of the kernels of a product, times the root of its factor."""
        for factor, kernels in self.expand(len(x)).products:
            root = number(factor).sqrt()
            for features in cartesian(*(tuple(kernel.exact_features(number, x)) for kernel in kernels)):
                yield reduce(operator.mul, features, root)

    def feature_rounding(self) -> float:
        """Return what the largest product of features loses."""
        return at_most(sum(kernel.feature_rounding() for kernel in self.inside)) + relative_rounding(3.0)


def _ends(values: Any) -> tuple[float, float]:
    xp = namespace_of(values)
    return float(xp.min(values)), float(xp.max(values))


def _is_enlarged(ends: Sequence[tuple[float, float]]) -> bool:
    """Return whether one of some numbers may have lost digits to underflow, and the product of the others is large."""
    with np.errstate(over="ignore"):
        largest = [math.prod(high for k, (_, high) in enumerate(ends) if k != number) for number in range(len(ends))]
    return any(low < _SMALL and high > _LARGE for (low, _), high in zip(ends, largest, strict=True))


def _differentiate_product(kernels: Sequence[Kernel], X: Array, Z: Array, left: Orders, right: Orders) -> Array:
    """Differentiate a product by the rule of Leibniz in both arguments."""
    first, *others = kernels
    if not others:
        return first._derivative(X, Z, left, right)
    total = np.zeros((X.shape[0], Z.shape[0]))
    for times_x, a, c in split_orders(left):
        for times_z, b, d in split_orders(right):
            values = first._derivative(X, Z, a, b)
            total += times_x * times_z * (values * _differentiate_product(others, X, Z, c, d))
    return total


def _integrate_product(kernels: Sequence[Kernel], boxes: Array, others: Array, orders: Orders) -> Array:
    """Return the product of the integrals: each is times the lengths of the columns of the others, and of those of
    none; on the same columns products of analytic kernels are integrated by a rule.
    """
    if len(kernels) == 1:
        return kernels[0]._integral(boxes, others, orders)
    columns = [set(getattr(kernel, "columns", ())) for kernel in kernels]
    if not all(columns) or len(set.union(*columns)) < sum(map(len, columns)):
        smooth = (kernel.smooth_units(boxes.shape[1]) for kernel in kernels)
        units, whole = [unit for unit in smooth if unit is not None], reduce(operator.mul, kernels)
        if len(units) == len(kernels):
            return integrate_by_rule(whole, _POINTS, np.min(units, axis=0), boxes, others, orders)
        raise DeclarationError(
            f"{whole!r} has no integrals over boxes in closed form: a product has them where its sides are on "
            "different columns, as k.on(0) * m.on(1), or polynomials and RBF; sum values in the place of this one, as "
            "s.integral(Measure.of_points(points, weights)) of a quadrature rule"
        )
    if not set(orders) <= set.union(*columns):
        return np.zeros((boxes.shape[0], others.shape[0]))
    own_orders = [{c: order for c, order in orders.items() if c in own} for own in columns]
    integrals = [kernel._integral(boxes, others, own) for kernel, own in zip(kernels, own_orders, strict=True)]
    lengths = np.multiply.outer(volumes(boxes), volumes(others))
    return np.asarray(reduce(lambda total, values: total * values / lengths, integrals))


@dataclass(frozen=True, repr=False)
class Sum(Polynomials):
    """k(x, z) = left(x, z) + right(x, z)."""

    left: Kernel
    right: Kernel
    binding: ClassVar[int] = 1
    made_of = ("left", "right")

    def combine(self, values: Iterator[Any]) -> Any:
        """Return the sum."""
        return add_values(values)

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return the derivatives of both."""
        return np.concatenate([side._scale_gradient(X, Z, weights) for side in self.inside])

    def __repr__(self) -> str:
        return f"{self.left._bracket(1)} + {self.right._bracket(2)}"


def add_values(values: Iterator[Any]) -> Any:
    """Return the sum of values in any arithmetic; the first is not changed, which may be an array of the user's."""
    total = next(values)
    for number, value in enumerate(values):
        if number:
            total += value
        else:
            total = total + value
    return total


@dataclass(frozen=True, repr=False)
class Product(Polynomials):
    """k(x, z) = left(x, z) right(x, z), positive semi-definite by Schur's product theorem."""

    left: Kernel
    right: Kernel
    binding: ClassVar[int] = 2
    made_of = ("left", "right")

    def combine(self, values: Iterator[Any]) -> Any:
        """Return the product."""
        left, right = values
        return left * right

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return the derivatives of both, each side weighted by the other's values."""
        k, m = self.left, self.right
        sides = (k._scale_gradient(X, Z, weights * m(X, Z)), m._scale_gradient(X, Z, weights * k(X, Z)))
        return np.concatenate(sides)

    def __repr__(self) -> str:
        return f"{self.left._bracket(2)} * {self.right._bracket(3)}"


@dataclass(frozen=True, repr=False)
class Scaled(Polynomials):
    """k(x, z) = factor kernel(x, z) with factor >= 0."""

    factor: float
    kernel: Kernel
    binding: ClassVar[int] = 2

    def __post_init__(self) -> None:
        factor = non_negative(self.factor, "the factor of a kernel")
        super().__post_init__()
        object.__setattr__(self, "factor", factor)

    @property
    def decays(self) -> bool:
        """Whether the kernel inside decays, and the factor is not zero."""
        return self.factor > 0.0 and self.kernel.decays

    @np.errstate(over="ignore", invalid="ignore")
    def combine(self, values: Iterator[Any]) -> Any:
        """Return the multiple."""
        multiple = self.factor * next(values)
        return refuse_overflow(multiple, self) if self.factor > _HUGE and hasattr(multiple, "dtype") else multiple

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return the value itself in the logarithm of the factor, and the multiple of the inner kernel's."""
        inside = self.kernel._scale_gradient(X, Z, self.factor * weights)
        return np.append(np.vdot(weights, self(X, Z)), inside) if self.factor > 0.0 else inside

    def __repr__(self) -> str:
        return f"{self.factor!r} * {self.kernel._bracket(3)}"


class Nested(Composite):
    """A kernel made of one other, ``kernel``, and linear in it."""

    kernel: Kernel

    def combine(self, values: Iterator[Any]) -> Any:
        """Return the value of the kernel inside."""
        return next(values)

    def expand(self, n_features: int) -> SumOfProducts:
        """Return the terms of the kernel inside, each inside this one."""
        terms = ((f, reduce(operator.mul, kernels)) for f, kernels in self.kernel.expand(n_features).products)
        return SumOfProducts(tuple((f, (replace(self, kernel=term),)) for f, term in terms))  # type: ignore[call-arg]

    def rank(self, n_features: int) -> int | None:
        """Count the features of the kernel inside."""
        return self.kernel.rank(n_features)

    @abstractmethod
    def rounding(self, X: Any, by_differences: bool = False) -> float:
        """Return the rounding of the kernel inside."""
        return self.kernel.rounding(self._points(X), by_differences)


def column_tuple(columns: Any) -> tuple[int, ...]:
    """Return column numbers as a tuple of distinct non-negative integers."""
    columns_given = columns if isinstance(columns, Iterable) and not isinstance(columns, str) else (columns,)
    try:
        numbers = tuple(operator.index(column) for column in columns_given)
    except TypeError as error:
        raise DeclarationError(f"columns are integers, received {columns!r}") from error
    if not numbers or min(numbers) < 0 or len(set(numbers)) != len(numbers):
        raise DeclarationError(f"columns must be distinct and non-negative, at least one; received {columns!r}")
    return numbers


@dataclass(frozen=True, repr=False)
class Restricted(Nested):
    """The kernel ``kernel`` on the columns ``columns``; written ``kernel.on(0, 2)``."""

    kernel: Kernel
    columns: tuple[int, ...]
    no_matrix = "a precomputed matrix has no input columns to be restricted to"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "columns", column_tuple(self.columns))

    def _points(self, X: Any) -> Any:
        """Return the columns."""
        if max(self.columns) >= X.shape[1]:
            raise DataError(f"{self!r} asks for column {max(self.columns)}, the points have {X.shape[1]} columns")
        return take_columns(X, self.columns)

    def _orders(self, orders: Orders) -> Orders | None:
        """Return the orders in the columns of the kernel inside; None where one is in another column."""
        if not set(orders) <= set(self.columns):
            return None
        return {self.columns.index(column): order for column, order in orders.items()}

    def cost(self, n_features: int) -> int:
        """Return the cost of the kernel inside on its columns."""
        return self.kernel.cost(len(self.columns))

    def compared_columns(self, n_features: int) -> tuple[tuple[int, ...], ...]:
        """Return the groups of the kernel inside, as columns of the whole input."""
        inside = self.kernel.compared_columns(len(self.columns))
        return tuple(tuple(self.columns[column] for column in group) for group in inside)

    def smooth_units(self, n_features: int) -> Array | None:
        """Return the distances of the kernel inside on its columns; on the others it is constant."""
        inside, units = self.kernel.smooth_units(len(self.columns)), np.full(n_features, np.inf)
        if inside is None:
            return None
        units[list(self.columns)] = inside
        return units

    @property
    def no_integral(self) -> str:
        """Empty where the kernel inside has integrals."""
        return self.kernel.no_integral

    def _integral(self, boxes: Array, others: Array, orders: Orders) -> Array:
        """Multiply by the lengths of all other columns; a derivative in those is zero."""
        inside = self._orders(orders)
        if inside is None:
            return np.zeros((boxes.shape[0], others.shape[0]))
        left, right = (each[:, list(self.columns)] for each in (boxes, others))
        lengths = np.multiply.outer(volumes(boxes) / volumes(left), volumes(others) / volumes(right))
        return np.asarray(self.kernel._integral(left, right, inside) * lengths)

    def largest_order(self, columns: Collection[int]) -> float:
        """Return the order of the kernel inside; derivatives in any other column are zero, and all of them exist."""
        inside = self._orders(dict.fromkeys(columns, 1))
        return math.inf if inside is None else self.kernel.largest_order(list(inside))

    def _derivative(self, X: Array, Z: Array, left: Orders, right: Orders) -> Array:
        """Return the derivative of the kernel inside; zero in any other column."""
        a, b = self._orders(left), self._orders(right)
        if a is None or b is None:
            return np.zeros((X.shape[0], Z.shape[0]))
        return self.kernel._derivative(self._points(X), self._points(Z), a, b)

    def expand(self, n_features: int) -> SumOfProducts:
        """Return the sum of the kernel inside, each of its kernels on its columns of these."""
        inside = self.kernel.expand(len(self.columns))
        products = ((factor, tuple(map(self._restrict, kernels))) for factor, kernels in inside.products)
        return SumOfProducts(tuple(products), inside.operations)

    def _restrict(self, kernel: Kernel) -> "Restricted":
        if isinstance(kernel, Restricted):
            return Restricted(kernel.kernel, tuple(self.columns[column] for column in kernel.columns))
        return Restricted(kernel, self.columns)

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return the derivatives of the kernel inside, on its columns."""
        return self.kernel._scale_gradient(self._points(X), self._points(Z), weights)

    def rank(self, n_features: int) -> int | None:
        """Count the features of the kernel inside, on its columns."""
        return self.kernel.rank(len(self.columns))

    def exact_features(self, number: Number, x: Sequence[Any]) -> Iterable[Any]:
        """Return the features of the kernel inside."""
        return self.kernel.exact_features(number, [x[k] for k in self.columns])

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """Return the formula of the kernel inside, on its columns."""
        inner = self.kernel.exact_formula(number, len(self.columns))
        return lambda x, z: inner([x[k] for k in self.columns], [z[k] for k in self.columns])

    def rounding(self, X: Any, by_differences: bool = False) -> float:
        """Return the rounding of the kernel inside, on its columns."""
        return super().rounding(X, by_differences)

    def __repr__(self) -> str:
        return f"{self.kernel._bracket(3)}.on({', '.join(map(str, self.columns))})"


@dataclass(frozen=True, repr=False)
class Symmetric(Nested):
    r"""(kernel(x, z) + s kernel(-x, z)) / 2 with s = 1 for ``symmetry="even"`` and -1 for ``"odd"``.

    Where :math:`k(-x, -z) = k(x, z)` it has the features :math:`\tfrac12 (\varphi(x) + s\, \varphi(-x))`, so it is
    positive semi-definite, and every expansion in it is even or odd [Espinoza2005]_. All kernels of this package have
    that property; of a function it is checked on the training points, and a precomputed matrix, which has no points to
    mirror, is refused.
    """

    kernel: Kernel
    symmetry: str = "even"
    no_matrix = "a precomputed matrix has no mirrored points; pass X and the kernel itself"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.symmetry not in ("even", "odd"):
            raise DeclarationError(f"symmetry must be 'even' or 'odd', received {self.symmetry!r}")

    def cost(self, n_features: int) -> int:
        """Return twice the cost of the kernel inside, which is evaluated at x and at -x."""
        return 2 * self.kernel.cost(n_features)

    @property
    def envelope(self) -> BaseKernel:
        """The envelope of the kernel inside, of whose values this one is the half sum or difference."""
        return self.kernel.envelope

    def _resolve(self, X: Any) -> Self:
        if not self.kernel.mirrors(X):
            raise DataError(f"{self.kernel!r} does not have k(-x, -z) = k(x, z) on X; take a kernel that has")
        return super()._resolve(X)

    def combine(self, values: Iterator[Any]) -> Any:
        """Return the part, from a value and a mirrored one."""
        value, mirrored = values
        return 0.5 * (value + mirrored) if self.symmetry == "even" else 0.5 * (value - mirrored)

    def _combined(self, X: Any, Z: Any, read: Callable[[Kernel, Any, Any], Any]) -> Any:
        # a new array: a product of X with itself would round in another order than one with -X, and not cancel exactly
        mirrored = -X
        return self.combine(read(self.kernel, points, Z) for points in (-mirrored, mirrored))

    def _derivative(self, X: Array, Z: Array, left: Orders, right: Orders) -> Array:
        """Return the part; every derivative in a mirrored point changes the sign."""
        sign = -1.0 if sum(left.values()) % 2 else 1.0
        pair = ((X, 1.0), (-X, sign))
        return np.asarray(self.combine(by * self.kernel._derivative(points, Z, left, right) for points, by in pair))

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return the part of both derivatives."""
        return np.asarray(self.combine(self.kernel._scale_gradient(points, Z, weights) for points in (X, -X)))

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """Return the part of the formula."""
        inner = self.kernel.exact_formula(number, n_features)
        return lambda x, z: self.combine(inner(point, z) for point in (x, [-value for value in x]))

    def exact_features(self, number: Number, x: Sequence[Any]) -> Iterable[Any]:
        """Return the part of every feature: a monomial or zero."""
        pairs = (self.kernel.exact_features(number, point) for point in (x, [-value for value in x]))
        return (self.combine(iter(pair)) for pair in zip(*pairs, strict=True))

    def rounding(self, X: Any, by_differences: bool = False) -> float:
        """Return the rounding of the kernel inside over the least share that cancellation leaves of its diagonal."""
        diagonal, whole = to_numpy(self.diag(X)), to_numpy(self.kernel.diag(X))
        share = float(np.min(diagonal[whole > 0.0] / whole[whole > 0.0], initial=1.0))
        share -= self.kernel.rounding(X) + ROUNDED_ONCE
        return (self.kernel.rounding(X, by_differences) + ROUNDED_ONCE) / share if share > 0.0 else np.inf

    def diag(self, X: Any) -> Any:
        """Return the part of k(x, x), a squared length, which rounding must not leave below zero."""
        part = self.combine(iter((self.kernel.diag(X), paired_values(self.kernel, -X, X))))
        return namespace_of(part).where(part > 0.0, part, 0.0 * part)
