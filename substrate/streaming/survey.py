r"""A survey of the targets before a fit, in one pass over the rows, all of which are checked on the way.

The summary of the targets holds their number, means and extremes, one column per output. The mean of all is
:math:`\bar t = \frac{l_1}{l} \bar t_1 + \frac{l_2}{l} \bar t_2`, without a sum that could overflow.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from substrate.arrays import Array, namespace_of, on_device_of, to_numpy
from substrate.errors import DataError
from substrate.streaming.passes import Tally
from substrate.streaming.rows import Block, numbers

__all__ = [
    "Labels",
    "TargetSummary",
    "summary_of_targets",
    "survey_targets",
]


@dataclass(frozen=True, slots=True)
class TargetSummary(Tally):
    """The number of rows; means, lowest and highest targets."""

    combine: ClassVar[Mapping[str, Callable[[Any, Any], Any]]] = {"low": np.minimum, "high": np.maximum}

    count: int
    mean: Array
    low: Array
    high: Array

    def __add__(self, other: "TargetSummary") -> "TargetSummary":
        both = Tally.__add__(self, other)
        return replace(both, mean=self.mean * (self.count / both.count) + other.mean * (other.count / both.count))

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


def summary_of_targets(block: Block) -> TargetSummary:
    """Return the summary of the targets of a block, on the host; means are computed in units of a power of two."""
    xp, Y = namespace_of(block.Y), block.Y
    low, high = to_numpy(xp.min(Y, axis=0)), to_numpy(xp.max(Y, axis=0))
    unit = near_largest(low, high)
    return TargetSummary(block.n_rows, to_numpy(xp.mean(Y / on_device_of(Y, unit), axis=0)) * unit, low, high)


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


def survey_targets(labels: bool, name: str, block: Block) -> TargetSummary | Labels:
    """Return the summary of the targets of a block of rows, which are ``labels`` or numbers."""
    if block.Y is None:
        raise DataError(f"{name} has no targets; a fit needs them")
    if labels:
        return Labels(*np.unique(block.Y, return_counts=True))
    return summary_of_targets(block._replace(Y=numbers(block.Y, name, range(block.rows.start, block.rows.stop))))
