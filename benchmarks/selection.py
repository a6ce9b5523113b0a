"""Exact leave-one-out: gamma and width against a grid search by folds, residuals and intervals against refits."""

from collections.abc import Iterator
from functools import partial

import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV

from benchmarks.data import regression_data
from benchmarks.measure import Row, certified, compare
from problems import LSSVMRegressor, LSSVMRegressorCV
from substrate.arrays import Array
from substrate.datasets import motorcycle
from substrate.kernels import RBF

__all__ = ["rows"]

#: From half the median distance of the rows to seven times it, and the peer's grid of gamma.
SIGMAS, GAMMAS = np.geomspace(2.0, 30.0, 10), np.logspace(-2.0, 6.0, 50)
FOLDS, GAP, COVERAGE = 10, 1e-4, 0.9
#: N, the sigmas and gammas of the grid that are measured, and the least ratio; all fits of the grid cost the same.
SEARCHES = ((500, 2, 5, 50.0), (2000, 1, 2, 30.0))
#: Calls of leave-one-out in one measurement, each being too short to time.
CALLS = 20


def refit_without_each_row(model: LSSVMRegressor, X: Array, y: Array, new: Array) -> Array:
    """Return predictions of new rows by one machine for every row that is left out."""
    rows = np.arange(y.size)
    return np.array([model.fit(X[rows != i], y[rows != i]).predict(new) for i in rows])


def rows() -> Iterator[Row]:
    """Yield searches, leave-one-out residuals and jackknife+ intervals."""
    for n, sigmas, gammas, least in SEARCHES:
        X, y = regression_data(n)
        kernels = [RBF(float(sigma)) for sigma in SIGMAS]
        search = LSSVMRegressorCV(kernels=kernels, gamma_range=(float(GAMMAS[0]), float(GAMMAS[-1])), gap=GAP)
        grid = {"gamma": 1.0 / SIGMAS[:sigmas] ** 2, "alpha": 1.0 / GAMMAS[:gammas]}
        peer = GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=FOLDS, scoring="neg_mean_squared_error", refit=False)
        yield compare(
            f"gamma by leave-one-out, ten widths, N = {n}",
            lambda search=search, X=X, y=y: certified(search.fit(X, y)),
            "GridSearchCV",
            partial(peer.fit, X, y),
            least=least,
            times=SIGMAS.size * GAMMAS.size / (sigmas * gammas),
        )
    X, y = motorcycle()
    model = LSSVMRegressor(RBF(10.0), gamma=20.0)
    fitted = LSSVMRegressor(RBF(10.0), gamma=20.0).fit(X, y)
    yield compare(
        f"leave-one-out, N = {y.size}",
        lambda: [fitted.leave_one_out() for _ in range(CALLS)],
        "one refit per row",
        partial(refit_without_each_row, model, X, y, X[:1]),
        least=100.0,
        times=CALLS,
    )
    X, y = regression_data(1000)
    new = regression_data(1000, seed=1)[0]
    machine = LSSVMRegressor(RBF(5.0), gamma=10.0).fit(X, y)
    yield compare(
        f"jackknife+ intervals, N = {y.size}",
        lambda: machine.predict_interval(new, COVERAGE, "jackknife+"),
        "one refit per row",
        partial(refit_without_each_row, LSSVMRegressor(RBF(5.0), gamma=10.0), X, y, new),
        least=120.0,
    )
