"""Which rows train and which validate: row numbers, checked once for every model that is validated."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from substrate.errors import DataError

__all__ = ["Rows", "Split", "checked_folds", "checked_splits"]

Rows = NDArray[np.intp]
Split = tuple[Rows, Rows]


def checked_folds(folds: Sequence[Any], n: int) -> tuple[Rows, ...]:
    """Folds as arrays of row numbers: none empty, none overlapping, none that leaves nothing to fit."""
    checked = tuple(_row_numbers(fold, n, f"fold {number}") for number, fold in enumerate(folds))
    if not checked:
        raise DataError("there are no folds; give at least one set of rows to leave out")
    seen = np.zeros(n, dtype=np.intp)
    for number, fold in enumerate(checked):
        if fold.size >= n:
            raise DataError(f"fold {number} holds all {n} rows, so nothing is left to fit; use at least two folds")
        np.add.at(seen, fold, 1)
        if seen.max() > 1:
            raise DataError(f"fold {number} holds row {seen.argmax()} a second time; folds must not overlap")
    return checked


def checked_splits(splits: Iterable[Any], n: int) -> tuple[Split, ...]:
    """Pairs of rows that train and rows that validate: none empty, and no row on both sides of a split."""
    checked = []
    for number, (train, test) in enumerate(splits):
        pair = _row_numbers(train, n, f"split {number}: train"), _row_numbers(test, n, f"split {number}: test")
        both = np.intersect1d(*pair)
        if both.size:
            raise DataError(f"split {number} trains on row {both[0]} and validates on it; keep the two apart")
        checked.append(pair)
    if not checked:
        raise DataError("cv gives no split; give at least one")
    return tuple(checked)


def _row_numbers(rows: Any, n: int, name: str) -> Rows:
    numbers = np.asarray(rows)
    if numbers.ndim != 1 or numbers.size == 0 or numbers.dtype.kind not in "iu":
        raise DataError(f"{name} must be row numbers, at least one, received {rows!r}")
    if numbers.min() < 0 or numbers.max() >= n:
        wrong = numbers[(numbers < 0) | (numbers >= n)][0]
        raise DataError(f"{name} names row {wrong} of {n} rows; row numbers run from 0 to {n - 1}")
    return numbers.astype(np.intp)
