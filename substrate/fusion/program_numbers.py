"""The numbers that cvxpy passes to a solver for a quadratic program, with one parameter at a value."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from substrate.arrays import Array
from substrate.errors import DeclarationError

__all__ = ["equal_matrices", "numbers_of"]


def numbers_of(problem: Any, parameter: Any, value: float) -> tuple[Any, Array, Any, Array, dict[int, int], int]:
    """P, q, A, b, the column of each variable, and how many rows are equalities, with the parameter at a value."""
    kept = parameter.value
    parameter.value = value
    try:
        data, _, _ = problem.get_problem_data("CLARABEL", solver_opts={"use_quad_obj": True})
    finally:
        parameter.value = kept
    dims = data["dims"]
    if dims.soc or dims.psd or dims.exp or getattr(dims, "p3d", None):
        raise DeclarationError(
            "the machine is not a quadratic program: it has second-order, exponential or semi-definite cones; fuse "
            "needs squares, 1-norms, maxima, hinges and linear constraints"
        )
    size = data["c"].size
    P = data.get("P")
    P = sp.csc_array((size, size)) if P is None else sp.csc_array(P)
    program = data["param_prob"]
    return P, np.array(data["c"]), sp.csr_array(data["A"]), np.array(data["b"]), dict(program.var_id_to_col), dims.zero


def equal_matrices(one: Any, other: Any) -> bool:
    """Whether two sparse matrices have the same entries, up to rounding."""
    if one.shape != other.shape:
        return False
    difference = abs(one - other)
    return not difference.nnz or float(difference.max()) <= 1e-12 * float(abs(one).max())
