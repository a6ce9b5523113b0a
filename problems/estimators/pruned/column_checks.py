"""Certificates and proofs of machines on some columns of the LS-SVM's system, from what ``predict`` uses."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from problems.estimators.shared.machine_rows import each_machine, points_of
from substrate.arrays import Array, positive
from substrate.certificates import NO_BOUND, Certificate, Row
from substrate.certificates.rows import Accuracy
from substrate.closed_form.answer import Question, certified
from substrate.closed_form.column_accuracy import (
    ColumnFactor,
    ColumnMachine,
    careful_column_accuracy,
    column_accuracy,
    kept_values,
)
from substrate.closed_form.column_reduction import ColumnSolution, column_rows
from substrate.closed_form.saddle_certificate import saddle_rows, worst_rows
from substrate.closed_form.saddle_system import bordered_target, ridge_of
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.proof import Proof
from substrate.proof.least_squares import prove_expansion, prove_kept_columns

__all__ = [
    "Facts",
    "HeldMachine",
    "bounded_columns",
    "certify_columns",
    "certify_kept_columns",
    "certify_kept_rows",
    "prove_columns",
    "prove_kept_rows",
    "worst_machines",
]

Facts = tuple[tuple[str, str], ...]

_DEPENDENT = (NO_BOUND, "the kept columns are dependent up to rounding, and a cut-off decides among their solutions")
_UNKNOWN = ("rounding", "double precision cannot give the answer to this tolerance; scale the columns, or lower gamma")


@dataclass(frozen=True, slots=True)
class HeldMachine:
    """One machine of a model: its rows, their labels, the kept ones, and its coefficients.

    ``fitted`` is what predict returns for the rows; coefficients are in regression's sign. ``tolerance`` is the
    accuracy required, as a share of the spread of y.
    """

    points: Any
    y: Array
    columns: Any
    gamma: float
    bias: float
    coefficients: Array
    fitted: Array
    tolerance: float

    def prove(self, kernel: Kernel) -> Proof:
        """The proof of least squares on the columns kept."""
        return prove_kept_columns(
            kernel, self.points, self.y, self.gamma, self.columns, self.coefficients, self.bias, self.fitted,
            tolerance=self.tolerance,
        )  # fmt: skip


def bounded_columns(
    gram: Gram, kernel: Kernel, points: Any, y: Array, ridge: Array, columns: Any, solved: ColumnSolution,
    tolerance: float,
) -> tuple[tuple[Row, ...], Facts]:  # fmt: skip
    """The accuracy of a new solution: first by the given matrix, then, if needed, in doubled precision."""
    if not solved.full:
        return (), (_DEPENDENT,)
    machine = ColumnMachine(y, columns, ridge[columns], solved.bias, solved.coefficients, gram.diagonal)
    values = np.ascontiguousarray(gram.matrix[:, columns])
    factor = solved.factor or ColumnFactor.of_columns(machine.bordered(values))
    p, pairwise = kernel.rounding(points), kernel.pairwise
    row = column_accuracy(machine, values, p, factor, pairwise=pairwise, tolerance=tolerance)
    if row.passes:
        return (row,), ()
    fitted = values @ solved.coefficients + solved.bias
    return _carefully(kernel, points, machine, fitted, tolerance)


def _carefully(
    kernel: Kernel, points: Any, machine: ColumnMachine, fitted: Array, tolerance: float
) -> tuple[tuple[Row, ...], Facts]:
    values = kept_values(kernel, points, machine.columns)
    factor, p = ColumnFactor.of_columns(machine.bordered(values)), kernel.careful_rounding(points)
    row = careful_column_accuracy(machine, values, p, factor, fitted, pairwise=kernel.pairwise, tolerance=tolerance)
    if np.isfinite(row.value):
        return (row,), () if row.passes else (_UNKNOWN,)
    return (), (_DEPENDENT,)


def certify_kept_columns(kernel: Kernel, held: HeldMachine) -> tuple[tuple[Row, ...], Facts]:
    """Least squares on the kept columns, all rows, for the present coefficients."""
    diagonal, ridge = kernel.diag(held.points), ridge_of(held.gamma, np.ones(held.columns.size))
    machine = ColumnMachine(held.y, held.columns, ridge, held.bias, held.coefficients, diagonal)
    bounded, facts = _carefully(kernel, held.points, machine, held.fitted, held.tolerance)
    C = machine.bordered(kept_values(kernel, held.points, held.columns))
    kept = np.arange(held.columns.size)
    return (*bounded, *column_rows(C, kept, bordered_target(held.y), held.bias, held.coefficients)), facts


def certify_kept_rows(kernel: Kernel, held: HeldMachine) -> tuple[tuple[Row, ...], Facts]:
    """The LS-SVM of the kept patterns alone, for the present coefficients."""
    kept, n = held.columns, held.columns.size
    gram = Gram.of(kernel, points_of(held.points, kept, kernel.pairwise))
    if not kernel.trusted:
        gram.check_definite()
    y, ridge, a = held.y[kept], ridge_of(held.gamma, np.ones(n)), held.coefficients
    points = points_of(held.points, kept, kernel.pairwise)
    question = Question(kernel, points, y[:, None], (held.gamma,), np.ones(n), gram.negative, held.tolerance)
    answer = certified(question, a[:, None], np.array([held.bias]), held.fitted[kept][:, None], None)
    return (*answer.rows, *saddle_rows(gram.product(a), gram.diagonal, y, ridge, a, held.bias)), answer.facts


def prove_kept_rows(kernel: Kernel, held: HeldMachine) -> Proof:
    """The proof of the LS-SVM of the kept patterns."""
    kept, points = held.columns, points_of(held.points, held.columns, kernel.pairwise)
    predicted, ones = held.fitted[kept], np.ones(kept.size)
    stored = (held.coefficients, held.bias, predicted)
    return prove_expansion(kernel, points, held.y[kept], held.gamma, ones, *stored, tolerance=held.tolerance)


def worst_machines(rows: list[tuple[Row, ...]]) -> tuple[Row, ...]:
    """The rows of the worst machine; where one has no bound, there is none for all."""
    if all(any(isinstance(row, Accuracy) for row in of_one) for of_one in rows):
        return worst_rows(rows)
    return worst_rows([tuple(row for row in of_one if not isinstance(row, Accuracy)) for of_one in rows])


def certify_columns(model: Any, X: Any, Y: Array, title: str) -> Certificate:
    """The certificate of all machines of a model, with the rows of the worst."""
    rows: list[tuple[Row, ...]] = []
    facts: dict[tuple[str, str], None] = {("kernel", repr(model.kernel_)): None}
    for held in _held(model, X, Y):
        found, more = model._certified_machine(held)
        rows.append(found)
        facts |= dict.fromkeys(more)
    return Certificate(title, worst_machines(rows), tuple(facts))


def prove_columns(model: Any, X: Any, Y: Array) -> Proof:
    """The proof of all machines of a model, that of the worst."""
    proofs: list[Proof] = [model._proved_machine(held) for held in _held(model, X, Y)]
    return min(proofs, key=lambda one: (one.digits, -one.accuracy))


def _held(model: Any, X: Any, Y: Array) -> Iterator[HeldMachine]:
    """Every machine of a model, on the training rows."""
    a = np.reshape(model._coefficients(), (model.support_.size, Y.shape[1]))
    bias, kernel = np.atleast_1d(model.bias_), model.kernel_
    fitted = np.reshape(model._evaluated(X), (X.shape[0], -1))
    for one in each_machine(Y, True):
        members, column = one.rows, one.column
        used = np.flatnonzero(a[:, column])
        # a coefficient on a row outside this machine is not one of its columns
        place = np.searchsorted(members, model.support_[used])
        inside = place < members.size
        inside[inside] = members[place[inside]] == model.support_[used][inside]
        yield HeldMachine(
            one.points(X, kernel.pairwise), one.y, place[inside],
            positive(model.gamma, "gamma"), float(bias[column]), np.ascontiguousarray(a[used[inside], column]),
            np.ascontiguousarray(fitted[members, column]), model._tolerance(),
        )  # fmt: skip
