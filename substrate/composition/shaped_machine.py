r"""Machines whose shape holds everywhere: the optimum of infinitely many constraints between two numbers.

.. math:: p^\star = \min_f J(f) \quad\text{s.t.}\quad (D f)(x) \ge c \quad\text{for all } x \text{ of a box,}

J with :math:`\tfrac{\tau}{2} w^T w`. Constraints at finitely many points, whose representers join the expansion, have
an optimum that is no larger; its dual value over all w is a lower bound :math:`p_m \le p^\star`
(:mod:`substrate.composition.accuracy`). The oracle (:mod:`substrate.composition.shape_oracle`) proves
:math:`D f_m \ge c - \epsilon`; where it is smallest, there are the next points. A machine g with
:math:`D g \ge c + \delta` everywhere, by a margin at the points, makes

.. math:: f = (1 - t) f_m + t g , \qquad D f \ge c - (1 - t) \epsilon + t \delta ,

which holds everywhere for :math:`t \ge \epsilon / (\epsilon + \delta)`; its value v is at least :math:`p^\star`. So

.. math:: p_m \le p^\star \le v , \qquad \tau \|w - w^\star\|^2 + \gamma \sum_i (f - f^\star)^2(x_i) \le 2 (v - p_m) ,

the latter where the objective has :math:`\tfrac{\gamma}{2} \sum_i e_i^2`, since J is strongly convex; without squared
errors w alone is bounded, and with it the values about their mean.
"""

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array, real_points
from substrate.certificates import NO_BOUND, Certificate, Row
from substrate.certificates.rounding import relative_rounding
from substrate.certificates.rows import Accuracy
from substrate.composition.accuracy import OptimalValue
from substrate.composition.derivative_bounds import bound_derivative
from substrate.composition.everywhere import ShapeConstraint
from substrate.composition.expanded_function import (
    ExpandedFunction,
    ExpansionTerm,
    merge_terms,
    square_rounding,
)
from substrate.composition.reading import Reading, inner_products
from substrate.composition.result import Further, KernelExpansion, Result
from substrate.composition.shape_oracle import BoundShape, LowestValue, ShapePlan
from substrate.errors import SolverError

__all__ = [
    "BRACKET",
    "ShapeMultipliers",
    "ShapeReport",
    "ShapedResult",
    "Shapes",
    "expanded_function",
]

#: Rounds of points, and new points of a round for each shape.
_ROUNDS, _NEW = 30, 24
#: Relative width of the bracket that ends the rounds, and the one that a certificate asks for.
_ENOUGH, BRACKET = 1e-5, 1e-4
#: Violations at points, in units of the shape's size, below which none are added.
_SMALL, _SMALLEST, _ROUGH = 1e-5, 1e-8, 1e-3
#: Share of the largest multiplier below which one is none.
_INACTIVE = 1e-9
#: Margins of a strictly feasible machine, in units of the shape's size, and how often one is made smaller.
_MARGIN, _SHRINK, _RAISE, _MARGINS = 0.05, 0.2, 4.0, 5
#: Share of the value that is spent on a slack beyond what feasibility needs, and that of what the accuracy allows.
_SPENT, _SPENT_ROUGH, _SPENT_OF_ACCURACY = 1e-6, 2e-5, 0.25
#: Rounds in which a strictly feasible machine is given further points.
_MARGIN_ROUNDS = 8
#: The first gap of a proof, in units of the shape's size, and cells up to which a smaller one is asked for.
_FIRST_GAP, _CHEAP, _EXPENSIVE = 1e-4, 4000, 60_000
_FACT = "box of the shapes"


@dataclass(frozen=True, slots=True)
class ShapeReport:
    """What was proved of one shape: its words, its bound c, the slack with D f >= c + slack everywhere, and the box."""

    description: str
    bound: float
    slack: float
    box: Array
    cells: int
    scale: float


