r"""Kernels of the inner product: :math:`k(x, z) = (x^T z + \tau)^p` with offset :math:`\tau \ge 0`.

The linear kernel has degree one and no offset.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from substrate.arrays import Array, is_sparse, namespace_of, non_negative, paired_sums, to_dense, whole_number
from substrate.errors import DeclarationError
from substrate.kernels.derivatives import Orders
from substrate.kernels.integrals import integrate_by_rule
from substrate.kernels.kernel import Formula, Kernel, Number, refuse_overflow
from substrate.numbers import Double, relative_rounding

__all__ = ["Linear", "Polynomial"]

#: The largest degree: the coefficients of larger ones are beyond double precision.
_LARGEST_DEGREE = 1000


class _OfInnerProduct(Kernel):
    """(x'z + offset)^degree."""

    degree: int
    offset: float
    not_smooth: ClassVar[str] = ""

    def enclose(self, X: Any, Z: Any) -> Double:
        """Return the power of the inner products."""
        products = Double.exact(to_dense(X)) @ Double.exact(to_dense(Z)).T
        return (products + self.offset if self.offset else products) ** self.degree

    @np.errstate(over="ignore", invalid="ignore")
    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return the kernel values as a new array in the namespace of the points."""
        if is_sparse(X) or is_sparse(Z):
            return self._power(np.asarray(to_dense(X @ Z.T), dtype=dtype))
        xp = namespace_of(X)
        return self._power(xp.astype(X, dtype, copy=False) @ xp.astype(Z, dtype, copy=False).T)

    def diag(self, X: Any) -> Any:
        """Return powers of the squared lengths."""
        if is_sparse(X):
            return self._power(np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel())
        xp = namespace_of(X)
        return self._power(xp.astype(paired_sums(X, X, 1), xp.float64, copy=False))

    @np.errstate(over="ignore", invalid="ignore")
    def _power(self, products: Any, lower: int = 0) -> Any:
        """Return u^(p - lower) with u = x'z + offset; an overflow is refused rather than passed on."""
        base = products + self.offset if self.offset else products
        return refuse_overflow(base ** (self.degree - lower) if self.degree - lower != 1 else base, self)

    def _integral(self, boxes: Array, others: Array, orders: Orders) -> Array:
        """Integrate by a rule of Gauss."""
        return integrate_by_rule(self, self.degree // 2 + 1, boxes, others, orders)

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return p u^(p-1) offset, in the logarithm of the offset where it is not zero."""
        if self.offset == 0.0:
            return np.zeros(0)
        return np.array([np.vdot(weights, self.degree * self.offset * self._power(X @ Z.T, 1))])

    def rank(self, n_features: int) -> int | None:
        """Count the monomials of at most this degree (of exactly this degree without an offset)."""
        return math.comb(n_features + self.degree - (self.offset == 0.0), self.degree)

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """Return the power of the inner product."""
        offset = number(self.offset)
        return lambda x, z: (sum(a * b for a, b in zip(x, z, strict=True)) + offset) ** self.degree

    def rounding(self, X: Any, by_differences: bool = False) -> float:
        """Bound the error of a sum of d rounded products, by Cauchy and Schwarz, multiplied by the power."""
        if self.degree == 1 and self.offset == 0.0:
            return relative_rounding(X.shape[1] + 2.0)
        return relative_rounding(self.degree * (X.shape[1] + 4.0) + 4.0)


@dataclass(frozen=True, repr=False)
class Linear(_OfInnerProduct):
    """x'z: the LS-SVM with this kernel is ridge regression with a free intercept."""

    degree = 1
    offset = 0.0


@dataclass(frozen=True, repr=False)
class Polynomial(_OfInnerProduct):
    """(x'z + offset)^degree with a degree from 1 to 1000; a negative offset, not positive semi-definite, is refused."""

    degree: int = 3
    offset: float = 1.0

    def __post_init__(self) -> None:
        degree = whole_number(self.degree, "degree", 1)
        if degree > _LARGEST_DEGREE:
            raise DeclarationError(
                f"degree must be at most {_LARGEST_DEGREE}, received {degree}; for smoother functions take RBF"
            )
        object.__setattr__(self, "degree", degree)
        object.__setattr__(self, "offset", non_negative(self.offset, "offset"))
