r"""How far the fitted values of a machine can be from those of the exact optimum.

The check starts from the solver's point in standard form. For a quadratic program it is made exact by its active rows;
then it is moved to a feasible point :math:`\tilde x`, and multipliers bound the distance of that one from the optimum
in the norm of the quadratic term (:mod:`substrate.composition.nearness`), which determines the fitted values
(:mod:`substrate.composition.determined`). The present values of the machine are compared with it:

.. math:: \|f - f^\star\| \le \|f - \tilde f\| + \|\tilde f - f^\star\| ,

the first term as it is measured, the second as it is proved. A squared loss determines the fitted values;
:math:`w^T w`, or another square, determines them about their mean. The optimum is that over all w, with what the
coordinates leave out and with the rounding of the kernel (:mod:`substrate.composition.whole_space`); where that is not
known, there is no bound on the answer, and the same check is a row on the problem that was solved.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates import NO_BOUND, Row
from substrate.certificates.rounding import relative_rounding
from substrate.certificates.rows import (
    UNPOLISHED,
    Accuracy,
    accuracy_of_outputs,
    accuracy_row,
    root_mean_square,
)
from substrate.composition.compiled import CompiledSubstrate
from substrate.composition.cone_program import ConeProgram
from substrate.composition.conic import StandardForm, Witness
from substrate.composition.determined import CoordinateBounds, NormTies, OutputBound, by_conditions, by_loss
from substrate.composition.dual_value import dual_value
from substrate.composition.feasible_point import NO_INSIDE, Step, towards
from substrate.composition.nearness import Nearness, corrected_multipliers, nearness
from substrate.composition.outputs import Outputs
from substrate.composition.polish import interior_point, polish, within_radius
from substrate.composition.refusals import QuestionedOutput, list_outputs, list_predicted_outputs
from substrate.composition.shifted_form import ShiftedForms, shifts_of_definitions
from substrate.composition.structure import Substituted
from substrate.composition.whole_space import Gap, gap_of, whole_space

__all__ = ["AnswerCheck", "OptimalValue", "Reference", "reference"]


#: The assumed largest distance of a variable from its optimum, in multiples of its size plus the spread of y.
_FAR = 1000.0
_ACCURACIES = (1e-13, 1e-10)


@dataclass(frozen=True, slots=True)
class Reference:
    """The program, the column where each variable of the machine begins, the unit of its variables, and a point.

    ``starts`` are the columns where a variable of cvxpy's begins, its own included; ``point`` is None where the solver
    worked on another form of the program; ``step`` moves it inside where the structure of the program is known, and
    ``substituted`` is the form without definitions then.
    """

    program: ConeProgram
    columns: dict[int, int]
    starts: tuple[int, ...]
    unit: float
    point: tuple[Array, Array] | None
    step: Step | None = None
    substituted: Substituted | None = None
    #: The solver that the program was compiled for, with its units; empty where its structure was used.
    solver: str = ""
    cost_unit: float = 1.0
    #: The constant of the objective, which is no part of the program.
    offset: float = 0.0

    def points(self) -> Iterator[tuple[Array, Array]]:
        """Yield points with multipliers, the cheapest first; they are not trusted."""
        program = self.program
        if self.step is not None and self.point is not None:  # a point that needs no polishing
            yield self.point
        if program.quadratic and self.point is not None:
            yield polish(program, *self.point)
        if program.quadratic:
            for accuracy in _ACCURACIES:
                inside = interior_point(program, accuracy)
                if inside is not None:
                    yield polish(program, *inside)
        if self.point is not None:
            yield self.point[0], corrected_multipliers(program, *self.point)

    def radius(self, x: Array, spread: float) -> Array:
        """Return the assumed largest distance of each coordinate of the optimum from x; ``spread`` is in units of x."""
        radius = np.zeros_like(x)
        edges = [*self.starts, x.size]
        for start, stop in pairwise(edges):
            radius[start:stop] = _FAR * (spread + float(np.abs(x[start:stop]).max(initial=0.0)))
        return radius


def reference(problem: Any, witness: Witness, substituted: Substituted | None = None) -> Reference | str:
    """Return the program of a solver's point, or why it cannot be checked; ``known`` is that of an earlier point."""
    form, z = witness.form, witness.form.multipliers(witness.duals)
    point = None if z is None else (witness.x, z)
    variable_ids, unit, cost_unit = witness.variable_ids, witness.unit, witness.cost_unit
    if not form.understood:
        return "its cones are beyond this check"
    if form.bounded or not form.numbers()[0].nnz:
        # the rows alone do not determine x, or a solver without a quadratic term was given squares as cones
        form = StandardForm(problem.get_problem_data("CLARABEL")[0]["param_prob"], "CLARABEL")
        point, unit, cost_unit, variable_ids = None, 1.0, 1.0, tuple(variable.id for variable in problem.variables())
        if not form.understood or form.bounded or not form.numbers()[0].nnz:
            return ""
    elif point is None:
        return "the solver left no multipliers that can be read"
    P, q, A, b = form.numbers()
    numbers = [P.data, q, A.data, b, *(point or ())]
    if not all(np.isfinite(values).all() for values in numbers):
        return "the solver's point, or a number of the problem, is not finite"
    if witness.structured is not None and point is not None:
        return _restrict_to_structure(problem, witness, *point, substituted)
    program = ConeProgram.of((P, q, A, b), form.cones)
    if point is None and not program.quadratic:
        return "the solver was given the squares as cones; CLARABEL and SCS take them as they are"
    columns = {
        v.id: form.columns[key] for key, v in zip(variable_ids, problem.variables(), strict=True) if key in form.columns
    }
    edges = tuple(sorted(form.columns.values()))
    return Reference(
        program=program,
        columns=columns,
        starts=edges,
        unit=unit,
        point=point,
        solver=form.solver,
        cost_unit=cost_unit,
        offset=form.offset,
    )


