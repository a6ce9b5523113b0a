r"""The columns of a table: which of them become inputs and how, are left out, or are refused.

Every decision is a remark, which the model file keeps. A column is

- left out, if it counts the rows (the index that pandas writes), is empty, or is text with another value in most rows,
- a number, if all its values are, in one format (:mod:`problems.tables.number_format`); a date, if it is named as one;
  and text with few values, or codes such as 007, categories.

An ambiguous column is refused, with the parameter that decides about it. A number is standardised by the rows
that train,

.. math:: x \leftarrow (x - m) / s, \qquad m \text{ mean}, \; s \text{ standard deviation (1 where it is zero)},

a date becomes days since the first date first, and a category one 0-1 column per category, or a column of codes for a
kernel. A missing cell is refused unless the input has a value to fill it in, which for categories that are missing in
training rows too is a further category. A category that training did not see is refused, or none of the known ones.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from problems.tables.number_format import (
    PLAIN,
    NumberFormat,
    is_code,
    is_mixed,
    is_number_like,
    number,
    numbers_of,
    readings,
    two_readings,
)
from problems.tables.table import Table, counts_rows, is_missing, named_columns
from substrate.arrays import Array
from substrate.errors import DataError
from substrate.files import stored

__all__ = [
    "CATEGORICAL",
    "DATE_FORMATS",
    "IMPUTE",
    "UNKNOWN",
    "Input",
    "Treated",
    "dates_of",
    "decimals_of",
    "describe_unknown",
    "fill_inputs",
    "labels_of",
    "prepare",
    "raw_matrix",
    "refuse_overflow",
    "scale_inputs",
    "treat",
]

#: How categories can enter a machine; what can be done about missing cells, and about categories that are not known.
CATEGORICAL, IMPUTE, UNKNOWN = ("one-hot", "kernel"), ("refuse", "median", "drop"), ("refuse", "ignore")
#: The category of cells that are missing, where some of the training rows are.
_MISSING = "(missing)"
#: Text with at most so many values is a category without being asked to; a text target has at most so many classes.
_MOST_CATEGORIES, _MOST_CLASSES = 50, 20
#: The fewest values of a text that may name the groups of rows.
_FEWEST_GROUPS = 15
#: Fewer rows than this are a handful.
_HANDFUL = 30
_PANDAS = re.compile(r"Unnamed: \d+")
#: How dates are written, by the name that a model file keeps; with slashes, the order of day and month must be clear.
DATE_FORMATS = {
    "iso": "",
    "day.month.year": "%d.%m.%Y",
    "day/month/year": "%d/%m/%Y",
    "month/day/year": "%m/%d/%Y",
}
_DAY = timedelta(days=1)


@stored
@dataclass(frozen=True, slots=True)
class Input:
    """One column of the table: numeric with centre and scale, or categorical with the categories seen in training.

    ``fill`` replaces a missing cell, where there is one; ``origin`` is the first date of a column of dates, written as
    ``date_format`` says; ``written`` is the format of its numbers, None where it is unknown until new tables show it;
    ``low`` and ``high`` are the least and the largest number of the training table, None where they are not known. With
    ``by_kernel`` categories are one column of codes, from 0 on, for a separate kernel; -1 is none of them.
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
    by_kernel: bool = False

    def __post_init__(self) -> None:
        numbers = [value for value in (self.center, self.scale, self.low, self.high) if value is not None]
        if not np.isfinite(numbers).all() or not self.scale > 0.0:
            raise ValueError(f"{self.name!r} has the numbers {numbers}")
        fills = isinstance(self.fill, (int, float)) and np.isfinite(self.fill)
        if self.fill is not None and not (fills if self.categories is None else self.fill in self.categories):
            raise ValueError(f"{self.name!r} fills missing cells with {self.fill!r}")
        if self.date_format not in DATE_FORMATS or (self.origin is not None and dates_of([self.origin]) is None):
            raise ValueError(f"{self.name!r} has dates written {self.date_format!r}, from {self.origin!r} on")

    @property
    def features(self) -> tuple[str, ...]:
        """Return the names of its columns in X."""
        if self.categories is None or self.by_kernel:
            return (self.name,)
        return tuple(f"{self.name}={c}" for c in self.categories)


