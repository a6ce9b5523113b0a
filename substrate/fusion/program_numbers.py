"""The numbers that cvxpy passes to a solver for a quadratic program, with one parameter at a value, and its place."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from substrate.arrays import Array
from substrate.errors import DeclarationError

__all__ = [
    "ELSEWHERE",
    "equal_matrices",
    "least",
    "numbers_at",
    "numbers_of",
    "refuse_other_dependence",
    "weighs_all_squares",
]


class QuadraticNumbers(NamedTuple):
    """The numbers of a quadratic program: P, q, A, b, the column of each variable, and how many rows are equalities."""

    P: Any
    q: Array
    A: Any
    b: Array
    columns: dict[int, int]
    equalities: int


#: A value besides one and two at which the dependence on a parameter is checked.
ELSEWHERE = 3.7


def numbers_of(problem: Any, parameter: Any, value: float) -> QuadraticNumbers:
    """Return the numbers of a problem with its parameter at a value."""
    return numbers_at(problem, [parameter], [value])


def numbers_at(problem: Any, parameters: Sequence[Any], values: Sequence[float]) -> QuadraticNumbers:
    """Return the numbers of a problem with its parameters at values."""
    kept = [parameter.value for parameter in parameters]
    try:
        for parameter, value in zip(parameters, values, strict=True):
            parameter.value = value
        data, _, _ = problem.get_problem_data("CLARABEL", solver_opts={"use_quad_obj": True})
    finally:
        for parameter, value in zip(parameters, kept, strict=True):
            parameter.value = value
    dims = data["dims"]
    if dims.soc or dims.psd or dims.exp or getattr(dims, "p3d", None):
        raise DeclarationError(
            "the machine is not a quadratic program: it has second-order, exponential or semi-definite cones; fuse "
            "needs squares, 1-norms, maxima, hinges and linear constraints"
        )
    size = data["c"].size
    P = data.get("P")
    P = sp.csc_array((size, size)) if P is None else sp.csc_array(P)
    return QuadraticNumbers(
        P=P,
        q=np.array(data["c"]),
        A=sp.csr_array(data["A"]),
        b=np.array(data["b"]),
        columns=dict(data["param_prob"].var_id_to_col),
        equalities=dims.zero,
    )


def weighs_all_squares(at_one: QuadraticNumbers, elsewhere: QuadraticNumbers) -> bool:
    """Return whether the parameter is the weight of the whole quadratic term, and in nothing else."""
    is_weighted = bool(at_one.P.nnz) and _has_same_rows(at_one, elsewhere)
    return is_weighted and equal_matrices(ELSEWHERE * at_one.P, elsewhere.P)


def refuse_other_dependence(
    name: str, at_one: QuadraticNumbers, elsewhere: QuadraticNumbers, q0: Array, q1: Array
) -> None:
    """Refuse a parameter that is not in the linear term only, with the next step."""
    is_same = equal_matrices(elsewhere.P, at_one.P)
    if _has_same_rows(at_one, elsewhere) and not is_same:
        raise DeclarationError(
            f"{name!r} must enter the linear term only, or be the weight of all squares; here it weighs a quadratic "
            "term beside another one, such as w'w beside squared errors, and then the path between two values is no "
            f"chord. With a linear loss (hinge, absolute values, pinball, tube) the weight of w'w can be fused over, "
            "and beside squared errors that of a 1-norm or a maximum; for w'w with squared errors LSSVMRegressorCV and "
            f"LSSVMClassifierCV choose gamma, which is 1/{name}, with a proof"
        )
    is_same = is_same and equal_matrices(elsewhere.A, at_one.A)
    is_same = is_same and np.allclose(elsewhere.b, at_one.b, rtol=1e-12, atol=0.0)
    if not is_same or not np.allclose(elsewhere.q, q0 + ELSEWHERE * q1, rtol=1e-9, atol=1e-12):
        raise DeclarationError(
            f"{name!r} must enter the linear term only, as the weight of a norm, of a maximum or of a hinge does, or "
            "be the weight of all squares; here it also weighs a quadratic term or enters a constraint"
        )


def _has_same_rows(first: QuadraticNumbers, second: QuadraticNumbers) -> bool:
    """Return whether A, b and q are the same."""
    is_same = equal_matrices(first.A, second.A) and np.allclose(first.b, second.b, rtol=1e-12, atol=0.0)
    return is_same and bool(np.allclose(first.q, second.q, rtol=1e-12, atol=0.0))


def equal_matrices(first: Any, second: Any) -> bool:
    """Return whether two sparse matrices have the same entries, up to rounding."""
    if first.shape != second.shape:
        return False
    difference = abs(first - second)
    return not difference.nnz or float(difference.max()) <= 1e-12 * float(abs(first).max())


def least(q: Array, A: Any, b: Array, G: Any, h: Array) -> float | None:
    """Return the smallest q'x with A x = b and G x <= h, by a linear program; None where there is none."""
    from scipy.optimize import linprog

    equal = (A, b) if b.size else (None, None)
    optimum = linprog(q, A_ub=G, b_ub=h, A_eq=equal[0], b_eq=equal[1], bounds=(None, None), method="highs")
    return float(optimum.fun) if optimum.status == 0 else None
