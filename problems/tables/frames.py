"""Frames and arrays as tables: pandas, polars, columns by name, or rows of numbers.

The cells become the text that a CSV file would have, with all digits, and what the frame knows of its columns is kept:
which hold numbers, which are categorical (with the order of ordered ones), and which hold dates.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from problems.tables.table import Table
from substrate.arrays import is_sparse
from substrate.errors import DataError

__all__ = ["Frame", "frame_of"]


@dataclass(frozen=True, slots=True)
class Frame:
    """A table, and the columns of it whose kind is known: categories, categories with their order, and dates."""

    table: Table
    categories: tuple[str, ...] = ()
    ordered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dates: tuple[str, ...] = ()


def frame_of(X: Any, name: str = "X") -> Frame:
    """Return a pandas or polars frame, a mapping of columns, or rows of cells (columns x0, x1, ...) as a table."""
    if isinstance(X, Table):
        return Frame(X)
    columns = _columns_of(X, name)
    if not columns:
        raise DataError(f"{name} has no columns; give a frame, or rows of numbers")
    lengths = {len(values) for values, _ in columns.values()}
    if len(lengths) != 1 or lengths == {0}:
        raise DataError(f"the columns of {name} must be of one length, at least one row; received {sorted(lengths)}")
    cells, typed, categories, dates = {}, set(), [], []
    ordered: dict[str, tuple[str, ...]] = {}
    for column, (values, dtype) in columns.items():
        present = [value for value in values if not _is_absent(value)]
        cells[column] = tuple("" if _is_absent(value) else _cell(value) for value in values)
        is_category, order = _category_of(dtype)
        if order is not None:
            ordered[column] = order
        elif is_category or (present and all(isinstance(value, (bool, np.bool_)) for value in present)):
            categories.append(column)
        elif present and all(isinstance(value, (int, float, np.integer, np.floating)) for value in present):
            typed.add(column)
        elif present and all(hasattr(value, "isoformat") for value in present):
            dates.append(column)
    table = replace(Table(name, cells), typed=frozenset(typed))
    return Frame(table=table, categories=tuple(categories), ordered=ordered, dates=tuple(dates))


def _columns_of(X: Any, name: str) -> dict[str, tuple[Sequence[Any], Any]]:
    """Return values and dtype of every column, by name."""
    if is_sparse(X):
        raise DataError(f"{name} is sparse; an estimator of problems takes it, a table has cells: {name}.toarray()")
    if isinstance(X, Mapping):
        named = [(column, values, None) for column, values in X.items()]
    elif hasattr(X, "columns") and hasattr(X, "__getitem__"):
        if len(X.shape) != 2:
            raise DataError(f"{name} must have rows and columns, received shape {X.shape}")
        twice = [column for column, count in Counter(map(str, X.columns)).items() if count > 1]
        if twice:
            raise DataError(f"{name} has the column {twice[0]!r} twice; rename one of them")
        named = [(column, X[column], getattr(X[column], "dtype", None)) for column in X.columns]
    else:
        try:
            array = np.asarray(X)
        except ValueError as error:
            raise DataError(f"the rows of {name} have different lengths; give one cell per column") from error
        if array.ndim != 2:
            raise DataError(f"{name} must have rows and columns, received shape {array.shape}; reshape it, or a frame")
        named = [(f"x{k}", array[:, k], None) for k in range(array.shape[1])]
    lists = {
        str(column).strip(): ((values.to_list() if hasattr(values, "to_list") else np.asarray(values).tolist()), dtype)
        for column, values, dtype in named
    }
    if "" in lists:
        raise DataError(f"{name} has a column without a name; name it")
    return lists


def _category_of(dtype: Any) -> tuple[bool, tuple[str, ...] | None]:
    """Return whether a dtype of pandas or polars is categorical, and the order of its categories if they have one."""
    kind = type(dtype).__name__
    if kind == "CategoricalDtype":
        names = tuple(map(_cell, dtype.categories.tolist()))
        return True, names if dtype.ordered and len(names) > 1 else None
    if kind == "Enum":  # of polars, whose categories are declared in their order
        names = tuple(map(str, dtype.categories.to_list()))
        return True, names if len(names) > 1 else None
    return kind == "Categorical", None


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
