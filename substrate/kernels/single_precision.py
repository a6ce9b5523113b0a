r"""A kernel evaluated in single precision, its values returned in double.

.. math:: \tilde k(x, z) = k(x, z)\,(1 + \delta), \qquad |\delta| \approx 10^{-7} \text{ to } 10^{-5}

This halves the memory traffic of the kernel's blocks, while everything that is computed from them (factors, sums over
rows, products, residuals) is in double precision. With sums in single precision too, a kernel matrix of a few thousand
rows has eigenvalues far below zero. The kernel's name is on the record, and the bound on the answer includes what
single precision may change: it is seldom within a millionth of the spread.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, is_sparse
from substrate.kernels.algebra import Kernel
from substrate.kernels.nested import Nested
from substrate.namespaces import namespace_of

__all__ = ["SinglePrecision"]

#: Roundoff of single precision over that of double.
_WIDER = 2.0**29


@dataclass(frozen=True, repr=False)
class SinglePrecision(Nested):
    """``kernel`` in float32, as float64: ``SinglePrecision(RBF(1.0))``."""

    kernel: Kernel

    no_matrix = "a precomputed matrix is not evaluated; round it yourself if you must"

    def rank(self, n_features: int) -> int | None:
        """Return None: features would be as precise as double precision is."""
        return None

    @property
    def not_smooth(self) -> str:
        """Rounded values have no derivatives."""
        return "its values are rounded; take the kernel in double precision"

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return the derivatives of the kernel in double precision, from which its values differ by rounding."""
        return self.kernel._scale_gradient(X, Z, weights)

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the rounded values into ``out``."""
        X, Z = (points.toarray() if is_sparse(points) else points for points in (X, Z))
        out[...] = self.evaluate(X, Z, np.float64)

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return the rounded values in the given precision."""
        xp = namespace_of(X)
        return xp.astype(self.kernel.evaluate(X, Z, xp.float32), dtype)

    def rounding(self, X: Any) -> float:
        """Return what single precision may change; no bound is known where its narrower range may be left."""
        diagonal = self.kernel.diag(X)
        xp = namespace_of(diagonal)
        if not (float(xp.min(diagonal)) > 1e-30 and float(xp.max(diagonal)) < 1e30):
            return math.inf
        return 1e-4 + _WIDER * self.kernel.rounding(X)

    def diag(self, X: Any) -> Any:
        """Return the diagonal of the inner kernel."""
        return self.kernel.diag(X)

    def __repr__(self) -> str:
        return f"SinglePrecision({self.kernel!r})"
