"""The refitted machine of maximal variation, the LS-SVM on the chosen components, and its answer."""

import math
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from problems.estimators.full.saddle_fit import Method, fit_saddle
from problems.estimators.shared.checked_again import Added, StoredFit, StoredSaddle, definite_gram
from problems.estimators.shared.machine_rows import each_machine, in_columns
from substrate.arrays import Array
from substrate.certificates import NO_BOUND, Accuracy, Row
from substrate.certificates.enclosed import at_most, sum_rounding
from substrate.certificates.rows import accuracy_of_outputs, power_of_two, spread_of
from substrate.certificates.tolerance import Tolerance
from substrate.errors import DataError
from substrate.gram import Gram
from substrate.kernels import Componentwise
from substrate.least_squares.saddle_certificate import worst_rows
from substrate.proof import Proof, proof_of_outputs

__all__ = [
    "RefittedMachine",
    "chosen_row",
    "mean_accuracy",
    "mean_proof",
    "of_selection",
    "recall_refit",
    "refit_components",
]


class RefittedMachine(NamedTuple):
    """The LS-SVM on the relevant components: kernel, rows of its expansion, support values, biases, rows and facts."""

    kernel: Componentwise
    support: Any
    support_values: Array
    bias: Array
    rows: tuple[Row, ...]
    facts: tuple[tuple[str, str], ...]


def refit_components(
    model: Any,
    X: Any,
    Y: Array,
    kernel: Componentwise,
    chosen: Any,
    gamma: float,
    selection: tuple[Row, ...],
    weights: Array | None = None,
) -> RefittedMachine:
    """Fit the LS-SVM on the chosen components, a mask; only the bias is left where there are none.

    Its answer comes first, then the rows of the ``selection``, then its other rows.
    """
    v = np.ones(len(Y)) if weights is None else weights
    parts = tuple(part for part, keep in zip(kernel.components(X.shape[1]), chosen, strict=True) if keep)
    facts: tuple[tuple[str, str], ...] = (
        ("refit", f"LS-SVM on {len(parts)} of {len(chosen)} components, gamma {gamma:g}"),
    )
    if parts:
        kernel, support = Componentwise(parts), np.arange(X.shape[0])
        gram, method = Gram.of(kernel, X), Method.closed_form(model._tolerance())
        machines, fits = list(each_machine(Y, model._labels)), []
        for machine in machines:
            data = (machine.points(X, False), machine.y[:, None], (gamma,), v[machine.rows])
            fits.append(fit_saddle(kernel, *data, method, gram=gram.restrict(machine.rows)))
        facts += tuple(dict.fromkeys(fact for fit in fits for fact in fit.facts if fact[0] in (NO_BOUND, "rounding")))
        a = in_columns(machines, [fit.support_values[:, 0] for fit in fits], Y.shape[0])
        bias, more = np.array([fit.bias[0] for fit in fits]), worst_rows([fit.rows for fit in fits])
    else:
        a, bias, support = np.zeros((0, Y.shape[1])), _means(Y, model._labels, v), np.arange(0)
        more = (_mean_row(Y, bias, model._labels, model._tolerance(), v),)
    # the answer is that of the machine that predicts
    rows = (*(row for row in more if isinstance(row, Accuracy)), *of_selection(selection))
    rows += tuple(replace(row, name=f"refit: {row.name}") for row in more if not isinstance(row, Accuracy))
    return RefittedMachine(kernel=kernel, support=support, support_values=a, bias=bias, rows=rows, facts=facts)


def _means(Y: Array, labels: bool, weights: Array) -> Array:
    masses = weights @ (Y != 0.0) if labels else np.full(Y.shape[1], weights.sum())
    return np.asarray(weights @ Y / masses)


def chosen_row(differ: Any) -> Row:
    """Return how many components are chosen otherwise than they were, as a row; ``differ`` marks them."""
    return Row(
        name="components chosen",
        value=float(np.count_nonzero(differ)),
        scale=1.0,
        tolerance=0.5,
        formula="how many differ",
    )


def of_selection(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Return the rows of the machine that chose the components, whose accuracy is not that of the answer."""
    return tuple(row.plain(f"selection: {row.name}") if isinstance(row, Accuracy) else row for row in rows)


def mean_accuracy(y: Array, fitted: Any, tolerance: float, weights: Array | None = None) -> Accuracy:
    """Return the answer of one machine where only the bias is left: ``fitted`` compared with the mean."""
    unit, v = power_of_two(float(np.abs(y).max())), np.ones_like(y) if weights is None else weights
    mean = unit * (math.fsum(v * (y / unit)) / math.fsum(v))  # rounded three times at most, and once for each product
    rounding = sum_rounding(4) * (abs(mean) + float(np.abs(y).max()))
    bound = at_most(float(np.abs(fitted - mean).max())) + rounding
    return Tolerance.of(y, v, tolerance).row(bound, "|b - mean of y|")


def _mean_row(Y: Array, fitted: Array, labels: bool, tolerance: float, weights: Array) -> Accuracy:
    """Return the answer where only the biases are left, one for each column."""
    every = np.broadcast_to(fitted, Y.shape)
    machines = each_machine(Y, labels)
    return accuracy_of_outputs(
        [mean_accuracy(m.y, every[m.rows, m.column], tolerance, weights[m.rows]) for m in machines]
    )


def mean_proof(accuracy: Accuracy, y: Array, weights: Array) -> Proof:
    """Return the same as a proof: a mean in double precision needs no balls."""
    return Proof(
        accuracy=accuracy.value,
        spread=accuracy.spread,
        tolerance=accuracy.tolerance,
        rounding=spread_of(y, weights)[1],
        bits=53,
    )


def recall_refit(model: Any, X: Any, Y: Array, weights: Array) -> AbstractContextManager[StoredFit]:
    """Return the LS-SVM that predicts; a check that its components would be chosen again is added."""
    some = model.component_support_.any()
    machines = _machines(model, X, Y, weights) if some else (StoredMean(model, X, Y, weights),)
    facts = (("kernel", repr(model.kernel_)),)
    return nullcontext(StoredFit(machines, lambda: (_selection_rows(model, X, Y, weights), facts)))


@dataclass(frozen=True, slots=True)
class StoredMean:
    """All machines of a model in which only the bias is left."""

    model: Any
    X: Any
    Y: Array
    weights: Array

    def certify(self) -> Added:
        """Compare the bias with the means of the columns."""
        return (self._row(),), ()

    def prove(self) -> Proof:
        """Return the same: a mean in double precision needs no balls."""
        pairs = zip(self._row().each, self.Y.T, strict=True)
        return proof_of_outputs([mean_proof(accuracy, y, self.weights) for accuracy, y in pairs])

    def _row(self) -> Accuracy:
        fitted = np.reshape(self.model._evaluate(self.X), self.Y.shape)
        return _mean_row(self.Y, fitted, self.model._labels, self.model._tolerance(), self.weights)


def _machines(model: Any, X: Any, Y: Array, weights: Array) -> Iterator[StoredSaddle]:
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
            gamma=float(model._model.refit_gamma()),
            weights=weights[machine.rows],
            a=a[place],
            b=float(biases[machine.column]),
            fitted=fitted[place],
            tolerance=model._tolerance(),
            has_equations=False,
        )


def _selection_rows(model: Any, X: Any, Y: Array, weights: Array) -> tuple[Row, ...]:
    """Return the rows of the machine that chooses components, fitted again, and how many it chooses otherwise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the rows state the result
        rows, chosen = model._model.select_again(X, Y, weights)
    return *of_selection(rows), chosen_row(chosen != model.component_support_)
