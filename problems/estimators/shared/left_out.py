r"""Rows left out of a machine without a refit, and the importance of inputs that follows.

A model computes the errors :math:`e_i` of its rows and their left-out residuals, in closed form for a machine on all
rows (:mod:`substrate.left_out.leave_one_out`) and for one on a basis (:mod:`substrate.operators.basis_spectrum`).
Criteria, the importance of inputs and the calibration of a classifier follow from these. As a check, the machine
without one row, the one of largest leverage, is fitted; on a basis leverages are summed.

The importance of an input is the increase of the loss, on rows left out, when its values are permuted,

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
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from problems.estimators.shared.base import Facts
from problems.estimators.shared.coded import numbers_of_codes, scores_of, winners
from substrate.arrays import (
    Array,
    blocks_beside,
    is_device_array,
    is_sparse,
    on_device_of,
    own_copy,
    take_rows,
    target_unit,
    to_numpy,
    whole_number,
)
from substrate.certificate import ACCURATE, NO_BOUND, Certificate, Row, Tolerance, warn_unless_holds
from substrate.errors import DataError, DeclarationError
from substrate.intervals.conformal import predict_copies
from substrate.left_out.leave_one_out import generalized_cross_validation
from substrate.values import Record

__all__ = [
    "LeftOut",
    "LeftOutImportance",
    "LeftOutOutputs",
    "gcv_of",
    "has_closed_forms",
    "has_shape",
    "leave_one_out",
    "left_out_importance",
    "refuse_closed_form",
    "refuse_shape",
]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The outputs of the machines for each row when fitted without it.

    Parameters
    ----------
    outputs
        f(x_i) of the machine without row i.
    residuals
        y_i minus that.
    predictions
        The outputs in regression, the classes they decode to in classification.
    degrees_of_freedom
        trace H, one number or one per machine.
    gcv
        Generalised cross-validation; where rows have weights, squared errors and leverages are averaged by weight.
    misclassification
        The share of rows decoded to a wrong class; None in regression.
    certificate
        A check by one refit, on a basis by the sum of the leverages, and the conditions under which these numbers hold.
    """

    outputs: Array
    residuals: Array
    predictions: Any
    degrees_of_freedom: Any
    gcv: Any
    misclassification: float | None
    certificate: Certificate

    @property
    def mean_square(self) -> Any:
        """Return PRESS over the number of rows."""
        return np.mean(np.square(to_numpy(self.residuals)), axis=0)

    @property
    def mean_absolute(self) -> Any:
        """Return the mean absolute residual."""
        return np.mean(np.abs(to_numpy(self.residuals)), axis=0)

    @property
    def median_absolute(self) -> Any:
        """Return the median absolute residual."""
        return np.median(np.abs(to_numpy(self.residuals)), axis=0)


class LeftOutOutputs(NamedTuple):
    """The machines of a model at the rows of its fit, with each row left out; numpy arrays of one column per machine.

    Parameters
    ----------
    X
        The rows; None of a matrix and of rows that are read in passes.
    targets, errors, residuals
        Targets or codes, less fitted values, and less left-out outputs.
    weights
        The weights of the rows; None where all are one.
    degrees_of_freedom, gcv
        The trace of the hat matrix and generalised cross-validation, one number per machine.
    conditional
        The choices that are not repeated without a row.
    rows, facts
        Of the certificate.
    """

    X: Any
    targets: Array
    errors: Array
    residuals: Array
    weights: Array | None
    degrees_of_freedom: Array
    gcv: Array
    conditional: str
    rows: tuple[Row, ...]
    facts: Facts = ()

    @property
    def outputs(self) -> Array:
        """Return the outputs of the machines without the row."""
        return np.asarray(self.targets - self.residuals)


def gcv_of(errors: Array, leverages: Array, weights: Array | None) -> Array:
    """Return generalised cross-validation, one number per column, in units in which no square overflows.

    Squared errors and leverages are averaged by weight.
    """
    unit, v = target_unit(errors), None if weights is None else weights * (weights.size / weights.sum())
    freedom = float(leverages.sum() if v is None else v @ leverages)
    with np.errstate(over="ignore"):  # of targets whose squares overflow it is infinite
        return np.asarray(generalized_cross_validation(errors / unit, freedom, v)) * unit * unit


