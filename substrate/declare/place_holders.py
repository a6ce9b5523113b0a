"""Variables that stand for values of a substrate until a machine replaces them, and their numbers in files."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
from cvxpy.lin_ops.lin_utils import get_id

from substrate.errors import DeclarationError

__all__ = ["PlaceHolder", "Region", "RegionConstraint", "Standing", "give_new_identities", "has_attributes", "size_at"]


class Standing(cp.Variable):  # type: ignore[misc]
    """The variable of a place-holder: it stands for values of a substrate, and is never passed to a solver.

    Its sign is no attribute: cvxpy exchanges variables with attributes for others, which nobody would recognise.
    """

    def __init__(self, shape: Any, name: str, nonneg: bool = False) -> None:
        super().__init__(shape, name=name)
        self._nonneg = nonneg

    def is_nonneg(self) -> bool:
        """Return whether it stands for values that are not negative."""
        return self._nonneg

    def canonicalize(self) -> Any:
        """Refuse to become a variable of a solver, where no machine has replaced it."""
        raise self._refusal()

    def save_value(self, value: Any) -> None:
        """Refuse the value that a solver found for a free variable: some squares are not canonicalized."""
        raise self._refusal()

    def assign(self, value: Any) -> None:
        """Take the value that it has in a machine."""
        super().save_value(value)

    def _refusal(self) -> DeclarationError:
        return DeclarationError(
            f"{self.name()!r} is an expression of a substrate, which a plain cvxpy.Problem would take for a free "
            "variable; solve it as Machine(s, minimize=..., subject_to=[...])"
        )


def size_at(expression: Any, variables: Sequence[Any], values: Sequence[Any]) -> float:
    """Return the largest size of an expression at values of its variables, zero where it has none; they keep theirs."""
    kept = [variable.value for variable in variables]
    try:
        for variable, value in zip(variables, values, strict=True):
            variable.save_value(value)
        with np.errstate(all="ignore"):
            size = float(np.abs(np.asarray(expression.value, dtype=np.float64)).max(initial=0.0))
    except (TypeError, ValueError):
        return 0.0
    finally:
        for variable, value in zip(variables, kept, strict=True):
            variable.save_value(value)
    return size if np.isfinite(size) else 0.0


def has_attributes(variable: Any) -> bool:
    """Return whether a variable is restricted by itself, as ``cp.Variable(nonneg=True)``."""
    return any(value is not None and value is not False for value in variable.attributes.values())


@dataclass(frozen=True, slots=True, eq=False)
class PlaceHolder:
    """A variable that stands for values of the machine at ``points`` (None: training).

    ``part`` is the number of a component, or a linear operator.
    """

    leaf: Any
    role: str
    points: Any = None
    part: Any = 0


class Region(ABC):
    """Infinitely many points, in place of points: what is read there is a function, and constraints on it have a
    method of their own.
    """

    @abstractmethod
    def read(self, substrate: Any, operator: Any, part: int | None = None, hessian: tuple[int, ...] = ()) -> Any:
        """Return what an operator makes of f, or of a component, as a function; or its Hessian in some columns."""

    @abstractmethod
    def solve(self, machine: Any, solver: str | None, verbose: bool, time_limit: float | None) -> Any:
        """Return the result of a machine with constraints in regions; its parameters have their values."""


class RegionConstraint(ABC):
    """A constraint at all points of a region, on functions of some substrates."""

    region: Region

    @property
    @abstractmethod
    def substrates(self) -> tuple[Any, ...]:
        """The substrates that it reads, each once."""

    @abstractmethod
    def refuse(self) -> None:
        """Raise where it cannot be proved."""


def give_new_identities(expressions: Iterable[Any]) -> None:
    """Give the variables, parameters and constraints in some expressions numbers that nothing else has here.

    cvxpy counts from one in every process, so that numbers of another process belong to other variables in this one.
    """
    copies: dict[int, Any] = {}
    nodes = list(expressions)
    while nodes:
        node = nodes.pop()
        if id(node) in copies:
            continue
        copies[id(node)] = node
        nodes += node.args
        if isinstance(node, cp.Constraint):
            node.constr_id = get_id()
            nodes += node.dual_variables
        elif isinstance(node, (cp.Variable, cp.Parameter)):
            node.id = get_id()
        for name in [name for name in vars(node) if name.startswith("_lazy") or name.endswith("__cache__")]:
            del vars(node)[name]  # what cvxpy computed with the numbers before
