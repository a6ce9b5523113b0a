r"""A survey of the rows before a fit, in one pass: readability, ranges, spreads and targets.

Means and squared deviations of parts give those of all ([Chan1983]_):

.. math:: M = M_1 + M_2 + \frac{l_1 l_2}{l_1 + l_2} (\bar x_1 - \bar x_2)^2 .

The summary of the targets holds their number, means and extremes, one column per output. The mean of all is
:math:`\bar t = \frac{l_1}{l} \bar t_1 + \frac{l_2}{l} \bar t_2`, without a sum that could overflow.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from substrate.arrays import Array
from substrate.errors import DataError
from substrate.namespaces import namespace_of, on_device_of, to_numpy
from substrate.streaming.array_source import numbers
from substrate.streaming.source import Block
from substrate.streaming.tally import Tally

__all__ = [
    "Labels",
    "Survey",
    "SurveyOfLeaf",
    "TargetSummary",
    "summary_of_targets",
]


def mean_of_both(first: "TargetSummary | Survey", second: "TargetSummary | Survey") -> Array:
    """Return the mean over the rows of both, by the mean over those of each."""
    count = first.count + second.count
    return first.mean * (first.count / count) + second.mean * (second.count / count)


@dataclass(frozen=True, slots=True)
class TargetSummary(Tally):
    """The number of rows; means, lowest and highest targets."""

    count: int
    mean: Array
    low: Annotated[Array, np.minimum]
    high: Annotated[Array, np.maximum]

    def __add__(self, other: "TargetSummary") -> "TargetSummary":
        return self.combine(other, mean=mean_of_both(self, other))

    @property
    def extremes(self) -> Array:
        """Return the lowest and the highest targets, in two rows."""
        return np.stack([self.low, self.high])

    def means_in(self, unit: float) -> Array:
        """Return the means in a unit; of a constant target exactly the constant."""
        return np.asarray(np.clip(self.mean / unit, self.low / unit, self.high / unit))


def near_largest(low: Array, high: Array) -> Array:
    """Return a power of two near the largest size, in which a sum cannot overflow."""
    exponents = np.frexp(np.maximum(np.abs(low), np.abs(high)))[1]
    return np.asarray(np.exp2(np.maximum(exponents, -1000).clip(max=1000)))


def summary_of_targets(blocks: Iterable[Block]) -> TargetSummary:
    """Return the summary of the targets of a leaf, on the host; means are computed in units of a power of two."""
    targets = [block.Y for block in blocks]
    xp = namespace_of(targets[0])
    Y = xp.concat(targets, axis=0)
    low, high = to_numpy(xp.min(Y, axis=0)), to_numpy(xp.max(Y, axis=0))
    unit = near_largest(low, high)
    return TargetSummary(Y.shape[0], to_numpy(xp.mean(Y / on_device_of(Y, unit), axis=0)) * unit, low, high)


#: Number of different labels above which they are not taken for classes.
MOST_CLASSES = 10_000


@dataclass(frozen=True, slots=True)
class Labels:
    """The classes, sorted, and the number of rows of each."""

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
class Survey(Tally):
    """Rows; the columns' lowest, highest, mean and summed squared deviations; targets as numbers or as labels."""

    count: int
    low: Annotated[Array, np.minimum]
    high: Annotated[Array, np.maximum]
    mean: Array
    deviations: Array
    targets: TargetSummary | Labels | None

    def __add__(self, other: "Survey") -> "Survey":
        with np.errstate(over="ignore", invalid="ignore"):
            mean = mean_of_both(self, other)
            between = np.square(self.mean - other.mean) * (self.count * (other.count / (self.count + other.count)))
            deviations = self.deviations + other.deviations + between
        targets = None if self.targets is None else self.targets + other.targets  # type: ignore[operator]
        return self.combine(other, mean=mean, deviations=deviations, targets=targets)

    @property
    def standard_deviation(self) -> Array:
        """Return the spread of the columns."""
        return np.asarray(np.sqrt(self.deviations / self.count))


@dataclass(frozen=True, slots=True)
class SurveyOfLeaf:
    """``targets``: None, ``"numbers"`` or ``"labels"``."""

    targets: str | None
    name: str

    def __call__(self, blocks: Iterable[Block]) -> Survey:
        """Survey the micro-blocks of a leaf, all held at once."""
        blocks_of_leaf = list(blocks)
        X = np.concatenate([block.X for block in blocks_of_leaf])
        with np.errstate(over="ignore", invalid="ignore"):
            mean = X.mean(axis=0)
            deviations = np.square(X - mean).sum(axis=0)
        return Survey(
            count=X.shape[0],
            low=X.min(axis=0),
            high=X.max(axis=0),
            mean=mean,
            deviations=deviations,
            targets=self._targets(blocks_of_leaf),
        )

    def _targets(self, blocks: list[Block]) -> TargetSummary | Labels | None:
        if self.targets is None:
            return None
        if self.targets == "numbers":
            return summary_of_targets([Block(block.X, numbers(block, self.name), block.start) for block in blocks])
        if blocks[0].Y is None:
            raise DataError(f"{self.name} has no targets; a fit needs them")
        classes, counts = np.unique(np.concatenate([block.Y for block in blocks]), return_counts=True)
        return Labels(classes, counts)
