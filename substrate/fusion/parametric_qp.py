r"""A machine as a quadratic program whose linear term is affine in one parameter.

.. math:: \min_x \; \tfrac12 x^T P x + (q_0 + \rho \, q_1)^T x \quad \text{s.t.} \quad A x = b, \quad G x \le h

The numbers are those that cvxpy passes to a solver. Where a parameter :math:`\lambda` is the weight of all squares and
the rest is linear, as in :math:`\tfrac{\lambda}{2} w^T w` with a hinge, the machine divided by :math:`\lambda` is of
this form with :math:`\rho = 1/\lambda` and :math:`q_0 = 0`.

A solution at one rho, its knot, is polished: the rows with a
multiplier larger than their slack are taken for equalities and the linear system of the optimality conditions is
solved; rows that its solution violates are added, rows with a negative multiplier removed, a few times.

Then x is moved to a point that satisfies all constraints exactly
(:mod:`substrate.composition.feasible_point`), so that no multiplier of the optimum need be known: with slacks
:math:`s \ge 0`, multipliers :math:`\mu \ge 0` and the residual r of stationarity,

.. math:: \|x^\star - x\|_P^2 \le \mu^T s - r^T (x^\star - x)

(:mod:`substrate.composition.nearness`). The first term is the duality gap, the second the allowance of a knot. Where P
determines a coordinate, :math:`|d_j| \le c_j \|d\|_P`, it is quadratic in r; elsewhere it is :math:`|r_j| R_j`, with
the optimum assumed to be within :math:`R_j`: a thousand times the size of the variable that j belongs to, or one,
whichever is more, in units in which solutions are of the order of one. It is of rounding size, and linear in R. All
three of x, multipliers and r are interpolated between knots.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import splu

from substrate.arrays import Array
from substrate.certificates.doubled_precision import add, multiply
from substrate.composition.cone_program import ConeProgram
from substrate.composition.determined import CoordinateBounds, OutputBound, by_conditions
from substrate.composition.feasible_point import Feasibility, FeasiblePoint, Step, towards
from substrate.composition.scaled_program import Warm
from substrate.composition.structure import Structure
from substrate.composition.structure_search import find_structure, renew
from substrate.composition.structured_solution import structured_solution
from substrate.errors import DeclarationError, SolverError
from substrate.fusion.affine_terms import AffineTerms
from substrate.fusion.program_numbers import least, quadratic_parts, refuse_other_dependence, weighs_all_squares

IntegerArray = NDArray[np.intp]
#: x, and the multipliers of all rows.
Point = tuple[Array, Array]

__all__ = ["Knot", "ParametricQP"]

#: Diagonal that makes the system of the optimality conditions regular; refinement removes its effect.
_REGULAR = 1e-9
_REFINEMENTS = 8
#: Accuracies requested from the solver in turn: the first reveals the active rows; the second is used where it stalls.
_ACCURACIES = (1e-13, 1e-10)
#: Gap at which the second is not tried any more.
_POLISHED = 1e-12
#: Times that rows may be added and removed before the solver's point is kept.
_ROUNDS = 12
#: The assumed largest distance of a variable from its optimum, in multiples of its size or of one.
FAR = 1000.0
#: Gap of a point that cannot be made feasible: it bounds nothing.
_NOTHING = 1e30
#: Further error of predictions, in units in which solutions are of the order of one.
_UNTIED = 1e-3
#: Largest number of variables for which it is computed whether P determines them.
_LARGEST = 3000
#: Number of variables from which on the structured method is used.
_STRUCTURED = 1000
#: Share of the squared distance reserved for the residual of stationarity in coordinates that P determines.
_YOUNG = 1e-3


@dataclass(frozen=True, slots=True)
class Knot:
    """A primal and dual point at one value.

    The primal point x, the multipliers of the rows (dual), their slacks from above, the gap, the part of the gap
    (allowance) that covers the residual of stationarity, and how far in each coordinate (radius) a point
    is from x that is feasible exactly.
    """

    value: float
    x: Array
    dual: Array
    slack: Array
    gap: float
    allowance: float
    radius: Array


class ParametricQP:
    """The program, in units in which its solutions are of the order of one.

    The unit is a power of two, so no number is rounded.
    """

    def __init__(self, problem: Any, parameter: Any, unit: float, dense: Iterable[int] = ()) -> None:
        constant, step = quadratic_parts(problem, [parameter])
        inverse = weighs_all_squares(constant, step)
        if not inverse:
            refuse_other_dependence(parameter.name(), step)
        q1 = constant.q if inverse else step.q
        if not q1.any():
            raise DeclarationError(f"the objective does not depend on {parameter.name()!r}")
        terms = AffineTerms(
            P0=step.P if inverse else constant.P,
            P1=sp.csr_array(constant.P.shape),
            q0=np.zeros_like(constant.q) if inverse else constant.q,
            q=q1[None, :],
            A=constant.A,
            b=constant.b,
            columns=constant.columns,
            equalities=constant.equalities,
            ridge=-1,
        )
        self._arrange(terms, unit, inverse, dense)

    @classmethod
    def of(cls, terms: AffineTerms, unit: float, inverse: bool) -> "ParametricQP":
        """Return the program of these numbers; ``inverse`` is whether rho is one over the parameter."""
        program = cls.__new__(cls)
        program._arrange(terms, unit, inverse, ())
        return program

    def _arrange(self, terms: AffineTerms, unit: float, inverse: bool, dense: Iterable[int]) -> None:
        self.unit, self.terms = unit, terms
        #: Whether rho is one over the parameter, by which the machine was divided.
        self.inverse = inverse
        self.P, self.q1, self.q0 = terms.P0, terms.q[0], terms.q0 / unit
        self.columns = terms.columns
        m = terms.equalities
        self.A, self.b = terms.A[:m], terms.b[:m] / unit
        self.G, self.h = terms.A[m:], terms.b[m:] / unit
        rows = sp.csr_array(sp.vstack([self.A, -self.G]))
        every = np.append(-self.b, self.h)
        self.program = ConeProgram(
            P=sp.csr_array(self.P),
            q=self.q0,
            A=rows,
            b=every,
            equal=np.arange(m),
            linear=np.arange(m, every.size),
            cone_blocks=(),
        )
        self.feasible = Feasibility(self.program)
        self._starts = [*sorted(set(self.columns.values())), self.q0.size]
        self._warm: Warm | None = None
        places = [self.columns[key] for key in dense]
        self._dense = [j for a in places for j in range(a, self._starts[self._starts.index(a) + 1])]

    def linear(self, rho: float) -> Array:
        """q at rho, in our units."""
        return np.asarray(self.q0 + rho / self.unit * self.q1)

    def penalty(self, x: Array) -> float:
        """Return the penalty, which rho weighs."""
        return float(self.q1 @ x)

    def solve(self, rho: float) -> Knot:
        """Return the polished knot at rho; raises where the solver fails."""
        knots: list[Knot] = []
        structured = self._by_structure(rho) if self.q0.size > _STRUCTURED else None
        if structured is not None:
            return structured
        for accuracy in _ACCURACIES:
            point = self._interior(rho, accuracy)
            if point is not None:
                rows = np.flatnonzero(point[1][self.b.size :] > np.maximum(self.h - self.G @ point[0], 0.0))
                knots.append(self._best(rho, [point, *self._polish(rho, *point, rows)]))
            if knots and knots[-1].gap <= _POLISHED:
                break
        if not knots:
            raise SolverError(f"PIQP found no point at {rho:g}")
        return min(knots, key=lambda knot: knot.gap)

    @cached_property
    def _structure(self) -> Structure | None:
        structure = find_structure(self.program, self._dense)
        return None if isinstance(structure, str) else structure

    def _by_structure(self, rho: float) -> Knot | None:
        """Return the knot of the structured interior-point method, which needs no polishing; None where it fails."""
        program = replace(self.program, q=self.linear(rho))
        structure = None if self._structure is None else renew(self._structure, program)
        point = None if structure is None else structured_solution(structure, warm=self._warm)
        if point is None or isinstance(point, str):
            return None
        self._warm = point.warm
        m = self.b.size
        dual = np.append(-point.z[:m], np.maximum(point.z[m:], 0.0))
        return self._knot(rho, point.x, dual, towards(self.program, point.x, point.inside))

    def limit(self, rho: float, near: Knot) -> Knot | None:
        """Return the knot at rho on the segment of another one, by its active rows; None where the linear system
        fails.
        """
        rows = np.flatnonzero(near.dual[self.b.size :] > 0.0)
        points = self._polish(rho, near.x, rho / near.value * near.dual, rows)
        return self._best(rho, points) if points else None

    def _best(self, rho: float, points: list[Point]) -> Knot:
        """Return the knot of the point that is nearest to optimal by a quick estimate."""
        return self._knot(rho, *min(points, key=lambda point: self._merit(rho, *point)))

    def _merit(self, rho: float, x: Array, dual: Array) -> float:
        lam, mu = dual[: self.b.size], dual[self.b.size :]
        slack = self.h - self.G @ x
        missing = self.P @ x + self.linear(rho) + self.A.T @ lam + self.G.T @ mu
        violated = float(np.abs(self.A @ x - self.b).sum() + np.maximum(-slack, 0.0).sum())
        lacking = float(np.linalg.norm(missing)) * (1.0 + float(np.linalg.norm(x)))
        merit = float(mu @ np.maximum(slack, 0.0)) + violated * (1.0 + float(np.abs(dual).max(initial=0.0))) + lacking
        return merit if np.isfinite(merit) else np.inf

    def _interior(self, rho: float, accuracy: float) -> tuple[Array, Array] | None:
        """Return the solver's point, None where it failed; one that only stalled is judged by its gap."""
        import piqp

        dense = self.q0.size * (self.h.size + self.b.size) < 2_000_000
        solver = piqp.DenseSolver() if dense else piqp.SparseSolver()
        settings = solver.settings
        settings.eps_abs, settings.eps_rel, settings.max_iter, settings.verbose = accuracy, accuracy, 100, False
        ready = (lambda M: M.toarray()) if dense else sp.csc_matrix
        solver.setup(ready(self.P), self.linear(rho), ready(self.A), self.b, ready(self.G), None, self.h, None, None)
        status = solver.solve()
        result = solver.result
        point = np.array(result.x), np.append(result.y, np.maximum(result.z_u, 0.0))
        usable = status in (piqp.PIQP_SOLVED, piqp.PIQP_MAX_ITER_REACHED) and np.isfinite(np.concatenate(point)).all()
        return point if usable else None

    def _polish(self, rho: float, x: Array, dual: Array, rows: IntegerArray) -> list[Point]:
        """Return the points computed between a guess of the active rows and the final ones."""
        points: list[Point] = []
        visited: set[bytes] = set()
        for _ in range(_ROUNDS):
            solved = self._on_rows(rho, x, dual, rows)
            if solved is None or rows.tobytes() in visited:
                break
            visited.add(rows.tobytes())
            point, lam, mu = solved
            multipliers = np.zeros(dual.size)
            multipliers[: self.b.size], multipliers[self.b.size + rows] = lam, np.maximum(mu, 0.0)
            points.append((point, multipliers))
            slack = self.h - self.G @ point
            rounding = 1e-13 * max(float(np.abs(point).max(initial=0.0)), 1.0)
            joining = np.setdiff1d(np.flatnonzero(slack < -rounding), rows)
            leaving = rows[mu < -1e-13 * max(float(np.abs(mu).max(initial=0.0)), 1e-300)]
            if not joining.size and not leaving.size:
                break
            rows = np.union1d(np.setdiff1d(rows, leaving), joining)
        return points

    def _on_rows(self, rho: float, x: Array, dual: Array, rows: IntegerArray) -> tuple[Array, Array, Array] | None:
        """x and the multipliers with the given rows as equalities; None where that system has no solution."""
        C, d = sp.vstack([self.A, self.G[rows]]).tocsc(), np.append(self.b, self.h[rows])
        n, m = x.size, d.size
        full = sp.bmat([[self.P, C.T], [C, None]], format="csc")
        regular = full + sp.diags(np.append(np.full(n, _REGULAR), np.full(m, -_REGULAR)), format="csc")
        right = np.append(-self.linear(rho), d)
        try:
            factor = splu(regular)
        except RuntimeError:  # singular all the same: the solver's point is kept
            return None
        start = np.append(x, dual[np.append(np.arange(self.b.size), self.b.size + rows)])
        for _ in range(_REFINEMENTS):
            start = start + factor.solve(right - full @ start)
        if not np.isfinite(start).all():
            return None
        return start[:n], start[n : n + self.b.size], start[n + self.b.size :]

    def _knot(self, rho: float, x: Array, dual: Array, step: Step | None = None) -> Knot:
        """Return the knot at a feasible point next to x, with its gap; where there is none, with an infinite gap."""
        feasible_point = self.feasible.near(x, step)
        return self.nothing(rho, x, dual) if isinstance(feasible_point, str) else self.at(rho, feasible_point, dual)

    def nothing(self, rho: float, x: Array, dual: Array) -> Knot:
        """Return the knot of a point that cannot be made feasible: it bounds nothing."""
        slack = np.maximum(self.h - self.G @ x, 0.0)
        return Knot(value=rho, x=x, dual=dual, slack=slack, gap=_NOTHING, allowance=_NOTHING, radius=np.zeros_like(x))

    def recall(self, rho: float, x: Array, dual: Array) -> Knot | None:
        """Return the knot of stored points, with all its bounds computed again; None where x is not certainly feasible
        or a multiplier is negative.
        """
        point = self.feasible.confirm(x)
        return None if point is None or dual[self.b.size :].min(initial=0.0) < 0.0 else self.at(rho, point, dual)

    def at(self, rho: float, point: FeasiblePoint, dual: Array) -> Knot:
        """Return the knot at a feasible point, with its gap."""
        m, sizes = self.b.size, self.program.sizes
        slack, rounding = self.program.slack(point.x)
        above = np.maximum(slack + rounding + sizes[1] @ point.radius, 0.0)[m:]
        r, error = self.program.slope(point.x, np.append(-dual[:m], dual[m:]), self.linear(rho))
        residual_radius = np.abs(r) + error + sizes[0] @ point.radius + self._rounding(rho)
        a, untied = self._ties.split(residual_radius, self.radius(point.x))
        allowance = float(untied @ self.radius(point.x)) + a * a / (2.0 * _YOUNG)
        gap = (1.0 + _YOUNG) * (float(dual[m:] @ above) + allowance)
        return Knot(
            value=rho,
            x=point.x,
            dual=dual,
            slack=above,
            gap=gap,
            allowance=(1.0 + _YOUNG) * allowance,
            radius=point.radius,
        )

    @cached_property
    def _ties(self) -> CoordinateBounds:
        return CoordinateBounds.of(self.program, _LARGEST)

    def _rounding(self, rho: float) -> Array:
        """Return the distance of the linear term from q0 + rho q1, with the rounding of rho / unit."""
        high, low = add(multiply(np.full_like(self.q1, rho / self.unit), self.q1), (self.q0, np.zeros_like(self.q0)))
        return np.abs((high - self.linear(rho)) + low)

    def radius(self, x: Array) -> Array:
        """Return the assumed largest distance of each coordinate of an optimum from x."""
        radius = np.zeros_like(x)
        for start, stop in pairwise(self._starts):
            radius[start:stop] = FAR * max(1.0, float(np.abs(x[start:stop]).max(initial=0.0)))
        return radius

    def cross(self, first: Knot, second: Knot) -> float:
        """Return the slacks of one knot times multipliers of the other, both ways.

        Along a chord an allowance shrinks like theta, not like its square; the remainder is part of the cross term.
        """
        m = self.b.size
        products = float(first.dual[m:] @ second.slack + second.dual[m:] @ first.slack)
        return (1.0 + _YOUNG) * products + first.allowance + second.allowance

    def distance(self, first: Array, second: Array) -> float:
        """Return half the squared distance in the norm of P."""
        step = first - second
        return 0.5 * float(step @ (self.P @ step))

    def tie(self, M: Array, x: Array) -> OutputBound | None:
        r"""Return a bound of :math:`\|M d\|` in terms of :math:`\|d\|_P`, near x; None where P does not determine M
        d.
        """
        condition = by_conditions(self.program, np.arange(self.q0.size), M, self.radius(x))
        return (
            condition
            if condition is not None and np.isfinite(condition.factor) and condition.remainder <= _UNTIED
            else None
        )

    def least_penalty(self) -> float | None:
        """Return the smallest penalty that the constraints allow, by a linear program; None where there is none."""
        return least(self.q1, self.A, self.b, self.G, self.h)
