r"""Rows by number, wherever they are: arrays in memory or on a device, mapped files, Dask collections, blocks of rows.

A pass reads them in blocks of :data:`BLOCK_ROWS` rows, which depend on nothing but the numbers of the rows: the result
for a row, and every sum, has the same bits however the rows are kept. Where all rows would be too many, some are drawn
by their numbers before anything is read.

Rows that are read in passes are checked block by block: they have one width and are real and finite; an error names the
source and the rows. Their targets are coded as they are read, and rows of weight zero are passed over.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from substrate.arrays import (
    HOST,
    Array,
    is_device_array,
    is_sparse,
    namespace_of,
    on_device_of,
    real_array,
    refuse_disguised,
    take_rows,
    where_it_lives,
)
from substrate.errors import DataError

__all__ = [
    "BLOCK_ROWS",
    "SPAN_ROWS",
    "ArraySource",
    "Block",
    "Code",
    "LabelCodes",
    "ReadSource",
    "RowBlocks",
    "SlicedSource",
    "Source",
    "draw_rows",
    "is_mapped",
    "numbers",
    "source_of",
    "streams",
    "weights_of_source",
    "width_rows",
]

#: Rows of a block, the argument of a function of rows.
BLOCK_ROWS = 4096
#: Rows whose sums are added up before they are added to the others, and of a task of Dask.
SPAN_ROWS = 16 * BLOCK_ROWS
#: Number of rows from which the width of a kernel is determined: all of them up to this many. The heuristic sorts these
#: and uses a thousand, so more of them would not improve the width.
WIDTH_ROWS = 8192
#: A width is part of the kernel and does not depend on ``random_state``: always the same rows.
_WIDTH_SEED = 0


class Block(NamedTuple):
    """Consecutive rows, their targets, the number of the first of them, and their weights; None: all are one."""

    X: Any
    Y: Any
    start: int
    weights: Any = None

    @property
    def n_rows(self) -> int:
        """Return the number of rows."""
        return int(self.X.shape[0])

    @property
    def rows(self) -> slice:
        """Return the range of their numbers."""
        return slice(self.start, self.start + self.n_rows)

    def row_weights(self) -> Any:
        """Return the weights, ones where they are not stated."""
        xp = namespace_of(self.Y)
        return xp.ones(self.n_rows, dtype=xp.float64, device=self.Y.device) if self.weights is None else self.weights

    def cut(self, first: int, last: int) -> "Block":
        """Return some of the rows, by their places in the block."""
        Y, weights = (None if values is None else values[first:last, ...] for values in (self.Y, self.weights))
        return Block(self.X[first:last, :], Y, self.start + first, weights)


class Source(ABC):
    """Rows and targets by number, with a ``name`` for messages.

    ``n_features`` are the columns without the target, and ``feature_names`` their names, if any; ``weights`` are
    positive, one per row; None: all are one.
    """

    name: str
    n_features: int
    feature_names: tuple[str, ...] | None
    weights: Any

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Return the number of rows."""

    @property
    def home(self) -> str:
        """Return where the rows are stored: numpy, or a library and a device."""
        return HOST

    @property
    def block_in_memory(self) -> Block | None:
        """Return all rows in one block where they are in memory; None if they are read in passes."""
        return None

    def whole(self, why: str) -> Block:
        """Return all rows in one block; ``why`` begins the error where they are not in memory."""
        if self.block_in_memory is None:
            raise DataError(f"{why}, and {self.name} is read in passes")
        return self.block_in_memory

    def beside(self, values: Any) -> Any:
        """Return values of the host, copied to where the rows are."""
        return values

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """Return all rows in blocks of :data:`BLOCK_ROWS`, of which the last one may be shorter."""

    @abstractmethod
    def take_rows(self, rows: Any) -> Any:
        """Return the rows with the given numbers, in ascending order."""


