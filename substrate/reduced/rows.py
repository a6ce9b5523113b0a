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

from substrate.arrays import Array, is_sparse
from substrate.certificates.rounding import ROUNDED_ONCE
from substrate.errors import DataError
from substrate.kernels import Foreign, Kernel
from substrate.kernels.base import strips
from substrate.kernels.doubled_matrix import doubled_matrix
from substrate.least_squares.kernel_products import expansion_values
from substrate.namespaces import HOST, device_blocks, is_device_array, namespace_of, take_rows, to_numpy, zeros_beside
from substrate.operators import Operator
from substrate.reduced.linear_columns import LinearColumns
from substrate.reduced.row_products import CHUNK, PART, terms_in_parts
from substrate.streaming.array_source import ArraySource
from substrate.streaming.passes import OpenPasses
from substrate.streaming.source import LEAF, MICRO, Block, Source
from substrate.streaming.summation import LeafSum, highest
from substrate.streaming.survey import TargetSummary, summary_of_targets
from substrate.streaming.tally import Tally

__all__ = ["BasisValues", "GivenValues", "KernelRows", "KernelValues", "MatrixColumns", "RowValues", "Seen"]

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
        """Return the values of rows on a device, in a new array there."""
        raise DataError("this machine is not computed on a device; give it numpy arrays, X.cpu().numpy() of a tensor")

    def rounding(self, X: Any) -> float:
        """Return the relative error of the values; infinite where nothing is known of it."""
        return math.inf

    def lengths(self, block: Block, weights: Array | None) -> float:
        """Return the sum of v k(x, x) over rows; infinite where nothing is known of it."""
        return math.inf

    def deviation(self, X: Any, values: Array) -> float:
        """Return the largest relative difference of values of some rows from those found by other operations."""
        return math.inf

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

    def adjoint(self, X: Any, U: Array) -> Array:
        """Return the transposed values of given rows times U, one tile at a time."""
        out: Array = zeros_beside(U, (self.n_basis, *U.shape[1:]))
        for _, rows, tile in self.walk([Block(X, None, 0)]):
            out += tile.T @ U[rows, ...]
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

    def evaluate(self, X: Any) -> Array:
        """Return the rows."""
        rows: Array = X
        return rows

    def tiles(self, block: Block, buffer: Array) -> Iterator[tuple[slice, Array]]:
        """Yield all rows of the block at once, where they are: they must not be overwritten."""
        yield slice(0, int(block.X.shape[0])), block.X

    def buffer(self) -> Array:
        """Return an empty array: no memory is needed."""
        return np.empty((0, 0))


class BasisValues(RowValues):
    """Values of rows with basis vectors, and what is known of those.

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
    @abstractmethod
    def defined_by_values(self) -> bool:
        """Whether the values are exact by definition: they were given, or a user's function made them."""

    @property
    @abstractmethod
    def most_directions(self) -> int:
        """How many directions the vectors can have: their number, or fewer where the kernel has fewer features."""

    @property
    def columns(self) -> LinearColumns | None:
        """Columns that are not penalised, whose values follow those of the kernel."""
        return None

    @property
    def of_kernel(self) -> "BasisValues":
        """The values without those of linear columns."""
        return self

    def scale(self, coefficients: Array) -> Array:
        """Return coefficients, one column per output, with those of linear columns in their units."""
        return coefficients

    @abstractmethod
    def diagonal(self, block: Block) -> Array:
        """Return k(x, x) of the rows of a block."""

    @abstractmethod
    def sizes(self, X: Any) -> Array:
        """Return the root of k(x, x) of points in numpy."""

    @abstractmethod
    def basis_sizes(self) -> Array:
        """Return the root of k(z, z) of the basis vectors."""

    @abstractmethod
    def fill_carefully(self, X: Any, out: Array) -> None:
        """Write the values of rows into ``out``, by operations of least rounding where there are any."""

    @abstractmethod
    def careful_rounding(self, X: Any) -> float:
        """Return what ``rounding`` is for values by :meth:`fill_carefully`."""

    @abstractmethod
    def expand(self, X: Any, coefficients: Array, bias: Any) -> Array:
        """Return the values of rows times coefficients, plus the bias, as ``predict`` does."""

    @abstractmethod
    def distinct_vectors(self, K: Array) -> Array:
        """Return the numbers of the vectors without repetitions and zeros; ``K`` is their matrix."""

    @abstractmethod
    def basis_rounding(self) -> float:
        """Return the relative error of the kernel matrix of the basis."""

    @abstractmethod
    def careful_matrix(self) -> tuple[Array, float] | None:
        """Return the kernel matrix of the basis by operations of least rounding, and its relative error, if any."""

    @abstractmethod
    def doubled_matrix(self, K: Array) -> tuple[tuple[Array, Array], float] | None:
        """Return the kernel matrix of the basis in doubled precision, and its relative error, where it is known."""

    @abstractmethod
    def scaling_kernel(self) -> Kernel:
        """Return the kernel, for derivatives in its scales."""

    def lengths(self, block: Block, weights: Array | None) -> float:
        """Return the sum of v k(x, x)."""
        lengths = np.maximum(self.diagonal(block), 0.0)
        return float(lengths.sum() if weights is None else weights @ lengths)


