r"""The rows of :math:`\hat K = [k(x_i, z_j)]`, l x n, computed in blocks and never stored.

With many rows and few basis vectors :math:`z_j` ([Cawley2004]_ eq. (2)) the matrix may not fit in memory where the data
do, so everything that is computed from it is computed block by block, in memory that does not grow with l.

Some columns of the rows may not be penalised, in addition to the bias:

.. math::

    \min_{\beta, c, b} \; \tfrac{\lambda}{2} \beta^T K_{SS} \beta
        + \tfrac12 \sum_i v_i \Big( y_i - \sum_{j \in S} \beta_j k(x_i, s_j) - c^T z_i - b \Big)^2

([Espinoza2005b]_ with the expansion of [Cawley2004]_ eq. (2).) The columns z, less a center and in units that are
powers of two, follow the kernel values of a row, and their coefficients follow beta. In the features they are turned
into orthonormal ones by the :class:`~substrate.operators.border.Border` of all rows: all sums, errors, bounds and
leverages of rows cover these columns too, and only the penalty, which is zero there, distinguishes them.

The border is found in one pass. Each part has the triangular factor of [1, z - center] times the roots of the weights;
factors about two centers are moved to one and stacked, and factored again, so nothing is squared.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from substrate.arrays import (
    HOST,
    Array,
    device_blocks,
    is_device_array,
    is_sparse,
    namespace_of,
    on_device_of,
    strips,
    take_rows,
    to_numpy,
    zeros_beside,
)
from substrate.errors import DataError
from substrate.kernels.kernel import Kernel
from substrate.numbers import ROUNDED_ONCE
from substrate.operators.border import Border, column_factor, column_units, weighted_center
from substrate.operators.passes import TargetSummary, each_block, sum_blocks, summary_of_targets
from substrate.operators.sources import BLOCK_ROWS, SPAN_ROWS, ArraySource, Block, Source

__all__ = ["PART", "KernelRows", "KernelValues", "LinearColumns", "RowValues", "survey_linear_columns"]


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


#: Entries of a tile: 4 MB; larger ones make no product faster (measured).
_TILE_ENTRIES = 1 << 19
#: Rows whose products are added up at once on a device.
PART = 4096


class RowValues(ABC):
    """Numbers computed from a row alone, provided one tile of rows at a time."""

    __slots__ = ()

    @property
    @abstractmethod
    def n_basis(self) -> int:
        """The number of values per row."""

    @abstractmethod
    def __call__(self, X: Any) -> Array:
        """Return the values of rows in a new array, where the rows are."""

    @property
    def step(self) -> int:
        """Rows of a tile: a power of two given by the basis alone, so that every row is always in the same tile."""
        fitting = max(_TILE_ENTRIES // max(self.n_basis, 1), 128)
        return min(1 << (fitting.bit_length() - 1), BLOCK_ROWS)

    def tiles(self, X: Any) -> Iterator[tuple[slice, Array]]:
        """Yield the values of rows one tile at a time, with their places; on a device tiles keep it busy."""
        n = int(X.shape[0])
        for rows in device_blocks(n, self.n_basis) if is_device_array(X) else strips(n, self.step):
            yield rows, self(X[rows, :])

    def of_block(self, block: Block) -> Iterator[tuple[Block, Array]]:
        """Yield the rows of a block one tile at a time, with their values."""
        for rows, tile in self.tiles(block.X):
            yield block.cut(rows.start, rows.stop), tile

    def matrix(self, X: Any) -> Array:
        """Return the values of given rows."""
        if is_device_array(X):
            return self(X)
        out = np.empty((X.shape[0], self.n_basis))
        for rows, tile in self.tiles(X):
            out[rows] = tile
        return out

    def product(self, X: Any, V: Array) -> Array:
        """Return the values of given rows times V, one tile at a time."""
        out: Array = zeros_beside(V, (X.shape[0], *V.shape[1:]))
        for rows, tile in self.tiles(X):
            out[rows, ...] = tile @ V
        return out


@dataclass(frozen=True, slots=True)
class KernelValues(RowValues):
    """A kernel between rows and basis points; the columns of a ``linear`` part, if any, follow its values.

    The rows of a precomputed kernel hold the values already, and ``points`` are the numbers of the columns.
    """

    kernel: Kernel
    points: Any
    linear: LinearColumns | None = None
    careful: bool = False

    @property
    def n_basis(self) -> int:
        """n, and the number of linear columns."""
        return int(self.points.shape[0]) + (0 if self.linear is None else len(self.linear.numbers))

    @property
    def of_kernel(self) -> "KernelValues":
        """The kernel values alone."""
        return self if self.linear is None else replace(self, linear=None)

    @property
    def from_differences(self) -> "KernelValues | None":
        """The same kernel values by a formula of less rounding, of dense points in numpy; None without such a
        formula.
        """
        if self.careful or self.kernel.pairwise or is_sparse(self.points) or is_device_array(self.points):
            return None
        return replace(self, careful=True)

    def scale(self, coefficients: Array) -> Array:
        """Return coefficients, one column per output, with the linear ones in the units of their columns."""
        if self.linear is None:
            return coefficients
        xp, m = namespace_of(coefficients), self.points.shape[0]
        last = self.linear.scale(coefficients[m:, :])
        return xp.concat([coefficients[:m, :], last], axis=0)  # type: ignore[no-any-return]

    def __call__(self, X: Any) -> Array:
        """Return kernel values, and linear columns after them."""
        xp = namespace_of(X)
        if self.kernel.pairwise:
            columns = X[:, self.points]
            values = np.array(columns.toarray() if is_sparse(columns) else columns)
        elif is_device_array(X):
            values = self.kernel.evaluate(X, self.points, xp.float64)
        else:
            by_differences = self.careful and not is_sparse(X)
            values = (
                self.kernel.enclose(X, self.points).midpoint if by_differences else self.kernel.values(X, self.points)
            )
        return values if self.linear is None else xp.concat([values, self.linear(X)], axis=1)

    def diagonal(self, block: Block) -> Array:
        """Return k(x, x) of the rows of a block; of a matrix, where row and column numbers agree."""
        if self.kernel.pairwise:
            places = np.arange(block.n_rows)
            diagonal = np.asarray(block.X[places, block.start + places]).ravel()
        else:
            diagonal = self.kernel.diag(block.X)
        if self.linear is not None:
            diagonal = diagonal + self.linear.floor
        return diagonal if is_device_array(diagonal) else np.asarray(diagonal, dtype=np.float64)

    def sum_diagonal(self, block: Block) -> float:
        """Return the sum of v k(x, x) over the rows of a block."""
        diagonal = self.diagonal(block)
        return float(block.row_weights() @ namespace_of(diagonal).clip(diagonal, min=0.0))

    def sizes(self, X: Any) -> Array:
        """Return the roots of k(x, x) of points in numpy; ones for the rows of a matrix, which do not tell them."""
        if self.kernel.pairwise:
            return np.ones(X.shape[0])
        return np.sqrt(np.maximum(np.asarray(self.kernel.diag(X), dtype=np.float64), 0.0))

    def rounding(self, X: Any) -> float:
        """Return p such that values are within p sqrt(k(x, x) k(z, z)) of the true ones; a matrix is exact."""
        if self.kernel.pairwise:
            return 0.0
        if is_sparse(X) or is_sparse(self.points):
            from scipy.sparse import vstack

            share = float(self.kernel.rounding(vstack([X, self.points]).tocsr()))
        else:
            points = namespace_of(X).concat([X, self.points], axis=0)
            share = float(self.kernel.rounding(points, by_differences=self.careful))
        return share if self.linear is None else max(share, ROUNDED_ONCE)  # linear columns are rounded once, too


@dataclass(frozen=True, slots=True)
class KernelRows:
    """Kernel values of all rows of a source."""

    values: KernelValues
    source: Source

    @classmethod
    def of(cls, kernel: Kernel, X: Any, points: Any, Y: Any = None, weights: Any = None) -> Self:
        """Return rows in memory with their targets, one column per output, and their weights."""
        return cls(KernelValues(kernel, points), ArraySource(X, Y, weights=weights))

    @property
    def n_rows(self) -> int:
        """l."""
        return self.source.n_rows

    @property
    def n_basis(self) -> int:
        """n."""
        return self.values.n_basis

    @property
    def weights(self) -> Any:
        """v, one per row; None if all are one."""
        return self.source.weights

    @property
    def mass(self) -> float:
        """The weight of all rows: l where they have none."""
        return float(self.n_rows) if self.weights is None else float(to_numpy(self.weights).sum())

    @property
    def on_device(self) -> bool:
        """Return whether the rows are on a device."""
        return self.source.home != HOST

    @property
    def terms(self) -> int:
        """The number of terms that a sum over all rows adds sequentially: a tile, the tiles of a block, the blocks."""
        if self.on_device:
            tiles = list(device_blocks(self.n_rows, self.n_basis))
            longest = max(int(rows.stop - rows.start) for rows in tiles)
            return min(longest, PART) + -(-longest // PART) + len(tiles)
        step = self.values.step
        blocks, spans = -(-self.n_rows // BLOCK_ROWS), -(-self.n_rows // SPAN_ROWS)
        return min(self.n_rows, step) + BLOCK_ROWS // step + min(blocks, SPAN_ROWS // BLOCK_ROWS) + spans

    def sums(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Compute a sum over all rows of a function of the values, of arguments and of a block."""
        return sum_blocks(self.source, partial(function, self.values, *arguments), self.n_basis)

    def each(self, function: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
        """Evaluate the function of every block."""
        return each_block(self.source, partial(function, self.values, *arguments), self.n_basis)

    def drop_row(self, row: int) -> "KernelRows":
        """Return the rows but for one."""
        block = self.source.whole("rows are left out of arrays only")
        places = np.flatnonzero(np.arange(self.n_rows) != row)
        weights = None if block.weights is None else take_rows(block.weights, places)
        return replace(self, source=ArraySource(take_rows(block.X, places), take_rows(block.Y, places), weights))

    def reweigh(self, weights: Array) -> "KernelRows":
        """Return the rows with these weights multiplied into those given, as robust ones are."""
        source: Any = self.source
        earlier_weights = np.ones(self.n_rows) if self.weights is None else to_numpy(self.weights)
        return replace(self, source=replace(source, weights=source.beside(earlier_weights * weights)))

    def target_summary(self) -> TargetSummary:
        """Return means and extremes of the targets."""
        summary: TargetSummary = sum_blocks(self.source, summary_of_targets)
        return summary

    def take_rows(self, rows: Any) -> Array:
        """Return the kernel values of some rows, in ascending order, as an array."""
        return self.values.matrix(self.source.take_rows(rows))
