"""Kernels from elsewhere: a callable, or a kernel object of scikit-learn's Gaussian processes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, is_sparse
from substrate.errors import DataError, DeclarationError
from substrate.kernels.algebra import Kernel
from substrate.kernels.laplacian import Laplacian
from substrate.kernels.linear import Linear
from substrate.kernels.matern import Matern
from substrate.kernels.polynomial import Polynomial
from substrate.kernels.precomputed import Precomputed
from substrate.kernels.rbf import RBF

__all__ = ["Foreign", "as_kernel"]

_NAMED: dict[str, Callable[[], Kernel]] = {
    "rbf": RBF,
    "linear": Linear,
    "polynomial": Polynomial,
    "laplacian": Laplacian,
    "matern": Matern,
    "precomputed": Precomputed,
}


@dataclass(frozen=True, repr=False)
class Foreign(Kernel):
    """A function of two point sets that returns the matrix of kernel values."""

    function: Callable[..., Any]

    @property
    def trusted(self) -> bool:
        """No: any function may be given."""
        return False

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write what the function returns into ``out``, after checking it."""
        X = X.toarray() if is_sparse(X) else X
        Z = Z.toarray() if is_sparse(Z) else Z
        try:
            values = np.asarray(self.function(X, Z), dtype=np.float64)
        except Exception as error:
            raise DataError(
                f"the kernel {self!r} raised {type(error).__name__} on points of shapes {X.shape}, {Z.shape}: {error}"
            ) from error
        if values.shape != out.shape:
            raise DataError(
                f"the kernel {self!r} must return a matrix of shape {out.shape} for point sets of shapes {X.shape} "
                f"and {Z.shape}, received {values.shape}; it is called with two arrays of points, not two points"
            )
        if not np.isfinite(values).all():
            raise DataError(f"the kernel {self!r} returned NaN or infinity")
        out[...] = values

    def diag(self, X: Any) -> Array:
        """Diagonal values, one point at a time (in blocks, to spare memory)."""
        out = np.empty(X.shape[0])
        for start in range(0, X.shape[0], 64):
            rows = slice(start, min(start + 64, X.shape[0]))
            block = np.empty((rows.stop - start,) * 2)
            self.fill(X[rows], X[rows], block)
            out[rows] = block.diagonal()
        return out

    def __repr__(self) -> str:
        return str(getattr(self.function, "__qualname__", None) or repr(self.function))


def as_kernel(kernel: Any) -> Kernel:
    """The kernel meant by a Kernel, a name, a callable, or a scikit-learn kernel object."""
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        if kernel not in _NAMED:
            raise DeclarationError(
                f"unknown kernel name {kernel!r}; known are {sorted(_NAMED)}, or pass a Kernel object"
            )
        return _NAMED[kernel]()
    if isinstance(kernel, type) and issubclass(kernel, Kernel):
        raise DeclarationError(f"pass an instance of the kernel, {kernel.__name__}(...), not the class")
    if callable(kernel):
        return Foreign(kernel)
    raise DeclarationError(
        f"kernel must be a Kernel, one of {sorted(_NAMED)}, or a callable of two point sets; received {kernel!r}"
    )