@dataclass(frozen=True, slots=True)
class Treated:
    """The table that is used, its inputs, the target of each row with its task, and what was done to it."""

    table: Table
    inputs: tuple[Input, ...]
    remarks: tuple[str, ...]
    task: str = ""
    y: Any = None


def treat(table: Table, options: Any, target: str, task: str = "auto") -> Treated:
    """Decide about every column, then about rows with missing cells.

    Parameters
    ----------
    table
        The table.
    options
        Whatever has the attributes ``drop``, ``categories``, ``dates``, ``id``, ``group``, ``time``, ``impute`` and
        ``categorical``.
    target
        The column that is predicted; empty for none.
    task
        "regression", "classification", or "auto" to decide by the target.
    """
    for name, allowed in (("impute", IMPUTE), ("categorical", CATEGORICAL)):
        if getattr(options, name) not in allowed:
            raise DataError(f"{name} must be one of {', '.join(allowed)}, received {getattr(options, name)!r}")
    if target in options.drop:
        raise DataError(f"the target {target!r} cannot be left out (drop={list(options.drop)})")
    table = table.drop_columns(options.drop)
    _check_named(table, options, target)
    rows, written = list(range(table.n_rows)), dict[str, NumberFormat]()
    remarks: list[str] = []
    if target:
        rows, remarks = _rows_with_target(table, target)
        table, written = _target_in_plain(table, target, task)
        task, why = _task_of(table.take_rows(rows), target, task)
        remarks = [why, *remarks]
    used = table.take_rows(rows)
    inputs, decided, problems = _inputs(used, options, target)
    lacking = {entry.name: missing for entry in inputs if (missing := used.missing(entry.name))}
    if options.impute == "refuse" and lacking:
        problems.append(_missing_cells(used, lacking))
    _refuse_all(table, problems)
    if not inputs:
        said = "".join(f"; {remark}" for remark in decided)
        purpose = f" other than the target {target!r} to predict it from" if target else " that can be used"
        raise DataError(f"{table.source} has no column{purpose}{said}")
    written |= {entry.name: entry.written for entry in inputs if entry.written is not None}
    if any(form.decimal == "," for form in written.values()):  # whole numbers may have decimals in another table
        pointed = {entry.name for entry in inputs if any("." in cell for cell in table.column(entry.name))}
        whole = [entry.written == PLAIN and entry.name not in pointed for entry in inputs]
        inputs = [
            replace(entry, written=NumberFormat(",")) if is_whole else entry
            for entry, is_whole in zip(inputs, whole, strict=True)
        ]
    table = table.in_plain(written)
    hints = _group_hints(used, inputs, options) if target else []
    remarks = [*remarks[:1], *hints, *table.remarks, *_format_remarks(written, table), *remarks[1:], *decided]
    used = table.take_rows(rows)
    if options.impute == "drop" and lacking:
        gone = sorted({row for missing in lacking.values() for row in missing})
        if len(gone) == used.n_rows:
            raise DataError(f"every row of {table.source} has a missing cell; impute='drop' would leave none")
        remarks.append(f"left out: {_count(len(gone), 'row')} with missing cells ({used.name_rows(gone)})")
        used = used.take_rows([row for row in range(used.n_rows) if row not in set(gone)])
        inputs = [
            entry if entry.categories is None else replace(entry, categories=_levels(used.column(entry.name)))
            for entry in inputs
        ]
    if target and used.n_rows < 2:
        raise DataError(f"{table.source} has one usable row; a model needs at least two, better dozens")
    if target and used.n_rows < _HANDFUL:
        remarks.append(f"few rows: {used.n_rows}; the errors below can be far from the errors on new rows")
    y: Any = labels_of(used, target, task) if target else None
    if task == "classification" and np.unique(y).size < 2:
        raise DataError(f"the target {target!r} has one class only, {y[0]!s}; at least two are needed")
    if task == "regression" and np.ptp(y) == 0.0:
        remarks.insert(1, f"constant: {target} and every prediction are {y[0]:g} in all rows")
    return Treated(table=used, inputs=tuple(inputs), remarks=tuple(remarks), task=task, y=y)


def _levels(cells: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted({cell for cell in cells if not is_missing(cell)}))


