"""Rows that are in memory already: a dense or sparse matrix and its targets."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from substrate.streaming.handed_out import handed_out
from substrate.streaming.source import Block, Source

__all__ = ["ArraySource"]


@dataclass(frozen=True, slots=True)
class ArraySource(Source):
    """Arrays that were checked before; blocks are views of them. ``first`` is the number of their first row."""

    X: Any
    Y: Any
    first: int = 0

    @property
    def name(self) -> str:
        """A word for arrays."""
        return "the given arrays"

    @property
    def n_rows(self) -> int:
        """How many rows, those before the first not counted."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """How many columns."""
        return int(self.X.shape[1])

    def blocks(self, start: int, stop: int, step: int) -> Iterator[Block]:
        """Slices."""
        for begin in range(start, stop, step):
            here = slice(begin - self.first, min(begin + step, stop) - self.first)
            yield Block(self.X[here], None if self.Y is None else self.Y[here], begin)

    def taken(self, rows: Any) -> Any:
        """Rows by number."""
        return self.X[rows]

    def sent(self, client: Any, start: int, stop: int) -> Any:
        """The span as data, on a worker: memory of this process is nothing that another could open."""
        here = slice(start - self.first, stop - self.first)
        return handed_out(client, ArraySource(self.X[here], None if self.Y is None else self.Y[here], start))
