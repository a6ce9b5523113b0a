r"""The importance of inputs: the increase of the loss, on rows left out, when the values of one input are permuted.

.. math:: I_c = \frac1N \sum_i \ell\big(y_i, f^{(-i)}(\tilde x_i^{(c)})\big)
                - \frac1N \sum_i \ell\big(y_i, f^{(-i)}(x_i)\big)

with :math:`\tilde x_i^{(c)}` the row i with input c taken from another row, by a random permutation ([Breiman2001]_
section 10), :math:`\ell` the square error in regression and 0 or 1 in classification, and :math:`f^{(-i)}` the machine
fitted without row i. No row is predicted by a machine that has seen it, and nothing is fitted again: of all machines
without a row each is needed at copies of this row only (:mod:`substrate.intervals.conformal`).

An input may be several columns, such as the 0-1 columns of one category: they are permuted together, since a row with
one of them exchanged is a row that cannot occur. A row that receives the values that it has keeps its prediction to the
last bit, so that a constant input has the importance zero exactly.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from problems.estimators.shared.coded import scores_of, winners
from substrate.arrays import (
    Array,
    blocks_beside,
    is_device_array,
    is_sparse,
    on_device_of,
    own_copy,
    take_rows,
    to_numpy,
    whole_number,
)
from substrate.certificate import ACCURATE, NO_BOUND, Certificate, Row, Tolerance, warn_unless_holds
from substrate.errors import DataError
from substrate.intervals.conformal import LeftOutMachines, predict_copies
from substrate.operators.saddle_system import target_unit
from substrate.values import Record

__all__ = ["LeftOutImportance", "Losses", "importance_of"]


@dataclass(frozen=True, slots=True, eq=False)
class LeftOutImportance(Record):
    """The importance of every input, named as by scikit-learn's ``permutation_importance``.

    Parameters
    ----------
    importances_mean, importances_std : array of shape (n_inputs,)
        Mean and standard deviation over the repetitions, of every column or of every group of columns.
    importances : array of shape (n_inputs, n_repeats)
        The increase of the mean square error, or the drop of the accuracy, of rows left out. With several outputs each
        error is in units of the variance of its output, and the mean of all outputs is taken.
    score : str
        ``"mean square error"`` or ``"accuracy"``.
    left_out_score : float
        The score of the rows left out, with all inputs unchanged.
    certificate : Certificate
        The left-out outputs of unchanged rows by the formula for changed ones, compared with leave-one-out.
    """

    importances_mean: Array
    importances_std: Array
    importances: Array
    score: str
    left_out_score: float
    certificate: Certificate


@dataclass(frozen=True, slots=True)
class Losses:
    """The loss of every row from outputs, one column per machine, in numpy.

    Of a classifier they are of the classes that the outputs of its machines decode to; ``weights`` are the weights of
    the rows in the mean.
    """

    model: Any
    targets: Array
    weights: Array | None

    def of(self, outputs: Array, rows: Any) -> Array:
        """Return the losses of some rows: square errors in the units of each output, or 0 and 1."""
        if self.model._labels:
            coding, book = self.model.coding, to_numpy(self.model.code_book_)
            decoded, true = (winners(scores_of(each, coding, book)) for each in (outputs, self.targets[rows]))
            return np.asarray(decoded != true, dtype=np.float64)
        errors = (self.targets[rows] - outputs) / self._units()
        return np.asarray(np.mean(np.square(errors), axis=1))

    def mean(self, losses: Array) -> float:
        """Average the losses over the rows, in the units of the score."""
        unit = self._units()
        scale = 1.0 if self.model._labels or unit.size > 1 else float(unit[0])
        with np.errstate(over="ignore"):  # beyond 1e154 a square is infinite
            return float(np.average(losses, weights=self.weights)) * scale * scale

    def _units(self) -> Array:
        """Return a unit in which no square overflows; of several outputs the deviation of each."""
        if self.targets.shape[1] == 1:
            return np.array([target_unit(self.targets)])
        sizes = np.ptp(self.targets, axis=0)
        safe = np.where(sizes > 0.0, sizes, 1.0)
        spread = safe * np.std(self.targets / safe, axis=0)
        return np.where(sizes > 0.0, spread, np.inf)  # a constant output is predicted exactly, and has no part


def importance_of(
    machines: Sequence[LeftOutMachines],
    evaluate: Callable[[Any], Array],
    X: Any,
    outputs: Array,
    losses: Losses,
    n_repeats: Any,
    random_state: Any,
    groups: Any,
    rests_on: tuple[Row, ...] = (),
) -> LeftOutImportance:
    """Permute every input ``n_repeats`` times; ``outputs`` has the outputs of the rows X left out, one column per
    machine.

    ``evaluate`` computes the predictions of the machines with all rows. ``groups`` lists the columns of every input,
    None for one column each; ``rests_on`` are rows of the certificate about the machines.
    """
    from substrate.datasets.dataset import random_source  # with all data sets, which a fit does not need

    n, d = (int(size) for size in X.shape)

    def predict(which: Any, points: Any) -> Array:
        fitted = np.reshape(to_numpy(evaluate(points)), (which.size, -1))
        return predict_copies(machines, which, points, fitted)

    repeats = whole_number(n_repeats, "n_repeats", 1)
    source = random_source(random_state)
    all_rows = np.arange(n)
    losses_of_rows = losses.of(outputs, all_rows)
    certificate = _certify(predict, X, outputs, losses.targets, rests_on)
    inputs = _read_groups(groups, d)
    importances = np.zeros((len(inputs), repeats))
    for number, columns in enumerate(inputs):
        values = _columns(X, columns)
        for repeat in range(repeats):
            order = source.permutation(n)
            (changed_rows,) = np.nonzero((values[order] != values).any(axis=1))
            change = np.zeros(n)
            for block in blocks_beside(X, changed_rows.size, n):
                which = changed_rows[block]
                changed = predict(which, _with_columns(X, which, columns, values[order[which]]))
                change[which] = losses.of(changed, which) - losses_of_rows[which]
            importances[number, repeat] = losses.mean(change)  # more wrong classes, less accuracy
    base = losses.mean(losses_of_rows)
    return LeftOutImportance(
        importances_mean=importances.mean(axis=1),
        importances_std=importances.std(axis=1),
        importances=importances,
        score="accuracy" if losses.model._labels else "mean square error",
        left_out_score=1.0 - base if losses.model._labels else base,
        certificate=certificate,
    )


def _certify(
    predict: Callable[[Any, Any], Array], X: Any, outputs: Array, targets: Array, rests_on: tuple[Row, ...]
) -> Certificate:
    """Check the formula for changed rows on unchanged ones, where rounding that would spoil it becomes visible."""
    worst, n = 0.0, int(X.shape[0])
    scales = np.array([Tolerance.of(column, np.ones(n)).scale for column in np.ascontiguousarray(targets.T)])
    for block in blocks_beside(X, n, n):
        which = np.arange(n)[block]
        distance = np.abs(predict(which, take_rows(X, which)) - outputs[which])
        worst = max(worst, float((distance / np.where(scales > 0.0, scales, 1.0)).max()))
    formula = "f(x_i) - c_i(x_i) r_i - (y_i - r_i), over the spread of y"
    row = Row(name="unchanged rows", value=worst, scale=1.0, tolerance=ACCURATE, formula=formula)
    facts = (
        (
            "conditional on",
            "kernel, gamma, weights and preparation of the columns, chosen with the left-out row included",
        ),
        (NO_BOUND, "a second way to the left-out outputs of unchanged rows checks the changed ones"),
    )
    certificate = Certificate("Importance by rows left out, without refitting", (row, *rests_on), facts)
    warn_unless_holds(certificate)
    return certificate


def _read_groups(groups: Any, n_features: int) -> list[list[int]]:
    """Return the columns of every input; refuse anything but lists of columns."""
    if groups is None:
        return [[column] for column in range(n_features)]
    inputs = [[whole_number(column, "a column of groups", 0) for column in columns] for columns in groups]
    every = [column for columns in inputs for column in columns]
    if not all(inputs) or len(set(every)) < len(every) or max(every, default=n_features) >= n_features:
        raise DataError(
            f"groups must list the columns of every input, each column below {n_features} once; received {groups!r}"
        )
    return inputs


def _columns(X: Any, columns: Sequence[int]) -> Array:
    """Return some columns of all rows, in numpy."""
    if is_sparse(X):
        return np.asarray(X[:, columns].toarray())
    return np.stack([to_numpy(X[:, column]) for column in columns], axis=1)


def _with_columns(X: Any, rows: Any, columns: Sequence[int], values: Array) -> Any:
    """Return copies of some rows with other values of one input."""
    if is_sparse(X):
        changed = X[rows].tolil()
        changed[:, columns] = values
        return changed.tocsr()
    points = own_copy(take_rows(X, rows))
    for column, column_values in zip(columns, values.T, strict=True):
        points[:, column] = on_device_of(points, column_values) if is_device_array(points) else column_values
    return points
