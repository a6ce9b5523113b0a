"""Sources from user input: mapped arrays, Dask collections, iterables of row blocks, and the choice among them.

A mapped array and a Dask collection are read one slice at a time; Dask computes a slice where it is needed, and its
graph is unchanged but for slices. Row blocks come from an iterable that can be iterated again and again, in this
process.
"""

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from substrate.errors import DataError
from substrate.streaming.array_source import ArraySource
from substrate.streaming.source import LEAF, Block, Source, checked_block, is_dask, reblock, refuse_short

__all__ = ["RowBlocks", "SlicedSource", "is_mapped", "source_of"]


def is_mapped(values: Any, ndim: int) -> bool:
    """Return whether values are a file that is mapped into memory."""
    return isinstance(values, np.memmap) and values.ndim == ndim


@dataclass(frozen=True, slots=True, eq=False)
class SlicedSource(Source):
    """An array of rows and one of targets or none, both mapped files or both of Dask, of known lengths."""

    X: Any
    y: Any
    columns: tuple[str, ...] | None = None

    @classmethod
    def of_dask(cls, X: Any, y: Any = None) -> Self:
        """Compute unknown lengths. The target is the name of a column of a dataframe, or another collection."""
        columns = None
        if hasattr(X, "to_dask_array"):
            if isinstance(y, str):
                if y not in X.columns:
                    raise DataError(f"the dataframe has no column {y!r}; it has {', '.join(map(str, X.columns))}")
                X, y = X.drop(columns=y), X[y]
            columns = tuple(map(str, X.columns))
            X = X.to_dask_array(lengths=True)
        if y is not None and hasattr(y, "to_dask_array"):
            plain = getattr(y.dtype, "kind", "O") in "fiub"
            y = (y if plain else y.astype(object)).to_dask_array(lengths=True)  # text as Python's own
        if y is not None and not is_dask(y):
            raise DataError(
                f"rows in a Dask collection need targets in one, or the name of a column; received {type(y).__name__}"
            )
        X, y = _compute_sizes(X), None if y is None else _compute_sizes(y)
        return cls(X, y, columns).check_shapes()

    def check_shapes(self) -> Self:
        """Return the same; refuse arrays of other shapes than rows and one target for each."""
        X, y = self.X, self.y
        if X.ndim != 2:
            raise DataError(f"X must be 2-D, received {self.name} of shape {X.shape}")
        if X.shape[0] == 0:
            raise DataError(f"{self.name} holds no rows: its shape is {X.shape}")
        if y is not None and y.shape != X.shape[:1]:
            raise DataError(f"X has {X.shape[0]} rows and y has shape {y.shape}; one target per row is needed")
        return self

    @property
    def is_dask(self) -> bool:
        """Return whether the arrays are of Dask."""
        return is_dask(self.X)

    @property
    def name(self) -> str:
        """Return the file that is mapped, or a name for a collection."""
        return "the Dask collection" if self.is_dask else f"the mapped file {self.X.filename}"

    @property
    def n_rows(self) -> int:
        """Return the number of rows."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Return the number of columns."""
        return int(self.X.shape[1])

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Return the column names of a dataframe."""
        return self.columns

    def blocks(self, start: int, stop: int, step: int) -> Iterator[Block]:
        """Yield slices, checked."""
        for begin in range(start, stop, step):
            rows = slice(begin, min(begin + step, stop))
            y = None if self.y is None else _read(self.y[rows])
            yield checked_block(_read(self.X[rows]), y, self.name, begin, self.n_features)

    def take_rows(self, rows: Any) -> Any:
        """Return rows by number, in ascending order."""
        return np.asarray(_read(self.X[rows]), dtype=np.float64)

    def delay(self, start: int, stop: int) -> Any:
        """Return a span as a source that Dask computes where it is needed."""
        from dask import delayed

        y = None if self.y is None else self.y[start:stop]
        span = delayed(_computed_span, pure=False)
        return span(self.X[start:stop], y, self.name, start, self.n_features)


def _computed_span(X: Any, y: Any, name: str, start: int, n_features: int) -> ArraySource:
    return ArraySource(*checked_block(X, y, name, start, n_features))


def _read(part: Any) -> Any:
    return part.compute() if is_dask(part) else np.asarray(part)


def _compute_sizes(collection: Any) -> Any:
    if np.isnan(np.array(collection.shape, dtype=float)).any():
        collection = copy(collection)  # the method modifies its object
        collection.compute_chunk_sizes()
    return collection


@dataclass(frozen=True, slots=True)
class RowBlocks(Source):
    """Blocks ``(X, y)``, or ``X`` alone for prediction, of any number of rows each; counted in a first pass."""

    factory: Any
    rows: int
    width: int

    @classmethod
    def of(cls, blocks: Iterable[Any] | Callable[[], Iterable[Any]]) -> Self:
        """Take an iterable, or a function that returns one; it must give the same blocks every time."""
        if not callable(blocks) and iter(blocks) is blocks:
            raise DataError(
                "these row blocks can be iterated only once, and a fit makes several passes; pass a list, or a "
                "function that returns a new generator"
            )
        counted = cls(blocks, 0, 0)
        for block in counted._parts(None):
            counted = cls(blocks, block.rows.stop, int(block.X.shape[1]))
        if counted.rows == 0:
            raise DataError(f"{counted.name} hold no rows")
        return counted

    @property
    def name(self) -> str:
        """Return a name for them."""
        return "the row blocks"

    @property
    def n_rows(self) -> int:
        """Return the counted number of rows."""
        return self.rows

    @property
    def n_features(self) -> int:
        """Return the width of the first block."""
        return self.width

    @property
    def seekable(self) -> bool:
        """Return False: all blocks before are read as well."""
        return False

    def blocks(self, start: int, stop: int, step: int) -> Iterator[Block]:
        """Return all blocks from the beginning."""
        return reblock(self._parts(self.width), start, stop, step)

    def take_rows(self, rows: Any) -> Any:
        """Return the rows in one pass over all blocks."""
        wanted = np.asarray(rows, dtype=np.intp)
        blocks = self.blocks(0, self.rows, LEAF)
        inside = ((block, (wanted >= block.start) & (wanted < block.rows.stop)) for block in blocks)
        return np.concatenate(
            [block.X[wanted[is_inside] - block.start] for block, is_inside in inside if is_inside.any()]
        )

    def _parts(self, width: int | None) -> Iterator[Block]:
        start = 0
        for item in self.factory() if callable(self.factory) else self.factory:
            X, y = item if isinstance(item, tuple) and len(item) == 2 else (item, None)
            block = checked_block(X, y, self.name, start, width)
            width, start = int(block.X.shape[1]), block.rows.stop
            yield block
        if self.rows:
            refuse_short(self.name, self.rows, start)


def source_of(X: Any, y: Any = None) -> Source:
    """Return the source of a Dask collection and its targets, of blocks, or of a source."""
    if is_dask(X):
        return SlicedSource.of_dask(X, y)
    if y is not None:
        raise DataError("row blocks have their own targets, (X, y) each; leave y out")
    return X if isinstance(X, Source) else RowBlocks.of(X)
