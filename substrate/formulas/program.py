"""A formula as a list of operations, each once and after its operands: what is evaluated, bounded and written.

Operations are of two kinds: those of a row, and those inside the sum over some points, once for each of them. No
operation inside a sum reads another sum, so that a program is: operations on the inputs, the sums, and what follows.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.errors import DeclarationError
from substrate.formulas.nodes import Node, Points, constant

__all__ = ["Instruction", "Output", "Program", "compute_instruction"]


class Instruction(NamedTuple):
    """One operation on the results of earlier ones, by their numbers; ``points`` are those of the sum it is inside."""

    operation: str
    operands: tuple[int, ...]
    value: Any
    points: Points | None
    after_sums: bool


class Output(NamedTuple):
    """A named result: one node per entry, its shape for one row, and the labels that its numbers stand for."""

    name: str
    nodes: tuple[Node, ...]
    shape: tuple[int, ...]
    labels: NDArray[Any] | None = None


@dataclass(frozen=True)
class Program:
    """The operations of all outputs of a function of ``n_inputs`` numbers, and the numbers of its results."""

    n_inputs: int
    instructions: tuple[Instruction, ...]
    outputs: tuple[Output, ...]
    results: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, n_inputs: int, outputs: Sequence[Output]) -> "Program":
        """Put the operations of the outputs in order; equal ones are one."""
        builder = _Builder()
        results = tuple(tuple(builder.number(node) for node in output.nodes) for output in outputs)
        return cls(n_inputs, tuple(builder.instructions), tuple(outputs), results)

    def evaluate(self, X: Array) -> dict[str, Any]:
        """Return the outputs at the rows of X in double precision, as numpy computes them."""
        values: list[Any] = []
        with np.errstate(all="ignore"):
            for instruction in self.instructions:
                values.append(compute_instruction(instruction, [values[number] for number in instruction.operands], X))
        answers = {}
        for output, numbers in zip(self.outputs, self.results, strict=True):
            columns = [np.broadcast_to(values[number], (X.shape[0], 1)) for number in numbers]
            answer = np.concatenate(columns, axis=1).reshape(X.shape[0], *output.shape)
            answers[output.name] = answer if output.labels is None else output.labels[answer.astype(np.intp)]
        return answers


def compute_instruction(instruction: Instruction, operands: list[Any], X: Array) -> Any:
    """Return the values of one operation: a column for rows, a matrix inside a sum."""
    operation, value = instruction.operation, instruction.value
    if operation == "input":
        return X[:, [value]]
    if operation == "coordinate":
        points, column = value
        return points.values[None, :, column]
    if operation == "constant":
        return np.full((1, 1), value)
    if operation == "total":
        return operands[0] @ value[:, None]
    if operation == "interpolate":
        return np.interp(operands[0], value.places, value.values)
    return _OPERATIONS[operation](*operands)


_OPERATIONS: Mapping[str, Any] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "negative": np.negative,
    "absolute": np.abs,
    "exponential": np.exp,
    "root": np.sqrt,
    "power": np.power,
    "maximum": np.maximum,
    "greater": np.greater,
    "differs": lambda left, right: np.not_equal(left, right).astype(np.float64),
    "select": np.where,
}


class _Builder:
    """Numbers the nodes, children first and without recursion: a sum over many columns is a deep tree."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self._known: dict[Any, int] = {}
        self._numbers: dict[Node, int] = {}

    def number(self, root: Node) -> int:
        """Return the number of a node, after those of its operands."""
        waiting = [root]
        while waiting:
            node = waiting[-1]
            missing = [operand for operand in node.operands if operand not in self._numbers]
            if missing:
                waiting.extend(missing)
                continue
            waiting.pop()
            if node not in self._numbers:
                self._numbers[node] = self._place(node)
        return self._numbers[root]

    def _place(self, node: Node) -> int:
        operands = tuple(self._numbers[operand] for operand in node.operands)
        if node.operation == "total" and self.instructions[operands[0]].points is None:
            # the same number for every point: the sum of the coefficients times it, in two parts without rounding
            first = math.fsum(node.value)
            second = math.fsum([*node.value, -first])
            return self.number(node.operands[0] * constant(first) + node.operands[0] * constant(second))
        points = node.value[0] if node.operation == "coordinate" else _shared(self.instructions, operands)
        after = node.operation == "total" or any(self.instructions[number].after_sums for number in operands)
        if points is not None and node.operation != "total" and after:
            raise DeclarationError("a sum over points inside another sum is no formula of a machine")
        key = (node.operation, operands, _key(node.value))
        if key not in self._known:
            self._known[key] = len(self.instructions)
            inside = None if node.operation == "total" else points
            self.instructions.append(Instruction(node.operation, operands, node.value, inside, after))
        return self._known[key]


def _key(value: Any) -> Any:
    """Return what two equal values have in common: numbers and columns themselves, tables and arrays their identity."""
    if isinstance(value, tuple):
        return tuple(_key(part) for part in value)
    return value if isinstance(value, (int, float)) else id(value)


def _shared(instructions: Sequence[Instruction], operands: Iterable[int]) -> Points | None:
    """Return the points that operands are inside the sum of."""
    found = {id(p): p for number in operands if (p := instructions[number].points) is not None}
    if len(found) > 1:
        raise DeclarationError("an operation on the coordinates of two sets of points is no formula of a machine")
    return next(iter(found.values()), None)
