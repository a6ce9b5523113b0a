"""The form of a machine in which every vector of values is a variable of its own.

The values of f, of components and of gradients become variables, defined by equalities; terms and constraints are then
written on these. cvxpy compiles what is sparse; the definitions, which hold the matrices of kernel values, are appended
to its numbers as they are, so that no dense matrix passes through the compilation.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from substrate.arrays import Array
from substrate.composition.compiled import CompiledSubstrate
from substrate.composition.conic import StandardForm, StandardNumbers

__all__ = ["Definition", "LiftedForm", "lift"]


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """``values[:, c] = rows @ z[:, c] + shift[c]`` for every column c; ``key`` is the identity of its multipliers.

    ``leaf`` is the identity of the place-holder's variable.
    """

    values: Any
    rows: Array
    z: Any
    shift: Any
    leaf: int = 0
    key: int = field(default_factory=cp.lin_ops.lin_utils.get_id)


def lift(compiled: Iterable[CompiledSubstrate]) -> tuple[dict[int, Any], list[Definition]]:
    """Return replacements of the place-holders in which every vector of values is a variable, and its definitions."""
    exchange: dict[int, Any] = {}
    definitions = []
    for substrate in compiled:
        exchange |= substrate.replacements()
        for key, rows, shifted in substrate.definitions():
            values = cp.Variable(exchange[key].shape, name="values")
            exchange[key] = values
            definitions.append(
                Definition(
                    values=values, rows=rows, z=substrate.z, shift=substrate.shift if shifted else None, leaf=key
                )
            )
    return exchange, definitions


class LiftedForm(StandardForm):
    """The numbers of a compiled program with definitions appended: further variables, and a row for each value.

    ``width`` and ``height_before`` are the numbers of variables and of rows that cvxpy knows.
    """

    def __init__(self, program: Any, solver: str, definitions: Iterable[Definition]) -> None:
        super().__init__(program, solver)
        self.width, self.height_before = int(program.x.size), self.height
        size = self.width
        blocks = []
        defined = self.definitions = tuple(definitions)
        for variable in dict.fromkeys(
            v for definition in defined for v in (definition.values, definition.z, definition.shift) if v is not None
        ):
            if variable.id not in self.columns:
                self.columns[variable.id] = size
                size += variable.size
        for definition in defined:
            blocks.append(self._rows(definition, size))
            rows = slice(self.height, self.height + definition.values.size)
            self.keys.append(definition.key)
            self.cones.append(("Zero", rows, [definition.values.size]))
            self.height = rows.stop
        self._size = size
        self._below = sp.vstack(blocks, format="csr") if blocks else sp.csr_array((0, size))

    def numbers(self) -> StandardNumbers:
        """Return the numbers at the parameters' present values."""
        before = self._at[0]
        numbers_before = self._at[1]
        P, q, A, b = super().numbers()
        if self._at[0] == before:
            return numbers_before
        more = self._size - self.width
        P = sp.csr_array(sp.block_diag([P, sp.csr_array((more, more))])) if more else sp.csr_array(P)
        A = sp.csr_array(A)
        A.resize((A.shape[0], self._size))
        stacked = sp.csr_array(sp.vstack([A, self._below], format="csr"))
        self._at = (
            self._at[0],
            StandardNumbers(P, np.append(q, np.zeros(more)), stacked, np.append(b, np.zeros(self._below.shape[0]))),
        )
        return self._at[1]

    def assign(self, x: Array, variables: Iterable[Any]) -> None:
        """Give the variables that only definitions contain their values in x."""
        for variable in variables:
            start = self.columns.get(variable.id, -1)
            if start >= self.width:
                values = x[start : start + variable.size]
                variable.save_value(values.reshape(variable.shape, order="F"))

    def defining(self, z: Array) -> dict[int, Array]:
        """Return the multipliers of the definitions, as ``multipliers`` reads them."""
        return {
            key: self.sign * z[rows]
            for key, (_, rows, _) in zip(self.keys, self.cones, strict=True)
            if rows.start >= self.height_before and rows.stop > rows.start
        }

    def _rows(self, definition: Definition, size: int) -> Any:
        """Return values - rows z - shift, the entries of a row in the order of their columns."""
        n, r = definition.rows.shape
        blocks = []
        for c in range(definition.values.size // n):
            pieces = [
                (self.columns[definition.values.id] + c * n, None),
                (self.columns[definition.z.id] + c * r, definition.rows),
            ]
            if definition.shift is not None:
                pieces.append((self.columns[definition.shift.id] + c, np.ones((n, 1))))
            indices, data = [], []
            for start, matrix in sorted(pieces, key=lambda piece: piece[0]):
                width = 1 if matrix is None else matrix.shape[1]
                at = np.broadcast_to(np.arange(start, start + width), (n, width))
                indices.append(at + np.arange(n)[:, None] if matrix is None else at)
                data.append(np.ones((n, 1)) if matrix is None else -matrix)
            every = np.hstack(data)
            ends = np.arange(n + 1) * every.shape[1]
            blocks.append(sp.csr_array((every.ravel(), np.hstack(indices).ravel(), ends), (n, size)))
        return blocks[0] if len(blocks) == 1 else sp.vstack(blocks, format="csr")
