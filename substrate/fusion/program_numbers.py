"""The numbers that cvxpy passes to a solver, part by part: what does not depend on parameters, and what each weighs."""

from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from substrate.arrays import Array
from substrate.composition.cone_program import Substitution
from substrate.composition.conic import StandardForm
from substrate.errors import DeclarationError

__all__ = [
    "QuadraticNumbers",
    "TermNumbers",
    "least_linear",
    "parameters_at",
    "quadratic_parts",
    "read_terms",
    "weighs_all_squares",
]


class TermNumbers(NamedTuple):
    """The numbers of one part of a program: x'Px/2 + q'x + d over A x + b in a cone."""

    P: Any
    q: Array
    d: float
    A: Any
    b: Array


class QuadraticNumbers(NamedTuple):
    """The numbers of a quadratic program: P, q, A, b, the column of each variable, and how many rows are equalities."""

    P: Any
    q: Array
    A: Any
    b: Array
    columns: dict[int, int]
    equalities: int

    @property
    def has_squares(self) -> bool:
        """Return whether there is a quadratic term."""
        return bool(abs(self.P).sum() > 0.0)

    @property
    def has_rows(self) -> bool:
        """Return whether there is something in the constraints."""
        return bool(abs(self.A).sum() > 0.0 or self.b.any())


@contextmanager
def parameters_at(parameters: Sequence[Any], values: Sequence[float]) -> Any:
    """Give parameters values inside a block, and their earlier values back after it."""
    kept = [parameter.value for parameter in parameters]
    try:
        for parameter, value in zip(parameters, values, strict=True):
            parameter.value = value
        yield
    finally:
        for parameter, value in zip(parameters, kept, strict=True):
            parameter.value = value


def read_terms(form: StandardForm, parameters: Sequence[Any]) -> list[TermNumbers]:
    """Read the part of a compiled problem without these parameters, and that of each of them, from cvxpy's tensors."""
    program = form.program
    ids = [parameter.id for parameter in parameters]
    missing = [p.name() for p in parameters if p.id not in program.param_id_to_col]
    if missing:
        raise DeclarationError(f"the parameters {missing} are in no term of the problem")
    values = {
        key: np.zeros(program.param_id_to_size[key]) if key in ids else np.array(parameter.value)
        for key, parameter in program.id_to_param.items()
    }
    terms = [_numbers(program, values, form.height, False)]
    zeros = {key: np.zeros(program.param_id_to_size[key]) for key in values}
    for key in ids:
        terms.append(_numbers(program, zeros | {key: np.ones(1)}, form.height, True))
    return terms


def _numbers(program: Any, values: dict[int, Array], height: int, zero_offset: bool) -> TermNumbers:
    n = program.x.size
    if program.reduced_P.matrix_data is None:
        q, d, A, b = program.apply_parameters(values, zero_offset)
        P = sp.csc_array((n, n))
    else:
        P, q, d, A, b = program.apply_parameters(values, zero_offset, quad_obj=True)
        P = sp.csc_array(P)
    if not height:
        return TermNumbers(P=P, q=np.array(q), d=float(d), A=sp.csr_array((0, n)), b=np.zeros(0))
    A = sp.csr_array(A)
    A.eliminate_zeros()
    return TermNumbers(P=P, q=np.array(q), d=float(d), A=A, b=np.array(b))


def quadratic_parts(problem: Any, parameters: Sequence[Any]) -> list[QuadraticNumbers]:
    """Return the numbers of a problem without some of its parameters, and what each of these multiplies.

    A problem that follows cvxpy's rules is affine in its parameters, and cvxpy has the parts: none is a difference.
    """
    with parameters_at(parameters, [1.0] * len(parameters)):
        data, _, _ = problem.get_problem_data("CLARABEL", solver_opts={"use_quad_obj": True})
        dims = data["dims"]
        if dims.soc or dims.psd or dims.exp or getattr(dims, "p3d", None):
            raise DeclarationError(
                "the machine is not a quadratic program: it has second-order, exponential or semi-definite cones; fuse "
                "needs squares, 1-norms, maxima, hinges and linear constraints"
            )
        form = StandardForm(data["param_prob"], "CLARABEL")
        terms = read_terms(form, parameters)
    values = [np.arange(form.columns[v.id], form.columns[v.id] + v.size) for v in getattr(problem, "defined", ())]
    places = np.concatenate([np.zeros(0, dtype=np.intp), *values])
    defining = np.arange(dims.zero - places.size, dims.zero)
    substitution = Substitution.of(sum(abs(term.P) for term in terms), terms[0].A, places, defining)
    T, kept, rows = substitution.T, substitution.columns, substitution.rows
    place = {key: int(np.searchsorted(kept, start)) for key, start in form.columns.items() if start in kept}
    return [
        QuadraticNumbers(
            P=sp.csc_array(term.P[kept][:, kept]),
            q=T.T @ term.q,
            A=-sp.csr_array(term.A[rows] @ T),
            b=term.b[rows],
            columns=place,
            equalities=int((rows < dims.zero).sum()),
        )
        for term in terms
    ]


def weighs_all_squares(constant: QuadraticNumbers, step: QuadraticNumbers) -> bool:
    """Return whether the parameter is the weight of the whole quadratic term, and in nothing else."""
    return step.has_squares and not constant.has_squares and not step.has_rows and not step.q.any()


def least_linear(q: Array, A: Any, b: Array, G: Any, h: Array) -> float | None:
    """Return the smallest q'x with A x = b and G x <= h, by a linear program; None where there is none."""
    from scipy.optimize import linprog

    equal = (A, b) if b.size else (None, None)
    optimum = linprog(q, A_ub=G, b_ub=h, A_eq=equal[0], b_eq=equal[1], bounds=(None, None), method="highs")
    return float(optimum.fun) if optimum.status == 0 else None
