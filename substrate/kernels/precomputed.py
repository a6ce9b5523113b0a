"""A kernel matrix that somebody else computed: the "points" are its rows."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from substrate.arrays import Array, is_sparse
from substrate.errors import DataError
from substrate.kernels.algebra import Kernel

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
        if X.shape != out.shape:
            raise DataError(
                f"a precomputed kernel matrix of shape {out.shape} is expected here, received {X.shape}; "
                "rows are points, columns are training points"
            )
        out[...] = X.toarray() if is_sparse(X) else X

    def diag(self, X: Any) -> Array:
        """The diagonal of the given matrix."""
        if X.shape[0] != X.shape[1]:
            raise DataError(f"a square kernel matrix is expected, received shape {X.shape}")
        return np.array(X.diagonal(), dtype=np.float64)
