"""The linear kernel k(x, z) = x'z."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, is_sparse
from substrate.certificates.rounding import relative_rounding
from substrate.errors import DataError
from substrate.kernels.algebra import Kernel
from substrate.kernels.base import Formula, Number
from substrate.kernels.derivatives import Orders, differentiate_inner_product
from substrate.kernels.integrals import integrate_exactly
from substrate.namespaces import namespace_of, paired_sums

__all__ = [
    "Linear",
    "exact_inner_product",
    "inner_products",
    "new_inner_products",
    "refuse_overflow",
    "squared_lengths",
]


def inner_products(X: Any, Z: Any, out: Array, kernel: Kernel) -> None:
    """Write x_i'z_j into ``out``; an overflow is refused rather than passed on."""
    with np.errstate(over="ignore", invalid="ignore"):
        product = X @ Z.T
    out[...] = product.toarray() if is_sparse(product) else product
    refuse_overflow(out, kernel)


@np.errstate(over="ignore", invalid="ignore")
def new_inner_products(X: Any, Z: Any, dtype: Any, kernel: Kernel) -> Any:
    """Return x_i'z_j as a new array in the namespace of the points; an overflow is refused."""
    xp = namespace_of(X)
    values = xp.astype(X, dtype, copy=False) @ xp.astype(Z, dtype, copy=False).T
    return refuse_overflow(values, kernel)


def exact_inner_product(x: Sequence[Any], z: Sequence[Any]) -> Any:
    """Return x'z in an exact arithmetic."""
    return sum(a * b for a, b in zip(x, z, strict=True))


def refuse_overflow(values: Any, kernel: Kernel) -> Any:
    """Return the values; refuse them unless all are finite."""
    xp = namespace_of(values)
    if not bool(xp.all(xp.isfinite(values))):
        raise DataError(f"{kernel!r} overflows on these points; scale X first, for instance to unit variance")
    return values


def squared_lengths(X: Any) -> Any:
    """Return the values x_i'x_i."""
    if is_sparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    xp = namespace_of(X)
    return xp.astype(paired_sums(X, X, 1), xp.float64, copy=False)


@dataclass(frozen=True, repr=False)
class Linear(Kernel):
    """x'z: the LS-SVM with this kernel is ridge regression with a free intercept."""

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the kernel values into ``out``."""
        inner_products(X, Z, out, self)

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return the kernel values as a new array in the namespace of the points."""
        return new_inner_products(X, Z, dtype, self)

    @property
    def linear(self) -> bool:
        """True."""
        return True

    @property
    def not_smooth(self) -> str:
        """Empty: it is linear."""
        return ""

    def _derivative(self, X: Array, Z: Array, left: Orders, right: Orders) -> Array:
        """Return the derivative of the identity: zero beyond the first order of x'z."""
        return differentiate_inner_product(X, Z, left, right, lambda j: X @ Z.T if j == 0 else float(j == 1))

    @property
    def no_integral(self) -> str:
        """Empty: it is a polynomial."""
        return ""

    def _integral(self, X: Array, boxes: Array, orders: Orders) -> Array:
        """Integrate by a rule of Gauss."""
        return integrate_exactly(self, 1, X, boxes, orders)

    def _double_integral(self, boxes: Array, others: Array) -> Array:
        """Integrate by a rule of Gauss in both."""
        return integrate_exactly(self, 1, boxes, others, {}, left_is_boxes=True)

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return no derivatives: it has no scale."""
        return np.zeros(0)

    def rank(self, n_features: int) -> int | None:
        """Count one feature per column."""
        return n_features

    def features(self, X: Any) -> Array:
        """Return the columns themselves."""
        return np.asarray(X, dtype=np.float64)

    def rounding(self, X: Any) -> float:
        """Bound the error of a sum of d rounded products, by Cauchy and Schwarz."""
        return relative_rounding(X.shape[1] + 2.0)

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """Return the inner product."""
        return exact_inner_product

    def exact_features(self, number: Number, x: Sequence[Any]) -> list[Any]:
        """Return the columns themselves."""
        return list(x)

    def diag(self, X: Any) -> Any:
        """Return squared lengths."""
        return squared_lengths(X)
