"""Checks of a machine before it is solved, in the user's terms, and the fitted values that its certificate bounds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rows import ACCURATE, VALUES, spread_of
from substrate.composition.compiled import CompiledSubstrate
from substrate.composition.cone_program import IntegerArray
from substrate.composition.outputs import Outputs
from substrate.composition.place_holders import Standing
from substrate.composition.terms import LinearPart, One, Term, WeightedTerm, base_of
from substrate.errors import DeclarationError

__all__ = [
    "QuestionedOutput",
    "list_outputs",
    "list_predicted_outputs",
    "refuse_broadcast",
    "refuse_incomplete",
    "refuse_non_convex",
    "refuse_parameter_names",
    "refuse_parameters",
    "scale_of_targets",
]


#: What a certificate bounds.
FITTED = "fitted values"


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
    """Refuse a vector of values of a substrate beside a column of numbers: cvxpy makes a matrix of all pairs of them.

    Pairs of two expressions, such as those of all differences of f, are left alone.
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
    """Refuse a problem that uses foreign substrates, or does not determine all of its own."""
    variables = problem.variables()
    if any(isinstance(variable, Standing) for variable in variables):
        raise DeclarationError("a term uses a substrate that the machine was not given; name all its substrates")
    if problem.is_mixed_integer():
        raise DeclarationError("a machine is convex: variables of your own cannot be boolean or integer")
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
    """Parameters must have unique names, which are no arguments of ``solve``."""
    names = [parameter.name() for parameter in parameters]
    if len(set(names)) != len(names):
        raise DeclarationError(f"two parameters share a name: {sorted(names)}; give each cp.Parameter its own name=")
    for taken in ("solver", "verbose", "time_limit", "options"):
        if taken in names:
            raise DeclarationError(f"solve() has an argument {taken!r} already; give the parameter another name")


@dataclass(frozen=True, slots=True)
class QuestionedOutput:
    """Fitted values F x (columns of the program; constants apart), the targets, and what ``predict`` returns now.

    Without targets, y is None, and the unit is the spread of the fitted values.
    """

    columns: IntegerArray
    F: Array
    y: Array | None
    fitted: Callable[[], Array]
    about: str

    def scale(self, weights: Array) -> tuple[float, float]:
        """Return the spread of y and the accepted rounding; of the fitted values where there are no targets."""
        return scale_of_targets(self.fitted() if self.y is None else self.y, weights)


def scale_of_targets(y: Array, weights: Array) -> tuple[float, float]:
    """Return the spread of y and the accepted rounding: for targets without a spread, a millionth of their size."""
    spread, rounding = spread_of(y, weights)
    if spread <= rounding:
        rounding = ACCURATE * (float(np.abs(y).max()) or 1.0)
    return spread, rounding


def list_outputs(compiled: list[CompiledSubstrate], starts: dict[int, int], outputs: Outputs) -> list[QuestionedOutput]:
    """Return one question per substrate and per output with a linear part; ``starts`` gives each variable's first
    column.
    """
    each = [
        _make_output(
            [compiled_substrate],
            starts,
            f"fitted values of {compiled_substrate.label}" if compiled_substrate.label else FITTED,
            column,
        )
        for compiled_substrate in compiled
        for column in _columns(compiled_substrate)
    ]
    partly = {
        name: terms
        for name, terms in outputs.terms.items()
        if any(isinstance(base_of(term), LinearPart) for term in terms)
    }
    return [*each, *list_predicted_outputs(compiled, starts, Outputs(partly))]


def list_predicted_outputs(
    compiled: list[CompiledSubstrate], starts: dict[int, int], outputs: Outputs
) -> list[QuestionedOutput]:
    """Return one question per output, which ``predict`` of the result returns; none where training rows differ."""
    listed = []
    for name, terms in outputs.terms.items():
        used = [substrate for substrate in compiled if any(substrate.substrate is base_of(term) for term in terms)]
        weighted = [term for term in terms if isinstance(term, WeightedTerm)]
        if used and _same_rows(used) and all(term.columns is None for term in weighted):
            about = FITTED if name is None else f"fitted values of {name}"
            if len(terms) > 1:
                about = "sums of the substrates' fitted values" if name is None else f"sums of fitted values of {name}"
            listed += [_make_output(used, starts, about, column, terms) for column in _columns(used[0])]
    return listed


def _columns(compiled: CompiledSubstrate) -> range:
    return range(*compiled.substrate.columns) if compiled.substrate.columns else range(1)


def _same_rows(compiled: list[CompiledSubstrate]) -> bool:
    first = compiled[0].substrate
    return all(
        substrate.substrate.X is first.X
        or (substrate.substrate.X.shape == first.X.shape and not bool((substrate.substrate.X != first.X).sum()))
        for substrate in compiled[1:]
    )


def _make_output(
    compiled: list[CompiledSubstrate], starts: dict[int, int], about: str, column: int, terms: Sequence[Term] = ()
) -> QuestionedOutput:
    """Return the question of one output, or of one substrate where no terms are given; constants are left out."""
    first = compiled[0].substrate
    given = terms or [substrate.substrate for substrate in compiled]
    places, blocks = [], []
    readers: list[tuple[Array, Callable[[], Array]]] = []
    for base in dict.fromkeys(map(base_of, given)):
        if isinstance(base, One):
            continue
        weights = np.sum([_weights(term, first.X) for term in given if base_of(term) is base], axis=0)
        if isinstance(base, LinearPart):
            places.append(base.places(starts, column))
            blocks.append(weights[:, None] * base.matrix(first.X))
            readers.append((weights, partial(_read_part, base, first.X)))
            continue
        (substrate,) = [one for one in compiled if one.substrate is base]
        places.append(substrate.places(starts, column))
        blocks.append(weights[:, None] * substrate.in_variables(column))
        if substrate.substrate.bias:
            blocks.append(weights[:, None])
        readers.append((weights, substrate.fitted_values))

    def fit_values() -> Array:
        total = np.asarray(np.sum([(weights * read().T).T for weights, read in readers], axis=0))
        return total[:, column] if total.ndim == 2 else total

    is_weighted = any(isinstance(term, WeightedTerm) for term in given)
    # targets that are all zero stand for none, and have no unit
    y = None if is_weighted or first.y is None or not np.any(first.y) else first.y
    if y is None:
        about = about.replace(FITTED, VALUES) if about.startswith(FITTED) else f"{VALUES}: {about}"
    y, where = (y if y is None else y[:, column], f"{about}, column {column}") if first.columns else (y, about)
    return QuestionedOutput(columns=np.concatenate(places), F=np.hstack(blocks), y=y, fitted=fit_values, about=where)


def _weights(term: Term, X: Any) -> Array:
    return term.weights(X) if isinstance(term, WeightedTerm) else np.ones(X.shape[0])


def _read_part(part: LinearPart, X: Any) -> Array:
    return part.at_present_value().predict(X)
