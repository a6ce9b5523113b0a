"""Checks of a machine before it is solved, in the user's terms, and the fitted values that its certificate bounds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.composition.compiled import CompiledSubstrate
from substrate.composition.cone_program import IntegerArray
from substrate.composition.level import Standing
from substrate.errors import DeclarationError

__all__ = ["Question", "questions", "refuse_incomplete", "refuse_non_convex", "refuse_parameters", "summed"]


def refuse_non_convex(objective: Any, total: Any, given: list[Any], own: list[Any]) -> None:
    """Name the term or constraint that breaks cvxpy's rules, as the user wrote it."""
    if not total.is_convex():
        terms = objective.args if type(objective).__name__ == "AddExpression" else [objective]
        copies = total.args if type(total).__name__ == "AddExpression" else [total]
        bad = [str(term) for term, copy in zip(terms, copies, strict=False) if not copy.is_convex()]
        raise DeclarationError(
            f"the objective is not convex by cvxpy's rules; see the term {bad[0] if bad else objective}. Minimise "
            "convex functions (squares, norms, huber, pos), scaled by numbers >= 0 or by cp.Parameter(nonneg=True)"
        )
    for constraint, copy in zip(given, own, strict=True):
        if not copy.is_dcp():
            raise DeclarationError(
                f"the constraint {constraint} is not convex by cvxpy's rules; write convex <= concave, affine == affine"
            )


def refuse_incomplete(problem: Any, substrates: list[CompiledSubstrate]) -> None:
    """A problem must use its own substrates only, and determine all of them."""
    variables = problem.variables()
    if any(isinstance(variable, Standing) for variable in variables):
        raise DeclarationError("a term uses a substrate that the machine was not given; name all its substrates")
    if problem.is_mixed_integer():
        raise DeclarationError("a machine is convex: variables of your own cannot be boolean or integer")
    present = {id(variable) for variable in variables}
    for number, compiled in enumerate(substrates, start=1):
        absent = [leaf.name() for leaf in compiled.leaves() if leaf.size and id(leaf) not in present]
        if absent == ["b"]:
            raise DeclarationError(
                f"no term contains the bias of substrate {number}, so it is not determined; use its f or e, or "
                "bias=False"
            )
        if absent:
            raise DeclarationError(f"no term uses substrate {number}; leave it out, or use its f, e or alpha")


def refuse_parameters(problem: Any) -> None:
    """Parameters must enter affinely, and have unique names."""
    if not problem.is_dpp():
        raise DeclarationError(
            "the machine is convex but not affine in its parameters (DPP), so every new value would compile it "
            "again; write products of parameters, or functions of one, as a parameter of their own"
        )
    names = [parameter.name() for parameter in problem.parameters()]
    if len(set(names)) != len(names):
        raise DeclarationError(f"two parameters share a name: {sorted(names)}; give each cp.Parameter its own name=")
    for taken in ("solver", "verbose"):
        if taken in names:
            raise DeclarationError(f"solve() has an argument {taken!r} already; give the parameter another name")


@dataclass(frozen=True, slots=True)
class Question:
    """Fitted values F x (columns of the program; constants apart), the targets, and what ``predict`` returns now."""

    columns: IntegerArray
    F: Array
    y: Array
    fitted: Callable[[], Array]
    about: str


def questions(compiled: list[CompiledSubstrate], columns: dict[int, int]) -> list[Question]:
    """One question per substrate; ``columns`` gives the first column of each variable."""
    return [_question([one], columns, "fitted values") for one in compiled]


def summed(compiled: list[CompiledSubstrate], columns: dict[int, int]) -> Question | None:
    """The sum of the substrates' fitted values, which ``predict`` of the result returns; None where rows differ."""
    first = compiled[0].substrate
    same = all(
        one.substrate.X is first.X
        or (one.substrate.X.shape == first.X.shape and not bool((one.substrate.X != first.X).sum()))
        for one in compiled[1:]
    )
    return _question(compiled, columns, "sums of the substrates' fitted values") if same else None


def _question(compiled: list[CompiledSubstrate], columns: dict[int, int], about: str) -> Question:
    places, blocks = [], []
    for one in compiled:
        start = columns[one.z.id]
        places.append(np.arange(start, start + one.z.size))
        blocks.append(one.in_variables())
        if one.substrate.bias:
            places.append(np.array([columns[one.shift.id]]))
            blocks.append(np.ones((one.substrate.n, 1)))

    def fitted() -> Array:
        return np.asarray(np.sum([one.fitted_values() for one in compiled], axis=0))

    return Question(np.concatenate(places), np.hstack(blocks), compiled[0].substrate.y, fitted, about)
