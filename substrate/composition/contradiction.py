r"""Why a machine is infeasible: a smallest set of constraints that contradict each other.

Every constraint is given slack in its own units, and the largest share of it that is needed is made small,

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

from substrate.composition.place_holders import size_at

__all__ = ["find_contradiction"]

#: Share of their units by which constraints must miss each other.
_MISSED = 1e-6
#: Constraints up to which they are left out one by one.
_MOST = 60
#: The kinds of constraints that have slack in one number, by cvxpy's names.
_KINDS = ("Equality", "Zero", "Inequality", "NonPos", "NonNeg", "SOC", "PSD")


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