@dataclass(frozen=True, slots=True)
class ArraySource(Source):
    """Arrays that have been checked, in memory or on a device; blocks are views of them."""

    X: Any
    Y: Any
    weights: Any = None
    name: str = field(default="the given arrays", init=False)
    feature_names: None = field(default=None, init=False)

    @property
    def n_rows(self) -> int:
        """Return the number of rows."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """Return the number of columns."""
        return int(self.X.shape[1])

    @property
    def home(self) -> str:
        """Return where the arrays are stored."""
        return where_it_lives(self.X)

    @property
    def block_in_memory(self) -> Block:
        """Return the arrays."""
        return Block(self.X, self.Y, 0, self.weights)

    def beside(self, values: Any) -> Any:
        """Return values in the library and on the device of the arrays."""
        return on_device_of(self.X, values)

    def blocks(self) -> Iterator[Block]:
        """Return slices; on a device all rows at once, which keep it busy."""
        if self.home != HOST:
            return iter([self.block_in_memory])
        return in_blocks(self.block_in_memory)

    def take_rows(self, rows: Any) -> Any:
        """Return rows by number."""
        return take_rows(self.X, rows)


def in_blocks(rows: Block) -> Iterator[Block]:
    """Yield the rows of a large block in blocks of :data:`BLOCK_ROWS`."""
    for first in range(0, rows.n_rows, BLOCK_ROWS):
        yield rows.cut(first, min(first + BLOCK_ROWS, rows.n_rows))


#: From targets, a name for messages and the numbers of their rows, to columns of numbers.
Code = Callable[..., Array]


@dataclass(frozen=True, slots=True, eq=False)
class ReadSource(Source):
    """Rows that are read in passes: the ``kept`` ones, by number, of ``n_given``; None: all of them.

    ``code`` makes columns of numbers from the targets of a block; None leaves them unchanged.
    """

    name: str
    n_given: int
    n_features: int
    feature_names: tuple[str, ...] | None = None
    code: Code | None = None
    weights: Any = None
    kept: Any = None

    @property
    def n_rows(self) -> int:
        """Return the number of rows that are kept."""
        return self.n_given if self.kept is None else int(self.kept.size)


@dataclass(frozen=True, slots=True, eq=False)
class SlicedSource(ReadSource):
    """An array of rows and one of targets or none, both mapped files or both of Dask, of known lengths."""

    X: Any = None
    y: Any = None

    @classmethod
    def of_arrays(cls, X: Any, y: Any, names: tuple[str, ...] | None = None) -> Self:
        """Take arrays, which must be of the shapes of rows and of one target for each."""
        name = "the Dask collection" if _is_dask(X) else f"the mapped file {X.filename}"
        if X.ndim != 2:
            raise DataError(f"X must be 2-D, received {name} of shape {X.shape}")
        if X.shape[0] == 0:
            raise DataError(f"{name} holds no rows: its shape is {X.shape}")
        if y is not None and y.shape != X.shape[:1]:
            raise DataError(f"X has {X.shape[0]} rows and y has shape {y.shape}; one target per row is needed")
        return cls(name, int(X.shape[0]), int(X.shape[1]), feature_names=names, X=X, y=y)

    @classmethod
    def of_dask(cls, X: Any, y: Any = None) -> Self:
        """Compute unknown lengths. The target is the name of a column of a dataframe, or another collection."""
        names = None
        if hasattr(X, "to_dask_array"):
            if isinstance(y, str):
                if y not in X.columns:
                    raise DataError(f"the dataframe has no column {y!r}; it has {', '.join(map(str, X.columns))}")
                X, y = X.drop(columns=y), X[y]
            names = tuple(map(str, X.columns))
            X = X.to_dask_array(lengths=True)
        if y is not None and hasattr(y, "to_dask_array"):
            plain = getattr(y.dtype, "kind", "O") in "fiub"
            y = (y if plain else y.astype(object)).to_dask_array(lengths=True)  # text as Python's own
        if y is not None and not _is_dask(y):
            raise DataError(
                f"rows in a Dask collection need targets in one, or the name of a column; received {type(y).__name__}"
            )
        X, y = _compute_sizes(X), None if y is None else _compute_sizes(y)
        return cls.of_arrays(X, y, names)

    @property
    def is_dask(self) -> bool:
        """Return whether the arrays are of Dask."""
        return _is_dask(self.X)

    def blocks(self) -> Iterator[Block]:
        """Yield slices, checked."""
        for X, y, *how in self._parts(BLOCK_ROWS):
            yield read_block(_computed(X), None if y is None else _computed(y), *how)

    def delayed_spans(self) -> Iterator[Any]:
        """Yield blocks of :data:`SPAN_ROWS` rows, which Dask computes where they are needed."""
        from dask import delayed

        for part in self._parts(SPAN_ROWS):
            yield delayed(read_block, pure=False)(*part)

    def _parts(self, step: int) -> Iterator[tuple[Any, ...]]:
        """Yield what makes blocks of so many rows: rows and targets as the arrays have them, and how they are read."""
        for start in range(0, self.n_rows, step):
            places = slice(start, min(start + step, self.n_rows))
            rows = places if self.kept is None else self.kept[places]
            given = range(places.start, places.stop) if self.kept is None else rows
            y = None if self.y is None else self.y[rows]
            weights = None if self.weights is None else self.weights[places]
            yield self.X[rows], y, self.name, given, self.n_features, self.code, start, weights

    def take_rows(self, rows: Any) -> Any:
        """Return rows by number, in ascending order."""
        wanted = np.asarray(rows, dtype=np.intp)
        return np.asarray(_computed(self.X[wanted if self.kept is None else self.kept[wanted]]), dtype=np.float64)


def _is_dask(X: Any) -> bool:
    """Return whether X is a Dask collection, without importing Dask."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(X, "__dask_graph__")


