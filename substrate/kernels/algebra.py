"""The operations that keep a kernel positive semi-definite, each a node of its own.

Sums, products, non-negative multiples and the restriction to columns: ``k1 * k2 + k3`` means what it says, and
prints as it was written.
"""

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from substrate.arrays import EPS, Array, non_negative
from substrate.errors import DataError, DeclarationError
from substrate.kernels.base import BaseKernel
from substrate.namespaces import is_device_array, namespace_of, on_device_of

__all__ = ["Kernel", "Product", "Restricted", "Scaled", "Sum", "column_tuple"]

#: k(x, x) below this may have lost digits to underflow; a factor above the other would show it.
_SMALL, _LARGE = 1e-290, 1e10


@dataclass(frozen=True, repr=False)
class Kernel(BaseKernel):
    """A kernel with its operators.

    ``k1 + k2``, ``k1 * k2`` and ``2.0 * k`` are kernels again; ``k.on(0, 2)`` looks at columns 0 and 2 only.
    """

    def on(self, *columns: int) -> "Kernel":
        """This kernel looking only at the given columns of its input."""
        return Restricted(self, columns)

    def __add__(self, other: Any) -> "Kernel":
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Any) -> "Kernel":
        return Product(self, other) if isinstance(other, Kernel) else Scaled(other, self)

    def __rmul__(self, other: Any) -> "Kernel":
        return Scaled(other, self)


@dataclass(frozen=True, repr=False)
class _Pair(Kernel):
    """Two kernels under one operation."""

    left: Kernel
    right: Kernel

    def __post_init__(self) -> None:
        if not isinstance(self.left, Kernel) or not isinstance(self.right, Kernel):
            raise DeclarationError(f"{type(self).__name__} joins two kernels, received {self.left!r}, {self.right!r}")

    @property
    def pairwise(self) -> bool:  # type: ignore[override]
        """Whether either side reads a matrix somebody else computed."""
        return self.left.pairwise or self.right.pairwise

    def compared_columns(self, n_features: int) -> tuple[tuple[int, ...], ...]:
        """The groups of both sides."""
        return tuple(dict.fromkeys(self.left.compared_columns(n_features) + self.right.compared_columns(n_features)))

    @property
    def trusted(self) -> bool:
        """Whether both sides are."""
        return self.left.trusted and self.right.trusted

    @property
    def decays(self) -> bool:
        """Whether both sides do."""
        return self.left.decays and self.right.decays

    def _resolved(self, X: Any) -> Self:
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
        """The sum as a new array."""
        values = self.left.evaluate(X, Z, dtype)
        return values + self.right.evaluate(X, Z, dtype)

    def rank(self, n_features: int) -> int | None:
        """The features of both."""
        left, right = self.left.rank(n_features), self.right.rank(n_features)
        return None if left is None or right is None else left + right

    def features(self, X: Any) -> Array:
        """The features of both, side by side."""
        return np.concatenate([self.left.features(X), self.right.features(X)], axis=1)

    def feature_rounding(self) -> float:
        """The larger of the two."""
        return max(self.left.feature_rounding(), self.right.feature_rounding())

    def rounding(self, X: Any) -> float:
        """The larger of the two, since the norms of a sum add up."""
        return max(self.left.rounding(X), self.right.rounding(X)) + EPS

    def fill_carefully(self, X: Any, Z: Any, out: Array) -> None:
        """The sum of both, filled in carefully."""
        term = np.empty_like(out)
        self.left.fill_carefully(X, Z, out)
        self.right.fill_carefully(X, Z, term)
        out += term

    def careful_rounding(self, X: Any) -> float:
        """As :meth:`rounding`."""
        return max(self.left.careful_rounding(X), self.right.careful_rounding(X)) + EPS

    def diag(self, X: Any) -> Any:
        """Sum of the diagonals."""
        return self.left.diag(X) + self.right.diag(X)

    def __repr__(self) -> str:
        return f"{self.left._bracketed(1)} + {self.right._bracketed(2)}"


def _underflows(kernel: Kernel, X: Any) -> bool:
    """Whether a value k(x, x) may have lost digits to underflow."""
    diagonal = kernel.diag(X)
    return float(namespace_of(diagonal).min(diagonal)) < _SMALL


