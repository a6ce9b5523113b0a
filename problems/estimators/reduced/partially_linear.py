r"""Partially linear LS-SVMs on a reduced basis: a linear part that is not penalised, and few vectors in the expansion.

.. math::

    \min_{\beta, c, b} \; \tfrac12 \beta^T K_{SS} \beta
        + \tfrac{\gamma}{2} \sum_{i=1}^l v_i \Big( y_i - c^T z_i - \sum_{j \in S} \beta_j k(x_i, s_j) - b \Big)^2

[Espinoza2005b]_ with the expansion of [Cawley2004]_ eq. (2); see :mod:`problems.partially_linear_ls_svm` for the
problem on all rows and :mod:`substrate.reduced.linear_columns` for the closed form.
"""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from problems.estimators.reduced.fit import FitData, ReducedFit
from problems.estimators.reduced.ls_svm import SparseLSSVMClassifier, SparseLSSVMRegressor
from problems.estimators.reduced.ls_svm_machine import SparseModel
from problems.estimators.shared.linear_part import LinearColumnsModel
from substrate.arrays import Array
from substrate.certificates import Row
from substrate.kernels import Kernel
from substrate.namespaces import namespace_of, on_device_of, to_numpy
from substrate.reduced.linear_columns import LinearColumns, survey_linear_columns
from substrate.reduced.rows import KernelRows

__all__ = [
    "SparsePartiallyLinearLSSVMClassifier",
    "SparsePartiallyLinearLSSVMRegressor",
    "SparsePartiallyLinearModel",
]


class SparsePartiallyLinearModel(LinearColumnsModel, SparseModel):
    """The linear part of a machine on a reduced basis."""

    def linear_part(self, kernel: Kernel, data: FitData) -> LinearColumns | None:
        """Find the linear columns in a pass over the rows."""
        numbers = tuple(self.linear_numbers())
        if not numbers:
            return None
        return survey_linear_columns(data.source, kernel, numbers, self.column_names())

    def linear_values(self) -> LinearColumns | None:
        """Return the linear columns in the units of the rows."""
        if not hasattr(self.estimator, "linear_center_"):
            return None
        return LinearColumns.plain(self.linear_numbers(), self.estimator.linear_center_)

    def survey(self, rows: KernelRows) -> KernelRows:
        """Return the rows with what a pass finds of the linear columns."""
        values = rows.values
        if (linear := values.linear) is None:
            return rows
        arguments = (
            rows.source,
            self.estimator.kernel_,
            linear.numbers,
            self.column_names(),
            linear.center,
        )
        return replace(rows, values=replace(values, linear=survey_linear_columns(*arguments)))

    def columns(self) -> tuple[Array, Array]:
        """Return coefficients, those of the linear part last, and biases at its center."""
        alpha, bias = super().columns()
        slopes = self.linear_slopes()
        if slopes is None:
            return alpha, bias
        at_center = on_device_of(alpha, np.atleast_1d(to_numpy(self.estimator.linear_bias_)))
        return namespace_of(alpha).concat([alpha, on_device_of(alpha, slopes)], axis=0), at_center

    def keep(self, fit: ReducedFit, one: bool, rows: tuple[Row, ...] = ()) -> None:
        """Keep the coefficients of the linear part, with their standard errors in regression, then the rest."""
        linear, m = fit.prepared.rows.values.linear, fit.prepared.basis.size
        if not self.estimator._labels:
            noise = np.zeros(int(fit.coefficients.shape[1])) if fit.noise is None else fit.noise
            deviations = None
            if linear is not None and fit.deviations is not None:
                deviations = linear.unscale(fit.deviations[:, None])
            self.keep_errors(deviations, np.sqrt(noise), one)
        slopes = None if linear is None else to_numpy(linear.unscale(fit.coefficients[m:, :]))
        center = np.zeros(0) if linear is None else linear.center
        bias = self.keep_linear(slopes, center, fit.bias, one, fit.coefficients)
        if linear is not None and fit.factor is not None:
            # the leverages of rows in their own units
            matrix = fit.factor.matrix
            last = matrix[:, m:] / on_device_of(matrix, linear.units)
            factor = replace(fit.factor, matrix=namespace_of(matrix).concat([matrix[:, :m], last], axis=1))
            fit = replace(fit, bias=on_device_of(fit.bias, bias), coefficients=fit.coefficients[:m, :], factor=factor)
        super().keep(fit, one, rows)


