r"""Sums over rows, about an origin, and the arithmetic they allow.

.. math:: l, \qquad \sum_i z_i, \qquad \sum_i z_i z_i^T, \qquad \sum_i t_i, \qquad \sum_i z_i t_i, \qquad \sum_i t_i^2

Sums of parts add up to those of all, and the rows of a part leave by subtraction.
"""

from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.streaming.target_summary import TargetSummary

__all__ = ["Moments", "Origin", "origin_of"]


@dataclass(frozen=True, slots=True)
class Origin:
    """What is taken off before anything is squared: a row of kernel values, and of targets; and the unit of targets."""

    kernel_values: Array
    targets: Array
    unit: float


@dataclass(frozen=True, slots=True)
class Moments:
    """Sums over rows, about an origin: of features, their products, targets, products with targets, their squares.

    Where rows have weights every sum but ``count`` is weighted, and ``mass`` is the sum of the weights.
    """

    count: int
    first: Array
    second: Array
    targets: Array
    cross: Array
    squares: Array
    mass: float

    def __add__(self, other: "Moments") -> "Moments":
        return self._with(other, 1.0)

    def __sub__(self, other: "Moments") -> "Moments":
        return self._with(other, -1.0)

    def _with(self, other: "Moments", sign: float) -> "Moments":
        return Moments(
            self.count + int(sign) * other.count,
            self.first + sign * other.first,
            self.second + sign * other.second,
            self.targets + sign * other.targets,
            self.cross + sign * other.cross,
            self.squares + sign * other.squares,
            self.mass + sign * other.mass,
        )

    def transformed(self, T: Array) -> "Moments":
        """The same of T'x instead of x."""
        first, second, cross = T.T @ self.first, T.T @ self.second @ T, T.T @ self.cross
        return Moments(self.count, first, second, self.targets, cross, self.squares, self.mass)

    def about(self, mean: Array, target: Array) -> "Moments":
        """The same about another origin."""
        first, targets = self.first - self.mass * mean, self.targets - self.mass * target
        second = self.second - np.outer(self.first, mean) - np.outer(mean, first)
        cross = self.cross - np.outer(self.first, target) - np.outer(mean, targets)
        squares = self.squares - target * (self.targets + targets)
        return Moments(self.count, first, second, targets, cross, np.maximum(squares, 0.0), self.mass)


def origin_of(K_basis: Array, targets: TargetSummary, unit: float) -> Origin:
    """The mean row of the basis stands for that of all rows; targets are centred exactly, a constant one to zero."""
    return Origin(np.asarray(K_basis.mean(axis=0)), targets.about(unit), unit)
