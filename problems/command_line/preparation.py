r"""From cells to numbers: which columns are inputs, how they are coded and scaled, and which rows validate.

A numeric input is standardised by the rows that train,

.. math:: x \leftarrow (x - m) / s, \qquad m \text{ mean}, \; s \text{ standard deviation (1 where it is zero)},

a categorical one becomes one 0-1 column per category. The record is what ``substrate predict`` needs to treat new rows
alike; it is stored as JSON in the notes of the model file.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from problems.command_line.table import Table, named_columns, named_rows, number
from substrate.arrays import Array
from substrate.errors import DataError

__all__ = ["Input", "Preparation", "Split", "inputs_of", "raw_matrix", "refuse_overflow", "split_rows", "standardised"]

#: The largest number of columns in a message.
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Input:
    """One column of the table: numeric with centre and scale, or categorical with the categories seen in training."""

    name: str
    categories: tuple[str, ...] | None = None
    center: float = 0.0
    scale: float = 1.0

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its columns in X."""
        return (self.name,) if self.categories is None else tuple(f"{self.name}={c}" for c in self.categories)


@dataclass(frozen=True, slots=True)
class Split:
    """The rows of the table (counted from 0) that were held out, their share, and the seed."""

    fraction: float
    seed: int
    n_rows: int
    validation_rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Preparation:
    """The preparation of the table before the fit."""

    source: str
    target: str
    task: str
    standardised: bool
    inputs: tuple[Input, ...]
    split: Split

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the columns of X."""
        return tuple(feature for one in self.inputs for feature in one.features)

    def matrix(self, table: Table) -> Array:
        """X for the rows of a table: coded and scaled as in training."""
        return self.scaled(raw_matrix(self.inputs, table))

    def scaled(self, X: Array) -> Array:
        """The result of :func:`raw_matrix`, scaled as in training."""
        center = np.array([one.center for one in self.inputs for _ in one.features])
        scale = np.array([one.scale for one in self.inputs for _ in one.features])
        with np.errstate(over="ignore"):
            scaled = np.asarray((X - center) / scale)
        if not np.isfinite(scaled).all():
            row, column = np.argwhere(~np.isfinite(scaled))[0]
            raise DataError(
                f"column {self.features[column]!r} has {X[row, column]:g} in row {row + 1}, which is infinite in units "
                "of the training rows; correct that cell"
            )
        return scaled

    def as_notes(self) -> dict[str, Any]:
        """The record as plain JSON values, with the name but not the folder of the table."""
        inputs, source = [_fields(one) for one in self.inputs], Path(self.source).name or self.source
        return {"table": {**_fields(self), "source": source, "inputs": inputs, "split": _fields(self.split)}}

    @classmethod
    def from_notes(cls, notes: Mapping[str, Any]) -> Self:
        """The record read back; anything that does not fit is refused."""
        try:
            record = dict(notes["table"])
            inputs = tuple(_input(one) for one in record.pop("inputs"))
            split = dict(record.pop("split"))
            rows = tuple(split.pop("validation_rows"))
            made = cls(inputs=inputs, split=Split(validation_rows=rows, **split), **record)
            made._check()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"the notes of the model file do not describe a table: {error!r}") from error
        return made

    def _check(self) -> None:
        """Refuse values from a file that are not of the expected type."""
        if self.task not in ("regression", "classification") or not isinstance(self.standardised, bool):
            raise ValueError(f"the task is {self.task!r}, standardised {self.standardised!r}")
        if not all(isinstance(text, str) for text in (self.source, self.target)):
            raise ValueError("a name is not text")
        split = self.split
        if not all(type(count) is int and count >= 0 for count in (split.seed, split.n_rows, *split.validation_rows)):
            raise ValueError("the split of the rows is not one of row numbers")
        if type(split.fraction) not in (int, float) or not 0.0 <= split.fraction < 1.0:
            raise ValueError(f"the share of validation rows is {split.fraction!r}")


def _fields(record: Any) -> dict[str, Any]:
    """The fields of a record of plain values; ``dataclasses.asdict`` copies each of them at length."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def _input(record: Any) -> Input:
    name, categories, center, scale = (record[key] for key in ("name", "categories", "center", "scale"))
    if not all(isinstance(text, str) for text in (name, *(categories or ()))):
        raise ValueError(f"a name or category of {name!r} is not text")
    if not all(type(value) in (int, float) for value in (center, scale)):
        raise ValueError(f"{name!r} has center {center!r} and scale {scale!r}")
    if not (math.isfinite(center) and math.isfinite(scale) and scale > 0.0):
        raise ValueError(f"{name!r} has center {center} and scale {scale}")
    return Input(name, None if categories is None else tuple(categories), float(center), float(scale))


