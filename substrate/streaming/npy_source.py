"""Rows in ``.npy`` files: a matrix in one, its targets in another, each opened by whoever reads.

The bytes are read, not mapped: a file that ends early is then an error that names its rows, and what was read does not
stay in memory.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.lib import format as npy

from substrate.errors import DataError
from substrate.streaming.checks import checked_block
from substrate.streaming.source import Block, Source

__all__ = ["NpyFile", "NpySource", "is_mapped"]

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def is_mapped(values: Any, ndim: int) -> bool:
    """Whether values are a file that is mapped into memory, their rows behind each other.

    A file that is gone, and one mapped copy-on-write, whose changes are in memory only, cannot be read in its place.
    """
    if not isinstance(values, np.memmap) or values.filename is None or values.ndim != ndim or values.mode == "c":
        return False
    return bool(values.flags.c_contiguous) and os.path.isfile(values.filename)


@dataclass(frozen=True, slots=True)
class NpyFile:
    """One array on disk: where its bytes begin, and what they are."""

    path: str
    offset: int
    shape: tuple[int, ...]
    dtype: str

    @classmethod
    def of(cls, path: str | os.PathLike[str], ndim: int) -> Self:
        """Read the header; the file must be as long as it says."""
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
        made = cls(name, offset, shape, dtype.str)
        whole = (size - offset) // made.row_bytes
        if whole < shape[0]:
            raise DataError(f"{name} ends early: its header announces {shape[0]} rows, it holds {whole}")
        return made

    @classmethod
    def behind(cls, mapped: Any) -> Self:
        """The file of a memory-mapped array, which may be a part of it."""
        whole = mapped
        while isinstance(whole.base, np.memmap):
            whole = whole.base
        if mapped.mode != "r":
            mapped.flush()  # what was written to the map must be in the file before that is read
        offset = int(whole.offset) + mapped.ctypes.data - whole.ctypes.data
        return cls(os.fspath(mapped.filename), offset, mapped.shape, mapped.dtype.str)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return int(np.dtype(self.dtype).itemsize * math.prod(self.shape[1:]))

    def read(self, start: int, stop: int) -> Any:
        """Some rows."""
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

    @classmethod
    def of(cls, path: str | os.PathLike[str], target: str | os.PathLike[str] | None = None) -> Self:
        """Open both, to see that they belong together."""
        rows = NpyFile.of(path, 2)
        targets = None if target is None else NpyFile.of(target, 1)
        if targets is not None and targets.shape[0] != rows.shape[0]:
            raise DataError(f"{rows.path} has {rows.shape[0]} rows and {targets.path} has {targets.shape[0]} targets")
        return cls(rows, targets)

    @classmethod
    def mapped(cls, X: Any, y: Any) -> Self:
        """The file behind a memory-mapped matrix; targets are mapped likewise."""
        rows, targets = NpyFile.behind(X), None if y is None else NpyFile.behind(y)
        if targets is not None and targets.shape != rows.shape[:1]:
            raise DataError(f"X has {rows.shape[0]} rows and y has shape {targets.shape}; one target a row is needed")
        return cls(rows, targets)

    @property
    def name(self) -> str:
        """The path."""
        return self.rows.path

    @property
    def n_rows(self) -> int:
        """As the header says."""
        return self.rows.shape[0]

    @property
    def n_features(self) -> int:
        """As the header says."""
        return self.rows.shape[1]

    def blocks(self, start: int, stop: int, step: int) -> Iterator[Block]:
        """Read and check."""
        for begin in range(start, stop, step):
            end = min(begin + step, stop)
            y = None if self.targets is None else self.targets.read(begin, end)
            yield checked_block(self.rows.read(begin, end), y, self.name, begin, self.n_features)