def _loses_digits(left: Kernel, right: Kernel, X: Any) -> bool:
    """Whether what underflows on one side is made large again by the other."""
    diagonal = left.diag(X)
    return float(namespace_of(diagonal).max(diagonal)) > _LARGE and _underflows(right, X)


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
        """The product as a new array."""
        values = self.left.evaluate(X, Z, dtype)
        return values * self.right.evaluate(X, Z, dtype)

    def rank(self, n_features: int) -> int | None:
        """The products of the features of both."""
        left, right = self.left.rank(n_features), self.right.rank(n_features)
        return None if left is None or right is None else left * right

    def features(self, X: Any) -> Array:
        """All products of a feature of one with a feature of the other."""
        left, right = self.left.features(X), self.right.features(X)
        return np.asarray((left[:, :, None] * right[:, None, :]).reshape(X.shape[0], -1))

    def feature_rounding(self) -> float:
        """Relative errors of a product add up."""
        return 1.01 * (self.left.feature_rounding() + self.right.feature_rounding()) + EPS

    def rounding(self, X: Any) -> float:
        """Relative errors of a product add up."""
        sides = (self.left, self.right)
        if _loses_digits(*sides, X) or _loses_digits(*sides[::-1], X):
            return math.inf
        return 1.01 * (self.left.rounding(X) + self.right.rounding(X)) + 2.0 * EPS

    def fill_carefully(self, X: Any, Z: Any, out: Array) -> None:
        """The product of both, filled in carefully."""
        factor = np.empty_like(out)
        self.left.fill_carefully(X, Z, out)
        self.right.fill_carefully(X, Z, factor)
        out *= factor

    def careful_rounding(self, X: Any) -> float:
        """As :meth:`rounding`."""
        sides = (self.left, self.right)
        if _loses_digits(*sides, X) or _loses_digits(*sides[::-1], X):
            return math.inf
        return 1.01 * (self.left.careful_rounding(X) + self.right.careful_rounding(X)) + 2.0 * EPS

    def diag(self, X: Any) -> Any:
        """Product of the diagonals."""
        return self.left.diag(X) * self.right.diag(X)

    def __repr__(self) -> str:
        return f"{self.left._bracketed(2)} * {self.right._bracketed(3)}"


