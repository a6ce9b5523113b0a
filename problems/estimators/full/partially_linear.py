"""LS-SVMs with a linear part that is not penalised, see :mod:`problems.partially_linear_ls_svm`."""

from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from problems.estimators.full.ls_svm import LSSVMClassifier, LSSVMRegressor
from problems.estimators.full.saddle_fit import SaddleFit
from problems.estimators.full.saddle_machine import SolvedMachine
from substrate.arrays import Array, is_sparse
from substrate.errors import DataError, DeclarationError
from substrate.kernels import Kernel, Restricted, as_kernel
from substrate.least_squares.border import Border
from substrate.namespaces import on_device_of, take_columns, to_numpy

__all__ = ["PartiallyLinearLSSVMClassifier", "PartiallyLinearLSSVMRegressor"]


@dataclass(eq=False, repr=False, kw_only=True)
class _PartiallyLinear(SolvedMachine):
    """The linear part: its columns, which the kernel does not see, their coefficients, and where they are measured."""

    linear_columns: Any = ()
    _page = "partially_linear_ls_svm"
    _plain_page: ClassVar[str] = "ls_svm_regression"
    _takes_matrix = False

    def _own_page(self) -> str:
        """That of the plain machine where there is no linear part."""
        return self._page if np.size(self.linear_columns) else self._plain_page

    def _linear_numbers(self) -> list[int]:
        """The numbers of the columns of the linear part, those of the fit where there is one."""
        if hasattr(self, "linear_columns_"):
            return [int(column) for column in self.linear_columns_]
        given, n = self.linear_columns, int(self.n_features_in_)
        if isinstance(given, (str, Integral)) or not hasattr(given, "__iter__"):
            raise DeclarationError(f"linear_columns must be a list of columns, by number or name; received {given!r}")
        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        numbers: list[int] = []
        for column in given:
            if isinstance(column, str):
                if column not in names:
                    known = f"the columns are {', '.join(names)}" if names else "X has no column names; give numbers"
                    raise DataError(f"linear_columns names {column!r}, which X does not have; {known}")
                numbers.append(names.index(column))
            elif isinstance(column, Integral) and not isinstance(column, bool):
                if not 0 <= int(column) < n:
                    raise DataError(
                        f"linear_columns holds {int(column)}, and X has {n} columns, numbered from 0 to {n - 1}"
                    )
                numbers.append(int(column))
            else:
                raise DeclarationError(f"linear_columns must hold numbers or names of columns, received {column!r}")
        if len(set(numbers)) < len(numbers):
            raise DeclarationError(f"linear_columns names a column twice: {list(given)!r}")
        if len(numbers) == n:
            raise DataError(
                f"all {n} columns are in linear_columns, which leaves none to the kernel; leave one out, or use linear "
                "least squares"
            )
        return numbers

    def _own_kernel(self) -> Kernel:
        kernel = as_kernel(self.kernel)
        if kernel.pairwise:
            raise DeclarationError(
                f"{type(self).__name__} takes its linear part from the columns of X, which a precomputed kernel matrix "
                "does not have; fit with a kernel of substrate.kernels on X itself"
            )
        return self._off_linear(kernel)

    def _off_linear(self, kernel: Kernel) -> Kernel:
        """The kernel on the columns that are not in the linear part; before a fit as it is given."""
        linear = self._linear_numbers() if hasattr(self, "n_features_in_") else []
        return Restricted(kernel, tuple(k for k in range(self.n_features_in_) if k not in linear)) if linear else kernel

    def _taken(self, X: Any) -> Array:
        """The columns of the linear part, dense, where X is."""
        part: Any = take_columns(X, self._linear_numbers())
        columns: Array = np.asarray(part.toarray()) if is_sparse(part) else part
        return columns

    def _border(self, X: Any, weights: Any) -> Border:
        names = getattr(self, "feature_names_in_", None)
        columns = [f"column {k if names is None else repr(str(names[k]))}" for k in self._linear_numbers()]
        center = getattr(self, "linear_center_", None)
        if not columns:
            return super()._border(X, weights)
        if int(X.shape[0]) <= len(columns) + 1:
            raise DataError(
                f"{len(columns)} linear columns and the bias leave nothing of {int(X.shape[0])} rows to the kernel; "
                "use fewer linear columns or more rows"
            )
        return Border.of(to_numpy(self._taken(X)), to_numpy(weights), columns, center=center)

    def _linear(self, X: Any) -> Array | None:
        if not hasattr(self, "linear_center_"):
            return None
        part = self._taken(X)
        centred: Array = part - on_device_of(part, self.linear_center_)
        return centred

    def _linear_slopes(self) -> Array | None:
        return np.atleast_2d(self.coef_).T if hasattr(self, "linear_center_") else None

    def _bias(self) -> Any:
        return self.linear_bias_ if hasattr(self, "linear_center_") else super()._bias()

    def _keep(self, X: Any, rows: Any, kernel: Any, fit: SaddleFit, ridge: Array, one_output: bool) -> None:
        self.linear_columns_ = np.array(self._linear_numbers(), dtype=np.intp)
        slopes, center = fit.slopes, fit.border.center
        if slopes is not None:
            self.coef_ = np.ascontiguousarray(slopes[:, 0] if one_output else slopes.T)
            self.linear_center_ = np.array(center)
            at_center = to_numpy(fit.bias)
            self.linear_bias_ = float(at_center[0]) if one_output else on_device_of(X, at_center)
            fit = replace(fit, bias=at_center - center @ slopes)
        else:
            self.coef_ = np.zeros((0,) if one_output else (int(fit.support_values.shape[1]), 0))
        super()._keep(X, rows, kernel, fit, ridge, one_output)

    def _check_loaded(self) -> None:
        if self.__sklearn_is_fitted__():
            outputs, k = self._outputs(), len(self._linear_numbers())
            if self.coef_.shape != (*outputs, k) or not np.isfinite(self.coef_).all():
                raise DataError(f"coef_ of shape {self.coef_.shape} does not belong to {k} linear columns")
            if k and (self.linear_center_.shape != (k,) or np.shape(self.linear_bias_) != outputs):
                raise DataError("linear_center_ and linear_bias_ do not belong to coef_")
            wanted = self._own_kernel() if k else None
            if wanted is not None and getattr(self.kernel_, "columns", None) != getattr(wanted, "columns", None):
                raise DataError("kernel_ is not on the columns that linear_columns leaves to it")
        super()._check_loaded()


