"""Rows from an iterable of blocks that can be gone through again and again, in this process."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from substrate.errors import DataError
from substrate.streaming.checks import checked_block, reblocked, refuse_short
from substrate.streaming.source import LEAF, Block, Source

__all__ = ["RowBlocks"]


@dataclass(frozen=True, slots=True)
class RowBlocks(Source):
    """Blocks ``(X, y)``, or ``X`` alone for prediction, of any number of rows each; counted in a pass of their own."""

    given: Any
    rows: int
    width: int

    @classmethod
    def of(cls, blocks: Iterable[Any] | Callable[[], Iterable[Any]]) -> Self:
        """An iterable, or a function that returns one; it must say the same every time."""
        if not callable(blocks) and iter(blocks) is blocks:
            raise DataError(
                "these row blocks can be gone through once only, and a fit makes several passes; pass a list, or a "
                "function that makes the generator anew"
            )
        counted = cls(blocks, 0, 0)
        for block in counted._parts(None):
            counted = cls(blocks, block.rows.stop, int(block.X.shape[1]))
        if counted.rows == 0:
            raise DataError(f"{counted.name} hold no rows")
        return counted

    @property
    def name(self) -> str:
        """A word for them."""
        return "the row blocks"

    @property
    def n_rows(self) -> int:
        """As counted."""
        return self.rows

    @property
    def n_features(self) -> int:
        """The width of the first block."""
        return self.width

    @property
    def seekable(self) -> bool:
        """No: whatever comes before is gone through as well."""
        return False

    def blocks(self, start: int, stop: int, step: int) -> Iterator[Block]:
        """In one go from the beginning."""
        return reblocked(self._parts(self.width), start, stop, step)

    def taken(self, rows: Any) -> Any:
        """In one go as well."""
        wanted = np.asarray(rows, dtype=np.intp)
        blocks = self.blocks(0, self.rows, LEAF)
        inside = ((block, (wanted >= block.start) & (wanted < block.rows.stop)) for block in blocks)
        return np.concatenate([block.X[wanted[here] - block.start] for block, here in inside if here.any()])

    def _parts(self, width: int | None) -> Iterator[Block]:
        start = 0
        for item in self.given() if callable(self.given) else self.given:
            X, y = item if isinstance(item, tuple) and len(item) == 2 else (item, None)
            block = checked_block(X, y, self.name, start, width)
            width, start = int(block.X.shape[1]), block.rows.stop
            yield block
        if self.rows:
            refuse_short(self.name, self.rows, start)
