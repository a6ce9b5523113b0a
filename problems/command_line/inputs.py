"""One input of a model: the column of a table that it is made of, and how its cells become numbers.

A cell is a number, written as those of the training table; or a date, which becomes the days since the first date of
the training table; or a category, which becomes one 0-1 column per category. A missing cell is refused unless the input
has a value to fill it in.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from problems.command_line.number_format import PLAIN, NumberFormat, is_mixed, number, readings, two_readings
from problems.command_line.table import Table, is_missing, named_columns
from substrate.arrays import Array
from substrate.errors import DataError

__all__ = ["DATE_FORMATS", "Input", "dates_of", "filled", "imputed", "raw_matrix", "with_ranges"]

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
    ``low`` and ``high`` are the least and the largest number of the training table, None where they are not known.
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

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its columns in X."""
        return (self.name,) if self.categories is None else tuple(f"{self.name}={c}" for c in self.categories)


def dates_of(cells: Sequence[str]) -> tuple[str, list[datetime]] | None:
    """The format in which all cells are dates, and the dates; None where there is none, or more than one."""
    found = []
    for name in DATE_FORMATS:
        known: list[datetime] = []
        for cell in cells:
            if (date := _date(cell, name)) is None:
                break
            known.append(date)
        if cells and len(known) == len(cells):
            found.append((name, known))
    return found[0] if len(found) == 1 else None


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


def _days(one: Input, cell: str) -> float | None:
    """Days since the origin, or None for a cell that is no such date."""
    date = _date(cell, one.date_format)
    return None if date is None else (date - datetime.fromisoformat(str(one.origin))) / _DAY


def _values(one: Input, table: Table) -> list[float]:
    """The numbers of a column of numbers or dates; missing cells filled in, or refused."""
    form = _format(one, table) if one.origin is None else PLAIN
    if one.origin is None and form == PLAIN and (numbers := table.numbers(one.name)) is not None:
        _refuse_another_reading(one, table, form)
        return numbers
    cells = table.column(one.name)
    values: list[Any] = [_days(one, cell) if one.origin is not None else form.number(cell) for cell in cells]
    missing = table.missing(one.name)
    if missing and one.fill is None:
        table.refuse_missing([one.name], _fill_advice(one.name))
    for row in missing:
        values[row] = one.fill
    if strange := [row for row, value in enumerate(values) if value is None]:
        cell = cells[strange[0]]
        where = f"column {one.name!r} of {table.source}"
        if one.origin is not None:
            raise DataError(f"{where} must hold dates ({_example(one)}): {table.named(strange)} ({cell!r})")
        known = [cell for cell in cells if not is_missing(cell)]
        if form.decimal == "," and number(cell) is not None and len(readings(known)) == 1:
            raise DataError(
                f"{where} has {cell!r} in {table.named(strange[:1])}, and the decimal mark is the comma; give "
                "--decimal . if it is the point here"
            )
        advice = _format_advice(form, known)
        raise DataError(f"{where} must be numeric: {table.named(strange)} ({cell!r}){advice}")
    if one.origin is None:
        _refuse_another_reading(one, table, form)
    return values


def _refuse_another_reading(one: Input, table: Table, form: NumberFormat) -> None:
    """Refuse numbers of a new table that can be read in another way, by which they are like those of training.

    The reading is the one of training. Where it leaves the range of the training table and the other one does not, or
    where the column has the look of separated thousands and both are in the range, the table may be written otherwise.
    """
    if one.low is None or one.high is None or one.name in table.plain | table.typed:
        return
    if table.decimal is not None or table.thousands is not None:
        return
    cells = [cell for cell in table.column(one.name) if not is_missing(cell)]
    found = readings(cells)
    if len(found) < 2:
        return
    mine = [form.number(cell) for cell in cells]
    others = next(values for _, made in found if (values := [float(text) for text in made]) != mine)
    differing = [(value, other) for value, other in zip(mine, others, strict=True) if value != other]
    here, there = (all(one.low <= pair[k] <= one.high for pair in differing) for k in (0, 1))  # type: ignore[operator]
    if there and (not here or is_mixed(cells, found)):
        raise DataError(
            f"column {one.name!r} of {table.source} {two_readings(cells, found)}; the training table had "
            f"{one.low:g} to {one.high:g}"
        )


def _format(one: Input, table: Table) -> NumberFormat:
    """Return how the numbers of a column are read: as in training, unless the user states other marks."""
    if one.name in table.plain:
        return PLAIN
    if one.name in table.typed:
        if one.written is not None and one.written.unit == "%":
            raise DataError(
                f"column {one.name!r} of {table.source} holds plain numbers, and those of the training table were "
                "percent; write them as text with a percent sign, as 5%"
            )
        return PLAIN
    if one.written is None:
        return table.number_format(one.name) or PLAIN
    decimal = table.decimal or {",": ".", ".": ","}.get(table.thousands or "", one.written.decimal)
    thousands = one.written.thousands if table.thousands is None else table.thousands
    form = replace(one.written, decimal=decimal, thousands="" if thousands == decimal else thousands)
    if form != one.written:
        table.number_format(one.name)  # which refuses what may be a trap, as in a training table
    return form