def _restrict_to_structure(
    problem: Any, witness: Witness, x: Array, z: Array, substituted: Substituted | None
) -> Reference:
    """Return the program of a structured solution, without the variables that merely name values."""
    columns, structured = witness.form.columns, witness.structured
    variables = {key: v for key, v in zip(witness.variable_ids, problem.variables(), strict=True) if key in columns}
    if substituted is None or substituted.eliminated is not structured.structure.eliminated:
        substituted = structured.structure.without_definitions(
            columns[key] + j for key, v in variables.items() for j in range(v.size)
        )
    program, kept = substituted.program(structured.structure.program), substituted.columns
    place = np.full(x.size, -1, dtype=np.intp)
    place[kept] = np.arange(kept.size)
    edges = np.array(sorted(columns.values()))
    starts = np.unique(np.searchsorted(edges, kept, side="right"), return_index=True)[1]

    inside = None if structured.inside is None else structured.inside[kept]
    begins = {v.id: int(place[columns[key]]) for key, v in variables.items()}
    point, step = (x[kept], z[substituted.rows]), towards(program, x[kept], inside)
    return Reference(
        program=program,
        columns=begins,
        starts=tuple(int(i) for i in starts),
        unit=witness.unit,
        point=point,
        step=step,
        substituted=substituted,
        offset=witness.form.offset + substituted.constant(structured.structure.program),
    )


FORMULA = "||f - f~|| + c sqrt(z's + |r|'R), f~ of a feasible point; with rounding"
_BY_VALUE = "c sqrt(2 (v - p)), v the value of a feasible machine, p a dual value; with rounding"
_RADIUS = "radius of the check"
_PROVED = (
    "the optimum is within 1000 times (size + spread of y) of the point of the check, variable by variable; proved"
)
_TAKEN = (
    "where squares do not determine a variable, its optimum is taken to be within 1000 times (its size + the spread of "
    "y); were it k times farther, the accuracy would be at most sqrt(k) times larger"
)
_NEITHER = "the objective has neither a squared loss in f nor (w'w)/2, so that its value does not bound the answer"
_FREE = (
    "squares in the objective determine {known}, but not {free}; add a squared loss in these, or the squares of the "
    "weights of the linear part"
)
_CUT_OFF = (
    "the coordinates leave directions of w out that nothing counts; add s.squared_norm to the objective, and leave "
    "cutoff and basis out, for a bound"
)
_NO_POINT = "no solver's point is near enough for a check"
_ROOM = 1.0 + 1e-3
#: Share of the tolerance below which no better point is searched for.
_ENOUGH = 0.1
#: Number of variables up to which a better point is searched for although one is good enough.
_SMALL = 400

