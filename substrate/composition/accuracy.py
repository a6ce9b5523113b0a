r"""How far the fitted values of a machine can be from those of the exact optimum.

The check starts from the solver's point in standard form, in which the values that are read are replaced by their
definitions. It is moved to a feasible point :math:`\tilde x`, and multipliers bound its distance from the optimum
in the norm of the quadratic term (:mod:`substrate.composition.nearness`), which determines the fitted values
(:mod:`substrate.composition.determined`). The present values of the machine are compared with it:

.. math:: \|f - f^\star\| \le \|f - \tilde f\| + \|\tilde f - f^\star\| ,

the first term as it is measured, the second as it is proved. A squared loss determines the fitted values;
:math:`w^T w`, or another square, determines them about their mean. The optimum is that over all w, with what the
coordinates leave out and with the rounding of the kernel (:mod:`substrate.composition.whole_space`); where that is not
known, there is no bound on the answer, and the same check is a row on the problem that was solved.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

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
from substrate.composition.cone_program import ConeProgram, Substitution
from substrate.composition.conic import StandardForm, Witness
from substrate.composition.determined import CoordinateBounds, NormTies, OutputBound, by_conditions, by_loss
from substrate.composition.dual_value import dual_value
from substrate.composition.nearness import Nearness, corrected_multipliers, nearness
from substrate.composition.outputs import Outputs
from substrate.composition.refusals import QuestionedOutput, list_outputs, list_predicted_outputs
from substrate.composition.whole_space import Gap, Shifted, gap_of, whole_space

__all__ = ["AnswerCheck", "OptimalValue", "Reference", "reference"]


#: The assumed largest distance of a variable from its optimum, in multiples of its size plus the spread of y.
_FAR = 1000.0


@dataclass(frozen=True, slots=True)
class Reference:
    """A program with its values replaced by their definitions, a point, and where the variables of the machine begin.

    ``starts`` are the columns where a variable of cvxpy's begins, its own included; ``offset`` is the constant of the
    objective, which is no part of the program.
    """

    program: ConeProgram
    columns: dict[int, int]
    starts: tuple[int, ...]
    point: tuple[Array, Array]
    shifted: Shifted
    offset: float

    def radius(self, x: Array, spread: float) -> Array:
        """Return the assumed largest distance of each coordinate of the optimum from x; ``spread`` is in units of x."""
        radius = np.zeros_like(x)
        edges = [*self.starts, x.size]
        for start, stop in pairwise(edges):
            radius[start:stop] = _FAR * (spread + float(np.abs(x[start:stop]).max(initial=0.0)))
        return radius


def reference(problem: Any, witness: Witness, compiled: list[CompiledSubstrate]) -> Reference | str:
    """Return the program of a solver's point, or why it cannot be checked."""
    form, z = witness.form, witness.form.multipliers(witness.duals)
    if not form.understood:
        return "its cones are beyond this check"
    P, q, A, b = form.numbers()
    if not P.nnz:
        is_linear = not StandardForm(problem.get_problem_data("CLARABEL")[0]["param_prob"], "CLARABEL").numbers()[0].nnz
        return _NEITHER if is_linear else "the solver was given the squares as cones; CLARABEL and SCS take them"
    if z is None or form.bounded:
        return "the solver left no multipliers that can be read"
    x = witness.x
    if not all(np.isfinite(values).all() for values in (P.data, q, A.data, b, x, z)):
        return "the solver's point, or a number of the problem, is not finite"
    program = ConeProgram.of((P, q, A, b), form.cones)
    mentioned = [(form.columns[v.id], v.size, id(h.leaf)) for each in compiled for h, v in each.defined]
    values = np.concatenate([np.zeros(0, np.intp), *(np.arange(start, start + n) for start, n, _ in mentioned)])
    defining = program.equal[program.equal.size - values.size :]
    pivots = program.A[defining, values] if values.size else np.zeros(0)
    substitution = Substitution.of(P, A, values, defining)
    kept, rows = substitution.columns, substitution.rows
    # a shift of what is read acts like the values themselves, or in the row that defines them
    gone = ~np.isin(values, kept)
    B = sp.csr_array(program.A[:, values] @ sp.diags_array(gone.astype(float)))
    B = B - sp.csr_array((np.where(gone, 0.0, pivots), (defining, np.arange(values.size))), B.shape)
    starts = dict(zip((leaf for *_, leaf in mentioned), np.cumsum([0, *(n for _, n, _ in mentioned)]), strict=False))
    shifted = Shifted(sp.csr_array(B[rows]), np.where(gone, q[values], 0.0), {k: int(v) for k, v in starts.items()})
    place = np.full(q.size, -1, dtype=np.intp)
    place[kept] = np.arange(kept.size)
    edges = np.array(sorted(form.columns.values()))
    return Reference(
        program=program.substitute(substitution),
        columns={key: int(place[start]) for key, start in form.columns.items() if place[start] >= 0},
        starts=tuple(int(i) for i in np.unique(np.searchsorted(edges, kept, side="right"), return_index=True)[1]),
        point=(x[kept], z[rows]),
        shifted=shifted,
        offset=form.offset,
    )


