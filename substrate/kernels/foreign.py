"""Kernels from elsewhere: a callable, a kernel object of scikit-learn's Gaussian processes, or a precomputed matrix.

For a precomputed kernel matrix, the "points" are its rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, is_sparse
from substrate.errors import DataError, DeclarationError
from substrate.kernels.algebra import Kernel
from substrate.kernels.base import paired_values
from substrate.kernels.matern import Matern
from substrate.kernels.of_distance import RBF, Laplacian
from substrate.kernels.polynomial import Linear, Polynomial
from substrate.namespaces import diagonal_of, namespace_of, same_home, where_it_lives

__all__ = ["Foreign", "Precomputed", "as_kernel"]


@dataclass(frozen=True, repr=False)
class Precomputed(Kernel):
    """Rows of a given matrix: N x N when fitting, n x N (new points against training points) when predicting."""

    @property
    def pairwise(self) -> bool:
        """True."""
        return True

    @property
    def trusted(self) -> bool:
        """False: any matrix may be given."""
        return False

    @property
    def not_smooth(self) -> str:
        """A matrix has no inputs."""
        return "a precomputed matrix has no inputs; pass X and the kernel itself"

    def refuse_scale_gradient(self) -> None:
        """Refuse: a matrix has no scales."""
        raise DeclarationError(f"{self!r} has no derivatives in its scales: {self.not_smooth}")

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return no derivatives, inside another kernel."""
        return np.zeros(0)

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Copy the given rows into ``out``."""
        _check_shape(X, out.shape)
        out[...] = X.toarray() if is_sparse(X) else X

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return the given rows in the given precision."""
        _check_shape(X, (X.shape[0], Z.shape[0]))
        return namespace_of(X).astype(X, dtype, copy=False)

    def diag(self, X: Any) -> Any:
        """Return the diagonal of the given matrix."""
        if X.shape[0] != X.shape[1]:
            raise DataError(f"a square kernel matrix is expected, received shape {X.shape}")
        return diagonal_of(X)


def _check_shape(X: Any, wanted: tuple[int, ...]) -> None:
    if tuple(X.shape) != tuple(wanted):
        raise DataError(
            f"a precomputed kernel matrix of shape {tuple(wanted)} is expected here, received {tuple(X.shape)}; "
            "rows are points, columns are training points"
        )


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

    def __hash__(self) -> int:
        # kernels of scikit-learn compare by their parameters, and have no hash of their own
        return hash((Foreign, type(self.function)))

    @property
    def trusted(self) -> bool:
        """False: any function may be given."""
        return False

    @property
    def not_smooth(self) -> str:
        """Only values are known of a function."""
        return (
            "only its values are known; write it as a Kernel with `_derivative` and an empty `not_smooth`, or "
            "constrain differences of values"
        )

    def refuse_scale_gradient(self) -> None:
        """Refuse: only values are known of a function."""
        raise DeclarationError(
            f"{self!r} has no derivatives in its scales: only its values are known; write it as a Kernel whose fields "
            "are its scales, with a `_scale_gradient`, or search without derivatives"
        )

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return no derivatives, inside another kernel: its values are given."""
        return np.zeros(0)

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Check the values of the function and write them into ``out``."""
        X = X.toarray() if is_sparse(X) else X
        Z = Z.toarray() if is_sparse(Z) else Z
        try:
            values = np.asarray(self.function(X, Z), dtype=np.float64)
        except Exception as error:
            raise DataError(
                f"the kernel {self!r} raised {type(error).__name__} on points of shapes {X.shape}, {Z.shape}: {error}"
            ) from error
        self._check(values, X, Z)
        out[...] = values

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return the values of the function for points of a device, after checking them; they must stay on that
        device.
        """
        xp = namespace_of(X)
        try:
            values = self.function(xp.astype(X, dtype, copy=False), xp.astype(Z, dtype, copy=False))
        except Exception as error:
            raise DataError(
                f"the kernel {self!r} raised {type(error).__name__} on points that are {where_it_lives(X)}: {error}"
            ) from error
        same_home(X=X, **{"the kernel's matrix": values})
        self._check(values, X, Z)
        return xp.astype(values, dtype, copy=False)

    def _check(self, values: Any, X: Any, Z: Any) -> None:
        shapes, shape = (tuple(X.shape), tuple(Z.shape)), (X.shape[0], Z.shape[0])
        if tuple(values.shape) != shape:
            raise DataError(
                f"the kernel {self!r} must return a matrix of shape {shape} for point sets of shapes {shapes[0]} "
                f"and {shapes[1]}, received {tuple(values.shape)}; it is called with two arrays of points, not two "
                "points"
            )
        xp = namespace_of(values)
        if not bool(xp.all(xp.isfinite(values))):
            raise DataError(f"the kernel {self!r} returned NaN or infinity")

    def diag(self, X: Any) -> Any:
        """Return diagonal values, in blocks."""
        return paired_values(self, X, X)

    def __repr__(self) -> str:
        return str(getattr(self.function, "__qualname__", None) or repr(self.function))


def as_kernel(kernel: Any) -> Kernel:
    """Return the kernel given as a Kernel, a name, a callable, or a scikit-learn kernel object."""
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
