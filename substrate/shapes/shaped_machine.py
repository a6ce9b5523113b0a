r"""Machines whose shape holds everywhere: the optimum of infinitely many constraints between two numbers.

.. math:: p^\star = \min_f J(f) \quad\text{s.t.}\quad (D f)(x) \ge c \quad\text{for all } x \text{ of a box,}

J with :math:`\tfrac{\tau}{2} w^T w`. Constraints at finitely many points, whose representers join the expansion, have
an optimum that is no larger; its dual value over all w is a lower bound :math:`p_m \le p^\star`
(:mod:`substrate.declare.accuracy`). The oracle (:mod:`substrate.shapes.shape_oracle`) proves
:math:`D f_m \ge c - \epsilon`; where it is smallest, there are the next points. The machine f with the constraints
:math:`D f \ge c + \delta` at the same points, with a margin :math:`\delta` a little larger than :math:`\epsilon`, is
proved to hold everywhere, so that its value v is at least :math:`p^\star`:

.. math:: p_m \le p^\star \le v , \qquad \tau \|w - w^\star\|^2 + \gamma \sum_i (f - f^\star)^2(x_i) \le 2 (v - p_m) ,

the latter where the objective has :math:`\tfrac{\gamma}{2} \sum_i e_i^2`, since J is strongly convex; without squared
errors w alone is bounded, and with it the values about their mean.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

from substrate.arrays import Array
from substrate.certificate import NO_BOUND, Certificate, Row
from substrate.declare.span import KernelExpansion
from substrate.errors import SolverError
from substrate.numbers import relative_rounding
from substrate.shapes.shape_oracle import BoundShape, ExpandedFunction, LowestValue, ShapeConstraint, ShapeReport

__all__ = ["BRACKET", "DISTANCE", "distance_row", "solve_shaped"]

#: Rounds of points, and new points of a round for each shape.
_ROUNDS, _NEW = 30, 24
#: Relative width of the bracket that ends the rounds, and the one that a certificate asks for.
_ENOUGH, BRACKET = 1e-5, 1e-4
#: Violations at points, in units of the shape's size, below which none are added.
_SMALL, _SMALLEST, _ROUGH = 1e-5, 1e-8, 1e-4
#: A margin in units of the violation that it makes up for, the least one in units of the shape's size, and how often
#: one is made larger.
_MORE, _LEAST, _MARGINS = 1.25, 1e-9, 4
#: Cells of the proof that a margin is derived from, and where the bracket is wide.
_CHEAP, _EXPENSIVE = 2000, 60_000
#: The row of a certificate with the bracket of the optimal value.
DISTANCE = "distance from the optimum over all functions"


@dataclass(frozen=True, slots=True, eq=False)
class ShapeMultipliers:
    """The multipliers of one shape: points, directions where it is of a Hessian, and numbers that are not negative."""

    points: Array
    directions: Array
    values: Array


@dataclass(slots=True, eq=False)
class _Cuts:
    """The points of one shape, with the direction of each where it is of a Hessian; the first are two in the box."""

    shape: ShapeConstraint
    points: Array
    directions: Array

    @classmethod
    def of(cls, shape: ShapeConstraint) -> "_Cuts":
        """Return those to begin with."""
        low, high = shape.box.T
        return cls(shape, np.vstack([0.75 * low + 0.25 * high, 0.25 * low + 0.75 * high]), np.ones((2, low.size)))

    def add(self, points: list[Array], bound: BoundShape) -> int:
        """Add points that are new; return how many."""
        hessian = bool(self.shape.hessian)  # another direction at the same point is another constraint
        near = 1e-9 * np.ptp(self.shape.box)
        new = [p for p in points if hessian or not (np.abs(self.points - p) <= near).all(axis=1).any()]
        if new:
            directions = [bound.direction(p) if hessian else np.ones(p.size) for p in new]
            self.points, self.directions = np.vstack([self.points, *new]), np.vstack([self.directions, *directions])
        return len(new)

    def constraint(self, margin: float) -> Any:
        """Return the shape at the points, with a margin."""
        c, points, directions, total = self.shape, self.points, self.directions, 0.0
        if c.hessian:
            s = c.terms[0].substrate
            for i, a in enumerate(c.hessian):
                for b in c.hessian[: i + 1]:
                    weights = (1.0 if a == b else 2.0) * directions[:, a] * directions[:, b]
                    orders = {a: 2} if a == b else {a: 1, b: 1}
                    total = total + cp.multiply(c.terms[0].factor * weights, s.derivative(points, orders))
            return total >= (c.bound + margin) * np.square(directions[:, list(c.hessian)]).sum(axis=1)
        for term in c.terms:
            s = term.substrate
            if term.part is not None:
                values = s.component(term.part, points)
            elif term.orders:
                values = s.derivative(points, dict(term.orders))
            else:
                values = s.f(points)
            total = total + term.factor * values
        return total >= c.bound + margin


class _Solved(NamedTuple):
    """A machine with constraints at points: its result, with norms that are rounded up, and its shapes as numbers."""

    machine: Any
    result: Any
    expansions: tuple[KernelExpansion, ...]
    shapes: list[BoundShape]
    variable_values: list[Any]
    multipliers: tuple[ShapeMultipliers, ...]


def solve_shaped(base: Any, solver: str | None, verbose: bool, time_limit: float | None) -> Any:
    """Solve the machine ``base`` with its shapes; the parameters have their values."""
    holders = [(s, list(s._holders)) for s in base.substrates]
    end = math.inf if time_limit is None else time.monotonic() + time_limit
    try:
        return _Loop(base, solver, verbose, end).run()
    finally:
        for s, before in holders:  # place-holders of the points are of no use to others
            s._holders[:] = before


class _Loop:
    def __init__(self, base: Any, solver: str | None, verbose: bool, end: float) -> None:
        self.base, self.solver, self.verbose, self.end = base, solver, verbose, end
        self.shapes: Sequence[ShapeConstraint] = base.shapes
        self.cuts = [_Cuts.of(shape) for shape in self.shapes]
        self.bounds = [shape.bound for shape in self.shapes]
        self.scales: list[float] = []
        self.small = _SMALL

    @property
    def seconds_left(self) -> float:
        """Seconds left."""
        return self.end - time.monotonic()

    def run(self) -> Any:
        """Solve, prove and solve with margins; with smaller violations until the bracket is narrow enough."""
        results, allowed = list[tuple[Any, list[Any]]](), _CHEAP
        for _ in range(_ROUNDS):
            solved = self._solve([0.0] * len(self.shapes))
            optimal = solved.machine.conic.optimal_value()
            proofs = [
                shape.proof(self._accepted(k), self.bounds[k], self.seconds_left, allowed)
                for k, shape in enumerate(solved.shapes)
            ]
            inside, inner_proofs, reason = self._solve_inside(solved, proofs)
            results.append((self._result(optimal, inside, inner_proofs, reason), inside.variable_values))
            best = max(results, key=lambda entry: _rank(entry[0]))[0]
            # a value that is large against the spread of f has a narrow bracket before f is known
            accepted = 0.5 * BRACKET if any(proof.stop for proof in proofs) else _ENOUGH
            is_near = -_rank(best)[1] <= accepted and best.certificate.rows[0].passes
            if is_near or inside is solved or self.seconds_left <= 0.0:
                break
            allowed = _CHEAP if -_rank(best)[1] <= BRACKET else _EXPENSIVE
            # what the oracle found and the grids did not
            counts = [
                self.cuts[k].add([proof.point], solved.shapes[k])
                for k, proof in enumerate(proofs)
                if self.bounds[k] - proof.value > self._accepted(k)
            ]
            if not sum(counts) and self.small <= _SMALLEST:
                break
            self.small = max(0.2 * self.small, _SMALLEST)
        best, values = max(results, key=lambda entry: _rank(entry[0]))
        self.base.value_at(best.expansions, values)
        return best

    def _accepted(self, k: int) -> float:
        order = min((group.order for group in self.shapes[k].groups), default=2)
        return max(self.small, _ROUGH if order < 2 else 0.0) * self.scales[k]

    def _solve(self, margins: list[float]) -> _Solved:
        """Solve with margins at the points; add points until no grid finds a violation, or a half of the margin."""
        for _ in range(_ROUNDS):
            constraints = [cuts.constraint(margin) for cuts, margin in zip(self.cuts, margins, strict=True)]
            machine = self.base.with_cuts(constraints)
            limit = None if self.end == math.inf else max(self.seconds_left, 0.1)
            result = machine.solve(self.solver, verbose=self.verbose, time_limit=limit, certify=False)
            functions = [ExpandedFunction.of(expansion) for expansion in result.expansions]
            duals = [np.maximum(np.atleast_1d(np.asarray(c.dual_value, float)), 0.0) for c in constraints]
            solved = _Solved(
                machine=machine,
                result=result,
                expansions=tuple(
                    replace(expansion, squared_norm=f.squared_norm())
                    for expansion, f in zip(result.expansions, functions, strict=True)
                ),
                shapes=[shape.bind(functions) for shape in self.shapes],
                variable_values=[np.array(v.value, dtype=np.float64) for v in self.base.own_variables()],
                multipliers=tuple(
                    ShapeMultipliers(cuts.points, cuts.directions, values)
                    for cuts, values in zip(self.cuts, duals, strict=True)
                ),
            )
            self.scales = self.scales or [shape.scale() for shape in solved.shapes]
            added = 0
            for k, shape in enumerate(solved.shapes):
                below = self.bounds[k] + (0.5 * margins[k] if margins[k] else -self._accepted(k))
                added += self.cuts[k].add(shape.minimisers(below, _NEW), shape)
            if not added or self.seconds_left <= 0.0:
                break
        return solved

    def _solve_inside(self, solved: _Solved, proofs: list[LowestValue]) -> tuple[_Solved, list[LowestValue], str]:
        """Return a machine with margins that make up for the violations, proved; the given one if no margins do."""
        margins, last, reason = [0.0] * len(proofs), proofs, "; ".join(sorted({p.stop for p in proofs if p.stop}))
        for _ in range(_MARGINS):
            violations = [bound - proof.lower for bound, proof in zip(self.bounds, last, strict=True)]
            if max(violations) <= 0.0:
                break
            margins = [
                max(margin, _MORE * (margin + violation) + _LEAST * scale) if violation > 0.0 else margin
                for margin, violation, scale in zip(margins, violations, self.scales, strict=True)
            ]
            try:
                inside = self._solve(margins)
            except SolverError as error:
                return solved, proofs, f"with a margin of {max(margins):.1e} at the points: {error}"
            last = [
                shape.proof(0.1 * (margin or self._accepted(k)), self.bounds[k], self.seconds_left)
                for k, (shape, margin) in enumerate(zip(inside.shapes, margins, strict=True))
            ]
            if all(proof.lower >= bound for bound, proof in zip(self.bounds, last, strict=True)):
                return inside, last, reason
            reason = f"a margin of {max(margins):.1e} at the points is not enough"
        return solved, proofs, reason

    def _result(self, optimal: Any, solved: _Solved, proofs: list[LowestValue], reason: str) -> Any:
        """Return a machine with its value, what was proved of its shapes, and what is known of the optimal value."""
        value, certificate = self.base.value_at(solved.expansions, solved.variable_values), solved.result.certificate
        lower = -math.inf if isinstance(optimal, str) else optimal.lower
        excess = max(value - lower, 0.0) + relative_rounding(1e4) * abs(value)
        reports = tuple(map(ShapeReport.of, self.shapes, proofs, self.scales))
        about = ", of the basis" if any(s.basis is not None for s in self.base.substrates) else ""
        distance = distance_row(excess if math.isfinite(lower) else math.inf, lower, value, abs(value), about)
        answer = [] if isinstance(optimal, str) else [optimal.accuracy(excess, math.sqrt(2.0 * BRACKET))]
        further_rows = (row for row in certificate.rows if row.name != "accuracy")
        facts = [fact for fact in certificate.record if fact[0] != NO_BOUND]
        if isinstance(optimal, str):
            facts.append((NO_BOUND, optimal))
        facts.append(("box of the shapes", "; ".join(f"{r.description} on {_words(r.box)}" for r in reports)))
        counts = ", ".join(str(np.count_nonzero(each.values)) for each in solved.multipliers)
        facts.append(("points of the shapes", f"{counts} carry the constraints of the machine"))
        if reason:
            facts.append(("no machine that holds everywhere", reason))
        rows = (*answer, *(report.row() for report in reports), distance, *further_rows)
        return replace(
            solved.result,
            outputs=self.base.outputs,
            objective=value,
            expansions=solved.expansions,
            certificate=Certificate("Machine", rows, tuple(facts)),
            lower_bound=lower,
            shapes=reports,
            multipliers=solved.multipliers,
        )


def _rank(result: Any) -> tuple[bool, float]:
    """Return whether every shape holds everywhere, and the relative width of the bracket, negated."""
    value, holds = result.objective, all(report.slack >= 0.0 for report in result.shapes)
    return holds, -(value - result.lower_bound) / abs(value) if value else -math.inf


def distance_row(excess: float, lower: float, value: float, scale: float, about: str = "") -> Row:
    """Return the row of a bracket of the optimal value."""
    formula = f"v - p: {lower:.8g} <= optimal value <= {value:.8g}{about}"
    return Row(name=DISTANCE, value=excess, scale=scale, tolerance=BRACKET, formula=formula)


def _words(box: Array) -> str:
    return " x ".join(f"[{low:g}, {high:g}]" for low, high in box)
