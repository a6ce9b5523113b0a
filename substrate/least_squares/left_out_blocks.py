r"""Sets of rows that are left out together, and the rows of each whose residuals count.

Leave-one-out assumes that errors are independent. Where those of neighbours are correlated, the rows beside the one
that is left out carry its error too: a machine that follows the noise predicts it well, and every criterion that leaves
single rows out chooses such a machine ([DeBrabanter2011b]_ section 2). Three sets answer that, all by one formula
(:mod:`~substrate.least_squares.leave_one_out`):

- every row alone, which is leave-one-out;
- groups (patients, batches, sites): all rows of a group are left out together, and all of them count;
- blocks around every row in turn: the rows :math:`i - l, \ldots, i + l` are left out, fewer at an end of a series, and
  only the residual of row i counts ([Chu1991]_; [DeBrabanter2011b]_ for LS-SVMs).

Every row counts once, so the criterion is a mean over all rows in each case.

Rule for l. The errors are estimated first, by the smoother of Nadaraya and Watson with the bimodal kernel
:math:`K(u) = u^2 e^{-u^2}`, which is zero at zero: its fit at :math:`x_i` does not use :math:`y_i`, and hardly its
neighbours, so its width is chosen by plain cross-validation in the presence of correlation ([DeBrabanter2011b]_).
Then l is the smallest lag at which the errors e, about their mean, are no longer correlated,

.. math:: |\hat\rho(l)| = \Big| \frac{\sum_i e_i e_{i+l}}{\sum_i e_i^2} \Big|
          \le \frac{\Phi^{-1}(1 - \alpha/2)}{\sqrt N}, \qquad \alpha = 0.05,

less one, since rows at that lag may stay ([DeBrabanter2011b]_ Algorithm 1 leaves them out too); at most a quarter of
the shortest series, so that machines are left with rows. Errors without correlation have l = 0: leave-one-out.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.errors import DataError, DeclarationError
from substrate.least_squares.leave_one_out import Rows, left_out_residuals

__all__ = ["BlockBatch", "LeftOutBlocks", "block_residuals", "choose_reach", "correlation_reach", "pilot_errors"]

#: Two-sided level of the test that ends the search for l, and the largest share of a series that l may be.
_LEVEL, _SHARE = 0.05, 0.25
#: Widths of the pilot smoother: shares of the largest distance, from a few rows on.
_WIDTHS = 24


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
    def centred(cls, n: int, reach: int, series: Any = None) -> "LeftOutBlocks":
        """Return the block of every row and ``reach`` neighbours on both sides, of which the row itself counts.

        Rows are in the order of time. Blocks end where a series does: ``series`` has one label per row, None where all
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

    def restrict(self, rows: Any) -> "LeftOutBlocks":
        """Return the blocks among some rows, by their new numbers; blocks without a row that counts are none."""
        places = np.full(self.n, -1, dtype=np.intp)
        places[rows] = np.arange(len(rows))
        kept_rows, kept_counted = [], []
        for block, counted in zip(self.rows, self.counted, strict=True):
            is_kept = places[block] >= 0
            is_counted = np.zeros(block.size, dtype=bool)
            is_counted[counted] = True
            new_counted = np.flatnonzero(is_counted[is_kept])
            if new_counted.size:
                kept_rows.append(places[block[is_kept]])
                kept_counted.append(new_counted)
        return self._checked(len(rows), tuple(kept_rows), tuple(kept_counted))

    def batches(self, most: int) -> Iterator[BlockBatch]:
        """Yield all blocks, those of one size together, at most ``most`` at a time."""
        sizes: dict[tuple[int, int], list[int]] = {}
        for number, (block, counted) in enumerate(zip(self.rows, self.counted, strict=True)):
            sizes.setdefault((block.size, counted.size), []).append(number)
        for numbers in sizes.values():
            for start in range(0, len(numbers), max(1, most)):
                part = numbers[start : start + max(1, most)]
                yield BlockBatch(np.array([self.rows[k] for k in part]), np.array([self.counted[k] for k in part]))

    def describe(self) -> str:
        """Return what is left out, in words."""
        if all(counted.size == 1 for counted in self.counted) and len(self.rows) == self.n:
            return "every row left out with its neighbours" if self.largest > 1 else "every row left out in turn"
        return f"{len(self.rows)} groups of up to {self.largest} rows left out in turn"