def has_shape(model: Any) -> bool:
    """Return whether the parameters of an estimator give f a shape that holds everywhere."""
    return any(getattr(model, name, None) is not None for name in ("monotone", "convex", "bounds"))


def has_closed_forms(model: Any) -> bool:
    """Return whether fitted values are linear in the targets, with weights that do not depend on them."""
    return not has_shape(model) and all(getattr(model, name, None) is None for name in ("robust", "c"))


def refuse_shape(model: Any, what: str) -> None:
    """Refuse closed forms of one linear system for a fitted machine with a shape, which is not its solution."""
    if hasattr(model, "shape_points_"):
        raise DeclarationError(
            f"{what} is a closed form of the machine without a shape, and this one has one. For intervals keep rows "
            "and call calibrate(X, y), then predict_interval(X, method='split'); for left-out errors use "
            "cross_val_predict; for gamma use LSSVMRegressorCV(..., cv=5)"
        )


def refuse_closed_form(model: Any, what: str) -> None:
    """Refuse closed forms of the plain machine for one that was fitted with a shape, robust weights or constants."""
    refuse_shape(model, what)
    if hasattr(model, "weights_") or hasattr(model, "constants_"):
        raise DeclarationError(
            f"{what} is a closed form of the machine without robust weights and without c. For intervals keep rows and "
            "call calibrate(X, y), then predict_interval(X, method='split')"
        )


def leave_one_out(self: Any, X: Any = None, y: Any = None, sample_weight: Any = None) -> LeftOut:
    """Return outputs, residuals and criteria of every row with that row left out, exactly and without refitting.

    Only the fitted state is needed, in the order of ``support_``, neither rows nor targets; ``X``, where given, has
    to be the ``X`` of the fit. With a precomputed kernel it is needed, the matrix of all training rows. A row is
    left out with its whole weight. Kernel, gamma and scaling are unchanged although the left-out row contributed to
    their choice, which the certificate states.

    A model with a basis keeps no rows: they are given again, with their targets, and their weights if the fit had
    any. The basis is unchanged, too. Rows are also given again for losses other than the squared one. Then a row is
    left out in closed form if no other row changes the piece of its loss, and by a fit otherwise; the certificate
    counts both kinds, and the degrees of freedom are NaN.
    """
    check_is_fitted(self)
    left_out = self._leave_rows_out(X, y, sample_weight)
    outputs, residuals = left_out.outputs, left_out.residuals
    is_single, wrong, home = self.support_values_.ndim == 1, None, self.support_values_
    values, errors = (on_device_of(home, array[:, 0] if is_single else array) for array in (outputs, residuals))
    predictions = values
    if self._labels:
        decoded = winners(scores_of(outputs, self.coding, self.code_book_))
        wrong = float(np.mean(decoded != numbers_of_codes(left_out.targets, self.code_book_)))
        there = on_device_of(home, decoded)
        predictions = take_rows(on_device_of(there, self.classes_), there)
    freedom, gcv = ((float(v[0]) if is_single else v) for v in (left_out.degrees_of_freedom, left_out.gcv))
    facts = (
        *left_out.facts,
        ("conditional on", f"{left_out.conditional}, chosen with the left-out row included"),
        ("a row of weight v", "is left out as a whole"),
        (NO_BOUND, "a check of the left-out outputs, and the accuracy of the fit, are rows"),
    )
    return LeftOut(
        outputs=values,
        residuals=errors,
        predictions=predictions,
        degrees_of_freedom=freedom,
        gcv=gcv,
        misclassification=wrong,
        certificate=Certificate("Leave-one-out without refitting", (*left_out.rows, *self._rests_on()), facts),
    )


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


