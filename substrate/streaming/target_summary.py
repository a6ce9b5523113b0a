r"""What is known of targets before anything is fitted: how many, their means and their extremes, one column per output.

Means of parts make the mean of all, :math:`\bar t = \frac{l_1}{l} \bar t_1 + \frac{l_2}{l} \bar t_2`, without a sum
that could overflow.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.streaming.source import Block

__all__ = ["TargetSummary", "near_largest", "summary_of_targets"]


@dataclass(frozen=True, slots=True)
class TargetSummary:
    """The number of rows; means, lowest and highest targets."""

    count: int
    mean: Array
    low: Array
    high: Array

    def __add__(self, other: "TargetSummary") -> "TargetSummary":
        count = self.count + other.count
        mean = self.mean * (self.count / count) + other.mean * (other.count / count)
        return TargetSummary(count, mean, np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    @property
    def extremes(self) -> Array:
        """The lowest and the highest, a row each."""
        return np.stack([self.low, self.high])

    def about(self, unit: float) -> Array:
        """The means in a unit; of a constant target exactly the constant."""
        return np.asarray(np.clip(self.mean / unit, self.low / unit, self.high / unit))


def near_largest(low: Array, high: Array) -> Array:
    """A power of two near the largest size, in which a sum cannot overflow."""
    exponents = np.frexp(np.maximum(np.abs(low), np.abs(high)))[1]
    return np.asarray(np.exp2(np.maximum(exponents, -1000).clip(max=1000)))


def summary_of_targets(blocks: Iterable[Block]) -> TargetSummary:
    """Of the targets of a leaf, whose mean is taken in units of a power of two near the largest."""
    Y = np.concatenate([block.Y for block in blocks])
    low, high = Y.min(axis=0), Y.max(axis=0)
    unit = near_largest(low, high)
    return TargetSummary(Y.shape[0], (Y / unit).mean(axis=0) * unit, low, high)
