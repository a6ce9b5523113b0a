r"""Sources of rows: what a pass reads, by row numbers, wherever the rows are stored.

Rows are read in steps of any multiple of :data:`MICRO` rows, and processed in micro-blocks of exactly that many: the
result for a row never depends on how it was read.

Every block must have rows of one width, real and finite; an error names the source and the rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from substrate.arrays import is_sparse, refuse_disguised
from substrate.errors import DataError
from substrate.namespaces import HOST, is_device_array, where_it_lives

__all__ = [
    "LEAF",
    "MICRO",
    "Block",
    "Source",
    "checked_block",
    "is_dask",
    "micro_blocks",
    "reblock",
    "refuse_short",
    "streams",
]

#: Rows of a micro-block, the argument of a function of rows.
MICRO = 4096
#: Rows of a leaf of the summation tree: four micro-blocks, so that the addition of leaves is a small part of the work.
LEAF = 4 * MICRO


class Block(NamedTuple):
    """Consecutive rows, their targets, the number of the first of them, and their weights; None: all are one."""

    X: Any
    Y: Any
    start: int
    weights: Any = None

    @property
    def rows(self) -> slice:
        """Return the range of their numbers."""
        return slice(self.start, self.start + int(self.X.shape[0]))


class Source(ABC):
    """Rows and targets by number."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Return its name in messages."""

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Return the number of rows."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Return the number of columns without the target."""

    @property
    def seekable(self) -> bool:
        """Return whether reading may start anywhere; otherwise every pass begins at the first row."""
        return True

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Return the names of the columns, if any."""
        return None

    @property
    def home(self) -> str:
        """Return where the rows are stored: numpy, or a library and a device."""
        return HOST

    @property
    def is_dask(self) -> bool:
        """Return whether Dask computes the rows."""
        return False

    @property
    def block_in_memory(self) -> Block | None:
        """Return all rows in one block where they are in memory; None where they are read in passes."""
        return None

    def whole(self, why: str) -> Block:
        """Return all rows in one block; ``why`` begins the error where they are not."""
        if self.block_in_memory is None:
            raise DataError(f"{why}, and {self.name} is read in passes")
        return self.block_in_memory

    def row_weights(self) -> Any:
        """Return the weights of all rows, which are positive and always in memory; None: all are one."""
        return None

    def beside(self, values: Any) -> Any:
        """Return values of the host, copied to where the rows are."""
        return values

    @abstractmethod
    def blocks(self, start: int, stop: int, step: int) -> Iterator[Block]:
        """Return the rows from ``start`` to ``stop``, ``step`` at a time; the last block may be shorter."""

    def take_rows(self, rows: Any) -> Any:
        """Return the rows with the given numbers, in ascending order; other parts are not read where possible."""
        wanted = np.asarray(rows, dtype=np.intp)
        blocks = []
        for start in np.unique(wanted // LEAF) * LEAF:
            stop = min(int(start) + LEAF, self.n_rows)
            inside = wanted[(wanted >= start) & (wanted < stop)] - int(start)
            (block,) = self.blocks(int(start), stop, LEAF)
            blocks.append(block.X[inside])
        return np.concatenate(blocks)

    def delay(self, start: int, stop: int) -> Any:
        """Return a span of rows that Dask computes, as a delayed source; others have none."""
        raise NotImplementedError


def micro_blocks(blocks: Iterator[Block]) -> Iterator[Block]:
    """Yield the same rows in micro-blocks; blocks start at multiples of :data:`MICRO`."""
    for block in blocks:
        n = int(block.X.shape[0])
        for first in range(0, n, MICRO):
            yield _cut_block(block, first, min(first + MICRO, n))


def _where(name: str, start: int, n: int) -> str:
    return f"{name}, rows {start} to {start + max(n, 1) - 1}"


def checked_block(X: Any, y: Any, name: str, start: int, n_features: int | None) -> Block:
    """Return a block as finite float64 rows and one target per row, or None; ``n_features`` None: any width."""
    for array, word in ((X, "rows"), (y, "targets")):
        if is_device_array(array):
            raise DataError(
                f"{name}, rows from {start}: the {word} are {where_it_lives(array)}, and rows read in passes are "
                "numpy's; convert each block (X.cpu().numpy() for torch, X.get() for CuPy), or fit one array that fits "
                "the device"
            )
    try:
        refuse_disguised(X, "X")
        rows = np.asarray(X)
        targets = None if y is None else np.asarray(y)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name}, rows from {start}: {error}") from error
    if rows.ndim != 2:
        raise DataError(f"{name}, rows from {start}: a block of rows must be 2-D, received shape {rows.shape}")
    place = _where(name, start, rows.shape[0])
    if rows.shape[0] == 0:
        raise DataError(f"{name}, at row {start}: the block is empty; leave it out")
    if n_features is not None and rows.shape[1] != n_features:
        raise DataError(f"{place}: {rows.shape[1]} columns where {n_features} are expected")
    if rows.shape[1] == 0:
        raise DataError(f"{place}: no column beside the target")
    if rows.dtype.kind not in "fiub":
        raise DataError(f"{place}: the rows have dtype {rows.dtype}; real numbers are needed")
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    refused = ~np.isfinite(rows)
    if refused.any():
        row, column = (int(i) for i in np.argwhere(refused)[0])
        raise DataError(f"{place}: NaN or infinity, first in row {start + row}, column {column}; drop or impute it")
    return Block(rows, None if targets is None else _targets(targets, place, start, rows.shape[0]), start)


def _targets(y: Any, place: str, start: int, n: int) -> Any:
    if y.shape != (n,):
        raise DataError(f"{place}: targets of shape {y.shape} for {n} rows; one per row is needed")
    if y.dtype.kind == "c" or y.dtype.kind in "Mm":
        raise DataError(f"{place}: the targets have dtype {y.dtype}; real numbers or labels are needed")
    missing = ~np.isfinite(y) if y.dtype.kind == "f" else np.zeros(n, dtype=bool)
    if y.dtype.kind == "O":
        missing = np.array([value is None or value != value for value in y])
        y = y if missing.any() else np.array(y.tolist())  # text and numbers as arrays of their own kind
    if missing.any():
        raise DataError(f"{place}: the target has no finite value, first in row {start + int(missing.argmax())}")
    return y


def refuse_short(name: str, expected: int, n_found: int) -> None:
    """Raise if a source holds fewer or more rows than expected."""
    if n_found != expected:
        word = "ends early" if n_found < expected else "goes on"
        raise DataError(
            f"{name} {word}: row {min(n_found, expected)} is {'missing' if n_found < expected else 'there'}, "
            f"{expected} rows were announced"
        )


def reblock(blocks: Iterable[Block], start: int, stop: int, step: int) -> Iterator[Block]:
    """Yield consecutive blocks of any size as blocks of ``step`` rows from ``start`` to ``stop``; the rest is
    discarded.
    """
    pending: list[Block] = []
    size, begin = 0, start
    for block in blocks:
        first, last = max(start - block.start, 0), min(stop - block.start, int(block.X.shape[0]))
        if first >= last:
            continue
        pending.append(_cut_block(block, first, last))
        size += last - first
        while size >= step:
            joined = _join_blocks(pending)
            yield _cut_block(joined, 0, step)._replace(start=begin)
            begin, size = begin + step, size - step
            pending = [_cut_block(joined, step, step + size)] if size else []
    if pending:
        yield _join_blocks(pending)._replace(start=begin)


def _cut_block(block: Block, first: int, last: int) -> Block:
    Y, weights = (None if values is None else values[first:last] for values in (block.Y, block.weights))
    return Block(block.X[first:last], Y, block.start + first, weights)


def _join_blocks(blocks: list[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    Y = None if blocks[0].Y is None else np.concatenate([block.Y for block in blocks])
    weights = None if blocks[0].weights is None else np.concatenate([block.weights for block in blocks])
    return Block(np.concatenate([block.X for block in blocks]), Y, blocks[0].start, weights)


def is_dask(X: Any) -> bool:
    """Return whether X is a Dask collection, without importing Dask."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(X, "__dask_graph__")


def streams(X: Any, y: Any = None) -> bool:
    """Return whether X is read in passes: a Dask collection, blocks, or a source."""
    if isinstance(X, Source) or is_dask(X):
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