@dataclass(frozen=True, slots=True)
class KernelValues(BasisValues):
    """A kernel between rows and basis points; the columns of a ``linear`` part, if any, follow its values."""

    kernel: Kernel
    points: Any
    linear: LinearColumns | None = None

    @property
    def defined_by_values(self) -> bool:
        """Whether a user's function makes the values."""
        return isinstance(self.kernel, Foreign)

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
        return self if self.linear is None else KernelValues(self.kernel, self.points)

    def scale(self, coefficients: Array) -> Array:
        """Return coefficients, one column per output, with those of linear columns in their units."""
        if self.linear is None:
            return coefficients
        xp, m = namespace_of(coefficients), self.points.shape[0]
        last = self.linear.scale(coefficients[m:, :])
        return xp.concat([coefficients[:m, :], last], axis=0)  # type: ignore[no-any-return]

    def fill(self, X: Any, out: Array) -> None:
        """Write the values of rows into ``out``."""
        if self.linear is None:
            self.kernel.fill(X, self.points, out)
        else:
            out[:, : self.points.shape[0]] = self.of_kernel.matrix(X)
            out[:, self.points.shape[0] :] = self.linear(X)

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

    def fill_carefully(self, X: Any, out: Array) -> None:
        """Write the kernel values of rows into ``out``, by operations of least rounding where the kernel has them."""
        if is_sparse(X) or is_sparse(self.points):
            self.fill(X, out)
        elif self.linear is not None:
            m = self.points.shape[0]
            kernel_values = np.empty((out.shape[0], m))
            self.kernel.fill_carefully(X, self.points, kernel_values)
            out[:, :m], out[:, m:] = kernel_values, self.linear(X)
        else:
            self.kernel.fill_carefully(X, self.points, out)

    def careful_rounding(self, X: Any) -> float:
        """Return what ``rounding`` is for values by :meth:`fill_carefully`."""
        if is_sparse(X) or is_sparse(self.points):
            return self.rounding(X)
        return self._at_least_once(self.kernel.careful_rounding(np.concatenate([X, self.points])))

    def _at_least_once(self, rounding: float) -> float:
        """Return a rounding of kernel values that covers that of linear columns, which are rounded once, too."""
        return rounding if self.linear is None else max(rounding, ROUNDED_ONCE)

    def deviation(self, X: Any, values: Array) -> float:
        """Return the largest difference from a second computation, in units of the root of k(x, x) k(z, z)."""
        if self.linear is not None:
            m = self.points.shape[0]
            is_same = np.array_equal(values[:, m:], self.linear(X))
            return self.of_kernel.deviation(X, values[:, :m]) if is_same else math.inf
        repeated = np.empty_like(values)
        self.fill_carefully(X, repeated)
        gap = np.abs(values - repeated)
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = self.sizes(X)[:, None] * self.sizes(self.points)
            deviation = float(np.where(gap == 0.0, 0.0, gap / scale).max(initial=0.0))
        return math.inf if math.isnan(deviation) else deviation  # max would pass over what is not a number

    def sizes(self, X: Any) -> Array:
        """Return the root of k(x, x) of points in numpy."""
        return np.sqrt(np.maximum(np.asarray(self.kernel.diag(X), dtype=np.float64), 0.0))

    def basis_sizes(self) -> Array:
        """Return the root of k(z, z) of the points."""
        return self.sizes(self.points)

    def rounding(self, X: Any) -> float:
        """Return p such that values are within p sqrt(k(x, x) k(z, z)) of the true ones."""
        if is_sparse(X) or is_sparse(self.points):
            from scipy.sparse import vstack

            return self._at_least_once(self.kernel.rounding(vstack([X, self.points]).tocsr()))
        return self._at_least_once(self.kernel.rounding(namespace_of(X).concat([X, self.points], axis=0)))

    def expand(self, X: Any, coefficients: Array, bias: Any) -> Array:
        """Return the expansion in the points, as ``predict`` does, beside that in linear columns."""
        m = self.points.shape[0]
        beside = bias if self.linear is None else self.linear(X) @ coefficients[m:] + bias
        return expansion_values(self.kernel, self.points, coefficients[:m], beside, X)

    def distinct_vectors(self, K: Array) -> Array:
        """Return the numbers of the points without repetitions, and without those of a zero diagonal."""
        X = to_numpy(self.points.toarray() if is_sparse(self.points) else self.points)
        first = np.sort(np.unique(X + 0.0, axis=0, return_index=True)[1])
        return np.asarray(first[np.diagonal(K)[first] != 0.0])

    def basis_rounding(self) -> float:
        """Return p of the kernel on the points; zero where its values define it."""
        return 0.0 if self.defined_by_values else float(self.kernel.rounding(self.points))

    def careful_matrix(self) -> tuple[Array, float] | None:
        """Return the kernel matrix of dense points by the formula that loses fewer digits, and its p."""
        if self.defined_by_values or is_sparse(self.points):
            return None
        out = np.empty((self.points.shape[0], self.points.shape[0]))
        self.kernel.fill_carefully(self.points, self.points, out)
        return out, float(self.kernel.careful_rounding(self.points))

    def doubled_matrix(self, K: Array) -> tuple[tuple[Array, Array], float] | None:
        """Return the kernel matrix of the points in doubled precision, and its p, where the kernel has a formula."""
        return doubled_matrix(self.kernel, self.points)

    def scaling_kernel(self) -> Kernel:
        """Return the kernel."""
        return self.kernel