@dataclass(frozen=True)
class ShapedResult(Result):
    """The solution of a machine whose shape holds everywhere.

    ``objective`` is the value v of the returned machine, and ``lower_bound`` is at most the optimal value of the
    problem with all points of the box. ``shapes`` says what was proved of each shape; ``points`` are those at which
    the constraints were imposed, and ``multipliers`` those of the shapes there.
    """

    lower_bound: float = -math.inf
    shapes: tuple[ShapeReport, ...] = ()
    points: tuple[Array, ...] = ()
    multipliers: tuple["ShapeMultipliers", ...] = ()
    _told: list[bool] = field(default_factory=list, compare=False, repr=False)

    def predict(self, X: Any) -> Any:
        """The machine's values at the rows of X; a warning where a row is outside the box, once."""
        warn_outside([shape.box for shape in self.shapes], X, self._told)
        return super().predict(X)


def warn_outside(boxes: Sequence[Array], X: Any, told: list[bool]) -> None:
    """Warn once where a row is outside a box in which a shape was proved."""
    if told or not boxes:
        return
    rows = real_points(X)
    rows = rows.toarray() if hasattr(rows, "toarray") else rows
    if any(((rows < box[:, 0]) | (rows > box[:, 1])).any() for box in boxes if box.shape[0] == rows.shape[1]):
        told.append(True)
        warnings.warn(
            "some rows are outside the box in which the shape holds; nothing is promised there. Give a wider box, "
            "Everywhere(box), to have it there too",
            UserWarning,
            stacklevel=3,
        )


def expanded_function(expansion: KernelExpansion) -> ExpandedFunction:
    """Return one substrate's part of a solution as numbers for the oracle."""
    s = expansion.substrate
    points = s.X if s.basis is None else s.basis
    first = ExpansionTerm(_dense(points), np.asarray(expansion.coefficients, dtype=np.float64))
    further = [ExpansionTerm(_dense(f.points), f.coefficients, f.part, f.operator) for f in expansion.further]
    return ExpandedFunction(s, (first, *further), float(np.asarray(expansion.b)))


def _dense(points: Any) -> Array:
    return np.asarray(points.toarray() if hasattr(points, "toarray") else points, dtype=np.float64)


@dataclass(slots=True, eq=False)
class _Cuts:
    """The points of one shape, with the direction of each where it is of a Hessian."""

    plan: ShapePlan
    points: Array
    directions: Array

    def add(self, points: list[Array], shape: BoundShape) -> int:
        """Add points that are new; return how many."""
        new = [p for p in points if not (np.abs(self.points - p) <= 1e-9 * np.ptp(self.plan.box)).all(axis=1).any()]
        if self.plan.constraint.hessian:
            new = points  # another direction at the same point is another constraint
            if new:
                self.directions = np.vstack([self.directions, *(shape.direction(p)[None, :] for p in new)])
        if new:
            self.points = np.vstack([self.points, *(p[None, :] for p in new)])
        return len(new)

    def keep(self, which: NDArray[np.intp]) -> None:
        """Keep some of the points."""
        self.points = self.points[which]
        if self.directions.size:
            self.directions = self.directions[which]

    def placed(self) -> tuple[Array, Array]:
        """The points and directions that the machine is given."""
        if len(self.points) != 1:
            return self.points, self.directions
        # a single value is no vector, of which the check knows how it enters
        return np.vstack([self.points, self.plan.box.mean(axis=1)]), np.repeat(self.directions, 2, axis=0)

    def constraint(self, margin: float) -> Any:
        """The shape at the points, with a margin."""
        c, (points, directions) = self.plan.constraint, self.placed()
        if c.hessian:
            s, total = c.terms[0].substrate, 0.0
            for i, a in enumerate(c.hessian):
                for b in c.hessian[: i + 1]:
                    weights = (1.0 if a == b else 2.0) * directions[:, a] * directions[:, b]
                    orders = {a: 2} if a == b else {a: 1, b: 1}
                    total = total + cp.multiply(c.terms[0].factor * weights, s.derivative(points, orders))
            lengths = np.square(directions[:, list(c.hessian)]).sum(axis=1)
            return total >= (c.bound + margin) * lengths
        total = 0.0
        for term in c.terms:
            s = term.substrate
            if term.part is not None:
                values = s.component(term.part, points)
            elif term.orders:
                values = s.apply(term.operator, points)
            else:
                values = s.f(points)
            total = total + term.factor * values
        return total >= c.bound + margin


