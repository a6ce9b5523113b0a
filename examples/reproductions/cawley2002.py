"""Error against the number of vectors, improved and conventional pruning ([Cawley2002] section 3, Fig. 1-2).

Ten-fold cross-validation error, root mean square. The improved machine counts the errors of all rows, drops the vectors
of the smallest coefficients, and keeps the sigma and gamma of the machine on all rows; the conventional one drops the
rows it removes, and chooses sigma and gamma again, by four folds of the rows left, at every size. There are two
controls: the conventional one with sigma and gamma kept, and vectors drawn at random with the errors of all rows.
Where double precision does not determine a machine, gamma is smaller by decades, and vectors that are nearest to
combinations of the others are left out.
"""

from functools import partial

import numpy as np
from fitting import decades_below, first_certified, folds, standardise, tuned_regressor
from scipy.linalg.lapack import dpstrf

from problems import LSSVMRegressor, PrunedLSSVMRegressor
from substrate.datasets import boston, motorcycle


def fit_to_basis(full, X, y, rows):
    """Return the machine on some rows as basis: kernel and gamma of the full one, the errors of all rows."""

    def fits():
        K = full.kernel_(X[rows])
        cutoff = 64.0 * np.finfo(float).eps * rows.size * np.linalg.eigvalsh(K)[-1]
        for number in range(6):
            _, pivots, rank, _ = dpstrf(K, tol=10.0**number * cutoff, lower=1)
            independent = rows if rank in (0, rows.size) else rows[np.sort(pivots[:rank] - 1)]
            yield LSSVMRegressor(full.kernel_, float(full.gamma_), basis=independent).fit(X, y)

    return first_certified(fits())


def prune_basis(full, X, y, rows, size):
    """Return the vectors that are left when vectors of the smallest coefficients are removed in steps of five per cent.

    Of equal vectors, and of others that depend on each other, the coefficients have the smallest norm.
    """
    while rows.size > size:
        values, vectors = np.linalg.eigh(full.kernel_(X[rows]))
        used = values > rows.size * np.finfo(float).eps * values[-1]
        transform = vectors[:, used] / np.sqrt(values[used])
        features = full.kernel_(X, X[rows]) @ transform
        features -= features.mean(axis=0)
        inner = features.T @ features + np.eye(features.shape[1]) / float(full.gamma_)
        beta = transform @ np.linalg.solve(inner, features.T @ (y - y.mean()))
        leaving = min(max(1, int(0.05 * rows.size)), rows.size - size)
        rows = np.delete(rows, np.argsort(np.abs(beta), kind="stable")[:leaving])
    return rows


def curves(load, sigmas, sizes, seed):
    """Measure the errors of the four kinds of machines at every size."""
    X, y = load()
    if X.shape[1] > 1:
        (X,) = standardise(X)
    squares, dense = {}, 0.0

    def add(name, size, model, test):
        key = f"{name}, {size} vectors"
        squares[key] = squares.get(key, 0.0) + np.sum((y[test] - model.predict(X[test])) ** 2)

    for train, test in folds(seed).split(X):
        A, b = X[train], y[train]
        full = tuned_regressor(A, b, sigmas, folds(seed, 4))
        dense += np.sum((y[test] - full.predict(X[test])) ** 2)
        kept, order = np.arange(train.size), np.random.default_rng(seed).permutation(train.size)
        for size in sizes:
            kept = prune_basis(full, A, b, kept, size)
            add("improved", size, fit_to_basis(full, A, b, kept), test)
            add("drawn at random, all errors", size, fit_to_basis(full, A, b, order[:size]), test)
        for name in ("conventional", "conventional, gamma kept"):
            rows, setting = train, full
            for size in sizes:
                pruned = first_certified(
                    PrunedLSSVMRegressor(setting.kernel_, gamma, n_support=size).fit(X[rows], y[rows])
                    for gamma in decades_below(float(setting.gamma_))
                )
                rows = rows[pruned.support_]
                if name == "conventional":
                    setting = pruned = tuned_regressor(X[rows], y[rows], sigmas, folds(seed, 4))
                add(name, size, pruned, test)
    return {name: np.sqrt(square / y.size) for name, square in {"all rows": dense, **squares}.items()}


STUDIES = {
    "cawley2002-motorcycle": (
        partial(curves, motorcycle, (6.6, 10.0, 15.0), (100, 60, 40, 25, 15, 9, 7, 5)),
        10,
        {"improved, 9 vectors": "as all rows, nearly"},
    ),
    "cawley2002-boston": (
        partial(curves, boston, (3.0, 4.5, 7.0), (400, 300, 200, 150, 100, 70, 45, 30)),
        20,
        {"improved, 45 vectors": "above all rows"},
    ),
}