def _check_named(table: Table, options: Any, target: str) -> None:
    """Refuse named columns that the table lacks, and columns that are named for two purposes."""
    if target:
        table.column(target)
    named = {"categories": options.categories, "dates": options.dates, "id": options.id}
    for parameter, names in named.items():
        if isinstance(names, str):
            raise DataError(f"{parameter} must be a list of names of columns, as [{names!r}]")
        for name in names:
            table.column(name)
            if name == target:
                raise DataError(f"the target {name!r} cannot be an input or an id ({parameter}={[name]})")
    several = [name for names in named.values() for name in dict.fromkeys(names)]
    if twice := sorted({name for name in several if several.count(name) > 1}):
        raise DataError(f"column {twice[0]!r} is named by two of categories, dates and id; name it in one only")
    if isinstance(options.time, str):
        table.column(options.time)
    group = options.group
    if group is not None:
        table.column(group)
        if group == target or group in (*options.categories, *options.dates):
            what = "the target" if group == target else "an input"
            raise DataError(f"column {group!r} cannot be {what} and a group (group={group!r}); name another column")
        if lacking := table.missing(group):
            raise DataError(
                f"column {group!r} of {table.source} has no value in {table.name_rows(lacking)}, so that these rows "
                "belong to no group; give them one, or take these rows out of the table"
            )


def _needs_a_word(form: NumberFormat, table: Table) -> bool:
    """Return whether these are numbers by decimal commas alone, in a file whose separator is the comma."""
    return form == NumberFormat(",") and table.decimal is None and not table.takes_commas


def _format_remarks(formats: Mapping[str, NumberFormat], table: Table) -> list[str]:
    """Return one line for every number format, with the columns written in it."""
    columns: dict[str, list[str]] = {}
    for name in table.columns:
        if name in formats and formats[name].in_words():
            columns.setdefault(formats[name].in_words(), []).append(name)
    hint = " (decimal='.' if these are not numbers)" if table.decimal is None else ""
    return [
        f"{words}: {named_columns(names)}" + (hint if words == "decimal comma" else "")
        for words, names in columns.items()
    ]


def _count(n: int, thing: str) -> str:
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"


def _missing_cells(table: Table, lacking: Mapping[str, Sequence[int]]) -> str:
    """Return one sentence about the columns that have missing cells, with the choices."""
    advice = "give impute='median' to fill such cells in, impute='drop' to leave such rows out, or leave out the column"
    if len(lacking) == 1:
        ((name, rows),) = lacking.items()
        return f"column {name!r} of {table.source} has no value in {table.name_rows(rows)}; {advice} (drop={[name]})"
    listed = named_columns([f"{name!r} ({table.name_rows(rows)})" for name, rows in lacking.items()])
    return f"columns of {table.source} have no value in some rows: {listed}; {advice}s (drop={list(lacking)})"


def _refuse_all(table: Table, problems: Sequence[str]) -> None:
    """Refuse a table, and list all open decisions in one message."""
    if len(problems) == 1:
        raise DataError(problems[0])
    if problems:
        listed = "".join(f"\n  {number}. {problem}" for number, problem in enumerate(problems, 1))
        raise DataError(f"{len(problems)} decisions are needed about {table.source}:{listed}")


def _rows_with_target(table: Table, target: str) -> tuple[list[int], list[str]]:
    missing = set(table.missing(target))
    rows = [row for row in range(table.n_rows) if row not in missing]
    if not rows:
        raise DataError(f"the target {target!r} of {table.source} has no value in any row; name another column")
    if not missing:
        return rows, []
    gone = table.name_rows(sorted(missing))
    return rows, [f"left out: {_count(len(missing), 'row')} without a target ({gone})"]


def _target_in_plain(table: Table, target: str, task: str) -> tuple[Table, dict[str, NumberFormat]]:
    """Return the table with plain numbers in a numeric target, and the format in which they were written."""
    form = None if task == "classification" else table.number_format(target)
    if form is None or _needs_a_word(form, table):
        return table, {}
    return table.in_plain({target: form}), {target: form}


