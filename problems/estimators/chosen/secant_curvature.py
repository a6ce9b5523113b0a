r"""The inverse curvature of a function from slopes along a descent, for the start of another one.

Places :math:`z_k` with slopes :math:`g_k` have the secants :math:`s = z_{k+1} - z_k`, :math:`y = g_{k+1} - g_k`, by
which the quasi-Newton formula ([Byrd1995]_) updates an inverse Hessian,

.. math:: H \leftarrow \Big( I - \frac{s y^T}{s^T y} \Big) H \Big( I - \frac{y s^T}{s^T y} \Big)
          + \frac{s s^T}{s^T y} .

Secants of a jump, and those along which the slope hardly grows, are left out. The function is the logarithm of a
criterion in logarithms of scales, whose second derivatives are about one or less: eigenvalues of H are kept between
bounds, so that a direction in which no descent has gone is neither closed nor jumped along. What a penalty adds to the
curvature is known, and lowers both bounds.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from substrate.arrays import Array

__all__ = ["inverse_curvature"]

#: Shortest and longest secants that count.
_SHORTEST, _LONGEST = 1e-4, 1.5
#: Least curvature along a secant that counts.
_FLAT = 1e-3
#: Smallest and largest eigenvalue of the result, without a penalty.
_LEAST, _MOST = 0.3, 10.0


def inverse_curvature(
    places: Sequence[Array], slopes: Sequence[Array], first: Array | None = None, penalty: float = 0.0
) -> Array | None:
    """Return H from places and their slopes, beginning with ``first``; None where there is nothing to begin with, or
    to update it by. ``penalty`` is the second derivative of a penalty that the slopes contain.
    """
    H = first
    for (here, there), (before, after) in zip(pairwise(places), pairwise(slopes), strict=True):
        s, y = there - here, after - before
        length, along = float(s @ s), float(s @ y)
        if not _SHORTEST**2 < length < _LONGEST**2 or not along > _FLAT * length:
            continue
        if H is None:
            H = (along / float(y @ y)) * np.eye(s.size)
        left = np.eye(s.size) - np.outer(s, y) / along
        H = left @ H @ left.T + np.outer(s, s) / along
    if H is None or not np.isfinite(H).all():
        return None
    values, vectors = np.linalg.eigh(0.5 * (H + H.T))
    low, high = (1.0 / (1.0 / end + penalty) for end in (_LEAST, _MOST))
    return np.asarray((vectors * np.clip(values, low, high)) @ vectors.T)
