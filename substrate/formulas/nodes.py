r"""The nodes of a formula: numbers that remember how they were made.

.. math:: f(x) = \sum_i \alpha_i k(x, z_i) + b

is a node: a sum over points of a formula in the inputs :math:`x_c` and the coordinates :math:`z_c`. Nodes have the
operators of numbers with ``exp`` and ``sqrt``, which is what a kernel's formula for proofs asks of its arithmetic, so
the formula of a kernel is found by calling it with nodes. What is exact in every arithmetic is simplified at once: a
zero that is added, a factor of one, a number less itself.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.errors import DataError, DeclarationError
from substrate.kernels import Kernel

__all__ = [
    "Node",
    "Points",
    "Table",
    "chain",
    "constant",
    "greater",
    "inputs",
    "interpolate",
    "kernel_formula",
    "largest",
    "select",
    "sum_of",
    "total",
]


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """The points :math:`z_i` of an expansion, one per row."""

    values: Array

    def coordinates(self) -> list["Node"]:
        """Return the coordinates of a point, for the formula that is summed over all of them."""
        return [Node("coordinate", (), (self, column)) for column in range(self.values.shape[1])]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A function by its ``values``: at the sorted ``places`` and linear between them, or between and at them."""

    places: Array
    values: Array


class Node:
    """One operation on other nodes; ``value`` is what else it needs: a number, a column, a table, coefficients."""

    __slots__ = ("operands", "operation", "value")

    def __init__(self, operation: str, operands: tuple["Node", ...] = (), value: Any = None) -> None:
        self.operation, self.operands, self.value = operation, operands, value

    def is_number(self, number: float | None = None) -> bool:
        """Return whether this is a constant, or this constant."""
        return self.operation == "constant" and (number is None or self.value == number)

    def __add__(self, other: Any) -> "Node":
        left, right = self, constant(other)
        if right.is_number(0.0):
            return left
        return right if left.is_number(0.0) else Node("add", (left, right))

    def __radd__(self, other: Any) -> "Node":
        return constant(other) + self

    def __sub__(self, other: Any) -> "Node":
        right = constant(other)
        if right.is_number(0.0):
            return self
        return constant(0.0) if right is self else Node("subtract", (self, right))

    def __rsub__(self, other: Any) -> "Node":
        return constant(other) - self

    def __mul__(self, other: Any) -> "Node":
        left, right = self, constant(other)
        if left.is_number(0.0) or right.is_number(1.0):
            return left
        return right if left.is_number(1.0) or right.is_number(0.0) else Node("multiply", (left, right))

    def __rmul__(self, other: Any) -> "Node":
        return constant(other) * self

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
        square, product = self, None
        while exponent:
            if exponent & 1:
                product = square if product is None else product * square
            exponent >>= 1
            square = square * square if exponent else square
        assert product is not None
        return product

    def __ne__(self, other: Any) -> "Node":  # type: ignore[override]
        return Node("differs", (self, constant(other)))

    def __eq__(self, other: Any) -> "Node":  # type: ignore[override]
        return constant(1.0) - Node("differs", (self, constant(other)))

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise DeclarationError("a formula has no branches")

    def exp(self) -> "Node":
        """Return the exponential."""
        return constant(1.0) if self.is_number(0.0) else Node("exponential", (self,))

    def sqrt(self) -> "Node":
        """Return the root of a number that is not negative."""
        return self if self.is_number(0.0) or self.is_number(1.0) else Node("root", (self,))


def constant(value: Any) -> Node:
    """Return a number as a node; a node as it is."""
    return value if isinstance(value, Node) else Node("constant", (), float(value))


def inputs(count: int) -> list[Node]:
    """Return the inputs of a function, one per column."""
    return [Node("input", (), column) for column in range(count)]


def total(body: Node, coefficients: Array) -> Node:
    """Return the sum over all points of a coefficient times ``body``, a formula in their coordinates."""
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


def interpolate(argument: Node, places: Array, values: Array) -> Node:
    """Return a function that is linear between sorted places, and constant beyond them, as ``numpy.interp`` is."""
    return constant(values[0]) if places.size == 1 else Node("interpolate", (argument,), Table(places, values))


def chain(values: Iterable[Node], operation: Any) -> Node:
    """Return one node for several, joined from the left."""
    first, *others = values
    for node in others:
        first = operation(first, node)
    return first


def sum_of(values: Iterable[Node]) -> Node:
    """Return the sum; zero of nothing."""
    return chain([constant(0.0), *values], lambda left, right: left + right)


def kernel_formula(kernel: Kernel, x: Sequence[Node], z: Sequence[Node]) -> Node:
    """Return k(x, z) as a formula in the coordinates of both; a kernel that has none is refused."""
    try:
        return constant(kernel.exact_formula(constant, len(x))(x, z))
    except (AttributeError, TypeError, DataError, DeclarationError) as error:
        raise DeclarationError(
            f"{kernel!r} has no formula of exponentials, roots and powers, of which a graph of ONNX is made; fit "
            "with RBF, Laplacian, Matern (nu = 0.5, 1.5 or 2.5), PowerExponential, Polynomial, Linear or Categorical "
            "of substrate.kernels, or sums, products and Componentwise of them"
        ) from error
