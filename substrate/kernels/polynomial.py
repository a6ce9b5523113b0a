r"""The polynomial kernel :math:`k(x, z) = (x^T z + \tau)^p` with offset :math:`\tau \ge 0`."""

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from substrate.arrays import Array, non_negative
from substrate.certificates.rounding import relative_rounding, sum_rounding
from substrate.errors import DeclarationError
from substrate.kernels.algebra import Kernel
from substrate.kernels.base import Formula, Number
from substrate.kernels.derivatives import Orders, differentiate_inner_product
from substrate.kernels.integrals import integrate_exactly
from substrate.kernels.linear import (
    exact_inner_product,
    inner_products,
    new_inner_products,
    refuse_overflow,
    squared_lengths,
)
from substrate.namespaces import is_device_array

__all__ = ["Polynomial"]

#: The largest degree: the coefficients of larger ones are beyond double precision.
_LARGEST_DEGREE = 1000


@dataclass(frozen=True, repr=False)
class Polynomial(Kernel):
    """(x'z + offset)^degree with a degree from 1 to 1000; a negative offset, not positive semi-definite, is refused."""

    degree: int = 3
    offset: float = 1.0

    def __post_init__(self) -> None:
        try:
            degree = operator.index(self.degree)
        except TypeError as error:
            raise DeclarationError(f"degree must be an integer >= 1, received {self.degree!r}") from error
        if degree < 1 or isinstance(self.degree, bool):
            raise DeclarationError(f"degree must be an integer >= 1, received {self.degree!r}")
        if degree > _LARGEST_DEGREE:
            raise DeclarationError(
                f"degree must be at most {_LARGEST_DEGREE}, received {degree}; for smoother functions take RBF"
            )
        object.__setattr__(self, "degree", degree)
        object.__setattr__(self, "offset", non_negative(self.offset, "offset"))

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the kernel values into ``out``."""
        inner_products(X, Z, out, self)
        self._power(out)

    @np.errstate(over="ignore", invalid="ignore")
    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return the kernel values as a new array in the namespace of the points."""
        return refuse_overflow((new_inner_products(X, Z, dtype, self) + self.offset) ** self.degree, self)

    @property
    def not_smooth(self) -> str:
        """Empty: it is a polynomial."""
        return ""

    @np.errstate(over="ignore", invalid="ignore")
    def _derivative(self, X: Array, Z: Array, left: Orders, right: Orders) -> Array:
        """Return the derivative of the power: p (p-1) ... (p-j+1) u^(p-j) with u = x'z + offset."""

        def profile(j: int) -> Array | float:
            return math.perm(self.degree, j) * self._lower_power(X, Z, j) if j <= self.degree else 0.0

        return np.asarray(refuse_overflow(differentiate_inner_product(X, Z, left, right, profile), self))

    @property
    def no_integral(self) -> str:
        """Empty: it is a polynomial."""
        return ""

    def _integral(self, X: Array, boxes: Array, orders: Orders) -> Array:
        """Integrate by a rule of Gauss."""
        return integrate_exactly(self, self.degree, X, boxes, orders)

    def _double_integral(self, boxes: Array, others: Array) -> Array:
        """Integrate by a rule of Gauss in both."""
        return integrate_exactly(self, self.degree, boxes, others, {}, left_is_boxes=True)

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return p u^(p-1) offset, in the logarithm of the offset where it is not zero."""
        if self.offset == 0.0:
            return np.zeros(0)
        slopes = refuse_overflow(self.degree * self.offset * self._lower_power(X, Z, 1), self)
        return np.array([np.vdot(weights, slopes)])

    @np.errstate(over="ignore", invalid="ignore")
    def _lower_power(self, X: Array, Z: Array, lower: int) -> Array:
        """Return u^(p - lower)."""
        return np.asarray((new_inner_products(X, Z, np.float64, self) + self.offset) ** (self.degree - lower))

    def rank(self, n_features: int) -> int | None:
        """Count the monomials of at most this degree (of exactly this degree without an offset)."""
        return math.comb(n_features + self.degree - (self.offset == 0.0), self.degree)

    def features(self, X: Any) -> Array:
        """Return the monomials, each times the root of its multinomial coefficient."""
        columns = [X[:, k] for k in range(X.shape[1])]
        if self.offset > 0.0:
            columns.append(np.full(X.shape[0], math.sqrt(self.offset)))
        features_ = np.empty((X.shape[0], math.comb(len(columns) + self.degree - 1, self.degree)))
        for number, values in enumerate(self._monomials(columns, math.sqrt)):
            features_[:, number] = values
        return np.asarray(refuse_overflow(features_, self))

    def _monomials(self, columns: Sequence[Any], root: Callable[[int], Any]) -> Iterator[Any]:
        factorial = cache(math.factorial)
        for powers in _exponents(len(columns), self.degree):
            value = root(factorial(self.degree) // math.prod(map(factorial, powers.values())))
            for column, power in powers.items():
                value = value * columns[column] ** power
            yield value

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """Return the power of the inner product."""
        offset = number(self.offset)
        return lambda x, z: (exact_inner_product(x, z) + offset) ** self.degree

    def exact_features(self, number: Number, x: Sequence[Any]) -> list[Any]:
        """Return the monomials."""
        columns = [*x, number(self.offset).sqrt()] if self.offset > 0.0 else list(x)
        return list(self._monomials(columns, lambda coefficient: number(coefficient).sqrt()))

    def feature_rounding(self) -> float:
        """Bound the error of a product of powers and a root."""
        return sum_rounding(self.degree + 4.0)

    def rounding(self, X: Any) -> float:
        """Return the error of the inner product, multiplied by the power."""
        return relative_rounding(self.degree * (X.shape[1] + 4.0) + 4.0)

    def diag(self, X: Any) -> Any:
        """Return powers of the squared lengths."""
        lengths = squared_lengths(X)
        if is_device_array(X):
            return refuse_overflow((lengths + self.offset) ** self.degree, self)
        self._power(lengths)
        return lengths

    def _power(self, values: Array) -> None:
        values += self.offset
        with np.errstate(over="ignore"):
            np.power(values, self.degree, out=values)
        refuse_overflow(values, self)


def _exponents(count: int, degree: int) -> Iterator[Mapping[int, int]]:
    """Yield the positive powers of every monomial by column, those of the first columns first.

    A long product of few columns is written by its powers, since listing its factors takes ``degree`` steps each.
    """
    if count > degree:
        yield from map(Counter, combinations_with_replacement(range(count), degree))
    else:
        for powers in _compositions(count, degree):
            yield {column: power for column, power in enumerate(powers) if power}


def _compositions(count: int, total: int) -> Iterator[tuple[int, ...]]:
    """Yield all ``count`` numbers that sum to ``total``, the largest first number first."""
    if count == 1:
        yield (total,)
        return
    for number in range(total, -1, -1):
        for composition in _compositions(count - 1, total - number):
            yield number, *composition
