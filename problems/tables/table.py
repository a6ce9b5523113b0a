"""Tables of text: a file, an embedded data set, a frame or an array, as named columns of cells.

pandas reads files; which encoding and separator they have, and what their cells mean, is found here. Nothing is guessed
silently: everything recognised is a remark of the table. Cells are kept as written; a column is numeric when every cell
of it is a finite number in one format (:mod:`problems.tables.number_format`); a missing cell is empty, or ``NA``,
``N/A``, ``NaN``, ``null``, ``None`` or ``?``.
"""

import codecs
import io
import math
import os
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from problems.tables.embedded_sets import dataset_columns
from problems.tables.number_format import (
    PLAIN,
    NumberFormat,
    column_format,
    decides,
    is_code,
    number,
    numbers_of,
    readings,
)
from substrate.arrays import is_sparse
from substrate.errors import DataError

__all__ = ["Table", "counts_rows", "is_missing", "named_columns", "named_rows", "number", "read_table", "table_of"]

_MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
_OTHER_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars"}
_PARQUET, _EXCEL = (".parquet", ".pq"), (".xlsx", ".xlsm", ".xls", ".ods")
_SHOWN = 5
#: The marks that may separate thousands.
_THOUSANDS = (",", ".", " ", "'")
#: Byte order marks, the longer ones first, since the mark of UTF-32 begins like one of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def is_missing(cell: str) -> bool:
    """Return whether a cell holds no value."""
    return cell.strip().lower() in _MISSING