def block_residuals(support_values: Array, B: Array, blocks: LeftOutBlocks) -> Array:
    """Return the residual of every row with its block left out, (B_SS)^{-1} alpha_S at the rows that count."""
    residuals = np.empty(support_values.shape)
    for block, counted in zip(blocks.rows, blocks.counted, strict=True):
        residuals[block[counted]] = left_out_residuals(support_values, B, block)[counted]
    return residuals


def pilot_errors(X: Any, y: Array) -> Array:
    r"""Return the errors of the Nadaraya-Watson smoother with the bimodal kernel, at the width of least squares.

    A row without neighbours within reach of the kernel has the error of the mean.
    """
    points = np.asarray(X, dtype=np.float64)
    points = points[:, None] if points.ndim == 1 else points
    centred = points - points.mean(axis=0)
    squares = np.square(centred).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares - 2.0 * (centred @ centred.T), 0.0)
    np.fill_diagonal(distances, 0.0)
    largest = float(distances.max())
    targets = np.asarray(y, dtype=np.float64).reshape(points.shape[0], -1)
    deviations = targets - targets.mean(axis=0)
    if not largest > 0.0:
        return np.asarray(deviations)
    np.fill_diagonal(distances, np.inf)
    nearest = float(np.median(distances.min(axis=1)))
    np.fill_diagonal(distances, 0.0)
    shortest = max(nearest, relative_rounding(1e6) * largest)
    best, least = deviations, math.inf
    for squared_width in np.geomspace(4.0 * shortest, max(largest, 4.0 * shortest), _WIDTHS):
        scaled = distances / squared_width
        weights = scaled * np.exp(-scaled)
        mass = weights.sum(axis=1)
        is_known = mass > np.finfo(np.float64).tiny
        fitted = np.zeros_like(deviations)
        fitted[is_known] = (weights[is_known] @ deviations) / mass[is_known, None]
        errors = deviations - fitted
        loss = float(np.square(errors / np.abs(deviations).max(initial=1e-300)).sum())
        if loss < least:
            best, least = errors, loss
    return np.asarray(best)


def correlation_reach(errors: Array, series: Any = None, level: float = _LEVEL) -> int:
    """Return the last lag before the first at which errors in the order of time are not correlated at this level.

    ``errors`` have one column per output, the worst of which counts; lags do not cross from one series to another.
    """
    from scipy.stats import norm

    columns = np.asarray(errors, dtype=np.float64)
    columns = columns[:, None] if columns.ndim == 1 else columns
    n = columns.shape[0]
    labels = np.zeros(n, dtype=np.intp) if series is None else np.unique(np.asarray(series), return_inverse=True)[1]
    parts = [columns[labels == label] for label in range(int(labels.max(initial=0)) + 1)]
    unit = float(np.abs(columns).max(initial=0.0))
    if not unit > 0.0:
        return 0
    centred = [part / unit - columns.mean(axis=0) / unit for part in parts]
    total = sum(np.square(part).sum(axis=0) for part in centred)
    limit = float(norm.ppf(1.0 - level / 2.0)) / math.sqrt(n)
    most = max(0, int(_SHARE * min(part.shape[0] for part in parts)))
    for lag in range(1, most + 1):
        products = sum((part[:-lag] * part[lag:]).sum(axis=0) for part in centred)
        with np.errstate(invalid="ignore", divide="ignore"):
            correlation = np.abs(np.where(np.asarray(total) > 0.0, products / total, 0.0))
        if float(np.max(correlation)) <= limit:
            return lag - 1
    return most


def choose_reach(X: Any, y: Array, series: Any = None) -> int:
    """Return l by the rule: the correlation of the errors of the pilot smoother.

    :place [DeBrabanter2011b]_ Algorithm 1: what precedes cross-validation for correlated errors
    """
    return correlation_reach(pilot_errors(X, y), series)
