r"""Functions as formulas of nodes: numbers that remember how they were made.

.. math:: f_k(x) = \sum_i \alpha_{ik}\, k(x, z_i), \qquad f_k(x) = \sum_j w_{jk} (\varphi_j(x) - c_j), \qquad
          f_k(x) = \sum_j \beta_{jk} (x_j - c_j)

are nodes: a sum over points is one of a formula in the inputs :math:`x_c` and the coordinates :math:`z_c`. Nodes have
the operators of numbers with ``exp`` and ``sqrt``, which is what the formula of a kernel asks of its arithmetic, so
that the formula of a kernel is found by calling it with nodes. What is exact in every arithmetic is simplified at once:
a zero that is added, a factor of one. A bound on what floating point loses
(:mod:`~substrate.kernels.rounding_bound`) and the writer of ONNX read the nodes of a :class:`NodeProgram`.
"""

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array, to_dense
from substrate.errors import DataError, DeclarationError
from substrate.kernels.derivatives import differentiate_formula
from substrate.kernels.kernel import Kernel
from substrate.numbers import Operators

__all__ = [
    "Node",
    "NodeProgram",
    "Output",
    "add_outputs",
    "constant",
    "expand_kernel",
    "expand_linear",
    "greater",
    "inputs",
    "kernel_formula",
    "largest",
    "order_nodes",
    "select",
    "total",
]


class Node(Operators):
    """One operation on other nodes; ``value`` is what else it needs: a number, a column, coefficients.

    ``points`` are the points of the sum that contains the node, one per row.
    """

    __slots__ = ("operands", "operation", "points", "value")

    def __init__(
        self, operation: str, operands: tuple["Node", ...] = (), value: Any = None, points: Any = None
    ) -> None:
        self.operation, self.operands, self.value = operation, operands, value
        if points is None and operation != "total":
            points = next((operand.points for operand in operands if operand.points is not None), None)
        self.points: Any = points

    def is_number(self, number: float | None = None) -> bool:
        """Return whether this is a constant, or this constant."""
        return self.operation == "constant" and (number is None or self.value == number)

    def __add__(self, other: Any) -> "Node":
        left, right = self, constant(other)
        if right.is_number(0.0):
            return left
        return right if left.is_number(0.0) else Node("add", (left, right))

    def __mul__(self, other: Any) -> "Node":
        left, right = self, constant(other)
        if left.is_number(0.0) or right.is_number(1.0):
            return left
        return right if left.is_number(1.0) or right.is_number(0.0) else Node("multiply", (left, right))

    def __truediv__(self, other: Any) -> "Node":
        right = constant(other)
        return self if right.is_number(1.0) or self.is_number(0.0) else Node("divide", (self, right))

    def __rtruediv__(self, other: Any) -> "Node":
        return constant(other) / self

    def __neg__(self) -> "Node":
        return constant(-self.value) if self.is_number() else Node("negative", (self,))

    def __abs__(self) -> "Node":
        return constant(abs(self.value)) if self.is_number() else Node("absolute", (self,))

    def __pow__(self, exponent: Any) -> "Node":
        """Return a power: of a whole number by products, so that the base may be negative; otherwise of a base >= 0."""
        if not isinstance(exponent, int):
            power = constant(exponent)
            return self if power.is_number(1.0) else Node("power", (self, power))
        if exponent < 1:
            raise DeclarationError(f"formulas have powers from 1 on, received {exponent}")
        return reduce(operator.mul, [self] * exponent)

    def __ne__(self, other: Any) -> "Node":  # type: ignore[override]
        return Node("differs", (self, constant(other)))

    def __bool__(self) -> bool:
        raise DeclarationError("a formula has no branches")

    def exp(self) -> "Node":
        """Return the exponential."""
        return constant(1.0) if self.is_number(0.0) else Node("exponential", (self,))

    def sqrt(self) -> "Node":
        """Return the root of a number that is not negative."""
        return self if self.is_number(0.0) or self.is_number(1.0) else Node("root", (self,))


def constant(value: Any) -> Node:
    """Return a number as a node, and a node unchanged."""
    return value if isinstance(value, Node) else Node("constant", (), float(value))


