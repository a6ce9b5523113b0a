"""The columns and rows of a table as they are: which become inputs and how, which are left out, and which are refused.

Every decision is one remark, which ``substrate fit`` prints and the model file keeps. A column is

- left out, if it counts the rows (the index that pandas writes), is empty, or is text with another value in most rows,
- a number, if all its values are, in one format (:mod:`problems.tables.number_format`); a date, if ``--date``
  names it; and text with few values, or codes such as 007, one-hot categories.

What could be meant in two ways is refused, with the option that decides it. Rows without a target are left out.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import Any

import numpy as np
from numpy.typing import NDArray

from problems.tables.inputs import Input, dates_of
from problems.tables.number_format import PLAIN, NumberFormat, is_code, is_number_like, number
from problems.tables.preparation import refuse_overflow
from problems.tables.sizes import MOST_CATEGORIES
from problems.tables.table import Table, counts_rows, is_missing, named_columns
from substrate.errors import DataError

__all__ = [
    "CATEGORICAL",
    "ColumnOptions",
    "Treated",
    "TreatedInputs",
    "labels_of",
    "task_of",
    "treat",
    "treat_inputs",
]

#: How categories can enter a machine.
CATEGORICAL = ("one-hot", "kernel")
#: A text target with more classes than this is no target of a classification unless asked for.
_MOST_CLASSES = 20
_PANDAS = re.compile(r"Unnamed: \d+")
#: Fewer rows than this are a handful.
_HANDFUL = 30


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """What the command line says about columns."""

    target: str
    task: str = "auto"
    one_hot: Sequence[str] = ()
    dates: Sequence[str] = ()
    ids: Sequence[str] = ()
    impute: str = "refuse"
    #: Whether rows are in the order of time: the target alone is enough then.
    is_series: bool = False
    #: Categories in their order, of columns that become ranks.
    ordered: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: "one-hot", or "kernel" for one column of codes.
    categorical: str = "one-hot"
    #: The column whose rows of one value belong together, which is no input.
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Treated:
    """The table that is fitted, the numbers of its rows in the file (from 0), its inputs, and what was done to it."""

    table: Table
    rows: tuple[int, ...]
    task: str
    y: NDArray[Any]
    inputs: tuple[Input, ...]
    left_out: tuple[str, ...]
    remarks: tuple[str, ...]
    #: How the numbers of the target are written.
    target_written: NumberFormat = PLAIN


def treat(table: Table, options: ColumnOptions) -> Treated:
    """Decide about every column, then about rows with missing cells."""
    _check_names(table, options)
    if options.categorical not in CATEGORICAL:
        raise DataError(f"--categorical must be one of {', '.join(CATEGORICAL)}, received {options.categorical!r}")
    rows, remarks = _rows_with_target(table, options.target)
    table, written = _target_in_plain(table, options)
    task, why = task_of(table.take_rows(rows), options.target, options.task)
    inputs, left_out, decided, problems = _inputs(table.take_rows(rows), options)
    if options.impute == "refuse":
        problems += _missing_cells(table.take_rows(rows), [input_.name for input_ in inputs])
    _refuse_all(table, problems)
    if not inputs and not options.is_series:
        said = "".join(f"; {remark}" for remark in decided)
        raise DataError(f"{table.source} has no column beside the target {options.target!r} to predict it from{said}")
    formats = {input_.name: input_.written for input_ in inputs if input_.written is not None} | {
        options.target: written
    }
    if any(form.decimal == "," for form in formats.values()):  # whole numbers may have decimals in another table
        whole = {
            input_.name
            for input_ in inputs
            if input_.written == PLAIN and not any("." in c for c in table.column(input_.name))
        }
        inputs = [replace(input_, written=NumberFormat(",")) if input_.name in whole else input_ for input_ in inputs]
    table = table.in_plain(formats)
    remarks = [why, *table.remarks, *_format_remarks(formats, table), *remarks, *decided]
    if options.impute == "drop":
        lacking = {row for input_ in inputs for row in table.missing(input_.name)}
        kept = [row for row in rows if row not in lacking]
        if not kept:
            raise DataError(f"every row of {table.source} has a missing cell; --impute drop would leave none")
        if gone := [row for row in rows if row in lacking]:
            remarks.append(f"left out: {_count(len(gone), 'row')} with missing cells ({table.name_rows(gone)})")
        rows = kept
        inputs = [_recount_categories(input_, table.take_rows(rows)) for input_ in inputs]
    if len(rows) < 2:
        raise DataError(f"{table.source} has one row that can be used; a model needs at least two, and better dozens")
    if len(rows) < _HANDFUL:
        remarks.append(f"few rows: {len(rows)}, so that the errors below can be far from those of new rows")
    used = table.take_rows(rows)
    y = labels_of(used, rows, options.target, task)
    return Treated(
        table=used,
        rows=tuple(rows),
        task=task,
        y=y,
        inputs=tuple(inputs),
        left_out=tuple(left_out),
        remarks=tuple(remarks),
        target_written=written,
    )


@dataclass(frozen=True, slots=True)
class TreatedInputs:
    """The inputs of a table without a target: its rows, their numbers in the file (from 0), and what was done to it."""

    table: Table
    rows: tuple[int, ...]
    inputs: tuple[Input, ...]
    remarks: tuple[str, ...]


def treat_inputs(table: Table, options: ColumnOptions) -> TreatedInputs:
    """Decide about every column but ``options.target``, which is no input, and about rows with missing cells.

    An empty target names no column.
    """
    if options.target:
        _check_names(table, options)
    inputs, _, decided, problems = _inputs(table, options)
    names = [input_.name for input_ in inputs]
    if options.impute == "refuse":
        problems += _missing_cells(table, names)
    _refuse_all(table, problems)
    if not inputs:
        said = "".join(f"; {remark}" for remark in decided)
        raise DataError(f"{table.source} has no column that can be used{said}")
    formats = {input_.name: input_.written for input_ in inputs if input_.written is not None}
    table = table.in_plain(formats)
    remarks, rows = [*table.remarks, *_format_remarks(formats, table), *decided], list(range(table.n_rows))
    if options.impute == "drop":
        lacking = {row for name in names for row in table.missing(name)}
        rows = [row for row in rows if row not in lacking]
        if not rows:
            raise DataError(f"every row of {table.source} has a missing cell; --impute drop would leave none")
        if lacking:
            remarks.append(f"left out: {_count(len(lacking), 'row')} with missing cells")
        inputs = [_recount_categories(input_, table.take_rows(rows)) for input_ in inputs]
    return TreatedInputs(table=table.take_rows(rows), rows=tuple(rows), inputs=tuple(inputs), remarks=tuple(remarks))


def _target_in_plain(table: Table, options: ColumnOptions) -> tuple[Table, NumberFormat]:
    """Return the table with plain numbers in its target, where it has numbers, and how they were written."""
    form = None if options.task == "classification" else table.number_format(options.target)
    if form is None or _needs_a_word(form, table):
        return table, PLAIN
    return table.in_plain({options.target: form}), form


def _needs_a_word(form: NumberFormat, table: Table) -> bool:
    """Return whether decimal commas alone tell that these are numbers, in a file whose separator is the comma."""
    return form == NumberFormat(",") and table.decimal is None and not table.takes_commas


def _format_remarks(formats: Mapping[str, NumberFormat], table: Table) -> list[str]:
    """Return one line for every way in which numbers are written, with the columns that are."""
    columns: dict[str, list[str]] = {}
    for name in table.names:
        if name in formats and formats[name].in_words():
            columns.setdefault(formats[name].in_words(), []).append(name)
    hint = " (--decimal . if these are not numbers)" if table.decimal is None else ""
    return [
        f"{words}: {named_columns(names)}" + (hint if words == "decimal comma" else "")
        for words, names in columns.items()
    ]


def _recount_categories(input_: Input, table: Table) -> Input:
    """Return a categorical input with the categories that are left."""
    if input_.categories is None:
        return input_
    return replace(input_, categories=tuple(sorted(set(table.column(input_.name)))))


def _count(n: int, thing: str) -> str:
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"


def _missing_cells(table: Table, names: Sequence[str]) -> list[str]:
    """Return what is wrong with columns that have missing cells, in one sentence."""
    lacking = {name: rows for name in names if (rows := table.missing(name))}
    if not lacking:
        return []
    advice = "give --impute median to fill such cells in, --impute drop to leave such rows out, or leave out the column"
    if len(lacking) == 1:
        ((name, rows),) = lacking.items()
        where = f"column {name!r} of {table.source} has no value in {table.name_rows(rows)}"
        return [f"{where}; {advice} (--drop {quote(name)})"]
    listed = named_columns([f"{name!r} ({table.name_rows(rows)})" for name, rows in lacking.items()])
    names_quoted = " ".join(map(quote, lacking))
    return [f"columns of {table.source} have no value in some rows: {listed}; {advice}s (--drop {names_quoted})"]


def _refuse_all(table: Table, problems: Sequence[str]) -> None:
    """Refuse a table with everything that is to be decided about it, in one message."""
    if len(problems) == 1:
        raise DataError(problems[0])
    if problems:
        listed = "".join(f"\n  {number}. {problem}" for number, problem in enumerate(problems, 1))
        raise DataError(f"{len(problems)} things are to be decided about {table.source}:{listed}")


def _check_names(table: Table, options: ColumnOptions) -> None:
    table.column(options.target)
    named_columns = (
        ("--one-hot", options.one_hot),
        ("--ordered", list(options.ordered)),
        ("--date", options.dates),
        ("--id", options.ids),
    )
    _check_group(table, options)
    for option, names in named_columns:
        for name in names:
            table.column(name)
            if name == options.target:
                raise DataError(f"the target {name!r} cannot be an input or an id ({option} {name})")
    several = [name for _, names in named_columns for name in dict.fromkeys(names)]
    if twice := sorted({name for name in several if several.count(name) > 1}):
        options_named = "--one-hot, --ordered, --date and --id"
        raise DataError(f"column {twice[0]!r} is named by two of {options_named}; it can be one of them")


def _check_group(table: Table, options: ColumnOptions) -> None:
    """Refuse a group that is the target or an input; it may name the rows as well."""
    group = options.group
    if group is None:
        return
    table.column(group)
    if group == options.target or group in (*options.one_hot, *options.ordered, *options.dates):
        what = "the target" if group == options.target else "an input"
        raise DataError(f"column {group!r} cannot be {what} and a group (--group {quote(group)}); name another column")


def _describe_groups(table: Table, group: str) -> str:
    """Return the remark on the column of groups; rows without one are refused."""
    if lacking := table.missing(group):
        raise DataError(
            f"column {group!r} of {table.source} has no value in {table.name_rows(lacking)}, so that these rows belong "
            "to no group; give them one, or take these rows out of the table"
        )
    n_groups = len(set(table.column(group)))
    return f"group: {group} ({n_groups} {'group' if n_groups == 1 else 'groups'}), no input"


def _rows_with_target(table: Table, target: str) -> tuple[list[int], list[str]]:
    missing = set(table.missing(target))
    rows = [row for row in range(table.n_rows) if row not in missing]
    if not rows:
        raise DataError(f"the target {target!r} of {table.source} has no value in any row; name another by --target")
    if not missing:
        return rows, []
    gone = table.name_rows(sorted(missing))
    return rows, [f"left out: {_count(len(missing), 'row')} without a target ({gone})"]


def task_of(table: Table, target: str, task: str) -> tuple[str, str]:
    """Return regression or classification, and the sentence that states why."""
    cells = table.column(target)
    codes = task == "auto" and is_code(cells)
    strange = [row for row, cell in enumerate(cells, 1) if codes or number(cell) is None]
    values = len(set(cells)) if strange else len(set(map(number, cells)))
    if task == "regression" and strange:
        raise DataError(
            f"the target {target!r} is not numeric ({_cell(table, target)}); "
            f"{_numeric_advice(cells, '--task classification')}"
        )
    if task != "auto":
        return task, f"task: {task}"
    if not strange:
        if values == 2:
            return "classification", (
                f"task: classification, since the target {target} has two values (--task regression for numbers)"
            )
        hint = (
            f" (it has {values} values; if they are classes, --task classification)"
            if 2 < values <= min(10, len(cells) // 2)
            else ""
        )
        return "regression", f"task: regression, since the target {target} is numeric{hint}"
    if 2 * len(strange) < len(cells) or values > max(_MOST_CLASSES, len(cells) // 2) or _has_decimal_commas(cells):
        raise DataError(
            f"the target {target!r} of {table.source} is neither numeric ({_cell(table, target)}) nor a few classes "
            f"({values} values in {len(cells)} rows); {_numeric_advice(cells, '--task classification for classes')}"
        )
    if codes:
        code = next(cell for cell in cells if cell.strip().startswith("0"))
        return "classification", (
            f"task: classification, since the target {target} has codes such as {code} (--task regression for numbers)"
        )
    return "classification", f"task: classification, since the target {target} is not numeric"


def _cell(table: Table, name: str) -> str:
    """Return the first cell of a column that is no number, or in a column of codes the first with a leading zero."""
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
        return "for numbers with a decimal comma give --decimal ,"
    return f"correct the cell, or use {otherwise}"


def labels_of(table: Table, rows: Sequence[int], target: str, task: str) -> NDArray[Any]:
    """Return the target as an array: numbers, or the labels of classes."""
    cells = table.column(target)
    numbers = [number(cell) for cell in cells]
    if task == "regression":
        targets = np.array(numbers, dtype=np.float64)
        refuse_overflow(target, targets, rows)
        return targets
    # whole numbers stay numbers where a float represents them exactly; other classes and codes are their text
    if not is_code(cells) and all(
        value is not None and value.is_integer() and abs(value) < 2.0**53 for value in numbers
    ):
        return np.array([int(value) for value in numbers if value is not None])
    return np.array(cells)


def _inputs(table: Table, options: ColumnOptions) -> tuple[list[Input], list[str], list[str], list[str]]:
    """Return the inputs, the columns that were left out, a remark on each decision, and what the user has to decide."""
    inputs: list[Input] = []
    problems: list[str] = []
    left_out: list[str] = []
    remarks: list[str] = []
    coded: dict[str, int] = {}
    for name in table.names:
        if name in (options.target, options.group) or name in options.ids:
            continue
        try:
            input_ = _read_option(table, name, options) or _classify_column(table, name)
        except DataError as error:
            problems.append(str(error))
            continue
        if isinstance(input_, str):
            left_out.append(name)
            remarks.append(f"left out: {name}, {input_}")
            continue
        if input_.categories is not None and options.categorical == "kernel":
            input_ = replace(input_, by_kernel=True)
        inputs.append(input_)
        if input_.origin is not None:
            remarks.append(f"date: {name}, as days since {input_.origin[:10]} (dates written {input_.date_format})")
        if input_.categories is not None:
            coded[name] = len(input_.categories)
    if options.ordered:
        remarks.append(f"ranks: {named_columns(list(options.ordered))}, categories by their order")
    if options.group is not None:
        remarks.append(_describe_groups(table, options.group))
    if options.ids:
        remarks.append(f"id: {named_columns(list(options.ids))}, no input, written beside the predictions")
    if coded:
        listed = named_columns([f"{name} ({count} categories)" for name, count in coded.items()])
        by_kernel = options.categorical == "kernel"
        way = "a kernel with a width for each" if by_kernel else "one 0-1 input per category"
        remarks.append(f"{'categories' if by_kernel else 'one-hot'}: {listed}, {way}")
    return inputs, left_out, remarks, problems


def _read_option(table: Table, name: str, options: ColumnOptions) -> Input | None:
    """Return the input that an option makes of a column."""
    cells = table.column(name)
    values = [cell for cell in cells if not is_missing(cell)]
    if name in options.dates:
        dates = dates_of(values)
        if dates is None:
            raise DataError(
                f"column {name!r} of {table.source} is no column of dates in one clear format (it has "
                f"{(values or cells)[0]!r}); write them as 2024-01-31"
            )
        return Input(name, origin=min(dates[1]).isoformat(), date_format=dates[0])
    if name in options.ordered:
        return Input(name, ranks=tuple(options.ordered[name]))
    if name in options.one_hot:
        return Input(name, tuple(sorted(set(values))))
    return None


def _classify_column(table: Table, name: str) -> Input | str:
    """Return what a column is by its cells, or why it is left out."""
    cells = table.column(name)
    values = [cell for cell in cells if not is_missing(cell)]
    if not values:
        return "which is empty"
    if _PANDAS.fullmatch(name) and counts_rows(cells, int(name.rpartition(" ")[2])):
        return "which numbers the rows (the index of a pandas frame)"
    form = table.number_format(name)
    if form is not None and not _needs_a_word(form, table):
        return Input(name, written=form)
    where, leave = f"column {name!r} of {table.source}", f"leave it out by --drop {quote(name)}"
    categories = tuple(sorted(set(values)))
    if is_code(values) and len(categories) > min(MOST_CATEGORIES, len(values) // 2):
        raise DataError(
            f"{where} holds integers with leading zeros ({_cell(table, name)}), which are codes rather than numbers "
            f"({len(categories)} in {_count(len(values), 'row')}); code them by --one-hot {quote(name)}, {leave}, or "
            "write them without the zeros if they are numbers"
        )
    if is_code(values):
        return Input(name, categories)
    if _has_decimal_commas(cells):
        raise DataError(f"{where} has decimal commas ({_cell(table, name)}); give --decimal ,")
    if _dates_in_any(values):
        raise DataError(f"{where} holds dates ({_cell(table, name)}); use them by --date {quote(name)}, or {leave}")
    if 2 * sum(map(is_number_like, values)) >= len(values):
        raise DataError(
            f"{where} is not numeric ({_cell(table, name)}); correct that cell, code the column by --one-hot "
            f"{quote(name)} if its values are categories, or {leave}"
        )
    if 2 * len(categories) > len(values):
        return (
            f"a text with {len(categories)} values in {_count(len(values), 'row')}, a name rather than a category "
            f"(--id {quote(name)} writes it beside the predictions)"
        )
    if len(categories) > MOST_CATEGORIES:
        raise DataError(
            f"{where} is a text with {len(categories)} values, each of which would be an input; code them by --one-hot "
            f"{quote(name)}, or {leave}"
        )
    return Input(name, categories)


def _dates_in_any(values: Sequence[str]) -> bool:
    """Return whether the values are dates in some format, clear or not."""
    return dates_of(values) is not None or (
        all(re.fullmatch(r"\s*\d{1,2}[/.]\d{1,2}[/.]\d{4}\s*", cell) for cell in values)
    )
