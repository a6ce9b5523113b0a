"""Two ways to the L1 substrate, one record: the active set, and the declared problem."""

from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.closed_form.l1_active_set import l1_rows, solve_l1, zeta_max
from substrate.errors import SolverError
from substrate.gram import Gram
from substrate.solvers import canonical_name

__all__ = ["SparseFit", "fit_sparse"]


@dataclass(frozen=True, slots=True)
class SparseFit:
    """Coefficients in regression's sign, bias, certificate rows and facts."""

    coefficients: Array
    bias: float
    zeta_max: float
    rows: tuple[Row, ...]
    facts: tuple[tuple[str, str], ...]


def fit_sparse(gram: Gram, y: Array, zeta: float, solver: str, *, labels: bool) -> SparseFit:
    """Fit one machine; if the active set does not settle, the declared problem does it, and the record says so."""
    name = None if solver in ("auto", "cvxpy") else canonical_name(solver)
    if solver == "auto" and gram.kernel is not None and not gram.kernel.trusted:
        gram.check_definite()  # convex whatever the matrix, but without w behind it; the declared problem refuses
    Phi = np.array(gram.matrix)
    facts = (*gram.record(), ("zeta", f"{zeta:g}"))
    note: tuple[tuple[str, str], ...] = ()
    if solver == "auto":
        try:
            solved = solve_l1(Phi, y, zeta)
        except SolverError as error:
            note = (("fallback", str(error)),)
        else:
            rows = l1_rows(Phi, y, zeta, solved.coefficients, solved.bias)
            how = ("solver", f"active set, {solved.steps} steps")
            return SparseFit(solved.coefficients, solved.bias, zeta_max(Phi, y), rows, (*facts, how))
    from problems import l1_substrate  # brings cvxpy, which the active set must not pay for

    declared = l1_substrate.declare(gram, y, zeta, "classification" if labels else "regression").solve(name)
    a = declared.support_values * (y if labels else 1.0)
    record = declared.solver_record.facts() if declared.solver_record is not None else ()
    return SparseFit(a, float(declared.bias), zeta_max(Phi, y), declared.certificate().rows, (*facts, *note, *record))
