"""Checks of a machine before it is solved, in the user's terms."""

from collections.abc import Sequence
from typing import Any

from substrate.composition.compiled import CompiledSubstrate
from substrate.composition.place_holders import Standing
from substrate.errors import DeclarationError

__all__ = [
    "refuse_broadcast",
    "refuse_incomplete",
    "refuse_non_convex",
    "refuse_parameter_names",
    "refuse_parameters",
]


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


def refuse_incomplete(problem: Any, substrates: list[CompiledSubstrate]) -> None:
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
            "again; write products of parameters, or functions of one, as a parameter of their own"
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