def _computed(part: Any) -> Any:
    return part.compute() if _is_dask(part) else np.asarray(part)


def _compute_sizes(collection: Any) -> Any:
    if np.isnan(np.array(collection.shape, dtype=float)).any():
        collection = copy(collection)  # the method modifies its object
        collection.compute_chunk_sizes()
    return collection


@dataclass(frozen=True, slots=True, eq=False)
class RowBlocks(ReadSource):
    """Blocks ``(X, y)``, or ``X`` alone for prediction, of any number of rows each; counted in a first pass.

    They come from an iterable that can be iterated again and again, in this process.
    """

    factory: Any = None

    @classmethod
    def of(cls, blocks: Iterable[Any] | Callable[[], Iterable[Any]]) -> Self:
        """Take an iterable, or a function that returns one; it must give the same blocks every time."""
        if not callable(blocks) and iter(blocks) is blocks:
            raise DataError(
                "these row blocks can be iterated only once, and a fit makes several passes; pass a list, or a "
                "function that returns a new generator"
            )
        n_rows, width = 0, None
        for block in _given_blocks(blocks, width, None):
            n_rows, width = block.rows.stop, int(block.X.shape[1])
        if width is None:
            raise DataError(f"{_BLOCKS} hold no rows")
        return cls(_BLOCKS, n_rows, width, factory=blocks)

    def blocks(self) -> Iterator[Block]:
        """Yield the rows that are kept, joined and cut."""
        pending, size, start = list[Block](), 0, 0
        for part in self._kept_parts():
            first = 0
            while first < part.n_rows:
                last = min(first + BLOCK_ROWS - size, part.n_rows)
                pending.append(part.cut(first, last))
                size, first = size + last - first, last
                if size == BLOCK_ROWS:
                    yield self._join(pending, start)
                    pending, size, start = [], 0, start + BLOCK_ROWS
        if pending:
            yield self._join(pending, start)

    def take_rows(self, rows: Any) -> Any:
        """Return the rows in one pass over all blocks."""
        wanted = np.asarray(rows, dtype=np.intp)
        inside = ((block, (wanted >= block.start) & (wanted < block.rows.stop)) for block in self.blocks())
        return np.concatenate(
            [block.X[wanted[is_inside] - block.start] for block, is_inside in inside if is_inside.any()]
        )

    def _join(self, blocks: list[Block], start: int) -> Block:
        """Return blocks as one, with the weights of its rows."""
        Y = None if blocks[0].Y is None else np.concatenate([block.Y for block in blocks])
        joined = Block(np.concatenate([block.X for block in blocks]), Y, start)
        return joined if self.weights is None else joined._replace(weights=self.weights[joined.rows])

    def _kept_parts(self) -> Iterator[Block]:
        n_read = 0
        for part in _given_blocks(self.factory, self.n_features, self.code):
            n_read = part.rows.stop
            if self.kept is not None:
                first, last = np.searchsorted(self.kept, [part.rows.start, part.rows.stop])
                places = self.kept[first:last] - part.start
                part = part._replace(X=part.X[places], Y=None if part.Y is None else part.Y[places])
            yield part
        if n_read != self.n_given:
            is_short = n_read < self.n_given
            raise DataError(
                f"{self.name} {'ends early' if is_short else 'goes on'}: row {min(n_read, self.n_given)} is "
                f"{'missing' if is_short else 'there'}, {self.n_given} rows were announced"
            )


#: The name of blocks in messages.
_BLOCKS = "the row blocks"


def _given_blocks(factory: Any, width: int | None, code: Code | None) -> Iterator[Block]:
    """Yield the given blocks, checked."""
    start = 0
    for item in factory() if callable(factory) else factory:
        X, y = item if isinstance(item, tuple) and len(item) == 2 else (item, None)
        block = read_block(X, y, _BLOCKS, range(start, sys.maxsize), width, code, start)
        width, start = int(block.X.shape[1]), block.rows.stop
        yield block


