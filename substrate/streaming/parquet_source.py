"""Rows in a Parquet file, or in all files of a folder in the order of their names, row group by row group; and output.

Results are written by row blocks to a ``.npy``, Parquet or CSV file that is complete or absent. Text in the cells of a
CSV file is written so that a spreadsheet shows it instead of evaluating it.

A spreadsheet takes a cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break for a formula, and a
formula may start programs or send data; OWASP calls this CSV injection. Labels come from outside, so such a label is
written with an apostrophe before it, which marks text in spreadsheets. Numbers are unchanged. So that different labels
stay different, one that has apostrophes before such a character gets another; a program that reads the labels back
removes one.
"""

import csv
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.lib import format as npy

from substrate.errors import DataError
from substrate.streaming.source import Block, Source, checked_block, reblock, refuse_short
from substrate.whole_file import written_whole

__all__ = ["SUFFIXES", "ParquetSource", "column_file", "csv_cells", "csv_row", "pyarrow_parquet"]

_SUFFIXES = (".parquet", ".pq")
#: Largest number of columns that a message names.
_SHOWN = 10


def pyarrow_parquet() -> Any:
    """Return the Parquet module of pyarrow, or an error that states how to install it."""
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise DataError('Parquet files need pyarrow: pip install "lssvm-substrate[parquet]"') from error
    return parquet


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One row group: its file, its number there, and the range of its rows among all."""

    path: str
    number: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class ParquetSource(Source):
    """Columns of numbers and a target, found by name in every file."""

    path: str
    columns: tuple[str, ...]
    target: str | None
    groups: tuple[RowGroup, ...]

    @classmethod
    def of(
        cls,
        path: str | os.PathLike[str],
        target: str | None = None,
        columns: Sequence[str] | None = None,
        drop: Sequence[str] = (),
    ) -> Self:
        """Read the footers only. Inputs are all columns but the target and those to drop, unless they are given."""
        parquet = pyarrow_parquet()
        name = os.fspath(path)
        inputs: tuple[str, ...] | None = None if columns is None else tuple(columns)
        sizes: list[tuple[str, int, int]] = []
        for file in _files(name):
            try:
                opened = parquet.ParquetFile(file)
            except Exception as error:  # pyarrow's own errors share no base with ours
                raise DataError(f"{file} is not a Parquet file, or is damaged or ends early: {error}") from error
            with opened:
                schema, metadata = opened.schema_arrow, opened.metadata
                if inputs is None:
                    _check_present(file, schema.names, [*drop, *([] if target is None else [target])])
                    left_out = {target, *drop}
                    inputs = tuple(column for column in schema.names if column not in left_out)
                _check_schema(file, schema, inputs, target)
                sizes += [(file, k, metadata.row_group(k).num_rows) for k in range(metadata.num_row_groups)]
        stops = list(accumulate(size for _, _, size in sizes))
        if inputs is None or not stops or stops[-1] == 0:
            raise DataError(f"{name} holds no rows")
        if not inputs:
            raise DataError(f"{name} has no column beside the target {target!r}")
        groups = tuple(RowGroup(f, k, stop - size, stop) for (f, k, size), stop in zip(sizes, stops, strict=True))
        return cls(name, inputs, target, groups)

    @property
    def name(self) -> str:
        """Return the path."""
        return self.path

    @property
    def files(self) -> tuple[str, ...]:
        """Return the file or folder."""
        return (self.path,)

    @property
    def n_rows(self) -> int:
        """Return the number of rows in the footers."""
        return self.groups[-1].stop

    @property
    def n_features(self) -> int:
        """Return the number of inputs."""
        return len(self.columns)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Return the inputs."""
        return self.columns

    def blocks(self, start: int, stop: int, step: int) -> Iterator[Block]:
        """Yield blocks; row groups without any of the rows are not read."""
        return reblock(self._read(start, stop, step), start, stop, step)

    def _read(self, start: int, stop: int, step: int) -> Iterator[Block]:
        parquet = pyarrow_parquet()
        wanted = [*self.columns, *([] if self.target is None else [self.target])]
        for group in self.groups:
            if group.stop <= start or group.start >= stop:
                continue
            begin = group.start
            try:
                with parquet.ParquetFile(group.path, page_checksum_verification=True) as opened:
                    batches = opened.iter_batches(batch_size=step, row_groups=[group.number], columns=wanted)
                    for batch in batches:
                        end = begin + batch.num_rows
                        if end > start and begin < stop:
                            yield self._block(batch, group, begin)
                        begin = end
                        if begin >= stop:
                            break
            except DataError:
                raise
            except Exception as error:
                raise DataError(
                    f"{group.path}, rows {begin} to {group.stop - 1} of {self.name}: cannot be read: {error}"
                ) from error
            if begin < stop:
                refuse_short(group.path, group.stop, begin)

    def _block(self, batch: Any, group: RowGroup, start: int) -> Block:
        X = np.empty((batch.num_rows, len(self.columns)))
        for place, column in enumerate(self.columns):
            X[:, place] = batch.column(column).to_numpy(zero_copy_only=False)
        y = None if self.target is None else batch.column(self.target).to_numpy(zero_copy_only=False)
        return checked_block(X, y, group.path, start, self.n_features)


