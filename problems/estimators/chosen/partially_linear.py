"""Partially linear LS-SVMs that choose their gamma, with a proof, and their kernel."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from problems.estimators.chosen.dense_search import DenseSearch
from problems.estimators.chosen.selection import LSSVMClassifierCV, LSSVMRegressorCV
from problems.estimators.full.partially_linear import PartiallyLinearModel
from substrate.errors import DeclarationError
from substrate.kernels import Kernel
from substrate.namespaces import take_rows

__all__ = ["PartiallyLinearLSSVMClassifierCV", "PartiallyLinearLSSVMRegressorCV"]


class PartiallyLinearSearch(DenseSearch):
    """A search over candidates on the columns that are not in the linear part."""

    def check_rules(self) -> None:
        """Refuse parameters before any work, and searches that know no linear part."""
        model = self.estimator
        super().check_rules()
        if np.size(model.linear_columns) and model.search in ("gradient", "certified"):
            raise DeclarationError(
                f"search={model.search!r} knows a bias and no other columns that are not penalised; use a "
                "list of kernels, search='nelder-mead', or linear_columns=()"
            )

    def candidates(self, X: Any) -> list[Kernel]:
        """Return the kernels to judge, off the linear columns."""
        model = self.estimator._model
        linear = model.linear_numbers()
        if self.estimator.kernels is None or not linear:
            return super().candidates(X)
        others = np.array([column for column in range(int(X.shape[1])) if column not in linear])
        found = super().candidates(take_rows(X.T, others).T)
        return [model.off_linear(kernel) for kernel in found]


@dataclass(eq=False, repr=False)
class PartiallyLinearLSSVMRegressorCV(LSSVMRegressorCV):
    """Partially linear LS-SVM regression that chooses gamma, provably the best of a range, and its kernel.

    Parameters
    ----------
    kernel, tol, monotone, convex, bounds, kernels, cv, loss, validation_fraction, random_state, gamma_range, gap
        As for :class:`~problems.LSSVMRegressorCV`; kernels are those of the columns that are not linear. The evidence
        has a flat prior on the coefficients of the linear part too.
    search, max_evaluations, widths, n_jobs, verbose, sigma_range, width_gap
        As for :class:`~problems.LSSVMRegressorCV`; with a linear part ``search`` is None or ``"nelder-mead"``.
    linear_columns : list of int or str, default=()
        As for :class:`PartiallyLinearLSSVMRegressor`. They must not depend on each other on the training rows of any
        fold.

    Attributes
    ----------
    gamma_, criterion_, criterion_lower_bound_, path_, gamma_range_, sigma_range_, cv_results_
        As for :class:`~problems.LSSVMRegressorCV`.
    coef_, coef_standard_errors_, linear_columns_, linear_center_, linear_bias_, bias_, noise_variance_, unit_ridge_
        As for :class:`PartiallyLinearLSSVMRegressor`.
    kernel_, support_values_, support_, support_vectors_, ridge_, certificate_, n_iter_
        As for :class:`~problems.LSSVMRegressorCV`.
    """

    _model_type = PartiallyLinearModel
    _selector_type = PartiallyLinearSearch
    _page = "partially_linear_ls_svm"
    _takes_matrix = False
    _: KW_ONLY
    linear_columns: Any = ()
    _typical = ({"linear_columns": (0,)},)
    _title = "Partially linear LS-SVM regression, gamma selected"


@dataclass(eq=False, repr=False)
class PartiallyLinearLSSVMClassifierCV(LSSVMClassifierCV):
    """The partially linear LS-SVM classifier that chooses gamma, provably the best of a range, and its kernel.

    Parameters
    ----------
    kernel, tol, coding, calibration, class_weight, kernels, cv, loss, validation_fraction, random_state
        As for :class:`~problems.LSSVMClassifierCV`; kernels are those of the columns that are not linear.
    gamma_range, gap, search, max_evaluations, widths, n_jobs, verbose, sigma_range, width_gap
        As for :class:`~problems.LSSVMClassifierCV`; with a linear part ``search`` is None or ``"nelder-mead"``.
    linear_columns : list of int or str, default=()
        As for :class:`PartiallyLinearLSSVMRegressorCV`.

    Attributes
    ----------
    gamma_, criterion_, criterion_lower_bound_, path_, gamma_range_, sigma_range_, cv_results_
        As for :class:`~problems.LSSVMClassifierCV`.
    coef_, linear_columns_, linear_center_, linear_bias_
        As for :class:`PartiallyLinearLSSVMClassifier`.
    classes_, code_book_, support_codes_, support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        As for :class:`~problems.LSSVMClassifier`.
    """

    _model_type = PartiallyLinearModel
    _selector_type = PartiallyLinearSearch
    _page = "partially_linear_ls_svm"
    _takes_matrix = False
    _: KW_ONLY
    linear_columns: Any = ()
    _typical = ({"linear_columns": (0,)},)
    _title = "Partially linear LS-SVM classification, gamma selected"
