"""The rounding of plain double precision, for bounds and thresholds that are not formulas over enclosed numbers.

Every function states its share of what it is multiplied by. The unit roundoff is u, half the distance from one to the
next number, EPS = 2 u.
"""

from typing import TypeVar

from substrate.arrays import EPS, Array

__all__ = ["OF_PAIRS", "rank_cutoff", "relative_rounding", "subtract_below", "target_rounding"]

_Number = TypeVar("_Number", float, Array)

#: What sums of a few unevaluated sums of two doubles lose of the sizes of their terms: 2^-98, where EPS^2 is 2^-104.
OF_PAIRS = EPS**1.9


def relative_rounding(operations: float) -> float:
    """Return the share that so many operations in a row may change: k u / (1 - k u), at most 2 k u below k u = 1/2.

    A sum of k products is such a row of k operations, in whatever order it is formed, on the sum of their sizes.
    """
    return operations * EPS


def target_rounding(count: int, largest: float) -> float:
    """Return n eps max|y|: what rounding y, and the mean of n of them, may change in units of y."""
    return relative_rounding(count) * largest


def rank_cutoff(size: int) -> float:
    """Return the share of the largest singular value that a backward stable decomposition of this size may lose."""
    return size * EPS


def subtract_below(value: _Number, loss: _Number) -> _Number:
    """Return what is not above value - loss, where both are correct to a rounding of their own, a product included."""
    return value - loss - relative_rounding(4.0) * (abs(value) + abs(loss))
