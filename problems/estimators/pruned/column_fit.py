"""The base of column-reduced classifiers: machines from a code book, columns from a rule, a solution on those.

Certificates and proofs are about the solution on the kept columns, from what ``predict`` uses.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Literal, Self

import numpy as np

from problems.estimators.shared.checked_again import Added, Facts, StoredFit, StoredMachine, definite_gram
from problems.estimators.shared.classifier import Classifier
from problems.estimators.shared.coded import Classes
from problems.estimators.shared.machine_rows import each_machine, points_of
from problems.estimators.shared.model import Model
from substrate.arrays import Array, positive
from substrate.certificates import NO_BOUND, Certificate, Row, warn_unless_holds
from substrate.certificates.enclosed import Double
from substrate.certificates.tolerance import Tolerance
from substrate.errors import DataError
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.column_reduction import (
    FORMULA,
    ColumnMachine,
    column_rows,
    enclose_columns,
    solve_columns,
)
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.saddle_certificate import worst_rows
from substrate.least_squares.saddle_system import bordered_matrix, bordered_target
from substrate.proof import Proof, tolerance_in_balls
from substrate.proof.least_squares import prove_kept_columns

__all__ = [
    "ColumnModel",
    "ColumnReducedClassifier",
    "Facts",
    "MachineGroup",
    "Reduced",
    "Selection",
    "StoredRows",
]

_DEPENDENT = (NO_BOUND, "the kept columns are dependent up to rounding, and a cut-off decides among their solutions")
_UNKNOWN = ("rounding", "double precision cannot give the answer to this tolerance; scale the columns, or lower gamma")


@dataclass(frozen=True, slots=True)
class MachineGroup:
    """Machines on the same rows: their kernel matrix, the matrix of (4) in regression's signs, columns of labels.

    Labels are signs of rows and columns only (see :mod:`substrate.least_squares.saddle_system`), so one matrix is
    shared by all of them.
    """

    gram: Gram
    matrix: Array
    labels: Array
    ridge: Array
    kernel: Kernel
    points: Any


@dataclass(frozen=True, slots=True)
class Selection:
    """The kept patterns of every machine, facts for the certificate, and numbers that become fitted attributes."""

    columns: tuple[Any, ...]
    facts: Facts
    measured: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reduced:
    """One machine on its kept patterns, coefficients in regression's sign; ``facts`` on its answer."""

    bias: float
    coefficients: Array
    rows: tuple[Row, ...]
    method: str
    facts: Facts = ()


@dataclass(frozen=True, slots=True)
class StoredRows:
    """One machine of a model on its rows.

    ``fitted`` is what predict returns for the rows; coefficients are in regression's sign. ``tolerance`` is the
    accuracy required, as a share of the spread of y.
    """

    points: Any
    machine: ColumnMachine
    fitted: Array
    tolerance: float


