"""The linear kernel k(x, z) = x'z."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, is_sparse
from substrate.errors import DataError
from substrate.kernels.algebra import Kernel

__all__ = ["Linear", "inner_products", "squared_lengths"]


def inner_products(X: Any, Z: Any, out: Array, kernel: Kernel) -> None:
    """Write x_i'z_j into ``out``; an overflow is refused rather than passed on."""
    with np.errstate(over="ignore", invalid="ignore"):
        product = X @ Z.T
    out[...] = product.toarray() if is_sparse(product) else product
    if not np.isfinite(out).all():
        raise DataError(f"{kernel!r} overflows on these points; scale X first, for instance to unit variance")


def squared_lengths(X: Any) -> Array:
    """The values x_i'x_i."""
    squares = X.multiply(X).sum(axis=1) if is_sparse(X) else np.einsum("ij,ij->i", X, X)
    return np.asarray(squares, dtype=np.float64).ravel()


@dataclass(frozen=True, repr=False)
class Linear(Kernel):
    """x'z: the LS-SVM with this kernel is ridge regression with a free intercept."""

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the kernel values into ``out``."""
        inner_products(X, Z, out, self)

    def diag(self, X: Any) -> Array:
        """Squared lengths."""
        return squared_lengths(X)