def inputs(count: int) -> list[Node]:
    """Return the inputs of a function, one per column."""
    return [Node("input", (), column) for column in range(count)]


def total(body: Node, coefficients: Array) -> Node:
    """Return the sum over all points of a coefficient times ``body``, a formula in their coordinates."""
    if body.points is None:
        # the same number for every point: the sum of the coefficients times it, in two parts without rounding
        first = math.fsum(coefficients)
        return body * first + body * math.fsum([*coefficients, -first])
    return Node("total", (body,), np.ascontiguousarray(coefficients, dtype=np.float64))


def greater(left: Node, right: Any) -> Node:
    """Return a condition, for :func:`select` only."""
    return Node("greater", (left, constant(right)))


def select(condition: Node, left: Any, right: Any) -> Node:
    """Return ``left`` where the condition holds, and ``right`` elsewhere."""
    return Node("select", (condition, constant(left), constant(right)))


def largest(left: Node, right: Any) -> Node:
    """Return the larger of two numbers."""
    return Node("maximum", (left, constant(right)))


def kernel_formula(
    kernel: Kernel, x: Sequence[Node], z: Sequence[Node], orders: Mapping[int, int] | None = None
) -> Node:
    """Return k(x, z) as a formula in the coordinates of both, or its derivative of these orders, by column, in z.

    A kernel that has no such formula is refused.
    """
    try:
        return constant(differentiate_formula(kernel.exact_formula(constant, len(x)), x, z, {}, orders or {}))
    except (AttributeError, TypeError, DataError, DeclarationError) as error:
        raise DeclarationError(
            f"{kernel!r} has no formula of exponentials, roots and powers, of which a graph of ONNX is made; fit "
            "with RBF, Laplacian, Matern, PowerExponential, Polynomial, Linear or Categorical "
            "of substrate.kernels, or sums, products and Componentwise of them"
        ) from error


def add_outputs(left: Iterable[Node], right: Iterable[Any]) -> list[Node]:
    """Return the sums of two lists of outputs, nodes or numbers."""
    return [first + second for first, second in zip(left, right, strict=True)]


def expand_kernel(
    kernel: Kernel, points: Any, coefficients: Array, x: Sequence[Node], orders: Mapping[int, int] | None = None
) -> list[Node]:
    """Return the expansions on these points, one per column of the coefficients.

    With ``orders``, by column, the expansions have the derivatives of the kernel at the points. Points that count in no
    output are left out.
    """
    (used,) = np.nonzero(np.any(coefficients != 0.0, axis=1))
    if not used.size:
        return [constant(0.0)] * coefficients.shape[1]
    values = np.ascontiguousarray(to_dense(points[used]), dtype=np.float64)
    z = [Node("coordinate", (), column, values) for column in range(values.shape[1])]
    body = kernel_formula(kernel, x, z, orders)
    return [total(body, coefficients[used, column]) for column in range(coefficients.shape[1])]


def expand_linear(numbers: Sequence[int], center: Array, slopes: Array, x: Sequence[Node]) -> list[Node]:
    """Return the weighted sums of some columns, less their center."""
    centred = [x[number] - c for number, c in zip(numbers, center, strict=True)]
    return [
        sum((constant(w) * value for w, value in zip(slopes[:, output], centred, strict=True)), constant(0.0))
        for output in range(slopes.shape[1])
    ]


class Output(NamedTuple):
    """A named result: one node per entry, its shape for one row, and the labels that its numbers stand for."""

    name: str
    nodes: tuple[Node, ...]
    shape: tuple[int, ...]
    labels: NDArray[Any] | None = None


class NodeProgram(NamedTuple):
    """The outputs of a function of ``n_inputs`` numbers."""

    n_inputs: int
    outputs: Sequence[Output]


def order_nodes(roots: Iterable[Node]) -> list[Node]:
    """Return all nodes that some need, each once and after its operands; a sum over many columns is a deep tree."""
    order: dict[Node, None] = {}
    waiting = list(roots)[::-1]
    while waiting:
        missing = [operand for operand in waiting[-1].operands if operand not in order]
        if missing:
            waiting.extend(missing)
        else:
            order.setdefault(waiting.pop())
    return list(order)