def _task_of(table: Table, target: str, task: str) -> tuple[str, str]:
    """Return regression or classification, and the sentence that states why."""
    cells = table.column(target)
    codes = task == "auto" and is_code(cells)
    strange = [row for row, cell in enumerate(cells) if codes or number(cell) is None]
    values = len(set(cells)) if strange else len(set(map(number, cells)))
    if task == "regression" and strange:
        raise DataError(
            f"the target {target!r} is not numeric ({_odd_cell(table, target)}); "
            f"{_numeric_advice(cells, 'take a classifier')}"
        )
    if task != "auto":
        return task, f"task: {task} of {target}"
    if not strange and values == 2:
        return "classification", f"task: classification, since {target} has two values (task='regression' for numbers)"
    if not strange:
        few = 2 < values <= min(10, len(cells) // 2)
        hint = f" (it has {values} values; if they are classes, task='classification')" if few else ""
        return "regression", f"task: regression, since the target {target} is numeric{hint}"
    if 2 * len(strange) < len(cells) or values > max(_MOST_CLASSES, len(cells) // 2) or _has_decimal_commas(cells):
        advice = _numeric_advice(cells, "give task='classification' for classes")
        raise DataError(
            f"the target {target!r} of {table.source} is neither numeric ({_odd_cell(table, target)}) nor a few "
            f"classes ({values} values in {len(cells)} rows); {advice}"
        )
    if codes:
        code = next(cell for cell in cells if cell.strip().startswith("0"))
        why = f"has codes such as {code} (task='regression' for numbers)"
        return "classification", f"task: classification, since the target {target} {why}"
    return "classification", f"task: classification, since the target {target} is not numeric"


def _odd_cell(table: Table, name: str) -> str:
    """Return the first cell of a column that is not a number; in a column of codes, the first with a leading zero."""
    cells = table.column(name)
    codes = is_code([cell for cell in cells if not is_missing(cell)])
    row = next(
        row
        for row, cell in enumerate(cells)
        if (cell.strip().startswith("0") if codes else number(cell) is None and not is_missing(cell))
    )
    return f"{table.name_rows([row])} has {cells[row]!r}"


def _has_decimal_commas(cells: Sequence[str]) -> bool:
    values = [cell for cell in cells if not is_missing(cell)]
    return any("," in cell for cell in values) and all(number(cell.replace(",", ".", 1)) is not None for cell in values)


def _numeric_advice(cells: Sequence[str], otherwise: str) -> str:
    if _has_decimal_commas(cells):
        return "for numbers with a decimal comma give decimal=','"
    return f"correct the cell, or {otherwise}"


def labels_of(table: Table, target: str, task: str) -> NDArray[Any]:
    """Return the target as an array: numbers, or the labels of classes."""
    cells = table.column(target)
    numbers = [number(cell) for cell in cells]
    if task == "regression":
        targets = np.array(numbers, dtype=np.float64)
        refuse_overflow(target, targets, table)
        return targets
    # whole numbers stay numbers where a float represents them exactly; other classes and codes are their text
    whole = all(value is not None and value.is_integer() and abs(value) < 2.0**53 for value in numbers)
    if whole and not is_code(cells):
        return np.array([int(value) for value in numbers if value is not None])
    return np.array(cells)


def decimals_of(cells: Sequence[str]) -> int | None:
    """Return the largest number of decimals of plain numbers, None where one has an exponent."""
    if any("e" in cell.lower() for cell in cells):
        return None
    return max(len(cell.strip().partition(".")[2].rstrip("0")) for cell in cells)


def _inputs(table: Table, options: Any, target: str) -> tuple[list[Input], list[str], list[str]]:
    """Return the inputs, a remark on each decision, and the decisions left to the user."""
    inputs: list[Input] = []
    problems: list[str] = []
    remarks: list[str] = []
    for name in table.columns:
        if name in (target, options.group) or name in options.id:
            continue
        is_named = name in (*options.categories, *options.dates)
        if target and not is_named and table.column(name) == table.column(target):
            remarks.append(f"left out: {name}, the same as the target")
            continue
        try:
            entry = _classify_column(table, name, options)
        except DataError as error:
            problems.append(str(error))
            continue
        if isinstance(entry, str):
            remarks.append(f"left out: {name}, {entry}")
            continue
        inputs.append(entry)
        if entry.origin is not None:
            written = entry.date_format.replace("iso", "year-month-day")
            remarks.append(f"date: {name}, as days since {entry.origin[:10]} (dates written {written})")
    if options.group is not None:
        count = _count(len(set(table.column(options.group))), "group")
        remarks.append(f"group: {options.group} ({count}), not an input")
    if options.id:
        remarks.append(f"id: {named_columns(list(options.id))}, not an input, written next to the predictions")
    varying = [entry for entry in inputs if len(set(table.column(entry.name))) > 1]
    if varying and len(varying) < len(inputs):
        constant = [entry.name for entry in inputs if entry not in varying]
        remarks.append(f"left out: {named_columns(constant)}, with one value in all rows")
        inputs = varying
    if coded := [entry for entry in inputs if entry.categories is not None]:
        listed = named_columns([f"{entry.name} ({len(entry.categories or ())} categories)" for entry in coded])
        by_kernel = options.categorical == "kernel"
        way = "a kernel with a width for each" if by_kernel else "one 0-1 input per category"
        remarks.append(f"{'categories' if by_kernel else 'one-hot'}: {listed}, {way}")
    return inputs, remarks, problems


def _group_hints(table: Table, inputs: Sequence[Input], options: Any) -> list[str]:
    """Return one line for every text column whose values may name groups of rows, as patients of several visits."""
    hints = []
    for entry in inputs if options.group is None else ():
        counts = Counter(table.column(entry.name))
        if entry.categories is not None and len(counts) >= _FEWEST_GROUPS and min(counts.values()) > 1:
            usual = Counter(counts.values()).most_common(1)[0][0]
            rows = f"with {usual} rows each" if len(set(counts.values())) == 1 else f"most often with {usual} rows"
            words = f"{len(counts)} values {rows}; if new rows belong to new groups, group={entry.name!r}"
            hints.append(f"like a group: {entry.name}, {words}")
    return hints


def _classify_column(table: Table, name: str, options: Any) -> Input | str:
    """Return the input that a column becomes, by the options or by its cells, or the reason why it is left out."""
    cells, by_kernel = table.column(name), options.categorical == "kernel"
    values = [cell for cell in cells if not is_missing(cell)]
    where, leave = f"column {name!r} of {table.source}", f"leave it out by drop={[name]}"
    is_date = name in options.dates or (name in table.dates and name not in options.categories)
    if is_date or (name == options.time and dates_of(values) is not None):
        if (dates := dates_of(values)) is None:
            raise DataError(
                f"{where} does not hold dates in one clear format (it has {(values or cells)[0]!r}); write them as "
                "2024-01-31"
            )
        return Input(name, origin=min(dates[1]).isoformat(), date_format=dates[0])
    if name in options.categories or name in table.categories:
        return Input(name, _levels(values), by_kernel=by_kernel)
    if not values:
        return "which is empty"
    if _PANDAS.fullmatch(name) and counts_rows(cells, int(name.rpartition(" ")[2])):
        return "which numbers the rows (the index of a pandas frame)"
    form = table.number_format(name)
    if form is not None and not _needs_a_word(form, table):
        return Input(name, written=form)
    categories = _levels(values)
    if is_code(values) and len(categories) > min(_MOST_CATEGORIES, len(values) // 2):
        raise DataError(
            f"{where} holds integers with leading zeros ({_odd_cell(table, name)}), which are codes rather than "
            f"numbers ({len(categories)} in {_count(len(values), 'row')}); code them by categories={[name]}, {leave}, "
            "or write them without the zeros if they are numbers"
        )
    if is_code(values):
        return Input(name, categories, by_kernel=by_kernel)
    if _has_decimal_commas(cells):
        raise DataError(f"{where} has decimal commas ({_odd_cell(table, name)}); give decimal=','")
    if dates_of(values) is not None or all(re.fullmatch(r"\s*\d{1,2}[/.]\d{1,2}[/.]\d{4}\s*", cell) for cell in values):
        raise DataError(
            f"{where} holds dates ({_odd_cell(table, name)}); use them by dates={[name]}, or {leave}; if later "
            f"rows are to be predicted from earlier ones, time={name!r}"
        )
    if 2 * sum(map(is_number_like, values)) >= len(values):
        raise DataError(
            f"{where} is not numeric ({_odd_cell(table, name)}); correct that cell, or empty it, code the column by "
            f"categories={[name]} if its values are categories, or {leave}"
        )
    if 2 * len(categories) > len(values):
        return (
            f"a text with {len(categories)} values in {_count(len(values), 'row')}, a name rather than a category "
            f"(id={[name]} writes it next to the predictions)"
        )
    if len(categories) > _MOST_CATEGORIES:
        raise DataError(
            f"{where} is a text with {len(categories)} values, each of which would be an input; code them by "
            f"categories={[name]}, or {leave}; if new rows belong to new values, as to new patients, group={name!r}"
        )
    return Input(name, categories, by_kernel=by_kernel)


def dates_of(cells: Sequence[str]) -> tuple[str, list[datetime]] | None:
    """Return the format in which all cells are dates, and the dates; None unless exactly one format fits."""
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
    text = cell.strip()
    if date_format == "iso" and text.isdecimal():  # 20200131 is a number before it is a date
        return None
    try:
        is_iso = date_format == "iso"
        date = datetime.fromisoformat(text) if is_iso else datetime.strptime(text, DATE_FORMATS[date_format])
    except ValueError:
        return None
    return date if date.tzinfo is None else date.astimezone(UTC).replace(tzinfo=None)


def _fill_advice(name: str) -> str:
    return (
        "fill the cells in, fit with impute='median' (or impute='drop', which leaves the rows out), or leave out the "
        f"column (drop={[name]})"
    )


def _numbers(entry: Input, table: Table) -> list[float]:
    """Return the numbers of a column of numbers or dates; missing cells filled in, or refused."""
    where, cells = f"column {entry.name!r} of {table.source}", table.column(entry.name)
    missing = table.missing(entry.name)
    if missing and entry.fill is None:
        raise DataError(f"{where} has no value in {table.name_rows(missing)}; {_fill_advice(entry.name)}")
    values: list[Any]
    if entry.origin is not None:
        origin = datetime.fromisoformat(entry.origin)
        dates = [_date(cell, entry.date_format) for cell in cells]
        values = [None if date is None else (date - origin) / _DAY for date in dates]
    else:
        form = _format(entry, table)
        plain = numbers_of(cells) if form == PLAIN else None
        values = [form.number(cell) for cell in cells] if plain is None else list(plain)
    for row in missing:
        values[row] = entry.fill
    strange = [row for row, value in enumerate(values) if value is None]
    if strange and entry.origin is not None:
        example = origin.strftime(DATE_FORMATS[entry.date_format] or "%Y-%m-%d")
        raise DataError(f"{where} must hold dates ({example}): {table.name_rows(strange)} ({cells[strange[0]]!r})")
    if strange:
        _refuse_strange(where, table, form, cells, strange)
    if entry.origin is None:
        _refuse_another_reading(entry, table, form)
    return values


def _refuse_strange(where: str, table: Table, form: NumberFormat, cells: Sequence[str], strange: Sequence[int]) -> None:
    """Refuse cells that are not numbers in the format of the training table, with advice."""
    cell, present = cells[strange[0]], [cell for cell in cells if not is_missing(cell)]
    every = readings(present)
    if form.decimal == "," and number(cell) is not None and len(every) == 1:
        raise DataError(
            f"{where} has {cell!r} in {table.name_rows(strange[:1])}, and the decimal mark is the comma; give "
            "decimal='.' if it is the point here"
        )
    advice = "; for numbers with a decimal comma give decimal=','" if every else ""
    if every and every[0][0].unit != form.unit:
        description = f"had the sign {form.unit}" if form.unit else "had no percent or currency sign"
        advice = f"; the numbers of the training table {description}: write these in the same way"
    elif len(every) > 1:
        advice = f", and {two_readings(present, every)}"
    elif every and every[0][0].thousands:
        example = next(cell for cell in present if number(cell) is None)
        advice = f"; for numbers such as {example!r} give thousands={every[0][0].thousands!r}"
    raise DataError(f"{where} must be numeric: {table.name_rows(strange)} ({cell!r}){advice}")


def _refuse_another_reading(entry: Input, table: Table, form: NumberFormat) -> None:
    """Refuse numbers of a new table if another way to read them makes them resemble the training table.

    The reading is the one of training. Where it leaves the range of the training table and the other one does not, or
    where the column has the look of separated thousands and both are in the range, the table may be written otherwise.
    """
    low, high = entry.low, entry.high
    is_stated = table.decimal is not None or table.thousands is not None
    if low is None or high is None or is_stated or entry.name in table.plain | table.typed:
        return
    cells = [cell for cell in table.column(entry.name) if not is_missing(cell)]
    every = readings(cells)
    if len(every) < 2:
        return
    values = [form.number(cell) for cell in cells]
    others = next(numbers for _, texts in every if (numbers := [float(text) for text in texts]) != values)
    differing = [pair for pair in zip(values, others, strict=True) if pair[0] != pair[1]]
    as_read = all(value is not None and low <= value <= high for value, _ in differing)
    otherwise = all(low <= value <= high for _, value in differing)
    if otherwise and (not as_read or is_mixed(cells, every)):
        raise DataError(
            f"column {entry.name!r} of {table.source} {two_readings(cells, every)}; the training table had {low:g} to "
            f"{high:g}"
        )


def _format(entry: Input, table: Table) -> NumberFormat:
    """Return the format in which the numbers of a column are read: as in training, unless the user states other
    marks."""
    if entry.name in table.typed and entry.written is not None and entry.written.unit == "%":
        raise DataError(
            f"column {entry.name!r} of {table.source} holds plain numbers, but percentages in the training table; "
            "write them as text with a percent sign, as 5%"
        )
    if entry.name in table.plain | table.typed:
        return PLAIN
    if entry.written is None:
        return table.number_format(entry.name) or PLAIN
    decimal = table.decimal or {",": ".", ".": ","}.get(table.thousands or "", entry.written.decimal)
    thousands = entry.written.thousands if table.thousands is None else table.thousands
    form = replace(entry.written, decimal=decimal, thousands="" if thousands == decimal else thousands)
    if form != entry.written:
        table.number_format(entry.name)  # which refuses what may be a trap, as in a training table
    return form


def fill_inputs(inputs: Sequence[Input], table: Table) -> tuple[Input, ...]:
    """Return the inputs with the value that fills missing cells: for numbers the median of these rows; for categories a
    separate one where these rows have missing cells, and otherwise the most frequent one.
    """
    filled_inputs = []
    for entry in inputs:
        cells = [cell for cell in table.column(entry.name) if not is_missing(cell)]
        if not cells:
            raise DataError(
                f"column {entry.name!r} of {table.source} has no value in the rows that train; leave it out by "
                f"drop={[entry.name]}"
            )
        if entry.categories is None:
            present = replace(table, columns={entry.name: tuple(cells)}, rows=None)
            filled_inputs.append(replace(entry, fill=float(np.median(_numbers(entry, present)))))
        elif len(cells) < table.n_rows:
            levels = tuple(sorted({*entry.categories, _MISSING}))
            filled_inputs.append(replace(entry, categories=levels, fill=_MISSING))
        else:  # the first in order of several, so that the order of the rows does not matter
            counts = Counter(cells)
            filled_inputs.append(replace(entry, fill=min(counts, key=lambda cell: (-counts[cell], cell))))
    return tuple(filled_inputs)


def describe_imputation(inputs: Sequence[Input], table: Table) -> list[str]:
    """Return one line for every column in which cells are filled in."""
    lines = []
    for entry in inputs:
        if entry.fill is None or not (rows := table.missing(entry.name)):
            continue
        by = f"median {entry.fill:.6g} of the training rows" if entry.categories is None else ""
        if entry.origin is not None:
            date = datetime.fromisoformat(entry.origin) + float(str(entry.fill)) * _DAY
            by = f"median {date.date().isoformat()} of the training rows"
        elif entry.categories is not None:
            separate = "separate category (missing)"
            by = separate if entry.fill == _MISSING else f"most frequent category {entry.fill!r} of the training rows"
        lines.append(f"imputed: {entry.name}, {len(rows)} of {table.n_rows} cells, by the {by}")
    return lines


def describe_unknown(inputs: Sequence[Input], table: Table) -> list[str]:
    """Return one line for every column with categories that training did not see."""
    return [
        f"unknown: {entry.name}, {len(rows)} of {table.n_rows} cells ({table.column(entry.name)[rows[0]]!r} in "
        f"{table.name_rows(rows)}), as none of its categories"
        for entry in inputs
        if entry.categories is not None and (rows := _unknown_rows(entry, table))
    ]


def _unknown_rows(entry: Input, table: Table) -> list[int]:
    seen = set(entry.categories or ())
    return [row for row, cell in enumerate(table.column(entry.name)) if cell not in seen and not is_missing(cell)]


def raw_matrix(inputs: Sequence[Input], table: Table, unknown: str = "refuse") -> Array:
    """Return the columns as numbers in their original units; categories as 0 and 1, or as codes.

    ``unknown`` categories, which training did not see, are refused, or unlike all others (``"ignore"``): zero in all
    their columns, or of the code -1.
    """
    if unknown not in UNKNOWN:
        raise DataError(f"unknown must be one of {', '.join(UNKNOWN)}, received {unknown!r}")
    columns = [
        np.array(_numbers(entry, table))[:, None] if entry.categories is None else _indicators(entry, table, unknown)
        for entry in inputs
    ]
    return np.hstack(columns)


def _indicators(entry: Input, table: Table, unknown: str) -> Array:
    where, missing = f"column {entry.name!r} of {table.source}", table.missing(entry.name)
    if missing and entry.fill is None:
        raise DataError(f"{where} has no value in {table.name_rows(missing)}; {_fill_advice(entry.name)}")
    cells = np.array([str(entry.fill) if is_missing(cell) else cell for cell in table.column(entry.name)])
    strange, categories = _unknown_rows(entry, table), np.array(entry.categories)
    if strange and unknown == "refuse":
        raise DataError(
            f"{where} has the category {str(cells[strange[0]])!r} in {table.name_rows(strange)}, which training did "
            f"not see; it saw {named_columns(categories.tolist())}; correct the cells, or give unknown='ignore' to "
            "predict such rows as for none of these categories"
        )
    indicators = np.asarray(cells[:, None] == categories, dtype=np.float64)
    if not entry.by_kernel:
        return indicators
    return np.where(indicators.any(axis=1), indicators.argmax(axis=1), -1.0)[:, None]


def refuse_overflow(name: str, values: Array, table: Table) -> None:
    """Refuse a column whose squares cannot be added up: it has no deviation, and distances in it overflow."""
    with np.errstate(over="ignore"):
        finite = np.isfinite(np.square(2.0 * values).sum())
    if not finite:
        row = int(np.abs(values).argmax())
        raise DataError(
            f"column {name!r} has {values[row]:g} in {table.name_rows([row])}, whose square is infinite; correct that "
            "cell, or give the column another unit"
        )


def prepare(treated: Treated, rows: Sequence[int], options: Any) -> tuple[tuple[Input, ...], Array, list[str]]:
    """Return the inputs with fills and scales from these rows, their columns in the original units, and one line for
    every column in which cells are filled in.
    """
    table, inputs, imputed = treated.table, treated.inputs, list[str]()
    if options.impute == "median":
        inputs = fill_inputs(inputs, table.take_rows(rows))
        imputed = describe_imputation(inputs, table)
    X = raw_matrix(inputs, table)
    for name, values in zip((name for entry in inputs for name in entry.features), X.T, strict=True):
        refuse_overflow(name, values, table)
    return scale_inputs(inputs, X, rows, options.standardize), X, imputed


def scale_inputs(inputs: Sequence[Input], X: Array, rows: Any, standardize: bool = True) -> tuple[Input, ...]:
    """Return the inputs with the range of their numbers in X, and the mean and standard deviation of its ``rows``;
    categories stay 0 and 1.
    """
    from sklearn.preprocessing import StandardScaler

    scales = StandardScaler().fit(X[rows])
    scaled_inputs, column = [], 0
    for entry in inputs:
        if entry.categories is None and entry.origin is None:
            entry = replace(entry, low=float(X[:, column].min()), high=float(X[:, column].max()))
        if entry.categories is None and standardize:
            entry = replace(entry, center=float(scales.mean_[column]), scale=float(scales.scale_[column]))
        scaled_inputs.append(entry)
        column += len(entry.features)
    return tuple(scaled_inputs)
