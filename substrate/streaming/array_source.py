"""Rows that are already in memory, in this process or on a device, and sources derived from another one.

An array source holds a dense or sparse matrix and its targets. A derived source changes another one block by block:
coded targets, inputs that are filled in, or scaled.

Where all rows would be too many, some are sampled by their numbers before anything is read. The numbers depend only on
the number of rows, the number wanted, and a seed, so that an array and blocks of the same rows give the same model.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.errors import DataError
from substrate.namespaces import on_device_of, take_rows, where_it_lives
from substrate.streaming.source import Block, Source

__all__ = [
    "ArraySource",
    "CodedSource",
    "LabelCodes",
    "draw_rows",
    "numbers",
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
class DerivedSource(Source):
    """A source whose blocks are those of the inner source, modified by :meth:`changed`."""

    inner: Any

    @abstractmethod
    def change(self, block: Block) -> Block:
        """Return the block of this source."""

    @property
    def name(self) -> str:
        """Return the name of the inner source."""
        return str(self.inner.name)

    @property
    def n_rows(self) -> int:
        """Return the number of rows of the inner source."""
        return int(self.inner.n_rows)

    @property
    def n_features(self) -> int:
        """Return the number of columns of the inner source."""
        return int(self.inner.n_features)

    @property
    def seekable(self) -> bool:
        """Return whether the inner source can be read from any row."""
        return bool(self.inner.seekable)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Return the column names of the inner source."""
        names: tuple[str, ...] | None = self.inner.feature_names
        return names

    @property
    def is_dask(self) -> bool:
        """Return whether Dask computes the rows of the inner source."""
        return bool(self.inner.is_dask)

    def row_weights(self) -> Any:
        """Return those of the inner source."""
        return self.inner.row_weights()

    def blocks(self, start: int, stop: int, step: int) -> Iterator[Block]:
        """Return the blocks of the inner source, each modified."""
        return map(self.change, self.inner.blocks(start, stop, step))

    def take_rows(self, rows: Any) -> Any:
        """Return the rows of the inner source; a source that modifies rows modifies these too."""
        return self.inner.take_rows(rows)

    def delay(self, start: int, stop: int) -> Any:
        """Return the delayed span of the inner source, modified where it is computed."""
        return self.delay_inner(self.inner.delay(start, stop))

    def delay_inner(self, inner: Any) -> Any:
        """Return this source over a delayed one."""
        from dask import delayed

        without = delayed(replace(self, inner=None), traverse=False, pure=False)
        return delayed(replace, pure=False)(without, inner=inner)


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


@dataclass(frozen=True)
class CodedSource(DerivedSource):
    """Unchanged rows; targets by a function of a block."""

    code: Callable[[Block, str], Array]

    def change(self, block: Block) -> Block:
        """Return the block with coded targets."""
        return block._replace(Y=self.code(block, self.name))