FORMULA = "||f - f~|| + c sqrt(z's + |r|'R), f~ of a feasible point; with rounding"
_BY_VALUE = "c sqrt(2 (v - p)), v the value of a feasible machine, p a dual value; with rounding"
_RADIUS = "radius of the check"
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
_ROOM = 1.0 + 1e-3
#: Largest number of variables for which ties by squares are computed one by one.
_LARGEST = 400
Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _BoundedOutput:
    """A question, how squares determine it, and whether about its mean only."""

    question: QuestionedOutput
    tie: OutputBound
    centred: bool

    def proved_distance(self, near: Nearness) -> float:
        """Return the distance of the reference from the optimum, root mean square."""
        return (self.tie.factor * near.distance + self.tie.remainder) / math.sqrt(float(self.tie.weights.sum()))

    def measured_distance(self, near: Nearness) -> float:
        """Return the distance of what predict returns from the reference."""
        at, F = self.question.columns, self.question.F
        fitted = self.question.fitted()
        sizes = np.abs(F) @ np.abs(near.x[at])
        differences = fitted - F @ near.x[at]
        radius = (
            relative_rounding(1.0) * ((F.shape[1] + 4) * sizes + 2.0 * np.abs(fitted))
            + np.abs(F) @ near.point_radius[at]
        )
        if self.centred:
            differences = differences - differences.mean()
            radius = radius + radius.mean() + relative_rounding(differences.size) * float(np.abs(differences).mean())
        return root_mean_square(np.abs(differences) + radius, self.tie.weights)

    def tolerance(self) -> float:
        """Return the tolerance of the row."""
        spread, rounding = self.question.scale(self.tie.weights)
        return max(UNPOLISHED * spread, rounding)

    def row(self, near: Nearness) -> Accuracy:
        """Return the row at the present values."""
        spread, rounding = self.question.scale(self.tie.weights)
        bound = _ROOM * (self.measured_distance(near) + self.proved_distance(near))
        about = f"{self.question.about} about their mean" if self.centred else self.question.about
        return accuracy_row(bound, spread, FORMULA, tolerance=UNPOLISHED, rounding=rounding, about=about)


@dataclass(frozen=True, slots=True)
class _CheckedPoint:
    """The point of the check, the questions, and a lower bound on the optimal value."""

    near: Nearness
    outputs: list[_BoundedOutput]
    lower: float


