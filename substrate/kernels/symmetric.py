r"""The even or the odd part of a kernel.

.. math:: k_s(x, z) = \tfrac12 \left( k(x, z) + s\, k(-x, z) \right), \qquad s = 1 \text{ (even) or } -1 \text{ (odd)}

Where :math:`k(-x, -z) = k(x, z)` it has the features :math:`\tfrac12 (\varphi(x) + s\, \varphi(-x))`, so it is positive
semi-definite, and every expansion in it is even or odd [Espinoza2005]_. All kernels of this package have that property;
of a function it is checked on the training points, and a precomputed matrix, which has no points to mirror, is refused.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import ROUNDED_ONCE
from substrate.errors import DataError, DeclarationError
from substrate.kernels.algebra import Kernel
from substrate.kernels.base import BaseKernel, Formula, Number, paired_values
from substrate.kernels.derivatives import Orders
from substrate.kernels.nested import Nested
from substrate.namespaces import namespace_of, to_numpy

__all__ = ["Symmetric"]


@dataclass(frozen=True, repr=False)
class Symmetric(Nested):
    """(kernel(x, z) + s kernel(-x, z)) / 2 with s = 1 for ``symmetry="even"`` and -1 for ``"odd"``."""

    kernel: Kernel
    symmetry: str = "even"
    no_matrix = "a precomputed matrix has no mirrored points; pass X and the kernel itself"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.symmetry not in ("even", "odd"):
            raise DeclarationError(f"symmetry must be 'even' or 'odd', received {self.symmetry!r}")

    def cost(self, n_features: int) -> int:
        """Return twice that of the inner kernel, which is evaluated at x and at -x."""
        return 2 * self.kernel.cost(n_features)

    @property
    def envelope(self) -> BaseKernel:
        """The inner kernel, of whose values this one is the half sum or difference."""
        return self.kernel.envelope

    def _resolve(self, X: Any) -> Self:
        if not self.kernel.mirrors(X):
            raise DataError(f"{self.kernel!r} does not have k(-x, -z) = k(x, z) on X; take a kernel that has")
        return super()._resolve(X)

    def _part(self, values: Any, mirrored: Any) -> Any:
        return 0.5 * (values + mirrored) if self.symmetry == "even" else 0.5 * (values - mirrored)

    def fill(self, X: Any, Z: Any, out: Array, careful: bool = False) -> None:
        """Write the part into ``out``."""
        fill = self.kernel.fill_carefully if careful else self.kernel.fill
        mirrored, mirrored_points = np.empty_like(out), -X
        # a new array: a product of X with itself would round in another order than one with -X, and not cancel exactly
        fill(-mirrored_points, Z, out)
        fill(mirrored_points, Z, mirrored)
        out[...] = self._part(out, mirrored)

    def fill_carefully(self, X: Any, Z: Any, out: Array) -> None:
        """Fill in the part of the inner kernel's accurate values."""
        self.fill(X, Z, out, careful=True)

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return the part as a new array."""
        return self._part(self.kernel.evaluate(X, Z, dtype), self.kernel.evaluate(-X, Z, dtype))

    def _derivative(self, X: Array, Z: Array, left: Orders, right: Orders) -> Array:
        """Return the part of both points'; every derivative in a mirrored point changes the sign."""
        values, mirrored = (self.kernel._derivative(points, Z, left, right) for points in (X, -X))
        return np.asarray(self._part(values, -mirrored if sum(left.values()) % 2 else mirrored))

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return the part of both points'."""
        return np.asarray(self._part(*(self.kernel._scale_gradient(points, Z, weights) for points in (X, -X))))

    def features(self, X: Any) -> Array:
        """Return the part of every feature: a monomial or zero."""
        return np.asarray(self._part(self.kernel.features(X), self.kernel.features(-X)))

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """Return the part of the inner kernel's formula."""
        inner = self.kernel.exact_formula(number, n_features)
        return lambda x, z: self._part(inner(x, z), inner([-value for value in x], z))

    def exact_features(self, number: Number, x: Any) -> list[Any]:
        """Return the same as :meth:`features`."""
        features_of_mirrors = (self.kernel.exact_features(number, point) for point in (x, [-value for value in x]))
        return [self._part(*pair) for pair in zip(*features_of_mirrors, strict=True)]

    def rounding(self, X: Any) -> float:
        """Return that of the inner kernel over the least share that cancellation leaves of its diagonal."""
        diagonal, whole, p = (
            to_numpy(self.diag(X)),
            to_numpy(self.kernel.diag(X)),
            self.kernel.rounding(X) + ROUNDED_ONCE,
        )
        share = float(np.min(diagonal[whole > 0.0] / whole[whole > 0.0], initial=1.0)) - p
        return p / share if share > 0.0 else np.inf

    def diag(self, X: Any) -> Any:
        """Return the part of k(x, x), a squared length, which rounding must not leave below zero."""
        part = self._part(self.kernel.diag(X), paired_values(self.kernel, -X, X))
        return namespace_of(part).where(part > 0.0, part, 0.0 * part)