def inputs_of(table: Table, target: str, one_hot: Sequence[str]) -> tuple[Input, ...]:
    """The columns beside the target; text is refused unless its column is to be coded one-hot."""
    table.column(target)
    names = [name for name in table.names if name != target]
    for name in one_hot:
        table.column(name)
        if name == target:
            raise DataError(f"the target {target!r} cannot be an input coded one-hot")
    if not names:
        raise DataError(f"{table.source} has no column beside the target {target!r}")
    coded = set(one_hot)
    text = [name for name in names if name not in coded and table.numbers(name) is None]
    table.refuse_missing([*_in_order(names, {*coded, *text}), target])  # the others hold numbers only
    if text:
        cells = table.column(text[0])
        row = next(row for row, cell in enumerate(cells) if number(cell) is None)
        others = f" (and {len(text) - _SHOWN} columns more)" if len(text) > _SHOWN else ""
        raise DataError(
            f"column {text[0]!r} of {table.source} is not numeric (row {row + 1} has {cells[row]!r}); code its "
            f"categories by --one-hot {' '.join(text[:_SHOWN])}{others}, or leave it out by --drop {text[0]}"
        )
    return tuple(Input(name, tuple(sorted(set(table.column(name)))) if name in coded else None) for name in names)


def _in_order(names: Sequence[str], some: set[str]) -> list[str]:
    return [name for name in names if name in some]


def raw_matrix(inputs: Sequence[Input], table: Table) -> Array:
    """The columns as numbers, in their own units; categories as 0 and 1."""
    numbers = {one.name: table.numbers(one.name) for one in inputs if one.categories is None}
    strange = {name for name, values in numbers.items() if values is None}
    table.refuse_missing([one.name for one in inputs if one.categories is not None or one.name in strange])
    if strange:
        _refuse_text(next(one.name for one in inputs if one.name in strange), table)
    X = np.empty((table.n_rows, sum(len(one.features) for one in inputs)))
    column = 0
    for one in inputs:
        width = len(one.features)
        X[:, column : column + width] = (
            np.array(numbers[one.name])[:, None] if one.categories is None else _indicators(one, table)
        )
        column += width
    return X


def _refuse_text(name: str, table: Table) -> None:
    cells = table.column(name)
    strange = [row for row, cell in enumerate(cells, 1) if number(cell) is None]
    raise DataError(
        f"column {name!r} of {table.source} must be numeric: {named_rows(strange)} ({cells[strange[0] - 1]!r})"
    )


def _indicators(one: Input, table: Table) -> Array:
    categories = np.array(one.categories)
    cells = np.array(table.column(one.name))
    strange = [int(row) + 1 for row in np.flatnonzero(~np.isin(cells, categories))]
    if strange:
        raise DataError(
            f"column {one.name!r} of {table.source} has the category {str(cells[strange[0] - 1])!r} in "
            f"{named_rows(strange)}, which training did not see; it saw {named_columns(categories.tolist())}"
        )
    return np.asarray(cells[:, None] == categories, dtype=np.float64)


def split_rows(n: int, fraction: float, seed: int, labels: NDArray[Any] | None) -> tuple[Any, Any]:
    """Sorted row numbers that train and that validate; ``labels`` keep their proportions where possible."""
    from sklearn.model_selection import train_test_split

    if not 0.0 <= fraction < 1.0:
        raise DataError(f"--validation must be at least 0 and below 1, received {fraction:g}")
    every = np.arange(n)
    if fraction == 0.0:
        return every, every[:0]
    try:
        train, held = train_test_split(every, test_size=fraction, random_state=seed, stratify=labels)
    except ValueError:  # a class too small to be cut in proportion, or hardly any rows
        try:
            train, held = train_test_split(every, test_size=fraction, random_state=seed)
        except ValueError as error:
            raise DataError(f"{n} rows cannot be split by --validation {fraction:g}: {error}") from error
    return np.sort(train), np.sort(held)


def refuse_overflow(name: str, values: Array) -> None:
    """Refuse a column whose squares cannot be added up: it has no deviation, and distances in it overflow."""
    with np.errstate(over="ignore"):
        finite = np.isfinite(np.square(2.0 * values).sum())
    if not finite:
        row = int(np.abs(values).argmax())
        raise DataError(
            f"column {name!r} has {values[row]:g} in row {row + 1}, whose square is infinite; correct that cell, or "
            "give the column another unit"
        )


def standardised(inputs: Sequence[Input], X: Array) -> tuple[Input, ...]:
    """The inputs with mean and standard deviation of the rows of X; categories stay 0 and 1."""
    columns = np.ascontiguousarray(X.T)  # all columns at once, each summed in the order of a single column
    means, spreads, largest = columns.mean(axis=1), columns.std(axis=1), np.abs(columns).max(axis=1)
    # a constant column may have a deviation of rounding size
    scales = np.where(spreads > 1e-12 * largest, spreads, 1.0)
    made, column = [], 0
    for one in inputs:
        if one.categories is None:
            made.append(Input(one.name, None, float(means[column]), float(scales[column])))
        else:
            made.append(one)
        column += len(one.features)
    return tuple(made)
