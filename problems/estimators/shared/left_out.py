r"""Leave-one-out of a fitted LS-SVM, from its fitted state: no refit.

A model computes the errors :math:`e_i` of its rows and their left-out residuals, in closed form for a machine on all
rows (:mod:`substrate.least_squares.leave_one_out`) and for one on a basis (:mod:`substrate.reduced.spectrum`).
Criteria, the importance of inputs and the calibration of a classifier follow from these. One row, the one of largest
leverage, is refitted as a check.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from problems.estimators.shared.base import Facts
from substrate.arrays import Array, to_numpy
from substrate.certificates import Certificate, Row
from substrate.errors import DeclarationError
from substrate.least_squares.leave_one_out import generalized_cross_validation
from substrate.least_squares.saddle_system import target_unit

__all__ = ["LeftOut", "LeftOutOutputs", "gcv_of", "has_closed_forms", "has_shape", "refuse_closed_form", "refuse_shape"]


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
