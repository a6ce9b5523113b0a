"""Columns written row block by row block to a ``.npy``, Parquet or CSV file that is whole or absent."""

import csv
import io
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from substrate.errors import DataError
from substrate.streaming.csv_cells import csv_cells, csv_row
from substrate.streaming.parquet_source import pyarrow_parquet
from substrate.whole_file import written_whole

__all__ = ["SUFFIXES", "column_file"]

#: What a file may be called.
SUFFIXES = (".npy", ".parquet", ".pq", ".csv")

Columns = Mapping[str, Any]
Write = Callable[[Columns], None]


@contextmanager
def column_file(path: str | os.PathLike[str], n_rows: int) -> Iterator[Write]:
    """A function that appends a block; the file appears when the block ends with all rows written, and only then."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise DataError(f"{os.fspath(path)} must end in {', '.join(SUFFIXES)}")
    kind = {".npy": _npy, ".csv": _csv}.get(suffix, _parquet)
    written = 0

    with written_whole(path) as stream, kind(stream, n_rows) as append:

        def counted(columns: Columns) -> None:
            nonlocal written
            append(columns)
            written += len(next(iter(columns.values())))

        yield counted
        if written != n_rows:
            raise DataError(f"{written} of {n_rows} rows came for {os.fspath(path)}; nothing was written")


@contextmanager
def _npy(stream: BinaryIO, n_rows: int) -> Iterator[Write]:
    head: list[Any] = []

    def append(columns: Columns) -> None:
        if len(columns) > 1:
            columns = {"prediction": columns["prediction"]}
        (values,) = (np.ascontiguousarray(column) for column in columns.values())
        if not head:
            shape = (n_rows, *values.shape[1:])
            descr = npy.dtype_to_descr(values.dtype)
            npy.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
            head.append(values.dtype)
        stream.write(values.astype(head[0], casting="safe").tobytes())

    yield append


@contextmanager
def _csv(stream: BinaryIO, n_rows: int) -> Iterator[Write]:
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    head: list[Any] = []

    def append(columns: Columns) -> None:
        if not head:
            writer.writerow(csv_row(columns))
            head.append(columns)
        writer.writerows(zip(*map(csv_cells, columns.values()), strict=True))

    try:
        yield append
    finally:
        text.detach()


@contextmanager
def _parquet(stream: BinaryIO, n_rows: int) -> Iterator[Write]:
    parquet = pyarrow_parquet()
    from pyarrow import table

    opened: list[Any] = []

    def append(columns: Columns) -> None:
        block = table({name: part.tolist() if part.dtype.kind == "U" else part for name, part in columns.items()})
        if not opened:
            opened.append(parquet.ParquetWriter(stream, block.schema))
        opened[0].write_table(block)

    try:
        yield append
    finally:
        if opened:
            opened[0].close()
