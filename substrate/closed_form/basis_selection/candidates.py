"""What every rule of selection chooses from: candidate rows, and the rows by which they are scored."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array, check_memory, is_sparse
from substrate.kernels import Kernel

__all__ = ["Candidates", "Chosen"]

Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Rows in the order of choice, and a word on why the choice ended."""

    rows: Rows
    ended: str


@dataclass(frozen=True, slots=True)
class Candidates:
    """Rows to choose from and rows to score by, of a point set, or of a kernel matrix (``kernel`` is None)."""

    kernel: Kernel | None
    X: Any
    rows: Rows
    scoring: Rows

    def block(self, left: Any, right: Any) -> Array:
        """Kernel values between two sets of rows."""
        check_memory(
            8.0 * len(left) * len(right),
            f"a {len(left)} x {len(right)} block of kernel values",
            "take a more reduced set of candidates and scoring rows, by n_candidates and n_scoring.",
        )
        if self.kernel is None:
            given = self.X[left][:, right]
            return np.array(given.toarray() if is_sparse(given) else given, dtype=np.float64)
        if 8 * len(right) < len(left):  # kernels work along rows: few long ones are cheaper than many short ones
            return np.ascontiguousarray(self.block(right, left).T)
        out = np.empty((len(left), len(right)))
        self.kernel.fill(self.X[left], self.X[right], out)
        return out

    def diagonal(self, rows: Any) -> Array:
        """The values k(x, x)."""
        if self.kernel is None:
            return np.array(self.X.diagonal()[rows], dtype=np.float64)
        return np.asarray(self.kernel.diag(self.X[rows]))