def read_block(
    X: Any, y: Any, name: str, given: Any, n_features: int | None, code: Code | None, start: int, weights: Any = None
) -> Block:
    """Return finite float64 rows as a block that begins with row ``start``; one target per row, coded, or None.

    ``given`` are the numbers of the rows among those given; ``n_features`` None: any width.
    """
    first = int(given[0])
    for array, word in ((X, "rows"), (y, "targets")):
        if is_device_array(array):
            raise DataError(
                f"{name}, rows from {first}: the {word} are {where_it_lives(array)}, and rows read in passes are "
                "numpy's; convert each block (X.cpu().numpy() for torch, X.get() for CuPy), or fit one array that fits "
                "the device"
            )
    try:
        refuse_disguised(X, "X")
        rows = np.asarray(X)
        targets = None if y is None else np.asarray(y)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name}, rows from {first}: {error}") from error
    if rows.ndim != 2:
        raise DataError(f"{name}, rows from {first}: a block of rows must be 2-D, received shape {rows.shape}")
    if rows.shape[0] == 0:
        raise DataError(f"{name}, at row {first}: the block is empty; leave it out")
    place = f"{name}, rows {first} to {int(given[rows.shape[0] - 1])}"
    if n_features is not None and rows.shape[1] != n_features:
        raise DataError(f"{place}: {rows.shape[1]} columns where {n_features} are expected")
    if rows.shape[1] == 0:
        raise DataError(f"{place}: no column besides the target")
    if rows.dtype.kind not in "fiub":
        raise DataError(f"{place}: the rows have dtype {rows.dtype}; real numbers are needed")
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    refused = ~np.isfinite(rows)
    if refused.any():
        row, column = (int(i) for i in np.argwhere(refused)[0])
        raise DataError(f"{place}: NaN or infinity, first in row {given[row]}, column {column}; drop or impute it")
    targets = None if targets is None else _checked_targets(targets, place, given, rows.shape[0])
    return Block(rows, targets if code is None else code(targets, name, given), start, weights)


def _checked_targets(y: Any, place: str, given: Any, n: int) -> Any:
    if y.shape != (n,):
        raise DataError(f"{place}: targets of shape {y.shape} for {n} rows; one per row is needed")
    if y.dtype.kind == "c" or y.dtype.kind in "Mm":
        raise DataError(f"{place}: the targets have dtype {y.dtype}; real numbers or labels are needed")
    missing = ~np.isfinite(y) if y.dtype.kind == "f" else np.zeros(n, dtype=bool)
    if y.dtype.kind == "O":
        missing = np.array([value is None or value != value for value in y])
        y = y if missing.any() else np.array(y.tolist())  # text and numbers as arrays of separate types
    if missing.any():
        raise DataError(f"{place}: the target has no finite value, first in row {given[int(missing.argmax())]}")
    return y


def is_mapped(values: Any, ndim: int) -> bool:
    """Return whether values are a file that is mapped into memory."""
    return isinstance(values, np.memmap) and values.ndim == ndim


def streams(X: Any, y: Any = None) -> bool:
    """Return whether X is read in passes: a Dask collection, blocks, or a source."""
    if isinstance(X, Source) or _is_dask(X):
        return True
    if (
        y is not None
        or X is None
        or isinstance(X, (str, bytes))
        or is_sparse(X)
        or any(hasattr(X, a) for a in ("shape", "__array__", "__dataframe__"))
    ):
        return False
    if callable(X):
        return True
    if isinstance(X, (list, tuple)):  # blocks are arrays or pairs of them, rows are lists of numbers
        first = X[0] if len(X) > 0 else None
        return getattr(first[0] if isinstance(first, tuple) and len(first) == 2 else first, "ndim", 0) == 2
    return isinstance(X, Iterable)


def source_of(X: Any, y: Any = None) -> Source:
    """Return the source of a Dask collection and its targets, of blocks, or of a source."""
    if _is_dask(X):
        return SlicedSource.of_dask(X, y)
    if y is not None:
        raise DataError("row blocks have their own targets, (X, y) each; leave y out")
    return X if isinstance(X, Source) else RowBlocks.of(X)


def draw_rows(n: int, count: int | None, generator: np.random.Generator) -> Any:
    """Return all of n rows, or ``count`` drawn at random, in ascending order; no draw is made where all are wanted."""
    if count is None or count >= n:
        return np.arange(n)
    return np.sort(generator.choice(n, size=int(count), replace=False))


def width_rows(n: int) -> Any:
    """Return the rows of n from which a kernel on a reduced basis determines its width."""
    return draw_rows(n, WIDTH_ROWS, np.random.default_rng(_WIDTH_SEED))


def numbers(targets: Any, name: str, given: Any) -> Array:
    """Return targets as one column of floats."""
    if targets is None:
        raise DataError(f"{name} has no targets; a fit needs them")
    if targets.dtype.kind not in "fiub":
        raise DataError(f"{name}, from row {given[0]}: targets of dtype {targets.dtype}; a regression needs numbers")
    return np.asarray(targets, dtype=np.float64)[:, None]


@dataclass(frozen=True, slots=True)
class LabelCodes:
    """The rows of a code book, by the classes of the labels."""

    classes: Any
    book: Array

    def __call__(self, labels: Any, name: str, given: Any) -> Array:
        """Return codes of some labels."""
        places = np.searchsorted(self.classes, labels).clip(max=self.classes.size - 1)
        strange = self.classes[places] != labels
        if strange.any():
            row = int(strange.argmax())
            raise DataError(
                f"{name}, row {given[row]}: the label {labels[row]!r} is none of the classes {self.classes}"
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
