r"""The rows of :math:`\hat K = [k(x_i, z_j)]`, l x n, computed in blocks and never stored.

With many rows and few basis vectors :math:`z_j` ([Cawley2004]_ eq. (2)) the matrix may not fit in memory where the data
do, so everything that is computed from it is computed block by block, in memory that does not grow with l.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self

import numpy as np

from substrate.arrays import EPS, Array, is_sparse
from substrate.errors import DataError
from substrate.kernels import Kernel
from substrate.kernels.base import strips
from substrate.least_squares.kernel_products import expansion_values
from substrate.namespaces import HOST, device_blocks, is_device_array, namespace_of, take_rows, to_numpy
from substrate.reduced.linear_columns import LinearColumns
from substrate.reduced.row_products import CHUNK, PART, terms_in_parts
from substrate.streaming.array_source import ArraySource
from substrate.streaming.executors import LeafSum
from substrate.streaming.passes import OpenPasses
from substrate.streaming.source import LEAF, MICRO, Block, Source
from substrate.streaming.survey import TargetSummary, summary_of_targets
from substrate.streaming.tally import Tally

__all__ = ["KernelRows", "KernelValues", "RowValues", "Seen"]

#: Entries of a tile: 4 MB; larger ones make no product faster (measured).
_TILE_ENTRIES = 1 << 19

#: Roundings of an entry of the sums on a device that is moved to another origin.
_MOVED = 8


@dataclass(frozen=True, slots=True)
class Seen(Tally):
    """What a pass knows of its kernel values: bounds on them, and how far those that were computed twice differ.

    ``diagonal`` is the sum of v k(x, x), ``rounding`` the largest relative error of a kernel value by its theory, and
    ``deviation`` the largest one found, in one row of every tile.
    """

    diagonal: float = 0.0
    rounding: Annotated[float, max] = 0.0
    deviation: Annotated[float, max] = 0.0


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
        """The values of rows on a device, in a new array there."""
        raise DataError("this machine is not computed on a device; give it numpy arrays, X.cpu().numpy() of a tensor")

    def rounding(self, X: Any) -> float:
        """The relative error of the values; infinite where nothing is known of it."""
        return math.inf

    def lengths(self, block: Block, weights: Array | None) -> float:
        """The sum of v k(x, x) over rows; infinite where nothing is known of it."""
        return math.inf

    def deviation(self, X: Any, values: Array) -> float:
        """The largest relative difference of values of some rows from those found by other operations."""
        return math.inf

    @property
    def step(self) -> int:
        """Rows of a tile: a power of two given by the basis alone, so that every row is always in the same tile."""
        fitting = max(_TILE_ENTRIES // max(self.n_basis, 1), 128)
        return min(1 << (fitting.bit_length() - 1), MICRO)

    def tiles(self, block: Block, buffer: Array) -> Iterator[tuple[slice, Array]]:
        """The rows of a block one tile at a time, with their positions in it; a tile may be overwritten.

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
        """The values of given rows."""
        if is_device_array(X):
            return self.evaluate(X)
        out = np.empty((X.shape[0], self.n_basis))
        for some in strips(X.shape[0], self.step):
            self.fill(X[some], out[some])
        return out

    def buffer(self) -> Array:
        """Memory for the tiles."""
        return np.empty((self.step, self.n_basis))


