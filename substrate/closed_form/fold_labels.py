"""Which fold a row validates in, by its number."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

__all__ = ["ConsecutiveFolds", "Folds", "GivenFolds"]


class Folds(Protocol):
    """Which fold a row validates in, by its number and, where folds are stratified, its class; -1 is none."""

    @property
    def count(self) -> int:
        """How many folds."""

    def labels(self, rows: slice, targets: Any = None) -> Any:
        """The folds of consecutive rows with these targets; a micro-block at a time."""


@dataclass(frozen=True, slots=True)
class GivenFolds:
    """A label a row."""

    count: int
    every: Any

    @classmethod
    def of(cls, folds: Any, n: int) -> "GivenFolds | None":
        """From the rows of each fold; no folds are None."""
        if not len(folds):
            return None
        labels = np.full(n, -1, dtype=np.int32)
        for number, fold in enumerate(folds):
            labels[fold] = number
        return cls(len(folds), labels)

    def labels(self, rows: slice, targets: Any = None) -> Any:
        """The folds of consecutive rows."""
        return self.every[rows]


@dataclass(frozen=True, slots=True)
class ConsecutiveFolds:
    """Parts of consecutive rows, the first ones longer by a row where the number does not divide them."""

    count: int
    n: int

    def labels(self, rows: slice, targets: Any = None) -> Any:
        """The folds of consecutive rows, by their numbers."""
        size, more = divmod(self.n, self.count)
        numbers = np.arange(rows.start, rows.stop)
        return np.where(
            numbers < more * (size + 1), numbers // (size + 1), more + (numbers - more * (size + 1)) // size
        )
