"""Methods that are compared on tables, each with its usual search: those of scikit-learn, xRFM and CatBoost.

xRFM and CatBoost are left out where they are not installed, and the table says so.
"""

from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from typing import Any

import numpy as np
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.svm import SVC, SVR

__all__ = ["KERNEL_PEERS", "LABELS", "MISSING", "NUMBERS", "PEERS", "Method"]

Method = Callable[[int], Any]
FOLDS = 5
#: Widths of the peers' grids: multiples of 1/d, which suits standardised inputs.
_WIDTHS = np.logspace(-2.0, 1.0, 7)
_COSTS = np.logspace(-1.0, 3.0, 5)
#: Most evaluations of a Gaussian process classifier, which on separable classes has no end of its own.
_EVALUATIONS = 60

KERNEL_PEERS = ("kernel ridge", "SVM", "Gaussian process")
#: Peers of other packages, each with the module that it needs.
_OPTIONAL = {"xRFM": "xrfm", "CatBoost": "catboost"}
MISSING = tuple(name for name, module in _OPTIONAL.items() if find_spec(module) is None)
PEERS = (
    *KERNEL_PEERS,
    "boosting",
    "random forest",
    "linear",
    *(name for name in _OPTIONAL if name not in MISSING),
)


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


class _RecursiveFeatures:
    """xRFM, which chooses its number of iterations on a fifth of the rows."""

    def __init__(self, labels: bool) -> None:
        self._labels = labels

    def fit(self, X: Any, y: Any) -> Any:
        self.classes_, codes = np.unique(y, return_inverse=True) if self._labels else (None, None)
        targets = np.asarray(y, dtype=np.float32)[:, None] if codes is None else np.eye(codes.max() + 1)[codes]
        self.mean_, self.unit_ = targets.mean(axis=0), float(targets.std()) or 1.0
        targets = ((targets - self.mean_) / self.unit_).astype(np.float32)
        parts = train_test_split(X.astype(np.float32), targets, test_size=0.2, random_state=0, stratify=codes)
        self.model_ = import_module("xrfm").xRFM(device="cpu", tuning_metric="mse", random_state=0)
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):  # it says what it does
            self.model_.fit(parts[0], parts[2], parts[1], parts[3])
        return self

    def predict(self, X: Any) -> Any:
        outputs = self.mean_ + self.unit_ * np.asarray(self.model_.predict(X.astype(np.float32)))
        return outputs[:, 0] if self.classes_ is None else self.classes_[outputs.argmax(axis=1)]


class _Catalogued:
    """CatBoost as it is, one thread, without files."""

    def __init__(self, kind: str) -> None:
        options = {"verbose": False, "thread_count": 1, "random_seed": 0, "allow_writing_files": False}
        self._model = getattr(import_module("catboost"), kind)(**options)

    def fit(self, X: Any, y: Any) -> Any:
        self._model.fit(X, y)
        return self

    def predict(self, X: Any) -> Any:
        return np.ravel(self._model.predict(X))


def _installed(methods: Mapping[str, Method]) -> dict[str, Method]:
    return {name: methods[name] for name in methods if name not in MISSING}


NUMBERS: Mapping[str, Method] = {
    "kernel ridge": _kernel_ridge,
    "SVM": _support_vectors,
    "Gaussian process": _process,
    "boosting": lambda d: HistGradientBoostingRegressor(random_state=0),
    "random forest": lambda d: RandomForestRegressor(random_state=0),
    "linear": lambda d: RidgeCV(np.logspace(-3.0, 3.0, 25)),
    **_installed({"xRFM": lambda d: _RecursiveFeatures(False), "CatBoost": lambda d: _Catalogued("CatBoostRegressor")}),
}

LABELS: Mapping[str, Method] = {
    "SVM": lambda d: GridSearchCV(SVC(), {"gamma": _widths(d)[::2], "C": _COSTS}, cv=FOLDS),
    "Gaussian process": _process_of_labels,
    "boosting": lambda d: HistGradientBoostingClassifier(random_state=0),
    "random forest": lambda d: RandomForestClassifier(random_state=0),
    "linear": lambda d: LogisticRegressionCV(Cs=10, cv=FOLDS, max_iter=1000),
    **_installed({"xRFM": lambda d: _RecursiveFeatures(True), "CatBoost": lambda d: _Catalogued("CatBoostClassifier")}),
}
