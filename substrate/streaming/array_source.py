"""Rows that are already in memory, in this process or on a device, and rows of another source prepared for a fit.

An array source holds a dense or sparse matrix and its targets. A prepared source codes the targets of another one block
by block, and has weights for its rows.

Where all rows would be too many, some are sampled by their numbers before anything is read. The numbers depend only on
the number of rows, the number wanted, and a seed, so that an array and blocks of the same rows give the same model.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from substrate.arrays import Array, real_array
from substrate.errors import DataError
from substrate.namespaces import on_device_of, take_rows, where_it_lives
from substrate.streaming.source import Block, Source, reblock

__all__ = [
    "ArraySource",
    "LabelCodes",
    "PreparedSource",
    "draw_rows",
    "numbers",
    "weights_of_source",
    "width_rows",
]


@dataclass(frozen=True, slots=True)
class ArraySource(Source):
    """Arrays that have been checked; blocks are views of them. ``first`` is the number of their first row.

    ``weights`` are positive, one per row; None: all are one.
    """

    X: Any
    Y: Any
    first: int = 0
    weights: Any = None

    @property
    def name(self) -> str:
        """Return a name for arrays."""
        return "the given arrays"

    @property
    def n_rows(self) -> int:
        """Return the number of rows, not counting those before the first."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Return the number of columns."""
        return int(self.X.shape[1])

    @property
    def home(self) -> str:
        """Return where the arrays are stored."""
        return where_it_lives(self.X)

    @property
    def block_in_memory(self) -> Block:
        """Return the arrays."""
        return Block(self.X, self.Y, self.first, self.weights)

    def row_weights(self) -> Any:
        """Return the weights given."""
        return self.weights

    def beside(self, values: Any) -> Any:
        """Return values in the library and on the device of the arrays."""
        return on_device_of(self.X, values)

    def blocks(self, start: int, stop: int, step: int) -> Iterator[Block]:
        """Yield slices."""
        for begin in range(start, stop, step):
            rows = slice(begin - self.first, min(begin + step, stop) - self.first)
            weights = None if self.weights is None else self.weights[rows]
            yield Block(self.X[rows, :], None if self.Y is None else self.Y[rows, ...], begin, weights)

    def take_rows(self, rows: Any) -> Any:
        """Return rows by number."""
        return take_rows(self.X, rows)


#: Number of rows from which the width of a kernel is determined: all of them up to this many. The heuristic sorts these
#: and uses a thousand, so more of them would not improve the width.
WIDTH_ROWS = 8192
#: A width is part of the kernel and does not depend on ``random_state``: always the same rows.
_WIDTH_SEED = 0


def draw_rows(n: int, count: int | None, generator: np.random.Generator) -> Any:
    """Return all of n rows, or ``count`` drawn at random, in ascending order; no draw is made where all are wanted."""
    if count is None or count >= n:
        return np.arange(n)
    return np.sort(generator.choice(n, size=int(count), replace=False))


def width_rows(n: int) -> Any:
    """Return the rows of n from which a kernel on a reduced basis determines its width."""
    return draw_rows(n, WIDTH_ROWS, np.random.default_rng(_WIDTH_SEED))