@dataclass(frozen=True, repr=False)
class Scaled(Kernel):
    """k(x, z) = factor kernel(x, z) with factor >= 0."""

    factor: float
    kernel: Kernel
    binding: ClassVar[int] = 2

    def __post_init__(self) -> None:
        factor = non_negative(self.factor, "the factor of a kernel")
        if not isinstance(self.kernel, Kernel):
            raise DeclarationError(f"only a kernel can be scaled, received {self.kernel!r}")
        object.__setattr__(self, "factor", factor)

    @property
    def pairwise(self) -> bool:  # type: ignore[override]
        """As the kernel inside."""
        return self.kernel.pairwise

    def compared_columns(self, n_features: int) -> tuple[tuple[int, ...], ...]:
        """As the kernel inside."""
        return self.kernel.compared_columns(n_features)

    @property
    def trusted(self) -> bool:
        """As the kernel inside."""
        return self.kernel.trusted

    @property
    def decays(self) -> bool:
        """As the kernel inside, unless the factor is zero."""
        return self.factor > 0.0 and self.kernel.decays

    def _resolved(self, X: Any) -> Self:
        return replace(self, kernel=self.kernel.resolved(X))

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the multiple into ``out``."""
        self.kernel.fill(X, Z, out)
        with np.errstate(over="ignore"):
            out *= self.factor
        if self.factor > 1e100 and not np.isfinite(out).all():
            raise self._overflow()

    @np.errstate(over="ignore", invalid="ignore")
    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """The multiple as a new array."""
        xp = namespace_of(X)
        values = self.factor * self.kernel.evaluate(X, Z, dtype)
        largest = 1e100 if dtype == xp.float64 else 1e30
        if self.factor > largest and not bool(xp.all(xp.isfinite(values))):
            raise self._overflow()
        return values

    def _overflow(self) -> DataError:
        return DataError(f"{self!r} overflows on these points; use a smaller factor or scale X first")

    def rank(self, n_features: int) -> int | None:
        """As the kernel inside."""
        return self.kernel.rank(n_features)

    def features(self, X: Any) -> Array:
        """Those of the kernel inside, times the root of the factor."""
        return np.asarray(math.sqrt(self.factor) * self.kernel.features(X))

    def feature_rounding(self) -> float:
        """As the kernel inside, the root and the product."""
        return self.kernel.feature_rounding() + 2.0 * EPS

    def rounding(self, X: Any) -> float:
        """As the kernel inside; nothing is known where values that underflow are made large again."""
        lost = self.factor > _LARGE and _underflows(self.kernel, X)
        return math.inf if lost else self.kernel.rounding(X) + EPS

    def fill_carefully(self, X: Any, Z: Any, out: Array) -> None:
        """The multiple of the kernel inside, filled in carefully."""
        self.kernel.fill_carefully(X, Z, out)
        with np.errstate(over="ignore"):
            out *= self.factor

    def careful_rounding(self, X: Any) -> float:
        """As :meth:`rounding`."""
        lost = self.factor > _LARGE and _underflows(self.kernel, X)
        return math.inf if lost else self.kernel.careful_rounding(X) + EPS

    def diag(self, X: Any) -> Any:
        """Multiple of the diagonal."""
        return self.factor * self.kernel.diag(X)

    def __repr__(self) -> str:
        return f"{self.factor!r} * {self.kernel._bracketed(3)}"


def column_tuple(columns: Any) -> tuple[int, ...]:
    """Column numbers as a tuple of distinct non-negative integers."""
    given = columns if isinstance(columns, Iterable) and not isinstance(columns, str) else (columns,)
    try:
        numbers = tuple(operator.index(column) for column in given)
    except TypeError as error:
        raise DeclarationError(f"columns are integers, received {columns!r}") from error
    if not numbers or min(numbers) < 0 or len(set(numbers)) != len(numbers):
        raise DeclarationError(f"columns must be distinct and non-negative, at least one; received {columns!r}")
    return numbers


@dataclass(frozen=True, repr=False)
class Restricted(Kernel):
    """The kernel ``kernel`` on the columns ``columns``; written ``kernel.on(0, 2)``."""

    kernel: Kernel
    columns: tuple[int, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise DeclarationError(f"only a kernel can be restricted to columns, received {self.kernel!r}")
        object.__setattr__(self, "columns", column_tuple(self.columns))
        if self.kernel.pairwise:
            raise DeclarationError("a precomputed matrix has no input columns to be restricted to")

    def _take(self, X: Any) -> Any:
        if max(self.columns) >= X.shape[1]:
            raise DataError(f"{self!r} asks for column {max(self.columns)}, the points have {X.shape[1]} columns")
        if is_device_array(X):
            return namespace_of(X).take(X, on_device_of(X, self.columns), axis=1)
        return X[:, list(self.columns)]

    def compared_columns(self, n_features: int) -> tuple[tuple[int, ...], ...]:
        """The inner kernel's groups, as columns of the whole input."""
        inside = self.kernel.compared_columns(len(self.columns))
        return tuple(tuple(self.columns[column] for column in group) for group in inside)

    @property
    def trusted(self) -> bool:
        """As the inner kernel."""
        return self.kernel.trusted

    @property
    def decays(self) -> bool:
        """As the inner kernel."""
        return self.kernel.decays

    def _resolved(self, X: Any) -> Self:
        return replace(self, kernel=self.kernel.resolved(self._take(X)))

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the inner kernel's values into ``out``."""
        self.kernel.fill(self._take(X), self._take(Z), out)

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """The inner kernel's values."""
        return self.kernel.evaluate(self._take(X), self._take(Z), dtype)

    def rank(self, n_features: int) -> int | None:
        """As the inner kernel on its columns."""
        return self.kernel.rank(len(self.columns))

    def features(self, X: Any) -> Array:
        """Those of the inner kernel."""
        return self.kernel.features(self._take(X))

    def feature_rounding(self) -> float:
        """As the inner kernel."""
        return self.kernel.feature_rounding()

    def rounding(self, X: Any) -> float:
        """As the inner kernel on its columns."""
        return self.kernel.rounding(self._take(X))

    def fill_carefully(self, X: Any, Z: Any, out: Array) -> None:
        """The inner kernel's values, filled in carefully."""
        self.kernel.fill_carefully(self._take(X), self._take(Z), out)

    def careful_rounding(self, X: Any) -> float:
        """As the inner kernel on its columns."""
        return self.kernel.careful_rounding(self._take(X))

    def diag(self, X: Any) -> Any:
        """The inner kernel's diagonal."""
        return self.kernel.diag(self._take(X))

    def __repr__(self) -> str:
        return f"{self.kernel._bracketed(3)}.on({', '.join(map(str, self.columns))})"
