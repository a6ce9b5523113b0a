"""Kernels from elsewhere: a callable, a kernel object of scikit-learn's Gaussian processes, or a precomputed matrix.

For a precomputed kernel matrix, the "points" are its rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from substrate.arrays import diagonal_of, is_device_array, namespace_of, same_home, to_dense, where_it_lives
from substrate.errors import DataError
from substrate.kernels.kernel import Kernel

__all__ = ["Foreign", "Precomputed"]


@dataclass(frozen=True, repr=False)
class Precomputed(Kernel):
    """Rows of a given matrix: N x N when fitting, n x N (new points against training points) when predicting."""

    pairwise: ClassVar[bool] = True

    trusted: ClassVar[bool] = False

    not_smooth: ClassVar[str] = "a precomputed matrix has no inputs; pass X and the kernel itself"

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return a copy of the given rows in the given precision."""
        if Z is not None and X.shape[1] != Z.shape[0]:
            raise DataError(
                f"a precomputed kernel matrix of shape {(X.shape[0], Z.shape[0])} is expected here, received "
                f"{tuple(X.shape)}; rows are points, columns are training points"
            )
        return namespace_of(X).astype(to_dense(X), dtype, copy=True)

    def diag(self, X: Any) -> Any:
        """Return the diagonal of the given matrix."""
        if X.shape[0] != X.shape[1]:
            raise DataError(f"a square kernel matrix is expected, received shape {X.shape}")
        return diagonal_of(X)


@dataclass(frozen=True, repr=False)
class Foreign(Kernel):
    """A function of two point sets that returns the matrix of kernel values."""

    function: Callable[..., Any]
    trusted: ClassVar[bool] = False
    not_smooth: ClassVar[str] = (
        "only its values are known; write it as a Kernel with `exact_formula` and an empty `not_smooth`, or "
        "constrain differences of values"
    )

    def __hash__(self) -> int:
        # kernels of scikit-learn compare by their parameters, and are not hashable
        return hash((Foreign, type(self.function)))

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return the values of the function, after checking them; those for points of a device must stay there."""
        xp = namespace_of(X)
        points = [xp.astype(to_dense(each), dtype, copy=False) for each in (X, Z)]
        try:
            values = self.function(*points)
            values = values if is_device_array(X) else np.asarray(values, dtype=np.float64)
        except Exception as error:
            shapes = ", ".join(str(tuple(each.shape)) for each in points)
            raise DataError(
                f"the kernel {self!r} raised {type(error).__name__} on points of shapes {shapes}, {where_it_lives(X)}: "
                f"{error}"
            ) from error
        same_home(X=X, **{"the kernel's matrix": values})
        shape = (X.shape[0], Z.shape[0])
        if tuple(values.shape) != shape:
            raise DataError(
                f"the kernel {self!r} must return a matrix of shape {shape} for point sets of shapes {tuple(X.shape)} "
                f"and {tuple(Z.shape)}, received {tuple(values.shape)}; it is called with two arrays of points, not "
                "two points"
            )
        if not bool(xp.all(xp.isfinite(values))):
            raise DataError(f"the kernel {self!r} returned NaN or infinity")
        return xp.astype(values, dtype, copy=False)

    def __repr__(self) -> str:
        return str(getattr(self.function, "__qualname__", None) or repr(self.function))
