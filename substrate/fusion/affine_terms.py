r"""What a machine depends on, as a quadratic program, with one or several parameters: its terms, as cvxpy has them.

Where one parameter :math:`\lambda` is the weight of all squares and the rest is linear, as in
:math:`\tfrac{\lambda}{2} w^T w` with a hinge, the machine divided by :math:`\lambda` has the same optimum, and is a
program whose linear term alone depends on a parameter, :math:`1/\lambda`: a change of variable.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from substrate.arrays import Array
from substrate.errors import DeclarationError
from substrate.fusion.program_numbers import QuadraticNumbers, quadratic_parts, weighs_all_squares

__all__ = ["AffineTerms"]


@dataclass(frozen=True, slots=True)
class AffineTerms:
    """P0, P1, q0, the q_k as rows, all rows and their constants, and how many are equalities.

    ``ridge`` is the number of the parameter that weighs P1 (-1: none), ``columns`` the place of each variable;
    ``inverse`` is whether the terms are those in one over the parameter, the weight of all squares.
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
    inverse: bool = False

    @classmethod
    def of(cls, problem: Any, parameters: Sequence[Any]) -> "AffineTerms":
        """Return the terms of a problem, or why it is not affine in its parameters."""
        names = [parameter.name() for parameter in parameters]
        constant, *steps = quadratic_parts(problem, parameters)
        if len(steps) == 1 and constant.q.any() and weighs_all_squares(constant, steps[0]):
            return cls._divided(constant, steps[0])
        for name, step in zip(names, steps, strict=True):
            if step.has_rows:
                raise DeclarationError(
                    f"{name!r} enters a constraint; fuse needs weights in the objective: put "
                    f"what it bounds into the objective as a penalty, {name} * ..., or give it a value"
                )
            if not step.has_squares and not step.q.any():
                raise DeclarationError(f"the objective does not depend on {name!r}")
        squares = [k for k, step in enumerate(steps) if step.has_squares]
        if len(squares) > 1:
            several = " and ".join(repr(names[k]) for k in squares)
            raise DeclarationError(
                f"{several} weigh quadratic terms, and fuse proves its bound for one such weight beside others of the "
                f"linear term; give one of them a value ({names[squares[0]]}.value = ...) and fuse over the rest"
            )
        ridge = squares[0] if squares else -1
        P1 = sp.csr_array(steps[ridge].P) if squares else sp.csr_array(constant.P.shape)
        P1.eliminate_zeros()
        return cls(
            P0=sp.csr_array(constant.P),
            P1=P1,
            q0=constant.q,
            q=np.array([step.q for step in steps]),
            A=constant.A,
            b=constant.b,
            columns=constant.columns,
            equalities=constant.equalities,
            ridge=ridge,
        )

    @classmethod
    def _divided(cls, constant: QuadraticNumbers, step: QuadraticNumbers) -> "AffineTerms":
        """Return the terms of a problem divided by its parameter, the weight of all squares."""
        return cls(
            P0=sp.csr_array(step.P),
            P1=sp.csr_array(step.P.shape),
            q0=np.zeros_like(constant.q),
            q=constant.q[None, :],
            A=constant.A,
            b=constant.b,
            columns=constant.columns,
            equalities=constant.equalities,
            ridge=-1,
            inverse=True,
        )
