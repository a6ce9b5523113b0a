r"""Distances between two point sets in any array namespace, as the kernels on a device need them.

.. math:: -\|x_i - z_j\|^2 = [x_i,\ -\|x_i\|^2,\ 1]\,[2 z_j,\ 1,\ -\|z_j\|^2]^T

about the mean of the points, in one matrix product, as in :mod:`~substrate.kernels.distances`. Where the norms are so
large that the cancellation would show, and for kernels with a cusp at zero, plain differences are added up, one
coordinate at a time. Points are centred in double precision before they are rounded to the precision of the products,
so an offset of 1e8 costs nothing in either. An entry that is zero may be computed as +1e-14 instead: no kernel value
changes by more than the accepted error.
"""

from typing import Any

import numpy as np

from substrate.namespaces import namespace_of

__all__ = ["euclidean_distances", "manhattan_distances", "negative_squared_distances"]

#: Largest accepted error of an entry, bounded by the squared norms (in units of the width) times the terms of the
#: product times the roundoff. Ten times numpy's: on a device, differences cost one pass over the matrix per coordinate.
_DOUBLE = 1e-12 / float(np.finfo(np.float64).eps)
_SINGLE = 5e-5 / float(np.finfo(np.float32).eps)


@np.errstate(over="ignore", invalid="ignore")
def negative_squared_distances(X: Any, Z: Any, root: float, dtype: Any) -> Any:
    """The values -(root ||x_i - z_j||)^2 in the given precision."""
    xp = namespace_of(X)
    centre = xp.mean(Z, axis=0)
    left, right = (X - centre) * root, (Z - centre) * root
    norms_x, norms_z = (xp.sum(points * points, axis=1) for points in (left, right))
    reach = float(xp.max(norms_x) + xp.max(norms_z))
    largest = _DOUBLE if dtype == X.dtype else _SINGLE
    if not (X.shape[1] + 4.0) * reach <= largest:  # too large, or beyond floating point
        return -_sums(X, Z, 1.0 / root, dtype, squared=True)
    ones_x, ones_z = xp.ones_like(norms_x), xp.ones_like(norms_z)
    long = xp.concat([left, xp.stack([-norms_x, ones_x], axis=1)], axis=1)
    wide = xp.concat([2.0 * right, xp.stack([ones_z, -norms_z], axis=1)], axis=1)
    return xp.astype(long, dtype, copy=False) @ xp.astype(wide, dtype, copy=False).T


def euclidean_distances(X: Any, Z: Any, unit: float, dtype: Any) -> Any:
    """The values ||x_i - z_j||_2 / unit, from plain differences."""
    return namespace_of(X).sqrt(_sums(X, Z, unit, dtype, squared=True))


def manhattan_distances(X: Any, Z: Any, unit: float, dtype: Any) -> Any:
    """The values ||x_i - z_j||_1 / unit, from plain differences."""
    return _sums(X, Z, unit, dtype, squared=False)


@np.errstate(over="ignore", invalid="ignore")
def _sums(X: Any, Z: Any, unit: float, dtype: Any, *, squared: bool) -> Any:
    """Sums over the coordinates of absolute or squared differences in units of ``unit``; infinite beyond range."""
    xp = namespace_of(X)
    if dtype != X.dtype:
        centre = xp.mean(Z, axis=0)
        centre = xp.where(xp.isfinite(centre), centre, xp.zeros_like(centre))
        X, Z, unit = xp.astype((X - centre) / unit, dtype), xp.astype((Z - centre) / unit, dtype), 1.0
    total = xp.zeros((X.shape[0], Z.shape[0]), dtype=dtype, device=X.device)
    for k in range(X.shape[1]):
        difference = X[:, k][:, None] - Z[:, k][None, :]
        if unit != 1.0:
            difference /= unit
        total += difference * difference if squared else xp.abs(difference)
    return total
