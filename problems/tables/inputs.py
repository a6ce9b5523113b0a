"""One input of a model: the column of a table that it is made of, and how its cells become numbers.

A cell is a number, written as those of the training table; or a date, which becomes the days since the first date of
the training table; or a category, which becomes one 0-1 column per category, or, where categories have an order, its
rank. A missing cell is refused unless the input has a value to fill it in; of a category that is missing in training
rows too, a category of its own. A category that training did not see is refused, or ignored, as none of the known ones.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from shlex import quote
from typing import Any

import numpy as np

from problems.tables.number_format import PLAIN, NumberFormat, is_mixed, number, readings, two_readings
from problems.tables.table import Table, is_missing, named_columns
from substrate.arrays import Array
from substrate.errors import DataError

__all__ = [
    "DATE_FORMATS",
    "MISSING",
    "UNKNOWN",
    "Input",
    "dates_of",
    "describe_imputation",
    "describe_unknown",
    "fill_inputs",
    "raw_matrix",
    "with_ranges",
]

#: The category of cells that are missing, where some of the training rows are.
MISSING = "(missing)"
#: What can be done about categories that training did not see.
UNKNOWN = ("refuse", "ignore")

#: How dates are written, by the name that a model file keeps; with slashes, the order of day and month must be clear.
DATE_FORMATS = {
    "iso": "",
    "day.month.year": "%d.%m.%Y",
    "day/month/year": "%d/%m/%Y",
    "month/day/year": "%m/%d/%Y",
}
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Input:
    """One column of the table: numeric with centre and scale, or categorical with the categories seen in training.

    ``fill`` replaces a missing cell, where there is one; ``origin`` is the first date of a column of dates, written as
    ``date_format`` says; ``written`` is the format of its numbers, None where it is unknown and new tables tell it;
    ``low`` and ``high`` are the least and the largest number of the training table, None where they are not known;
    ``ranks`` are categories in their order, of a column that holds their ranks from 0 on. With ``by_kernel`` categories
    are one column of codes, from 0 on, for a kernel of their own; one that training did not see has the code -1.
    """

    name: str
    categories: tuple[str, ...] | None = None
    center: float = 0.0
    scale: float = 1.0
    fill: float | str | None = None
    origin: str | None = None
    date_format: str = "iso"
    written: NumberFormat | None = None
    low: float | None = None
    high: float | None = None
    ranks: tuple[str, ...] | None = None
    by_kernel: bool = False

    @property
    def features(self) -> tuple[str, ...]:
        """Return the names of its columns in X."""
        if self.categories is None or self.by_kernel:
            return (self.name,)
        return tuple(f"{self.name}={c}" for c in self.categories)


def dates_of(cells: Sequence[str]) -> tuple[str, list[datetime]] | None:
    """Return the format in which all cells are dates, and the dates; None where there is none, or more than one."""
    dates = []
    for name in DATE_FORMATS:
        parsed: list[datetime] = []
        for cell in cells:
            if (date := _date(cell, name)) is None:
                break
            parsed.append(date)
        if cells and len(parsed) == len(cells):
            dates.append((name, parsed))
    return dates[0] if len(dates) == 1 else None


def _date(cell: str, date_format: str) -> datetime | None:
    try:
        if date_format == "iso":
            text = cell.strip()
            # 20200131 is a number before it is a date
            date = None if text.isdecimal() else datetime.fromisoformat(text)
        else:
            date = datetime.strptime(cell.strip(), DATE_FORMATS[date_format])
    except ValueError:
        return None
    if date is not None and date.tzinfo is not None:
        return date.astimezone(UTC).replace(tzinfo=None)
    return date


def _days(input_: Input, cell: str) -> float | None:
    """Return days since the origin, or None for a cell that is no such date."""
    date = _date(cell, input_.date_format)
    return None if date is None else (date - datetime.fromisoformat(str(input_.origin))) / _DAY


def _values(input_: Input, table: Table) -> list[float]:
    """Return the numbers of a column of numbers, dates or ranks; missing cells filled in, or refused."""
    if input_.ranks is not None:
        return _ranks(input_, table)
    form = _format(input_, table) if input_.origin is None else PLAIN
    if input_.origin is None and form == PLAIN and (numbers := table.numbers(input_.name)) is not None:
        _refuse_another_reading(input_, table, form)
        return numbers
    cells = table.column(input_.name)
    values: list[Any] = [_days(input_, cell) if input_.origin is not None else form.number(cell) for cell in cells]
    missing = table.missing(input_.name)
    if missing and input_.fill is None:
        table.refuse_missing([input_.name], _fill_advice(input_.name))
    for row in missing:
        values[row] = input_.fill
    if strange := [row for row, value in enumerate(values) if value is None]:
        cell = cells[strange[0]]
        where = f"column {input_.name!r} of {table.source}"
        if input_.origin is not None:
            raise DataError(f"{where} must hold dates ({_example(input_)}): {table.name_rows(strange)} ({cell!r})")
        present = [cell for cell in cells if not is_missing(cell)]
        if form.decimal == "," and number(cell) is not None and len(readings(present)) == 1:
            raise DataError(
                f"{where} has {cell!r} in {table.name_rows(strange[:1])}, and the decimal mark is the comma; give "
                "--decimal . if it is the point here"
            )
        advice = _format_advice(form, present)
        raise DataError(f"{where} must be numeric: {table.name_rows(strange)} ({cell!r}){advice}")
    if input_.origin is None:
        _refuse_another_reading(input_, table, form)
    return values


def _ranks(input_: Input, table: Table) -> list[float]:
    """Return the ranks of ordered categories; there is none of a category that is not in the order."""
    places = {name: float(rank) for rank, name in enumerate(input_.ranks or ())}
    cells, missing = table.column(input_.name), table.missing(input_.name)
    if missing and input_.fill is None:
        table.refuse_missing([input_.name], _fill_advice(input_.name))
    filled = dict.fromkeys(missing, input_.fill)
    if strange := [row for row, cell in enumerate(cells) if row not in filled and cell not in places]:
        raise DataError(
            f"column {input_.name!r} of {table.source} has {cells[strange[0]]!r} in {table.name_rows(strange)}, which "
            f"has no place in the order {', '.join(map(repr, places))}; correct the cells"
        )
    return [float(str(filled[row])) if row in filled else places[cell] for row, cell in enumerate(cells)]


def _refuse_another_reading(input_: Input, table: Table, form: NumberFormat) -> None:
    """Refuse numbers of a new table that can be read in another way, by which they are like those of training.

    The reading is the one of training. Where it leaves the range of the training table and the other one does not, or
    where the column has the look of separated thousands and both are in the range, the table may be written otherwise.
    """
    if input_.low is None or input_.high is None or input_.name in table.plain | table.typed:
        return
    if table.decimal is not None or table.thousands is not None:
        return
    cells = [cell for cell in table.column(input_.name) if not is_missing(cell)]
    readings_found = readings(cells)
    if len(readings_found) < 2:
        return
    values_read = [form.number(cell) for cell in cells]
    values_otherwise = next(
        values for _, texts in readings_found if (values := [float(text) for text in texts]) != values_read
    )
    differing = [
        (value, otherwise) for value, otherwise in zip(values_read, values_otherwise, strict=True) if value != otherwise
    ]
    fits_as_read, fits_otherwise = (all(input_.low <= pair[k] <= input_.high for pair in differing) for k in (0, 1))  # type: ignore[operator]
    if fits_otherwise and (not fits_as_read or is_mixed(cells, readings_found)):
        raise DataError(
            f"column {input_.name!r} of {table.source} {two_readings(cells, readings_found)}; the training table had "
            f"{input_.low:g} to {input_.high:g}"
        )


def _format(input_: Input, table: Table) -> NumberFormat:
    """Return how the numbers of a column are read: as in training, unless the user states other marks."""
    if input_.name in table.plain:
        return PLAIN
    if input_.name in table.typed:
        if input_.written is not None and input_.written.unit == "%":
            raise DataError(
                f"column {input_.name!r} of {table.source} holds plain numbers, and those of the training table were "
                "percent; write them as text with a percent sign, as 5%"
            )
        return PLAIN
    if input_.written is None:
        return table.number_format(input_.name) or PLAIN
    decimal = table.decimal or {",": ".", ".": ","}.get(table.thousands or "", input_.written.decimal)
    thousands = input_.written.thousands if table.thousands is None else table.thousands
    form = replace(input_.written, decimal=decimal, thousands="" if thousands == decimal else thousands)
    if form != input_.written:
        table.number_format(input_.name)  # which refuses what may be a trap, as in a training table
    return form


def _format_advice(form: NumberFormat, cells: Sequence[str]) -> str:
    """Return what to do about numbers that are written otherwise than those of the training table."""
    readings_found = readings(cells)
    if not readings_found:
        return ""
    other_format = readings_found[0][0]
    if other_format.unit != form.unit:
        description = f"had the sign {form.unit}" if form.unit else "had no percent or currency sign"
        return f"; the numbers of the training table {description}: write these alike"
    if len(readings_found) > 1:
        return f", and {two_readings(cells, readings_found)}"
    if other_format.thousands:
        example = next(cell for cell in cells if number(cell) is None)
        return f"; for numbers such as {example!r} give --thousands {_quote(other_format)}"
    return "; for numbers with a decimal comma give --decimal ,"


def _quote(form: NumberFormat) -> str:
    return {" ": '" "', "'": '"\'"'}.get(form.thousands, form.thousands)


def _example(input_: Input) -> str:
    """Return a date as the column has it."""
    date = datetime.fromisoformat(str(input_.origin))
    return date.date().isoformat() if input_.date_format == "iso" else date.strftime(DATE_FORMATS[input_.date_format])


def _fill_advice(name: str) -> str:
    return (
        "fill the cells in, fit with --impute median (or --impute drop, which leaves the rows out), or leave out the "
        f"column (--drop {quote(name)})"
    )


def _most_frequent(cells: Sequence[str]) -> str:
    """Return the most frequent cell, the first in order of several; the order of the rows does not matter."""
    counts = Counter(cells)
    return min(counts, key=lambda cell: (-counts[cell], cell))


def fill_inputs(inputs: Sequence[Input], table: Table, rows: Sequence[int]) -> tuple[Input, ...]:
    """Return the inputs with what fills missing cells: the median of these rows; of categories one of its own where
    these rows have missing cells, and otherwise the most frequent one.
    """
    filled_inputs = []
    for input_ in inputs:
        cells = [cell for cell in (table.column(input_.name)[row] for row in rows) if not is_missing(cell)]
        if not cells:
            raise DataError(
                f"column {input_.name!r} of {table.source} has no value in the rows that train; leave it out by --drop "
                f"{quote(input_.name)}"
            )
        if input_.categories is None:
            column_table = replace(table, columns={input_.name: tuple(cells)}, rows=None)
            filled_inputs.append(replace(input_, fill=float(np.median(_values(input_, column_table)))))
        elif len(cells) < len(rows):
            levels = tuple(sorted({*input_.categories, MISSING}))
            filled_inputs.append(replace(input_, categories=levels, fill=MISSING))
        else:
            filled_inputs.append(replace(input_, fill=_most_frequent(cells)))
    return tuple(filled_inputs)


def describe_imputation(inputs: Sequence[Input], table: Table) -> list[str]:
    """Return one line for every column in which cells are filled in."""
    return [
        f"imputed: {input_.name}, {len(rows)} of {table.n_rows} cells, by the "
        + (
            "category (missing), which is one of its own"
            if input_.fill == MISSING
            else f"most frequent category {input_.fill!r} of the training rows"
            if input_.categories
            else f"median {_fill_words(input_)} of the training rows"
        )
        for input_ in inputs
        if input_.fill is not None and (rows := table.missing(input_.name))
    ]


def _fill_words(input_: Input) -> str:
    if input_.origin is None:
        return f"{input_.fill:.6g}"
    return (datetime.fromisoformat(input_.origin) + float(str(input_.fill)) * _DAY).date().isoformat()


def describe_unknown(inputs: Sequence[Input], table: Table) -> list[str]:
    """Return one line for every column with categories that training did not see."""
    return [
        f"unknown: {input_.name}, {len(rows)} of {table.n_rows} cells ({table.column(input_.name)[rows[0]]!r} in "
        f"{table.name_rows(rows)}), as none of its categories"
        for input_ in inputs
        if input_.categories is not None and (rows := _unknown_rows(input_, table))
    ]


def _unknown_rows(input_: Input, table: Table) -> list[int]:
    return [
        row
        for row, cell in enumerate(_category_cells(input_, table))
        if cell not in set(input_.categories or ()) and not is_missing(cell)
    ]


def raw_matrix(inputs: Sequence[Input], table: Table, unknown: str = "refuse") -> Array:
    """Return the columns as numbers, in their own units; categories as 0 and 1, or as codes.

    ``unknown`` categories, which training did not see, are refused, or unlike all others (``"ignore"``): zero in all
    their columns, or of the code -1.
    """
    if unknown not in UNKNOWN:
        raise DataError(f"--unknown must be one of {', '.join(UNKNOWN)}, received {unknown!r}")
    X = np.empty((table.n_rows, sum(len(input_.features) for input_ in inputs)))
    column = 0
    for input_ in inputs:
        width = len(input_.features)
        X[:, column : column + width] = (
            np.array(_values(input_, table))[:, None]
            if input_.categories is None
            else _indicators(input_, table, unknown)
        )
        column += width
    return X


def _category_cells(input_: Input, table: Table) -> list[str]:
    """Return the categories of a column, missing cells filled in where there is something to fill them with."""
    names, fill = set(input_.categories or ()), str(input_.fill)
    cells = [fill if input_.fill is not None and is_missing(cell) else cell for cell in table.column(input_.name)]
    # the categories of a model of an earlier release have a point where its table had a decimal comma
    pointed = {cell: text for cell in set(cells) - names if (text := cell.replace(",", ".")) in names}
    return [pointed.get(cell, cell) for cell in cells]


def _indicators(input_: Input, table: Table, unknown: str) -> Array:
    if input_.fill is None:
        table.refuse_missing([input_.name], _fill_advice(input_.name))
    categories, cells = np.array(input_.categories), np.array(_category_cells(input_, table))
    strange = _unknown_rows(input_, table)
    if strange and unknown == "refuse":
        raise DataError(
            f"column {input_.name!r} of {table.source} has the category {str(cells[strange[0]])!r} in "
            f"{table.name_rows(strange)}, which training did not see; it saw {named_columns(categories.tolist())}; "
            "correct the cells, or give --unknown ignore to predict such rows as of none of these categories"
        )
    indicators = np.asarray(cells[:, None] == categories, dtype=np.float64)
    if not input_.by_kernel:
        return indicators
    return np.where(indicators.any(axis=1), indicators.argmax(axis=1), -1.0)[:, None]


def with_ranges(inputs: Sequence[Input], X: Array) -> tuple[Input, ...]:
    """Return the inputs with the least and the largest of their numbers, in the columns of :func:`raw_matrix`."""
    low, high = X.min(axis=0), X.max(axis=0)
    ranged, column = [], 0
    for input_ in inputs:
        numeric = input_.categories is None and input_.origin is None
        ranged.append(replace(input_, low=float(low[column]), high=float(high[column])) if numeric else input_)
        column += len(input_.features)
    return tuple(ranged)