@dataclass(frozen=True, slots=True)
class KernelValues(RowValues):
    """A kernel between rows and basis points; or, without a kernel, columns of a kernel matrix by number.

    The columns of a ``linear`` part, if any, follow the kernel values.
    """

    kernel: Kernel | None
    points: Any
    linear: LinearColumns | None = None

    @property
    def n_basis(self) -> int:
        """n, and the number of linear columns."""
        return int(self.points.shape[0]) + (0 if self.linear is None else len(self.linear.numbers))

    def fill(self, X: Any, out: Array) -> None:
        """Write the kernel values of rows into ``out``."""
        if self.linear is not None:
            out[:, : self.points.shape[0]] = self.of_kernel.matrix(X)
            out[:, self.points.shape[0] :] = self.linear(X)
        elif self.kernel is not None:
            self.kernel.fill(X, self.points, out)
        else:
            given = X[:, self.points]
            out[...] = given.toarray() if is_sparse(given) else given

    def evaluate(self, X: Any) -> Array:
        """The kernel values of rows on a device."""
        if self.kernel is None:
            return RowValues.evaluate(self, X)
        xp = namespace_of(X)
        values: Array = self.kernel.evaluate(X, self.points, xp.float64)
        return values if self.linear is None else xp.concat([values, self.linear(X)], axis=1)

    @property
    def of_kernel(self) -> "KernelValues":
        """The kernel values alone."""
        return self if self.linear is None else KernelValues(self.kernel, self.points)

    def scale(self, coefficients: Array) -> Array:
        """Return coefficients, one column per output, with those of linear columns in their units."""
        if self.linear is None:
            return coefficients
        xp, m = namespace_of(coefficients), self.points.shape[0]
        last = self.linear.scale(coefficients[m:, :])
        return xp.concat([coefficients[:m, :], last], axis=0)  # type: ignore[no-any-return]

    def predict(self, X: Any, coefficients: Array, bias: Array) -> Array:
        """Return the outputs of rows in numpy by the operations of a model that predicts them."""
        if self.kernel is None:
            return np.asarray(self.matrix(X) @ coefficients + bias)
        m, beside = self.points.shape[0], bias
        if self.linear is not None:
            beside = self.linear(X) @ coefficients[m:] + bias
        return expansion_values(self.kernel, self.points, coefficients[:m], beside, X)

    def diagonal(self, block: Block) -> Array:
        """k(x, x) of the rows of a block; a given matrix has them where row and column numbers agree."""
        if self.kernel is not None:
            diagonal = self.kernel.diag(block.X)
            if self.linear is not None:
                diagonal = diagonal + self.linear.floor
            return diagonal if is_device_array(diagonal) else np.asarray(diagonal, dtype=np.float64)
        numbers = np.arange(block.X.shape[0])
        given = block.X[numbers, block.start + numbers]
        return np.asarray(given, dtype=np.float64).ravel()

    def lengths(self, block: Block, weights: Array | None) -> float:
        """The sum of v k(x, x)."""
        lengths = np.maximum(self.diagonal(block), 0.0)
        return float(lengths.sum() if weights is None else weights @ lengths)

    def fill_carefully(self, X: Any, out: Array) -> None:
        """Write the kernel values of rows into ``out``, by operations of least rounding where the kernel has them."""
        if self.kernel is None or is_sparse(X) or is_sparse(self.points):
            self.fill(X, out)
        elif self.linear is not None:
            m = self.points.shape[0]
            kernel_values = np.empty((out.shape[0], m))
            self.kernel.fill_carefully(X, self.points, kernel_values)
            out[:, :m], out[:, m:] = kernel_values, self.linear(X)
        else:
            self.kernel.fill_carefully(X, self.points, out)

    def careful_rounding(self, X: Any) -> float:
        """Return what :meth:`rounding` is for values by :meth:`fill_carefully`."""
        if self.kernel is None or is_sparse(X) or is_sparse(self.points):
            return self.rounding(X)
        return self._at_least_once(self.kernel.careful_rounding(np.concatenate([X, self.points])))

    def _at_least_once(self, rounding: float) -> float:
        """Return a rounding of kernel values that covers that of linear columns, which are rounded once, too."""
        return rounding if self.linear is None else max(rounding, EPS)

    def deviation(self, X: Any, values: Array) -> float:
        """The largest difference from a second computation, in units of the root of k(x, x) k(z, z)."""
        if self.linear is not None:
            m = self.points.shape[0]
            same = np.array_equal(values[:, m:], self.linear(X))
            return self.of_kernel.deviation(X, values[:, :m]) if same else math.inf
        again = np.empty_like(values)
        self.fill_carefully(X, again)
        gap = np.abs(values - again)
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = self.sizes(X)[:, None] * self.sizes(self.points)
            found = float(np.where(gap == 0.0, 0.0, gap / scale).max(initial=0.0))
        return math.inf if math.isnan(found) else found  # max would pass over what is not a number

    def sizes(self, X: Any) -> Array:
        """Return the root of k(x, x) of points in numpy; one for columns of a matrix, which has no other rows."""
        if self.kernel is None:
            return np.ones(X.shape[0])
        return np.sqrt(np.maximum(np.asarray(self.kernel.diag(X), dtype=np.float64), 0.0))

    def rounding(self, X: Any) -> float:
        """p such that values are within p sqrt(k(x, x) k(z, z)) of the true ones; zero for a given matrix."""
        if self.kernel is None:
            return 0.0
        if is_sparse(X) or is_sparse(self.points):
            from scipy.sparse import vstack

            return self._at_least_once(self.kernel.rounding(vstack([X, self.points]).tocsr()))
        return self._at_least_once(self.kernel.rounding(namespace_of(X).concat([X, self.points], axis=0)))


