r"""The rows of :math:`\hat K = [k(x_i, z_j)]`, l x n, computed in blocks and never stored.

With many rows and few basis vectors :math:`z_j` ([Cawley2004]_ eq. (2)) the matrix may not fit in memory where the data
do, so everything that is computed from it is computed block by block, in memory that does not grow with l.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from substrate.arrays import Array, is_sparse
from substrate.certificates.rounding import ROUNDED_ONCE
from substrate.errors import DataError
from substrate.kernels import Kernel
from substrate.least_squares.kernel_products import expansion_values
from substrate.namespaces import (
    HOST,
    device_blocks,
    is_device_array,
    namespace_of,
    strips,
    take_rows,
    to_numpy,
    zeros_beside,
)
from substrate.reduced.linear_columns import LinearColumns
from substrate.streaming.array_source import ArraySource
from substrate.streaming.passes import OpenPasses
from substrate.streaming.source import LEAF, MICRO, Block, Source
from substrate.streaming.summation import LeafSum, highest
from substrate.streaming.survey import TargetSummary, summary_of_targets

__all__ = ["PART", "BasisValues", "GivenValues", "KernelRows", "KernelValues", "MatrixColumns", "RowValues"]

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
    def fill(self, X: Any, out: Array) -> None:
        """Write the values of rows into ``out``."""

    def evaluate(self, X: Any) -> Array:
        """Return the values of rows on a device, in a new array there."""
        raise DataError("this machine is not computed on a device; give it numpy arrays, X.cpu().numpy() of a tensor")

    @property
    def step(self) -> int:
        """Rows of a tile: a power of two given by the basis alone, so that every row is always in the same tile."""
        fitting = max(_TILE_ENTRIES // max(self.n_basis, 1), 128)
        return min(1 << (fitting.bit_length() - 1), MICRO)

    def tiles(self, block: Block, buffer: Array) -> Iterator[tuple[slice, Array]]:
        """Yield the rows of a block one tile at a time, with their positions in it; a tile may be overwritten.

        In numpy ``buffer`` is used for all of them. On a device tiles are large enough to keep it busy, in new memory.
        """
        n = int(block.X.shape[0])
        if is_device_array(block.X):
            for rows in device_blocks(n, self.n_basis):
                yield rows, self.evaluate(block.X[rows, :])
            return
        for rows in strips(n, self.step):
            tile = buffer[: rows.stop - rows.start]
            self.fill(block.X[rows], tile)
            yield rows, tile

    def walk(self, blocks: Iterable[Block]) -> Iterator[tuple[Block, slice, Array]]:
        """Yield the tiles of all blocks, one after another in the same memory, each with its block and its rows there.

        This is how a function of a leaf goes through its rows.
        """
        buffer = self.buffer()
        for block in blocks:
            for rows, tile in self.tiles(block, buffer):
                yield block, rows, tile

    def matrix(self, X: Any) -> Array:
        """Return the values of given rows."""
        if is_device_array(X):
            return self.evaluate(X)
        out = np.empty((X.shape[0], self.n_basis))
        for strip in strips(X.shape[0], self.step):
            self.fill(X[strip], out[strip])
        return out

    def product(self, X: Any, V: Array) -> Array:
        """Return the values of given rows times V, one tile at a time."""
        out: Array = zeros_beside(V, (X.shape[0], *V.shape[1:]))
        for _, rows, tile in self.walk([Block(X, None, 0)]):
            out[rows, ...] = tile @ V
        return out

    def buffer(self) -> Array:
        """Allocate memory for the tiles."""
        return np.empty((self.step, self.n_basis))


@dataclass(frozen=True, slots=True)
class GivenValues(RowValues):
    """The rows themselves, where they are values already."""

    n_columns: int

    @property
    def n_basis(self) -> int:
        """The number of columns of the rows."""
        return self.n_columns

    def fill(self, X: Any, out: Array) -> None:
        """Copy the rows into ``out``."""
        out[...] = X

    def tiles(self, block: Block, buffer: Array) -> Iterator[tuple[slice, Array]]:
        """Yield all rows of the block at once, where they are: they must not be overwritten."""
        yield slice(0, int(block.X.shape[0])), block.X

    def buffer(self) -> Array:
        """Return an empty array: no memory is needed."""
        return np.empty((0, 0))


class BasisValues(RowValues):
    """Values of rows with basis vectors.

    :meth:`of` makes them: by a kernel between points (:class:`KernelValues`), or, for a precomputed kernel, whose rows
    hold the values already, by the numbers of columns (:class:`MatrixColumns`).
    """

    __slots__ = ()

    #: The basis vectors: points, or numbers of columns.
    points: Any

    @staticmethod
    def of(kernel: Kernel, points: Any, linear: LinearColumns | None = None) -> "BasisValues":
        """Return the values of a kernel with basis vectors; of a precomputed one, with columns by number."""
        return MatrixColumns(points) if kernel.pairwise else KernelValues(kernel, points, linear)

    @property
    def n_basis(self) -> int:
        """n, and the number of linear columns."""
        return int(self.points.shape[0]) + (0 if self.columns is None else len(self.columns.numbers))

    @property
    def most_directions(self) -> int:
        """How many directions the vectors can have: their number, or fewer where the kernel has fewer features."""
        return int(self.points.shape[0])

    @property
    def columns(self) -> LinearColumns | None:
        """Columns that are not penalised, whose values follow those of the kernel."""
        return None

    @property
    def of_kernel(self) -> "BasisValues":
        """The values without those of linear columns."""
        return self

    @property
    def from_differences(self) -> "BasisValues | None":
        """The same values by operations of less rounding; None where there are none."""
        return None

    def scale(self, coefficients: Array) -> Array:
        """Return coefficients, one column per output, with those of linear columns in their units."""
        return coefficients

    @abstractmethod
    def rounding(self, X: Any) -> float:
        """Return p such that values are within p sqrt(k(x, x) k(z, z)) of the true ones."""

    @abstractmethod
    def diagonal(self, block: Block) -> Array:
        """Return k(x, x) of the rows of a block."""

    @abstractmethod
    def sizes(self, X: Any) -> Array:
        """Return the root of k(x, x) of points in numpy."""

    @abstractmethod
    def expand(self, X: Any, coefficients: Array, bias: Any) -> Array:
        """Return the values of rows times coefficients, plus the bias, as ``predict`` does."""

    @abstractmethod
    def scaling_kernel(self) -> Kernel:
        """Return the kernel, for derivatives in its scales."""


@dataclass(frozen=True, slots=True)
class KernelValues(BasisValues):
    """A kernel between rows and basis points; the columns of a ``linear`` part, if any, follow its values."""

    kernel: Kernel
    points: Any
    linear: LinearColumns | None = None
    careful: bool = False

    @property
    def most_directions(self) -> int:
        """The number of points, or fewer where the kernel has fewer features."""
        count, features = int(self.points.shape[0]), self.kernel.rank(self.points.shape[1])
        return count if features is None else min(count, features)

    @property
    def columns(self) -> LinearColumns | None:
        """Those of the linear part."""
        return self.linear

    @property
    def of_kernel(self) -> "BasisValues":
        """The kernel values alone."""
        return self if self.linear is None else replace(self, linear=None)

    @property
    def from_differences(self) -> "BasisValues | None":
        """The same kernel values from differences of dense points in numpy."""
        if self.careful or is_sparse(self.points) or is_device_array(self.points):
            return None
        return replace(self, careful=True)

    def scale(self, coefficients: Array) -> Array:
        """Return coefficients, one column per output, with those of linear columns in their units."""
        if self.linear is None:
            return coefficients
        xp, m = namespace_of(coefficients), self.points.shape[0]
        last = self.linear.scale(coefficients[m:, :])
        return xp.concat([coefficients[:m, :], last], axis=0)  # type: ignore[no-any-return]

    def fill(self, X: Any, out: Array) -> None:
        """Write the values of rows into ``out``."""
        if self.linear is not None:
            out[:, : self.points.shape[0]] = self.of_kernel.matrix(X)
            out[:, self.points.shape[0] :] = self.linear(X)
        elif self.careful and not is_sparse(X):
            self.kernel.fill_carefully(X, self.points, out)
        else:
            self.kernel.fill(X, self.points, out)

    def evaluate(self, X: Any) -> Array:
        """Return the values of rows on a device."""
        xp = namespace_of(X)
        values: Array = self.kernel.evaluate(X, self.points, xp.float64)
        return values if self.linear is None else xp.concat([values, self.linear(X)], axis=1)

    def diagonal(self, block: Block) -> Array:
        """Return k(x, x) of the rows of a block."""
        diagonal = self.kernel.diag(block.X)
        if self.linear is not None:
            diagonal = diagonal + self.linear.floor
        return diagonal if is_device_array(diagonal) else np.asarray(diagonal, dtype=np.float64)

    def sizes(self, X: Any) -> Array:
        """Return the root of k(x, x) of points in numpy."""
        return np.sqrt(np.maximum(np.asarray(self.kernel.diag(X), dtype=np.float64), 0.0))

    def rounding(self, X: Any) -> float:
        """Return p such that values are within p sqrt(k(x, x) k(z, z)) of the true ones."""
        if is_sparse(X) or is_sparse(self.points):
            from scipy.sparse import vstack

            share = float(self.kernel.rounding(vstack([X, self.points]).tocsr()))
        else:
            rounding = self.kernel.careful_rounding if self.careful else self.kernel.rounding
            share = float(rounding(namespace_of(X).concat([X, self.points], axis=0)))
        return share if self.linear is None else max(share, ROUNDED_ONCE)  # linear columns are rounded once, too

    def expand(self, X: Any, coefficients: Array, bias: Any) -> Array:
        """Return the expansion in the points, as ``predict`` does, beside that in linear columns."""
        m = self.points.shape[0]
        beside = bias if self.linear is None else self.linear(X) @ coefficients[m:] + bias
        return expansion_values(self.kernel, self.points, coefficients[:m], beside, X)

    def scaling_kernel(self) -> Kernel:
        """Return the kernel."""
        return self.kernel


@dataclass(frozen=True, slots=True)
class MatrixColumns(BasisValues):
    """Columns of a kernel matrix by number, for rows that hold its values; they are exact by definition."""

    points: Any

    def fill(self, X: Any, out: Array) -> None:
        """Copy the columns of rows into ``out``."""
        columns = X[:, self.points]
        out[...] = columns.toarray() if is_sparse(columns) else columns

    def rounding(self, X: Any) -> float:
        """Return zero."""
        return 0.0

    def diagonal(self, block: Block) -> Array:
        """Return k(x, x) of the rows of a block: where row and column numbers agree."""
        numbers = np.arange(block.X.shape[0])
        diagonal = block.X[numbers, block.start + numbers]
        return np.asarray(diagonal, dtype=np.float64).ravel()

    def sizes(self, X: Any) -> Array:
        """Return ones: a row of a matrix does not tell its length."""
        return np.ones(X.shape[0])

    def expand(self, X: Any, coefficients: Array, bias: Any) -> Array:
        """Return the expansion in the columns."""
        return np.asarray(self.matrix(X) @ coefficients + bias)

    def scaling_kernel(self) -> Kernel:
        """Refuse: a matrix has no scales."""
        raise TypeError("these values have no kernel to differentiate")


@dataclass(frozen=True, slots=True)
class KernelRows:
    """Kernel values of all rows of a source, and the settings of passes over them."""

    values: BasisValues
    source: Source
    passes: OpenPasses = field(default_factory=OpenPasses)

    @classmethod
    def of(cls, kernel: Kernel, X: Any, points: Any, Y: Any = None, weights: Any = None) -> Self:
        """Return rows in memory with their targets, one column per output, and their weights.

        The rows of a precomputed kernel are those of its matrix, and ``points`` are numbers of columns.
        """
        return cls(BasisValues.of(kernel, points), ArraySource(X, Y, weights=weights))

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
        """v, one per row; None where all are one."""
        return self.source.row_weights()

    @property
    def mass(self) -> float:
        """The weight of all rows: l where they have none."""
        return float(self.n_rows) if self.weights is None else float(to_numpy(self.weights).sum())

    @property
    def on_device(self) -> bool:
        """Whether the rows are on a device."""
        return self.source.home != HOST

    @property
    def terms(self) -> int:
        """The number of terms that a sum over all rows adds sequentially: a tile, the tiles of a leaf, the tree."""
        if self.on_device:
            tiles = list(device_blocks(self.n_rows, self.n_basis))
            longest = max(int(rows.stop - rows.start) for rows in tiles)
            return min(longest, PART) + -(-longest // PART) + len(tiles)
        step = self.values.step
        return min(self.n_rows, step) + LEAF // step + highest(self.n_rows)

    def sums(self, function: LeafSum) -> Any:
        """Compute a sum over all rows."""
        return self.passes.sums(self.source, function)

    def each(self, function: Callable[[Block], Any]) -> Iterator[Any]:
        """Evaluate a function of every micro-block."""
        return self.passes.each(self.source, function)

    def drop_row(self, row: int) -> Self:
        """Return all rows but one; they must be in memory."""
        block = self.source.whole("rows are left out of arrays only")
        kept_rows = np.flatnonzero(np.arange(self.n_rows) != row)
        weights = None if block.weights is None else take_rows(block.weights, kept_rows)
        source = ArraySource(take_rows(block.X, kept_rows), take_rows(block.Y, kept_rows), weights=weights)
        return replace(self, source=source, passes=OpenPasses())

    def target_summary(self) -> TargetSummary:
        """Return means and extremes of the targets."""
        passes = self.passes
        summary: TargetSummary = passes.sums(self.source, summary_of_targets)
        return summary

    def take_rows(self, rows: Any) -> Array:
        """Return the kernel values of some rows, in ascending order, as an array."""
        return self.values.matrix(self.source.take_rows(rows))
