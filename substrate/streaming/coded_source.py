"""A source whose targets are columns of numbers: as they are, or the codes of labels."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.errors import DataError
from substrate.streaming.derived_source import DerivedSource
from substrate.streaming.source import Block

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


@dataclass(frozen=True)
class CodedSource(DerivedSource):
    """Rows as they are; targets by a function of a block."""

    code: Callable[[Block, str], Array]

    def changed(self, block: Block) -> Block:
        """With coded targets."""
        return Block(block.X, self.code(block, self.name), block.start)
