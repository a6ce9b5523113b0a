r"""A kernel matrix of which nothing is stored, in two precisions: single for the steps of an iteration, double for the
residuals that decide, on the host or on a device.

What computed the support values does not matter for the bound of their answer
(:mod:`~substrate.operators.saddle_system`), so most of the work may be done with half the digits. With
:math:`\tilde K = K + E` in the place of K every run of conjugate gradients reduces the residual to about

.. math:: \|r\| \;\longrightarrow\; \|E A^{-1}\|\, \|r\|, \qquad A = K + D ,

after which it is computed anew and the next run begins: refinement, which contracts while
:math:`\|E A^{-1}\| < 1`. A preconditioner changes the number of steps and not this. Where it does not contract, all
products are computed in double precision from then on.

Every tile of the upper half is used twice, for its rows and, transposed, for its columns. On the host the strips of
tiles are dealt out to a fixed number of sums, which as many threads as BLAS may use work on: the result does not depend
on how many those are. A kernel of the user's may not be called by two threads at once, so it has one. On a device tiles
are large, and one follows the other.
"""

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import numpy as np

from substrate.arrays import (
    Array,
    is_device_array,
    is_sparse,
    namespace_of,
    on_device_of,
    one_blas_thread,
    strips,
    take_rows,
    threads_for,
    to_numpy,
    zeros_beside,
)
from substrate.errors import DataError, DeclarationError
from substrate.kernels.kernel import Kernel
from substrate.operators.gram import KernelOperator

__all__ = ["KernelTiles"]

#: Rows and columns of a tile: on the host in the cache, on a device enough to keep it busy.
_HOST, _DEVICE = 512, 16384
#: The same on the host for so many rows: tiles on the diagonal, half of whose values nobody needs, are few then.
_WIDE, _MANY_ROWS = 1024, 20_000
#: Sums that the strips of tiles on the host are dealt out to.
_SUMS = 8


class KernelTiles(KernelOperator):
    """The kernel matrix of points that may be on a device, for vectors on the host."""

    def __init__(self, kernel: Kernel, points: Any) -> None:
        self.kernel, self.points = kernel, points
        self.n, self.diagonal = int(points.shape[0]), np.asarray(to_numpy(kernel.diag(points)))
        #: Whether the products of steps are computed in single precision, by a formula of this package.
        self.is_single = kernel.trusted and not (kernel.pairwise or is_sparse(points))

    @property
    def precision(self) -> str:
        """The precision of the products at present, in words."""
        return "steps in single, residuals in double precision" if self.is_single else "double"

    def product(self, V: Array) -> Array:
        """Return K V with the rounding of double precision, which the bounds of an answer count."""
        return self._tiled(V, "float64")

    def step_product(self, V: Array) -> Array:
        """Return K V for a step of an iteration."""
        if self.is_single:
            try:
                return self._tiled(V, "float32")
            except (DataError, DeclarationError):  # values beyond single precision, or no formula
                self.is_single = False
        return self.product(V)

    def block(self, rows: Any, columns: Any) -> Array:
        """Return the kernel values between two sets of points."""
        if 8 * len(columns) < len(rows):  # kernels work along rows: few long ones are cheaper than many short ones
            return np.ascontiguousarray(self.block(columns, rows).T)
        left, right = take_rows(self.points, rows), take_rows(self.points, columns)
        if is_device_array(left):
            return np.asarray(to_numpy(self.kernel(left, right)))
        return self.kernel.values(left, right)

    def _tiled(self, V: Array, precision: str) -> Array:
        """Return K V in double precision: sums over the tiles of products in the given precision."""
        xp, n, stop = namespace_of(self.points), self.n, Event()
        dtype = getattr(xp, precision)
        vectors = xp.astype(on_device_of(self.points, np.ascontiguousarray(V)), dtype, copy=False)

        def add_strips(which: slice, side: int) -> Any:
            """Return the sum of the products of some strips of tiles, each used for its rows and for its columns."""
            tiles = list(strips(n, side))
            out = zeros_beside(self.points, (n, vectors.shape[1]))
            # of every thread; what is not finite never counts as converged
            with np.errstate(over="ignore", invalid="ignore"):
                for number in range(len(tiles))[which]:
                    rows = tiles[number]
                    strip = self.points[rows, :]
                    for columns in tiles[number:]:
                        if stop.is_set():
                            return out
                        tile = self.kernel.evaluate(strip, self.points[columns, :], dtype)
                        out[rows, :] += tile @ vectors[columns, :]
                        if columns.start > rows.start:
                            out[columns, :] += tile.T @ vectors[rows, :]
            return out

        if is_device_array(self.points):
            return np.asarray(to_numpy(add_strips(slice(None), _DEVICE)))
        side = _HOST if n < _MANY_ROWS else _WIDE
        count = threads_for(n) if self.kernel.trusted else 1
        with one_blas_thread(), ThreadPoolExecutor(count) as workers:
            shares = [slice(first, None, _SUMS) for first in range(_SUMS)]
            futures = [workers.submit(add_strips, share, side) for share in shares]
            try:
                total: Array = futures[0].result()
                for future in futures[1:]:
                    total = total + future.result()
            except BaseException:  # an interrupt does not wait for the remaining tiles
                stop.set()
                raise
        return total
