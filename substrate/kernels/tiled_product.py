"""Products with a kernel matrix that is computed tile by tile and not stored, in single or double precision.

Every tile of the upper half is used twice, for its rows and, transposed, for its columns. On the host the strips of
tiles are dealt out to a fixed number of sums, which as many threads as BLAS may use work on: the result does not depend
on how many those are. A kernel of the user's may not be called by two threads at once, so it has one. On a device tiles
are large, and one follows the other.
"""

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any, Literal

import numpy as np

from substrate.arrays import is_device_array, namespace_of, strips, zeros_beside
from substrate.kernels import Kernel
from substrate.threads import one_blas_thread, threads_for

__all__ = ["Precision", "tiled_product"]

#: Rows and columns of a tile: on the host in the cache, on a device enough to keep it busy.
_HOST, _DEVICE = 512, 16384
#: The same on the host for so many rows: tiles on the diagonal, half of whose values nobody needs, are few then.
_WIDE, _MANY_ROWS = 1024, 20_000
#: Sums that the strips of tiles on the host are dealt out to.
_SUMS = 8

Precision = Literal["float32", "float64"]


def tiled_product(kernel: Kernel, points: Any, V: Any, precision: Precision) -> Any:
    """Return K V beside the points, in double precision: sums over the tiles of products in the given precision."""
    xp, n, stop = namespace_of(points), points.shape[0], Event()
    dtype = getattr(xp, precision)
    vectors = xp.astype(V, dtype, copy=False)

    def add_strips(which: slice, side: int) -> Any:
        """Return the sum of the products of some strips of tiles, each tile used for its rows and for its columns."""
        tiles = list(strips(n, side))
        out = zeros_beside(points, (n, vectors.shape[1]))
        # of every thread; what is not finite never counts as converged
        with np.errstate(over="ignore", invalid="ignore"):
            for number in range(len(tiles))[which]:
                rows = tiles[number]
                own = points[rows, :]
                for columns in tiles[number:]:
                    if stop.is_set():
                        return out
                    tile = kernel.evaluate(own, points[columns, :], dtype)
                    out[rows, :] += tile @ vectors[columns, :]
                    if columns.start > rows.start:
                        out[columns, :] += tile.T @ vectors[rows, :]
        return out

    if is_device_array(points):
        return add_strips(slice(None), _DEVICE)
    side = _HOST if n < _MANY_ROWS else _WIDE
    count = threads_for(n) if kernel.trusted else 1
    with one_blas_thread(), ThreadPoolExecutor(count) as workers:
        shares = [slice(first, None, _SUMS) for first in range(_SUMS)]
        parts = [workers.submit(add_strips, share, side) for share in shares]
        try:
            total = parts[0].result()
            for part in parts[1:]:
                total = total + part.result()
        except BaseException:  # an interrupt does not wait for the remaining tiles
            stop.set()
            raise
    return total
