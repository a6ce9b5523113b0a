"""A kernel matrix that somebody else computed: the "points" are its rows."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from substrate.arrays import Array, is_sparse
from substrate.errors import DataError
from substrate.kernels.algebra import Kernel
from substrate.namespaces import is_device_array, namespace_of

__all__ = ["Precomputed"]


@dataclass(frozen=True, repr=False)
class Precomputed(Kernel):
    """Rows of a given matrix: N x N when fitting, n x N (new points against training points) when predicting."""

    pairwise: ClassVar[bool] = True

    @property
    def trusted(self) -> bool:
        """No: any matrix may be given."""
        return False

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Copy the given rows into ``out``."""
        _check_shape(X, out.shape)
        out[...] = X.toarray() if is_sparse(X) else X

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """The given rows in the given precision."""
        _check_shape(X, (X.shape[0], Z.shape[0]))
        return namespace_of(X).astype(X, dtype, copy=False)

    def diag(self, X: Any) -> Any:
        """The diagonal of the given matrix."""
        if X.shape[0] != X.shape[1]:
            raise DataError(f"a square kernel matrix is expected, received shape {X.shape}")
        if is_device_array(X):
            return namespace_of(X).linalg.diagonal(X)
        return np.array(X.diagonal(), dtype=np.float64)


def _check_shape(X: Any, wanted: tuple[int, ...]) -> None:
    if tuple(X.shape) != tuple(wanted):
        raise DataError(
            f"a precomputed kernel matrix of shape {tuple(wanted)} is expected here, received {tuple(X.shape)}; "
            "rows are points, columns are training points"
        )