class ColumnModel(Model):
    """Machines on some of the columns of their systems."""

    def recall_codes(self, X: Any, y: Any) -> tuple[Any, Array]:
        """Return the rows of the fit and the codes of their labels."""
        model = self.estimator
        X, labels, _ = model._check_again(X, y, None, numeric=False)
        Y = model._codes_again(labels)
        last = int(model.support_.max(initial=-1))
        if last >= labels.size:
            raise DataError(f"the model was fitted to row {last}, these are {labels.size} rows")
        return X, Y

    def recall_fit(self, X: Any, y: Any, sample_weight: Any) -> AbstractContextManager[StoredFit]:
        """Return all machines on the data of the fit."""
        # the kept columns are chosen by a rule of the paper, not as an optimum: all is about the solution on them
        machines = (self.recall_machine(stored) for stored in self.check_rows(*self.recall_codes(X, y)))
        facts = (("kernel", repr(self.estimator.kernel_)),)
        return nullcontext(StoredFit(machines, lambda: ((), facts)))

    def recall_machine(self, stored: StoredRows) -> StoredMachine:
        """Return one machine on its kept columns; those are the columns of its nonzero coefficients."""
        return StoredColumns(self.estimator.kernel_, stored)

    def check_rows(self, X: Any, Y: Array) -> Iterator[StoredRows]:
        """Return every machine of this model, on the training rows."""
        model = self.estimator
        a = np.reshape(model._coefficients(), (model.support_.size, Y.shape[1]))
        bias, fitted = np.atleast_1d(model.bias_), np.reshape(self.evaluate(X), (X.shape[0], -1))
        for machine_rows in each_machine(Y, True):
            members, column = machine_rows.rows, machine_rows.column
            used = np.flatnonzero(a[:, column])
            # a coefficient on a row outside this machine is not one of its columns
            place = np.searchsorted(members, model.support_[used])
            inside = place < members.size
            inside[inside] = members[place[inside]] == model.support_[used][inside]
            machine = ColumnMachine(
                y=machine_rows.y,
                columns=place[inside],
                gamma=positive(model.gamma, "gamma"),
                bias=float(bias[column]),
                coefficients=np.ascontiguousarray(a[used[inside], column]),
            )
            yield StoredRows(
                points=machine_rows.points(X, model.kernel_.pairwise),
                machine=machine,
                fitted=np.ascontiguousarray(fitted[members, column]),
                tolerance=model._tolerance(),
            )


