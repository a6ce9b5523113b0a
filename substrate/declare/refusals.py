r"""Why a machine is refused before it is solved, or found infeasible, in the user's terms.

Of an infeasible machine a smallest set of constraints that contradict each other is named. Every constraint is given
slack in its own units, and the largest share of it that is needed is made small,

.. math:: \min_{x, t \ge 0} \; t \quad \text{s.t.} \quad g_k(x) \le t\, u_k , \quad |h_k(x)| \le t\, v_k .

Where t stays positive the constraints contradict each other. One after the other is left out, for good where the rest
still contradict each other: what is left is a set of which every proper subset can be met, known as an irreducible
infeasible set [Chinneck2008]_. There may be several; one is named.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np

from substrate.declare.place_holders import Standing, size_at
from substrate.errors import DeclarationError

__all__ = [
    "find_contradiction",
    "refuse_broadcast",
    "refuse_incomplete",
    "refuse_non_convex",
    "refuse_parameter_names",
    "refuse_parameters",
]

#: Share of their units by which constraints must miss each other.
_MISSED = 1e-6
#: Constraints up to which they are left out one by one.
_MOST = 60
#: The kinds of constraints that have slack in one number, by cvxpy's names.
_KINDS = ("Equality", "Zero", "Inequality", "NonPos", "NonNeg", "SOC", "PSD")


def refuse_non_convex(objective: Any, total: Any, constraints: list[Any], replaced: list[Any]) -> None:
    """Name the term or constraint that breaks cvxpy's rules, as the user wrote it."""
    if not total.is_convex():
        terms = objective.args if type(objective).__name__ == "AddExpression" else [objective]
        copies = total.args if type(total).__name__ == "AddExpression" else [total]
        bad = [str(term) for term, copy in zip(terms, copies, strict=False) if not copy.is_convex()]
        raise DeclarationError(
            f"the objective is not convex by cvxpy's rules; see the term {bad[0] if bad else objective}. Minimise "
            "convex functions (squares, norms, huber, pos), scaled by numbers >= 0 or by cp.Parameter(nonneg=True)"
        )
    for constraint, copy in zip(constraints, replaced, strict=True):
        if not copy.is_dcp():
            raise DeclarationError(
                f"the constraint {constraint} is not convex by cvxpy's rules; write convex <= concave, affine == affine"
            )


def refuse_broadcast(expressions: Sequence[Any]) -> None:
    """Refuse a vector of values of a substrate with a column of numbers: cvxpy makes a matrix of all pairs of them.

    Pairs of two expressions, such as all differences of f, are left alone.
    """
    for expression in expressions:
        sides = [arg.args[0] if type(arg).__name__ == "broadcast_to" else arg for arg in expression.args]
        for vector in (side for side in sides if side.ndim == 1 and side.size > 1):
            for column in (side for side in sides if side.shape == (vector.size, 1)):
                numbers, values = (column, vector) if not column.variables() else (vector, column)
                if not numbers.variables() and any(isinstance(leaf, Standing) for leaf in values.variables()):
                    raise DeclarationError(
                        f"{expression} combines numbers of shape {numbers.shape} with values of shape {values.shape}, "
                        "which "
                        f"makes a {vector.size} x {vector.size} matrix of all pairs; give the numbers the shape of the "
                        "values, as with y.ravel()"
                    )
        refuse_broadcast(expression.args)


def refuse_incomplete(problem: Any, substrates: list[Any]) -> None:
    """Refuse a problem that uses foreign substrates, or does not determine all its own substrates."""
    variables = problem.variables()
    if any(isinstance(variable, Standing) for variable in variables):
        raise DeclarationError("a term uses a substrate that the machine was not given; name all its substrates")
    if problem.is_mixed_integer():
        raise DeclarationError("a machine is convex: variables of your own cannot be boolean or integer")
    if any(variable.is_complex() for variable in variables):
        raise DeclarationError("a machine is of real numbers: variables of your own cannot be complex or imaginary")
    present = {id(variable) for variable in variables}
    for number, compiled in enumerate(substrates, start=1):
        name = compiled.substrate.name
        which = f"substrate {number}" if name is None else f"substrate {name!r}"
        absent = [leaf.name() for leaf in compiled.leaves() if leaf.size and id(leaf) not in present]
        if absent == ["b"]:
            raise DeclarationError(
                f"no term contains the bias of {which}, so it is not determined; use its f or e, or bias=False"
            )
        if absent:
            raise DeclarationError(f"no term uses {which}; leave it out, or use its f, e or alpha")


