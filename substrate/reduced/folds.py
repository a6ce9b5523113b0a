r"""The validation fold of every row, by the number of the row.

Folds are given, consecutive or stratified; the last are those of scikit-learn's ``StratifiedKFold`` for rows that are
never all in memory. The rows of a class are assigned in the order of their numbers. With the classes in the order of
their first rows, one after the other, class c has the places from :math:`s_c` to :math:`e_c`, and fold j takes

.. math:: a_{cj} = \#\{p : s_c \le p < e_c, \; p \equiv j \pmod k\}

of its rows, the first :math:`a_{c0}` of them go to fold 0, and so on. A row's fold follows from its class and from
the number of rows of that class before it, for which the counts of micro-blocks suffice.
"""

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from substrate.arrays import Array
from substrate.errors import DataError, DeclarationError
from substrate.streaming.passes import OpenPasses
from substrate.streaming.source import MICRO, Block, Source

__all__ = ["ClassesOfBlock", "ConsecutiveFolds", "Folds", "GivenFolds", "StratifiedFolds", "folds_of"]


class Folds(Protocol):
    """The validation fold of a row, by its number and, where folds are stratified, its class; -1 is none."""

    @property
    def count(self) -> int:
        """The number of folds."""

    def labels(self, rows: slice, targets: Any = None) -> Any:
        """Return the folds of consecutive rows with these targets; a micro-block at a time."""


@dataclass(frozen=True, slots=True)
class GivenFolds:
    """One label per row."""

    count: int
    every: Any

    @classmethod
    def of(cls, folds: Any, n: int) -> "GivenFolds | None":
        """Return labels from the rows of each fold; None without folds."""
        if not len(folds):
            return None
        labels = np.full(n, -1, dtype=np.int32)
        for number, fold in enumerate(folds):
            labels[fold] = number
        return cls(len(folds), labels)

    def labels(self, rows: slice, targets: Any = None) -> Any:
        """Return the folds of consecutive rows."""
        return self.every[rows]


@dataclass(frozen=True, slots=True)
class ConsecutiveFolds:
    """Parts of consecutive rows, the first ones longer by one row where the number of rows is not divisible."""

    count: int
    n: int

    def labels(self, rows: slice, targets: Any = None) -> Any:
        """Return the folds of consecutive rows, by their numbers."""
        size, more = divmod(self.n, self.count)
        numbers = np.arange(rows.start, rows.stop)
        return np.where(
            numbers < more * (size + 1), numbers // (size + 1), more + (numbers - more * (size + 1)) // size
        )


@dataclass(frozen=True, slots=True)
class ClassesOfBlock:
    """The number of each row's class, by the code words of the classes, one row per class."""

    book: Array

    def __call__(self, block: Block) -> Any:
        """Return the classes of a micro-block."""
        return (block.Y[:, None, :] == self.book).all(axis=2).argmax(axis=1)


@dataclass(frozen=True, slots=True)
class _CountsOfBlock:
    """The number of rows of each class in a micro-block, and the first of each (``n`` where there is none)."""

    book: Array
    n: int

    def __call__(self, block: Block) -> Any:
        classes = ClassesOfBlock(self.book)(block)
        present, places = np.unique(classes, return_index=True)
        first = np.full(self.book.shape[0], self.n)
        first[present] = places + block.start
        return np.bincount(classes, minlength=self.book.shape[0]), first


@dataclass(frozen=True, slots=True)
class StratifiedFolds:
    """For each class, the limits of its folds, and the number of its rows before each micro-block."""

    count: int
    book: Array
    ends: Any
    before: Any

    @classmethod
    def of(cls, count: int, source: Source, book: Array, passes: OpenPasses) -> Self:
        """Make one pass over the rows, whose targets are the code words of their classes."""
        counts_of_blocks = list(passes.each(source, _CountsOfBlock(book, source.n_rows), "classes of all rows"))
        counts = np.array([block_counts[0] for block_counts in counts_of_blocks])
        sizes, first = counts.sum(axis=0), np.min([block_counts[1] for block_counts in counts_of_blocks], axis=0)
        if count > sizes.max():
            raise DataError(
                f"cv={count} folds, and no class of {source.name} has more than {sizes.max()} rows; use fewer folds"
            )
        order = np.argsort(first, kind="stable")
        stops = np.empty_like(sizes)
        stops[order] = np.cumsum(sizes[order])
        residues = np.arange(count)
        taken = _below(stops[:, None], residues, count) - _below((stops - sizes)[:, None], residues, count)
        alone = (taken == sizes[:, None]).any(axis=1)
        if alone.any():
            raise DataError(
                f"with cv={count} a class of {source.name} is absent from the training rows of a fold: it has "
                f"{sizes[alone].min()} rows; give it more, or leave it out"
            )
        before = np.cumsum(counts, axis=0) - counts
        return cls(count, book, np.cumsum(taken, axis=1), before)

    def labels(self, rows: slice, targets: Any = None) -> Any:
        """Return the folds of the rows of a micro-block with these code words."""
        classes = ClassesOfBlock(self.book)(Block(targets, targets, rows.start))
        labels, before = np.empty(classes.size, dtype=np.int32), self.before[rows.start // MICRO]
        for number in np.unique(classes):
            (members,) = np.nonzero(classes == number)
            ranks = before[number] + np.arange(members.size)
            labels[members] = np.searchsorted(self.ends[number], ranks, side="right")
        return labels


def _below(place: Any, residue: Any, count: int) -> Any:
    """Return the count of smaller numbers with this residue."""
    return (place + (count - 1 - residue)) // count


def folds_of(splits: Any, n: int) -> GivenFolds | None:
    """Return the validation rows of each split; training must be all the others, since sums allow only that."""
    folds = []
    is_used = np.zeros(n, dtype=bool)
    for number, (train, valid) in enumerate(splits):
        if train.size + valid.size != n or is_used[valid].any():
            raise DeclarationError(
                f"split {number} of cv is no fold: each row must validate once at most and train otherwise; use KFold, "
                "StratifiedKFold or GroupKFold"
            )
        is_used[valid] = True
        folds.append(valid)
    return GivenFolds.of(folds, n)
