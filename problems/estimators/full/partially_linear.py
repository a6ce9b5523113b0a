"""LS-SVMs with a linear part that is not penalised, see :mod:`problems.partially_linear_ls_svm`."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from problems.estimators.full.ls_svm import LSSVMClassifier, LSSVMModel, LSSVMRegressor
from problems.estimators.full.saddle_fit import SaddleFit
from problems.estimators.shared.linear_part import LinearColumnsModel
from substrate.arrays import Array
from substrate.errors import DataError
from substrate.least_squares.border import Border
from substrate.namespaces import to_numpy

__all__ = ["PartiallyLinearLSSVMClassifier", "PartiallyLinearLSSVMRegressor", "PartiallyLinearModel"]


class PartiallyLinearModel(LinearColumnsModel, LSSVMModel):
    """The LS-SVM with a linear part, on all rows."""

    @property
    def plain_page(self) -> str:
        """The page of the LS-SVM."""
        return "ls_svm_classification" if self.estimator._labels else "ls_svm_regression"

    def border(self, X: Any, weights: Any) -> Border:
        """Return the bias and the linear columns."""
        columns = self.column_names()
        center = getattr(self.estimator, "linear_center_", None)
        if not columns:
            return super().border(X, weights)
        if int(X.shape[0]) <= len(columns) + 1:
            raise DataError(
                f"{len(columns)} linear columns and the bias fit all {int(X.shape[0])} rows, which leaves none to "
                "the kernel; use fewer linear columns or more rows"
            )
        return Border.of(to_numpy(self.take_linear(X)), to_numpy(weights), columns, center=center)

    def keep(self, X: Any, rows: Any, kernel: Any, fit: SaddleFit, ridge: Array, one_output: bool) -> None:
        """Keep the coefficients of the linear part, with their standard errors in regression, then the rest."""
        model = self.estimator
        if not model._labels:
            scale = np.sqrt(np.atleast_1d(model.noise_variance_) / np.atleast_1d(model.unit_ridge_))
            self.keep_errors(fit.deviations, scale, one_output)
        bias = self.keep_linear(fit.slopes, fit.border.center, fit.bias, one_output, X)
        fit = fit if fit.slopes is None else fit._replace(bias=bias)
        super().keep(X, rows, kernel, fit, ridge, one_output)


@dataclass(eq=False, repr=False)
class PartiallyLinearLSSVMRegressor(LSSVMRegressor):
    r"""LS-SVM regression with a linear part that is not penalised ([Espinoza2005b]_): f(x) = beta'z + w'phi(x) + b.

    Parameters
    ----------
    kernel, gamma, tol, solver, max_iter, monotone, convex, bounds
        As for :class:`~problems.LSSVMRegressor`; the kernel is that of the other columns. Shapes are refused beside
        linear columns.
    linear_columns : list of int or str, default=()
        The columns z of X whose effect is linear, by number, or by name where X is a data frame. They must not depend
        on each other or on a constant. Without any this is :class:`~problems.LSSVMRegressor`.

    Attributes
    ----------
    coef_ : array of shape (n_linear,) or (n_outputs, n_linear)
        beta, the effect of one unit of each linear column on y.
    coef_standard_errors_ : array of the same shape
        The roots of the diagonal of :math:`\gamma s^2 (Z^T (K + D)^{-1} Z)^{-1}`, with Z the constant and the linear
        columns and :math:`s^2` the ``noise_variance_``: the standard errors of generalised least squares, and of a
        Gaussian process with a flat prior on beta and b; conditional on kernel and gamma. Infinite where the kernel is
        not positive semi-definite, or conjugate gradients ended before they were known.
    bias_ : float or array of shape (n_outputs,)
        b, the value at z = 0.
    linear_columns_ : array of shape (n_linear,)
        The numbers of the linear columns.
    linear_center_, linear_bias_ : array of shape (n_linear,), float or array of shape (n_outputs,)
        The mean of the linear columns by weight, and the bias there, from which predictions are computed, so that an
        offset of z costs no digits.
    support_values_, support_, support_vectors_, kernel_, certificate_, ridge_, n_iter_, solver_
        As for :class:`~problems.LSSVMRegressor`.
    unit_ridge_, noise_variance_ : float or array of shape (n_outputs,)
        As for :class:`~problems.LSSVMRegressor`; the linear columns take degrees of freedom as the bias does.
    """

    _model_type = PartiallyLinearModel
    _page = "partially_linear_ls_svm"
    _takes_matrix = False
    _: KW_ONLY
    linear_columns: Any = ()
    _typical = ({"linear_columns": (0,)},)
    _title = "Partially linear LS-SVM regression"


@dataclass(eq=False, repr=False)
class PartiallyLinearLSSVMClassifier(LSSVMClassifier):
    """The LS-SVM classifier with a linear part that is not penalised ([Espinoza2005b]_ with [Pelckmans2005]_ eq. (4)).

    Parameters
    ----------
    kernel, linear_columns
        As for :class:`PartiallyLinearLSSVMRegressor`.
    gamma, tol, solver, max_iter, coding, calibration, class_weight
        As for :class:`~problems.LSSVMClassifier`.

    Attributes
    ----------
    coef_ : array of shape (n_linear,) or (n_machines, n_linear)
        The effect of one unit of each linear column on the decision value.
    linear_columns_, linear_center_, linear_bias_
        As for :class:`PartiallyLinearLSSVMRegressor`.
    classes_, code_book_, support_codes_, support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        As for :class:`~problems.LSSVMClassifier`.
    """

    _model_type = PartiallyLinearModel
    _page = "partially_linear_ls_svm"
    _takes_matrix = False
    _: KW_ONLY
    linear_columns: Any = ()
    _typical = ({"linear_columns": (0,)},)
    _title = "Partially linear LS-SVM classification (as regression on the labels)"
