"""Some of the points of a machine, or of the rows and columns of a precomputed matrix."""

from typing import Any

from substrate.arrays import take_rows

__all__ = ["points_of"]


def points_of(X: Any, rows: Any, pairwise: bool) -> Any:
    """Return some of the points; for a precomputed matrix, these rows and columns."""
    points = take_rows(X, rows)
    return take_rows(points.T, rows).T if pairwise else points
