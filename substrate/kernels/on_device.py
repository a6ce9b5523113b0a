r"""Kernel matrices on a device, block by block, and distances between two point sets, in any array namespace.

.. math:: -\|x_i - z_j\|^2 = [x_i,\ -\|x_i\|^2,\ 1]\,[2 z_j,\ 1,\ -\|z_j\|^2]^T

about the mean of the points, in one matrix product, as in :mod:`~substrate.kernels.distances`. Where the norms are so
large that the cancellation would show, and for kernels with a cusp at zero, plain differences are added up, one
coordinate at a time. Points are centred in double precision before they are rounded to the precision of the products,
so an offset of 1e8 costs nothing in either. An entry that is zero may be computed as +1e-14 instead: no kernel value
changes by more than the accepted error.
"""

from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding, single_rounding
from substrate.errors import DataError
from substrate.namespaces import (
    device_blocks,
    device_points,
    diagonal_set,
    namespace_of,
    on_device_of,
    room_on_device,
    same_home,
)

__all__ = ["device_matrix", "euclidean_distances", "manhattan_distances", "negative_squared_distances"]

#: Largest accepted error of an entry, bounded by the squared norms (in units of the width) times the terms of the
#: product times the roundoff. Ten times numpy's: on a device, differences cost one pass over the matrix per coordinate.
_DOUBLE, _SINGLE = 1e-12, 5e-5


@np.errstate(over="ignore", invalid="ignore")
def negative_squared_distances(X: Any, Z: Any, root: float | Array, dtype: Any) -> Any:
    """Return the values -(root ||x_i - z_j||)^2 in the given precision."""
    xp = namespace_of(X)
    centre = xp.mean(Z, axis=0)
    roots = root if isinstance(root, float) else on_device_of(X, root)
    left = (X - centre) * roots
    right = left if Z is X else (Z - centre) * roots
    norms_x = xp.sum(left * left, axis=1)
    norms_z = norms_x if Z is X else xp.sum(right * right, axis=1)
    reach = float(xp.max(norms_x) + xp.max(norms_z))
    double, terms = dtype == X.dtype, X.shape[1] + 4.0
    error = (relative_rounding(terms) if double else single_rounding(terms)) * reach
    if not error <= (_DOUBLE if double else _SINGLE):  # too large, or beyond floating point
        return -_sums(X, Z, 1.0 / root, dtype, squared=True)
    ones_x = xp.ones_like(norms_x)
    ones_z = ones_x if Z is X else xp.ones_like(norms_z)
    long = xp.concat([left, xp.stack([-norms_x, ones_x], axis=1)], axis=1)
    wide = xp.concat([2.0 * right, xp.stack([ones_z, -norms_z], axis=1)], axis=1)
    return xp.astype(long, dtype, copy=False) @ xp.astype(wide, dtype, copy=False).T


def euclidean_distances(X: Any, Z: Any, unit: float | Array, dtype: Any) -> Any:
    """Return the values ||x_i - z_j||_2 / unit, from plain differences."""
    return namespace_of(X).sqrt(_sums(X, Z, unit, dtype, squared=True))


def manhattan_distances(X: Any, Z: Any, unit: float | Array, dtype: Any) -> Any:
    """Return the values ||x_i - z_j||_1 / unit, from plain differences."""
    return _sums(X, Z, unit, dtype, squared=False)


@np.errstate(over="ignore", invalid="ignore")
def _sums(X: Any, Z: Any, unit: float | Array, dtype: Any, *, squared: bool) -> Any:
    """Return sums over the coordinates of absolute or squared differences in units of ``unit``; infinite beyond
    range.
    """
    xp = namespace_of(X)
    if dtype != X.dtype:
        centre = xp.mean(Z, axis=0)
        centre = xp.where(xp.isfinite(centre), centre, xp.zeros_like(centre))
        units = unit if isinstance(unit, float) else on_device_of(X, unit)
        X, Z, unit = xp.astype((X - centre) / units, dtype), xp.astype((Z - centre) / units, dtype), 1.0
    total = xp.zeros((X.shape[0], Z.shape[0]), dtype=dtype, device=X.device)
    for k in range(X.shape[1]):
        difference = X[:, k][:, None] - Z[:, k][None, :]
        width = unit if isinstance(unit, float) else float(unit[k])
        if width != 1.0:
            difference /= width
        total += difference * difference if squared else xp.abs(difference)
    return total


def device_matrix(kernel: Any, X: Any, Z: Any = None, *, checked: bool = False) -> Any:
    """Return all k(x_i, z_j), or with X alone the symmetric matrix of all k(x_i, x_j); the largest temporary is one
    block.

    ``checked`` states that the points are finite and that there is room: both questions wait for the device.
    """
    points = X if checked else device_points(X, "X")
    columns = points
    if Z is not None:
        same_home(X=points, Z=Z)
        columns = Z if checked else device_points(Z, "Z")
    if points.shape[1] != columns.shape[1] and not kernel.pairwise:
        raise DataError(f"X has {points.shape[1]} columns and Z has {columns.shape[1]}; they must agree")
    shape = (points.shape[0], columns.shape[0])
    xp = namespace_of(points)
    if not checked:
        what = f"a {shape[0]} x {shape[1]} kernel matrix"
        room_on_device(points, 8.0 * shape[0] * shape[1], what, "take a reduced set of rows.")
    if Z is None and not kernel.pairwise:
        return _symmetric(kernel, points)
    out = xp.empty(shape, dtype=xp.float64, device=points.device)
    for rows in device_blocks(*shape):
        out[rows, :] = kernel.evaluate(points[rows, :], columns, xp.float64)
    return out


def _symmetric(kernel: Any, points: Any) -> Any:
    """Return the symmetric matrix: the upper blocks are evaluated and the lower ones mirrored: half the work, and no
    rounding of their own.
    """
    xp, n = namespace_of(points), points.shape[0]
    blocks = list(device_blocks(n, n))
    if len(blocks) == 1:  # no copy
        values = kernel.evaluate(points, points, xp.float64)
        out = values + values.T
        out *= 0.5
    else:
        out = xp.empty((n, n), dtype=xp.float64, device=points.device)
        for rows in blocks:
            block = kernel.evaluate(points[rows, :], points[rows.start :, :], xp.float64)
            size = rows.stop - rows.start
            square = block[:, :size]
            out[rows, rows] = 0.5 * (square + square.T)
            out[rows, rows.stop :] = block[:, size:]
            out[rows.stop :, rows] = block[:, size:].T
    diagonal_set(out, kernel.diag(points))
    return out
