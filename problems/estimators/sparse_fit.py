"""Two ways to the L1 substrate, one record: the active set, and the declared problem."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from problems.estimators.sparse_answer import Solving, sparse_accuracy
from substrate.arrays import Array
from substrate.certificates import Row
from substrate.closed_form.expansion import expansion_values
from substrate.closed_form.l1_accuracy import SparseMachine
from substrate.closed_form.l1_active_set import l1_rows, solve_l1, zeta_max
from substrate.errors import SolverError
from substrate.gram import Gram
from substrate.kernels import Kernel
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


def fit_sparse(kernel: Kernel, X: Any, gram: Gram, y: Array, zeta: float, how: Solving, *, labels: bool) -> SparseFit:
    """Fit one machine; if the active set does not settle, the declared problem does it, and the record says so.

    ``gram`` is the kernel matrix of the rows of X.
    """
    if how.polished and not kernel.trusted:
        gram.check_definite()  # convex whatever the matrix, but without w behind it; the declared problem refuses
    Phi = np.array(gram.matrix)
    a, b, rows, facts = _solved(gram, Phi, y, zeta, how.solver, labels)
    (used,) = np.nonzero(a)
    points = None if kernel.pairwise else X[used]
    fitted = expansion_values(kernel, points, a[used], b, X, used)
    machine = SparseMachine(y, zeta, a, b, fitted)
    answer, more = sparse_accuracy(kernel, X, Phi, machine, how)
    facts = (*gram.record(), ("zeta", f"{zeta:g}"), *facts, *more)
    return SparseFit(a, b, zeta_max(Phi, y), (answer, *rows), facts)


def _solved(
    gram: Gram, Phi: Array, y: Array, zeta: float, solver: str, labels: bool
) -> tuple[Array, float, tuple[Row, ...], tuple[tuple[str, str], ...]]:
    """Coefficients in regression's sign, bias, rows and facts."""
    name = None if solver in ("auto", "cvxpy") else canonical_name(solver)
    note: tuple[tuple[str, str], ...] = ()
    if solver == "auto":
        try:
            solved = solve_l1(Phi, y, zeta)
        except SolverError as error:
            note = (("fallback", str(error)),)
        else:
            checks = l1_rows(Phi, y, zeta, solved.coefficients, solved.bias)
            return solved.coefficients, solved.bias, checks, (("solver", f"active set, {solved.steps} steps"),)
    from problems import l1_substrate  # brings cvxpy, which the active set must not pay for

    # the bias takes a constant up; left in y it would drown what is to be fitted in the solver's tolerance
    center = 0.0 if labels else float(np.clip(y.mean(), y.min(), y.max()))
    declared = l1_substrate.declare(gram, y - center, zeta, "classification" if labels else "regression").solve(name)
    a = declared.support_values * (y if labels else 1.0)
    record = declared.solver_record.facts() if declared.solver_record is not None else ()
    return a, center + float(declared.bias), declared.certificate().rows, (*note, *record)
