"""Rows in a Parquet file, or in all files of a folder in the order of their names, row group by row group."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

import numpy as np

from substrate.errors import DataError
from substrate.streaming.checks import checked_block, reblocked, refuse_short
from substrate.streaming.source import Block, Source

__all__ = ["ParquetSource", "pyarrow_parquet"]

_SUFFIXES = (".parquet", ".pq")
#: Columns that a message names at most.
_SHOWN = 10


def pyarrow_parquet() -> Any:
    """The Parquet module of pyarrow, or an error that says how to get it."""
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise DataError('Parquet files need pyarrow: pip install "lssvm-substrate[parquet]"') from error
    return parquet


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One row group: its file, its number there, and which rows of all it holds."""

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
        """Look at the footers only. Inputs are all columns but the target and those to drop, unless they are named."""
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
                    _present(file, schema.names, [*drop, *([] if target is None else [target])])
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
        """The path."""
        return self.path

    @property
    def n_rows(self) -> int:
        """As the footers say."""
        return self.groups[-1].stop

    @property
    def n_features(self) -> int:
        """How many inputs."""
        return len(self.columns)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The inputs."""
        return self.columns

    def blocks(self, start: int, stop: int, step: int) -> Iterator[Block]:
        """Row groups that hold none of the rows are not read."""
        return reblocked(self._read(start, stop, step), start, stop, step)

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


def _present(file: str, names: Sequence[str], wanted: Sequence[str]) -> None:
    known = set(names)
    for column in wanted:
        if column not in known:
            few = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
            raise DataError(f"{file} has no column {column!r}; it has {few}")


def _check_schema(file: str, schema: Any, columns: Sequence[str], target: str | None) -> None:
    from pyarrow import types

    _present(file, schema.names, [*columns, *([] if target is None else [target])])
    for column in columns:
        kind = schema.field(column).type
        if not (types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)):
            raise DataError(f"column {column!r} of {file} is of type {kind}; real numbers are needed: code or drop it")
