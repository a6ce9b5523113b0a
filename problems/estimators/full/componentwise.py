"""Componentwise LS-SVMs: the kernel is a sum over the inputs (:mod:`problems.componentwise_ls_svm`).

In a file of their own because scikit-learn's selection of features, which they offer, is slow to import.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from problems.estimators.full.ls_svm import LSSVMClassifier, LSSVMModel, LSSVMRegressor
from problems.estimators.shared.additive import AdditiveEstimator, AdditiveModel
from problems.estimators.shared.base import Uses

__all__ = ["ComponentwiseLSSVMClassifier", "ComponentwiseLSSVMRegressor"]


class ComponentwiseModel(AdditiveModel, LSSVMModel):
    """The LS-SVM as a sum of components."""

    def keep_components(self) -> None:
        """Set the largest values and the norms of the components of a fitted machine."""
        model = self.estimator
        values, alpha = self.component_values(model.support_vectors_), model._coefficients()
        model.maximal_variation_ = np.ascontiguousarray(np.abs(values).max(axis=0).T)
        # w_l'w_l = alpha' f^l at the training points
        squares = np.einsum("nlm,nm->ml", values, alpha) if alpha.ndim == 2 else values.T @ alpha
        model.component_norms_ = np.sqrt(np.maximum(squares, 0.0))


@dataclass(eq=False, repr=False)
class ComponentwiseLSSVMRegressor(AdditiveEstimator, LSSVMRegressor):
    """The componentwise LS-SVM for regression ([Pelckmans2005]_ eq. (6)-(8)).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel of every input; or a :class:`~substrate.kernels.Componentwise` that names one for each input or
        group of inputs. ``"rbf"`` takes the median distance of each input as its width.
    gamma, tol, solver, max_iter
        As for :class:`~problems.LSSVMRegressor`.
    monotone, convex, bounds
        Refused: shapes are those of ``LSSVMRegressor(Componentwise(kernel), monotone=...)``.
    relevance : float, default=0.05
        Share of the largest maximal variation up to which an input counts as irrelevant.

    Attributes
    ----------
    maximal_variation_ : array of shape (n_components,) or (n_outputs, n_components)
        max_i abs(f^l(x_i)) over the training points.
    component_norms_ : array of the same shape
        The norms of w_l.
    support_values_, bias_, support_, support_vectors_, kernel_, certificate_, n_iter_, solver_
        As for :class:`~problems.LSSVMRegressor`.
    """

    _title = "Componentwise LS-SVM regression"
    _model_type = ComponentwiseModel
    _page = "componentwise_ls_svm"
    _typical: ClassVar[Uses] = ({"gamma": 10.0}, {"solver": "cg"})
    _: KW_ONLY
    relevance: float = 0.05

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to rows X and targets or labels y; a row of weight 2 counts as two rows, one of weight 0 not at all."""
        super().fit(X, y, sample_weight)
        self._model.keep_components()
        return self


@dataclass(eq=False, repr=False)
class ComponentwiseLSSVMClassifier(AdditiveEstimator, LSSVMClassifier):
    """The componentwise LS-SVM for classification ([Pelckmans2005]_ eq. (6)-(8) with (4)-(5)).

    Parameters
    ----------
    kernel, relevance
        As for :class:`ComponentwiseLSSVMRegressor`; the largest variation is that over all machines.
    gamma, tol, solver, max_iter, coding, calibration, class_weight
        As for :class:`~problems.LSSVMClassifier`.

    Attributes
    ----------
    maximal_variation_, component_norms_ : arrays of shape (n_components,) or (n_machines, n_components)
        As for :class:`ComponentwiseLSSVMRegressor`.
    classes_, code_book_, support_codes_, support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        As for :class:`~problems.LSSVMClassifier`.
    """

    _title = "Componentwise LS-SVM classification (as regression on the labels)"
    _model_type = ComponentwiseModel
    _page = "componentwise_ls_svm"
    _: KW_ONLY
    relevance: float = 0.05

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to rows X and targets or labels y; a row of weight 2 counts as two rows, one of weight 0 not at all."""
        super().fit(X, y, sample_weight)
        self._model.keep_components()
        return self
