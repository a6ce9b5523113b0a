r"""The levels :math:`t_l = \|B^l u\|_\infty` along a whole path, from above and in one go.

A certificate over a path needs the levels of thousands of knots: with the factors of :mod:`substrate.paths.low_rank` a
tenth of the work. What the factors leave out is added: with :math:`E = B - F G`,

.. math:: |B_i u| \le |F_i G u| + \|E_i\| \, \|u\| .
"""

from collections.abc import Sequence

import numpy as np

from substrate.arrays import Array
from substrate.paths.low_rank import Product

__all__ = ["upper_levels"]

#: Entries of B u that are held at a time.
_CHUNK = 2_000_000


def upper_levels(parts: Sequence[Array], U: Array) -> Array:
    """Bounds on the levels, one row per row of U and one column per component; equal to them up to rounding."""
    sizes = [part.shape[0] for part in parts]
    B, starts = np.vstack(parts), np.concatenate([[0], np.cumsum(sizes)[:-1]])
    product = Product.of(B, np.repeat(np.arange(len(parts)), sizes))
    left = product.left_out()
    rows = max(_CHUNK // B.shape[0], 1)
    levels = [
        np.maximum.reduceat(np.abs(product.many(U[k : k + rows])), starts, axis=1) for k in range(0, U.shape[0], rows)
    ]
    extra = np.linalg.norm(U, axis=1)[:, None] * np.maximum.reduceat(left, starts)
    return np.asarray(np.vstack(levels) + extra)