@dataclass(frozen=True, slots=True, eq=False)
class ShapeMultipliers:
    """The multipliers of one shape: points, directions where it is of a Hessian, and numbers that are not negative."""

    points: Array
    directions: Array
    values: Array

    def mix(self, other: "ShapeMultipliers", share: float) -> "ShapeMultipliers":
        """Return those of a mixture."""
        given = [directions for directions in (self.directions, other.directions) if directions.size]
        return ShapeMultipliers(
            np.vstack([self.points, other.points]),
            np.vstack(given) if given else self.directions,
            np.concatenate([(1.0 - share) * self.values, share * other.values]),
        )


@dataclass(slots=True, eq=False)
class _Solved:
    """A machine with constraints at points: its functions and the values of variables of the user's own."""

    result: Any
    functions: list[ExpandedFunction]
    own: list[Any]
    optimal: OptimalValue | str
    multipliers: list["ShapeMultipliers"]


@dataclass(frozen=True, slots=True)
class _Failed:
    """Why there is no strictly feasible machine at a margin: it is infeasible, or not proved."""

    reason: str
    infeasible: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Mixture:
    """A machine, what was proved of its shapes, its value and the lower bound."""

    solved: _Solved
    expansions: tuple[KernelExpansion, ...]
    own: list[Any]
    value: float
    lower: float
    reports: tuple[ShapeReport, ...]
    reason: str
    points: tuple[Array, ...]
    multipliers: tuple[ShapeMultipliers, ...]

    @property
    def holds(self) -> bool:
        """Whether every shape holds everywhere."""
        return all(report.slack >= 0.0 for report in self.reports)

    @property
    def width(self) -> float:
        """The relative width of the bracket."""
        return (self.value - self.lower) / abs(self.value) if self.value else math.inf

    @property
    def excess(self) -> float:
        """A bound on how far its value is above the optimal one, with rounding."""
        return max(self.value - self.lower, 0.0) + relative_rounding(1e4) * abs(self.value)

    @property
    def accuracy(self) -> Accuracy | None:
        """The row of the fitted values, None where no optimal value is known."""
        optimal = self.solved.optimal
        return None if isinstance(optimal, str) else optimal.accuracy(self.excess, math.sqrt(2.0 * BRACKET))

    def is_better(self, other: "_Mixture") -> bool:
        """Whether it holds where the other does not, or is bracketed more narrowly."""
        return (self.holds, -self.width) > (other.holds, -other.width)


class Shapes:
    """The shapes of one machine, and how it is solved with them.

    Parameters
    ----------
    constraints
        The constraints that hold everywhere.
    build
        Makes the machine with further constraints.
    """

    def __init__(self, constraints: Sequence[ShapeConstraint], build: Callable[[list[Any]], Any]) -> None:
        self.plans = [ShapePlan.of(constraint) for constraint in constraints]
        self._build = build

    def solve(
        self,
        base: Any,
        solver: str | None = None,
        verbose: bool = False,
        time_limit: float | None = None,
    ) -> ShapedResult:
        """Solve the machine ``base`` with its shapes; the parameters have their values."""
        holders = [(s, list(s._holders)) for s in base.substrates]
        clock = _Clock(time_limit)
        try:
            return _Loop(self, base, solver, verbose, clock).run()
        finally:
            for s, before in holders:  # those of the points are of no use to others
                s._holders[:] = before


class _Clock:
    def __init__(self, limit: float | None) -> None:
        self._end = math.inf if limit is None else time.monotonic() + limit

    @property
    def left(self) -> float:
        """Seconds left."""
        return self._end - time.monotonic()

    def for_solver(self) -> float | None:
        """The limit for a solver, None for none."""
        return None if self._end == math.inf else max(self.left, 0.1)


