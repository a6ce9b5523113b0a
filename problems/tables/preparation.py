r"""The preparation of a table: how its columns are read, coded and scaled, and which rows are held out.

A numeric input is standardised by the rows that train,

.. math:: x \leftarrow (x - m) / s, \qquad m \text{ mean}, \; s \text{ standard deviation (1 where it is zero)},

a date becomes days first, and a category becomes one 0-1 column per category (:mod:`problems.tables.inputs`). The
record is what ``substrate predict`` needs to treat new rows
alike; it is stored as JSON in the notes of the model file.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from problems.tables.inputs import DATE_FORMATS, Input, raw_matrix
from problems.tables.number_format import NumberFormat
from problems.tables.table import Table
from substrate.arrays import Array
from substrate.errors import DataError

__all__ = ["IMPUTE", "Input", "Preparation", "Split", "refuse_overflow", "split_rows", "standardise"]

#: What can be done about missing cells.
IMPUTE = ("refuse", "median", "drop")


@dataclass(frozen=True, slots=True)
class Split:
    """The rows of the table (counted from 0) that were held out, their share, and the seed."""

    fraction: float
    seed: int
    n_rows: int
    validation_rows: tuple[int, ...]
    #: "random", or "time" for the last rows.
    kind: str = "random"
    #: The column of groups, which were held out whole, and the column of dates that orders the rows; empty: none.
    group: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True)
class Preparation:
    """The preparation of the table before the fit."""

    source: str
    target: str
    task: str
    standardised: bool
    inputs: tuple[Input, ...]
    split: Split
    #: The decimal mark of the table; how the numbers of each column are written is said by its input.
    decimal: str = "."
    #: Columns that name the rows, and are carried to the predictions.
    ids: tuple[str, ...] = ()
    #: Columns that were left out without being asked to.
    left_out: tuple[str, ...] = ()
    #: What is done about missing cells: "refuse", "median" (each input has its fill) or "drop" (their training rows).
    impute: str = "refuse"
    #: Whether the model was fitted again, to all rows, by what was chosen on the training rows.
    refitted: bool = False
    #: One line for everything that was done to the table.
    remarks: tuple[str, ...] = ()
    #: How the numbers of the target are written; None in files of earlier releases.
    target_written: NumberFormat | None = None

    @property
    def features(self) -> tuple[str, ...]:
        """Return the names of the columns of X."""
        return tuple(feature for input_ in self.inputs for feature in input_.features)

    @property
    def columns_of_inputs(self) -> list[list[int]]:
        """Return the columns of X that every input has: one, or one for each of its categories."""
        ends = np.cumsum([len(input_.features) for input_ in self.inputs]).tolist()
        return [list(range(start, end)) for start, end in zip([0, *ends], ends, strict=False)]

    def matrix(self, table: Table, unknown: str = "refuse") -> Array:
        """Return X for the rows of a table: coded and scaled as in training; ``unknown`` as for :func:`raw_matrix`."""
        return self.scale(raw_matrix(self.inputs, table, unknown))

    def scale(self, X: Array) -> Array:
        """Return the result of :func:`raw_matrix`, scaled as in training."""
        center = np.array([input_.center for input_ in self.inputs for _ in input_.features])
        scale = np.array([input_.scale for input_ in self.inputs for _ in input_.features])
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
        """Return the record as plain JSON values, with the name but not the folder of the table."""
        inputs, source = [_fields(input_) for input_ in self.inputs], Path(self.source).name or self.source
        record = {**_fields(self), "source": source, "inputs": inputs, "split": _fields(self.split)}
        for notes in (record, *inputs):
            for name in ("written", "target_written"):
                if isinstance(form := notes.get(name), NumberFormat):
                    notes[name] = form.as_notes()
        return {"table": record}

    @classmethod
    def from_notes(cls, notes: Mapping[str, Any]) -> Self:
        """Return the record read back; anything that does not fit is refused."""
        try:
            record = dict(notes["table"])
            # files of earlier releases state one decimal mark for all columns
            inputs = tuple(_input(input_, record.get("decimal", ".")) for input_ in record.pop("inputs"))
            if (target := record.pop("target_written", None)) is not None:
                record["target_written"] = NumberFormat.from_notes(target)
            split = dict(record.pop("split"))
            rows = tuple(split.pop("validation_rows"))
            listed: dict[str, Any] = {
                name: _texts(record.pop(name)) for name in ("ids", "left_out", "remarks") if name in record
            }
            preparation = cls(inputs=inputs, split=Split(validation_rows=rows, **split), **listed, **record)
            preparation._check()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"the notes of the model file do not describe a table: {error!r}") from error
        return preparation

    def _check(self) -> None:
        """Refuse values from a file that are not of the expected type."""
        if self.task not in ("regression", "classification") or not isinstance(self.standardised, bool):
            raise ValueError(f"the task is {self.task!r}, standardised {self.standardised!r}")
        if not all(isinstance(text, str) for text in (self.source, self.target)):
            raise ValueError("a name is not text")
        if self.decimal not in (".", ",") or self.impute not in IMPUTE or not isinstance(self.refitted, bool):
            raise ValueError(f"decimal {self.decimal!r}, impute {self.impute!r}, refitted {self.refitted!r}")
        split = self.split
        if not all(type(count) is int and count >= 0 for count in (split.seed, split.n_rows, *split.validation_rows)):
            raise ValueError("the split of the rows is not one of row numbers")
        if split.kind not in ("random", "time") or not all(isinstance(name, str) for name in (split.group, split.date)):
            raise ValueError(f"the rows are split by {split.kind!r}, {split.group!r} and {split.date!r}")
        if type(split.fraction) not in (int, float) or not 0.0 <= split.fraction < 1.0:
            raise ValueError(f"the share of validation rows is {split.fraction!r}")


def _fields(record: Any) -> dict[str, Any]:
    """Return the fields of a record of plain values; ``dataclasses.asdict`` copies each of them at length."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def _input(record: Any, decimal: Any) -> Input:
    name, categories, center, scale = (record[key] for key in ("name", "categories", "center", "scale"))
    if not all(isinstance(text, str) for text in (name, *(categories or ()))):
        raise ValueError(f"a name or category of {name!r} is not text")
    if not all(type(value) in (int, float) for value in (center, scale)):
        raise ValueError(f"{name!r} has center {center!r} and scale {scale!r}")
    if not (math.isfinite(center) and math.isfinite(scale) and scale > 0.0):
        raise ValueError(f"{name!r} has center {center} and scale {scale}")
    fill, origin, date_format = record.get("fill"), record.get("origin"), record.get("date_format", "iso")
    if fill is not None and not (
        (type(fill) in (int, float) and math.isfinite(fill)) if categories is None else fill in categories
    ):
        raise ValueError(f"{name!r} fills missing cells with {fill!r}")
    if date_format not in DATE_FORMATS or (origin is not None and datetime.fromisoformat(origin).tzinfo is not None):
        raise ValueError(f"{name!r} has dates written {date_format!r}, from {origin!r} on")
    names = None if categories is None else tuple(categories)
    written = record.get("written")
    if written is not None:
        written = NumberFormat.from_notes(written)
    elif decimal == "," and categories is None and origin is None:
        written = NumberFormat(",")
    ranks, by_kernel = record.get("ranks"), record.get("by_kernel", False)
    if not isinstance(by_kernel, bool):
        raise ValueError(f"{name!r} has by_kernel {by_kernel!r}")
    if ranks is not None and (categories is not None or not _texts(ranks)):
        raise ValueError(f"{name!r} has the ranks {ranks!r}")
    low, high = (record.get(key) for key in ("low", "high"))
    if not all(end is None or type(end) in (int, float) for end in (low, high)):
        raise ValueError(f"{name!r} has numbers from {low!r} to {high!r}")
    return Input(
        name=name,
        categories=names,
        center=float(center),
        scale=float(scale),
        fill=fill,
        origin=origin,
        date_format=date_format,
        written=written,
        low=low,
        high=high,
        ranks=None if ranks is None else tuple(ranks),
        by_kernel=by_kernel,
    )


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, (list, tuple)) or not all(isinstance(text, str) for text in values):
        raise ValueError(f"{values!r} is no list of names")
    return tuple(values)


