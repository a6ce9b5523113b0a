"""Errors of one recommended machine on nineteen tables and functions, against a Gaussian process and boosting.

Of a set two thirds of the rows train, 200 at most, the others are tested, 1,000 at most, and inputs are standardised by
the rows that train. The errors of every set are printed as they are measured; a row of the table is the geometric mean
of the ratio of errors over the sets.
"""

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn import datasets as bundled
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks.measure import Row
from problems import LSSVMClassifierCV, LSSVMRegressorCV
from substrate import datasets as own
from substrate.arrays import Array

__all__ = ["rows"]

SPLITS, MOST_TRAINING, MOST_TESTED = 10, 200, 1000
#: Most evaluations of a Gaussian process classifier, which on separable classes has no natural end.
EVALUATIONS = 60
OURS, PROCESS, BOOSTING = "ours", "GaussianProcess", "HistGradientBoosting"


def two_digits() -> tuple[Array, Any]:
    """Return the threes and eights of the digits."""
    X, y = bundled.load_digits(return_X_y=True)
    kept = np.isin(y, (3, 8))
    return X[kept], y[kept]


def ripley() -> tuple[Array, Any]:
    """Return both subsets of Ripley's data."""
    subsets = [own.ripley(subset=name) for name in ("train", "test")]
    return np.vstack([X for X, _ in subsets]), np.concatenate([y for _, y in subsets])


#: Rows of a split: a table is the same for every seed, which then only splits it.
REGRESSION: dict[str, Callable[[int], tuple[Array, Any]]] = {
    "motorcycle": lambda seed: own.motorcycle(),
    "boston": lambda seed: own.boston(),
    "diabetes": lambda seed: bundled.load_diabetes(return_X_y=True),
    "sinc, t noise": lambda seed: own.sinc_student(random_state=seed),
    "additive": lambda seed: own.additive_function(400, random_state=seed),
    "friedman1": lambda seed: bundled.make_friedman1(600, noise=1.0, random_state=seed),
    "friedman2": lambda seed: bundled.make_friedman2(600, noise=125.0, random_state=seed),
    "friedman3": lambda seed: bundled.make_friedman3(600, noise=0.1, random_state=seed),
}
CLASSIFICATION: dict[str, Callable[[int], tuple[Array, Any]]] = {
    "iris": lambda seed: bundled.load_iris(return_X_y=True),
    "wine": lambda seed: bundled.load_wine(return_X_y=True),
    "breast cancer": lambda seed: bundled.load_breast_cancer(return_X_y=True),
    "digits 3, 8": lambda seed: two_digits(),
    "ripley": lambda seed: ripley(),
    "pima": lambda seed: own.pima(),
    "ionosphere": lambda seed: own.ionosphere(),
    "tic-tac-toe": lambda seed: own.tic_tac_toe(),
    "moons": lambda seed: bundled.make_moons(600, noise=0.3, random_state=seed),
    "classification": lambda seed: bundled.make_classification(
        600, 20, n_informative=6, n_redundant=4, n_clusters_per_class=3, random_state=seed
    ),
    "hastie": lambda seed: bundled.make_hastie_10_2(1000, random_state=seed),
}


def split_of(name: str, seed: int) -> tuple[Array, Array, Any, Any]:
    """Return inputs that train and that are tested, standardised, and their targets."""
    has_labels = name in CLASSIFICATION
    X, y = (CLASSIFICATION if has_labels else REGRESSION)[name](seed)
    train = min(MOST_TRAINING, (2 * y.size) // 3)
    test, strata = min(MOST_TESTED, y.size - train), y if has_labels else None
    X_train, X_test, y_train, y_test = train_test_split(
        np.asarray(X, dtype=np.float64), y, train_size=train, test_size=test, random_state=seed, stratify=strata
    )
    scaler = StandardScaler().fit(X_train)
    return scaler.transform(X_train), scaler.transform(X_test), y_train, y_test


def minimize_briefly(value_and_gradient: Any, start: Any, bounds: Any) -> tuple[Any, float]:
    """Minimise as scikit-learn does, with an end."""
    options = {"maxfun": EVALUATIONS}
    optimum = minimize(value_and_gradient, start, method="L-BFGS-B", jac=True, bounds=bounds, options=options)
    return optimum.x, optimum.fun


def methods_of(name: str, d: int) -> dict[str, Any]:
    """Return the machine and its peers for a set of d inputs."""
    kernel = ConstantKernel() * RBF(np.ones(d), (1e-2, 1e3))
    if name in CLASSIFICATION:
        return {
            OURS: LSSVMClassifierCV.recommended(),
            PROCESS: GaussianProcessClassifier(kernel, optimizer=minimize_briefly, random_state=0),
            BOOSTING: HistGradientBoostingClassifier(random_state=0),
        }
    noisy = kernel + WhiteKernel(0.1, (1e-6, 1e2))
    return {
        OURS: LSSVMRegressorCV.recommended(),
        PROCESS: GaussianProcessRegressor(noisy, normalize_y=True, random_state=0),
        BOOSTING: HistGradientBoostingRegressor(random_state=0),
    }


def measure_set(name: str) -> tuple[dict[str, float], dict[str, float]]:
    """Return the error of every method and its CPU seconds.

    The error is the mean root mean square error over the splits, or the share of wrong rows of all splits together,
    (wrong + 1/2) / (rows + 1) since there may be none.
    """
    errors, seconds = dict.fromkeys((OURS, PROCESS, BOOSTING), 0.0), dict.fromkeys((OURS, PROCESS, BOOSTING), 0.0)
    for seed in range(SPLITS):
        X, X_test, y, y_test = split_of(name, seed)
        for method, model in methods_of(name, X.shape[1]).items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                start = time.process_time()
                predicted = model.fit(X, y).predict(X_test)
                seconds[method] += time.process_time() - start
            if name in CLASSIFICATION:
                errors[method] += (np.sum(predicted != y_test) + 0.5 / SPLITS) / (SPLITS * y_test.size + 1.0)
            else:
                errors[method] += float(np.sqrt(np.mean((predicted - y_test) ** 2))) / SPLITS
    return errors, seconds


def rows() -> Iterator[Row]:
    """Yield our error and our time, and the error and time of the peers."""
    ratios: dict[str, list[float]] = {PROCESS: [], BOOSTING: []}
    total = dict.fromkeys((OURS, PROCESS, BOOSTING), 0.0)
    for name in (*REGRESSION, *CLASSIFICATION):
        errors, seconds = measure_set(name)
        print(name, *(f"{method} {error:.4g}" for method, error in errors.items()), sep=" | ", file=sys.stderr)
        for method in ratios:
            ratios[method].append(errors[OURS] / errors[method])
        total = {method: total[method] + seconds[method] for method in total}
    for method, values in ratios.items():
        yield Row("error, geometric mean of 19 sets", method, float(np.exp(np.mean(np.log(values)))))
    yield Row("widths by gradients", "Gaussian process", total[OURS] / total[PROCESS], most=0.5)
