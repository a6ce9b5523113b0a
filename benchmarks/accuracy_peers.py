"""Methods of scikit-learn that are compared on tables, each with its usual search."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC, SVR

__all__ = ["LABELS", "NUMBERS", "PEERS", "Method"]

Method = Callable[[int], Any]
FOLDS = 5
#: Widths of the peers' grids: multiples of 1/d, which suits standardised inputs.
_WIDTHS = np.logspace(-2.0, 1.0, 7)
_COSTS = np.logspace(-1.0, 3.0, 5)
#: Most evaluations of a Gaussian process classifier, which on separable classes has no end of its own.
_EVALUATIONS = 60

PEERS = ("kernel ridge", "SVM", "Gaussian process", "boosting", "linear")


def _widths(d: int) -> list[float]:
    return [float(width / d) for width in _WIDTHS]


def _kernel_ridge(d: int) -> GridSearchCV:
    grid = {"kernel": ["rbf", "laplacian"], "gamma": _widths(d)[::2], "alpha": np.logspace(-4.0, 1.0, 6)}
    return GridSearchCV(_Centred(), grid, cv=FOLDS, scoring="neg_mean_squared_error")


class _Centred(KernelRidge):
    """Kernel ridge regression of centred and scaled targets, since it has no bias."""

    def fit(self, X: Any, y: Any) -> Any:
        self.mean_, self.unit_ = float(np.mean(y)), float(np.std(y)) or 1.0
        return super().fit(X, (y - self.mean_) / self.unit_)

    def predict(self, X: Any) -> Any:
        return self.mean_ + self.unit_ * super().predict(X)


def _support_vectors(d: int) -> Any:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.preprocessing import StandardScaler

    grid = {"gamma": _widths(d)[::2], "C": _COSTS[:4], "epsilon": [0.03, 0.3]}
    search = GridSearchCV(SVR(), grid, cv=FOLDS, scoring="neg_mean_squared_error")
    return TransformedTargetRegressor(search, transformer=StandardScaler())


def _process(d: int) -> GaussianProcessRegressor:
    kernel = ConstantKernel() * RBF(np.ones(d), (1e-2, 1e3)) + WhiteKernel(0.1, (1e-6, 1e2))
    return GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)


def _process_of_labels(d: int) -> GaussianProcessClassifier:
    kernel = ConstantKernel() * RBF(np.ones(d), (1e-2, 1e3))
    return GaussianProcessClassifier(kernel, optimizer=_a_few, random_state=0)


def _a_few(value_and_gradient: Any, start: Any, bounds: Any) -> tuple[Any, float]:
    """scikit-learn's own optimiser, with an end."""
    from scipy.optimize import minimize

    optimum = minimize(
        value_and_gradient, start, method="L-BFGS-B", jac=True, bounds=bounds, options={"maxfun": _EVALUATIONS}
    )
    return optimum.x, optimum.fun


NUMBERS: Mapping[str, Method] = {
    "kernel ridge": _kernel_ridge,
    "SVM": _support_vectors,
    "Gaussian process": _process,
    "boosting": lambda d: HistGradientBoostingRegressor(random_state=0),
    "linear": lambda d: RidgeCV(np.logspace(-3.0, 3.0, 25)),
}

LABELS: Mapping[str, Method] = {
    "SVM": lambda d: GridSearchCV(SVC(), {"gamma": _widths(d)[::2], "C": _COSTS}, cv=FOLDS),
    "Gaussian process": _process_of_labels,
    "boosting": lambda d: HistGradientBoostingClassifier(random_state=0),
    "linear": lambda d: LogisticRegressionCV(Cs=10, cv=FOLDS, max_iter=1000),
}
