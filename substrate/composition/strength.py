"""What a machine's objective is strongly convex in, found in its expression tree."""

from collections.abc import Iterable
from typing import Any

import cvxpy as cp

__all__ = ["no_bound"]

_SQUARED_LOSS = "the objective has a squared loss in f, but multipliers of free terms are no dual feasible point"
_SQUARED_NORM = "the objective has (w'w)/2, but multipliers of free terms are no dual feasible point"
_NEITHER = "the objective has neither a squared loss in f nor (w'w)/2, so that its value does not bound the answer"


def no_bound(objective: Any, values: Iterable[Any], norms: Iterable[Any], ridge: bool) -> str:
    """Why the fitted values are not bounded: ``values`` and ``norms`` are the leaves of f or e, and of w'w."""
    ours, squared = {leaf.id for leaf in values}, {leaf.id for leaf in norms}
    if any(_ids(term) & ours for term in _terms(objective) if isinstance(term, (cp.quad_over_lin, cp.QuadForm))):
        return _SQUARED_LOSS
    return _SQUARED_NORM if ridge or _ids(objective) & squared else _NEITHER


def _ids(expression: Any) -> set[int]:
    return {variable.id for variable in expression.variables()}


def _terms(expression: Any) -> Iterable[Any]:
    """The expression and all that it is made of."""
    yield expression
    for argument in expression.args:
        yield from _terms(argument)
