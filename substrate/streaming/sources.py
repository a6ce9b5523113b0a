"""Sources from user input: ``.npy`` files, iterables of row blocks, and the choice among all sources.

In ``.npy`` files a matrix is in one and its targets in another, each opened by the process that reads it. The bytes are
read, not mapped: a file that ends early is then an error that names its rows, and rows do not stay in memory. Row
blocks come from an iterable that can be iterated again and again, in this process.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.lib import format as npy

from substrate.errors import DataError
from substrate.streaming.dask_source import DaskSource
from substrate.streaming.parquet_source import ParquetSource
from substrate.streaming.source import (
    LEAF,
    Block,
    Source,
    checked_block,
    is_dask,
    reblock,
    refuse_short,
)

__all__ = ["NpyFile", "NpySource", "RowBlocks", "files_behind", "is_mapped", "source_of"]

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def is_mapped(values: Any, ndim: int) -> bool:
    """Return whether values are a file that is mapped into memory, with contiguous rows.

    A deleted file, and one mapped copy-on-write, whose changes are in memory only, cannot be read instead.
    """
    if not isinstance(values, np.memmap) or values.filename is None or values.ndim != ndim or values.mode == "c":
        return False
    return bool(values.flags.c_contiguous) and os.path.isfile(values.filename)


@dataclass(frozen=True, slots=True)
class NpyFile:
    """One array on disk: the offset of its data, its shape and dtype."""

    path: str
    offset: int
    shape: tuple[int, ...]
    dtype: str

    @classmethod
    def of(cls, path: str | os.PathLike[str], ndim: int) -> Self:
        """Read the header; the file must have the length it implies."""
        name = os.fspath(path)
        try:
            with open(name, "rb") as stream:
                shape, fortran, dtype = _HEADERS[npy.read_magic(stream)](stream)
                offset, size = stream.tell(), Path(name).stat().st_size
        except FileNotFoundError as error:
            raise DataError(f"there is no file {name}") from error
        except (KeyError, ValueError) as error:
            raise DataError(f"{name} is not a .npy file, or its header is damaged: {error}") from error
        if len(shape) != ndim:
            raise DataError(f"{name} must hold a {ndim}-D array, received shape {shape}")
        if fortran and ndim > 1:
            raise DataError(f"{name} is stored by columns; save np.ascontiguousarray(X), whose rows can be read alone")
        if dtype.kind not in ("fiub" if ndim == 2 else "fiubU"):
            raise DataError(f"{name} holds dtype {dtype}; real numbers are needed{'' if ndim == 2 else ', or text'}")
        if 0 in shape:
            raise DataError(f"{name} is empty: received shape {shape}")
        file = cls(name, offset, shape, dtype.str)
        whole = (size - offset) // file.row_bytes
        if whole < shape[0]:
            raise DataError(f"{name} ends early: its header announces {shape[0]} rows, it holds {whole}")
        return file

    @classmethod
    def behind(cls, mapped: Any) -> Self:
        """Return the file of a memory-mapped array, which may be a part of it."""
        whole = mapped
        while isinstance(whole.base, np.memmap):
            whole = whole.base
        if mapped.mode != "r":
            mapped.flush()  # changes of the map must be in the file before it is read
        offset = int(whole.offset) + mapped.ctypes.data - whole.ctypes.data
        return cls(os.fspath(mapped.filename), offset, mapped.shape, mapped.dtype.str)

    @property
    def row_bytes(self) -> int:
        """Return bytes of a row."""
        return int(np.dtype(self.dtype).itemsize * math.prod(self.shape[1:]))

    def read(self, start: int, stop: int) -> Any:
        """Return the rows from ``start`` to ``stop``."""
        width = math.prod(self.shape[1:])
        with open(self.path, "rb") as stream:
            stream.seek(self.offset + start * self.row_bytes)
            values = np.fromfile(stream, dtype=self.dtype, count=(stop - start) * width)
        if values.size < (stop - start) * width:
            raise DataError(f"{self.path} ends early: row {start + values.size // width} is missing")
        return values.reshape(stop - start, *self.shape[1:])


@dataclass(frozen=True, slots=True)
class NpySource(Source):
    """A file of rows, and one of targets or none."""

    rows: NpyFile
    targets: NpyFile | None

    @property
    def files(self) -> tuple[str, ...]:
        """Return the files of the rows and of the targets."""
        return (self.rows.path, *(() if self.targets is None else (self.targets.path,)))

    @classmethod
    def of(cls, path: str | os.PathLike[str], target: str | os.PathLike[str] | None = None) -> Self:
        """Open both, and check that they belong together."""
        rows = NpyFile.of(path, 2)
        targets = None if target is None else NpyFile.of(target, 1)
        if targets is not None and targets.shape[0] != rows.shape[0]:
            raise DataError(f"{rows.path} has {rows.shape[0]} rows and {targets.path} has {targets.shape[0]} targets")
        return cls(rows, targets)

    @classmethod
    def from_memory_map(cls, X: Any, y: Any) -> Self:
        """Return the file behind a memory-mapped matrix; targets are mapped likewise."""
        rows, targets = NpyFile.behind(X), None if y is None else NpyFile.behind(y)
        if targets is not None and targets.shape != rows.shape[:1]:
            raise DataError(f"X has {rows.shape[0]} rows and y has shape {targets.shape}; one target per row is needed")
        return cls(rows, targets)

    @property
    def name(self) -> str:
        """Return the path."""
        return self.rows.path

    @property
    def n_rows(self) -> int:
        """Return the number of rows in the header."""
        return self.rows.shape[0]

    @property
    def n_features(self) -> int:
        """Return the number of columns in the header."""
        return self.rows.shape[1]

    def blocks(self, start: int, stop: int, step: int) -> Iterator[Block]:
        """Read and check."""
        for begin in range(start, stop, step):
            end = min(begin + step, stop)
            y = None if self.targets is None else self.targets.read(begin, end)
            rows = self.rows.read(begin, end)
            yield checked_block(rows, y, self.name, begin, self.n_features)


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


def files_behind(X: Any) -> tuple[str, ...]:
    """Return the files and folders from which rows are read, as far as they are known: of mapped arrays and of
    sources.
    """
    if isinstance(X, Source):
        return X.files
    files = []
    while isinstance(X, np.ndarray):  # a view keeps its base
        if isinstance(X, np.memmap) and X.filename is not None:
            files.append(os.fspath(X.filename))
        X = X.base
    return tuple(files)


def source_of(X: Any, y: Any = None) -> Source:
    """Return the source of a ``.npy`` file X and another y; of a Parquet file or folder and its target; and so on."""
    if not (isinstance(X, (Source, str, os.PathLike)) or is_dask(X)):
        if y is not None:
            raise DataError("row blocks have their own targets, (X, y) each; leave y out")
        return RowBlocks.of(X)
    return _known_source(X, y)


def _known_source(X: Any, y: Any) -> Source:
    if isinstance(X, Source):
        if y is not None:
            raise DataError("a source of rows has its own targets; leave y out")
        return X
    return DaskSource.of(X, y) if is_dask(X) else _file(X, y)


def _file(X: str | os.PathLike[str], y: Any) -> Source:
    if y is not None and not isinstance(y, (str, os.PathLike)):
        raise DataError(
            f"rows in the file {os.fspath(X)} need targets there: the name of a column of a Parquet file, or the path "
            f"of a .npy file beside a .npy file; received {type(y).__name__}"
        )
    path = Path(X)
    if path.suffix == ".npy":
        return NpySource.of(X, y)
    if path.is_dir() or path.suffix in (".parquet", ".pq"):
        return ParquetSource.of(X, None if y is None else os.fspath(y))
    if not path.exists():
        raise DataError(f"there is no file or folder {path}; rows come from .npy files, or Parquet files and folders")
    raise DataError(f"{path} is neither a .npy file nor Parquet (*.parquet, *.pq, or a folder of them)")
