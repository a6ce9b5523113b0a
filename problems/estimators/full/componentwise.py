"""Componentwise LS-SVMs, see :mod:`problems.componentwise_ls_svm`: LS-SVMs whose kernel is a sum over the inputs."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from problems.estimators.full.ls_svm import LSSVMClassifier, LSSVMRegressor
from problems.estimators.shared.additive import AdditiveEstimator, component_weights

__all__ = ["ComponentwiseLSSVMClassifier", "ComponentwiseLSSVMRegressor"]


@dataclass(eq=False, repr=False)
class ComponentwiseLSSVMRegressor(AdditiveEstimator, LSSVMRegressor):
    """The componentwise LS-SVM for regression ([Pelckmans2005]_ eq. (6)-(8)).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel of every input; or a :class:`~substrate.kernels.Componentwise` that names one for each input or
        group of inputs. ``"rbf"`` takes the median distance of each input as its width.
    gamma, tol, solver, cg_tol, max_iter
        As for :class:`~problems.LSSVMRegressor`.
    relevance : float, default=0.05
        Share of the largest maximal variation up to which an input counts as irrelevant.

    Attributes
    ----------
    maximal_variation_ : array of shape (n_components,) or (n_outputs, n_components)
        max_i abs(f^l(x_i)) over the training points.
    component_norms_ : array of the same shape
        The norms of w_l.
    support_values_, bias_, support_, support_vectors_, kernel_, certificate_, n_iter_
        As for :class:`~problems.LSSVMRegressor`.
    """

    _page, _title = "componentwise_ls_svm", "Componentwise LS-SVM regression"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows X and targets y; a row of weight 2 counts as two rows, one of weight 0 not at all."""
        super().fit(X, y, sample_weight)
        _keep_components(self)
        return self


@dataclass(eq=False, repr=False)
class ComponentwiseLSSVMClassifier(AdditiveEstimator, LSSVMClassifier):
    """The componentwise LS-SVM for classification ([Pelckmans2005]_ eq. (6)-(8) with (4)-(5)).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        As for :class:`ComponentwiseLSSVMRegressor`.
    gamma, tol, solver, cg_tol, max_iter, coding, class_weight
        As for :class:`~problems.LSSVMClassifier`.
    relevance : float, default=0.05
        Share of the largest maximal variation, over all machines, up to which an input counts as irrelevant.

    Attributes
    ----------
    maximal_variation_, component_norms_ : arrays of shape (n_components,) or (n_machines, n_components)
        As for :class:`ComponentwiseLSSVMRegressor`.
    classes_, code_book_, support_codes_, support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        As for :class:`~problems.LSSVMClassifier`.
    """

    _page = "componentwise_ls_svm"
    _title = "Componentwise LS-SVM classification (as regression on the labels)"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows X and labels y of any kind; a row of weight 2 counts as two rows, one of weight 0 not at all."""
        super().fit(X, y, sample_weight)
        _keep_components(self)
        return self


def _keep_components(model: Any) -> None:
    """Variation and norms of the components: w_l'w_l = alpha' f^l at the training points, or primal weights."""
    values = model._component_values(model.support_vectors_)
    alpha = model._coefficients()
    model.maximal_variation_ = np.ascontiguousarray(np.abs(values).max(axis=0).T)
    if (primal := model._primal()) is not None:
        parts = component_weights(primal, model.kernel_.components(model.n_features_in_))
        norms = np.stack([np.linalg.norm(part, axis=0) for part in parts], axis=1)
        model.component_norms_ = norms if alpha.ndim == 2 else norms[0]
        return
    squares = np.einsum("nlm,nm->ml", values, alpha) if alpha.ndim == 2 else values.T @ alpha
    model.component_norms_ = np.sqrt(np.maximum(squares, 0.0))
