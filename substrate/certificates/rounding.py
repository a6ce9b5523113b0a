"""The rounding of plain double precision, for bounds and thresholds that are not formulas over enclosed numbers.

Every function states its share of what it is multiplied by. The unit roundoff is u, half the distance from one to the
next number, EPS = 2 u.
"""

from substrate.arrays import EPS

__all__ = ["rank_cutoff", "relative_rounding", "target_rounding"]


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