@dataclass(frozen=True)
class PreparedSource(Source):
    """The rows of another source that have a positive weight, with coded targets and their weights.

    ``code`` makes columns of numbers from the targets of a block; None leaves them as they are. ``weights`` are None
    where all are one. ``numbers`` are the numbers that these rows have in the other source, None where they are all of
    them: rows of weight zero are read and passed over, and the others are numbered without them. ``first`` is the
    number here of the first row that has an entry, of which a worker is sent a part.
    """

    inner: Any
    code: Callable[[Block, str], Array] | None = None
    weights: Array | None = None
    numbers: Any = None
    first: int = 0

    @property
    def name(self) -> str:
        """Return the name of the inner source."""
        return str(self.inner.name)

    @property
    def n_rows(self) -> int:
        """Return the number of rows of positive weight."""
        return int(self.inner.n_rows if self.numbers is None else self.numbers.size)

    @property
    def n_features(self) -> int:
        """Return the number of columns of the inner source."""
        return int(self.inner.n_features)

    @property
    def seekable(self) -> bool:
        """Return whether the inner source can be read from any row."""
        return bool(self.inner.seekable)

    @property
    def is_dask(self) -> bool:
        """Return whether Dask computes the rows of the inner source."""
        return bool(self.inner.is_dask)

    def row_weights(self) -> Any:
        """Return those of the rows of positive weight."""
        return self.inner.row_weights() if self.weights is None else self.weights

    def blocks(self, start: int, stop: int, step: int) -> Iterator[Block]:
        """Yield the blocks of the inner source without the rows of weight zero, coded and weighed."""
        inner = self.inner.blocks(start, stop, step)
        if self.numbers is not None:
            inner = reblock(self._positive(start, stop, step), start, stop, step)
        for block in inner:
            rows = slice(block.rows.start - self.first, block.rows.stop - self.first)
            Y = block.Y if self.code is None else self.code(block, self.name)
            yield block._replace(Y=Y, weights=block.weights if self.weights is None else self.weights[rows])

    def take_rows(self, rows: Any) -> Any:
        """Return the rows by the numbers that they have in the inner source."""
        return self.inner.take_rows(rows if self.numbers is None else self.numbers[rows])

    def delay(self, start: int, stop: int) -> Any:
        """Return a delayed span with its part of the weights."""
        from dask import delayed

        part, rows, (begin, end) = (
            replace(self, inner=None),
            slice(start - self.first, stop - self.first),
            (start, stop),
        )
        if self.numbers is not None:
            part = replace(part, numbers=self.numbers[rows])
            begin, end = int(part.numbers[0]), int(part.numbers[-1]) + 1
        if self.weights is not None or self.numbers is not None:
            part = replace(part, weights=None if self.weights is None else self.weights[rows], first=start)
        without = delayed(part, traverse=False, pure=False)
        return delayed(replace, pure=False)(without, inner=self.inner.delay(begin, end))

    def _positive(self, start: int, stop: int, step: int) -> Iterator[Block]:
        """Yield the rows of positive weight, numbered from ``start`` on: of every block those that it has."""
        numbers = self.numbers[start - self.first : stop - self.first]
        for block in self.inner.blocks(int(numbers[0]), int(numbers[-1]) + 1, step):
            first, last = np.searchsorted(numbers, [block.rows.start, block.rows.stop])
            if first < last:
                places = numbers[first:last] - block.start
                yield Block(block.X[places], None if block.Y is None else block.Y[places], start + int(first))


def numbers(block: Block, name: str) -> Array:
    """Return targets as one column of floats."""
    if block.Y is None:
        raise DataError(f"{name} has no targets; a fit needs them")
    if block.Y.dtype.kind not in "fiub":
        raise DataError(f"{name}, from row {block.start}: targets of dtype {block.Y.dtype}; a regression needs numbers")
    return np.asarray(block.Y, dtype=np.float64)[:, None]


@dataclass(frozen=True, slots=True)
class LabelCodes:
    """The rows of a code book, by the classes of the labels."""

    classes: Any
    book: Array

    def __call__(self, block: Block, name: str) -> Array:
        """Return codes of a block of labels."""
        places = np.searchsorted(self.classes, block.Y).clip(max=self.classes.size - 1)
        strange = self.classes[places] != block.Y
        if strange.any():
            row = int(strange.argmax())
            raise DataError(
                f"{name}, row {block.start + row}: the label {block.Y[row]!r} is none of the classes {self.classes}"
            )
        return np.ascontiguousarray(self.book[places])


def weights_of_source(sample_weight: Any, rows: Source) -> Array:
    """Return one finite weight, not negative, for each row of a source."""
    if hasattr(sample_weight, "compute"):  # a Dask collection: one number per row fits where its rows do not
        sample_weight = sample_weight.compute()
    weights = real_array(sample_weight, "sample_weight", ndim=1)
    if weights.shape != (rows.n_rows,):
        raise DataError(
            f"sample_weight must have one entry per row: {rows.name} has {rows.n_rows} rows, received {weights.size}; "
            "give one weight for each, in the order of the rows"
        )
    if (weights < 0.0).any():
        raise DataError(f"sample_weight must not be negative, received {weights.min()} at row {int(weights.argmin())}")
    if (positive := int(np.count_nonzero(weights))) < 2:
        raise DataError(
            f"at least two rows of positive weight are needed, received {positive} of {weights.size}; give more rows a "
            "positive sample_weight"
        )
    return weights
