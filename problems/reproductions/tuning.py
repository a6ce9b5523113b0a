"""How the studies choose hyper-parameters where a paper did: by cross-validation on the training rows alone.

Ours come with the lower bound that their certificate states (:class:`~problems.LSSVMRegressorCV`); support vector
machines of scikit-learn are searched on a grid.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import GridSearchCV, KFold

from problems.estimators.selection import LSSVMClassifierCV, LSSVMRegressorCV
from problems.reproductions.study import held
from substrate.arrays import Array
from substrate.kernels import RBF

__all__ = ["folds", "standardised", "tuned_classifier", "tuned_peer", "tuned_regressor"]


def folds(seed: int, count: int = 10) -> KFold:
    """Folds of shuffled rows, others for every seed."""
    return KFold(count, shuffle=True, random_state=seed)


def tuned_regressor(X: Array, y: Array, sigmas: Sequence[float], splits: Any) -> LSSVMRegressorCV:
    """An LS-SVM whose gamma is the best of all, and whose width is the best of a list, by folds."""
    kernels = [RBF(sigma) for sigma in sigmas]
    return held(LSSVMRegressorCV(kernels=kernels, criterion="folds", cv=splits).fit(X, y))


def tuned_classifier(X: Array, y: Any, sigmas: Sequence[float], splits: Any) -> LSSVMClassifierCV:
    """The same for classes."""
    kernels = [RBF(sigma) for sigma in sigmas]
    return held(LSSVMClassifierCV(kernels=kernels, criterion="folds", cv=splits).fit(X, y))


def tuned_peer(model: Any, grid: Mapping[str, Sequence[float]], X: Array, y: Any, splits: Any) -> Any:
    """A machine of scikit-learn with the best parameters of a grid: by squared error, or for classes by accuracy."""
    scoring = "accuracy" if is_classifier(model) else "neg_mean_squared_error"
    search = GridSearchCV(model, dict(grid), cv=splits, scoring=scoring)
    return search.fit(X, y).best_estimator_


def standardised(X: Array, *others: Array) -> tuple[Array, ...]:
    """Columns to mean zero and variance one, by the first rows given; the others follow."""
    centre, scale = X.mean(axis=0), X.std(axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    return tuple((part - centre) / scale for part in (X, *others))
