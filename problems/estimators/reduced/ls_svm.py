r"""Sparse LS-SVMs on a reduced basis: few vectors in the expansion, the errors of all rows in the objective.

.. math::

    \min_{\beta, b} \; \tfrac12 \beta^T K_{SS} \beta
        + \tfrac{\gamma}{2} \sum_{i=1}^l v_i \Big( y_i - \sum_{j \in S} \beta_j k(x_i, z_j) - b \Big)^2,
    \qquad v_i = 1 \text{ unless given}

[Cawley2002]_ section 2, [Cawley2004]_ eq. (2)-(5); see :mod:`problems.reduced_basis_ls_svm` for the problem and
:mod:`substrate.reduced.solution` for the closed form. Time is linear in the number of rows, memory does not
depend on it, and rows need not be in memory: ``fit`` takes arrays, mapped ones too, Dask arrays and dataframes, or an
iterable of blocks ``(X, y)`` that can be iterated again; see :mod:`substrate.streaming`. With ``sample_weight`` the
squared error of row i counts :math:`v_i` times; the basis is chosen without a look at the weights, but rows of weight
zero are absent.
"""

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np

from problems.estimators.reduced.intervals import ReducedIntervals
from problems.estimators.reduced.ls_svm_machine import (
    SparseModel,
    fit_on_a_basis,
    leave_one_out,
    left_out_importance,
)
from problems.estimators.reduced.machine import BASIS, READERS, RegressedCalibration
from problems.estimators.shared.calibration_scores import MOST_ROWS, CalibrationScores, equal_rows, leave_groups_out
from problems.estimators.shared.classifier import Classifier
from problems.estimators.shared.coded import numbers_of_codes, scores_of
from problems.estimators.shared.intervals import (
    predict_left_out_interval,
)
from problems.estimators.shared.regressor import Regressor
from substrate.arrays import Array
from substrate.errors import DataError
from substrate.namespaces import to_numpy
from substrate.reduced.left_out import LeftOutRows, left_out_rows

__all__ = ["SparseLSSVMClassifier", "SparseLSSVMRegressor"]


#: Difference of the sum of leverages from that of the fit, as a share of it, that only other rows explain.
_OTHER_ROWS = 1e-4


@dataclass(frozen=True, slots=True)
class _SomeRows:
    """Targets, errors, spare leverages and weights of all rows or of evenly spaced ones; trace H of all rows."""

    Y: Array
    errors: Array
    spare: Array
    weights: Array
    freedom: float