@dataclass(eq=False, repr=False)
class SparsePartiallyLinearLSSVMRegressor(SparseLSSVMRegressor):
    r"""LS-SVM regression on a reduced basis with a linear part that is not penalised, at any number of rows.

    f(x) = beta'z + w'phi(x) + b ([Espinoza2005b]_) with the expansion of [Cawley2004]_ eq. (2).

    Parameters
    ----------
    kernel, gamma, tol, basis
        As for :class:`~problems.SparseLSSVMRegressor`; the kernel is that of the columns that are not linear, which
        also choose the basis.
    linear_columns : list of int or str, default=()
        As for :class:`~problems.LSSVMRegressor`. Without any this is
        :class:`~problems.SparseLSSVMRegressor`; with some a fit makes one more pass over the rows.

    Attributes
    ----------
    coef_, coef_standard_errors_ : array of shape (n_linear,)
        The effect of one unit of each linear column on y, and its standard error: the root of the diagonal of
        :math:`s^2 H^{-1}`, with H the Hessian of the machine on the basis over gamma and :math:`s^2` the
        ``noise_variance_``; conditional on basis, kernel and gamma.
    bias_, linear_columns_, linear_center_, linear_bias_
        As for :class:`~problems.LSSVMRegressor`.
    leverage_factor_, leverage_offset_ : array
        For leave-one-out, as for :class:`~problems.SparseLSSVMRegressor`; the linear columns, less ``linear_center_``,
        follow the kernel values k(x).
    support_values_, basis_, basis_indices_, support_, support_vectors_, reconstruction_error_, rank_, n_rows_
        As for :class:`~problems.SparseLSSVMRegressor`.
    degrees_of_freedom_, noise_variance_, unit_ridge_, mass_, weighted_, kernel_, certificate_
        As for :class:`~problems.SparseLSSVMRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from problems import SparsePartiallyLinearLSSVMRegressor
    >>> from substrate.kernels import RBF
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> y = 2.0 * X[:, 0] + np.sin(X[:, 1]) * X[:, 2]
    >>> model = SparsePartiallyLinearLSSVMRegressor(RBF(2.0), 100.0, basis=60, linear_columns=[0]).fit(X, y)
    >>> round(float(model.coef_[0]), 2), bool(model.certificate_.holds)
    (2.0, True)
    """

    _model_type = SparsePartiallyLinearModel
    _page = "partially_linear_ls_svm"
    _takes_matrix = False
    _: KW_ONLY
    linear_columns: Any = ()
    _typical = ({"linear_columns": (0,)},)
    _title = "Sparse partially linear LS-SVM regression"


@dataclass(eq=False, repr=False)
class SparsePartiallyLinearLSSVMClassifier(SparseLSSVMClassifier):
    """The LS-SVM classifier on a reduced basis with a linear part that is not penalised ([Espinoza2005b]_).

    Parameters
    ----------
    kernel, gamma, tol, basis, coding, calibration, class_weight
        As for :class:`~problems.SparseLSSVMClassifier`; the kernel is that of the columns that are not linear.
    linear_columns : list of int or str, default=()
        As for :class:`SparsePartiallyLinearLSSVMRegressor`.

    Attributes
    ----------
    coef_ : array of shape (n_linear,) or (n_machines, n_linear)
        The effect of one unit of each linear column on the decision value.
    linear_columns_, linear_center_, linear_bias_, leverage_factor_, leverage_offset_
        As for :class:`SparsePartiallyLinearLSSVMRegressor`.
    classes_, code_book_, support_values_, bias_, basis_, basis_indices_, support_, support_vectors_
        As for :class:`~problems.SparseLSSVMClassifier`.
    reconstruction_error_, rank_, degrees_of_freedom_, n_rows_, kernel_, certificate_
        As for :class:`~problems.SparseLSSVMClassifier`.
    """

    _model_type = SparsePartiallyLinearModel
    _page = "partially_linear_ls_svm"
    _takes_matrix = False
    _: KW_ONLY
    linear_columns: Any = ()
    _typical = ({"linear_columns": (0,)},)
    _title = "Sparse partially linear LS-SVM classification (as regression on the labels)"
