"""What a machine depends on, as a quadratic program, with several parameters: its terms, read off at a few values."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from substrate.arrays import Array
from substrate.errors import DeclarationError
from substrate.fusion.program_numbers import QuadraticNumbers, equal_matrices, numbers_at

__all__ = ["AffineTerms"]

#: Values besides one and two at which the dependence on the parameters is checked.
_ELSEWHERE = (3.7, 5.3, 2.9)


@dataclass(frozen=True, slots=True)
class AffineTerms:
    """P0, P1, q0, the q_k as rows, all rows and their constants, and how many are equalities.

    ``ridge`` is the number of the parameter that weighs P1 (-1: none), ``columns`` the place of each variable.
    """

    P0: Any
    P1: Any
    q0: Array
    q: Array
    A: Any
    b: Array
    columns: dict[int, int]
    equalities: int
    ridge: int

    @classmethod
    def of(cls, problem: Any, parameters: Sequence[Any]) -> "AffineTerms":
        """Return the terms of a problem, or why it is not affine in its parameters."""
        names = [parameter.name() for parameter in parameters]
        count = len(names)
        at_one = numbers_at(problem, parameters, [1.0] * count)
        bumped = [numbers_at(problem, parameters, [1.0 + (j == k) for j in range(count)]) for k in range(count)]
        terms = _affine(names, at_one, bumped)
        _refuse_other_dependence(names, terms, numbers_at(problem, parameters, _ELSEWHERE[:count]))
        return terms


def _affine(names: list[str], at_one: QuadraticNumbers, bumped: list[QuadraticNumbers]) -> AffineTerms:
    """Return the terms by differences; two parameters in the quadratic term are refused."""
    P, q = at_one.P, at_one.q
    _refuse_constraints(names, at_one, bumped)
    slopes = [sp.csr_array(numbers.P - P) for numbers in bumped]
    squares = [k for k, slope in enumerate(slopes) if not equal_matrices(sp.csr_array(P) + slope, sp.csr_array(P))]
    if len(squares) > 1:
        several = " and ".join(repr(names[k]) for k in squares)
        raise DeclarationError(
            f"{several} weigh quadratic terms, and fuse proves its bound for one such weight beside others of the "
            f"linear term; give one of them a value ({names[squares[0]]}.value = ...) and fuse over the rest"
        )
    ridge = squares[0] if squares else -1
    P1 = slopes[ridge] if squares else sp.csr_array(P.shape)
    P1.eliminate_zeros()
    linear = np.array([numbers.q - q for numbers in bumped])
    for k, name in enumerate(names):
        if not linear[k].any() and k != ridge:
            raise DeclarationError(f"the objective does not depend on {name!r}")
    q0 = np.asarray(q - linear.sum(axis=0))
    return AffineTerms(
        P0=sp.csr_array(P - P1),
        P1=P1,
        q0=q0,
        q=linear,
        A=at_one.A,
        b=at_one.b,
        columns=at_one.columns,
        equalities=at_one.equalities,
        ridge=ridge,
    )


def _refuse_constraints(names: list[str], at_one: QuadraticNumbers, bumped: Iterable[QuadraticNumbers]) -> None:
    for name, numbers in zip(names, bumped, strict=True):
        is_same = equal_matrices(numbers.A, at_one.A) and np.allclose(numbers.b, at_one.b, rtol=1e-12, atol=0.0)
        if not is_same:
            raise DeclarationError(
                f"{name!r} enters a constraint; fuse needs weights in the objective: put "
                f"what it bounds into the objective as a penalty, {name} * ..., or give it a value"
            )


def _refuse_other_dependence(names: list[str], terms: AffineTerms, elsewhere: QuadraticNumbers) -> None:
    values = np.array(_ELSEWHERE[: len(names)])
    tau = values[terms.ridge] if terms.ridge >= 0 else 0.0
    P, q, A, b = elsewhere.P, elsewhere.q, elsewhere.A, elsewhere.b
    is_same = equal_matrices(sp.csr_array(P), sp.csr_array(terms.P0 + tau * terms.P1)) and equal_matrices(A, terms.A)
    is_same = is_same and bool(np.allclose(b, terms.b, rtol=1e-12, atol=0.0))
    if not is_same or not np.allclose(q, terms.q0 + values @ terms.q, rtol=1e-9, atol=1e-12):
        raise DeclarationError(
            f"the objective is not affine in {names} together: they are multiplied with each other or enter a "
            "constraint; write a product as a parameter of its own, or give all but one a value"
        )
