"""The answer of a refitted machine of maximal variation: that of the LS-SVM on the chosen components."""

import math
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from problems.estimators.shared.checked_again import Added, StoredFit, StoredSaddle, definite_gram
from problems.estimators.shared.coded import numbers_of_codes
from problems.estimators.shared.machine_rows import each_machine
from substrate.arrays import Array
from substrate.certificates import Accuracy, Row
from substrate.certificates.enclosed import at_most, sum_rounding
from substrate.certificates.rows import accuracy_of_outputs, power_of_two, spread_of
from substrate.certificates.tolerance import Tolerance
from substrate.errors import DataError
from substrate.proof import Proof, proof_of_outputs

__all__ = ["mean_row", "of_selection", "recall_refit"]


def of_selection(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Return the rows of the machine that chose the components, whose accuracy is not that of the answer."""
    return tuple(row.plain(f"selection: {row.name}") if isinstance(row, Accuracy) else row for row in rows)


def mean_row(Y: Array, fitted: Array, labels: bool, tolerance: float) -> Accuracy:
    """Return the answer where only the bias is left: ``fitted`` compared with the means of the columns."""
    rows = []
    for machine in each_machine(Y, labels):
        y = machine.y
        unit = power_of_two(float(np.abs(y).max()))
        mean = unit * (math.fsum(y / unit) / y.size)  # rounded twice
        bound = at_most(float(np.abs(np.broadcast_to(fitted, Y.shape)[machine.rows, machine.column] - mean).max()))
        bound += sum_rounding(2) * abs(mean)
        rows.append(Tolerance.of(y, np.ones_like(y), tolerance).row(bound, "|b - mean of y|"))
    return accuracy_of_outputs(rows)


def recall_refit(model: Any, X: Any, Y: Array) -> AbstractContextManager[StoredFit]:
    """Return the LS-SVM that predicts; a check that its components would be chosen again is added."""
    machines = _machines(model, X, Y) if model.component_support_.any() else (StoredMean(model, X, Y),)
    facts = (("kernel", repr(model.kernel_)),)
    return nullcontext(StoredFit(machines, lambda: (_selection_rows(model, X, Y), facts)))


@dataclass(frozen=True, slots=True)
class StoredMean:
    """All machines of a model in which only the bias is left."""

    model: Any
    X: Any
    Y: Array

    def certify(self) -> Added:
        """Compare the bias with the means of the columns."""
        return (self._row(),), ()

    def prove(self) -> Proof:
        """Return the same: a mean in double precision needs no balls."""
        return proof_of_outputs(
            [
                Proof(
                    accuracy=accuracy.value,
                    spread=accuracy.spread,
                    tolerance=accuracy.tolerance,
                    rounding=spread_of(y, np.ones(y.size))[1],
                    bits=53,
                )
                for accuracy, y in zip(self._row().each, self.Y.T, strict=True)
            ]
        )

    def _row(self) -> Accuracy:
        fitted = np.reshape(self.model._evaluate(self.X), self.Y.shape)
        return mean_row(self.Y, fitted, self.model._labels, self.model._tolerance())


def _machines(model: Any, X: Any, Y: Array) -> Iterator[StoredSaddle]:
    """Return every machine of the LS-SVM on the chosen components; only its answer is checked."""
    coefficients = model._coefficients()
    a = coefficients[:, None] if coefficients.ndim == 1 else coefficients
    if a.shape != Y.shape:
        raise DataError(f"the model has support values of shape {a.shape}, these rows need {Y.shape}")
    fitted, biases = np.reshape(model._evaluate(X), Y.shape), np.atleast_1d(model.bias_)
    for machine in each_machine(Y, model._labels):
        points, place = machine.points(X, False), (machine.rows, machine.column)
        yield StoredSaddle(
            kernel=model.kernel_,
            points=points,
            gram=partial(definite_gram, model.kernel_, points),
            y=machine.y,
            gamma=float(model.gamma),
            weights=np.ones(machine.y.size),
            a=a[place],
            b=float(biases[machine.column]),
            fitted=fitted[place],
            tolerance=model._tolerance(),
            has_equations=False,
        )


def _selection_rows(model: Any, X: Any, Y: Array) -> tuple[Row, ...]:
    """Return the rows of the machine that chooses components, fitted again, and how many it chooses otherwise."""
    unrefitted = type(model)(**{**model.get_params(deep=False), **model._model.by_number(), "refit": False})
    targets = model.classes_[numbers_of_codes(Y, model.code_book_)] if model._labels else Y[:, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the rows state the result
        unrefitted.fit(X, targets)
    differ = float((unrefitted._model.mark_components(model.relevance) != model.component_support_).sum())
    return *of_selection(unrefitted.certificate_.rows), Row(
        name="components chosen", value=differ, scale=1.0, tolerance=0.5, formula="how many differ"
    )
