"""A knot: a primal and dual point of a program at one value of its weights, with what bounds need of it."""

from dataclasses import dataclass

from substrate.arrays import Array

__all__ = ["FAR", "Knot"]

#: The assumed largest distance of a variable from its optimum, in multiples of its size or of one.
FAR = 1000.0


@dataclass(frozen=True, slots=True)
class Knot:
    """A feasible point x, the multipliers of the rows (dual), their slacks from above, and the gap.

    ``allowance`` is the part of the gap that covers the residual of stationarity, ``radius`` how far in each coordinate
    a point is from x that is feasible exactly.
    """

    x: Array
    dual: Array
    slack: Array
    gap: float
    allowance: float
    radius: Array
