"""Machines solved by their structure, in the form in which each matrix of kernel values occurs once."""

import sys
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import numpy as np

from substrate.composition.cone_program import ConeProgram
from substrate.composition.conic import Witness, multipliers_of
from substrate.composition.lifted_form import Definition, LiftedForm
from substrate.composition.scaled_program import Warm
from substrate.composition.structure import Structure
from substrate.composition.structure_search import find_structure, renew
from substrate.composition.structured_solution import StructuredPoint, structured_solution

__all__ = ["STRUCTURED", "StructuredMethod"]

#: The name of the method on a certificate.
STRUCTURED = "STRUCTURED"


class StructuredMethod:
    """The method for one machine.

    ``problem`` is ``base`` written on variables with definitions; ``dense`` are the identities of the variables of
    kernel coordinates. The structure is kept between values of the parameters.
    """

    def __init__(
        self, problem: cp.Problem, base: cp.Problem, definitions: Sequence[Definition], dense: Sequence[int]
    ) -> None:
        self._problem, self._base, self._dense = problem, base, tuple(dense)
        self._definitions = tuple(definitions)
        self._kept: tuple[LiftedForm, Any, Any] | None = None
        self._structure: Structure | None = None
        self._warm: Warm | None = None

    def solve(self, verbose: bool, limit: float | None) -> tuple[str, Witness | None]:
        """Set the values of the base problem; its status, empty where it is no quadratic program, and the witness."""
        deadline = None if limit is None else time.monotonic() + limit
        problem, base = self._problem, self._base
        for variable in problem.variables():
            variable.save_value(None)
        if self._kept is None:
            data, chain, inverse = problem.get_problem_data("CLARABEL", solver_opts={})
            self._kept = LiftedForm(data["param_prob"], "CLARABEL", self._definitions), chain, inverse
        # the form has the numbers of the present parameters, and what a solution is read by does not depend on them
        form, chain, inverse = self._kept
        if form.bounded or not {kind for kind, _, _ in form.cones} <= {"Zero", "NonNeg"}:
            return "", None
        point = self._point(form, deadline, verbose)
        if isinstance(point, str):
            return point, None
        x, (P, q, _, _) = point.x, form.numbers()
        cost = 0.5 * float(x @ (P @ x)) + float(q @ x)
        answer = SimpleNamespace(
            status="Solved",
            x=x[: form.width],
            z=point.z[: form.height_before],
            obj_val=cost,
            solve_time=0.0,
            iterations=point.steps,
        )
        problem.unpack_results(answer, chain, inverse)
        form.assign(x, base.variables())
        for constraint, solved_constraint in zip(base.constraints, problem.constraints, strict=False):
            for dual, solved_dual in zip(constraint.dual_variables, solved_constraint.dual_variables, strict=True):
                dual.save_value(solved_dual.value)
        duals = chain.solver.invert(answer, inverse[-1]).dual_vars
        duals_by_id = {key: np.asarray(dual, dtype=np.float64).ravel(order="F") for key, dual in duals.items()}
        duals_by_id |= form.defining(point.z)
        variable_ids = tuple(variable.id for variable in base.variables())
        witness = Witness(
            form=form,
            unit=1.0,
            cost_unit=1.0,
            variable_ids=variable_ids,
            x=x.copy(),
            duals=duals_by_id,
            read=tuple(multipliers_of(base)),
            structured=point,
        )
        return str(problem.status), witness

    def _point(self, form: LiftedForm, deadline: float | None, verbose: bool) -> StructuredPoint | str:
        program = ConeProgram.of(form.numbers(), form.cones)
        if self._structure is not None:
            program.take_over(self._structure.program)
        structure = None if self._structure is None else renew(self._structure, program)
        if structure is None:
            ends = sorted({*form.columns.values(), program.q.size})
            starts = [form.columns[key] for key in self._dense if key in form.columns]
            found_structure = find_structure(program, [j for a in starts for j in range(a, ends[ends.index(a) + 1])])
            if isinstance(found_structure, str):
                return f"failed ({found_structure})"
            structure, self._warm = found_structure, None
        self._structure = structure
        point = structured_solution(structure, deadline, verbose, self._warm)
        self._warm = None if isinstance(point, str) else point.warm
        if verbose:
            print(file=sys.stderr)
        return point