class _Loop:
    def __init__(
        self,
        shapes: Shapes,
        base: Any,
        solver: str | None,
        verbose: bool,
        clock: _Clock,
    ) -> None:
        self.shapes, self.base, self.clock = shapes, base, clock
        self.solver, self.verbose = solver, verbose
        d = [plan.box.shape[0] for plan in shapes.plans]
        self.cuts = [
            _Cuts(plan, np.zeros((0, k)), np.zeros((0, k if plan.constraint.hessian else 0)))
            for plan, k in zip(shapes.plans, d, strict=True)
        ]
        self.scales = [0.0] * len(d)
        self.small, self.cells_allowed = _SMALL, _CHEAP

    def run(self) -> ShapedResult:
        """Solve, prove and mix; with smaller violations until the bracket is narrow enough, or cells too many."""
        feasible: tuple[_Solved, list[float]] | str | None = None
        found = None
        for _ in range(_ROUNDS):
            solved = self._rounds()
            bound = self._bind(solved)
            proofs = [self._prove(k, shape, self._accepted(k)) for k, shape in enumerate(bound)]
            violations = [max(self._violation(k, proof.lower), 0.0) for k, proof in enumerate(proofs)]
            is_violated = any(v > 0.0 for v in violations)
            if is_violated and feasible is None:
                feasible = self._strictly_feasible([v > 0.0 for v in violations])
            latest = self._mix(solved, proofs, feasible)
            found = latest if found is None or latest.is_better(found) else found
            cells = max((p.cells for p in proofs), default=0)
            accepted = 0.5 * BRACKET if cells > _CHEAP else _ENOUGH
            # a value that is large beside the spread of f has a narrow bracket before f is known
            is_near = found.width <= accepted and (found.accuracy is None or found.accuracy.passes)
            if is_near or not is_violated or isinstance(feasible, str) or self.clock.left <= 0.0:
                break
            self.cells_allowed = _CHEAP if found.width <= 10.0 * BRACKET else _EXPENSIVE
            # what the oracle found and the grids did not
            new = sum(
                self.cuts[k].add([p.point], bound[k])
                for k, p in enumerate(proofs)
                if self._violation(k, p.found) > self._accepted(k)
            )
            if any(p.stop for p in proofs) or (not new and self.small <= _SMALLEST):
                break
            self.small = max(0.2 * self.small, _SMALLEST)
        assert found is not None
        return self._finish(found)

    def _accepted(self, k: int) -> float:
        order = min((group.order for group in self.shapes.plans[k].groups), default=2)
        return max(self.small, {0: _ROUGH, 1: 0.1 * _ROUGH}.get(order, 0.0)) * self.scales[k]

    def _violation(self, k: int, value: float) -> float:
        return self.shapes.plans[k].constraint.bound - value

    def _rounds(self) -> _Solved:
        """Add points until no grid finds a violation."""
        solved = self._solve([0.0] * len(self.cuts))
        for _ in range(_ROUNDS):
            added = 0
            for k, shape in enumerate(self._bind(solved)):
                c = shape.plan.constraint
                points = shape.minimisers(c.bound - self._accepted(k), _NEW)
                added += self.cuts[k].add(points, shape)
            if not added or self.clock.left <= 0.0:
                break
            self._drop(solved)
            solved = self._solve([0.0] * len(self.cuts))
        return solved

    def _drop(self, solved: _Solved) -> None:
        """Leave out points of earlier rounds whose multipliers were zero, where there are many."""
        for cuts, carried in zip(self.cuts, solved.multipliers, strict=True):
            multipliers, old = carried.values, carried.values.size
            if old > 4 * _NEW:
                inactive = multipliers <= _INACTIVE * max(float(multipliers.max(initial=0.0)), 1e-300)
                keep = np.ones(cuts.points.shape[0], dtype=bool)
                keep[:old] = ~inactive
                cuts.keep(np.flatnonzero(keep))

    def _bind(self, solved: _Solved) -> list[BoundShape]:
        bound = [plan.bind(solved.functions) for plan in self.shapes.plans]
        for k, shape in enumerate(bound):
            if self.scales[k] == 0.0:
                targets = [shape.target(j) for j in range(len(shape.groups))]
                c, values = shape.plan.constraint, [target.values(target.grid(9)) for target in targets]
                # the level of a value says nothing about its size, that of a slope does
                level = [np.zeros(0 if any(term.has_bias for term in c.terms) and values else 1)]
                spread = float(np.ptp(np.concatenate([*level, *values])))
                self.scales[k] = max(spread, 1e-9 * abs(c.bound)) or 1.0
        return bound

    def _solve(self, margins: list[float]) -> _Solved:
        """Return the machine with constraints at the points, solved."""
        pairs = zip(self.cuts, margins, strict=True)
        constraints = [cuts.constraint(margin) if cuts.points.size else None for cuts, margin in pairs]
        machine = self.shapes._build([c for c in constraints if c is not None])
        result = machine.solve(self.solver, verbose=self.verbose, time_limit=self.clock.for_solver())
        multipliers = []
        for cuts, c in zip(self.cuts, constraints, strict=True):
            points, directions = cuts.placed()
            values = np.zeros(0) if c is None else np.maximum(np.atleast_1d(np.asarray(c.dual_value, float)), 0.0)
            along = directions if len(directions) == len(points) else np.zeros_like(points)
            multipliers.append(ShapeMultipliers(points[: values.size], along[: values.size], values))
        own = [np.array(v.value, dtype=np.float64) for v in self._own_variables()]
        return _Solved(
            result=result,
            functions=[expanded_function(e) for e in result.expansions],
            own=own,
            optimal=machine.optimal_value(),
            multipliers=multipliers,
        )

    def _own_variables(self) -> list[Any]:
        return list(self.base.own_variables())

    def _prove(self, k: int, shape: BoundShape, gap: float) -> LowestValue:
        """A bound within ``gap`` of the smallest value, or within more where that takes too many cells."""
        level, wide = self.shapes.plans[k].constraint.bound, max(gap, _FIRST_GAP * self.scales[k])
        proof = shape.proof(wide, level, self.clock.left)
        cells = proof.cells
        while wide > gap and proof.lower < level and proof.cells < self.cells_allowed and self.clock.left > 0.0:
            wide = max(gap, 0.1 * wide)
            proof = shape.proof(wide, level, self.clock.left)
            cells += proof.cells
        return replace(proof, cells=cells)

    def _strictly_feasible(self, needed: list[bool]) -> tuple[_Solved, list[float]] | str:
        """A machine with D g >= c + delta proved everywhere, and delta of every shape; or why there is none.

        A margin that the oracle cannot prove is raised; one that no machine has is made smaller.
        """
        share, reason = _MARGIN, "no margin was tried"
        factor = 0.0
        for _ in range(_MARGINS):
            parts = [share if need else 0.1 * share for need in needed]
            found = self._with_margins([part * scale for part, scale in zip(parts, self.scales, strict=True)])
            if not isinstance(found, _Failed):
                return found
            reason = found.reason
            step = _SHRINK if found.infeasible else _RAISE
            if factor and step != factor:  # a smaller one is not proved, a larger one not possible
                break
            factor = step
            share *= step
        return reason

    def _with_margins(self, margins: list[float]) -> "tuple[_Solved, list[float]] | _Failed":
        kept = [(cuts.points, cuts.directions) for cuts in self.cuts]
        try:
            for _ in range(_MARGIN_ROUNDS):
                try:
                    solved = self._solve(margins)
                except SolverError as error:
                    return _Failed(f"with a margin of {max(margins):.1e} at the points: {error}", True)
                added = 0
                for k, shape in enumerate(self._bind(solved)):
                    c = shape.plan.constraint
                    added += self.cuts[k].add(shape.minimisers(c.bound + 0.5 * margins[k], _NEW), shape)
                if not added:
                    break
            bound = self._bind(solved)
            proofs = [
                shape.proof(0.1 * margin, c.bound + 0.5 * margin, self.clock.left)
                for shape, margin, c in zip(bound, margins, (p.constraint for p in self.shapes.plans), strict=True)
            ]
            deltas = [-self._violation(k, proof.lower) for k, proof in enumerate(proofs)]
            if min(deltas) <= 0.0:
                reason = f"a margin of {max(margins):.1e} at the points leaves {min(deltas):.1e} everywhere"
                return _Failed(reason, False)
            return solved, deltas
        finally:
            for cuts, (points, directions) in zip(self.cuts, kept, strict=True):
                cuts.points, cuts.directions = points, directions

    def _mix(
        self, solved: _Solved, proofs: list[LowestValue], feasible: tuple[_Solved, list[float]] | str | None
    ) -> "_Mixture":
        """The machine that holds everywhere, where there is one, and its value."""
        violations = [max(self._violation(k, proof.lower), 0.0) for k, proof in enumerate(proofs)]
        lower = -math.inf if isinstance(solved.optimal, str) else solved.optimal.lower
        slacks = [-self._violation(k, proof.lower) for k, proof in enumerate(proofs)]
        functions, own, multipliers = solved.functions, solved.own, solved.multipliers
        reason = feasible if isinstance(feasible, str) and any(v > 0.0 for v in violations) else ""
        if any(v > 0.0 for v in violations) and feasible is not None and not isinstance(feasible, str):
            other, deltas = feasible
            share = self._share(solved, other, violations, deltas)
            functions = [f.mix(g, share) for f, g in zip(solved.functions, other.functions, strict=True)]
            own = [(1.0 - share) * a + share * b for a, b in zip(solved.own, other.own, strict=True)]
            pairs = zip(solved.multipliers, other.multipliers, strict=True)
            multipliers = [first.mix(second, share) for first, second in pairs]
            slacks = [
                self._mixed_slack(k, functions, proof.lower, delta, share)
                for k, (proof, delta) in enumerate(zip(proofs, deltas, strict=True))
            ]
        expansions = tuple(
            expansion_of(e.substrate, f, len(e.further) + 1)
            for e, f in zip(solved.result.expansions, functions, strict=True)
        )
        value = self.base.value_at(expansions, own)
        reports = tuple(
            ShapeReport(
                description=plan.constraint.description,
                bound=plan.constraint.bound,
                slack=slack,
                box=plan.box,
                cells=proof.cells,
                scale=scale,
            )
            for plan, slack, proof, scale in zip(self.shapes.plans, slacks, proofs, self.scales, strict=True)
        )
        reason = reason or "; ".join(sorted({p.stop for p in proofs if p.stop}))
        points = tuple(cuts.points for cuts in self.cuts)
        return _Mixture(
            solved=solved,
            expansions=expansions,
            own=own,
            value=value,
            lower=lower,
            reports=reports,
            reason=reason,
            points=points,
            multipliers=tuple(multipliers),
        )

    def _finish(self, found: "_Mixture") -> ShapedResult:
        value = self.base.value_at(found.expansions, found.own)
        return ShapedResult(
            objective=value,
            parameters=found.solved.result.parameters,
            expansions=found.expansions,
            certificate=self._certificate(found),
            solver_record=found.solved.result.solver_record,
            outputs=self.base.outputs,
            lower_bound=found.lower,
            shapes=found.reports,
            points=found.points,
            multipliers=found.multipliers,
        )

    def _share(self, solved: _Solved, other: _Solved, violations: list[float], deltas: list[float]) -> float:
        """t: what feasibility needs, with rounding, and what a millionth of the value and the accuracy allow beyond."""
        needed = 0.0
        for violation, delta, scale in zip(violations, deltas, self.scales, strict=True):
            wanted = 1.1 * violation + 1e-9 * scale
            needed = max(needed, wanted / (wanted + delta))
        rise = other.result.objective - solved.result.objective
        rough = any(group.order < 2 for plan in self.shapes.plans for group in plan.groups)
        spent = (_SPENT_ROUGH if rough else _SPENT) * abs(solved.result.objective)
        if not isinstance(solved.optimal, str):
            row = solved.optimal.accuracy(spent, math.sqrt(2.0 * BRACKET))  # as the root of what is spent
            spent *= min(_SPENT_OF_ACCURACY * (row.tolerance / row.relative) ** 2, 1.0) if row.relative > 0.0 else 1.0
        spare = spent / rise if rise > 0.0 else needed
        return min(max(needed, min(spare, 0.01)), 1.0)

    def _mixed_slack(
        self, k: int, functions: list[ExpandedFunction], lower: float, delta: float, share: float
    ) -> float:
        """The slack of the mixture: that of both parts, less the rounding of its coefficients."""
        c = self.shapes.plans[k].constraint
        slack = (1.0 - share) * min(lower - c.bound, delta) + share * delta
        lost = relative_rounding(8.0) * (abs(lower) + abs(c.bound) + delta)
        box = self.shapes.plans[k].box[None, :, :]
        shape = self.shapes.plans[k].bind(functions)
        for pieces in shape.groups:
            for piece in pieces:
                orders = [piece.piece.orders]
                if c.hessian:
                    orders = [{a: 2} for a in c.hessian if a in piece.piece.summand.columns]
                for own in orders:
                    length = bound_derivative(piece.piece.summand.kernel, own, box[..., 0], box[..., 1])
                    size = piece.sizes * abs(piece.piece.factor) * float(length[0])
                    lost += relative_rounding(8.0) * size * len(orders)
        lost += relative_rounding(8.0) * (abs(shape.constant) + shape.constant_radius)
        return slack - lost

    def _certificate(self, found: "_Mixture") -> Certificate:
        solved, value, lower, reports, reason = found.solved, found.value, found.lower, found.reports, found.reason
        rows: list[Row] = []
        facts = [fact for fact in solved.result.certificate.record if fact[0] != NO_BOUND]
        if isinstance(solved.optimal, str):
            facts.append((NO_BOUND, solved.optimal))
        if found.accuracy is not None:
            rows.append(found.accuracy)
        for report in reports:
            rows.append(
                Row(
                    name=f"holds everywhere: {report.description}",
                    value=max(-report.slack, 0.0) if math.isfinite(report.slack) else math.inf,
                    scale=report.scale,
                    tolerance=0.0,
                    formula=f"violation, proved over the box; slack {report.slack:.1e}, {report.cells} cells",
                )
            )
        about = ", of the basis" if any(s.basis is not None for s in self.base.substrates) else ""
        rows.append(
            Row(
                name="distance from the optimum over all functions",
                value=found.excess if math.isfinite(lower) else math.inf,
                scale=abs(value),
                tolerance=BRACKET,
                formula=f"v - p: {lower:.8g} <= optimal value <= {value:.8g}{about}",
            )
        )
        skipped = {"accuracy"}
        rows += [row for row in solved.result.certificate.rows if row.name not in skipped]
        facts += [(_FACT, "; ".join(f"{r.description} on {_words(r.box)}" for r in reports))]
        counts = ", ".join(str(len(points)) for points in found.points)
        facts.append(("points of the shapes", f"{counts} carry the constraints of the lower bound"))
        if reason:
            facts.append(("no machine that holds everywhere", reason))
        return Certificate("Machine", tuple(rows), tuple(facts))


