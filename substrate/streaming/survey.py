r"""A survey of the rows before a fit, in one pass: readability, ranges, spreads and targets.

Means and squared deviations of all rows follow from the parts ([Chan1983]_):

.. math:: M = M_1 + M_2 + \frac{l_1 l_2}{l_1 + l_2} (\bar x_1 - \bar x_2)^2 .

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
    "Survey",
    "TargetSummary",
    "summary_of_targets",
    "survey_block",
]


def mean_of_both(first: "TargetSummary | Survey", second: "TargetSummary | Survey") -> Array:
    """Return the mean over the rows of both, from the mean over each."""
    count = first.count + second.count
    return first.mean * (first.count / count) + second.mean * (second.count / count)


@dataclass(frozen=True, slots=True)
class TargetSummary(Tally):
    """The number of rows; means, lowest and highest targets."""

    combine: ClassVar[Mapping[str, Callable[[Any, Any], Any]]] = {"low": np.minimum, "high": np.maximum}

    count: int
    mean: Array
    low: Array
    high: Array

    def __add__(self, other: "TargetSummary") -> "TargetSummary":
        return replace(Tally.__add__(self, other), mean=mean_of_both(self, other))

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


@dataclass(frozen=True, slots=True)
class Survey(Tally):
    """Rows; the columns' lowest, highest, mean and summed squared deviations; targets as numbers or as labels."""

    combine: ClassVar[Mapping[str, Callable[[Any, Any], Any]]] = {"low": np.minimum, "high": np.maximum}

    count: int
    low: Array
    high: Array
    mean: Array
    deviations: Array
    targets: TargetSummary | Labels

    def __add__(self, other: "Survey") -> "Survey":
        with np.errstate(over="ignore", invalid="ignore"):
            both = Tally.__add__(self, other)
            between = np.square(self.mean - other.mean) * (self.count * (other.count / both.count))
            return replace(both, mean=mean_of_both(self, other), deviations=both.deviations + between)

    @property
    def standard_deviation(self) -> Array:
        """Return the spread of the columns."""
        return np.asarray(np.sqrt(self.deviations / self.count))


def survey_block(labels: bool, name: str, block: Block) -> Survey:
    """Return the survey of a block of rows, whose targets are ``labels`` or numbers."""
    if block.Y is None:
        raise DataError(f"{name} has no targets; a fit needs them")
    with np.errstate(over="ignore", invalid="ignore"):
        mean = block.X.mean(axis=0)
        deviations = np.square(block.X - mean).sum(axis=0)
    targets: TargetSummary | Labels
    if labels:
        targets = Labels(*np.unique(block.Y, return_counts=True))
    else:
        given = range(block.rows.start, block.rows.stop)
        targets = summary_of_targets(block._replace(Y=numbers(block.Y, name, given)))
    return Survey(
        count=block.n_rows,
        low=block.X.min(axis=0),
        high=block.X.max(axis=0),
        mean=mean,
        deviations=deviations,
        targets=targets,
    )