@dataclass(eq=False, repr=False)
class ColumnReducedClassifier(Classifier):
    """Base of the classifiers that keep some columns of the linear system of the LS-SVM."""

    _model_type: ClassVar[type[Model]] = ColumnModel
    _page = "column_reduced_ls_svm"
    _takes_weights = False
    gamma: float = 1.0
    _: KW_ONLY
    coding: str = "one_vs_rest"
    calibration: Literal["sigmoid", "isotonic"] | None = "sigmoid"

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows X and labels y of any kind."""
        self._begin_fit()
        gamma = positive(self.gamma, "gamma")
        self._check_coding()
        X, labels, _ = self._check_data(X, y, None, numeric=False)
        classes = Classes.of(labels, self.coding)
        Y = classes.codes(labels)
        self._check_parameters(int((Y != 0.0).sum(axis=0).min()))
        kernel = self._resolved_kernel(X)
        gram = definite_gram(kernel, X)
        alpha, bias, used = np.zeros_like(Y), np.empty(Y.shape[1]), np.zeros(Y.shape[0], dtype=bool)
        rows: list[tuple[Row, ...]] = []
        facts: dict[tuple[str, str], None] = {}
        measured: dict[str, float] = {}
        for machines, members in _groups(Y):
            gram_of_members = gram if members.size == gram.n else gram.restrict(members)
            ridge = Regularization(gamma).ridge(np.ones(members.size))
            codes = np.ascontiguousarray(Y[np.ix_(members, machines)])
            points = points_of(X, members, kernel.pairwise)
            group = MachineGroup(
                gram=gram_of_members,
                matrix=bordered_matrix(gram_of_members.matrix, ridge),
                labels=codes,
                ridge=ridge,
                kernel=kernel,
                points=points,
            )
            selected = self._select(group)
            solved = [self._solve(group, k, columns) for k, columns in enumerate(selected.columns)]
            for machine, columns, solution in zip(machines, selected.columns, solved, strict=True):
                alpha[members[columns], machine] = Y[members[columns], machine] * solution.coefficients
                bias[machine] = solution.bias
                used[members[columns]] = True
                rows.append(solution.rows)
            second = ("solved by", ", ".join(dict.fromkeys(solution.method for solution in solved)))
            answers = (fact for solution in solved for fact in solution.facts)
            facts |= dict.fromkeys(
                (*gram_of_members.record(), ("gamma", f"{gamma:g}"), *selected.facts, second, *answers)
            )
            measured |= {name: max(value, measured.get(name, value)) for name, value in selected.measured.items()}
        (kept,) = np.nonzero(used)
        single = Y.shape[1] == 1
        self._keep_classes(classes, Y[kept])
        self.n_support_ = int(kept.size)
        for name, value in measured.items():
            setattr(self, name, value)
        support = ("support vectors", f"{kept.size} of {Y.shape[0]} rows")
        self.certificate_ = Certificate(self._title, worst_rows(rows), (*facts, support))
        warn_unless_holds(self.certificate_)
        values = np.ascontiguousarray(alpha[kept, 0] if single else alpha[kept])
        self._keep_expansion(X, kept, kernel, values, float(bias[0]) if single else bias)
        return self

    @abstractmethod
    def _check_parameters(self, smallest: int) -> None:
        """Refuse bad parameters, given the number of rows of the smallest machine, before the kernel is computed."""

    @abstractmethod
    def _select(self, group: MachineGroup) -> Selection:
        """Choose the patterns that each machine of the group keeps."""

    def _solve(self, group: MachineGroup, machine: int, columns: Any) -> Reduced:
        """Solve least squares on the kept columns, all rows."""
        B = bordered_target(group.labels[:, machine])
        solved = solve_columns(group.matrix, columns, B)
        rows = column_rows(group.matrix, columns, B, solved.bias, solved.coefficients)
        method = f"least squares on the columns, {solved.method}"
        y = np.ascontiguousarray(B[1:])
        gamma = positive(self.gamma, "gamma")
        stored = ColumnMachine(y=y, columns=columns, gamma=gamma, bias=solved.bias, coefficients=solved.coefficients)
        bounded: tuple[Row, ...] = ()
        facts: Facts = (_DEPENDENT,)
        if solved.full:
            enclosed = enclose_columns(group.kernel, group.points, columns)
            bounded, facts = _bound_columns(stored, enclosed, None, self._tolerance())
        return Reduced(
            bias=solved.bias, coefficients=solved.coefficients, rows=(*bounded, *rows), method=method, facts=facts
        )


@dataclass(frozen=True, slots=True)
class StoredColumns:
    """Least squares on the kept columns, all rows, for the present coefficients."""

    kernel: Kernel
    stored: StoredRows

    def certify(self) -> Added:
        """Bound the answer, and check the conditions of optimality."""
        stored, machine = self.stored, self.stored.machine
        columns = enclose_columns(self.kernel, stored.points, machine.columns)
        bounded, facts = _bound_columns(machine, columns, stored.fitted, stored.tolerance)
        C, B = machine.enclose(columns).midpoint, bordered_target(machine.y)
        C, kept = np.roll(C, 1, axis=0), np.arange(machine.columns.size)  # the border first
        return (*bounded, *column_rows(C, kept, B, machine.bias, machine.coefficients)), facts

    def prove(self) -> Proof:
        """Bound the answer in ball arithmetic."""
        stored, y = self.stored, self.stored.machine.y
        tolerance = tolerance_in_balls(y, np.ones(y.size), stored.tolerance)
        return prove_kept_columns(self.kernel, stored.points, stored.machine, stored.fitted, tolerance)


def _groups(Y: Array) -> Iterator[tuple[list[int], Any]]:
    """Yield machines that share their rows, and those rows: all at once for a dense code book, else one by one."""
    if (Y != 0.0).all():
        yield list(range(Y.shape[1])), np.arange(Y.shape[0])
    else:
        yield from (([machine.column], machine.rows) for machine in each_machine(Y, True))


def _bound_columns(
    machine: ColumnMachine, columns: Double, fitted: Array | None, tolerance: float
) -> tuple[tuple[Row, ...], Facts]:
    """Return the row of the solution on the kept columns, none where they cannot be told from dependent ones."""
    bound = machine.bound(columns, fitted)
    if not np.isfinite(bound):
        return (), (_DEPENDENT,)
    row = Tolerance.of(machine.y, np.ones(machine.y.size), tolerance).row(bound, FORMULA)
    return (row,), () if row.passes else (_UNKNOWN,)
