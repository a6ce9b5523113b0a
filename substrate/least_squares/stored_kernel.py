r"""Kernel matrices that an iteration multiplies: one triangle in memory, or blocks that are computed anew.

One triangle of K suffices for products with K. Of an N x N array whose other triangle is never written, the operating
system provides the pages that are: as much memory as all of K takes in single precision. Without any, K is computed
tile by tile for every product (``substrate.kernels.tiled_product``): half of K is evaluated and none of it stored.
"""

import contextlib
import mmap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, check_memory
from substrate.gram import Gram, triangle_product
from substrate.kernel_matrix import warn_if_degenerate
from substrate.kernels import Kernel
from substrate.kernels.base import mirror_square, strips
from substrate.kernels.tiled_product import tiled_product
from substrate.operators import SymmetricOperator
from substrate.progress import LateProgress
from substrate.threads import blas_threads

__all__ = ["KernelBlocks", "KernelTriangle"]

#: Rows of a strip, as in :func:`substrate.kernels.base.symmetric_matrix`: the same values to the last bit.
_STRIP = 128
#: Bytes of an array from which half of it is worth saving: small pages are a little slower.
_SMALL_PAGES_FROM = 2.0**27


class KernelTriangle(SymmetricOperator):
    """The upper triangle of a kernel matrix."""

    def __init__(self, kernel: Kernel, store: Array, diagonal: Array, points: Any = None) -> None:
        self.kernel, self.points = kernel, points
        self._store, self._diagonal = store, diagonal

    @classmethod
    def of(cls, kernel: Kernel, X: Any, small_pages_from: float | None = None) -> "KernelTriangle":
        """Return the triangle of a resolved kernel on points, refused before allocation when it cannot fit.

        Of an array of at least ``small_pages_from`` bytes half is saved, for a tenth more time per product.
        """
        n = X.shape[0]
        small_pages_from = _SMALL_PAGES_FROM if small_pages_from is None else small_pages_from
        check_memory(
            4.0 * n * n if 8.0 * n * n >= small_pages_from else 8.0 * n * n,
            f"one triangle of the {n} x {n} kernel matrix",
            "solver='cg' stores none of it; or take a reduced set of rows.",
        )
        store, diagonal = _reserve_half(n, small_pages_from), kernel.diag(X)
        for rows in strips(n, _STRIP):
            kernel.fill(X[rows], X[rows.start :], store[rows, rows.start :])
        np.fill_diagonal(store, diagonal)
        triangle = cls(kernel, store, diagonal, X)
        if kernel.decays and n > 1:
            warn_if_degenerate(store, diagonal, X, _extreme_correlations)
        return triangle

    @property
    def n(self) -> int:
        """Number of points."""
        return int(self._store.shape[0])

    @property
    def diagonal(self) -> Array:
        """The diagonal of K."""
        return self._diagonal

    def product(self, V: Array) -> Array:
        """Return K V, reading each stored number once for a few columns."""
        with blas_threads(self.n):
            return triangle_product(self._store.T, V, lower=1)  # Fortran's lower triangle

    def block(self, rows: Any, columns: Any) -> Array:
        """Return the entries of some rows and some columns, from the triangle that is there."""
        i, j = np.ix_(rows, columns)
        return self._store[np.minimum(i, j), np.maximum(i, j)]

    def upper_strips(self) -> Iterator[tuple[slice, Array]]:
        """Yield the strips in which the triangle was computed, without a copy."""
        for rows in strips(self.n, _STRIP):
            yield rows, self._store[rows, rows.start :]

    def gram(self) -> Gram:
        """Return the whole matrix in the same array, for a factorisation; this object must not be used afterwards."""
        K = self._store
        n = K.shape[0]
        check_memory(
            4.0 * n * n, f"the other triangle of the {n} x {n} kernel matrix", "Fit with solver='stored_cg', or 'cg'."
        )
        for rows in strips(n, _STRIP):
            K[rows.stop :, rows] = K[rows, rows.stop :].T
            mirror_square(K[rows, rows], upper=True)
        gram = Gram(K, self.kernel)
        gram.points = self.points
        return gram


def _reserve_half(n: int, small_pages_from: float) -> Array:
    """Return an N x N array that takes up memory where it is written: from a size on, in pages smaller than its rows.

    Linux would otherwise back a large array with pages of 2 MiB, each of which holds numbers of the stored triangle.
    """
    if 8.0 * n * n < small_pages_from or not hasattr(mmap, "MADV_NOHUGEPAGE"):
        return np.empty((n, n))
    memory = mmap.mmap(-1, 8 * n * n, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without large pages
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, dtype=np.float64).reshape(n, n)


def _extreme_correlations(store: Array, root: Array) -> tuple[float, float]:
    """Return the lowest and the highest correlation of two different points, from the upper triangle."""
    low, high = np.inf, -np.inf
    for i in range(root.size - 1):
        row = store[i, i + 1 :] / (root[i] * root[i + 1 :])
        low, high = min(low, float(row.min())), max(high, float(row.max()))
    return low, high


@dataclass(frozen=True, slots=True)
class KernelBlocks(SymmetricOperator):
    """A kernel matrix that is computed anew for every product."""

    kernel: Kernel
    points: Any
    progress: LateProgress | None = None

    @property
    def n(self) -> int:
        """Number of points."""
        return int(self.points.shape[0])

    @property
    def diagonal(self) -> Array:
        """The diagonal of K."""
        return np.asarray(self.kernel.diag(self.points))

    def diagonal_at(self, rows: Any) -> Array:
        """Return k(x, x) of some points alone."""
        return np.asarray(self.kernel.diag(self.points[rows]))

    def product(self, V: Array) -> Array:
        """Return K V, half of K evaluated and none of it stored."""
        return np.asarray(tiled_product(self.kernel, self.points, V, "float64", self.progress))

    def block(self, rows: Any, columns: Any) -> Array:
        """Return the kernel values between two sets of points."""
        if 8 * len(columns) < len(rows):  # kernels work along rows: few long ones are cheaper than many short ones
            return np.ascontiguousarray(self.block(columns, rows).T)
        out = np.empty((len(rows), len(columns)))
        self.kernel.fill(self.points[rows], self.points[columns], out)
        return out

    def columns(self, rows: Any) -> Callable[[int], Array]:
        """Return a function that gives the values of some points with one of them; the points are taken once."""
        points = self.points[rows]

        def column(place: int) -> Array:
            out = np.empty((1, len(rows)))
            self.kernel.fill(points[[place]], points, out)
            return out.reshape(-1)

        return column
