"""Tables of text: a CSV or Parquet file, or an embedded data set, as named columns of cells.

Nothing is guessed without a word: where the cells are not separated by commas a remark of the table says so. Cells are
kept as they are written; a column is numeric when every cell of it is a finite number in one format
(:mod:`problems.tables.number_format`); a missing cell is empty, or
``NA``, ``N/A``, ``NaN``, ``null``, ``None`` or ``?``.
"""

import csv
import io
import math
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from problems.tables.embedded_sets import dataset_rows
from problems.tables.encodings import decode_text
from problems.tables.number_format import PLAIN, NumberFormat, column_format, decides, is_code, number, readings
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
_SPREADSHEETS = (".xlsx", ".xlsm", ".xls", ".ods", ".numbers")
_SHOWN = 5
#: What may separate thousands, as an option states it.
_THOUSANDS = (",", ".", " ", "'")


def is_missing(cell: str) -> bool:
    """Return whether a cell holds no value."""
    return cell.strip().lower() in _MISSING


@dataclass(frozen=True, slots=True)
class Table:
    """Named columns of cells, all of one length, where they come from, and what is known of how they are written."""

    source: str
    columns: dict[str, tuple[str, ...]]
    remarks: tuple[str, ...] = ()
    #: The numbers of the rows in the file, from 0, where some of them were taken.
    rows: Sequence[int] | None = None
    #: The decimal mark and the mark between thousands that the user states.
    decimal: str | None = None
    thousands: str | None = None
    #: Whether a decimal comma needs no statement, since cells are separated otherwise.
    takes_commas: bool = False
    #: Columns that hold numbers in the file, not text; and those whose numbers were written in plain here.
    typed: frozenset[str] = frozenset()
    plain: frozenset[str] = frozenset()
    #: The formats of columns that leave no choice, once they were looked for.
    evidence: list[list[NumberFormat]] = field(default_factory=list, compare=False, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the header."""
        return tuple(self.columns)

    @property
    def n_rows(self) -> int:
        """Return the number of rows below the header."""
        return len(next(iter(self.columns.values())))

    def column(self, name: str) -> tuple[str, ...]:
        """Return the cells of one column."""
        if name not in self.columns:
            raise DataError(f"{self.source} has no column {name!r}; it has {named_columns(self.names)}")
        return self.columns[name]

    def numbers(self, name: str) -> list[float] | None:
        """Return the numbers in the cells of a column, or None where a cell is not a number."""
        cells = self.column(name)
        try:
            values = list(map(float, cells))
        except ValueError:
            return None
        plain = all(map(math.isfinite, values)) and not any("_" in cell for cell in cells)
        return values if plain else None

    def number_format(self, name: str) -> NumberFormat | None:
        """Return how the numbers of a column are written, None for text and codes; two readings are refused."""
        if name in self.plain | self.typed:
            return PLAIN if all(map(_is_number_or_missing, self.column(name))) else None
        cells = [cell for cell in self.column(name) if not is_missing(cell)]
        if is_code(cells):
            return None
        where = f"column {name!r} of {self.source}"
        return column_format(where, name, cells, self.decimal, self.thousands, self._evident)

    def _evident(self) -> list[NumberFormat]:
        """Return the formats of the columns that have one only, and tell what their marks mean."""
        if not self.evidence:
            self.evidence.append([])
            for name in self.columns:
                typed = name in self.plain | self.typed
                cells = [] if typed else [cell for cell in self.columns[name] if not is_missing(cell)]
                candidates = readings(cells, self.decimal, self.thousands)
                if len(candidates) == 1 and decides(candidates[0][0], cells):
                    self.evidence[0].append(candidates[0][0])
        return self.evidence[0]

    def in_plain(self, formats: Mapping[str, NumberFormat]) -> "Table":
        """Return the table with the numbers of some columns in plain: a decimal point and nothing else."""
        columns = {
            name: tuple(cell if is_missing(cell) else form.plain(cell) or cell for cell in self.column(name))
            for name, form in formats.items()
            if form != PLAIN and name not in self.plain | self.typed
        }
        return replace(self, columns=self.columns | columns, plain=self.plain | set(formats))

    def drop_columns(self, names: Sequence[str]) -> "Table":
        """Return the table less some columns, each of which must be there."""
        for name in names:
            self.column(name)
        left_out = set(names)
        return replace(self, columns={name: cells for name, cells in self.columns.items() if name not in left_out})

    def take_rows(self, rows: Sequence[int]) -> "Table":
        """Return the table of some rows, counted from 0."""
        columns = {name: tuple(cells[row] for row in rows) for name, cells in self.columns.items()}
        return replace(self, columns=columns, rows=[self.row(row) for row in rows])

    def row(self, row: int) -> int:
        """Return the number in the file of a row, both from 0."""
        return row if self.rows is None else self.rows[row]

    def name_rows(self, rows: Sequence[int]) -> str:
        """Return rows, counted from 0, by their numbers in the file, counted from 1."""
        return named_rows([self.row(row) + 1 for row in rows])

    def missing(self, name: str) -> list[int]:
        """Return the rows of a column, counted from 0, that have no value."""
        return [row for row, cell in enumerate(self.column(name)) if is_missing(cell)]

    def refuse_missing(self, names: Sequence[str], advice: str) -> None:
        """Name the rows of the first of these columns that has missing cells."""
        for name in names:
            if rows := self.missing(name):
                raise DataError(f"column {name!r} of {self.source} has no value in {self.name_rows(rows)}; {advice}")


def _is_number_or_missing(cell: str) -> bool:
    return is_missing(cell) or number(cell) is not None


def named_rows(rows: Sequence[int]) -> str:
    """Return the first rows by number (1 is the row below the header) and how many there are."""
    shown = ", ".join(map(str, rows[:_SHOWN]))
    if len(rows) == 1:
        return f"row {shown}"
    return f"rows {shown}" if len(rows) <= _SHOWN else f"rows {shown} and {len(rows) - _SHOWN} more"


def named_columns(names: Collection[str]) -> str:
    """Return the names of columns where they are few; of many, the first and how many there are."""
    if len(names) <= 2 * _SHOWN:
        return ", ".join(names)
    return f"{', '.join(list(names)[:_SHOWN])} and {len(names) - _SHOWN} more"


def read_table(
    source: str | os.PathLike[str],
    delimiter: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    decided: bool = False,
    encoding: str | None = None,
) -> Table:
    """Read ``data.csv``, ``data.parquet``, ``data.xlsx``, or, by ``@name``, an embedded data set.

    Unless given, the cells of a CSV file are separated by commas, or by what its header shows, which is a remark of the
    table. ``decimal`` and ``thousands`` are the marks of its numbers, where they are stated. Where commas are no
    separators, a column whose commas can be read in two ways is refused here, unless it is ``decided`` by a model how
    its numbers are written. The ``encoding`` of a CSV file is recognised unless given.
    """
    name = os.fspath(source)
    if decimal not in (None, ".", ","):
        raise DataError(f"--decimal must be . or , received {decimal!r}")
    if thousands not in (None, *_THOUSANDS):
        raise DataError(f"--thousands must be a comma, a point, a space or an apostrophe, received {thousands!r}")
    if thousands is not None and thousands == decimal:
        raise DataError(f"--decimal and --thousands are two marks, received {thousands!r} for both")
    if name.startswith("@"):
        header, rows = dataset_rows(name[1:])
        table = _table(name, header, rows)
        return replace(table, typed=frozenset(table.names))
    path = Path(name)
    if not path.is_file():
        raise DataError(f"there is no file {name}; name a CSV file, or an embedded data set such as @motorcycle")
    if path.suffix.lower() in (".parquet", ".pq"):
        header, rows, typed = _parquet(path)
        return replace(_table(name, header, rows), decimal=decimal, thousands=thousands, typed=typed)
    if path.suffix.lower() in _SPREADSHEETS:
        header, rows, typed, sheet = _spreadsheet(path)
        table = replace(_table(name, header, rows), decimal=decimal, thousands=thousands, typed=typed)
        return replace(table, remarks=sheet)
    if delimiter is not None and len(delimiter) != 1:
        raise DataError(f"--delimiter must be one character, received {delimiter!r}")
    text, remark = decode_text(name, path.read_bytes(), encoding)
    remarks = [remark] if remark else []
    lines = _lines(name, text, delimiter or ",")
    if delimiter is None and len(lines[0]) == 1:
        for candidate, words in _OTHER_DELIMITERS.items():
            if candidate in lines[0][0]:
                lines, delimiter = _lines(name, text, candidate), candidate
                remarks += [f"separator: the cells are separated by {words} (--delimiter, if not)"]
                break
    table = replace(
        _table(name, lines[0], lines[1:]),
        remarks=tuple(remarks),
        decimal=decimal,
        thousands=thousands,
        takes_commas=(delimiter or ",") != ",",
    )
    if table.takes_commas and not decided:
        for column, cells in table.columns.items():
            if any("," in cell for cell in cells):
                table.number_format(column)
    return table


def _lines(name: str, text: str, delimiter: str) -> list[list[str]]:
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), delimiter=delimiter, strict=True)
    try:
        lines = [line for line in reader if line]
    except csv.Error as error:
        raise DataError(
            f"{name} is not a CSV file: {error}, at line {reader.line_num}; correct that line, or save the table again "
            "as CSV (UTF-8)"
        ) from error
    if not lines:
        raise DataError(f"{name} is empty; the first line must name the columns")
    return lines


def _table(source: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    names = [name.strip() for name in header]
    if names and all(number(name) is not None for name in names):
        raise DataError(f"the first line of {source} holds numbers only; put the names of the columns above it")
    if not rows:
        raise DataError(f"{source} has a header and no rows")
    if ragged := [row for row, cells in enumerate(rows, 1) if len(cells) != len(names)]:
        n_cells = len(rows[ragged[0] - 1])
        remark = f" ({len(ragged) - 1} more rows differ too)" if len(ragged) > 1 else ""
        cells = "1 cell" if n_cells == 1 else f"{n_cells} cells"
        raise DataError(
            f"row {ragged[0]} of {source} has {cells}, but the header names {len(names)} columns{remark}; correct the "
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
    """Return whether the cells number the rows: from 0 or 1 on, or, in the first column, by any different whole
    numbers.
    """
    if not all(cell.strip().isdecimal() for cell in cells):
        return False
    numbers = [int(cell) for cell in cells]
    if place == 0:
        return len(set(numbers)) == len(numbers)
    return numbers[0] in (0, 1) and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def _parquet(path: Path) -> tuple[list[str], list[list[str]], frozenset[str]]:
    """Return header, rows of cells, and the columns that hold no text."""
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
    return _as_text(list(content.column_names), [column.to_pylist() for column in content.columns])


def _as_text(names: list[str], values: list[list[Any]]) -> tuple[list[str], list[list[str]], frozenset[str]]:
    """Return header, rows of cells, and the columns that hold no text, of columns of values."""
    columns = [["" if value is None else str(value) for value in column] for column in values]
    typed = (
        name
        for name, column in zip(names, values, strict=True)
        if all(value is None or isinstance(value, (int, float)) for value in column)
    )
    return names, [list(row) for row in zip(*columns, strict=True)], frozenset(str(name).strip() for name in typed)


def _spreadsheet(path: Path) -> tuple[list[str], list[list[str]], frozenset[str], tuple[str, ...]]:
    """Return header, rows of cells, the columns that hold no text, and a remark where there are several sheets."""
    if path.suffix.lower() not in (".xlsx", ".xlsm"):
        raise DataError(f"{path} is a spreadsheet that is not read here; save the sheet as CSV (UTF-8), or as .xlsx")
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise DataError(
            f'{path} is an Excel file, which needs openpyxl: pip install "lssvm-substrate[excel]", or save the sheet '
            "as CSV (UTF-8)"
        ) from error
    try:
        book = load_workbook(path, read_only=True, data_only=True)
        sheet = book.worksheets[0]
        rows = [list(row) for row in sheet.iter_rows(values_only=True) if any(value is not None for value in row)]
        names = [str(worksheet.title) for worksheet in book.worksheets]
    except Exception as error:  # openpyxl, zipfile and XML have errors of their own
        raise DataError(f"{path} is not an Excel file, or is damaged: {error}") from error
    if not rows:
        raise DataError(f"the first sheet of {path} is empty; the first line must name the columns")
    header = ["" if value is None else str(value) for value in rows[0]]
    while header and header[-1] == "" and all(row[len(header) - 1] is None for row in rows):
        header.pop()
    columns = [[_plain_value(row[k]) for row in rows[1:]] for k in range(len(header))]
    remark = (f"sheet: {names[0]!r}, the first of {len(names)}",) if len(names) > 1 else ()
    return *_as_text(header, columns), remark


def _plain_value(value: Any) -> Any:
    """Return a cell of a sheet: dates as ISO text, others as they are."""
    return value.isoformat() if hasattr(value, "isoformat") else value
