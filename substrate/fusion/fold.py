"""One training set of a fusion: its program, its knots, and how validation errors follow from them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from substrate.arrays import EPS, Array
from substrate.fusion.parametric_qp import Knot, ParametricQP
from substrate.fusion.tail import tail_distance
from substrate.paths.chord_certificate import Track

__all__ = ["Fold"]

#: Share of the squared radius that is given up for what may move validation errors besides.
_SHARE = 1e-3


@dataclass(slots=True)
class Fold:
    """A program, how validation errors follow from its solution, and the knots solved so far (changed in place)."""

    program: ParametricQP
    M: Array
    errors_at_zero: Array
    sigma: float
    knots: dict[float, Knot]
    #: How far validation errors may be moved besides, in units of the program.
    rest: float = 0.0
    #: The size of the targets, by which the first knots go; that of the program where none is given.
    size: float | None = None
    tails: dict[tuple[float, float], float | None] = field(default_factory=dict)

    def errors(self, knot: Knot) -> Array:
        """Validation errors at a knot, in the units of y."""
        return np.asarray(self.errors_at_zero - self.program.unit * (self.M @ knot.x))

    def solve(self, value: float) -> None:
        """Add a knot."""
        if value not in self.knots:
            self.knots[value] = self.program.solve(value)

    def track(self, values: Array) -> Track:
        """The path through the common knots, as the bound wants it."""
        knots = [self.knots[float(value)] for value in values]
        unit = self.program.unit
        crosses = [self.program.cross(one, other) for one, other in pairwise(knots)]
        errors = np.array([self.errors(knot) for knot in knots])
        gaps = np.array([knot.gap for knot in knots])
        floors = np.full(max(len(knots) - 1, 0), self.beside(knots) ** 2 * (1.0 + 1.0 / _SHARE))
        sigma = math.sqrt(1.0 + _SHARE) * self.sigma  # (a + b)^2 <= (1 + s) a^2 + (1 + 1/s) b^2
        return Track(values, errors, gaps * unit**2, np.array(crosses) * unit**2, sigma, floors)

    def beside(self, knots: Sequence[Knot]) -> float:
        """How far validation errors are from the computed ones, apart from the gap: rounding, and what is untied."""
        blurs = [0.0]
        for knot in knots:
            products = np.abs(self.M) @ ((self.M.shape[1] + 4) * EPS * np.abs(knot.x) + knot.apart)
            blurs.append(float(np.linalg.norm(products + 2.0 * EPS * np.abs(self.errors_at_zero) / self.program.unit)))
        return self.program.unit * (self.rest + max(blurs))

    def tail(self, values: Array) -> float | None:
        """How far validation errors are from those of the last knot at any larger value; None where nothing is known.

        :mod:`substrate.fusion.tail` has the argument.
        """
        last, earlier = float(values[-1]), values[values <= 0.5 * values[-1]]
        if not earlier.size or last == 0.0:
            return None
        key = (last, float(earlier[-1]))
        if key not in self.tails:
            self.tails[key] = tail_distance(self.program, self.knots[last], self.knots[key[1]])
        distance = self.tails[key]
        return None if distance is None else self.program.unit * self.sigma * distance + self.beside([self.knots[last]])