@dataclass(frozen=True, slots=True)
class MatrixColumns(BasisValues):
    """Columns of a kernel matrix by number, for rows that hold its values; they are exact by definition."""

    points: Any

    @property
    def defined_by_values(self) -> bool:
        """True: they were given."""
        return True

    @property
    def most_directions(self) -> int:
        """The number of columns."""
        return self.n_basis

    def fill(self, X: Any, out: Array) -> None:
        """Copy the columns of rows into ``out``."""
        columns = X[:, self.points]
        out[...] = columns.toarray() if is_sparse(columns) else columns

    def diagonal(self, block: Block) -> Array:
        """Return k(x, x) of the rows of a block: where row and column numbers agree."""
        numbers = np.arange(block.X.shape[0])
        diagonal = block.X[numbers, block.start + numbers]
        return np.asarray(diagonal, dtype=np.float64).ravel()

    def fill_carefully(self, X: Any, out: Array) -> None:
        """Copy the columns of rows into ``out``."""
        self.fill(X, out)

    def careful_rounding(self, X: Any) -> float:
        """Return zero."""
        return 0.0

    def deviation(self, X: Any, values: Array) -> float:
        """Return zero: there is no second computation; infinite where a value is not a finite number."""
        return 0.0 if np.isfinite(values).all() else math.inf

    def sizes(self, X: Any) -> Array:
        """Return ones: a row of a matrix does not tell its length."""
        return np.ones(X.shape[0])

    def basis_sizes(self) -> Array:
        """Refuse: numbers of columns do not tell their lengths."""
        raise TypeError("columns of a matrix need the sizes of the basis vectors")

    def rounding(self, X: Any) -> float:
        """Return zero."""
        return 0.0

    def expand(self, X: Any, coefficients: Array, bias: Any) -> Array:
        """Return the expansion in the columns."""
        return np.asarray(self.matrix(X) @ coefficients + bias)

    def distinct_vectors(self, K: Array) -> Array:
        """Return the numbers of the columns without repetitions, and without those of a zero diagonal."""
        diagonal = np.diagonal(K)
        # ||phi(x) - phi(z)||^2 is zero; the first of equal ones counts
        twins = (diagonal[:, None] == K) & (diagonal[None, :] == K)
        first = np.argmax(twins | np.eye(diagonal.size, dtype=bool), axis=1)
        distinct = np.flatnonzero(first == np.arange(diagonal.size))
        return np.asarray(distinct[diagonal[distinct] != 0.0])

    def basis_rounding(self) -> float:
        """Return zero."""
        return 0.0

    def careful_matrix(self) -> tuple[Array, float] | None:
        """Return None: the given matrix has no other digits."""
        return None

    def doubled_matrix(self, K: Array) -> tuple[tuple[Array, Array], float] | None:
        """Return the given matrix, which is exact."""
        return (K, np.zeros_like(K)), 0.0

    def scaling_kernel(self) -> Kernel:
        """Refuse: a matrix has no scales."""
        raise TypeError("these values have no kernel to differentiate")


