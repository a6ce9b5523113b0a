"""Kernels made of one other kernel: a non-negative multiple, and the restriction to columns."""

import math
import operator
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from substrate.arrays import Array, non_negative
from substrate.certificates.rounding import ROUNDED_ONCE, relative_rounding
from substrate.errors import DataError, DeclarationError
from substrate.kernels.algebra import LARGE, Kernel, underflows
from substrate.kernels.base import Formula, Number
from substrate.kernels.derivatives import Orders
from substrate.kernels.integrals import volumes
from substrate.namespaces import namespace_of, take_columns

__all__ = ["Nested", "Restricted", "Scaled", "column_tuple"]


class Nested(Kernel):
    """A kernel made of another one, ``kernel``, whose properties it has unless it defines its own."""

    kernel: Kernel
    #: Why the inner kernel cannot be a precomputed matrix, where it cannot.
    no_matrix: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise DeclarationError(f"{type(self).__name__} is made of another kernel, received {self.kernel!r}")
        if self.no_matrix and self.kernel.pairwise:
            raise DeclarationError(self.no_matrix)

    @property
    def pairwise(self) -> bool:  # type: ignore[override]
        """As the inner kernel."""
        return self.kernel.pairwise

    def cost(self, n_features: int) -> int:
        """Return that of the inner kernel."""
        return self.kernel.cost(n_features)

    def compared_columns(self, n_features: int) -> tuple[tuple[int, ...], ...]:
        """Return those of the inner kernel."""
        return self.kernel.compared_columns(n_features)

    @property
    def trusted(self) -> bool:
        """As the inner kernel."""
        return self.kernel.trusted

    @property
    def not_smooth(self) -> str:
        """As the inner kernel."""
        return self.kernel.not_smooth

    def largest_order(self, columns: Collection[int]) -> float:
        """Return that of the inner kernel."""
        return 0.0 if self.not_smooth else self.kernel.largest_order(columns)

    @property
    def decays(self) -> bool:
        """As the inner kernel."""
        return self.kernel.decays

    def _resolve(self, X: Any) -> Self:
        return replace(self, kernel=self.kernel.resolved(X))  # type: ignore[call-arg]

    def terms(self, n_features: int) -> tuple[tuple[float, Any], ...]:
        """Return the terms of the inner kernel, each inside this one."""
        inside = self.kernel.terms(n_features)
        return tuple((factor, replace(self, kernel=term)) for factor, term in inside)  # type: ignore[call-arg]

    def relevances(self, spreads: Array) -> Array:
        """Return those of the inner kernel."""
        return self.kernel.relevances(spreads)

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return those of the inner kernel."""
        return self.kernel._scale_gradient(X, Z, weights)

    def rank(self, n_features: int) -> int | None:
        """Return that of the inner kernel."""
        return self.kernel.rank(n_features)

    def feature_rounding(self) -> float:
        """Return that of the inner kernel."""
        return self.kernel.feature_rounding()


@dataclass(frozen=True, repr=False)
class Scaled(Nested, node="scaled"):
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
        """As the inner kernel, unless the factor is zero."""
        return self.factor > 0.0 and self.kernel.decays

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the multiple into ``out``."""
        if self.factor == 0.0 and not self.pairwise:
            out[...] = 0.0
            return
        self.kernel.fill(X, Z, out)
        with np.errstate(over="ignore"):
            out *= self.factor
        if self.factor > 1e100 and not np.isfinite(out).all():
            raise self._overflow()

    @np.errstate(over="ignore", invalid="ignore")
    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return the multiple as a new array."""
        xp = namespace_of(X)
        values = self.factor * self.kernel.evaluate(X, Z, dtype)
        largest = 1e100 if dtype == xp.float64 else 1e30
        if self.factor > largest and not bool(xp.all(xp.isfinite(values))):
            raise self._overflow()
        return values

    @property
    def no_integral(self) -> str:
        """As the inner kernel."""
        return self.kernel.no_integral

    @property
    def has_steady_decay(self) -> bool:
        """As the inner kernel."""
        return self.kernel.has_steady_decay

    def _integral(self, X: Array, boxes: Array, orders: Orders) -> Array:
        """Return the factor times that of the inner kernel."""
        return self.factor * self.kernel._integral(X, boxes, orders)

    def _double_integral(self, boxes: Array, others: Array) -> Array:
        """Return the factor times that of the inner kernel."""
        return self.factor * self.kernel._double_integral(boxes, others)

    def _derivative(self, X: Array, Z: Array, left: Orders, right: Orders) -> Array:
        """Return the factor times that of the inner kernel."""
        return self.factor * self.kernel._derivative(X, Z, left, right)

    def terms(self, n_features: int) -> tuple[tuple[float, Any], ...]:
        """Return the terms of the inner kernel, with the factor."""
        return tuple((self.factor * factor, term) for factor, term in self.kernel.terms(n_features))

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return the value itself in the logarithm of the factor, and the multiple of the inner kernel's."""
        inside = self.kernel._scale_gradient(X, Z, self.factor * weights)
        return np.append(np.vdot(weights, self(X, Z)), inside) if self.factor > 0.0 else inside

    def _overflow(self) -> DataError:
        return DataError(f"{self!r} overflows on these points; use a smaller factor or scale X first")

    def features(self, X: Any) -> Array:
        """Return the features of the inner kernel, times the root of the factor."""
        return np.asarray(math.sqrt(self.factor) * self.kernel.features(X))

    def feature_rounding(self) -> float:
        """Return that of the inner kernel, with the rounding of the root and of the product."""
        return self.kernel.feature_rounding() + relative_rounding(2.0)

    def rounding(self, X: Any) -> float:
        """Return that of the inner kernel; no bound is known where values that underflow are enlarged."""
        lost = self.factor > LARGE and underflows(self.kernel, X)
        return math.inf if lost else self.kernel.rounding(X) + ROUNDED_ONCE

    def fill_carefully(self, X: Any, Z: Any, out: Array) -> None:
        """Fill in the multiple of the inner kernel's accurate values."""
        self.kernel.fill_carefully(X, Z, out)
        with np.errstate(over="ignore"):
            out *= self.factor

    def careful_rounding(self, X: Any) -> float:
        """Return the same as :meth:`rounding`."""
        lost = self.factor > LARGE and underflows(self.kernel, X)
        return math.inf if lost else self.kernel.careful_rounding(X) + ROUNDED_ONCE

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """Return the multiple of the inner kernel's formula."""
        inner, factor = self.kernel.exact_formula(number, n_features), number(self.factor)
        return lambda x, z: factor * inner(x, z)

    def exact_features(self, number: Number, x: Sequence[Any]) -> list[Any]:
        """Return the same as :meth:`features`."""
        root = number(self.factor).sqrt()
        return [root * value for value in self.kernel.exact_features(number, x)]

    def diag(self, X: Any) -> Any:
        """Return the multiple of the diagonal."""
        return self.factor * self.kernel.diag(X)

    def __repr__(self) -> str:
        return f"{self.factor!r} * {self.kernel._bracket(3)}"


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
class Restricted(Nested, node="restricted"):
    """The kernel ``kernel`` on the columns ``columns``; written ``kernel.on(0, 2)``."""

    kernel: Kernel
    columns: tuple[int, ...]
    no_matrix = "a precomputed matrix has no input columns to be restricted to"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "columns", column_tuple(self.columns))

    def _take(self, X: Any) -> Any:
        if max(self.columns) >= X.shape[1]:
            raise DataError(f"{self!r} asks for column {max(self.columns)}, the points have {X.shape[1]} columns")
        return take_columns(X, self.columns)

    def cost(self, n_features: int) -> int:
        """Return that of the inner kernel on its columns."""
        return self.kernel.cost(len(self.columns))

    def compared_columns(self, n_features: int) -> tuple[tuple[int, ...], ...]:
        """Return the inner kernel's groups, as columns of the whole input."""
        inside = self.kernel.compared_columns(len(self.columns))
        return tuple(tuple(self.columns[column] for column in group) for group in inside)

    def _resolve(self, X: Any) -> Self:
        return replace(self, kernel=self.kernel.resolved(self._take(X)))

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the inner kernel's values into ``out``."""
        self.kernel.fill(self._take(X), self._take(Z), out)

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return the inner kernel's values."""
        return self.kernel.evaluate(self._take(X), self._take(Z), dtype)

    @property
    def no_integral(self) -> str:
        """As the inner kernel."""
        return self.kernel.no_integral

    @property
    def has_steady_decay(self) -> bool:
        """As the inner kernel."""
        return self.kernel.has_steady_decay

    def _integral(self, X: Array, boxes: Array, orders: Orders) -> Array:
        """Return that of the inner kernel, times the lengths of all other columns; a derivative in those is zero."""
        if not set(orders) <= set(self.columns):
            return np.zeros((X.shape[0], boxes.shape[0]))
        inside = {self.columns.index(column): order for column, order in orders.items()}
        inner_boxes = boxes[:, list(self.columns)]
        return np.asarray(
            self.kernel._integral(self._take(X), inner_boxes, inside) * (volumes(boxes) / volumes(inner_boxes))
        )

    def _double_integral(self, boxes: Array, others: Array) -> Array:
        """Return that of the inner kernel, times the lengths of all other columns."""
        inner = [each[:, list(self.columns)] for each in (boxes, others)]
        ratios = [
            volumes(each) / volumes(inner_boxes) for each, inner_boxes in zip((boxes, others), inner, strict=True)
        ]
        return np.asarray(self.kernel._double_integral(*inner) * np.multiply.outer(*ratios))

    def largest_order(self, columns: Collection[int]) -> float:
        """Return that of the inner kernel; derivatives in any other column are zero, and all of them exist."""
        if not set(columns) <= set(self.columns):
            return math.inf
        return super().largest_order([self.columns.index(column) for column in columns])

    def _derivative(self, X: Array, Z: Array, left: Orders, right: Orders) -> Array:
        """Return that of the inner kernel; zero in any other column."""
        if not {*left, *right} <= set(self.columns):
            return np.zeros((X.shape[0], Z.shape[0]))
        inside = ({self.columns.index(column): order for column, order in orders.items()} for orders in (left, right))
        return self.kernel._derivative(self._take(X), self._take(Z), *inside)

    def terms(self, n_features: int) -> tuple[tuple[float, Any], ...]:
        """Return the terms of the inner kernel, each on these columns."""
        return super().terms(len(self.columns))

    @property
    def linear(self) -> bool:
        """As the inner kernel."""
        return self.kernel.linear

    def relevances(self, spreads: Array) -> Array:
        """Return the relevances of the inner kernel, zero in other columns."""
        relevances_of_all = np.zeros(spreads.size)
        relevances_of_all[list(self.columns)] = self.kernel.relevances(spreads[list(self.columns)])
        return relevances_of_all

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return the derivatives of the inner kernel on its columns."""
        return self.kernel._scale_gradient(self._take(X), self._take(Z), weights)

    def rank(self, n_features: int) -> int | None:
        """Return that of the inner kernel on its columns."""
        return self.kernel.rank(len(self.columns))

    def features(self, X: Any) -> Array:
        """Return the features of the inner kernel."""
        return self.kernel.features(self._take(X))

    def rounding(self, X: Any) -> float:
        """Return that of the inner kernel on its columns."""
        return self.kernel.rounding(self._take(X))

    def fill_carefully(self, X: Any, Z: Any, out: Array) -> None:
        """Fill in the inner kernel's accurate values."""
        self.kernel.fill_carefully(self._take(X), self._take(Z), out)

    def careful_rounding(self, X: Any) -> float:
        """Return that of the inner kernel on its columns."""
        return self.kernel.careful_rounding(self._take(X))

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """Return the inner kernel's formula on its columns."""
        inner = self.kernel.exact_formula(number, len(self.columns))
        return lambda x, z: inner([x[k] for k in self.columns], [z[k] for k in self.columns])

    def exact_features(self, number: Number, x: Sequence[Any]) -> list[Any]:
        """Return the features of the inner kernel."""
        return self.kernel.exact_features(number, [x[k] for k in self.columns])

    def diag(self, X: Any) -> Any:
        """Return the inner kernel's diagonal."""
        return self.kernel.diag(self._take(X))

    def __repr__(self) -> str:
        return f"{self.kernel._bracket(3)}.on({', '.join(map(str, self.columns))})"