def split_rows(n: int, fraction: float, seed: int, labels: NDArray[Any] | None) -> tuple[Any, Any]:
    """Return sorted row numbers that train and that validate; ``labels`` keep their proportions where possible."""
    from sklearn.model_selection import train_test_split

    if not 0.0 <= fraction < 1.0:
        raise DataError(f"--validation must be at least 0 and below 1, received {fraction:g}")
    every = np.arange(n)
    if fraction == 0.0:
        return every, every[:0]
    try:
        train, validation = train_test_split(every, test_size=fraction, random_state=seed, stratify=labels)
    except ValueError:  # a class too small to be cut in proportion, or hardly any rows
        try:
            train, validation = train_test_split(every, test_size=fraction, random_state=seed)
        except ValueError as error:
            raise DataError(
                f"{n} rows cannot be split by --validation {fraction:g}, which would leave no row on one side; give "
                "more rows, or --validation 0"
            ) from error
    return np.sort(train), np.sort(validation)


def refuse_overflow(name: str, values: Array, rows: Sequence[int]) -> None:
    """Refuse a column whose squares cannot be added up: it has no deviation, and distances in it overflow.

    ``rows`` are the numbers of its rows in the table, from 0.
    """
    with np.errstate(over="ignore"):
        finite = np.isfinite(np.square(2.0 * values).sum())
    if not finite:
        row = int(np.abs(values).argmax())
        raise DataError(
            f"column {name!r} has {values[row]:g} in row {rows[row] + 1}, whose square is infinite; correct that cell, "
            "or give the column another unit"
        )


def standardise(inputs: Sequence[Input], X: Array) -> tuple[Input, ...]:
    """Return the inputs with mean and standard deviation of the rows of X; categories stay 0 and 1."""
    from sklearn.preprocessing import StandardScaler

    scales = StandardScaler().fit(X)
    scaled_inputs, column = [], 0
    for input_ in inputs:
        if input_.categories is None:
            center, scale = float(scales.mean_[column]), float(scales.scale_[column])
            scaled_inputs.append(replace(input_, center=center, scale=scale))
        else:
            scaled_inputs.append(input_)
        column += len(input_.features)
    return tuple(scaled_inputs)
