r"""Why a machine is infeasible: a smallest set of constraints that contradict each other.

Every constraint is given slack in its own units, and the largest share of it that is needed is made small,

.. math:: \min_{x, t \ge 0} \; t \quad \text{s.t.} \quad g_k(x) \le t\, u_k , \quad |h_k(x)| \le t\, v_k .

Where t stays positive the constraints contradict each other; the multipliers of the relaxed ones are a proof of it
(Farkas, [Boyd2004]_ section 5.8), and constraints whose multipliers vanish take no part in it. Of the others one after
the other is left out, for good where the rest still contradict each other: what is left is a set of which every proper
subset can be met, known as an irreducible infeasible set [Chinneck2008]_. There may be several; one is named.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np

from substrate.arrays import Array

__all__ = ["Contradiction", "find_contradiction"]

#: Share of their units by which constraints must miss each other.
_MISSED = 1e-6
#: Multipliers below this share of the largest one take no part.
_NOTHING = 1e-7
#: Constraints up to which they are left out one by one, and entries of one of them that are named.
_MOST, _NAMED = 60, 3


@dataclass(frozen=True, slots=True)
class Contradiction:
    """The names of constraints that cannot hold together, each with its entries that take part; none if they can."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        *others, last = self.names
        return f"{', '.join(others)} and {last}" if others else last


def find_contradiction(
    constraints: Sequence[Any], names: Sequence[str], kept: Sequence[Any], unit: float
) -> Contradiction | None:
    """Return a smallest set of constraints that contradict each other; None where it cannot be told.

    ``kept`` are constraints that belong to the coordinates and always hold; ``unit`` is the size of the targets.
    """
    relaxed = [_Relaxed.of(constraint, name, unit) for constraint, name in zip(constraints, names, strict=True)]
    if any(one is None for one in relaxed) or not relaxed or len(relaxed) > _MOST:
        return None
    members = [one for one in relaxed if one is not None]
    first = _miss(members, kept)
    if first is None or first <= _MISSED:
        return Contradiction(()) if first is not None else None
    shares = np.array([one.multiplier() for one in members])
    taking_part = [one for one, share in zip(members, shares, strict=True) if share > _NOTHING * shares.max()]
    remaining = taking_part if _contradict(taking_part, kept) else members
    for one in list(remaining):
        fewer = [other for other in remaining if other is not one]
        if _contradict(fewer, kept):
            remaining = fewer
    _miss(remaining, kept)
    return Contradiction(tuple(one.describe() for one in remaining))


def _contradict(members: "Sequence[_Relaxed]", kept: Sequence[Any]) -> bool:
    missed = _miss(members, kept) if members else 0.0
    return missed is not None and missed > _MISSED


def _miss(members: "Sequence[_Relaxed]", kept: Sequence[Any]) -> float | None:
    """Return the least share of their units by which they miss each other; None where no solver can tell."""
    share = cp.Variable(nonneg=True)
    constraints = [constraint for one in members for constraint in one.relax(share)]
    problem = cp.Problem(cp.Minimize(share), [*constraints, *kept])
    try:
        problem.solve(solver="CLARABEL")
    except (cp.error.SolverError, cp.error.DCPError):
        return None
    if problem.status not in ("optimal", "optimal_inaccurate") or share.value is None:
        return None
    return float(share.value)


class _Relaxed:
    """A constraint, its unit, and the constraints that it became when slack was last given to it."""

    def __init__(self, constraint: Any, name: str, size: float) -> None:
        self._constraint, self._name, self._size = constraint, name, size
        self._made: list[Any] = []

    @classmethod
    def of(cls, constraint: Any, name: str, unit: float) -> "_Relaxed | None":
        """Return a constraint with its unit; None for cones that have no slack in one number."""
        kinds = ("Equality", "Zero", "Inequality", "NonPos", "NonNeg", "SOC", "PSD")
        if type(constraint).__name__ not in kinds:
            return None
        constants = [_constant(argument) for argument in constraint.args]
        return cls(constraint, name, max([unit, *constants]))

    def relax(self, share: Any) -> list[Any]:
        """Return the constraint with slack."""
        kind, slack = type(self._constraint).__name__, share * self._size
        if kind in ("Equality", "Zero"):
            expression = self._constraint.args[0] if kind == "Zero" else self._constraint.expr
            self._made = [expression <= slack, -expression <= slack]
        elif kind == "Inequality":
            self._made = [self._constraint.expr <= slack]
        elif kind == "NonPos":
            self._made = [self._constraint.args[0] <= slack]
        elif kind == "NonNeg":
            self._made = [-self._constraint.args[0] <= slack]
        elif kind == "SOC":
            top, rest = self._constraint.args
            self._made = [cp.SOC(top + slack, rest, axis=self._constraint.axis)]
        else:
            matrix = self._constraint.args[0]
            self._made = [matrix + slack * np.eye(matrix.shape[0]) >> 0]
        return self._made

    def _entries(self) -> Array:
        """Return the sizes of the multipliers of its entries, both signs of an equality together."""
        parts = [np.abs(np.concatenate([np.ravel(d.value, order="F") for d in c.dual_variables])) for c in self._made]
        return np.asarray(np.max(parts, axis=0))

    def multiplier(self) -> float:
        """Return the size of its multipliers, in its units."""
        return self._size * float(self._entries().max(initial=0.0))

    def describe(self) -> str:
        """Return its name, and of a vector the entries that take part."""
        kind = type(self._constraint).__name__
        if self._constraint.size == 1 or kind in ("SOC", "PSD"):
            return self._name
        entries = self._entries()
        places = np.flatnonzero(entries > _NOTHING * entries.max())
        if places.size > _NAMED or places.size == entries.size:
            return self._name
        shape = self._constraint.shape
        labels = [
            str(int(p)) if len(shape) == 1 else str(tuple(map(int, np.unravel_index(p, shape, "F")))) for p in places
        ]
        word = "entry" if len(labels) == 1 else "entries"
        return f"{self._name} ({word} {', '.join(labels)})"


def _constant(expression: Any) -> float:
    """Return the largest size of an expression where all variables are zero; zero where it has no value there."""
    variables = expression.variables()
    before = [variable.value for variable in variables]
    try:
        for variable in variables:
            variable.save_value(np.zeros(variable.shape))
        with np.errstate(all="ignore"):
            value = np.abs(np.asarray(expression.value, dtype=np.float64)).max(initial=0.0)
    except (TypeError, ValueError):
        return 0.0
    finally:
        for variable, kept_value in zip(variables, before, strict=True):
            variable.save_value(kept_value)
    return float(value) if np.isfinite(value) else 0.0