@dataclass(frozen=True, slots=True)
class Table:
    """A table of named columns of cells, its source, and what is known of how its cells are written."""

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
    #: Columns that hold numbers in the source, not text; and those whose numbers were written in plain here.
    typed: frozenset[str] = frozenset()
    plain: frozenset[str] = frozenset()
    #: Columns of a frame that hold categories, or dates.
    categories: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    #: The formats of columns that leave no choice, once they were looked for.
    evidence: list[list[NumberFormat]] = field(default_factory=list, compare=False, repr=False)

    @property
    def n_rows(self) -> int:
        """Return the number of rows below the header."""
        return len(next(iter(self.columns.values())))

    def column(self, name: str) -> tuple[str, ...]:
        """Return the cells of one column."""
        if name not in self.columns:
            raise DataError(f"{self.source} has no column {name!r}; it has {named_columns(self.columns)}")
        return self.columns[name]

    def number_format(self, name: str) -> NumberFormat | None:
        """Return how the numbers of a column are written, None for text and codes; two readings are refused."""
        cells = [cell for cell in self.column(name) if not is_missing(cell)]
        if name in self.plain | self.typed:
            return None if numbers_of(cells) is None else PLAIN
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
        if any(form != PLAIN for form in formats.values()):
            self._evident()  # plain numbers tell nothing of the marks of other columns
        columns = {
            name: tuple(cell if is_missing(cell) else form.plain(cell) or cell for cell in self.column(name))
            for name, form in formats.items()
            if form != PLAIN and name not in self.plain | self.typed
        }
        return replace(self, columns=self.columns | columns, plain=self.plain | set(formats))

    def drop_columns(self, names: Sequence[str]) -> "Table":
        """Return the table without some columns, each of which must exist."""
        for name in names:
            self.column(name)
        gone = set(names)
        left = {name: cells for name, cells in self.columns.items() if name not in gone}
        if not left:
            raise DataError(f"drop={list(names)} leaves no column of {self.source}")
        return replace(self, columns=left)

    def with_column(self, name: str, values: Any, what: str) -> tuple["Table", str]:
        """Return the table with one more column, called ``what`` in messages, and the name of this column in the
        table."""
        while name in self.columns:
            name += "_"
        cells = values.to_list() if hasattr(values, "to_list") else np.asarray(values).tolist()
        if np.ndim(cells) != 1 or len(cells) != self.n_rows:
            raise DataError(
                f"{what} must have one value for each of the {self.n_rows} rows of X, received shape {np.shape(cells)}"
            )
        added = table_of({name: cells}, what)
        columns = {**self.columns, name: added.columns[name]}
        return replace(self, columns=columns, typed=self.typed | added.typed), name

    def take_rows(self, rows: Sequence[int]) -> "Table":
        """Return the table of some rows, counted from 0."""
        if len(rows) == self.n_rows and all(row == place for place, row in enumerate(rows)):
            return self
        columns = {name: tuple([cells[row] for row in rows]) for name, cells in self.columns.items()}
        return replace(self, columns=columns, rows=[self.row(row) for row in rows])

    def row(self, row: int) -> int:
        """Return the number of a row in the file, both counted from 0."""
        return row if self.rows is None else self.rows[row]

    def name_rows(self, rows: Sequence[int]) -> str:
        """Return rows, counted from 0, by their numbers in the file, counted from 1."""
        return named_rows([self.row(row) + 1 for row in rows])

    def missing(self, name: str) -> list[int]:
        """Return the rows of a column, counted from 0, that have no value."""
        return [row for row, cell in enumerate(self.column(name)) if is_missing(cell)]


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
    source: Any,
    delimiter: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    encoding: str | None = None,
) -> Table:
    """Read ``data.csv``, ``data.parquet``, ``data.xlsx``, an embedded data set by ``@name``, a frame or an array.

    Unless given, the cells of a CSV file are separated by commas, or by what its header shows, which is a remark of the
    table, and so is its encoding. ``decimal`` and ``thousands`` are the marks of its numbers, where they are stated.
    """
    if decimal not in (None, ".", ","):
        raise DataError(f"decimal must be '.' or ',', received {decimal!r}")
    if thousands not in (None, *_THOUSANDS):
        raise DataError(f"thousands must be a comma, a point, a space or an apostrophe, received {thousands!r}")
    if thousands is not None and thousands == decimal:
        raise DataError(f"decimal and thousands must differ, received {thousands!r} for both")
    if delimiter is not None and len(delimiter) != 1:
        raise DataError(f"delimiter must be one character, received {delimiter!r}")
    if isinstance(source, Table):
        return source
    name = os.fspath(source) if isinstance(source, (str, os.PathLike)) else "X"
    if not isinstance(source, (str, os.PathLike)):
        table = table_of(source)
    elif name.startswith("@"):
        table = table_of(dataset_columns(name[1:]))
    elif not Path(name).is_file():
        raise DataError(
            f"there is no file {name}; name a CSV, Excel or Parquet file, or an embedded data set such as @motorcycle"
        )
    else:
        table = _read_file(Path(name), delimiter, encoding)
    return replace(table, source=name, decimal=decimal, thousands=thousands)


def _read_file(path: Path, delimiter: str | None, encoding: str | None) -> Table:
    """Return a CSV file, a Parquet file, or the first sheet of a spreadsheet."""
    try:
        import pandas
    except ImportError as error:
        raise DataError(f'pandas, which reads {path}, is missing: pip install "lssvm-substrate[tables]"') from error
    remarks: list[str] = []
    try:
        if path.suffix.lower() in _PARQUET:
            return table_of(pandas.read_parquet(path), str(path))
        if path.suffix.lower() in _EXCEL:
            sheets = pandas.read_excel(path, sheet_name=None, header=None, dtype=object)
            frame = next(iter(sheets.values())).dropna(how="all").dropna(axis=1, how="all")
            remarks += [f"sheet: {next(iter(sheets))!r}, the first of {len(sheets)}"] if len(sheets) > 1 else []
            return replace(table_of(_name_columns(path, frame, remarks)), remarks=tuple(remarks))
        text, remark = _decode(path, encoding)
        remarks += [remark] if remark else []
        if delimiter is None:
            delimiter = _delimiter(text)
            words = _OTHER_DELIMITERS.get(delimiter)
            remarks += [f"separator: the cells are separated by {words} (delimiter=..., if not)"] if words else []
        # by the engine that tells cells that are absent from empty ones
        options: dict[str, Any] = {"sep": delimiter, "engine": "python", "dtype": object, "keep_default_na": False}
        frame = pandas.read_csv(io.StringIO(text, newline=""), header=None, **options)
    except pandas.errors.EmptyDataError as error:
        raise DataError(f"{path} is empty; the first line must name the columns") from error
    except pandas.errors.ParserError as error:
        raise DataError(
            f"{path} is not a CSV file: {error} (a cell that contains the separator must be in quotes, and quotes must "
            "be closed); correct it, or save the table again as CSV (UTF-8)"
        ) from error
    except DataError:
        raise
    except Exception as error:  # the readers of pandas raise various errors
        raise DataError(f"{path} cannot be read, or is damaged: {error}") from error
    if short := [row for row, is_short in enumerate(frame.isna().any(axis=1)) if is_short]:
        raise DataError(
            f"{named_rows(short)} of {path} {'has' if len(short) == 1 else 'have'} fewer cells than the header, which "
            f"names {frame.shape[1]} columns; correct the rows"
        )
    columns = {column: tuple(cells) for column, cells in _name_columns(path, frame, remarks).items()}
    return Table(str(path), columns, tuple(remarks), takes_commas=delimiter != ",")