#: Largest number of variables for which ties by squares are computed one by one.
_LARGEST = 400
#: Entries of A up to which the radius of the check is proved.
_ENTRIES = 400_000

Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _BoundedOutput:
    """A question, how squares determine it, and whether about its mean only."""

    question: QuestionedOutput
    tie: OutputBound
    centred: bool

    def proved_distance(self, near: Nearness, unit: float) -> float:
        """Return the distance of the reference from the optimum, root mean square, in units of y."""
        return unit * (self.tie.factor * near.distance + self.tie.remainder) / math.sqrt(float(self.tie.weights.sum()))

    def measured_distance(self, near: Nearness, unit: float) -> float:
        """Return the distance of what predict returns from the reference."""
        at, F = self.question.columns, self.question.F
        fitted = self.question.fitted() / unit
        sizes = np.abs(F) @ np.abs(near.x[at])
        differences = fitted - F @ near.x[at]
        radius = (
            relative_rounding(1.0) * ((F.shape[1] + 4) * sizes + 2.0 * np.abs(fitted))
            + np.abs(F) @ near.point_radius[at]
        )
        if self.centred:
            differences = differences - differences.mean()
            radius = radius + radius.mean() + relative_rounding(differences.size) * float(np.abs(differences).mean())
        return unit * root_mean_square(np.abs(differences) + radius, self.tie.weights)

    def tolerance(self) -> float:
        """Return the tolerance of the row."""
        spread, rounding = self.question.scale(self.tie.weights)
        return max(UNPOLISHED * spread, rounding)

    def row(self, near: Nearness, unit: float) -> Accuracy:
        """Return the row at the present values."""
        spread, rounding = self.question.scale(self.tie.weights)
        bound = _ROOM * (self.measured_distance(near, unit) + self.proved_distance(near, unit))
        about = f"{self.question.about} about their mean" if self.centred else self.question.about
        return accuracy_row(bound, spread, FORMULA, tolerance=UNPOLISHED, rounding=rounding, about=about)


@dataclass(frozen=True, slots=True)
class _CheckedPoint:
    """The point of the check, its unit, the questions, whether the radius is proved, and why not for all w.

    ``cut_off`` is empty where the point was checked in all directions of w.
    """

    near: Nearness
    unit: float
    outputs: list[_BoundedOutput]
    within: bool
    cut_off: str
    #: A lower bound on the optimal value, in the units of the program, and the unit and the constant of the objective.
    lower: float
    cost_unit: float
    offset: float


class OptimalValue:
    """A lower bound on the optimal value of a machine, and how near points of nearly that value are."""

    def __init__(self, checked: _CheckedPoint) -> None:
        self._checked = checked
        value = checked.cost_unit * checked.lower
        #: The bound on the optimum over all w.
        self.lower = value + checked.offset - relative_rounding(4.0) * (abs(value) + abs(checked.offset))
        self.within = checked.within

    def accuracy(self, excess: float, tolerance: float) -> Accuracy:
        r"""The row of a feasible point whose value is at most ``excess`` above the optimal one.

        The objective less :math:`\tfrac12 \|x\|_P^2` is convex, so that :math:`\|x - x^\star\|_P^2` is at most twice
        the excess, and squares determine the fitted values as elsewhere.
        """
        checked = self._checked
        distance = math.sqrt(2.0 * max(excess, 0.0) / checked.cost_unit)
        near = replace(checked.near, distance=distance)
        rows = []
        for output in checked.outputs:
            spread, rounding = output.question.scale(output.tie.weights)
            about = f"{output.question.about} about their mean" if output.centred else output.question.about
            bound = _ROOM * output.proved_distance(near, checked.unit)
            rows.append(accuracy_row(bound, spread, _BY_VALUE, tolerance=tolerance, rounding=rounding, about=about))
        return accuracy_of_outputs(rows)


