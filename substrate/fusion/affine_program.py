r"""A machine as a quadratic program that is affine in several parameters.

.. math::

    \min_x \; \tfrac12 x^T P(\theta) x + q(\theta)^T x \quad \text{s.t.} \quad A x = b, \quad G x \le h, \qquad
    q(\theta) = q_0 + \sum_k \theta_k q_k, \quad P(\theta) = P_0 + \tau P_1 .

Every parameter may be in the linear term, and at most one, :math:`\tau`, in the quadratic term, with
:math:`P_1 \succeq 0`: a ridge weight. The numbers are those that cvxpy passes to a solver, read off at a few values of
the parameters (:mod:`substrate.fusion.affine_terms`).

A solution is a knot (:class:`~substrate.fusion.knot.Knot`). The solver's point is polished by its active rows, in the
program without the variables that equalities define (:mod:`substrate.fusion.eliminated`). Then x is moved to a point
that satisfies all constraints exactly (:mod:`substrate.composition.feasible_point`), so that no multiplier of the
optimum need be known:
with slacks :math:`s \ge 0`, multipliers :math:`\mu \ge 0` and the residual r of stationarity,

.. math:: \|x^\star - x\|_P^2 \le \mu^T s - r^T (x^\star - x)

(:mod:`substrate.composition.nearness`). The first term is the duality gap, the second the allowance of a knot. Where P
determines a coordinate, :math:`|d_j| \le c_j \|d\|_P`, it is quadratic in r; elsewhere it is :math:`|r_j| R_j`, with
the optimum assumed to be within :math:`R_j`: a thousand times the size of the variable that j belongs to, or one,
whichever is more, in units in which solutions are of the order of one. It is of rounding size, and linear in R.
Coordinates that P determines are tied to it at the smallest :math:`\tau`, since :math:`\|d\|_{P(\tau)}` grows with
:math:`\tau`. A corner of a simplex that was cut is rounded, so that its parts may leave slivers of rounding size
uncovered; the residual therefore also covers parameters that differ from those of the knot by a few units in the last
place.
"""

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from substrate.arrays import Array
from substrate.certificates.doubled_precision import add, multiply
from substrate.certificates.rounding import relative_rounding
from substrate.composition.cone_program import ConeProgram
from substrate.composition.determined import CoordinateBounds
from substrate.composition.feasible_point import Feasibility, FeasiblePoint
from substrate.errors import SolverError
from substrate.fusion.affine_terms import AffineTerms
from substrate.fusion.bound_variables import BoundVariables
from substrate.fusion.eliminated import EliminatedProgram
from substrate.fusion.knot import FAR, Knot

__all__ = ["PLACES", "AffineProgram", "Corner"]

#: Gap up to which a point is taken at once unless another is asked for.
_EXACT = 1e-11
#: Accuracies requested from the solver in turn, each with the gap of the best point above which it is tried.
_ATTEMPTS = ((1e-12, np.inf), (1e-12, 1e-12), (1e-10, 1e-7))
#: Largest number of variables for which it is computed whether P determines them.
_LARGEST = 3000
#: Share of the squared distance reserved for the residual of stationarity in coordinates that P determines.
YOUNG = 1e-3
#: Gap of a point that cannot be made feasible: it bounds nothing.
_NOTHING = 1e30
#: A weight of zero is solved for as this share of the unit, since zero leaves variables such as a maximum undetermined.
_TINY = 1e-9
#: Larger shares at which the active rows of tiny weights are looked for in turn, where solvers do not reveal them.
_ANCHORS = (1e-9, 1e-6, 1e-4, 1e-2)

#: Places of rounding by which corners may be off: simplices that are cut many times may leave slivers between them.
PLACES = 64.0
#: Margin of bounds such as a maximum, as a share of what is added up: rounding then does not violate them.
MARGIN = relative_rounding(32.0)

Corner = tuple[float, ...]
#: x, and the multipliers of all rows.
Point = tuple[Array, Array]


