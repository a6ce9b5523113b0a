r"""Derivatives of a formula in the coordinates of its points, by the rules of calculus.

.. math:: D (u v) = v\, D u + u\, D v, \qquad D\, e^u = e^u D u, \qquad D (u / v) = \frac{D u}{v} - \frac{u\, D v}{v^2}

for the kernels of sums, products, quotients and exponentials: those with derivatives everywhere. A root or an absolute
value has none where two points meet, and is refused.
"""

from collections.abc import Mapping

from substrate.errors import DeclarationError
from substrate.formulas.nodes import Node, Points, constant

__all__ = ["differentiate"]


def differentiate(node: Node, points: Points, orders: Mapping[int, int]) -> Node:
    """Return the derivative of these orders, by column, in the coordinates of the points."""
    for column, order in sorted(orders.items()):
        for _ in range(order):
            node = _slope(node, points, column)
    return node


def _slope(root: Node, points: Points, column: int) -> Node:
    """Return the first derivative in one coordinate; operands come before what is made of them."""
    slopes: dict[Node, Node] = {}
    waiting = [root]
    while waiting:
        node = waiting[-1]
        missing = [operand for operand in node.operands if operand not in slopes]
        if missing:
            waiting.extend(missing)
            continue
        waiting.pop()
        slopes[node] = _rule(node, [slopes[operand] for operand in node.operands], points, column)
    return slopes[root]


def _rule(node: Node, slopes: list[Node], points: Points, column: int) -> Node:
    operation, operands = node.operation, node.operands
    if not operands:
        is_this = operation == "coordinate" and node.value[0] is points and node.value[1] == column
        return constant(1.0 if is_this else 0.0)
    if all(slope.is_number(0.0) for slope in slopes):
        return constant(0.0)
    if operation == "add":
        return slopes[0] + slopes[1]
    if operation == "subtract":
        return slopes[0] - slopes[1]
    if operation == "multiply":
        return slopes[0] * operands[1] + operands[0] * slopes[1]
    if operation == "divide":
        return slopes[0] / operands[1] - operands[0] * slopes[1] / (operands[1] * operands[1])
    if operation == "negative":
        return -slopes[0]
    if operation == "exponential":
        return node * slopes[0]
    raise DeclarationError(f"the operation {operation!r} of the formula has no derivative everywhere")
