"""Rows that are in memory already, this process's or a device's: a dense or sparse matrix and its targets.

Values handed to the workers of a Dask client, also while one of them is dying.

Which rows are looked at where all of them would be too many: by their numbers, before anything is read.

The numbers follow from how many rows there are, how many are wanted, and a seed. Where the rows are kept, how they are
read and who reads them is not asked, so that an array and a file of the same rows give the same model.

A source made of another one, block by block: targets coded, or inputs scaled.

A source whose targets are columns of numbers: as they are, or the codes of labels.
"""

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.errors import DataError, SolverError
from substrate.namespaces import on_device_of, take_rows, where_it_lives
from substrate.streaming.source import Block, Source

__all__ = [
    "WIDTH_ROWS",
    "ArraySource",
    "CodedSource",
    "DerivedSource",
    "LabelCodes",
    "ScaledSource",
    "drawn",
    "handed_out",
    "numbers",
    "width_rows",
]


_TRIES = 5
#: Seconds to wait before another try; a lost worker is known to be lost by then.
_PAUSE = 0.5


def handed_out(client: Any, value: Any, *, everywhere: bool = False) -> Any:
    """The future of a value that one worker holds, or all of them.

    The connection to a worker that dies at this moment breaks; the next try finds the others.
    """
    for _ in range(_TRIES):
        try:
            return client.scatter(value, broadcast=everywhere, hash=False)
        except OSError:
            time.sleep(_PAUSE)
    raise SolverError(f"the connection to a worker broke {_TRIES} times in a row; look at the logs of the workers")


@dataclass(frozen=True, slots=True)
class ArraySource(Source):
    """Arrays that were checked before; blocks are views of them. ``first`` is the number of their first row."""

    X: Any
    Y: Any
    first: int = 0

    @property
    def name(self) -> str:
        """A word for arrays."""
        return "the given arrays"

    @property
    def n_rows(self) -> int:
        """How many rows, those before the first not counted."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """How many columns."""
        return int(self.X.shape[1])

    @property
    def home(self) -> str:
        """Where the arrays live."""
        return where_it_lives(self.X)

    @property
    def held(self) -> Block:
        """The arrays."""
        return Block(self.X, self.Y, self.first)

    def beside(self, values: Any) -> Any:
        """In the library and on the device of the arrays."""
        return on_device_of(self.X, values)

    def blocks(self, start: int, stop: int, step: int) -> Iterator[Block]:
        """Slices."""
        for begin in range(start, stop, step):
            here = slice(begin - self.first, min(begin + step, stop) - self.first)
            yield Block(self.X[here, :], None if self.Y is None else self.Y[here, ...], begin)

    def taken(self, rows: Any) -> Any:
        """Rows by number."""
        return take_rows(self.X, rows)

    def sent(self, client: Any, start: int, stop: int) -> Any:
        """The span as data, on a worker: memory of this process is nothing that another could open."""
        here = slice(start - self.first, stop - self.first)
        return handed_out(client, ArraySource(self.X[here], None if self.Y is None else self.Y[here], start))


#: Rows by which a kernel finds its width: all of them up to this many. The heuristic itself sorts these and looks at a
#: thousand, so more of them would not make a width better.
WIDTH_ROWS = 8192
#: A width is part of the kernel and not of what ``random_state`` decides: the same rows whoever asks.
_WIDTH_SEED = 0


def drawn(n: int, count: int | None, generator: np.random.Generator) -> Any:
    """All of n rows, or ``count`` drawn at random, in ascending order; nothing is drawn where all are wanted."""
    if count is None or count >= n:
        return np.arange(n)
    return np.sort(generator.choice(n, size=int(count), replace=False))


def width_rows(n: int) -> Any:
    """The rows of n by which a kernel on a reduced basis finds its width."""
    return drawn(n, WIDTH_ROWS, np.random.default_rng(_WIDTH_SEED))


@dataclass(frozen=True)
class DerivedSource(Source):
    """Everything as it is inside, but for what :meth:`changed` does to a block."""

    inner: Any

    @abstractmethod
    def changed(self, block: Block) -> Block:
        """The block as this source has it."""

    @property
    def name(self) -> str:
        """That of the rows."""
        return str(self.inner.name)

    @property
    def n_rows(self) -> int:
        """Those of the rows."""
        return int(self.inner.n_rows)

    @property
    def n_features(self) -> int:
        """Those of the rows."""
        return int(self.inner.n_features)

    @property
    def seekable(self) -> bool:
        """If the rows are."""
        return bool(self.inner.seekable)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Those of the rows."""
        names: tuple[str, ...] | None = self.inner.feature_names
        return names

    @property
    def files(self) -> tuple[str, ...]:
        """Those of the rows."""
        names: tuple[str, ...] = self.inner.files
        return names

    def blocks(self, start: int, stop: int, step: int) -> Iterator[Block]:
        """Changed one by one."""
        return map(self.changed, self.inner.blocks(start, stop, step))

    def taken(self, rows: Any) -> Any:
        """As they are inside; a source that changes rows changes these too."""
        return self.inner.taken(rows)

    def sent(self, client: Any, start: int, stop: int) -> Any:
        """As the rows are, and changed there."""
        inner = self.inner.sent(client, start, stop)
        return (
            self if inner is self.inner else client.submit(replace, replace(self, inner=None), inner=inner, pure=False)
        )


@dataclass(frozen=True)
class ScaledSource(DerivedSource):
    """Inputs less a centre, over a scale, a number each a column; they are named by whoever scales them."""

    center: Array
    scale: Array

    @property
    def feature_names(self) -> None:
        """None: these are not the columns that have the names."""
        return

    def changed(self, block: Block) -> Block:
        """Scaled."""
        return Block((block.X - self.center) / self.scale, block.Y, block.start)

    def taken(self, rows: Any) -> Any:
        """Scaled."""
        return (self.inner.taken(rows) - self.center) / self.scale


def numbers(block: Block, name: str) -> Array:
    """Targets as one column of floats."""
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
        """Codes of a block of labels."""
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
    """Rows as they are; targets by a function of a block."""

    code: Callable[[Block, str], Array]

    def changed(self, block: Block) -> Block:
        """With coded targets."""
        return Block(block.X, self.code(block, self.name), block.start)
