r"""Leave-one-out of a fitted LS-SVM, from its fitted state: no refit.

A model computes the errors :math:`e_i` of its rows and their left-out residuals, in closed form for a machine on all
rows (:mod:`substrate.least_squares.leave_one_out`) and for one on a basis (:mod:`substrate.reduced.spectrum`).
Criteria, the importance of inputs and the calibration of a classifier follow from these. One row, the one of largest
leverage, is refitted as a check.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from problems.estimators.shared.base import KernelEstimator
from problems.estimators.shared.coded import numbers_of_codes, scores_of, winners
from substrate.arrays import Array, on_device_of, take_rows, to_numpy
from substrate.certificates import NO_BOUND, Certificate, Row
from substrate.least_squares.leave_one_out import generalized_cross_validation
from substrate.least_squares.saddle_system import target_unit

__all__ = ["LeavesOut", "LeftOut", "LeftOutOutputs", "gcv_of", "has_closed_forms", "has_shape"]


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
        The check by one refit, and the conditions under which these numbers hold.
    """

    outputs: Array
    residuals: Array
    predictions: Any
    degrees_of_freedom: Any
    gcv: Any
    misclassification: float | None
    certificate: Certificate

    def _each(self, criterion: Any) -> Any:
        residuals: Array = to_numpy(self.residuals)
        columns = residuals[:, None] if residuals.ndim == 1 else residuals
        values = np.array([float(criterion(column)) for column in columns.T])
        return float(values[0]) if self.residuals.ndim == 1 else values

    @property
    def mean_square(self) -> Any:
        """Return PRESS over the number of rows."""
        return self._each(lambda residuals: np.mean(np.square(residuals)))

    @property
    def mean_absolute(self) -> Any:
        """Return the mean absolute residual."""
        return self._each(lambda residuals: np.mean(np.abs(residuals)))

    @property
    def median_absolute(self) -> Any:
        """Return the median absolute residual."""
        return self._each(lambda residuals: np.median(np.abs(residuals)))


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
    rows: tuple[Row, ...]
    facts: tuple[tuple[str, str], ...] = ()

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


class LeavesOut(KernelEstimator):
    """An estimator of which every row can be left out, without a refit where it solves one linear system."""

    def leave_one_out(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> LeftOut:
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
        one, wrong, home = self.support_values_.ndim == 1, None, self.support_values_
        values, errors = (on_device_of(home, array[:, 0] if one else array) for array in (outputs, residuals))
        predictions = values
        if self._labels:
            model: Any = self
            book = model.code_book_
            decoded = winners(scores_of(outputs, model.coding, book))
            wrong = float(np.mean(decoded != numbers_of_codes(left_out.targets, book)))
            there = on_device_of(home, decoded)
            predictions = take_rows(on_device_of(there, model.classes_), there)
        freedom, gcv = ((float(v[0]) if one else v) for v in (left_out.degrees_of_freedom, left_out.gcv))
        facts = (
            *left_out.facts,
            ("conditional on", f"{self._conditional}, chosen with the left-out row included"),
            ("a row of weight v", "is left out as a whole"),
            (NO_BOUND, "one refit checks the left-out outputs; the accuracy of the fit is a row"),
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

    @property
    @abstractmethod
    def _conditional(self) -> str:
        """Return the choices that are not repeated without a row."""

    @abstractmethod
    def _leave_rows_out(self, X: Any, y: Any, sample_weight: Any) -> LeftOutOutputs:
        """Leave every row of the fit out. Rows are given again where the model does not keep them; a refit checks the
        result.
        """

    def _rests_on(self) -> tuple[Row, ...]:
        """Return the accuracy of the fit: left-out residuals are only as accurate as the support values."""
        answer = self.certificate_.answer
        return () if answer is None else (answer.plain("accuracy of the fit"),)
