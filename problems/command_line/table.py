"""Tables of text: a CSV or Parquet file, or an embedded data set, as named columns of cells.

Nothing is guessed: a column is numeric when every cell of it is a finite number, and a missing cell (empty, ``NA``,
``N/A``, ``NaN``, ``null``, ``None`` or ``?``) is never filled in. ``substrate datasets`` lists the embedded data sets,
or writes one of them as CSV.
"""

import csv
import io
import math
import os
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

from substrate import datasets
from substrate.errors import DataError

__all__ = [
    "Table",
    "as_csv",
    "dataset_rows",
    "listing",
    "named_columns",
    "named_rows",
    "number",
    "question_of",
    "read_table",
]

#: Seed of the sets that are drawn, so that a name means one table.
_SEED = 0


def _bunch(name: str) -> Any:
    if name not in datasets.__all__:
        raise DataError(f"there is no data set {name!r}; there are {', '.join(datasets.__all__)}")
    function: Callable[..., Any] = getattr(datasets, name)
    drawn = {"random_state": _SEED} if "random_state" in signature(function).parameters else {}
    return function(return_X_y=False, **drawn)


def dataset_rows(name: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a data set, the target in the last column; drawn sets with a fixed seed."""
    bunch = _bunch(name)
    header = [*bunch.feature_names, bunch.target_name]
    rows = [[repr(float(x)) for x in row] for row in bunch.data]
    return header, [[*row, str(target)] for row, target in zip(rows, bunch.target, strict=True)]


def question_of(name: str) -> tuple[str, str]:
    """The target column of a data set, and the task: regression or classification."""
    bunch = _bunch(name)
    return str(bunch.target_name), "classification" if len(bunch.target_names) > 1 else "regression"


def as_csv(name: str) -> str:
    """A data set as the text of a CSV file."""
    header, rows = dataset_rows(name)
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([header, *rows])
    return stream.getvalue()


def listing() -> str:
    """One line per data set: name, size, task, target, and what it is."""
    head = ("name", "rows", "inputs", "task", "target", "what it is")
    cells = [head]
    for name in datasets.__all__:
        bunch = _bunch(name)
        classes = len(bunch.target_names)
        task = "regression" if classes == 1 else f"{classes} classes"
        what = bunch.DESCR.partition("\n")[0]
        cells.append((name, *map(str, bunch.data.shape), task, bunch.target_name, what))
    widths = [max(len(row[j]) for row in cells) for j in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    lines.insert(1, "-" * max(map(len, lines)))
    lines += ["", "Fit one:       substrate fit @motorcycle --out model.npz --report report.html"]
    lines += ["Write one out: substrate datasets motorcycle --out motorcycle.csv"]
    return "\n".join(lines)


_MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
_OTHER_DELIMITERS = {";": "';'", "\t": "$'\\t'", "|": "'|'"}
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Table:
    """Named columns of cells, all of one length, and where they come from."""

    source: str
    columns: dict[str, tuple[str, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """The header."""
        return tuple(self.columns)

    @property
    def n_rows(self) -> int:
        """The number of rows below the header."""
        return len(next(iter(self.columns.values())))

    def column(self, name: str) -> tuple[str, ...]:
        """The cells of one column."""
        if name not in self.columns:
            raise DataError(f"{self.source} has no column {name!r}; it has {named_columns(self.names)}")
        return self.columns[name]

    def numbers(self, name: str) -> list[float] | None:
        """The numbers in the cells of a column, or None where a cell is not a number."""
        cells = self.column(name)
        try:
            values = list(map(float, cells))
        except ValueError:
            return None
        plain = all(map(math.isfinite, values)) and not any("_" in cell for cell in cells)
        return values if plain else None

    def without(self, names: Sequence[str]) -> "Table":
        """The table less some columns, each of which must be there."""
        for name in names:
            self.column(name)
        left_out = set(names)
        return Table(self.source, {name: cells for name, cells in self.columns.items() if name not in left_out})

    def refuse_missing(self, names: Sequence[str]) -> None:
        """Name the rows of the first of these columns that has missing cells."""
        for name in names:
            rows = [row for row, cell in enumerate(self.column(name), 1) if cell.strip().lower() in _MISSING]
            if rows:
                raise DataError(
                    f"column {name!r} of {self.source} has no value in {named_rows(rows)}; fill the cells in or leave "
                    f"the rows out, or leave out the column (--drop {name})"
                )


def number(cell: str) -> float | None:
    """The finite number in a cell, or None."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in cell else None


def named_rows(rows: Sequence[int]) -> str:
    """The first rows by number (1 is the row below the header) and how many there are."""
    shown = ", ".join(map(str, rows[:_SHOWN]))
    if len(rows) == 1:
        return f"row {shown}"
    return f"rows {shown}" if len(rows) <= _SHOWN else f"rows {shown} and {len(rows) - _SHOWN} more"


def named_columns(names: Collection[str]) -> str:
    """The names of columns where they are few; of many, the first and how many there are."""
    if len(names) <= 2 * _SHOWN:
        return ", ".join(names)
    return f"{', '.join(list(names)[:_SHOWN])} and {len(names) - _SHOWN} more"


def read_table(source: str | os.PathLike[str], delimiter: str = ",") -> Table:
    """Read ``data.csv``, ``data.parquet``, or, by ``@name``, an embedded data set."""
    name = os.fspath(source)
    if name.startswith("@"):
        header, rows = dataset_rows(name[1:])
        return _table(name, header, rows)
    path = Path(name)
    if not path.is_file():
        raise DataError(f"there is no file {name}; name a CSV file, or an embedded data set such as @motorcycle")
    if path.suffix.lower() in (".parquet", ".pq"):
        return _table(name, *_parquet(path))
    if len(delimiter) != 1:
        raise DataError(f"--delimiter must be one character, received {delimiter!r}")
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:  # some spreadsheets begin with a byte order mark
            lines = [line for line in csv.reader(stream, delimiter=delimiter, strict=True) if line]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{name} is not a CSV file in UTF-8: {error}") from error
    if not lines:
        raise DataError(f"{name} is empty; the first line must name the columns")
    header = lines[0]
    if len(header) == 1:
        for other, typed in _OTHER_DELIMITERS.items():
            if other in header[0]:
                raise DataError(f"{name} has one column, {header[0]!r}; try --delimiter {typed}")
    return _table(name, header, lines[1:])


def _table(source: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    names = [name.strip() for name in header]
    if any(not name for name in names):
        place = names.index("") + 1
        raise DataError(
            f"the header of {source} leaves a column without a name, number {place} of {len(names)}: "
            f"{named_columns([repr(name) for name in names])}"
        )
    if repeated := sorted(name for name, count in Counter(names).items() if count > 1):
        raise DataError(f"the header of {source} has the column {repeated[0]!r} twice; rename one of them")
    if all(number(name) is not None for name in names):
        raise DataError(f"the first line of {source} holds numbers only; put the names of the columns above it")
    if not rows:
        raise DataError(f"{source} has a header and no rows")
    if ragged := [row for row, cells in enumerate(rows, 1) if len(cells) != len(names)]:
        found = len(rows[ragged[0] - 1])
        raise DataError(f"{source} has {len(names)} columns, but {named_rows(ragged)} not (the first has {found})")
    return Table(source, dict(zip(names, zip(*rows, strict=True), strict=True)))


def _parquet(path: Path) -> tuple[list[str], list[list[str]]]:
    try:
        from pyarrow.parquet import read_table as read_parquet
    except ImportError as error:
        raise DataError(
            f'{path} is a Parquet file, which needs pyarrow: pip install "lssvm-substrate[parquet]", or save it as CSV'
        ) from error
    try:
        content = read_parquet(path)
    except Exception as error:  # pyarrow's own errors share no base with ours
        raise DataError(f"{path} is not a Parquet file, or is damaged: {error}") from error
    columns = [["" if value is None else str(value) for value in column.to_pylist()] for column in content.columns]
    return list(content.column_names), [list(row) for row in zip(*columns, strict=True)]
