"""Numbers by which cvxpy knows variables, parameters and constraints, made anew for those read from a file."""

from collections.abc import Iterable
from typing import Any

import cvxpy as cp
from cvxpy.lin_ops.lin_utils import get_id

__all__ = ["give_new_identities"]


def give_new_identities(expressions: Iterable[Any]) -> None:
    """Give the variables, parameters and constraints in some expressions numbers that nothing else has here.

    cvxpy counts from one in every process, so that numbers of another process are those of other variables in this one.
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
