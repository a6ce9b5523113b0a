"""Machines whose losses are sums over their rows, solved and certified row by row, before anything is compiled."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Certificate, Row
from substrate.certificates.rows import Accuracy
from substrate.composition.largest_loss import LargestLoss, LargestPoint, read_largest_loss, solve_largest
from substrate.composition.level import Substrate
from substrate.composition.outputs import Outputs
from substrate.composition.result import KernelExpansion
from substrate.composition.row_check import RowCheck, is_known
from substrate.composition.row_losses import RowLosses, read_row_losses
from substrate.composition.row_path import follow_rows
from substrate.composition.row_solution import RowPoint, solve_rows
from substrate.composition.span import SubstrateSpan, value_of_holder
from substrate.ingredients import zero_sum_row

__all__ = ["ROWS", "RowMethod", "RowSolution"]

#: The name of the method on a certificate.
ROWS = "ROWS"
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class RowSolution:
    """A solution: coefficients, bias, and what shows that they are near the optimum."""

    check: RowCheck
    a: Array
    b: float
    label: str

    @cached_property
    def own_rows(self) -> tuple[Accuracy, tuple[Row, ...], float]:
        """Return the bound on the answer, the other rows and the objective."""
        return self.rows(self.a, self.b)

    def rows(self, a: Array, b: float) -> tuple[Accuracy, tuple[Row, ...], float]:
        """Return the same of other coefficients."""
        accuracy, rows, objective = self.check.rows(a, b, _TOLERANCE, self.label)
        s = self.check.substrate
        if s.bias:
            largest = float(np.abs(s.gram.diagonal).max()) or 1.0
            unit = float(np.abs(s.y).max()) or 1.0
            row = zero_sum_row(a, _TOLERANCE, np.array([unit / largest]))
            if self.label:
                row = Row(f"{self.label}: {row.name}", row.value, row.scale, row.tolerance, row.formula)
            rows = (*rows, row)
        return accuracy, rows, objective

    def worst(self) -> float:
        """Return the largest share of its tolerance that a row takes."""
        accuracy, rows, _ = self.own_rows
        return max(row.relative / row.tolerance for row in (accuracy, *rows))

    def expansion(self) -> KernelExpansion:
        """Return the solution as plain numbers."""
        s, a, b = self.check.substrate, self.a, self.b
        products = s.gram.product(a)
        f = products + b
        return KernelExpansion(
            substrate=s,
            alpha=s.signs * a,
            b=b,
            e=s.y - f if s.task == "regression" else 1.0 - s.y * f,
            f=f,
            squared_norm=max(float(a @ products), 0.0),
            maximal_variation=_variation(s, a, products),
        )

    def certificate(self, facts: Sequence[tuple[str, str]], a: Array, b: float) -> Certificate:
        """Return the report on coefficients and a bias."""
        accuracy, rows, _ = self.own_rows if a is self.a and b == self.b else self.rows(a, b)
        s = self.check.substrate
        before = [*s.gram.record(), ("coordinates", "coefficients of the rows, uncut")]
        if s.ridge > 0.0:
            before.append(("ridge", f"{s.ridge:g}/2 w'w is part of the objective"))
        before = [(f"{self.label}: {name}" if self.label else name, value) for name, value in before]
        return Certificate("Machine", (accuracy, *rows), (*before, *facts))


def _variation(s: Substrate, a: Array, products: Array) -> Array:
    """Return the largest size of each component at the training rows."""
    if len(s.components) == 1:
        return np.array([float(np.abs(products).max())])
    return np.array([float(np.abs(s.kernel_rows(None, part) @ a).max()) for part in range(len(s.components))])


class RowMethod:
    """The method for one machine: one substrate on all its rows, w'w, and a loss of every row."""

    def __init__(self, objective: Any, substrate: Substrate, label: str) -> None:
        self._objective, self._substrate, self._label = objective, substrate, label
        self._mentioned = _mentioned(objective, substrate)
        self._start: RowPoint | None = None
        #: The weight of w'w and the losses that the latest point is of.
        self._solved: tuple[float, RowLosses] | None = None
        self._read_at: list[Array] = []

    @classmethod
    def of(
        cls, objective: Any, constraints: Sequence[Any], substrates: Sequence[Substrate], outputs: Outputs, label: str
    ) -> "RowMethod | None":
        """Return the method where it applies to a declaration, for all values that its parameters may take."""
        if constraints or len(substrates) != 1 or not is_known(substrates[0]):
            return None
        if not all(len(terms) == 1 and terms[0] is substrates[0] for terms in outputs.terms.values()):
            return None
        parameters = objective.parameters()
        if not all(parameter.is_nonneg() for parameter in parameters) or not objective.is_dcp(dpp=True):
            return None
        if not objective.is_convex():
            return None
        method = cls(objective, substrates[0], label)
        # the form of the losses does not depend on the size of a weight
        kept = [parameter.value for parameter in parameters]
        for parameter in parameters:
            parameter.save_value(np.ones(parameter.shape))
        try:
            known = method.read() is not None
        finally:
            for parameter, value in zip(parameters, kept, strict=True):
                parameter.save_value(value)
        return method if known else None

    def read(self) -> tuple[float, RowLosses | LargestLoss] | None:
        """Return the weight of w'w and the losses at the present values of the parameters."""
        leaves = self._mentioned
        if "f" not in leaves or set(leaves) - {"f", "squared_norm"}:
            return None
        half = 0.5 * self._substrate.ridge
        if "squared_norm" not in leaves and not half > 0.0:
            return None
        given = self._objective, leaves["f"], leaves.get("squared_norm"), half
        return read_row_losses(*given) or read_largest_loss(*given)

    def solve(self, time_limit: float | None) -> RowSolution | str:
        """Return the solution, or the status of a method that failed."""
        read = self.read()
        if read is None:
            return ""
        p, losses = read
        s = self._substrate
        deviation = float(np.abs(s.y - (s.y.mean() if s.bias else 0.0)).max())
        spread = deviation or float(np.abs(s.y).max()) or 1.0
        deadline = None if time_limit is None else time.monotonic() + time_limit
        solution: RowSolution | str = ""
        for start in self._starts(p, losses, deadline):
            point: RowPoint | LargestPoint | str
            if isinstance(losses, LargestLoss):
                point = solve_largest(s.gram.matrix, losses, p, s.bias, spread, deadline)
            else:
                point = solve_rows(s.gram.matrix, losses, p, s.bias, spread, deadline, start)
            if isinstance(point, str):
                solution = point
                continue
            g, remainder, row = losses.balance(point.g, s.bias)
            check = RowCheck(substrate=s, losses=losses, p=p, g=g, remainder=remainder, row=row)
            solution = RowSolution(check=check, a=check.coefficients, b=point.b, label=self._label)
            if solution.worst() <= 1.0:
                break
        self._start, self._solved = None, None
        if isinstance(point, RowPoint) and isinstance(losses, RowLosses):
            self._start, self._solved = point, (p, losses)
        self._read_at = self._parameter_values()
        return solution

    def _starts(self, p: float, losses: RowLosses | LargestLoss, deadline: float | None) -> tuple[RowPoint | None, ...]:
        """Return where to begin, in turn: the latest point, followed to the present parameters if they are near, then
        anew.
        """
        start = self._start
        if start is None or self._solved is None or not isinstance(losses, RowLosses):
            return (None,)
        s = self._substrate
        way = follow_rows(s.gram.matrix, s.bias, start, self._solved, (p, losses), deadline)
        return (None,) if way.is_far else (way.point or start, None)

    def at_present_parameters(self, solution: RowSolution) -> RowSolution:
        """Return the same coefficients as a solution at the present values of the parameters, good or bad."""
        values = self._parameter_values()
        read = None if all(map(np.array_equal, values, self._read_at)) else self.read()
        if read is None:
            return solution
        return replace(solution, check=replace(solution.check, p=read[0], losses=read[1]))

    def _parameter_values(self) -> list[Array]:
        return [np.array(parameter.value) for parameter in self._objective.parameters()]

    def write_back(self, solution: RowSolution) -> None:
        """Assign values to the user's place-holders, those of other machines and of later questions included."""
        leaves = {id(leaf) for leaf in self._mentioned.values()}
        span = SubstrateSpan.of(self._substrate, tuple(h for h in self._substrate.holders() if id(h.leaf) in leaves))
        self._substrate.remember(partial(value_of_holder, span, solution.a, solution.b))


def _mentioned(objective: Any, substrate: Substrate) -> dict[str, Any]:
    """Return the leaves of the substrate in the objective by role; a role of its own for what this method lacks."""
    present = {id(variable) for variable in objective.variables()}
    leaves = {}
    for holder in substrate.holders():
        if id(holder.leaf) in present:
            leaves[holder.role if holder.points is None else f"{holder.role} elsewhere"] = holder.leaf
            present.discard(id(holder.leaf))
    return leaves if not present else {**leaves, "other": None}
