"""The fit of the L1 substrates, by the active set or the declared problem, and the checks and proofs of its answer."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from problems.estimators.shared.base import import_page
from problems.estimators.shared.checked_again import (
    Added,
    StoredFit,
    definite_gram,
    recall_rows,
    rows_of_fit,
)
from problems.estimators.shared.machine_rows import each_machine, points_of
from problems.estimators.shared.model import Model
from substrate.arrays import Array, non_negative
from substrate.certificates import Row
from substrate.certificates.rows import Accuracy, unpolished_tolerance
from substrate.certificates.tolerance import Tolerance
from substrate.errors import DataError, SolverError
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.kernel_products import CarefulProducts, PlainProducts, expansion_values
from substrate.penalized.l1.accuracy import SparseAnswer, l1_accuracy
from substrate.penalized.l1.active_set import l1_rows, solve_l1, zeta_max
from substrate.proof import Proof, tolerance_in_balls
from substrate.proof.duality import prove_sparse
from substrate.solvers import canonical_name

__all__ = ["L1Model", "Solving", "SparseFit", "fit_sparse", "sparse_accuracy"]

Facts = tuple[tuple[str, str], ...]

_UNKNOWN = (
    "rounding",
    "double precision cannot give the answer to this tolerance; scale the columns, centre the inputs, or take a "
    "larger zeta",
)
_INDEFINITE = ("accuracy", "unknown: the kernel matrix is not positive semi-definite, and w'w is no norm")
_UNPOLISHED = ("rounding", "the solver's point is not near enough; use solver='auto'")


@dataclass(frozen=True, slots=True)
class Solving:
    """The solver of a fit, and ``tol``, the accuracy required of its answer as a share of the spread of y."""

    solver: str
    tol: float

    @property
    def is_polished(self) -> bool:
        """Whether the point is that of an active set, and not that of a conic solver."""
        return self.solver == "auto"

    @property
    def tolerance(self) -> float:
        """The share of the spread of y: a conic solver's point is less accurate than an active set."""
        return self.tol if self.is_polished else unpolished_tolerance(self.tol)


def sparse_accuracy(
    kernel: Kernel, X: Any, matrix: Array, machine: SparseAnswer, how: Solving, negative: float = 0.0
) -> tuple[Accuracy, Facts]:
    """Return the row for one output, and facts about it; ``negative`` is that of the Gram matrix, infinite if
    indefinite.
    """
    plain = _plain_products(kernel, X, matrix)
    tolerance = Tolerance.of(machine.y, np.ones(machine.y.size), how.tolerance)
    row, careful = l1_accuracy(machine, CarefulProducts(kernel, X, plain), tolerance)
    if machine.ridge > 0.0 and np.isinf(negative):  # convex only without the ridge
        return replace(row, value=float("inf")), (_INDEFINITE,)
    if row.passes:
        return row, (("check", "in doubled precision"),) if careful else ()
    return row, (_UNKNOWN if how.is_polished else _UNPOLISHED,)


def _plain_products(kernel: Kernel, X: Any, matrix: Array) -> PlainProducts:
    is_plain = kernel.trusted and not kernel.pairwise
    return PlainProducts(matrix, kernel.rounding(X), is_plain, X if is_plain else None)


class L1Model(Model):
    """The L1 substrates, each machine with a coefficient for every row."""

    def recall_fit(self, X: Any, y: Any, sample_weight: Any) -> AbstractContextManager[StoredFit]:
        """Return all machines on the data of the fit."""
        return nullcontext(
            StoredFit(self.recall_machines(*recall_rows(self.estimator, X, y, labels=self.estimator._labels)))
        )

    def recall_machines(self, X: Any, Y: Array) -> Iterator["StoredSparse"]:
        """Return every machine, with one coefficient per row."""
        model = self.estimator
        rows = rows_of_fit(model, Y.shape[0])
        if model.support_.size and model.support_.max() >= Y.shape[0]:
            raise DataError(f"the model has support at row {model.support_.max()}, these are {Y.shape[0]} rows")
        coefficients = np.zeros(Y.shape)
        stored = model._coefficients()
        coefficients[model.support_] = stored[:, None] if stored.ndim == 1 else stored
        biases, ridge = np.atleast_1d(model.bias_), self.ridge_of_w()
        fitted = np.reshape(self.evaluate(X), Y.shape)
        for machine_rows in each_machine(Y[rows], model._labels):
            places = (rows[machine_rows.rows], machine_rows.column)
            machine = SparseAnswer(
                y=machine_rows.y,
                zeta=self.zeta(),
                a=coefficients[places],
                b=float(biases[machine_rows.column]),
                fitted=fitted[places],
                ridge=ridge,
            )
            yield StoredSparse(model.kernel_, points_of(X, places[0], model.kernel_.pairwise), machine, self.solving())

    def zeta(self) -> float:
        """Return the zeta of the fit: given, or chosen."""
        chosen = getattr(self.estimator, "zeta_", None)
        return float(self.estimator.zeta) if chosen is None else max(float(chosen), float(np.finfo(np.float64).tiny))

    def ridge_of_w(self) -> float:
        """Return the weight of half the squared norm of w: given, or chosen with zeta."""
        model = self.estimator
        if model._chooses is not None:
            return float(getattr(model, "ridge_", 0.0))
        return non_negative(model.ridge, "ridge", "as the weight of a squared norm")

    def solving(self) -> Solving:
        """Return the solver of the fit, and its tolerance."""
        return Solving(getattr(self.estimator, "solver", "auto"), self.estimator._tolerance())