def _files(name: str) -> list[str]:
    path = Path(name)
    if path.is_dir():
        inside = sorted(str(file) for file in path.rglob("*") if file.suffix in _SUFFIXES and file.is_file())
        if not inside:
            raise DataError(f"the folder {name} holds no Parquet file (*.parquet, *.pq)")
        return inside
    if not path.is_file():
        raise DataError(f"there is no file or folder {name}")
    return [name]


def _check_present(file: str, names: Sequence[str], wanted: Sequence[str]) -> None:
    present = set(names)
    for column in wanted:
        if column not in present:
            few = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
            raise DataError(f"{file} has no column {column!r}; it has {few}")


def _check_schema(file: str, schema: Any, columns: Sequence[str], target: str | None) -> None:
    from pyarrow import types

    _check_present(file, schema.names, [*columns, *([] if target is None else [target])])
    for column in columns:
        kind = schema.field(column).type
        if not (types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)):
            raise DataError(f"column {column!r} of {file} is of type {kind}; real numbers are needed: code or drop it")


#: The last four are the full-width forms, which some spreadsheets read like the first.
_FORMULA = re.compile("'*[=+\\-@\\t\\r\\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z", re.ASCII)


def csv_row(values: Iterable[Any]) -> list[Any]:
    """Return values of any kind, with text made safe for a spreadsheet; the header of a file is one such row."""
    return [_shorten(value) if isinstance(value, str) else value for value in values]


def csv_cells(column: Any) -> list[Any]:
    """Return the same for the values of an array."""
    values: list[Any] = column.tolist()
    return values if column.dtype.kind in "biuf" else csv_row(values)


def _shorten(text: str) -> str:
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.match(text) else text


#: Suffixes of files that can be written.
SUFFIXES = (".npy", ".parquet", ".pq", ".csv")

Columns = Mapping[str, Any]
Write = Callable[[Columns], None]


@contextmanager
def column_file(path: str | os.PathLike[str], n_rows: int) -> Iterator[Write]:
    """Provide a function that appends a block; the file appears only when the ``with`` block ends with all rows."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise DataError(f"{os.fspath(path)} must end in {', '.join(SUFFIXES)}")
    kind = {".npy": _npy, ".csv": _csv}.get(suffix, _parquet)
    written = 0

    with written_whole(path) as stream, kind(stream, n_rows) as append:

        def append_counted(columns: Columns) -> None:
            nonlocal written
            append(columns)
            written += len(next(iter(columns.values())))

        yield append_counted
        if written != n_rows:
            raise DataError(f"{os.fspath(path)} received {written} of its {n_rows} rows; nothing was written")


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
        block = table(
            {name: values.tolist() if values.dtype.kind == "U" else values for name, values in columns.items()}
        )
        if not opened:
            opened.append(parquet.ParquetWriter(stream, block.schema))
        opened[0].write_table(block)

    try:
        yield append
    finally:
        if opened:
            opened[0].close()
