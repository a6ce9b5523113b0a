"""Variables with attributes, ``cp.Variable(nonneg=True)``, as plain ones with constraints.

cvxpy adds what an attribute demands inside, where no multiplier can be read, so that nothing could show a point to be
optimal: from a variable at its bound the Lagrangian falls. Here a variable with attributes stands for a plain one and
constraints of the same meaning, each with its multiplier and its rows on the certificate:

======================  ============================================
``nonneg``, ``pos``     x >= 0
``nonpos``, ``neg``     x <= 0
``bounds=[l, u]``       l <= x, x <= u
``symmetric``           x == x.T
``diag``                entries off the diagonal are zero
``PSD``, ``NSD``        x == x.T, x >> 0 or x << 0
======================  ============================================

The user's variable is given the value of the plain one after every solve, moved into its set where rounding left it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np

from substrate.errors import DeclarationError

__all__ = ["RestrictedVariables", "attributes_of"]

#: Attributes that are written as constraints; whole numbers are refused elsewhere.
_KNOWN = frozenset(
    {"nonneg", "pos", "nonpos", "neg", "bounds", "symmetric", "diag", "PSD", "NSD", "boolean", "integer"}
)


def attributes_of(variable: Any) -> dict[str, Any]:
    """Return the attributes that a variable has."""
    return {name: value for name, value in variable.attributes.items() if value is not None and value is not False}


@dataclass(frozen=True, slots=True)
class RestrictedVariables:
    """Pairs of a variable with attributes and the plain one in its place, and the constraints of the latter."""

    pairs: tuple[tuple[Any, Any], ...]
    constraints: tuple[Any, ...]

    @classmethod
    def of(cls, parts: Iterable[Any]) -> "RestrictedVariables":
        """Return those in some expressions and constraints."""
        every = {id(variable): variable for part in parts for variable in part.variables()}
        pairs, constraints = [], []
        for variable in every.values():
            attributes = attributes_of(variable)
            if not attributes or attributes.keys() & {"boolean", "integer"}:
                continue
            unknown = sorted(attributes.keys() - _KNOWN)
            if unknown:
                raise DeclarationError(
                    f"the variable {variable.name()!r} has the attribute {unknown[0]}, whose multipliers cannot be "
                    "certified; declare it without, and write what restricts it as constraints in subject_to"
                )
            plain = cp.Variable(variable.shape, name=variable.name())
            pairs.append((variable, plain))
            for name, value in attributes.items():
                constraints += _constraints(plain, name, value)
        return cls(tuple(pairs), tuple(constraints))

    def exchange(self, part: Any) -> Any:
        """Return an expression or a constraint with the plain variables."""
        if not self.pairs:
            return part
        found = part.tree_copy({id(variable): plain for variable, plain in self.pairs})
        if isinstance(part, cp.Constraint):
            found.label = part.label
        return found

    def refuse_lost_convexity(self, given: Sequence[Any], plain: Sequence[Any]) -> None:
        """Refuse what cvxpy knows to be convex by the sign of a variable alone."""
        names = [variable.name() for variable, _ in self.pairs]
        for one, other in zip(given, plain, strict=True):
            if one.is_dcp() and not other.is_dcp():
                raise DeclarationError(
                    f"{one} is convex only because of the attributes of {names}, which are written as constraints "
                    "here; use an atom that is convex everywhere, as cp.square(cp.pos(x)) for the square of x >= 0"
                )

    def write_back(self) -> None:
        """Give every variable with attributes the value of its plain one."""
        for variable, plain in self.pairs:
            variable.value = None if plain.value is None else variable.project(np.asarray(plain.value))


def _constraints(x: Any, name: str, value: Any) -> list[Any]:
    """Return the constraints of one attribute, labelled by both names."""
    label = f"{x.name()} {name}"
    if name in ("nonneg", "pos"):
        found = [x >= 0.0]
    elif name in ("nonpos", "neg"):
        found = [x <= 0.0]
    elif name == "bounds":
        found = _bounds(x, *value)
    elif name == "symmetric":
        found = _symmetric(x)
    elif name == "diag":
        rows, columns = np.nonzero(~np.eye(x.shape[0], dtype=bool))
        found = [x[rows, columns] == 0.0] if rows.size else []
    else:
        found = [*_symmetric(x), x >> 0 if name == "PSD" else x << 0]
    for constraint in found:
        constraint.label = label
    return found


def _symmetric(x: Any) -> list[Any]:
    rows, columns = np.triu_indices(x.shape[0], 1)
    return [x[rows, columns] == x[columns, rows]] if rows.size else []


def _bounds(x: Any, low: Any, high: Any) -> list[Any]:
    """Return both sides, of the entries that have one."""
    found = []
    for end, sign in ((low, 1.0), (high, -1.0)):
        if end is None:
            continue
        if isinstance(end, cp.Expression):
            found.append(sign * x >= sign * end)
            continue
        values = np.broadcast_to(np.asarray(end, dtype=np.float64), x.shape)
        given = np.isfinite(values)
        if given.all():
            found.append(sign * x >= sign * values)
        elif given.any():
            found.append(sign * x[given] >= sign * values[given])
    return found