def left_out_importance(
    self: Any,
    X: Any = None,
    y: Any = None,
    n_repeats: int = 5,
    random_state: Any = 0,
    *,
    groups: Any = None,
    sample_weight: Any = None,
) -> LeftOutImportance:
    """Return the importance of every input: the loss of left-out predictions when its values are permuted, without a
    refit.

    Each row is predicted by the machine fitted without it, once unchanged and once with the input of another row.
    Of N rows every input and repetition costs two kernel matrices, after one inverse for all of them.

    Parameters
    ----------
    X, y : array, default=None
        As for ``leave_one_out``: the training rows, where the model has a basis; not needed otherwise.
    n_repeats : int, default=5
        Permutations of each input.
    random_state : int, Generator, RandomState or None, default=0
        Where permutations come from.
    groups : list of lists of int, default=None
        The columns of every input, such as the 0-1 columns of one category, which are permuted together; None takes
        every column for an input.
    sample_weight : array of shape (n_samples,), default=None
        As for ``leave_one_out``; the mean over the rows is by the weights of the fit.

    Returns
    -------
    LeftOutImportance
        ``importances_mean``, ``importances_std`` and ``importances``, in the units of the mean square error or of
        the accuracy. Kernel, gamma and scaling are not chosen again without a row or an input.
    """
    from substrate.datasets.dataset import random_source  # with all data sets, which a fit does not need

    check_is_fitted(self)
    refuse_shape(self, "left_out_importance")
    if self.kernel_.pairwise:
        raise DeclarationError(
            "left_out_importance permutes the values of an input, and a precomputed kernel matrix has no inputs; "
            "fit with a kernel of substrate.kernels on X itself"
        )
    repeats = whole_number(n_repeats, "n_repeats", 1)
    source, labels = random_source(random_state), bool(self._labels)
    left_out = self._model.leave_rows_out(X, y, sample_weight, is_checked=False)
    machines = self._model.left_out_machines((X, y, sample_weight))
    points, targets = left_out.X, left_out.targets
    n, d = (int(size) for size in points.shape)
    units = _units_of(targets)

    def losses(outputs: Array, rows: Any) -> Array:
        if labels:
            book = to_numpy(self.code_book_)
            decoded, true = (winners(scores_of(each, self.coding, book)) for each in (outputs, targets[rows]))
            return np.asarray(decoded != true, dtype=np.float64)
        return np.asarray(np.mean(np.square((targets[rows] - outputs) / units), axis=1))

    def mean(values: Array) -> float:
        scale = 1.0 if labels or units.size > 1 else float(units[0])
        with np.errstate(over="ignore"):  # beyond 1e154 a square is infinite
            return float(np.average(values, weights=left_out.weights)) * scale * scale

    def predict(rows: Any, changed: Any) -> Array:
        fitted = np.reshape(to_numpy(self._evaluate(changed)), (rows.size, -1))
        return predict_copies(machines, rows, changed, fitted)

    unchanged = losses(left_out.outputs, np.arange(n))
    certificate = _certify(predict, points, left_out.outputs, targets, self._rests_on())
    inputs = _read_groups(groups, d)
    importances = np.zeros((len(inputs), repeats))
    for number, columns in enumerate(inputs):
        values = _columns(points, columns)
        for repeat in range(repeats):
            order = source.permutation(n)
            (changed_rows,) = np.nonzero((values[order] != values).any(axis=1))
            change = np.zeros(n)
            for block in blocks_beside(points, changed_rows.size, n):
                rows = changed_rows[block]
                outputs = predict(rows, _with_columns(points, rows, columns, values[order[rows]]))
                change[rows] = losses(outputs, rows) - unchanged[rows]
            importances[number, repeat] = mean(change)  # more wrong classes, less accuracy
    base = mean(unchanged)
    return LeftOutImportance(
        importances_mean=importances.mean(axis=1),
        importances_std=importances.std(axis=1),
        importances=importances,
        score="accuracy" if labels else "mean square error",
        left_out_score=1.0 - base if labels else base,
        certificate=certificate,
    )


def _units_of(targets: Array) -> Array:
    """Return a unit in which no square overflows; of several outputs the deviation of each."""
    if targets.shape[1] == 1:
        return np.array([target_unit(targets)])
    sizes = np.ptp(targets, axis=0)
    safe = np.where(sizes > 0.0, sizes, 1.0)
    # a constant output is predicted exactly, and has no part
    return np.where(sizes > 0.0, safe * np.std(targets / safe, axis=0), np.inf)


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
