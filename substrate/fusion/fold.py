r"""One training set of a fusion: its program, its knots, and how validation errors follow from them.

Beyond the last knot a machine whose penalty has vanished does not change any more. The objective is
:math:`f_\rho = g + \rho\, p` with a penalty :math:`p \ge 0` on all feasible points. If some feasible :math:`\hat x` has
:math:`p(\hat x) = 0`, then :math:`g(x^\star_\rho) \le g(\hat x)` for every :math:`\rho`, since
:math:`f_\rho(x^\star_\rho) \le f_\rho(\hat x)`. The penalty of the optimum falls with rho, and a knot :math:`x_0` with
gap :math:`\delta_0` at :math:`\rho_0 < \rho_1` bounds it: adding up the two optimality conditions,

.. math:: p(x^\star_{\rho_1}) \le p(x_0) + \frac{\delta_0}{\rho_1 - \rho_0} .

With the gap :math:`\hat\delta` of :math:`\hat x` at the last knot :math:`\rho_1`, strong convexity in the norm of P
gives for all :math:`\rho \ge \rho_1`

.. math::

    \tfrac12 \|x^\star_\rho - x^\star_{\rho_1}\|_P^2 \le f_{\rho_1}(x^\star_\rho) - f_{\rho_1}(x^\star_{\rho_1})
    \le \hat\delta + \rho_1 \Big( p(x_0) + \frac{\delta_0}{\rho_1 - \rho_0} \Big) .

That :math:`p \ge 0` is read off the rows and not computed: every variable that rho weighs has a positive weight and is
at least zero by a row of its own, or by two rows whose sum has no other entry. Where it cannot be read off, no bound
is claimed beyond the last knot.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.fusion.error_gram import ErrorGram
from substrate.fusion.parametric_qp import Knot, ParametricQP
from substrate.penalized.homotopy.chord_certificate import Track

__all__ = ["Fold", "never_negative", "nonnegative_on_rows", "tail_distance"]


#: Entries of the last knot below this share of the largest count as zero.
_NOUGHT = 1e-9


def tail_distance(program: ParametricQP, last: Knot, before: Knot) -> float | None:
    """Return the distance in the norm of P of all optima beyond the last knot from that knot; None where it is
    unknown.
    """
    if not never_negative(program):
        return None
    x = np.where(np.abs(last.x) <= _NOUGHT * float(np.abs(last.x).max(initial=0.0)), 0.0, last.x)
    point = program.feasible.at(x)
    weighed = program.q1 != 0.0
    if point is None or point.x[weighed].any() or point.radius[weighed].any():
        return None
    vanished = program.at(last.value, point, last.dual)
    radius = float(np.abs(program.q1) @ (before.radius + relative_rounding(before.x.size) * np.abs(before.x)))
    penalty = max(float(program.q1 @ before.x), 0.0) + radius
    penalty += before.gap / ((last.value - before.value) / program.unit)
    beyond = vanished.gap + last.value / program.unit * penalty
    return math.sqrt(2.0 * beyond) + math.sqrt(last.gap)


def never_negative(program: ParametricQP) -> bool:
    """Return whether what rho weighs is at least zero on all feasible points, as can be read off the rows."""
    return nonnegative_on_rows(program.q1, program.G, program.h)


def nonnegative_on_rows(q: Array, G: Any, h: Array) -> bool:
    """Return whether q'x is at least zero wherever G x <= h, as can be read off the rows."""
    weighed = np.flatnonzero(q)
    if (q[weighed] < 0.0).any():
        return False
    rows = sp.csr_array(G)
    rows.sum_duplicates()
    return all(_implies_bound(rows, h, int(column)) for column in weighed)


def _implies_bound(rows: Any, h: Array, column: int) -> bool:
    """Return whether rows g'x <= h imply x_column >= 0: one alone, or two whose sum has no other entry."""
    at = rows[:, [column]].tocoo()
    single_rows: dict[tuple[tuple[int, ...], bytes], float] = {}
    for row, value in zip(at.coords[0], at.data, strict=True):
        if value >= 0.0:
            continue
        start, stop = rows.indptr[row], rows.indptr[row + 1]
        entries = zip(rows.indices[start:stop], rows.data[start:stop], strict=True)
        other_entries = [(int(j), float(v / -value)) for j, v in entries if j != column and v != 0.0]
        limit = float(h[row] / -value)
        if not other_entries and limit <= 0.0:
            return True
        other_entries.sort()
        key = tuple(j for j, _ in other_entries)
        mirrored = np.array([-v for _, v in other_entries]).tobytes()
        if (key, mirrored) in single_rows and single_rows[key, mirrored] + limit <= 0.0:
            return True
        single_rows[key, np.array([v for _, v in other_entries]).tobytes()] = limit
    return False