def _format_advice(form: NumberFormat, cells: Sequence[str]) -> str:
    """Return what to do about numbers that are written otherwise than those of the training table."""
    found = readings(cells)
    if not found:
        return ""
    other = found[0][0]
    if other.unit != form.unit:
        known = f"had the sign {form.unit}" if form.unit else "had no percent or currency sign"
        return f"; the numbers of the training table {known}: write these alike"
    if len(found) > 1:
        return f", and {two_readings(cells, found)}"
    if other.thousands:
        example = next(cell for cell in cells if number(cell) is None)
        return f"; for numbers such as {example!r} give --thousands {_quoted(other)}"
    return "; for numbers with a decimal comma give --decimal ,"


def _quoted(form: NumberFormat) -> str:
    return {" ": '" "', "'": '"\'"'}.get(form.thousands, form.thousands)


def _example(one: Input) -> str:
    """A date as the column has it."""
    date = datetime.fromisoformat(str(one.origin))
    return date.date().isoformat() if one.date_format == "iso" else date.strftime(DATE_FORMATS[one.date_format])


def _fill_advice(name: str) -> str:
    return (
        "fill the cells in, fit with --impute median (or --impute drop, which leaves the rows out), or leave out the "
        f"column (--drop {name})"
    )


def filled(inputs: Sequence[Input], table: Table, rows: Sequence[int]) -> tuple[Input, ...]:
    """The inputs with what fills missing cells: the median of these rows, or their most frequent category."""
    made = []
    for one in inputs:
        cells = [cell for cell in (table.column(one.name)[row] for row in rows) if not is_missing(cell)]
        if not cells:
            raise DataError(
                f"column {one.name!r} of {table.source} has no value in the rows that train; leave it out by --drop "
                f"{one.name}"
            )
        if one.categories is None:
            part = replace(table, columns={one.name: tuple(cells)}, rows=None)
            made.append(replace(one, fill=float(np.median(_values(one, part)))))
        else:
            made.append(replace(one, fill=min(Counter(cells).items(), key=lambda pair: (-pair[1], pair[0]))[0]))
    return tuple(made)


def imputed(inputs: Sequence[Input], table: Table) -> list[str]:
    """One line for every column in which cells are filled in."""
    return [
        f"imputed: {one.name}, {len(rows)} of {table.n_rows} cells, by the "
        + (f"most frequent category {one.fill!r}" if one.categories else f"median {_fill_words(one)}")
        + " of the training rows"
        for one in inputs
        if one.fill is not None and (rows := table.missing(one.name))
    ]


def _fill_words(one: Input) -> str:
    if one.origin is None:
        return f"{one.fill:.6g}"
    return (datetime.fromisoformat(one.origin) + float(str(one.fill)) * _DAY).date().isoformat()


def raw_matrix(inputs: Sequence[Input], table: Table) -> Array:
    """The columns as numbers, in their own units; categories as 0 and 1."""
    X = np.empty((table.n_rows, sum(len(one.features) for one in inputs)))
    column = 0
    for one in inputs:
        width = len(one.features)
        X[:, column : column + width] = (
            np.array(_values(one, table))[:, None] if one.categories is None else _indicators(one, table)
        )
        column += width
    return X


def _indicators(one: Input, table: Table) -> Array:
    if one.fill is None:
        table.refuse_missing([one.name], _fill_advice(one.name))
    categories = np.array(one.categories)
    cells = np.array([one.fill if is_missing(cell) else cell for cell in table.column(one.name)])
    # the categories of a model of an earlier release have a point where its table had a decimal comma
    known = set(categories.tolist())
    pointed = {cell: text for cell in set(cells.tolist()) - known if (text := cell.replace(",", ".")) in known}
    cells = np.array([pointed.get(cell, cell) for cell in cells.tolist()])
    strange = [int(row) for row in np.flatnonzero(~np.isin(cells, categories))]
    if strange:
        raise DataError(
            f"column {one.name!r} of {table.source} has the category {str(cells[strange[0]])!r} in "
            f"{table.named(strange)}, which training did not see; it saw {named_columns(categories.tolist())}"
        )
    return np.asarray(cells[:, None] == categories, dtype=np.float64)


def with_ranges(inputs: Sequence[Input], X: Array) -> tuple[Input, ...]:
    """Return the inputs with the least and the largest of their numbers, in the columns of :func:`raw_matrix`."""
    low, high = X.min(axis=0), X.max(axis=0)
    made, column = [], 0
    for one in inputs:
        numeric = one.categories is None and one.origin is None
        made.append(replace(one, low=float(low[column]), high=float(high[column])) if numeric else one)
        column += len(one.features)
    return tuple(made)