@dataclass(frozen=True, slots=True)
class StoredSparse:
    """One machine of an L1 substrate on its rows, from what ``predict`` uses."""

    kernel: Kernel
    points: Any
    machine: SparseAnswer
    how: Solving

    def certify(self) -> Added:
        """Bound the answer, and check the conditions of optimality."""
        machine, gram = self.machine, self._gram()
        matrix = np.array(gram.matrix)
        answer, facts = sparse_accuracy(self.kernel, self.points, matrix, machine, self.how, gram.negative)
        arguments = (matrix, machine.y, machine.zeta, machine.a, machine.b)
        # a conic solver's noise is in its support; its gap bounds the effect
        checks = l1_rows(*arguments, ridge=machine.ridge) if self.how.is_polished else ()
        return (answer, *checks), (*gram.record(), *facts)

    def prove(self) -> Proof:
        """Bound the answer in ball arithmetic."""
        y = self.machine.y
        gram, tolerance = self._gram(), tolerance_in_balls(y, np.ones(y.size), self.how.tolerance)
        if np.isinf(gram.negative):
            return Proof.of(float("inf"), tolerance, 0, "the kernel matrix is not positive semi-definite")
        return prove_sparse(self.kernel, self.points, self.machine, tolerance)

    def _gram(self) -> Gram:
        """Return the kernel matrix; a ridge needs it to be positive semi-definite."""
        make = definite_gram if self.machine.ridge > 0.0 else Gram.of
        return make(self.kernel, self.points)


@dataclass(frozen=True, slots=True)
class SparseFit:
    """Coefficients in regression's sign, bias, certificate rows and facts."""

    coefficients: Array
    bias: float
    zeta_max: float
    rows: tuple[Row, ...]
    facts: tuple[tuple[str, str], ...]


def fit_sparse(
    kernel: Kernel, X: Any, gram: Gram, y: Array, zeta: float, how: Solving, *, labels: bool, ridge: float = 0.0
) -> SparseFit:
    """Fit one machine; if the active set does not settle, by the declared problem, which the record states.

    ``gram`` is the kernel matrix of the rows of X.
    """
    if how.is_polished and not kernel.trusted:
        gram.check_definite()  # convex for any matrix, but then without a w; the declared problem refuses it
    Phi = np.array(gram.matrix)
    solved = _solve(gram, Phi, y, zeta, ridge, how.solver, labels)
    a, b = solved.coefficients, solved.bias
    (used,) = np.nonzero(a)
    points = None if kernel.pairwise else X[used]
    fitted = expansion_values(kernel, points, a[used], b, X, used)
    machine = SparseAnswer(y=y, zeta=zeta, a=a, b=b, fitted=fitted, ridge=ridge)
    answer, more = sparse_accuracy(kernel, X, Phi, machine, how, gram.negative)
    stated = (("ridge", f"{ridge:g}/2 w'w is part of the objective"),) if ridge > 0.0 else ()
    facts = (*gram.record(), ("zeta", f"{zeta:g}"), *stated, *solved.facts, *more)
    return SparseFit(coefficients=a, bias=b, zeta_max=zeta_max(Phi, y), rows=(answer, *solved.rows), facts=facts)


class _SolvedSparse(NamedTuple):
    """Coefficients in regression's sign, bias, certificate rows, and facts about the solver."""

    coefficients: Array
    bias: float
    rows: tuple[Row, ...]
    facts: tuple[tuple[str, str], ...]


def _solve(gram: Gram, Phi: Array, y: Array, zeta: float, ridge: float, solver: str, labels: bool) -> _SolvedSparse:
    """Solve by the active set, or by the solver that is named."""
    name = None if solver in ("auto", "cvxpy") else canonical_name(solver)
    note: tuple[tuple[str, str], ...] = ()
    if solver == "auto":
        try:
            solved = solve_l1(Phi, y, zeta, ridge=ridge)
        except SolverError as error:
            note = (("fallback", str(error)),)
        else:
            checks = l1_rows(Phi, y, zeta, solved.coefficients, solved.bias, ridge=ridge)
            facts = (("solver", f"active set, {solved.steps} steps"),)
            return _SolvedSparse(coefficients=solved.coefficients, bias=solved.bias, rows=checks, facts=facts)
    page = import_page("l1_substrate")
    # the bias absorbs a constant; in y it would hide the rest below the solver's tolerance
    center = 0.0 if labels else float(np.clip(y.mean(), y.min(), y.max()))
    task = "classification" if labels else "regression"
    declared = page.declare(gram, y - center, zeta, task, ridge).solve(name, warn=False)
    a = declared.support_values * (y if labels else 1.0)
    record = declared.solver_record.facts() if declared.solver_record is not None else ()
    return _SolvedSparse(
        coefficients=a,
        bias=center + float(declared.bias),
        rows=declared.certificate().rows,
        facts=(*note, *record),
    )
