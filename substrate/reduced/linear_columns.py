r"""Columns of the rows that a machine on a reduced basis does not penalise, in addition to its bias.

.. math::

    \min_{\beta, c, b} \; \tfrac{\lambda}{2} \beta^T K_{SS} \beta
        + \tfrac12 \sum_i v_i \Big( y_i - \sum_{j \in S} \beta_j k(x_i, s_j) - c^T z_i - b \Big)^2

([Espinoza2005b]_ with the expansion of [Cawley2004]_ eq. (2).) The columns z, less a center and in units that are
powers of two, follow the kernel values of a row, and their coefficients follow beta. In the features they are turned
into orthonormal ones by the :class:`~substrate.least_squares.border.Border` of all rows: all sums, errors, bounds and
leverages of rows cover these columns too, and only the penalty, which is zero there, distinguishes them.

The border is found in one pass. Each part has the triangular factor of [1, z - center] times the roots of the weights;
factors about two centers are moved to one and stacked, and factored again, so nothing is squared.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from substrate.arrays import Array, is_device_array, is_sparse, namespace_of, on_device_of, to_numpy
from substrate.errors import DataError
from substrate.kernels import Kernel
from substrate.least_squares.border import Border, column_factor, column_units, weighted_center
from substrate.streaming.passes import sum_blocks
from substrate.streaming.rows import Block, Source

__all__ = ["LinearColumns", "survey_linear_columns"]


@dataclass(frozen=True, slots=True)
class LinearColumns:
    """The columns of these ``numbers``, less ``center``, in ``units``.

    ``turn`` makes orthonormal features of them, and ``sizes`` are what their rounding is relative to, as the root of
    k(s, s) is for the kernel values of a basis vector; both are known after a survey of the rows only. ``floor`` is
    added to k(x, x) where all of them are zero, so that relative errors are defined.
    """

    numbers: tuple[int, ...]
    center: Array
    units: Array
    turn: Array
    sizes: Array
    floor: float = 0.0

    @classmethod
    def plain(cls, numbers: Iterable[int], center: Array) -> "LinearColumns":
        """Return the columns in the units of the rows, for predictions."""
        ones = np.ones(center.size)
        return cls(numbers=tuple(numbers), center=center, units=ones, turn=np.diag(ones), sizes=ones)

    def __call__(self, X: Any) -> Array:
        """Return the columns of rows, dense, where the rows are."""
        columns = columns_of(X, self.numbers)
        values: Array = (columns - on_device_of(columns, self.center)) / on_device_of(columns, self.units)
        return values

    def scale(self, coefficients: Array) -> Array:
        """Return the coefficients of the columns in these units from those in the units of the rows."""
        scaled: Array = coefficients * on_device_of(coefficients, self.units)[:, None]
        return scaled

    def unscale(self, coefficients: Array) -> Array:
        """Return the coefficients in the units of the rows."""
        unscaled: Array = coefficients / on_device_of(coefficients, self.units)[:, None]
        return unscaled


def columns_of(X: Any, numbers: Iterable[int]) -> Array:
    """Return some columns, dense, where X is."""
    indices = list(numbers)
    if is_device_array(X):
        return namespace_of(X).take(X, on_device_of(X, np.array(indices)), axis=1)  # type: ignore[no-any-return]
    columns = X[:, indices]
    return np.asarray(columns.toarray() if is_sparse(columns) else columns)


@dataclass(frozen=True, slots=True)
class LinearColumnFactor:
    """Rows, the triangular factor about their center, the ranges of the columns, and the sum of v k(x, x)."""

    count: int
    mass: float
    low: Array
    high: Array
    diagonal: float
    center: Array
    factor: Array

    def __add__(self, other: "LinearColumnFactor") -> "LinearColumnFactor":
        center = self.center + (other.center - self.center) * (other.mass / (self.mass + other.mass))
        stacked = np.concatenate([self.shift_to(center), other.shift_to(center)])
        return LinearColumnFactor(
            count=self.count + other.count,
            mass=self.mass + other.mass,
            low=np.minimum(self.low, other.low),
            high=np.maximum(self.high, other.high),
            diagonal=self.diagonal + other.diagonal,
            center=center,
            factor=np.asarray(np.linalg.qr(stacked, mode="r")),
        )

    def shift_to(self, center: Array) -> Array:
        """Return a factor about another center: its last columns less the first one times the difference."""
        shifted = self.factor.copy()
        shifted[:, 1:] += shifted[:, :1] * (self.center - center)
        return shifted


def factor_columns(numbers: tuple[int, ...], kernel: Kernel, block: Block) -> LinearColumnFactor:
    """Return the factor of the linear columns of a block."""
    z = to_numpy(columns_of(block.X, numbers))
    v = np.ones(block.n_rows) if block.weights is None else to_numpy(block.weights)
    center = weighted_center(z, v)
    return LinearColumnFactor(
        count=v.size,
        mass=float(v.sum()),
        low=z.min(axis=0),
        high=z.max(axis=0),
        diagonal=float(v @ np.maximum(to_numpy(kernel.diag(block.X)), 0.0)),
        center=center,
        factor=column_factor(np.column_stack([np.ones(v.size), z - center]), v),
    )


@np.errstate(over="ignore", invalid="ignore")  # what overflows is refused by the name of its column
def survey_linear_columns(
    source: Source,
    kernel: Kernel,
    numbers: tuple[int, ...],
    names: tuple[str, ...],
    center: Array | None = None,
) -> LinearColumns:
    """Return the linear columns with their border, in one pass; those that depend on each other are refused by name.

    ``center`` is the mean by weight unless given.
    """
    if source.n_rows <= len(numbers) + 1:
        raise DataError(
            f"{len(numbers)} linear columns and the bias fit all {source.n_rows} rows, which leaves none to the "
            "kernel; use fewer linear columns or more rows"
        )
    surveyed: LinearColumnFactor = sum_blocks(source, partial(factor_columns, numbers, kernel))
    middle = np.clip(surveyed.center, surveyed.low, surveyed.high) if center is None else center
    units = column_units(np.maximum(np.abs(surveyed.low - middle), np.abs(surveyed.high - middle)), names)
    factor = surveyed.shift_to(middle)
    factor[:, 1:] /= units
    R = column_factor(factor, np.ones(len(factor)))
    border = Border.of_factor(R, surveyed.count, surveyed.mass, units, middle, names)
    # a column is at most one in its unit, and each of its values is rounded once
    mean, floor = surveyed.diagonal / surveyed.mass, 0.0 if surveyed.diagonal > 0.0 else 1.0
    sizes = np.full(units.size, 1.0 / np.sqrt(mean + floor))
    return LinearColumns(
        numbers=numbers, center=middle, units=units, turn=units[:, None] * border.turn[1:, 1:], sizes=sizes, floor=floor
    )
