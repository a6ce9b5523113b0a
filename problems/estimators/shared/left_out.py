r"""Leave-one-out of a fitted LS-SVM, from its fitted state: no refit.

A model computes the errors :math:`e_i` of its rows and their left-out residuals, in closed form for a machine on all
rows (:mod:`substrate.least_squares.leave_one_out`) and for one on a basis (:mod:`substrate.reduced.spectrum`).
Criteria, the importance of inputs and the calibration of a classifier follow from these. One row, the one of largest
leverage, is refitted as a check.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from problems.estimators.shared.coded import numbers_of_codes, scores_of, winners
from problems.estimators.shared.model import Model
from substrate.arrays import Array, on_device_of, take_rows, to_numpy
from substrate.certificates import NO_BOUND, Certificate, Row
from substrate.errors import DeclarationError
from substrate.least_squares.leave_one_out import generalized_cross_validation
from substrate.least_squares.saddle_system import target_unit

if TYPE_CHECKING:
    from problems.estimators.shared.importance import LeftOutImportance

__all__ = ["LeavesOut", "LeftOut", "LeftOutOutputs", "decode", "gcv_of", "leave_one_out", "left_out_importance"]


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
    def press(self) -> Any:
        """Return the predicted residual sum of squares, one number or one per output."""
        return self._each(lambda residuals: np.sum(np.square(residuals)))

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


def decode(model: Any, outputs: Array, codes: Array) -> tuple[Any, float]:
    """Return the numbers of the classes that outputs decode to, in numpy, and the share of rows of another class."""
    decoded = winners(scores_of(outputs[:, 0] if outputs.shape[1] == 1 else outputs, model.coding, model.code_book_))
    return decoded, float(np.mean(decoded != numbers_of_codes(codes, model.code_book_)))


class LeavesOut(Model):
    """A machine of which every row can be left out, without a refit where it solves one linear system."""

    #: The choices that are not refitted.
    conditional: ClassVar[str] = "kernel, gamma, weights and preparation of the columns"

    @abstractmethod
    def leave_rows_out(
        self, X: Any, y: Any = None, sample_weight: Any = None, is_checked: bool = True
    ) -> LeftOutOutputs:
        """Leave every row of the fit out. Rows are given again where the model does not keep them; a refit checks the
        result if ``is_checked``.
        """

    def leave_groups_out(self, left_out: LeftOutOutputs, groups: Any) -> Array:
        r"""Return the residuals of rows left out together with equal rows, whose numbers are ``groups``.

        With the errors :math:`e` of the fit, :math:`1 - h_i = e_i / r_i` is the spare leverage of a row; equal rows
        have equal errors, and without all of them the residual is :math:`e / (1 - \sum_i h_i)`. A row of weight two is
        so the same as two equal rows. One column per machine.
        """
        sizes, errors, residuals = np.bincount(groups), left_out.errors, left_out.residuals
        residuals_of_groups = residuals.copy()
        with np.errstate(divide="ignore", invalid="ignore"):
            leverages = np.where(residuals == 0.0, 0.0, 1.0 - errors / residuals)
            for column in range(residuals.shape[1]):
                spare = 1.0 - np.bincount(groups, leverages[:, column])[groups]
                several = (sizes[groups] > 1) & (errors[:, column] != 0.0) & (spare > 0.0)
                residuals_of_groups[several, column] = errors[several, column] / spare[several]
        return residuals_of_groups

    def leave_one_out(self, X: Any, y: Any, sample_weight: Any) -> LeftOut:
        """Leave every row out, and decode outputs to classes."""
        model = self.estimator
        check_is_fitted(model)
        self.refuse_shape("leave_one_out")
        left_out = self.leave_rows_out(X, y, sample_weight)
        outputs, residuals = left_out.outputs, left_out.residuals
        one, wrong, home = model.support_values_.ndim == 1, None, model.support_values_
        values, errors = (on_device_of(home, array[:, 0] if one else array) for array in (outputs, residuals))
        predictions = values
        if model._labels:
            decoded, wrong = decode(model, outputs, left_out.targets)
            there = on_device_of(home, decoded)
            predictions = take_rows(on_device_of(there, model.classes_), there)
        freedom, gcv = ((float(v[0]) if one else v) for v in (left_out.degrees_of_freedom, left_out.gcv))
        facts = (
            *left_out.facts,
            ("conditional on", f"{self.conditional}, chosen with the left-out row included"),
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
            certificate=Certificate("Leave-one-out without refitting", (*left_out.rows, *self.rests_on()), facts),
        )

    def left_out_importance(
        self, X: Any, y: Any, n_repeats: int, random_state: Any, groups: Any, sample_weight: Any
    ) -> "LeftOutImportance":
        """Permute every input of rows that are left out."""
        from problems.estimators.shared.importance import Losses, importance_of  # for few

        model = self.estimator
        check_is_fitted(model)
        self.refuse_shape("left_out_importance")
        if model.kernel_.pairwise:
            raise DeclarationError(
                "left_out_importance permutes the values of an input, and a precomputed kernel matrix has no inputs; "
                "fit with a kernel of substrate.kernels on X itself"
            )
        left_out = self.leave_rows_out(X, y, sample_weight, False)
        machines = model._model.left_out_machines((X, y, sample_weight))  # of machines that solve one linear system
        losses = Losses.of_model(model, left_out.targets, self.importance_weights(left_out, sample_weight))
        outputs = left_out.outputs
        how = n_repeats, random_state, groups
        return importance_of(machines, self.evaluate, left_out.X, outputs, losses, *how, self.rests_on())

    def importance_weights(self, left_out: LeftOutOutputs, sample_weight: Any) -> Array | None:
        """Return the weights of the rows in a mean, as in the fit."""
        return left_out.weights

    def keep_units(self, gammas: Sequence[float], noise: Array | None, one_output: bool) -> None:
        """Keep what a new row of weight one needs besides the expansion, whatever the parameters are set to later."""
        model, ridge = self.estimator, 1.0 / np.array(gammas)
        model.unit_ridge_ = float(ridge[0]) if one_output else ridge
        if noise is not None:
            model.noise_variance_ = float(noise[0]) if one_output else noise

    def refuse_shape(self, name: str) -> None:
        """Refuse a machine that is not the solution of one linear system."""

    def rests_on(self) -> tuple[Row, ...]:
        """Return the accuracy of the fit: left-out residuals are only as accurate as the support values."""
        answer = self.estimator.certificate_.answer
        return () if answer is None else (answer.plain("accuracy of the fit"),)


def leave_one_out(self: Any, X: Any = None, y: Any = None, sample_weight: Any = None) -> LeftOut:
    """Return outputs, residuals and criteria of every row with that row left out, exactly and without refitting.

    Only the fitted state is needed, in the order of ``support_``, neither rows nor targets; ``X``, where given, has to
    be the ``X`` of the fit. With a precomputed kernel it is needed, the matrix of all training rows. A row is left out
    with its whole weight. Kernel, gamma and scaling are unchanged although the left-out row contributed to their
    choice, which the certificate states.

    A model with a basis keeps no rows: they are given again, with their targets, and their weights if the fit had any.
    The basis is unchanged, too. Rows are also given again for losses other than the squared one. Then a row is left out
    in closed form if no other row changes the piece of its loss, and by a fit otherwise; the certificate counts both
    kinds, and the degrees of freedom are NaN.
    """
    return self._model.leave_one_out(X, y, sample_weight)


def left_out_importance(
    self: Any,
    X: Any = None,
    y: Any = None,
    n_repeats: int = 5,
    random_state: Any = 0,
    *,
    groups: Any = None,
    sample_weight: Any = None,
) -> "LeftOutImportance":
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
        Weights of the rows of the fit in the mean over rows; None weighs all rows of the model equally.

    Returns
    -------
    LeftOutImportance
        ``importances_mean``, ``importances_std`` and ``importances``, in the units of the mean square error or of
        the accuracy. Kernel, gamma and scaling are not chosen again without a row or an input.
    """
    how = n_repeats, random_state, groups, sample_weight
    return self._model.left_out_importance(X, y, *how)
