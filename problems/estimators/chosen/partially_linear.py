"""Partially linear LS-SVMs that choose their gamma, with a proof, and their kernel."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

from problems.estimators.chosen.selection import GammaChoice
from problems.estimators.full.ls_svm import LSSVMClassifier, LSSVMRegressor
from problems.estimators.full.partially_linear import PartiallyLinearModel

__all__ = ["PartiallyLinearLSSVMClassifierCV", "PartiallyLinearLSSVMRegressorCV"]


@dataclass(eq=False, repr=False)
class PartiallyLinearLSSVMRegressorCV(GammaChoice, LSSVMRegressor):  # type: ignore[misc]
    """Partially linear LS-SVM regression that chooses gamma, provably the best of a range, and its kernel.

    Parameters
    ----------
    kernel, tol, monotone, convex, bounds
        As for :class:`~problems.LSSVMRegressorCV`; linear columns keep their units.
    kernels, cv, loss, validation_fraction, random_state, gamma_range, gap
        As for :class:`~problems.LSSVMRegressorCV`; kernels are those of the columns that are not linear. The evidence
        has a flat prior on the coefficients of the linear part too.
    search, max_evaluations, widths, n_jobs, verbose, reach
        As for :class:`~problems.LSSVMRegressorCV`; with a linear part ``search`` is None or ``"nelder-mead"``.
    linear_columns : list of int or str, default=()
        As for :class:`PartiallyLinearLSSVMRegressor`. They must not depend on each other on the training rows of any
        fold.

    Attributes
    ----------
    gamma_, criterion_, criterion_lower_bound_, path_, gamma_range_, reach_, cv_results_
        As for :class:`~problems.LSSVMRegressorCV`.
    coef_, coef_standard_errors_, linear_columns_, linear_center_, linear_bias_, bias_, noise_variance_, unit_ridge_
        As for :class:`PartiallyLinearLSSVMRegressor`.
    kernel_, support_values_, support_, support_vectors_, ridge_, certificate_, n_iter_
        As for :class:`~problems.LSSVMRegressorCV`.
    """

    _model_type = PartiallyLinearModel
    _page = "partially_linear_ls_svm"
    _takes_matrix = False
    _: KW_ONLY
    linear_columns: Any = ()
    _typical = ({"linear_columns": (0,)},)
    _title = "Partially linear LS-SVM regression, gamma selected"


@dataclass(eq=False, repr=False)
class PartiallyLinearLSSVMClassifierCV(GammaChoice, LSSVMClassifier):  # type: ignore[misc]
    """The partially linear LS-SVM classifier that chooses gamma, provably the best of a range, and its kernel.

    Parameters
    ----------
    kernel, tol, coding, calibration, class_weight, kernels, cv, loss, validation_fraction
        As for :class:`~problems.LSSVMClassifierCV`; kernels are those of the columns that are not linear.
    random_state, gamma_range, gap, search, max_evaluations, widths, n_jobs, verbose, reach
        As for :class:`~problems.LSSVMClassifierCV`; with a linear part ``search`` is None or ``"nelder-mead"``.
    linear_columns : list of int or str, default=()
        As for :class:`PartiallyLinearLSSVMRegressorCV`.

    Attributes
    ----------
    gamma_, criterion_, criterion_lower_bound_, path_, gamma_range_, reach_, cv_results_
        As for :class:`~problems.LSSVMClassifierCV`.
    coef_, linear_columns_, linear_center_, linear_bias_
        As for :class:`PartiallyLinearLSSVMClassifier`.
    classes_, code_book_, support_codes_, support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        As for :class:`~problems.LSSVMClassifier`.
    """

    _model_type = PartiallyLinearModel
    _page = "partially_linear_ls_svm"
    _takes_matrix = False
    _: KW_ONLY
    linear_columns: Any = ()
    _typical = ({"linear_columns": (0,)},)
    _title = "Partially linear LS-SVM classification, gamma selected"
