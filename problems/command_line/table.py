"""Tables of text: a CSV or Parquet file, or an embedded data set, as named columns of cells.

Nothing is guessed without a word: where the cells are not separated by commas, or numbers have a decimal comma, a
remark of the table says so. A column is numeric when every cell of it is a finite number; a missing cell is empty, or
``NA``, ``N/A``, ``NaN``, ``null``, ``None`` or ``?``.
"""

import csv
import math
import os
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from problems.command_line.embedded_sets import dataset_rows
from substrate.errors import DataError

__all__ = [
    "Table",
    "counts_rows",
    "is_missing",
    "named_columns",
    "named_rows",
    "number",
    "read_table",
]

_MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
_OTHER_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars"}
_SHOWN = 5
#: A number with a decimal comma, and one whose commas may as well separate thousands.
_COMMA = re.compile(r"\s*[+-]?\d*(,\d+)?([eE][+-]?\d+)?\s*")
_THOUSANDS = re.compile(r"\s*[+-]?\d{1,3}(,\d{3})+\s*")


def is_missing(cell: str) -> bool:
    """Whether a cell holds no value."""
    return cell.strip().lower() in _MISSING


@dataclass(frozen=True, slots=True)
class Table:
    """Named columns of cells, all of one length, where they come from, and what is to be known of how they were read.

    Numbers have a point in the cells, whatever ``decimal``, their mark in the file, was.
    """

    source: str
    columns: dict[str, tuple[str, ...]]
    decimal: str = "."
    remarks: tuple[str, ...] = ()
    #: The numbers of the rows in the file, from 0, where some of them were taken.
    rows: Sequence[int] | None = None

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
        return replace(self, columns={name: cells for name, cells in self.columns.items() if name not in left_out})

    def taken(self, rows: Sequence[int]) -> "Table":
        """The table of some rows, counted from 0."""
        columns = {name: tuple(cells[row] for row in rows) for name, cells in self.columns.items()}
        return replace(self, columns=columns, rows=[self.row(row) for row in rows])

    def row(self, row: int) -> int:
        """The number in the file of a row, both from 0."""
        return row if self.rows is None else self.rows[row]

    def named(self, rows: Sequence[int]) -> str:
        """Rows, counted from 0, by their numbers in the file, counted from 1."""
        return named_rows([self.row(row) + 1 for row in rows])

    def missing(self, name: str) -> list[int]:
        """The rows of a column, counted from 0, that have no value."""
        return [row for row, cell in enumerate(self.column(name)) if is_missing(cell)]

    def refuse_missing(self, names: Sequence[str], advice: str) -> None:
        """Name the rows of the first of these columns that has missing cells."""
        for name in names:
            if rows := self.missing(name):
                raise DataError(f"column {name!r} of {self.source} has no value in {self.named(rows)}; {advice}")


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


def read_table(source: str | os.PathLike[str], delimiter: str | None = None, decimal: str | None = None) -> Table:
    """Read ``data.csv``, ``data.parquet``, or, by ``@name``, an embedded data set.

    Unless given, the cells of a CSV file are separated by commas, or by what its header shows, and the decimal mark of
    a file with another separator is found in its cells; both are remarks of the table.
    """
    name = os.fspath(source)
    if decimal not in (None, ".", ","):
        raise DataError(f"--decimal must be . or , received {decimal!r}")
    if name.startswith("@"):
        header, rows = dataset_rows(name[1:])
        return _table(name, header, rows)
    path = Path(name)
    if not path.is_file():
        raise DataError(f"there is no file {name}; name a CSV file, or an embedded data set such as @motorcycle")
    if path.suffix.lower() in (".parquet", ".pq"):
        return _table(name, *_parquet(path))
    if delimiter is not None and len(delimiter) != 1:
        raise DataError(f"--delimiter must be one character, received {delimiter!r}")
    remarks = []
    lines = _lines(name, path, delimiter or ",")
    if delimiter is None and len(lines[0]) == 1:
        for other, words in _OTHER_DELIMITERS.items():
            if other in lines[0][0]:
                lines, delimiter = _lines(name, path, other), other
                remarks = [f"separator: the cells are separated by {words} (--delimiter, if not)"]
                break
    table = replace(_table(name, lines[0], lines[1:]), remarks=tuple(remarks))
    return _with_points(table, delimiter or ",", decimal)