@dataclass(frozen=True, slots=True)
class _ProductOfBlock:
    values: RowValues
    V: Array

    def __call__(self, block: Block) -> Array:
        return self.values.product(block.X, self.V)


@dataclass(frozen=True, slots=True)
class _AdjointOfLeaf:
    values: RowValues
    U: Array

    def __call__(self, blocks: Iterable[Block]) -> Array:
        products = [self.values.adjoint(block.X, self.U[block.rows, ...]) for block in blocks]
        return sum(products[1:], products[0])


@dataclass(frozen=True, slots=True)
class KernelRows(Operator):
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
    def shape(self) -> tuple[int, int]:
        """l x n."""
        return self.n_rows, self.n_basis

    def product(self, V: Array) -> Array:
        """Return the values of all rows times V, in one pass."""
        blocks = list(self.each(_ProductOfBlock(self.values, V), "products"))
        product: Array = namespace_of(V).concat(blocks, axis=0)
        return product

    def adjoint(self, U: Array) -> Array:
        """Return the transposed values times U, which has one row per row, in one pass."""
        product: Array = self.sums(_AdjointOfLeaf(self.values, U), "products")
        return product

    def block(self, rows: Any, columns: Any) -> Array:
        """Return the values of some rows, in ascending order, with some basis vectors."""
        return self.take_rows(rows)[:, columns]

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
        return min(self.n_rows, step) + min(-(-self.n_rows // step), LEAF // step) + highest(self.n_rows)

    @property
    def product_terms(self) -> int:
        """As ``terms``, for sums of products of features, which are added up in parts."""
        if not self.on_device:
            return terms_in_parts(min(self.n_rows, LEAF), min(self.values.step, CHUNK)) + highest(self.n_rows)
        tiles = len(list(device_blocks(self.n_rows, self.n_basis)))
        return min(self.n_rows, PART) + -(-self.n_rows // PART) + tiles + _MOVED

    def sums(self, function: LeafSum, what: str) -> Any:
        """Compute a sum over all rows."""
        return self.passes.sums(self.source, function, what)

    def each(self, function: Callable[[Block], Any], what: str) -> Iterator[Any]:
        """Evaluate a function of every micro-block."""
        return self.passes.each(self.source, function, what)

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
        summary: TargetSummary = passes.sums(self.source, summary_of_targets, "targets")
        return summary

    def take_rows(self, rows: Any) -> Array:
        """Return the kernel values of some rows, in ascending order, as an array."""
        return self.values.matrix(self.source.take_rows(rows))