#: Share of the squared radius reserved for other errors of the validation errors.
_SHARE = 1e-3


@dataclass(slots=True)
class Fold:
    """A program, how validation errors follow from its solution, and the knots solved so far (changed in place)."""

    program: ParametricQP
    M: Array
    errors_at_zero: Array
    sigma: float
    knots: dict[float, Knot]
    #: Further errors of the validation errors, in units of the program.
    remainder: float = 0.0
    #: The size of the targets, which sets the first knots; that of the program unless given.
    size: float | None = None
    #: How far validation errors move in single directions; None bounds them by sigma alone.
    directions: ErrorGram | None = None
    tails: dict[tuple[float, float], float | None] = field(default_factory=dict)
    #: The knot whose multipliers stand at zero beside the point of a small rho, and that rho.
    at_zero: tuple[Knot, float] | None = None

    def errors(self, knot: Knot) -> Array:
        """Return validation errors at a knot, in the units of y."""
        return np.asarray(self.errors_at_zero - self.program.unit * (self.M @ knot.x))

    def solve(self, value: float) -> None:
        """Add a knot."""
        if value not in self.knots:
            self.knots[value] = self.program.solve(value)

    def stand_in(self, low: float, near: Knot, at_zero: Knot) -> None:
        """Add a knot at zero from the point of one at a small rho, ``near``, and the multipliers of ``at_zero``.

        With different primal x and dual w, the optimum is within twice the gap of x, hence the factors.
        """
        program = self.program
        gap = program.distance(near.x, at_zero.x) + float(at_zero.dual[program.b.size :] @ near.slack) + at_zero.gap
        self.at_zero = at_zero, low
        self.knots[0.0] = replace(near, value=0.0, dual=at_zero.dual, gap=2.0 * gap, allowance=2.0 * gap)
        self.knots[low] = replace(near, value=low, gap=2.0 * near.gap, allowance=2.0 * near.gap)

    def track(self, values: Array) -> Track:
        """Return the path through the common knots, as the bound needs it."""
        knots = [self.knots[float(value)] for value in values]
        unit = self.program.unit
        crosses = [self.program.cross(first, second) for first, second in pairwise(knots)]
        errors = np.array([self.errors(knot) for knot in knots])
        gaps = np.array([knot.gap for knot in knots])
        floors = np.full(max(len(knots) - 1, 0), self.beside(knots) ** 2 * (1.0 + 1.0 / _SHARE))
        sigma = math.sqrt(1.0 + _SHARE) * self.sigma  # (a + b)^2 <= (1 + s) a^2 + (1 + 1/s) b^2
        return Track(
            values=values,
            errors=errors,
            gaps=gaps * unit**2,
            crosses=np.array(crosses) * unit**2,
            sigma=sigma,
            floors=floors,
        )

    def forms(self, low: float, high: float) -> tuple[Array, Array]:
        """Return Q between two values (:mod:`substrate.fusion.simplex_bound`), and R, zero without a ridge weight."""
        first, second = self.knots[low], self.knots[high]
        cross = 0.5 * max(self.program.cross(first, second), 0.0)
        return np.array([[first.gap, cross], [cross, second.gap]]), np.zeros((2, 2))

    def along(self, u: Array, values: Sequence[float]) -> tuple[float, float]:
        """sigma_u, and what the quadratic term leaves open, in the units of y."""
        if self.directions is None:
            return self.program.unit * self.sigma * float(np.linalg.norm(u)), self.program.unit * self.remainder
        sigma, remainder = self.directions.along(u)
        loss = max(float(remainder @ self.program.radius(self.knots[value].x)) for value in values)
        return self.program.unit * sigma, self.program.unit * loss

    def beside(self, knots: Sequence[Knot]) -> float:
        """Return how far validation errors are from the computed ones, apart from the gap: rounding, and free
        directions.
        """
        radii = [0.0]
        for knot in knots:
            products = np.abs(self.M) @ (relative_rounding(self.M.shape[1] + 4) * np.abs(knot.x) + knot.radius)
            targets = relative_rounding(2.0) * np.abs(self.errors_at_zero) / self.program.unit
            radii.append(float(np.linalg.norm(products + targets)))
        return self.program.unit * (self.remainder + max(radii))

    def tail(self, values: Array) -> float | None:
        """Return how far validation errors are from those of the last knot at any larger value; None where it is
        unknown.

        :mod:`substrate.fusion.fold` has the argument.
        """
        last, earlier = float(values[-1]), values[values <= 0.5 * values[-1]]
        if not earlier.size or last == 0.0:
            return None
        key = (last, float(earlier[-1]))
        if key not in self.tails:
            self.tails[key] = tail_distance(self.program, self.knots[last], self.knots[key[1]])
        distance = self.tails[key]
        return None if distance is None else self.program.unit * self.sigma * distance + self.beside([self.knots[last]])
