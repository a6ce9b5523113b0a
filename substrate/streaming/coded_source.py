"""A source whose targets are columns of numbers: as they are, or the codes of labels."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.errors import DataError
from substrate.streaming.source import Block, Source

__all__ = ["CodedSource", "LabelCodes", "numbers"]


def numbers(block: Block, name: str) -> Array:
    """Targets as one column of floats."""
    if block.Y is None:
        raise DataError(f"{name} has no targets; a fit needs them")
    if block.Y.dtype.kind not in "fiub":
        raise DataError(f"{name}, from row {block.start}: targets of dtype {block.Y.dtype}; a regression needs numbers")
    return np.asarray(block.Y, dtype=np.float64)[:, None]


@dataclass(frozen=True, slots=True)
class LabelCodes:
    """The rows of a code book, by the classes of the labels."""

    classes: Any
    book: Array

    def __call__(self, block: Block, name: str) -> Array:
        """Codes of a block of labels."""
        places = np.searchsorted(self.classes, block.Y).clip(max=self.classes.size - 1)
        strange = self.classes[places] != block.Y
        if strange.any():
            row = int(strange.argmax())
            raise DataError(
                f"{name}, row {block.start + row}: the label {block.Y[row]!r} is none of the classes {self.classes}"
            )
        return np.ascontiguousarray(self.book[places])


@dataclass(frozen=True, slots=True)
class CodedSource(Source):
    """Rows as they are; targets by a function of a block."""

    inner: Source
    code: Callable[[Block, str], Array]

    @property
    def name(self) -> str:
        """That of the rows."""
        return self.inner.name

    @property
    def n_rows(self) -> int:
        """Those of the rows."""
        return self.inner.n_rows

    @property
    def n_features(self) -> int:
        """Those of the rows."""
        return self.inner.n_features

    @property
    def seekable(self) -> bool:
        """If the rows are."""
        return self.inner.seekable

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Those of the rows."""
        return self.inner.feature_names

    def blocks(self, start: int, stop: int, step: int) -> Iterator[Block]:
        """Coded block by block."""
        for block in self.inner.blocks(start, stop, step):
            yield Block(block.X, self.code(block, self.name), block.start)

    def taken(self, rows: Any) -> Any:
        """Rows only."""
        return self.inner.taken(rows)

    def sent(self, client: Any, start: int, stop: int) -> Any:
        """As the rows are."""
        inner = self.inner.sent(client, start, stop)
        return self if inner is self.inner else client.submit(CodedSource, inner, self.code, pure=False)
