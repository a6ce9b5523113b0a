r"""What a pass reads: rows by number, from wherever they are kept.

A source is a small value that can be pickled. Whoever works on a span of rows opens the source himself and reads that
span only; the rows themselves do not travel, unless they live in one process to begin with (:meth:`Source.sent`).

Rows are read in steps of any multiple of :data:`MICRO` rows, and worked on in micro-blocks of exactly that many: what
is computed of a row never depends on how it was read.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

__all__ = ["LEAF", "MICRO", "Block", "Source", "micro_blocks"]

#: Rows of a micro-block: what a function of rows is called with.
MICRO = 4096
#: Rows of a leaf of the summation tree: four micro-blocks, so that the addition of a leaf is a small part of its work.
LEAF = 4 * MICRO


class Block(NamedTuple):
    """Consecutive rows, their targets, and the number of the first of them."""

    X: Any
    Y: Any
    start: int

    @property
    def rows(self) -> slice:
        """Which rows of all they are."""
        return slice(self.start, self.start + int(self.X.shape[0]))


class Source(ABC):
    """Rows and targets by number."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What messages call it."""

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """How many rows."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """How many columns, the target aside."""

    @property
    def seekable(self) -> bool:
        """Whether reading may start anywhere; otherwise every pass begins at the first row."""
        return True

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the columns, where they have names."""
        return None

    @abstractmethod
    def blocks(self, start: int, stop: int, step: int) -> Iterator[Block]:
        """The rows from ``start`` to ``stop``, ``step`` at a time; the last block may be shorter."""

    def taken(self, rows: Any) -> Any:
        """The rows with the given numbers, in ascending order; whatever has none of them is not read if it can be."""
        wanted = np.asarray(rows, dtype=np.intp)
        parts = []
        for start in np.unique(wanted // LEAF) * LEAF:
            stop = min(int(start) + LEAF, self.n_rows)
            inside = wanted[(wanted >= start) & (wanted < stop)] - int(start)
            (block,) = self.blocks(int(start), stop, LEAF)
            parts.append(block.X[inside])
        return np.concatenate(parts)

    def sent(self, client: Any, start: int, stop: int) -> Any:
        """What a worker of a Dask client needs to read a span: this value, or the future of another source."""
        return self


def micro_blocks(blocks: Iterator[Block]) -> Iterator[Block]:
    """The same rows in micro-blocks; blocks start at multiples of :data:`MICRO`."""
    for block in blocks:
        n = int(block.X.shape[0])
        for first in range(0, n, MICRO):
            part = slice(first, min(first + MICRO, n))
            yield Block(block.X[part], None if block.Y is None else block.Y[part], block.start + first)
