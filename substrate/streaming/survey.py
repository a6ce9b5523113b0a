r"""What is learnt of rows before anything is fitted, in one pass: that all can be read, ranges, spreads, and targets.

Means and squared deviations of parts make those of all ([Chan1983]_):

.. math:: M = M_1 + M_2 + \frac{l_1 l_2}{l_1 + l_2} (\bar x_1 - \bar x_2)^2 .
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.errors import DataError
from substrate.streaming.coded_source import numbers
from substrate.streaming.source import Block
from substrate.streaming.target_summary import TargetSummary, summary_of_targets

__all__ = ["Labels", "Survey", "SurveyOfLeaf"]

#: Different labels beyond which they are taken for something else.
MOST_CLASSES = 10_000


@dataclass(frozen=True, slots=True)
class Labels:
    """The classes there are, sorted, and how many rows each has."""

    classes: Any
    counts: Any

    def __add__(self, other: "Labels") -> "Labels":
        if (self.classes.dtype.kind == "U") != (other.classes.dtype.kind == "U"):
            raise DataError("some labels are text and some are numbers; make them one or the other")
        classes, places = np.unique(np.concatenate([self.classes, other.classes]), return_inverse=True)
        if classes.size > MOST_CLASSES:
            raise DataError(f"more than {MOST_CLASSES} different labels; are these targets of a regression?")
        counts = np.bincount(places, np.concatenate([self.counts, other.counts]), classes.size)
        return Labels(classes, counts.astype(np.int64))


@dataclass(frozen=True, slots=True)
class Survey:
    """Rows; the columns' lowest, highest, mean and summed squared deviations; targets as numbers or as labels."""

    count: int
    low: Array
    high: Array
    mean: Array
    deviations: Array
    targets: TargetSummary | Labels | None

    def __add__(self, other: "Survey") -> "Survey":
        count = self.count + other.count
        with np.errstate(over="ignore", invalid="ignore"):
            mean = self.mean * (self.count / count) + other.mean * (other.count / count)
            apart = np.square(self.mean - other.mean) * (self.count * (other.count / count))
            deviations = self.deviations + other.deviations + apart
        targets = None if self.targets is None else self.targets + other.targets  # type: ignore[operator]
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return Survey(count, low, high, mean, deviations, targets)

    @property
    def standard_deviation(self) -> Array:
        """Of the columns."""
        return np.asarray(np.sqrt(self.deviations / self.count))


@dataclass(frozen=True, slots=True)
class SurveyOfLeaf:
    """``targets``: None, ``"numbers"`` or ``"labels"``."""

    targets: str | None
    name: str

    def __call__(self, blocks: Iterable[Block]) -> Survey:
        """Over the micro-blocks of a leaf, all held at once."""
        held = list(blocks)
        X = np.concatenate([block.X for block in held])
        with np.errstate(over="ignore", invalid="ignore"):
            mean = X.mean(axis=0)
            deviations = np.square(X - mean).sum(axis=0)
        return Survey(X.shape[0], X.min(axis=0), X.max(axis=0), mean, deviations, self._targets(held))

    def _targets(self, blocks: list[Block]) -> TargetSummary | Labels | None:
        if self.targets is None:
            return None
        if self.targets == "numbers":
            return summary_of_targets([Block(block.X, numbers(block, self.name), block.start) for block in blocks])
        if blocks[0].Y is None:
            raise DataError(f"{self.name} has no targets; a fit needs them")
        classes, counts = np.unique(np.concatenate([block.Y for block in blocks]), return_counts=True)
        return Labels(classes, counts)
