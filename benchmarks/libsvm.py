"""Kernel machines of a tube and of the hinge loss against libsvm at the same accuracy."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.svm import SVC, SVR

from benchmarks.data import regression_data
from benchmarks.measure import Row, certified, compare
from problems import KernelClassifier, KernelRegressor
from substrate.arrays import Array
from substrate.kernels import RBF
from substrate.losses import EpsilonInsensitive, Hinge

__all__ = ["rows"]

N, WEIGHT, WIDTH = 1000, 10.0, 0.1
KERNEL, SAME_KERNEL = RBF(10.0**0.5), {"kernel": "rbf", "gamma": 0.1, "C": WEIGHT, "cache_size": 500.0}
#: Tolerances of libsvm, the loosest first.
TOLERANCES = 10.0 ** np.arange(-3.0, -12.0, -1.0)


def as_accurate(peer: Callable[[float], Any], values: Callable[[Any], Array], ours: Array, radius: float) -> float:
    """Return the loosest tolerance at which fitted values are within ``radius`` of ours, which are proved to be."""
    return next(tol for tol in TOLERANCES if np.sqrt(np.mean((values(peer(tol)) - ours) ** 2)) <= radius)


def rows() -> Iterator[Row]:
    """Yield a regression and a classification."""
    X, y = regression_data(N)
    labels = np.where(y > np.median(y), 1.0, -1.0)
    tube = KernelRegressor(KERNEL, WEIGHT, loss=EpsilonInsensitive(WIDTH)).fit(X, y)
    regress = lambda tol: SVR(epsilon=WIDTH, tol=tol, **SAME_KERNEL).fit(X, y)  # noqa: E731
    tol = as_accurate(regress, lambda peer: peer.predict(X), tube.predict(X), tube.certificate_.accuracy)
    fit = lambda: certified(tube.fit(X, y))  # noqa: E731
    yield compare(f"KernelRegressor, tube, N = {N}", fit, f"libsvm, tol={tol:g}", partial(regress, tol), most=3.0)
    hinge = KernelClassifier(KERNEL, WEIGHT, loss=Hinge()).fit(X, labels)
    classify = lambda tol: SVC(tol=tol, **SAME_KERNEL).fit(X, labels)  # noqa: E731
    scores = lambda peer: peer.decision_function(X)  # noqa: E731
    tol = as_accurate(classify, scores, scores(hinge), hinge.certificate_.accuracy)
    fit = lambda: certified(hinge.fit(X, labels))  # noqa: E731
    yield compare(f"KernelClassifier, hinge, N = {N}", fit, f"libsvm, tol={tol:g}", partial(classify, tol), most=10.0)
