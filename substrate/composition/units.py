r"""The same problem in other units, for solvers that stop at absolute tolerances.

With x = u x' and an objective worth v, the problem of :math:`f_0(x)` under :math:`g(x) \in \mathcal{K}` becomes
:math:`f_0(u x')/v` under :math:`g(u x')/u \in \mathcal{K}`: its solution times u, and its multipliers times v/u, are
those of the first.
"""

from typing import Any

import cvxpy as cp

__all__ = ["in_units", "knows_units"]

#: Attributes of a variable that mean the same in any unit.
_HOMOGENEOUS = frozenset({"nonneg", "nonpos", "pos", "neg", "symmetric", "diag", "PSD", "NSD"})


def knows_units(problem: Any) -> bool:
    """Whether no variable has an attribute that is bound to its unit."""
    return all(_attributes(variable).keys() <= _HOMOGENEOUS for variable in problem.variables())


def in_units(problem: Any, unit: float, worth: float) -> tuple[Any, list[Any]]:
    """Objective and constraints of a minimisation, with x divided by ``unit`` and the objective by ``worth``."""
    exchange = {id(variable): unit * _like(variable) for variable in problem.variables()}
    objective = problem.objective.args[0].tree_copy(exchange) / worth
    constraints = [_divided(constraint.tree_copy(exchange), unit) for constraint in problem.constraints]
    return cp.Minimize(objective), constraints


def _attributes(variable: Any) -> dict[str, Any]:
    return {name: value for name, value in variable.attributes.items() if value is not None and value is not False}


def _like(variable: Any) -> Any:
    return cp.Variable(variable.shape, name=variable.name(), **_attributes(variable))


def _divided(constraint: Any, unit: float) -> Any:
    return constraint.copy([argument / unit for argument in constraint.args])