class AnswerCheck:
    """The accuracy of one machine; quantities that do not depend on the present values are kept between checks."""

    def __init__(self, compiled: list[CompiledSubstrate], outputs: Outputs, shifted: ShiftedForms) -> None:
        self._compiled = compiled
        self._shifted = shifted
        self._gaps: dict[int, Gap | None] = {}
        self._outputs = outputs
        self._at: tuple[Any, Any] = (None, None)
        self._kept: _CheckedPoint | str = ""
        self._last: ConeProgram | None = None
        self._substituted: Substituted | None = None
        self._norms = NormTies()

    def row(self, problem: Any, witness: Witness | None) -> tuple[Row | None, Facts]:
        """Return the row and the facts beside it; the reason where there is no bound.

        Where directions of w are left out, it is a row on the problem that was solved, and no bound on the answer.
        """
        if witness is None:
            return None, ((NO_BOUND, "the solver left no multipliers"),)
        numbers = witness.form.numbers()
        if self._at[0] is not witness or self._at[1] is not numbers[0]:
            with np.errstate(all="ignore"):
                try:
                    self._kept = self._prepare(problem, witness)
                except np.linalg.LinAlgError as error:
                    self._kept = f"the linear algebra of the check failed ({error})"
            self._at = (witness, numbers[0])
        if isinstance(self._kept, str):
            return None, ((NO_BOUND, self._kept),)
        kept = self._kept
        row = accuracy_of_outputs([output.row(kept.near, kept.unit) for output in kept.outputs])
        if kept.cut_off:
            solved = Row(
                name="problem in coordinates",
                value=row.value,
                scale=row.scale,
                tolerance=row.tolerance,
                formula="distance from its optimum, without the directions that are left out",
            )
            return solved, ((NO_BOUND, kept.cut_off),)
        return row, ((_RADIUS, _PROVED if kept.within else _TAKEN),)

    def optimal_value(self) -> "OptimalValue | str":
        """What is known of the optimal value at the latest point, or why nothing is."""
        if isinstance(self._kept, str):
            return self._kept
        return self._kept.cut_off or OptimalValue(self._kept)

    def _prepare(self, problem: Any, witness: Witness) -> _CheckedPoint | str:
        start = reference(problem, witness, self._substituted)
        if isinstance(start, str):
            return start or _NEITHER
        if self._last is not None:
            start.program.take_over(self._last)
        self._last, self._substituted = start.program, start.substituted
        if not all(leaf.id in start.columns for compiled in self._compiled for leaf in compiled.leaves()):
            return "a variable of the machine is in no term of the compiled problem"
        wide = self._in_all_directions(start, witness)
        if wide is None:
            return self._check(start, cut_off=_CUT_OFF)
        checked = self._check(wide, has_another=wide is not start)
        if isinstance(checked, str) and wide is not start:  # beyond double precision: the problem in coordinates
            checked = self._check(start, cut_off=f"{checked}, in all directions of w")
        return checked

    def _check(self, start: Reference, cut_off: str = "", has_another: bool = False) -> _CheckedPoint | str:
        """Return the best point of a reference for its questions, or why there is none.

        Where there is another reference to check, a point that needs no polishing and has no inside near it is the
        last one: the radii that are asked of the constraints leave none, and they are those of all points next to it.
        """
        spread = max(output.spread for output in self._compiled) / start.unit
        best: tuple[float, Nearness, list[_BoundedOutput], Array] | None = None
        multipliers = np.zeros(0)
        reason = _NO_POINT
        ties = CoordinateBounds.of(start.program, _LARGEST)
        for x, z in start.points():
            radius = start.radius(x, spread)
            outputs = self._bind_outputs(start, radius)
            near_point = nearness(start.program, x, z, radius, ties, start.step) if outputs else reason
            if isinstance(near_point, str):
                reason = near_point
                if has_another and start.step is not None and reason == NO_INSIDE:
                    break
                continue
            worst = max(output.proved_distance(near_point, start.unit) / output.tolerance() for output in outputs)
            if math.isfinite(worst) and (best is None or worst < best[0]):
                best, multipliers = (worst, near_point, outputs, radius), z
            if worst <= (_ENOUGH if start.program.q.size <= _SMALL else 1.0):
                break
        if best is None:
            # ties are computed once more, at little cost: a divergent point has none
            sizes = np.full(start.program.q.size, spread)
            return reason if self._bind_outputs(start, sizes) else self._explain_undetermined(start, sizes)
        if best[0] > 1.0:
            return f"the check proves no more than {best[0]:.1e} times what is tolerated"
        _, near, outputs, radius = best
        small = start.program.quadratic and radius.size <= _LARGEST and radius.size * start.program.b.size <= _ENTRIES
        within = small and within_radius(start.program, near.x, radius, ties)
        return _CheckedPoint(
            near=near,
            unit=start.unit,
            outputs=outputs,
            within=within,
            cut_off=cut_off,
            lower=dual_value(start.program, near.x, multipliers, radius),
            cost_unit=start.cost_unit,
            offset=start.offset,
        )

    def _in_all_directions(self, start: Reference, witness: Witness) -> Reference | None:
        """Return the reference with what its coordinates leave out, None where that is not known for a substrate."""
        cut = [compiled for compiled in self._compiled if not compiled.complete]
        if not cut:
            return start
        if not start.solver:
            substituted = start.substituted
            shifted = None if substituted is None else shifts_of_definitions(witness, substituted)
        else:
            shifted = self._shifted.of(start.program, start.solver, start.unit, start.cost_unit)
        if shifted is None:
            return None
        whole = whole_space(start.program, shifted, cut, start.columns, self._gap)
        if whole is None:
            return None
        return replace(start, program=start.program.with_space(whole))

    def _gap(self, compiled: CompiledSubstrate) -> Gap | None:
        if id(compiled) not in self._gaps:
            self._gaps[id(compiled)] = gap_of(compiled)
        return self._gaps[id(compiled)]

    def _explain_undetermined(self, start: Reference, radius: Array) -> str:
        """Return why squares do not bound the answer: there are none, or none that contain a linear part of an
        output.
        """
        outputs = list_outputs(self._compiled, start.columns, self._outputs)
        tied = {output.about: _bind_output(start, output, radius, self._norms) is not None for output in outputs}
        determined, free = (
            [about for about, is_bound in tied.items() if is_bound is wanted] for wanted in (True, False)
        )
        return (
            _FREE.format(known=" and ".join(determined), free=" and ".join(free)) if determined and free else _NEITHER
        )

    def _bind_outputs(self, start: Reference, radius: Array) -> list[_BoundedOutput]:
        """Return every question with its tie; the outputs where the substrates are not determined one by one."""
        bounds = [
            _bind_output(start, output, radius, self._norms)
            for output in list_outputs(self._compiled, start.columns, self._outputs)
        ]
        if None in bounds and len(self._compiled) > 1:
            outputs = list_predicted_outputs(self._compiled, start.columns, self._outputs)
            bounds = [_bind_output(start, output, radius, self._norms) for output in outputs]
        bounded = [output for output in bounds if output is not None]
        return bounded if len(bounded) == len(bounds) else []


