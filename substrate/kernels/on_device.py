"""Kernel matrices on a device, block by block."""

from typing import Any

from substrate.errors import DataError
from substrate.namespaces import (
    device_blocks,
    device_points,
    diagonal_set,
    namespace_of,
    room_on_device,
    same_home,
)

__all__ = ["device_matrix"]


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
