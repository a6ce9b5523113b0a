r"""The rows of :math:`\hat K = [k(x_i, z_j)]`, l x n, handed out in blocks and never kept.

With many rows and few basis vectors :math:`z_j` ([Cawley2004]_ eq. (2)) the matrix does not fit where the data do, so
everything that is computed from it is computed block by block, in memory that does not grow with l.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, is_sparse
from substrate.kernels import Kernel

__all__ = ["KernelRows"]

#: Entries of a block: 8 MB; larger ones make no product faster (measured).
_BLOCK_ENTRIES = 1 << 20


@dataclass(frozen=True, slots=True)
class KernelRows:
    """A kernel between rows X and basis points; or, without a kernel, given columns of a kernel matrix X."""

    kernel: Kernel | None
    X: Any
    points: Any

    @property
    def n_rows(self) -> int:
        """l."""
        return int(self.X.shape[0])

    @property
    def n_basis(self) -> int:
        """n."""
        return int(self.points.shape[0])

    @property
    def step(self) -> int:
        """Rows of a block."""
        return int(np.clip(_BLOCK_ENTRIES // max(self.n_basis, 1), 128, 8192))

    def fill(self, rows: Any, out: Array) -> None:
        """Write the kernel values of some rows into ``out``."""
        if self.kernel is not None:
            self.kernel.fill(self.X[rows], self.points, out)
        else:
            given = self.X[rows][:, self.points]
            out[...] = given.toarray() if is_sparse(given) else given

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """All rows, a block at a time; the array is used again for the next one."""
        step = self.step
        buffer = np.empty((min(step, self.n_rows), self.n_basis))
        for start in range(0, self.n_rows, step):
            rows = slice(start, min(start + step, self.n_rows))
            block = buffer[: rows.stop - rows.start]
            self.fill(rows, block)
            yield rows, block

    def taken(self, rows: Any) -> Array:
        """Some rows as an array."""
        out = np.empty((len(rows), self.n_basis))
        self.fill(rows, out)
        return out