def _delimiter(text: str) -> str:
    """Return what separates the names in the first line, outside quotes: commas, if there are any."""
    header = re.compile(r'(?:"[^"]*"|[^"\r\n])*').match(text.lstrip("\r\n"))
    names = "" if header is None else re.sub('"[^"]*"', "", header[0])
    return next((mark for mark in (",", *_OTHER_DELIMITERS) if mark in names), ",")


def _decode(path: Path, encoding: str | None) -> tuple[str, str]:
    """Return the text of a file, and a remark on its encoding, which is empty for UTF-8.

    A byte order mark leaves no doubt. Without one a file whose first letter has a zero byte is UTF-16; text that is not
    UTF-8 is read as Windows-1252, the encoding of spreadsheets of western languages, in which nearly all bytes are
    letters.
    """
    content, remark = path.read_bytes(), ""
    if encoding is None:
        encoding = next((marked for mark, marked in _MARKS if content.startswith(mark)), None)
        remark = "" if encoding in (None, "utf-8-sig") else f"encoding: {encoding}, by its byte order mark"
    if encoding is None and b"\0" in content[:2]:  # a letter of two bytes
        encoding = "utf-16-be" if content[:1] == b"\0" else "utf-16-le"
        remark = f"encoding: {encoding}, since every other byte is zero (encoding=..., if not)"
    if encoding is None:
        try:
            return content.decode("utf-8"), ""
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
        encoding, remark = "cp1252", f"encoding: cp1252 (Windows), line {line} is not UTF-8 (encoding=..., if not)"
    try:
        return content.decode(codecs.lookup(encoding).name), remark
    except LookupError as error:
        raise DataError(
            f"Python has no encoding={encoding!r}; it has utf-8, cp1252, utf-16, latin-1 and others"
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not in the encoding {encoding}: byte {error.start + 1}, {content[error.start]:#04x}, is not "
            "valid there; name another by encoding=..., or save the table again as CSV (UTF-8)"
        ) from error


def _name_columns(path: Path, frame: Any, remarks: list[str]) -> dict[str, list[Any]]:
    """Return the columns below a line of names, refused where it does not name them; names that are there twice get a
    number, as pandas gives it, and a remark.
    """
    if frame.shape[0] < 2:
        raise DataError(f"{path} has no rows below its first line, which must name the columns")
    names = ["" if _is_absent(name) else str(name).strip() for name in frame.iloc[0]]
    columns = [frame.iloc[1:, place].tolist() for place in range(len(names))]
    if all(number(name) is not None for name in names):
        raise DataError(f"the first line of {path} holds numbers only; put the names of the columns above it")
    for place, name in enumerate(names):
        if not name and counts_rows(list(map(str, columns[place])), place):
            names[place] = f"Unnamed: {place}"  # the index of a pandas frame, under the name that pandas gives it
    repeated = [place for place, name in enumerate(names) if name and name in names[:place]]
    numbered = {place: f"{names[place]}.{names[:place].count(names[place])}" for place in repeated}
    if numbered:
        listed, last = named_columns(list(numbered.values())), list(numbered.values())[-1]
        remarks.append(f"header: names that are there twice became {listed} (drop={[last]} leaves one out)")
    names = [numbered.get(place, name) for place, name in enumerate(names)]
    _check_names(f"the header of {path}", names)
    return dict(zip(names, columns, strict=True))


def _check_names(where: str, names: Sequence[str]) -> None:
    if "" in names:
        raise DataError(
            f"{where} leaves a column without a name, number {names.index('') + 1} of {len(names)}: "
            f"{named_columns([repr(name) for name in names])}; name it, or delete it"
        )
    if repeated := sorted(name for name, count in Counter(names).items() if count > 1):
        raise DataError(f"{where} has the column {repeated[0]!r} twice; rename one of them")


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


def table_of(X: Any, name: str = "X") -> Table:
    """Return a pandas or polars frame, a mapping of columns, or rows of cells (columns x0, x1, ...) as a table.

    The cells become the text that a CSV file would have, with all digits, and the types of the frame's columns are
    kept: numbers, categories, or dates.
    """
    if isinstance(X, Table):
        return X
    columns = _values(X, name)
    if not columns:
        raise DataError(f"{name} has no columns; give a frame, or rows of numbers")
    lengths = {len(values) for values, _ in columns.values()}
    if len(lengths) != 1 or lengths == {0}:
        raise DataError(f"the columns of {name} must be of one length, at least one row; received {sorted(lengths)}")
    cells, typed, categories, dates = {}, set(), [], []
    for column, (values, kind) in columns.items():
        present = [value for value in values if not _is_absent(value)]
        cells[column] = tuple("" if _is_absent(value) else _cell(value) for value in values)
        is_category = kind in ("CategoricalDtype", "Enum", "Categorical")  # of pandas, and two of polars
        if is_category or (present and all(isinstance(value, (bool, np.bool_)) for value in present)):
            categories.append(column)
        elif present and all(isinstance(value, (int, float, np.integer, np.floating)) for value in present):
            typed.add(column)
        elif present and all(hasattr(value, "isoformat") for value in present):
            dates.append(column)
    return Table(name, cells, typed=frozenset(typed), categories=tuple(categories), dates=tuple(dates))


def _values(X: Any, name: str) -> dict[str, tuple[Sequence[Any], str]]:
    """Return values of every column, and the name of the type of its dtype, by name."""
    if is_sparse(X):
        raise DataError(f"{name} is sparse; an estimator of problems takes it, a table has cells: {name}.toarray()")
    if isinstance(X, Mapping):
        named = list(X.items())
    elif hasattr(X, "columns") and hasattr(X, "__getitem__"):
        if len(X.shape) != 2:
            raise DataError(f"{name} must have rows and columns, received shape {X.shape}")
        _check_names(name, [str(column).strip() for column in X.columns])
        named = [(column, X[column]) for column in X.columns]
    else:
        try:
            array = np.asarray(X)
        except ValueError as error:
            raise DataError(f"the rows of {name} have different lengths; give one cell per column") from error
        if array.ndim != 2:
            raise DataError(f"{name} must have rows and columns, received shape {array.shape}; reshape it, or a frame")
        named = [(f"x{k}", array[:, k]) for k in range(array.shape[1])]
    return {
        str(column).strip(): (
            values.to_list() if hasattr(values, "to_list") else np.asarray(values, dtype=object).tolist(),
            type(getattr(values, "dtype", None)).__name__,
        )
        for column, values in named
    }


def _is_absent(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT or NA."""
    if value is None or type(value).__name__ in ("NaTType", "NAType"):
        return True
    return isinstance(value, (float, np.floating)) and math.isnan(value)


def _cell(value: Any) -> str:
    """Return the text of a value, with all digits of a number."""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)