@dataclass(eq=False, repr=False)
class PartiallyLinearLSSVMRegressor(_PartiallyLinear, LSSVMRegressor):
    r"""LS-SVM regression with a linear part that is not penalised ([Espinoza2005b]_): f(x) = beta'z + w'phi(x) + b.

    Parameters
    ----------
    kernel, gamma, tol, solver, cg_tol, max_iter
        As for :class:`~problems.LSSVMRegressor`; the kernel is that of the other columns.
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

    _: KW_ONLY
    linear_columns: Any = ()
    _title = "Partially linear LS-SVM regression"

    def _keep(self, X: Any, rows: Any, kernel: Any, fit: SaddleFit, ridge: Array, one_output: bool) -> None:
        scale = np.sqrt(np.atleast_1d(self.noise_variance_) / np.atleast_1d(self.unit_ridge_))
        deviations = np.zeros((0, scale.size)) if fit.deviations is None else fit.deviations
        known = np.isfinite(deviations)  # what is unknown is so too where no noise is seen
        errors = np.where(known, np.where(known, deviations, 0.0) * scale, np.inf)
        self.coef_standard_errors_ = np.ascontiguousarray(errors[:, 0] if one_output else errors.T)
        super()._keep(X, rows, kernel, fit, ridge, one_output)


@dataclass(eq=False, repr=False)
class PartiallyLinearLSSVMClassifier(_PartiallyLinear, LSSVMClassifier):
    """The LS-SVM classifier with a linear part that is not penalised ([Espinoza2005b]_ with [Pelckmans2005]_ eq. (4)).

    Parameters
    ----------
    kernel, linear_columns
        As for :class:`PartiallyLinearLSSVMRegressor`.
    gamma, tol, solver, cg_tol, max_iter, coding, calibration, class_weight
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

    _: KW_ONLY
    linear_columns: Any = ()
    _title = "Partially linear LS-SVM classification (as regression on the labels)"
    _plain_page = "ls_svm_classification"
