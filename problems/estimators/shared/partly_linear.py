r"""Machines with a linear part, columns that are not penalised and that the kernel does not see, and leave-one-out.

A model computes the errors :math:`e_i` of its rows and their left-out residuals, in closed form for a machine on all
rows (:mod:`substrate.left_out.leave_one_out`) and for one on a basis (:mod:`substrate.operators.basis_spectrum`).
Criteria, the importance of inputs and the calibration of a classifier follow from these. One row, the one of largest
leverage, is refitted as a check.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from problems.estimators.shared.base import Facts, KernelEstimator
from problems.estimators.shared.checks import column_number
from problems.estimators.shared.coded import numbers_of_codes, scores_of, winners
from substrate.arrays import Array, on_device_of, take_rows, to_numpy
from substrate.certificate import NO_BOUND, Certificate, Row
from substrate.errors import DataError, DeclarationError
from substrate.kernels import Kernel, Restricted
from substrate.left_out.leave_one_out import generalized_cross_validation
from substrate.operators.border import ONES, Border
from substrate.operators.kernel_rows import columns_of
from substrate.operators.saddle_system import target_unit

if TYPE_CHECKING:
    from substrate.kernels.nodes import Node

__all__ = [
    "LeftOut",
    "LeftOutOutputs",
    "PartlyLinear",
    "gcv_of",
    "has_closed_forms",
    "has_shape",
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


class PartlyLinear(KernelEstimator):
    """An estimator with a parameter ``linear_columns``, of which every row can be left out, without a refit where it
    solves one linear system.
    """

    linear_columns: Any

    def _own_kernel(self, given: Any = None) -> Kernel:
        """Return the kernel of the machine, on the columns that are not linear."""
        kernel = super()._own_kernel(given)
        if not np.size(self.linear_columns):
            return kernel
        if kernel.pairwise:
            raise DeclarationError(
                f"{type(self).__name__} takes its linear part from the columns of X, which a precomputed kernel "
                "matrix does not have; fit with a kernel of substrate.kernels on X itself"
            )
        if not hasattr(self, "n_features_in_"):  # before a fit, as given
            return kernel
        linear = self._linear_numbers()
        return Restricted(kernel, tuple(k for k in range(self.n_features_in_) if k not in linear))

    def _linear_numbers(self) -> list[int]:
        """Return the numbers of the columns of the linear part, as fitted where there is a fit."""
        if hasattr(self, "linear_columns_"):
            return [int(column) for column in self.linear_columns_]
        columns, n = self.linear_columns, int(getattr(self, "n_features_in_", 0))
        if isinstance(columns, str) or not hasattr(columns, "__iter__"):
            raise DeclarationError(f"linear_columns must be a list of columns, by number or name; received {columns!r}")
        names = getattr(self, "feature_names_in_", None)
        numbers = [column_number(column, "linear_columns", n, names) for column in columns]
        if len(set(numbers)) < len(numbers):
            raise DeclarationError(f"linear_columns names a column twice: {list(columns)!r}")
        if len(numbers) == n:
            raise DataError(
                f"all {n} columns are in linear_columns, which leaves none to the kernel; leave one out, or use linear "
                "least squares"
            )
        return numbers

    def _linear_names(self) -> tuple[str, ...]:
        """Return what the columns of the linear part are called, for refusals."""
        names = getattr(self, "feature_names_in_", None)
        return tuple(f"column {k if names is None else repr(str(names[k]))}" for k in self._linear_numbers())

    def _border(self, X: Any, weights: Any) -> Border:
        """Return the columns that are not penalised, of some rows with their weights: the bias and the linear ones."""
        if not np.size(self.linear_columns):
            return ONES
        columns = self._linear_names()
        if int(X.shape[0]) <= len(columns) + 1:
            raise DataError(
                f"{len(columns)} linear columns and the bias fit all {int(X.shape[0])} rows, which leaves none to "
                "the kernel; use fewer linear columns or more rows"
            )
        center, values = getattr(self, "linear_center_", None), to_numpy(columns_of(X, self._linear_numbers()))
        return Border.of(values, to_numpy(weights), columns, center=center)

    def _linear_values(self, X: Any) -> Array | None:
        """Return the linear columns at the rows of X, dense, where X is, less their center."""
        if not hasattr(self, "linear_center_"):
            return None
        columns = columns_of(X, self._linear_numbers())
        return columns - on_device_of(columns, self.linear_center_)

    def _linear_slopes(self) -> Array | None:
        """Return their coefficients, one column per output."""
        return np.atleast_2d(self.coef_).T if hasattr(self, "linear_center_") else None

    def _central_bias(self) -> Any:
        """Return the bias at the center of the linear columns."""
        return self.linear_bias_ if hasattr(self, "linear_center_") else self.bias_

    def _unpenalised(self, X: Any) -> Any:
        linear, slopes = self._linear_values(X), self._linear_slopes()
        if linear is None or slopes is None:
            return self.bias_
        values = linear @ on_device_of(linear, slopes)
        return (values if self._outputs() else values[:, 0]) + self.linear_bias_

    def _express(self, x: "Sequence[Node]") -> "list[Node]":
        slopes = self._linear_slopes()
        if slopes is None:
            return super()._express(x)
        from substrate.kernels.nodes import add_outputs, expand_linear

        part = expand_linear(self._linear_numbers(), self.linear_center_, slopes, x)
        return add_outputs(add_outputs(self._express_kernel(x), part), np.atleast_1d(self.linear_bias_))

    def _keep_linear(self, slopes: Array | None, center: Array, bias: Array, one_output: bool, like: Any) -> Array:
        """Keep the coefficients, one column per output, and the bias at the center; return the bias at z = 0."""
        self.linear_columns_ = np.array(self._linear_numbers(), dtype=np.intp)
        if slopes is None:
            self.coef_ = np.zeros((0,) if one_output else (int(bias.shape[0]), 0))
            return bias
        self.coef_ = np.ascontiguousarray(slopes[:, 0] if one_output else slopes.T)
        self.linear_center_ = np.array(center)
        at_center = to_numpy(bias)
        self.linear_bias_ = float(at_center[0]) if one_output else on_device_of(like, at_center)
        return np.asarray(at_center - center @ slopes)

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
        is_single, wrong, home = self.support_values_.ndim == 1, None, self.support_values_
        values, errors = (on_device_of(home, array[:, 0] if is_single else array) for array in (outputs, residuals))
        predictions = values
        if self._labels:
            model: Any = self
            book = model.code_book_
            decoded = winners(scores_of(outputs, model.coding, book))
            wrong = float(np.mean(decoded != numbers_of_codes(left_out.targets, book)))
            there = on_device_of(home, decoded)
            predictions = take_rows(on_device_of(there, model.classes_), there)
        freedom, gcv = ((float(v[0]) if is_single else v) for v in (left_out.degrees_of_freedom, left_out.gcv))
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