def _thin_out(blocks: Iterable[LeftOutRows], n_rows: int) -> _SomeRows:
    """Take all rows, or evenly spaced ones of very many."""
    step, freedom = -(-n_rows // MOST_ROWS), 0.0
    kept: list[tuple[Array, ...]] = []
    for block in blocks:
        block.refuse_undetermined()
        Y, fitted, h = (to_numpy(array) for array in (block.Y, block.fitted, block.leverages))
        freedom += float(h.sum())
        first = -block.start % step
        v = np.ones(h.size) if block.weights is None else to_numpy(block.weights)
        kept.append(tuple(array[first::step] for array in (Y, Y - fitted, 1.0 - h, v)))
    arrays = [np.concatenate(columns) for columns in zip(*kept, strict=True)]
    Y, errors, spare, weights = arrays
    return _SomeRows(Y=Y, errors=errors, spare=spare, weights=weights, freedom=freedom)


class BasisCalibration(RegressedCalibration):
    """Every row left out in one pass over the rows, by its leverage."""

    leaves_rows_out = True

    def score_left_out(self, rows: tuple[Any, Any, Any]) -> CalibrationScores:
        """Leave rows out in one pass."""
        model = self.estimator
        data = model._model.read_again(*rows)
        read = model._model.training_rows(data)
        beta, bias = model._model.columns()
        left_out = _thin_out(left_out_rows(read, beta, bias, model._model.leverage_factor(read.mass)), read.n_rows)
        block = data.source.block_in_memory
        if abs(model._model.trace(left_out.freedom).relative) > _OTHER_ROWS:
            raise DataError("these are not the rows that the model was fitted to; pass the X and y of the fit")
        classes, residuals = numbers_of_codes(left_out.Y, model.code_book_), left_out.errors / left_out.spare[:, None]
        if block is not None and not model.kernel_.pairwise and len(classes) == block.X.shape[0]:
            residuals = leave_groups_out(left_out.errors, residuals, equal_rows(to_numpy(block.X), classes))
        outputs = left_out.Y - residuals
        scores = scores_of(outputs[:, 0] if outputs.shape[1] == 1 else outputs, model.coding, model.code_book_)
        return CalibrationScores.of(scores, classes, left_out.weights, "left out")


@dataclass(eq=False, repr=False)
class SparseLSSVMRegressor(Regressor):
    """Least-squares support vector regression on a reduced basis ([Cawley2002]_, [Cawley2004]_ eq. (2)-(3)).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`~problems.LSSVMRegressor`; beyond 8192 rows a width ``"median"`` is that of 8192 of them, always
        the same ones for the same number of rows.
    gamma : float, default=1.0
        Weight of the squared errors of all rows against the norm; twice that of [Cawley2004]_.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds.
    basis : Basis, int, str, array of int, or array of points, default=None
        Which vectors the expansion has: a :class:`~substrate.reduced.Basis`, or how many, a rule, rows or points.

    Attributes
    ----------
    support_values_ : array of shape (n_basis,)
        beta, the coefficients of the expansion.
    bias_ : float
        The bias b.
    basis_indices_ : array of shape (n_basis,) or None
        The rows of the basis; None where points were given.
    basis_, support_vectors_ : array of shape (n_basis, n_features)
        The basis vectors (absent for a precomputed kernel).
    support_ : array of shape (n_basis,)
        ``basis_indices_``, or the numbers of the given points.
    reconstruction_error_ : float
        Mean relative error with which the basis spans the scoring rows in feature space.
    rank_ : int
        Vectors of the basis that double precision can tell apart; below n_basis where vectors tie or nearly do, and
        the coefficients of the others are zero.
    degrees_of_freedom_ : float
        Trace of the hat matrix.
    leverage_factor_, leverage_offset_ : array
        For leave-one-out: the leverage of x is ``1/n_rows_ + ||factor k(x) - offset||^2``; where rows
        have weights, that of a row of weight v is ``v (1/m + ||...||^2)``, m their sum.
    n_rows_ : int
        Number of rows fitted, without those of weight zero.
    noise_variance_ : float
        The variance of the noise at which the evidence of y is largest.
    unit_ridge_, mass_, weighted_ : float, float, bool
        1/gamma, the weight of all rows, and whether they had weights.
    kernel_, certificate_
        As for :class:`~problems.LSSVMRegressor`.

    Examples
    --------
    >>> from problems import SparseLSSVMRegressor
    >>> from substrate.datasets import motorcycle
    >>> from substrate.kernels import RBF
    >>> X, y = motorcycle()
    >>> model = SparseLSSVMRegressor(kernel=RBF(sigma=10.0), gamma=20.0, basis=15).fit(X, y)
    >>> model.basis_.shape, bool(model.certificate_.holds)
    ((15, 1), True)
    """

    _model_type = SparseModel
    _intervals_type = ReducedIntervals
    _page, _title = "reduced_basis_ls_svm", "Sparse LS-SVM regression"
    _readers = READERS
    _on_devices = _rows_have_targets = True
    gamma: float = 1.0
    _: KW_ONLY
    basis: Any = None

    fit = fit_on_a_basis
    leave_one_out = leave_one_out
    left_out_importance = left_out_importance
    predict_interval = predict_left_out_interval
    basis_ = BASIS

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict f(x) = sum_j beta_j k(z_j, x) + b; with ``return_std`` also the standard deviation of a new target.

        The deviation is that of the Gaussian process of the reduced machine, and needs no training rows.
        """
        return self._intervals.predict_deviations(X) if return_std else self._expansion(X)


@dataclass(eq=False, repr=False)
class SparseLSSVMClassifier(Classifier):
    """The least-squares support vector classifier on a reduced basis, two classes or more.

    Parameters
    ----------
    kernel, gamma, tol, basis
        As for :class:`SparseLSSVMRegressor`.
    coding : {"one_vs_rest", "minimum_output", "ecoc"}, default="one_vs_rest"
        How more than two classes become two-class machines, all on one basis and one statistic. For pairs of classes
        use scikit-learn's ``OneVsOneClassifier``.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        As for :class:`~problems.LSSVMClassifier`, in one pass over the training rows, to which the model refers until
        then; None keeps no reference.
    class_weight : dict or "balanced", default=None
        Weights of the classes, multiplied into those of the rows, which must be in memory; for rows that are read in
        passes give ``sample_weight``.

    Attributes
    ----------
    classes_, code_book_
        As for :class:`~problems.LSSVMClassifier`.
    support_values_ : array of shape (n_basis,) or (n_basis, n_machines)
        beta, in the sign of regression on the labels.
    bias_, basis_, basis_indices_, support_, support_vectors_, reconstruction_error_, rank_, degrees_of_freedom_
        As for :class:`SparseLSSVMRegressor`.
    leverage_factor_, leverage_offset_, n_rows_, kernel_, certificate_
        As for :class:`SparseLSSVMRegressor`.
    """

    _model_type = SparseModel
    _calibration_type = BasisCalibration
    _page, _title = "reduced_basis_ls_svm", "Sparse LS-SVM classification (as regression on the labels)"
    _readers = READERS
    _on_devices = _rows_have_targets = _regressed = True
    gamma: float = 1.0
    _: KW_ONLY
    basis: Any = None
    coding: str = "one_vs_rest"
    calibration: Literal["sigmoid", "isotonic"] | None = "sigmoid"
    class_weight: Any = None

    fit = fit_on_a_basis
    leave_one_out = leave_one_out
    left_out_importance = left_out_importance
    basis_ = BASIS
