"""The fit of the L1 substrates with a coefficient for every row, and the checks and proofs of its answer."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from problems.estimators.shared.checked_again import (
    Added,
    Facts,
    StoredFit,
    definite_gram,
    recall_rows,
    rows_of_fit,
)
from problems.estimators.shared.machine_rows import each_machine, in_columns, points_of
from problems.estimators.shared.model import Model
from substrate.arrays import Array, non_negative
from substrate.certificates import Row
from substrate.certificates.rows import Accuracy
from substrate.certificates.tolerance import Tolerance
from substrate.errors import DataError
from substrate.fits.l1 import l1_rows, solve_l1, zeta_max
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.kernel_products import expansion_values
from substrate.least_squares.saddle_certificate import worst_rows
from substrate.penalties import DoubleColumns, OneNorm, accuracy_of
from substrate.proof import Proof, tolerance_in_balls
from substrate.proof.penalties import prove_l1

__all__ = ["L1Fit", "L1Model", "StoredL1", "fit_l1"]

_UNKNOWN = (
    "rounding",
    "double precision cannot give the answer to this tolerance; scale the columns, centre the inputs, or take a "
    "larger zeta",
)
_INDEFINITE = ("accuracy", "unknown: the kernel matrix is not positive semi-definite, and w'w is no norm")


class L1Model(Model):
    """The L1 substrates, each machine with a coefficient for every row."""

    def recall_fit(self, X: Any, y: Any, sample_weight: Any) -> AbstractContextManager[StoredFit]:
        """Return all machines on the data of the fit."""
        return nullcontext(
            StoredFit(self.recall_machines(*recall_rows(self.estimator, X, y, labels=self.estimator._labels)))
        )

    def recall_machines(self, X: Any, Y: Array) -> Iterator[Any]:
        """Return every machine, with one coefficient per row."""
        model = self.estimator
        rows = rows_of_fit(model, Y.shape[0])
        if model.support_.size and model.support_.max() >= Y.shape[0]:
            raise DataError(f"the model has support at row {model.support_.max()}, these are {Y.shape[0]} rows")
        coefficients = np.zeros(Y.shape)
        stored = model._coefficients()
        coefficients[model.support_] = stored[:, None] if stored.ndim == 1 else stored
        biases = np.atleast_1d(model.bias_)
        fitted = np.reshape(self.evaluate(X), Y.shape)
        for machine_rows in each_machine(Y[rows], model._labels):
            places = (rows[machine_rows.rows], machine_rows.column)
            yield StoredL1(
                kernel=model.kernel_,
                points=points_of(X, places[0], model.kernel_.pairwise),
                y=machine_rows.y,
                zeta=self.zeta(),
                ridge=self.ridge_of_w(),
                a=coefficients[places],
                b=float(biases[machine_rows.column]),
                fitted=fitted[places],
                tolerance=model._tolerance(),
            )

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


@dataclass(frozen=True, slots=True)
class StoredL1:
    """One machine of an L1 substrate on its rows: coefficients of all of them, and what ``predict`` returns."""

    kernel: Kernel
    points: Any
    y: Array
    zeta: float
    ridge: float
    a: Array
    b: float
    fitted: Array
    tolerance: float

    def bound(self, matrix: Array, negative: float = 0.0) -> tuple[Accuracy, Facts]:
        """Return the row of the answer, and facts about it; ``negative`` is infinite for an indefinite matrix."""
        columns = DoubleColumns.of_kernel(self.kernel, self.points, matrix, self.ridge)
        tolerance = Tolerance.of(self.y, np.ones(self.y.size), self.tolerance)
        row = accuracy_of(columns, OneNorm(self.zeta), self.y, self.a, self.fitted, tolerance)
        if self.ridge > 0.0 and np.isinf(negative):  # convex only without the ridge
            return replace(row, value=float("inf")), (_INDEFINITE,)
        return row, () if row.passes else (_UNKNOWN,)

    def certify(self) -> Added:
        """Bound the answer, and check the conditions of optimality."""
        gram = self._gram()
        answer, facts = self.bound(gram.matrix, gram.negative)
        checks = l1_rows(gram.matrix, self.y, self.zeta, self.a, self.b, ridge=self.ridge)
        return (answer, *checks), (*gram.record(), *facts)

    def prove(self) -> Proof:
        """Bound the answer in ball arithmetic."""
        ones, gram = np.ones(self.y.size), self._gram()
        tolerance = tolerance_in_balls(self.y, ones, self.tolerance)
        if np.isinf(gram.negative):
            return Proof.of(float("inf"), tolerance, 0, "the kernel matrix is not positive semi-definite")
        points = np.arange(self.y.size) if self.kernel.pairwise else self.points
        arguments = (self.y, OneNorm(self.zeta), self.a, self.fitted, ones, tolerance, self.ridge)
        return prove_l1(self.kernel, self.points, points, *arguments)

    def _gram(self) -> Gram:
        """Return the kernel matrix; a ridge needs it to be positive semi-definite."""
        make = definite_gram if self.ridge > 0.0 else Gram.of
        return make(self.kernel, self.points)


@dataclass(frozen=True, slots=True)
class L1Fit:
    """Coefficients in regression's sign (one column per machine) and biases, the largest zeta_max, rows and facts."""

    coefficients: Array
    bias: Array
    zeta_max: float
    rows: tuple[Row, ...]
    facts: Facts


def fit_l1(
    kernel: Kernel, X: Any, gram: Gram, Y: Array, zeta: float, ridge: float, tolerance: float, *, labels: bool
) -> L1Fit:
    """Fit the machine of every column; ``gram`` is the kernel matrix of the rows of X."""
    if not kernel.trusted:
        gram.check_definite()  # convex for any matrix, but then without a w
    stated = (("ridge", f"{ridge:g}/2 w'w is part of the objective"),) if ridge > 0.0 else ()
    machines, a, bias, largest, rows, facts = (
        list(each_machine(Y, labels)),
        [],
        [],
        [],
        [],
        dict.fromkeys(gram.record()),
    )
    for machine in machines:
        Phi, points = np.array(machine.square(gram.matrix)), machine.points(X, kernel.pairwise)
        solved = solve_l1(Phi, machine.y, zeta, ridge=ridge)
        (used,) = np.nonzero(solved.coefficients)
        basis = None if kernel.pairwise else points[used]
        fitted = expansion_values(kernel, basis, solved.coefficients[used], solved.bias, points, used)
        stored = StoredL1(
            kernel=kernel,
            points=points,
            y=machine.y,
            zeta=zeta,
            ridge=ridge,
            a=solved.coefficients,
            b=solved.bias,
            fitted=fitted,
            tolerance=tolerance,
        )
        answer, more = stored.bound(Phi, gram.negative)
        checks = l1_rows(Phi, machine.y, zeta, solved.coefficients, solved.bias, ridge=ridge)
        how = ("solver", f"exact path, {len(solved.path)} knots")
        facts |= dict.fromkeys((("zeta", f"{zeta:g}"), *stated, how, *more))
        a.append(solved.coefficients)
        bias.append(solved.bias)
        largest.append(zeta_max(Phi, machine.y))
        rows.append((answer, *checks))
    coefficients = in_columns(machines, a, gram.n)
    return L1Fit(coefficients, np.array(bias), max(largest), worst_rows(rows), tuple(facts))