def _words(box: Array) -> str:
    return " x ".join(f"[{low:g}, {high:g}]" for low, high in box)


def expansion_of(s: Any, function: ExpandedFunction, count: int = 1) -> KernelExpansion:
    """Return a function as a solution has it, the terms at the same readings added up.

    From term ``count`` on, those at the rows of the first are coefficients of these.
    """
    first, *terms = function.terms
    a = first.coefficients.copy()
    further: list[ExpansionTerm] = []
    for number, term in enumerate(terms, start=1):
        plain = number >= count and term.part is None and term.operator is None
        if plain and np.array_equal(term.points, first.points):
            a = a + term.coefficients
        else:
            further.append(term)
    merged = merge_terms(further)
    kept = tuple(Further(t.points, t.coefficients, t.part, t.operator) for t in merged)
    f = inner_products(s, Reading(), Reading(s.basis)) @ a if s.basis is not None else s.gram.product(a)
    readings = [(Reading(t.points, t.part, t.operator), t.coefficients) for t in merged]
    for reading, coefficients in readings:
        f = f + inner_products(s, Reading(), reading) @ coefficients
    values = f + function.bias
    own = (Reading(None if s.basis is None else s.basis), a)
    square = 0.0
    parts = [own, *readings]
    for i, (left, c) in enumerate(parts):
        for j, (right, other) in enumerate(parts[: i + 1]):
            square += (1.0 if i == j else 2.0) * float(c @ (inner_products(s, left, right) @ other))
    variation = []
    for part in range(len(s.components)):
        of_part = sum(inner_products(s, Reading(part=part), reading) @ c for reading, c in parts)
        variation.append(float(np.abs(of_part).max()))
    e = s.errors_of(values)
    return KernelExpansion(
        substrate=s,
        alpha=s.signs * a,
        b=function.bias,
        e=e,
        f=values,
        squared_norm=max(square, 0.0) + square_rounding(s.kernel, function.terms),
        maximal_variation=np.array(variation),
        further=kept,
    )