def _bind_output(start: Reference, question: QuestionedOutput, radius: Array, norms: NormTies) -> _BoundedOutput | None:
    """Return how squares determine the values, or these about their mean; None where they do not."""
    program, at, F = start.program, question.columns, question.F
    tie = by_loss(program, at, F, radius) or norms.by_norm(program, at, F)
    if tie is not None:
        return _BoundedOutput(question, tie, False)
    centred = F - F.mean(axis=0)
    gram_radius = relative_rounding(F.shape[0] + 1) * np.linalg.norm((np.abs(F) + np.abs(F).mean(axis=0)) @ radius[at])
    quick = norms.by_norm(program, at, centred)
    if quick is not None:
        return _BoundedOutput(
            question, OutputBound(quick.factor, quick.remainder + float(gram_radius), quick.weights), True
        )
    accepted = 1e-3 * UNPOLISHED * question.scale(np.ones(F.shape[0]))[0] / start.unit
    enough = accepted * math.sqrt(F.shape[0])
    tie = by_conditions(program, at, F, radius)
    if tie is not None and tie.remainder <= enough:
        return _BoundedOutput(question, tie, False)
    tie = by_conditions(program, at, centred, radius)
    if tie is not None and tie.remainder + gram_radius <= enough:
        return _BoundedOutput(question, OutputBound(tie.factor, tie.remainder + float(gram_radius), tie.weights), True)
    return None
