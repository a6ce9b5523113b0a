r"""The rows of a compiled program as functions of what a machine reads of w.

To every vector that is read, values of f or of its derivatives, a shift t is added before the machine is compiled;
:math:`s = A x + B t + b` and :math:`q^T x + q_t^T t` then show how each reading enters (the point of interest has
t = 0). In a form with definitions (:mod:`substrate.composition.lifted_form`) the shifts are in these.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import spsolve

from substrate.composition.cone_program import ConeProgram
from substrate.composition.conic import StandardForm, Witness
from substrate.composition.lifted_form import LiftedForm
from substrate.composition.structure import Substituted
from substrate.composition.whole_space import Shifted

__all__ = ["ShiftedForms", "ShiftedProblem", "shifts_of_definitions"]


@dataclass(frozen=True, slots=True, eq=False)
class ShiftedProblem:
    """A machine with a shift of every vector that it reads, by the identity of the place-holder's variable."""

    problem: Any
    shifts: dict[int, Any]


class ShiftedForms:
    """The standard forms of a machine with shifts, one for each solver and unit, compiled where they are asked for."""

    def __init__(self, build: Callable[[float, float], ShiftedProblem]) -> None:
        self._build = build
        self._known: dict[tuple[str, float, float], tuple[StandardForm, dict[int, Any]]] = {}

    def of(self, program: ConeProgram, solver: str, unit: float, cost_unit: float) -> Shifted | None:
        """Return the shifts in the rows of this program; None where it was compiled to other rows."""
        key = (solver, unit, cost_unit)
        if key not in self._known:
            built = self._build(unit, cost_unit)
            form = StandardForm(built.problem.get_problem_data(solver)[0]["param_prob"], solver)
            self._known[key] = form, built.shifts
        form, shifts = self._known[key]
        P, q, A, _ = form.numbers()
        if not shifts or A.shape[0] != program.b.size:
            return None
        at = {leaf: np.arange(form.columns[t.id], form.columns[t.id] + t.size) for leaf, t in shifts.items()}
        shift_columns = np.concatenate(list(at.values()))
        program_columns = np.setdiff1d(np.arange(q.size), shift_columns)
        A = sp.csr_array(A)
        is_same = (
            program_columns.size == program.q.size
            and not (abs(A[:, program_columns] - program.A) > 1e-12 * abs(program.A)).nnz
        )
        if not is_same or sp.csr_array(P)[:, shift_columns].nnz:
            return None
        starts, start = {}, 0
        for leaf, columns in at.items():
            starts[leaf] = start
            start += columns.size
        return Shifted(sp.csr_array(A[:, shift_columns]), np.asarray(q[shift_columns]), starts)


def shifts_of_definitions(witness: Witness, substituted: Substituted) -> Shifted | None:
    """Return the shifts in a program whose definitions were substituted: in the rows of these, or through what is
    gone.
    """
    form, whole = witness.form, witness.structured.structure.program
    if not isinstance(form, LiftedForm):
        return None
    rows = {key: where for key, (_, where, _) in zip(form.keys, form.cones, strict=True)}
    starts: dict[int, int] = {}
    defining: list[Any] = []
    for definition in form.definitions:
        starts[definition.leaf] = sum(indices.size for indices in defining)
        defining.append(np.arange(rows[definition.key].start, rows[definition.key].stop))
    if not defining:
        return None
    at = np.concatenate(defining)
    B = sp.csr_array((-np.ones(at.size), (at, np.arange(at.size))), (whole.b.size, at.size))
    q = np.zeros(at.size)
    if substituted.gone.size:
        # a variable takes along the shift of the row that defines it, and those of the variables defined before it
        eliminated = substituted.eliminated
        by = whole.equal[eliminated.rows]
        defined = sp.csc_array(whole.A[by][:, eliminated.columns])
        gone = np.isin(eliminated.columns, substituted.gone)
        columns = eliminated.columns[gone]
        moves = -sp.csr_array(spsolve(defined, sp.csc_array(B[by])).reshape(by.size, -1))[gone]
        B, q = sp.csr_array(B + whole.A[:, columns] @ moves), np.asarray(whole.q[columns] @ moves)
        B = sp.csr_array(B[substituted.rows])
    return Shifted(B, q, starts)