@dataclass(frozen=True, slots=True)
class KernelRows:
    """Kernel values of all rows of a source, and the settings of passes over them."""

    values: KernelValues
    source: Source
    passes: OpenPasses = field(default_factory=OpenPasses)

    @classmethod
    def of(cls, kernel: Kernel | None, X: Any, points: Any, Y: Any = None, weights: Any = None) -> Self:
        """Rows in memory with their targets, one column per output, and their weights."""
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
        """v, one per row; None where all are one."""
        return self.source.row_weights()

    @property
    def mass(self) -> float:
        """The weight of all rows: l where they have none."""
        return float(self.n_rows) if self.weights is None else float(to_numpy(self.weights).sum())

    @property
    def on_device(self) -> bool:
        """Whether the rows are on a device, where a tile exceeds any cache and reading it again costs a pass."""
        return self.source.home != HOST

    @property
    def terms(self) -> int:
        """The number of terms that a sum over all rows adds sequentially: a tile, the tiles of a leaf, the tree."""
        if self.on_device:  # one leaf, and the parts of a tile
            tiles = list(device_blocks(self.n_rows, self.n_basis))
            longest = max(int(rows.stop - rows.start) for rows in tiles)
            return min(longest, PART) + -(-longest // PART) + len(tiles)
        step = self.values.step
        return min(self.n_rows, step) + min(-(-self.n_rows // step), LEAF // step) + self.n_rows.bit_length()

    @property
    def product_terms(self) -> int:
        """As ``terms``, for sums of products of features, which are added up in parts."""
        if not self.on_device:
            return terms_in_parts(min(self.n_rows, LEAF), min(self.values.step, CHUNK)) + self.n_rows.bit_length()
        tiles = len(list(device_blocks(self.n_rows, self.n_basis)))
        return min(self.n_rows, PART) + -(-self.n_rows // PART) + tiles + _MOVED

    def sums(self, function: LeafSum, what: str) -> Any:
        """A sum over all rows."""
        return self.passes.sums(self.source, function, what)

    def each(self, function: Callable[[Block], Any], what: str) -> Iterator[Any]:
        """A function of every micro-block."""
        return self.passes.each(self.source, function, what)

    def without(self, row: int) -> Self:
        """All rows but one; they must be in memory."""
        held = self.source.whole("rows are left out of arrays only")
        others = np.flatnonzero(np.arange(self.n_rows) != row)
        weights = None if held.weights is None else take_rows(held.weights, others)
        rest = ArraySource(take_rows(held.X, others), take_rows(held.Y, others), weights=weights)
        return replace(self, source=rest, passes=OpenPasses())

    def target_summary(self) -> TargetSummary:
        """Means and extremes of the targets."""
        passes = self.passes.without_checkpoint()
        summary: TargetSummary = passes.sums(self.source, summary_of_targets, "targets")
        return summary

    def taken(self, rows: Any) -> Array:
        """The kernel values of some rows, in ascending order, as an array."""
        return self.values.matrix(self.source.taken(rows))
