"""The machines of a fit, one per column of its targets, each on rows of its own."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from substrate.arrays import Array, take_rows, to_numpy

__all__ = ["MachineRows", "each_machine", "in_columns", "points_of"]


class MachineRows(NamedTuple):
    """One machine: its column of the targets, the numbers of its rows, their targets, and whether they are all rows."""

    column: int
    rows: Any
    y: Array
    whole: bool

    def points(self, X: Any, pairwise: bool) -> Any:
        """Return the points of its rows, or their square matrix."""
        return X if self.whole else points_of(X, self.rows, pairwise)

    def square(self, matrix: Array) -> Array:
        """Return its rows and columns of a square matrix."""
        return matrix if self.whole else matrix[np.ix_(self.rows, self.rows)]


def each_machine(Y: Array, labels: bool) -> Iterator[MachineRows]:
    """Yield each machine in turn; where targets are codes of ``labels``, a row whose code is zero is not in the
    machine.
    """
    codes = to_numpy(Y) if labels else np.ones(Y.shape)
    for column in range(Y.shape[1]):
        rows = np.flatnonzero(codes[:, column])
        yield MachineRows(column, rows, take_rows(Y[:, column], rows), rows.size == Y.shape[0])


def in_columns(machines: Sequence[MachineRows], coefficients: Sequence[Array], n: int) -> Array:
    """Return the coefficients of all machines on n rows, one column per machine; zero where a row is not in the
    machine.
    """
    columns = np.zeros((n, len(machines), *coefficients[0].shape[1:]))
    for machine, coefficients_of_machine in zip(machines, coefficients, strict=True):
        columns[machine.rows, machine.column] = coefficients_of_machine
    return columns


def points_of(X: Any, rows: Any, pairwise: bool) -> Any:
    """Return some of the points; for a precomputed matrix, these rows and columns."""
    points = take_rows(X, rows)
    return take_rows(points.T, rows).T if pairwise else points
