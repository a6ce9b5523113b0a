"""Rows that are read in passes, with a weight each: a vector in memory, read along with the rows.

Rows of weight zero are absent: they are read and passed over, and the others are numbered without them, so that every
sum, draw and fold is the one of the rows without them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from substrate.arrays import Array, real_array
from substrate.errors import DataError
from substrate.streaming.array_source import DerivedSource
from substrate.streaming.source import Block, Source, reblock

__all__ = ["WeighedSource", "weights_of_source"]


@dataclass(frozen=True)
class WeighedSource(DerivedSource):
    """The rows of positive weight of another source; ``weights`` are None where all others are one.

    ``numbers`` are the numbers that these rows have there, None where they are all of them; ``first`` is the number
    here of the first row that has an entry, of which a worker is sent a part.
    """

    weights: Array | None
    numbers: Any = None
    first: int = 0

    @property
    def n_rows(self) -> int:
        """Return the number of rows of positive weight."""
        return int(self.inner.n_rows if self.numbers is None else self.numbers.size)

    def row_weights(self) -> Array | None:
        """Return those of the rows of positive weight."""
        return self.weights

    def change(self, block: Block) -> Block:
        """Return the block with the weights of its rows, by the numbers they have here."""
        if self.weights is None:
            return block
        return block._replace(weights=self.weights[block.rows.start - self.first : block.rows.stop - self.first])

    def blocks(self, start: int, stop: int, step: int) -> Iterator[Block]:
        """Return the blocks of the inner source without the rows of weight zero."""
        if self.numbers is None:
            return map(self.change, self.inner.blocks(start, stop, step))
        numbers = self._numbers_in(start, stop)
        return map(self.change, reblock(self._positive(numbers, start, step), start, stop, step))

    def take_rows(self, rows: Any) -> Any:
        """Return the rows by the numbers that they have in the inner source."""
        return self.inner.take_rows(rows if self.numbers is None else self.numbers[rows])

    def delay(self, start: int, stop: int) -> Any:
        """Return a delayed span with its part of the weights."""
        own_numbers, rows = self._numbers_in(start, stop), slice(start - self.first, stop - self.first)
        numbers = None if self.numbers is None else own_numbers
        weights = None if self.weights is None else self.weights[rows]
        span = replace(self, weights=weights, numbers=numbers, first=start)
        return span.delay_inner(self.inner.delay(int(own_numbers[0]), int(own_numbers[-1]) + 1))

    def _numbers_in(self, start: int, stop: int) -> Any:
        """Return the numbers in the inner source of the rows from ``start`` to ``stop``."""
        if self.numbers is None:
            return np.array([start, stop - 1])
        return self.numbers[start - self.first : stop - self.first]

    def _positive(self, numbers: Any, start: int, step: int) -> Iterator[Block]:
        """Yield the rows with the numbers ``own``, numbered from ``start`` on: of every block those that it has."""
        for block in self.inner.blocks(int(numbers[0]), int(numbers[-1]) + 1, step):
            first, last = np.searchsorted(numbers, [block.rows.start, block.rows.stop])
            if first < last:
                places = numbers[first:last] - block.start
                yield Block(block.X[places], None if block.Y is None else block.Y[places], start + int(first))


def weights_of_source(sample_weight: Any, rows: Source) -> Array:
    """Return one finite weight, not negative, for each row of a source."""
    if hasattr(sample_weight, "compute"):  # a Dask collection: one number per row fits where its rows do not
        sample_weight = sample_weight.compute()
    weights = real_array(sample_weight, "sample_weight", ndim=1)
    if weights.shape != (rows.n_rows,):
        raise DataError(
            f"sample_weight must have one entry per row: {rows.name} has {rows.n_rows} rows, received {weights.size}; "
            "give one weight for each, in the order of the rows"
        )
    if (weights < 0.0).any():
        raise DataError(f"sample_weight must not be negative, received {weights.min()} at row {int(weights.argmin())}")
    if (positive := int(np.count_nonzero(weights))) < 2:
        raise DataError(
            f"at least two rows of positive weight are needed, received {positive} of {weights.size}; give more rows a "
            "positive sample_weight"
        )
    return weights