def _lines(name: str, path: Path, delimiter: str) -> list[list[str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:  # some spreadsheets begin with a byte order mark
            lines = [line for line in csv.reader(stream, delimiter=delimiter, strict=True) if line]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(
            f"{name} is not a CSV file in UTF-8: {error}; save it again as CSV (UTF-8), or fix the line named"
        ) from error
    if not lines:
        raise DataError(f"{name} is empty; the first line must name the columns")
    return lines


def _with_points(table: Table, delimiter: str, decimal: str | None) -> Table:
    """The table with a point in every number, where its file has decimal commas: asked for, or found and remarked."""
    if decimal == "." or (decimal is None and delimiter == ","):
        return table
    found = [name for name, cells in table.columns.items() if _has_commas(cells)]
    marked = [cell for name in found for cell in table.columns[name] if "," in cell]
    if decimal is None and marked and all(map(_THOUSANDS.fullmatch, marked)):
        raise DataError(
            f"column {found[0]!r} of {table.source} has {marked[0]!r}, where the comma can be decimal or separate "
            "thousands; give --decimal , for the former, or take the commas out of the file for the latter"
        )
    if decimal == ",":  # then a point is no decimal mark
        for name in table.names:
            if table.numbers(name) is not None and any("." in cell for cell in table.columns[name]):
                row, cell = next((row, cell) for row, cell in enumerate(table.columns[name], 1) if "." in cell)
                raise DataError(
                    f"column {name!r} of {table.source} has {cell!r} in row {row}, and the decimal mark is the comma; "
                    "give --decimal . if it is the point here"
                )
    if not found:
        return replace(table, decimal=decimal or ".")
    pointed = {name: tuple(cell.replace(",", ".") for cell in table.columns[name]) for name in found}
    hint = " (--decimal . if these are not numbers)" if decimal is None else ""
    remark = f"decimal comma: {named_columns(found)}{hint}"
    return replace(table, columns=table.columns | pointed, decimal=",", remarks=(*table.remarks, remark))


def _has_commas(cells: Sequence[str]) -> bool:
    """Whether all values are numbers with a decimal comma or without decimals, at least one of the former."""
    values = [cell for cell in cells if not is_missing(cell)]
    return any("," in cell for cell in values) and all(
        _COMMA.fullmatch(cell) and number(cell.replace(",", ".")) is not None for cell in values
    )


def _table(source: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    names = [name.strip() for name in header]
    if names and all(number(name) is not None for name in names):
        raise DataError(f"the first line of {source} holds numbers only; put the names of the columns above it")
    if not rows:
        raise DataError(f"{source} has a header and no rows")
    if ragged := [row for row, cells in enumerate(rows, 1) if len(cells) != len(names)]:
        found = len(rows[ragged[0] - 1])
        others = f" ({len(ragged) - 1} more rows differ too)" if len(ragged) > 1 else ""
        cells = "1 cell" if found == 1 else f"{found} cells"
        raise DataError(
            f"row {ragged[0]} of {source} has {cells}, but the header names {len(names)} columns{others}; correct the "
            "rows (a cell that contains the separator must be in quotes)"
        )
    for place, name in enumerate(names):
        if not name and counts_rows([cells[place] for cells in rows], place):
            names[place] = f"Unnamed: {place}"  # the index of a pandas frame, under the name that pandas gives it
    if "" in names:
        raise DataError(
            f"the header of {source} leaves a column without a name, number {names.index('') + 1} of {len(names)}: "
            f"{named_columns([repr(name) for name in names])}; name it, or delete it"
        )
    if repeated := sorted(name for name, count in Counter(names).items() if count > 1):
        raise DataError(f"the header of {source} has the column {repeated[0]!r} twice; rename one of them")
    return Table(source, dict(zip(names, zip(*rows, strict=True), strict=True)))


def counts_rows(cells: Sequence[str], place: int) -> bool:
    """Whether the cells number the rows: from 0 or 1 on, or, in the first column, by any different whole numbers."""
    if not all(cell.strip().isdecimal() for cell in cells):
        return False
    numbers = [int(cell) for cell in cells]
    if place == 0:
        return len(set(numbers)) == len(numbers)
    return numbers[0] in (0, 1) and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


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
