"""Machines whose losses are sums over their rows, solved and certified row by row, before anything is compiled."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.bounds.proof import Proof, ball_matrix, prove_rows
from substrate.bounds.rows import FORMULA, EnclosedKernel, ExpansionPoint, RowMachine, bound_rows, optimality_rows
from substrate.certificate import UNPOLISHED, Accuracy, Certificate, Row, Tolerance
from substrate.declare.outputs import Outputs, scale_of_targets
from substrate.declare.row_reader import ReadLosses, read_row_losses
from substrate.declare.solvers import OUT_OF_TIME, Attempt
from substrate.declare.span import KernelExpansion, SubstrateSpan
from substrate.errors import SolverError
from substrate.fits.row_newton import GramRows, RowPoint, solve_rows
from substrate.ingredients import zero_sum_row
from substrate.losses import PieceLoss
from substrate.operators.border import NO_BORDER, ONES

__all__ = ["ROWS", "RowMethod", "RowSolution"]

#: The name of the method on a certificate.
ROWS = "ROWS"
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class RowSolution:
    """A solution: coefficients, bias, the slopes of the losses, and the machine that they are of."""

    substrate: Any
    read: ReadLosses
    a: Array
    b: float
    g: Array
    label: str

    @cached_property
    def own_rows(self) -> tuple[Accuracy, tuple[Row, ...], float]:
        """Return the bound on the answer, the other rows and the objective."""
        s, a, b, (p, losses, constant) = self.substrate, self.a, self.b, self.read
        f = s.gram.product(a) + b
        machine = self._machine(f)
        spread, rounding = scale_of_targets(s.y, machine.weights)
        enough = UNPOLISHED * max(spread, rounding / UNPOLISHED)
        bound = bound_rows(machine, ExpansionPoint(EnclosedKernel(s.gram.enclose(s.X)), a), self.g, enough)
        about = f"{bound.about} of {self.label}" if self.label else bound.about
        accuracy = Tolerance(UNPOLISHED, spread, rounding).row(bound.radius, FORMULA, about)
        rows = optimality_rows(machine, a, f, bound.gap, s.y, _TOLERANCE)
        if s.bias:
            unit, largest = float(np.abs(s.y).max()) or 1.0, float(np.abs(s.gram.diagonal).max()) or 1.0
            rows = (*rows, zero_sum_row(a, _TOLERANCE, np.array([unit / largest])))
        if self.label:
            rows = tuple(replace(row, name=f"{self.label}: {row.name}") for row in rows)
        return accuracy, rows, p * float(a @ (f - b)) + constant + float(losses.values(f).sum())

    def _machine(self, fitted: Array) -> RowMachine:
        """Return the machine to be bounded, with what predict returns for its rows."""
        border = ONES if self.substrate.bias else NO_BORDER
        return RowMachine(self.read.losses, 2.0 * self.read.norm, border, self._weights(), self.b, fitted)

    def prove(self, fitted: Array) -> Proof:
        """Bound the distance of fitted values from the exact optimum in ball arithmetic."""
        s, machine = self.substrate, self._machine(fitted)

        def enclose() -> ExpansionPoint:
            return ExpansionPoint(EnclosedKernel(ball_matrix(s.kernel, s.X)), self.a)

        return prove_rows(machine, enclose, self.g, s.y, machine.weights, UNPOLISHED)

    def _weights(self) -> Array:
        """Return the weights of squared errors, or ones."""
        losses = self.read.losses
        if isinstance(losses, PieceLoss) and (losses.curvature.min(axis=1) > 0.0).all():
            return np.asarray(losses.curvature.min(axis=1))
        return np.ones(losses.n)

    def worst(self) -> float:
        """Return the largest share of its tolerance that a row takes."""
        accuracy, rows, _ = self.own_rows
        return max(row.relative / row.tolerance for row in (accuracy, *rows))

    def expansion(self) -> KernelExpansion:
        """Return the solution as plain numbers."""
        return KernelExpansion.of(SubstrateSpan.of(self.substrate, ()), self.a, self.b)

    def certificate(self, facts: Sequence[tuple[str, str]]) -> Certificate:
        """Return the report on the solution."""
        accuracy, rows, _ = self.own_rows
        s = self.substrate
        before = [*s.gram.record(), ("coordinates", "coefficients of the rows, uncut")]
        before = [(f"{self.label}: {name}" if self.label else name, value) for name, value in before]
        return Certificate("Machine", (accuracy, *rows), (*before, *facts))


class RowMethod:
    """The method for one machine: one substrate on all its rows, w'w, and a loss of every row."""

    def __init__(self, objective: Any, substrate: Any, label: str) -> None:
        self._objective, self._substrate, self._label = objective, substrate, label
        self._mentioned = _mentioned(objective, substrate)
        self._start: RowPoint | None = None
        #: The losses where they depend on no parameter.
        self._losses: ReadLosses | None = None

    @classmethod
    def of(
        cls, objective: Any, constraints: Sequence[Any], substrates: Sequence[Any], outputs: Outputs, label: str
    ) -> "RowMethod | None":
        """Return the method where it applies to a declaration, for all values that its parameters may take."""
        if constraints or len(substrates) != 1 or not is_known(substrates[0]):
            return None
        if not all(len(terms) == 1 and terms[0] is substrates[0] for terms in outputs.values()):
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
            losses = method.read()
        finally:
            for parameter, value in zip(parameters, kept, strict=True):
                parameter.save_value(value)
        method._losses = None if parameters else losses
        return None if losses is None else method

    def read(self) -> ReadLosses | None:
        """Return the weight of w'w and the losses at the present values of the parameters."""
        leaves = self._mentioned
        if self._losses is not None or set(leaves) != {"f", "squared_norm"}:
            return self._losses
        return read_row_losses(self._objective, leaves["f"], leaves["squared_norm"])

    def solve(self, time_limit: float | None) -> "tuple[Attempt, RowSolution | None] | None":
        """Return how the method ended, and its solution; None if the objective is another one at these parameters."""
        read, start = self.read(), time.perf_counter()
        if read is None:
            return None
        s, losses, lam = self._substrate, read.losses, 2.0 * read.norm
        deviation = float(np.abs(s.y - (s.y.mean() if s.bias else 0.0)).max())
        spread = deviation or float(np.abs(s.y).max()) or 1.0
        deadline = None if time_limit is None else time.monotonic() + time_limit
        space = GramRows(s.gram.matrix, lam, np.ones((s.n, int(s.bias))))
        solution, status = None, ""
        # from the latest point, and anew if that does not lead to the optimum
        for first in (None,) if self._start is None else (self._start, None):
            try:
                point = solve_rows(space, losses, spread, deadline, first)
            except TimeoutError:
                solution, status = None, f"{OUT_OF_TIME} {time_limit:g} s"
                break
            except SolverError as error:
                solution, status = None, f"failed ({error})"
                continue
            b = float(point.c[0]) if s.bias else 0.0
            g = losses.limit_slopes(point.g)
            solution, status = RowSolution(substrate=s, read=read, a=-g / lam, b=b, g=g, label=self._label), "optimal"
            if solution.worst() <= 1.0:
                self._start = point
                break
        worst = np.inf if solution is None else solution.worst()
        seconds = time.perf_counter() - start
        return Attempt(ROWS, status, 1.0, worst, bool(worst <= 1.0), seconds), solution

    def of_coefficients(self, a: Array, b: float) -> RowSolution | None:
        """Return the solution of another solver at the present parameters; None where rows do not state the machine."""
        read = self.read()
        if read is None:
            return None
        g = read.losses.limit_slopes(-2.0 * read.norm * a)
        return RowSolution(substrate=self._substrate, read=read, a=a, b=b, g=g, label=self._label)


def is_known(substrate: Any) -> bool:
    """Return whether rows alone state a substrate: all rows, one output, a kernel that is positive by its formula."""
    kernel = substrate.kernel
    plain = substrate.basis is None and not substrate.columns
    plain = plain and substrate.y is not None and substrate.observed is None
    return plain and kernel.trusted and not kernel.pairwise


def _mentioned(objective: Any, substrate: Any) -> dict[str, Any]:
    """Return the leaves of the substrate in the objective by role; leaves that this method lacks have a separate
    role.
    """
    present = {id(variable) for variable in objective.variables()}
    leaves = {}
    for holder in substrate.holders():
        if id(holder.leaf) in present:
            leaves[holder.role if holder.points is None else f"{holder.role} elsewhere"] = holder.leaf
            present.discard(id(holder.leaf))
    return leaves if not present else {**leaves, "other": None}