class OptimalValue:
    """A lower bound on the optimal value of a machine, and how near points of nearly that value are."""

    def __init__(self, checked: _CheckedPoint) -> None:
        self._checked = checked
        #: The bound on the optimum over all w.
        self.lower = checked.lower

    def accuracy(self, excess: float, tolerance: float) -> Accuracy:
        r"""The row of a feasible point whose value is at most ``excess`` above the optimal one.

        The objective less :math:`\tfrac12 \|x\|_P^2` is convex, so that :math:`\|x - x^\star\|_P^2` is at most twice
        the excess, and squares determine the fitted values as elsewhere.
        """
        checked = self._checked
        distance = math.sqrt(2.0 * max(excess, 0.0))
        near = replace(checked.near, distance=distance)
        rows = []
        for output in checked.outputs:
            spread, rounding = output.question.scale(output.tie.weights)
            about = f"{output.question.about} about their mean" if output.centred else output.question.about
            bound = _ROOM * output.proved_distance(near)
            rows.append(accuracy_row(bound, spread, _BY_VALUE, tolerance=tolerance, rounding=rounding, about=about))
        return accuracy_of_outputs(rows)


class AnswerCheck:
    """The accuracy of one machine; quantities that do not depend on the present values are kept between checks."""

    def __init__(self, compiled: list[CompiledSubstrate], outputs: Outputs) -> None:
        self._compiled = compiled
        self._gaps: dict[int, Gap | None] = {}
        self._outputs = outputs
        self._at: tuple[Any, Any] = (None, None)
        self._kept: _CheckedPoint | str = ""
        self._norms = NormTies()

    def row(self, problem: Any, witness: Witness | None) -> tuple[Row | None, Facts]:
        """Return the row and the facts beside it; the reason where there is no bound."""
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
        row = accuracy_of_outputs([output.row(self._kept.near) for output in self._kept.outputs])
        return row, ((_RADIUS, _TAKEN),)

    def optimal_value(self) -> "OptimalValue | str":
        """What is known of the optimal value at the latest point, or why nothing is."""
        if isinstance(self._kept, str):
            return self._kept
        return OptimalValue(self._kept)

    def _prepare(self, problem: Any, witness: Witness) -> _CheckedPoint | str:
        start = reference(problem, witness, self._compiled)
        if isinstance(start, str):
            return start
        if not all(leaf.id in start.columns for compiled in self._compiled for leaf in compiled.leaves()):
            return "a variable of the machine is in no term of the compiled problem"
        cut = [compiled for compiled in self._compiled if not compiled.complete]
        whole = whole_space(start.program, start.shifted, cut, start.columns, self._gap) if cut else None
        if cut and whole is None:
            return _CUT_OFF
        return self._check(replace(start, program=start.program.with_space(whole)) if cut else start)

    def _check(self, start: Reference) -> _CheckedPoint | str:
        """Return the point of a reference for its questions, or why there is none."""
        spread, program, (x, z) = max(output.spread for output in self._compiled), start.program, start.point
        radius = start.radius(x, spread)
        outputs = self._bind_outputs(start, radius)
        if not outputs:
            return self._explain_undetermined(start, radius)
        z = corrected_multipliers(program, x, z)
        near = nearness(program, x, z, radius, CoordinateBounds.of(program, _LARGEST))
        if isinstance(near, str):
            return near
        worst = max(output.proved_distance(near) / output.tolerance() for output in outputs)
        if not worst <= 1.0:
            return f"the check proves no more than {worst:.1e} times what is tolerated"
        value = dual_value(program, near.x, z, radius)
        lower = value + start.offset - relative_rounding(4.0) * (abs(value) + abs(start.offset))
        return _CheckedPoint(near, outputs, lower)

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
    accepted = 1e-3 * UNPOLISHED * question.scale(np.ones(F.shape[0]))[0]
    enough = accepted * math.sqrt(F.shape[0])
    tie = by_conditions(program, at, F, radius)
    if tie is not None and tie.remainder <= enough:
        return _BoundedOutput(question, tie, False)
    tie = by_conditions(program, at, centred, radius)
    if tie is not None and tie.remainder + gram_radius <= enough:
        return _BoundedOutput(question, OutputBound(tie.factor, tie.remainder + float(gram_radius), tie.weights), True)
    return None
