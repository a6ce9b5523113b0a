r"""Sums over rows, about an origin, and the arithmetic they allow.

.. math:: l, \qquad \sum_i z_i, \qquad \sum_i z_i z_i^T, \qquad \sum_i t_i, \qquad \sum_i z_i t_i, \qquad \sum_i t_i^2

Sums of parts add up to those of all, and the rows of a part leave by subtraction. They are where their rows are, in
numpy or on a device.
"""

from dataclasses import dataclass

from substrate.arrays import Array
from substrate.namespaces import namespace_of, on_device_of
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
        second = self.second - self.first[:, None] * mean - mean[:, None] * first
        cross = self.cross - self.first[:, None] * target - mean[:, None] * targets
        squares = self.squares - target * (self.targets + targets)
        above = namespace_of(squares).clip(squares, min=0.0)
        return Moments(self.count, first, second, targets, cross, above, self.mass)


def origin_of(K_basis: Array, targets: TargetSummary, unit: float) -> Origin:
    """The mean row of the basis stands for that of all rows; targets are centred exactly, a constant one to zero."""
    return Origin(namespace_of(K_basis).mean(K_basis, axis=0), on_device_of(K_basis, targets.about(unit)), unit)