def refuse_parameters(problem: Any) -> None:
    """Refuse parameters that do not enter affinely, or that share a name."""
    if not problem.is_dpp():
        raise DeclarationError(
            "the machine is convex but not affine in its parameters (DPP), so every new value would compile it "
            "again; write products of parameters, or functions of one, as one parameter"
        )
    refuse_parameter_names(problem.parameters())


def refuse_parameter_names(parameters: Sequence[Any]) -> None:
    """Refuse parameters without unique names, or with names of arguments of ``solve``."""
    names = [parameter.name() for parameter in parameters]
    if len(set(names)) != len(names):
        raise DeclarationError(f"two parameters share a name: {sorted(names)}; give each cp.Parameter its own name=")
    for taken in ("solver", "verbose", "time_limit", "options", "certify"):
        if taken in names:
            raise DeclarationError(f"solve() has an argument {taken!r} already; give the parameter another name")


def find_contradiction(
    constraints: Sequence[Any], names: Sequence[str], kept: Sequence[Any], unit: float
) -> list[str] | None:
    """Return the names of a smallest set of constraints that contradict each other; None if none can be identified.

    ``kept`` are constraints that belong to the coordinates and always hold; ``unit`` is the size of the targets.
    """
    if not constraints or len(constraints) > _MOST or any(type(c).__name__ not in _KINDS for c in constraints):
        return None
    members = [
        _Member(constraint, name, max(unit, *map(_size_at_zero, constraint.args)))
        for constraint, name in zip(constraints, names, strict=True)
    ]
    missed = _miss(members, kept)
    if missed is None or missed <= _MISSED:
        return None if missed is None else []
    for member in list(members):
        fewer = [other for other in members if other is not member]
        missed = _miss(fewer, kept) if fewer else 0.0
        if missed is not None and missed > _MISSED:
            members = fewer
    return [member.name for member in members]


@dataclass(frozen=True, slots=True)
class _Member:
    """A constraint, its name, and the unit of its slack."""

    constraint: Any
    name: str
    unit: float

    def relax(self, share: Any) -> list[Any]:
        """Return the constraint with a share of its unit as slack."""
        kind, slack, constraint = type(self.constraint).__name__, share * self.unit, self.constraint
        if kind in ("Equality", "Zero"):
            expression = constraint.args[0] if kind == "Zero" else constraint.expr
            return [expression <= slack, -expression <= slack]
        if kind == "Inequality":
            return [constraint.expr <= slack]
        if kind in ("NonPos", "NonNeg"):
            return [(1.0 if kind == "NonPos" else -1.0) * constraint.args[0] <= slack]
        if kind == "SOC":
            top, vector = constraint.args
            return [cp.SOC(top + slack, vector, axis=constraint.axis)]
        matrix = constraint.args[0]
        return [matrix + slack * np.eye(matrix.shape[0]) >> 0]


def _miss(members: Sequence[_Member], kept: Sequence[Any]) -> float | None:
    """Return the least share of their units by which they miss each other; None if no solver can tell."""
    share = cp.Variable(nonneg=True)
    constraints = [constraint for member in members for constraint in member.relax(share)]
    problem = cp.Problem(cp.Minimize(share), [*constraints, *kept])
    try:
        problem.solve(solver="CLARABEL")
    except (cp.error.SolverError, cp.error.DCPError):
        return None
    if problem.status not in ("optimal", "optimal_inaccurate") or share.value is None:
        return None
    return float(share.value)


def _size_at_zero(expression: Any) -> float:
    variables = expression.variables()
    return size_at(expression, variables, [np.zeros(variable.shape) for variable in variables])
