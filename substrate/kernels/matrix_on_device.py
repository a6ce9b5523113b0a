"""A kernel matrix in any array namespace: blocks of rows, evaluated by the kernel's formula and written in place."""

from typing import Any

from substrate.errors import DataError
from substrate.namespaces import device_blocks, device_points, diagonal_set, namespace_of, room_on_device, same_home

__all__ = ["device_matrix"]


def device_matrix(kernel: Any, X: Any, Z: Any = None) -> Any:
    """All k(x_i, z_j), or with X alone the symmetric matrix of all k(x_i, x_j); the largest temporary is one block."""
    points = device_points(X, "X")
    others = points if Z is None else Z
    same_home(X=points, Z=others)
    others = device_points(others, "Z")
    if points.shape[1] != others.shape[1] and not kernel.pairwise:
        raise DataError(f"X has {points.shape[1]} columns and Z has {others.shape[1]}; they must agree")
    shape = (points.shape[0], others.shape[0])
    xp = namespace_of(points)
    room_on_device(
        points, 8.0 * shape[0] * shape[1], f"a {shape[0]} x {shape[1]} kernel matrix", "take a reduced set of rows."
    )
    out = xp.empty(shape, dtype=xp.float64, device=points.device)
    if Z is None and not kernel.pairwise:
        _fill_symmetric(kernel, points, out)
        return out
    for rows in device_blocks(*shape):
        out[rows, :] = kernel.evaluate(points[rows, :], others, xp.float64)
    return out


def _fill_symmetric(kernel: Any, points: Any, out: Any) -> None:
    """The upper blocks are evaluated and the lower ones mirrored: half the work, and no rounding of their own."""
    xp = namespace_of(points)
    for rows in device_blocks(*out.shape):
        block = kernel.evaluate(points[rows, :], points[rows.start :, :], xp.float64)
        size = rows.stop - rows.start
        square = block[:, :size]
        out[rows, rows] = 0.5 * (square + square.T)
        out[rows, rows.stop :] = block[:, size:]
        out[rows.stop :, rows] = block[:, size:].T
    diagonal_set(out, kernel.diag(points))
