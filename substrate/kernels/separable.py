r"""The separable kernel of a vector-valued function, :math:`K(x, z) = B \, k(x, z)`.

.. math:: u^T K(x, z) \, v = (u^T B \, v) \; k(x, z)

on rows :math:`(x, u)` (:mod:`substrate.kernels.directions`), with a positive semi-definite matrix B that says how the
components depend on each other ([Alvarez2012]_ section 4.1): of all components at all points it is the Kronecker
product of B and the kernel matrix. The identity has components that share nothing but the kernel, a matrix of ones one
function for all.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, real_array
from substrate.certificates.rounding import relative_rounding
from substrate.errors import DeclarationError
from substrate.kernels.algebra import Kernel
from substrate.kernels.base import Formula, Number
from substrate.kernels.derivatives import Orders
from substrate.kernels.directions import OnDirections, exact_parts, refuse_split

__all__ = ["Separable"]


@dataclass(frozen=True, repr=False)
class Separable(OnDirections):
    """(u'B v) kernel(x, z) on rows of a point x and a direction u; ``mixing`` is B, one row per component."""

    kernel: Kernel
    mixing: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        B = real_array(self.mixing, "mixing", ndim=2)
        if B.shape[0] != B.shape[1] or not np.array_equal(B, B.T):
            raise DeclarationError(f"mixing must be a square symmetric matrix, received the shape {B.shape}")
        values = np.linalg.eigvalsh(B)
        if values[0] < -relative_rounding(4.0 * values.size) * max(float(values[-1]), 0.0):
            raise DeclarationError(
                f"mixing must be positive semi-definite, its smallest eigenvalue is {values[0]:.3g}; B = L L' is for "
                "any L"
            )
        object.__setattr__(self, "mixing", tuple(tuple(float(entry) for entry in row) for row in B))

    @property
    def _matrix(self) -> Array:
        return np.array(self.mixing)

    def split(self, n_features: int) -> int:
        """Return how many columns the point has: all but one per component."""
        m = len(self.mixing)
        if n_features <= m:
            raise refuse_split(self, n_features, f"the last {m} columns being the direction")
        return n_features - m

    def pair(self, x: Array, u: Array, z: Array, v: Array, left: Orders, right: Orders) -> Array:
        """Return the product of both."""
        inner = self.kernel._derivative(x, z, left, right) if left or right else self.kernel(x, z)
        return np.asarray((u @ self._matrix @ v.T) * inner)

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return those of the inner kernel, weighted by u'B v."""
        (x, u), (z, v) = self._parts(X), self._parts(Z)
        return self.kernel._scale_gradient(x, z, weights * (u @ self._matrix @ v.T))

    def rounding(self, X: Any) -> float:
        """Return that of the inner kernel, and of u'B v relative to both lengths, which cancellation makes small."""
        x, u = self._parts(X)
        sizes = np.abs(u) @ np.sqrt(np.maximum(np.diagonal(self._matrix), 0.0))
        lengths = np.sqrt(np.maximum(np.einsum("ni,ij,nj->n", u, self._matrix, u), 0.0))
        if not (sizes > 0.0).any():
            return float(self.kernel.rounding(x))
        with np.errstate(divide="ignore"):
            ratio = float(np.max(np.where(sizes > 0.0, sizes / lengths, 1.0)))
        return float(self.kernel.rounding(x)) + relative_rounding(2.0 * len(self.mixing) + 4.0) * ratio**2

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """Return the product of both."""
        d = self.split(n_features)
        inner, B = self.kernel.exact_formula(number, d), [[number(entry) for entry in row] for row in self.mixing]

        def value(row: Any, other: Any) -> Any:
            (x, u), (z, v) = exact_parts(row, d), exact_parts(other, d)
            mixed = sum(a * entry * b for a, line in zip(u, B, strict=True) for entry, b in zip(line, v, strict=True))
            return mixed * inner(x, z)

        return value
