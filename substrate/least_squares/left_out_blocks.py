r"""Sets of rows that are left out together, and the rows of each whose residuals count.

Leave-one-out assumes that errors are independent. Where the errors of neighbours are correlated, the rows next to the
one that is left out carry its error too: a machine that follows the noise predicts it well, and every criterion that
leaves single rows out chooses such a machine ([DeBrabanter2011b]_ section 2). Three sets answer that, all by one
formula (:mod:`~substrate.least_squares.leave_one_out`):

- every row alone, which is leave-one-out;
- groups (patients, batches, sites): all rows of a group are left out together, and all of them count;
- blocks around every row in turn: the rows :math:`i - l, \ldots, i + l` are left out, fewer at an end of a series, and
  only the residual of row i counts ([Chu1991]_; [DeBrabanter2011b]_ for LS-SVMs).

Every row counts once, so the criterion is a mean over all rows in each case.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.errors import DataError, DeclarationError
from substrate.least_squares.leave_one_out import Rows, Split, left_out_residuals

__all__ = ["BlockBatch", "LeftOutBlocks", "block_residuals"]


@dataclass(frozen=True, slots=True)
class BlockBatch:
    """Blocks of one size: ``rows``, one line each, and ``counted``, the places in them whose residuals count."""

    rows: Rows
    counted: Rows


@dataclass(frozen=True, eq=False)
class LeftOutBlocks:
    """Sets of rows that are left out together, by row numbers, and the places in each whose residuals count.

    Every row counts once; ``rows`` and ``counted`` have one array per block.
    """

    n: int
    rows: tuple[Rows, ...]
    counted: tuple[Rows, ...]

    @classmethod
    def of_groups(cls, labels: Any) -> "LeftOutBlocks":
        """Return the rows of every group, in the order of its first row; all of them count."""
        values = np.asarray(labels)
        if values.ndim != 1:
            raise DataError(f"groups must have one label per row, a vector, received shape {values.shape}")
        _, first, numbers = np.unique(values, return_index=True, return_inverse=True)
        if first.size < 2:
            raise DataError("groups has one label only, so nothing is left to fit without it; give at least two groups")
        order = np.argsort(first)
        rows = tuple(np.flatnonzero(numbers == number) for number in order)
        return cls._checked(values.size, rows, tuple(np.arange(block.size) for block in rows))

    @classmethod
    def of_splits(cls, n: int, splits: Sequence[Split]) -> "LeftOutBlocks":
        """Return the blocks of splits of n rows: all rows that do not train, of which the validating ones count."""
        rows = tuple(np.setdiff1d(np.arange(n), train) for train, _ in splits)
        places = (np.searchsorted(block, test) for block, (_, test) in zip(rows, splits, strict=True))
        return cls._checked(n, rows, tuple(places))

    @classmethod
    def centred(cls, n: int, reach: int, series: Any = None) -> "LeftOutBlocks":
        """Return the block of every row and ``reach`` neighbours on both sides, of which the row itself counts.

        Rows are in the order of time. Blocks end where a series does: ``series`` has one label per row, None if all
        rows are one series.
        """
        if reach < 0:
            raise DeclarationError(f"reach must be at least 0, received {reach}")
        labels = np.zeros(n, dtype=np.intp) if series is None else np.unique(np.asarray(series), return_inverse=True)[1]
        rows: list[Rows] = [np.empty(0, dtype=np.intp)] * n
        counted: list[Rows] = [np.empty(0, dtype=np.intp)] * n
        for label in range(int(labels.max(initial=0)) + 1):
            of_series = np.flatnonzero(labels == label)
            for place, row in enumerate(of_series):
                start = max(0, place - reach)
                rows[row] = of_series[start : place + reach + 1]
                counted[row] = np.array([place - start], dtype=np.intp)
        return cls._checked(n, tuple(rows), tuple(counted))

    @classmethod
    def _checked(cls, n: int, rows: tuple[Rows, ...], counted: tuple[Rows, ...]) -> "LeftOutBlocks":
        largest = max((block.size for block in rows), default=0)
        if largest > max(n - 2, 1):  # of two rows each may be left out alone
            raise DataError(
                f"without a block of {largest} of {n} rows fewer than two are left to fit; use smaller blocks, more "
                "groups, or more rows"
            )
        return cls(n, rows, counted)

    @cached_property
    def largest(self) -> int:
        """The number of rows of the largest block."""
        return max(block.size for block in self.rows)

    def batches(self, most: int) -> Iterator[BlockBatch]:
        """Yield all blocks, grouped by size, at most ``most`` at a time."""
        sizes: dict[tuple[int, int], list[int]] = {}
        for number, (block, counted) in enumerate(zip(self.rows, self.counted, strict=True)):
            sizes.setdefault((block.size, counted.size), []).append(number)
        for numbers in sizes.values():
            for start in range(0, len(numbers), max(1, most)):
                part = numbers[start : start + max(1, most)]
                yield BlockBatch(np.array([self.rows[k] for k in part]), np.array([self.counted[k] for k in part]))

    def describe(self) -> str:
        """Describe in words which rows are left out."""
        if all(counted.size == 1 for counted in self.counted) and len(self.rows) == self.n:
            return "every row left out with its neighbours" if self.largest > 1 else "every row left out in turn"
        return f"{len(self.rows)} groups of up to {self.largest} rows left out in turn"


def block_residuals(support_values: Array, B: Array, blocks: LeftOutBlocks) -> Array:
    """Return the residual of every row with its block left out, (B_SS)^{-1} alpha_S at the rows that count."""
    residuals = np.empty(support_values.shape)
    for block, counted in zip(blocks.rows, blocks.counted, strict=True):
        residuals[block[counted]] = left_out_residuals(support_values, B, block)[counted]
    return residuals