class AffineProgram:
    """The program, in units in which its solutions are of the order of one; the unit is a power of two.

    ``lowest`` is the smallest value of the ridge weight that will be asked for, ``exact`` the gap up to which a point
    is taken at once.
    """

    def __init__(
        self,
        terms: AffineTerms,
        unit: float,
        lowest: float = 0.0,
        exact: float = _EXACT,
    ) -> None:
        m = terms.equalities
        self.terms, self.unit, self.ridge, self.columns = terms, unit, terms.ridge, terms.columns
        self.q0, self.q = terms.q0 / unit, terms.q
        self.P0, self.P1, self.lowest, self.exact = terms.P0, terms.P1, lowest, exact
        self.A, self.b, self.G, self.h = terms.A[:m], terms.b[:m] / unit, terms.A[m:], terms.b[m:] / unit
        self.program = ConeProgram(
            P=sp.csr_array(self.P0 + self.lowest * self.P1),
            q=self.q0,
            A=sp.csr_array(sp.vstack([self.A, -self.G])),
            b=np.append(-self.b, self.h),
            equal=np.arange(m),
            linear=np.arange(m, terms.b.size),
            cone_blocks=(),
        )
        self.feasible = Feasibility(self.program)
        occupied = (abs(self.P0) + abs(self.P1)).sum(axis=0)
        self.bounds = BoundVariables.of(self.A, self.G, self.h, np.asarray(occupied).ravel(), self.q0, self.q)
        self._starts = [*sorted(set(self.columns.values())), self.q0.size]
        self._sizes1 = abs(self.P1)
        self._anchors: dict[Corner, Knot] = {}

    @cached_property
    def eliminated(self) -> EliminatedProgram:
        """Return the program without the variables that equalities define."""
        return EliminatedProgram.of(self.P0, self.P1, self.A, self.b, self.G, self.h)

    @cached_property
    def _ties(self) -> CoordinateBounds:
        return CoordinateBounds.of(self.program, _LARGEST)

    def tau(self, theta: Corner) -> float:
        """Return the weight of P1."""
        return theta[self.ridge] if self.ridge >= 0 else 0.0

    def linear(self, theta: Corner) -> Array:
        """q at theta, in our units."""
        return np.asarray(self.q0 + (np.array(theta) / self.unit) @ self.q)

    def quadratic(self, tau: float) -> Any:
        """Return P at a weight of P1."""
        return sp.csr_array(self.P0 + tau * self.P1)

    def penalty(self, k: int, x: Array) -> float:
        """Return what parameter k weighs."""
        return float(self.q[k] @ x)

    def solved_at(self, theta: Corner, share: float = _TINY) -> Corner:
        """Return the weights whose point is the knot at theta: a tiny one, a share of the unit, in place of zero."""
        return tuple(v if k == self.ridge else max(v, share * self.unit) for k, v in enumerate(theta))

    def solve(self, theta: Corner) -> Knot:
        """Return the knot at theta; raises where the solver fails."""
        knot = self._by_solvers(theta)
        enough = max(self.exact, _ATTEMPTS[1][1])
        for share in _ANCHORS:
            raised = self.solved_at(theta, share)
            if knot.gap > enough and raised != theta:
                knot = self._follow_segment(theta, knot, raised)
        return knot

    def _follow_segment(self, theta: Corner, knot: Knot, raised: Corner) -> Knot:
        r"""Return the best knot at theta by the active rows at larger weights, from which it is a step along a segment.

        An interior point leaves products :math:`\mu_i s_i` of its tolerance, which tell active rows from others only
        where multipliers are far above it, and multipliers fall with the weights. On a segment, whose active rows do
        not change, x and the multipliers are affine in the weights, down to zero.
        """
        if raised not in self._anchors:
            self._anchors[raised] = self._by_solvers(raised)
        anchor = self._anchors[raised]
        for point in self.eliminated.polish(self.linear(theta), self.tau(theta), anchor.x, anchor.dual):
            knot = min(knot, self.knot(theta, *point), key=lambda each: each.gap)
            if knot.gap <= self.exact:
                break
        return knot

    def _by_solvers(self, theta: Corner) -> Knot:
        """Return the best of the knots by solvers, and by the active rows of theirs."""
        q, tau = self.linear(self.solved_at(theta)), self.tau(theta)
        best: Knot | None = None
        for accuracy, poor in _ATTEMPTS:
            if best is not None and best.gap <= poor:
                return best
            # the second time from the first point, where the program loses no digits to an offset
            for point in self._points(q, tau, accuracy, None if best is None else best.x):
                knot = self.knot(theta, *point)
                best = knot if best is None or knot.gap < best.gap else best
                if best.gap <= self.exact:
                    return best
        if best is None:
            raise SolverError(f"PIQP found no point at {theta}")
        return best

    def _points(self, q: Array, tau: float, accuracy: float, near: Array | None) -> Iterator[Point]:
        """Yield the solver's point, and those by its active rows."""
        solution = self.eliminated.solve(q, tau, accuracy, near)
        if solution is not None:
            yield solution
            yield from self.eliminated.polish(q, tau, *solution)

    def knot(self, theta: Corner, x: Array, dual: Array) -> Knot:
        """Return the knot at a feasible point next to x, with multipliers that fit theta."""
        x = self.bounds.lower(x, MARGIN)
        dual = self.bounds.balance(self.linear(theta), dual, self.b.size, self.h - self.G @ x)
        dual = self.eliminated.balance(self.linear(theta), self.tau(theta), x, dual)
        feasible_point = self.feasible.near(x, self.bounds.step)
        return self.nothing(x, dual) if isinstance(feasible_point, str) else self.at(theta, feasible_point, dual)

    def nothing(self, x: Array, dual: Array) -> Knot:
        """Return the knot of a point that cannot be made feasible: it bounds nothing."""
        slack = np.maximum(self.h - self.G @ x, 0.0)
        return Knot(x=x, dual=dual, slack=slack, gap=_NOTHING, allowance=_NOTHING, radius=np.zeros_like(x))

    def at(self, theta: Corner, point: FeasiblePoint, dual: Array) -> Knot:
        """Return the knot at a feasible point, with its gap."""
        m, sizes = self.b.size, self.program.sizes
        slack, rounding = self.program.slack(point.x)
        above = np.maximum(slack + rounding + sizes[1] @ point.radius, 0.0)[m:]
        residual_radius = self.residual(theta, point, dual)
        a, untied = self._ties.split(residual_radius, self.radius(point.x))
        allowance = (1.0 + YOUNG) * (float(untied @ self.radius(point.x)) + a * a / (2.0 * YOUNG))
        gap = (1.0 + YOUNG) * float(dual[m:] @ above) + allowance
        return Knot(x=point.x, dual=dual, slack=above, gap=gap, allowance=allowance, radius=point.radius)

    def residual(self, theta: Corner, point: FeasiblePoint, dual: Array) -> Array:
        """Return a bound on the sizes of the residual of stationarity at the exactly feasible point."""
        m, extra = self.b.size, self.tau(theta) - self.lowest
        r, error = self.program.slope(point.x, np.append(-dual[:m], dual[m:]), self.linear(theta))
        radius = np.abs(r) + error
        if self.ridge >= 0:
            more = extra * (self.P1 @ point.x)
            size = extra * (self._sizes1 @ np.abs(point.x))
            radius = np.abs(r + more) + error + relative_rounding(8.0) * (size * self._depth + np.abs(r))
            radius += extra * (self._sizes1 @ point.radius)
        radius = radius + self.program.sizes[0] @ point.radius + self._rounding(theta)
        return np.asarray(radius + relative_rounding(PLACES) * self.weight_sizes(theta, point.x, dual))

    def weight_sizes(self, theta: Corner, x: Array, dual: Array) -> Array:
        """Return what the parameters add to stationarity, after multipliers have followed them in bounds such as a
        maximum.
        """
        added = (np.array(theta) / self.unit) @ np.abs(self.q)
        added[self.bounds.columns] = 0.0
        added += self.bounds.shift_sizes(dual, self.b.size)
        return np.asarray(added + self.tau(theta) * (self._sizes1 @ np.abs(x)))

    @cached_property
    def _depth(self) -> Array:
        return np.asarray(np.maximum(np.diff(self.P1.indptr).astype(np.float64), 1.0))

    def _rounding(self, theta: Corner) -> Array:
        """Return the distance of the linear term from q0 + sum theta_k q_k."""
        total = (self.q0.copy(), np.zeros_like(self.q0))
        for value, q in zip(theta, self.q, strict=True):
            total = add(total, multiply(np.full_like(q, value / self.unit), q))
        return np.abs((total[0] - self.linear(theta)) + total[1])

    def radius(self, x: Array) -> Array:
        """Return the assumed largest distance of each coordinate of an optimum from x."""
        radius = np.zeros_like(x)
        for start, stop in pairwise(self._starts):
            radius[start:stop] = FAR * max(1.0, float(np.abs(x[start:stop]).max(initial=0.0)))
        return radius

    def cross(self, first: Knot, second: Knot) -> float:
        """Return Q_ij: half the slacks of one knot times multipliers of the other, both ways, and their allowances."""
        m = self.b.size
        products = float(first.dual[m:] @ second.slack + second.dual[m:] @ first.slack)
        return 0.5 * ((1.0 + YOUNG) * products + first.allowance + second.allowance)

    def cross_radius(self, first: Knot, second: Knot) -> tuple[float, float]:
        """Return how far P1 times the difference of two knots is from that of exactly feasible points.

        In the norm that the quadratic term determines, and times the assumed radius elsewhere.
        """
        rounding = relative_rounding(4.0) * (np.abs(first.x) + np.abs(second.x))
        sizes = self._sizes1 @ (first.radius + second.radius + self._depth.max(initial=1.0) * rounding)
        radius = np.maximum(self.radius(first.x), self.radius(second.x))
        a, untied = self._ties.split(sizes, radius)
        return a, float(untied @ radius)
