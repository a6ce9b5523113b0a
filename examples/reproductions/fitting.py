"""What the studies share: columns to one scale, folds, and machines whose gamma cross-validation chooses."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold

from problems import LSSVMRegressorCV
from substrate.kernels import RBF


def certified(model):
    """Return a fitted model, or raise if its certificate fails, which ends a study."""
    if not model.certificate_.holds:
        raise RuntimeError(f"the certificate of this {type(model).__name__} does not hold:\n{model.certificate_}")
    return model


def first_certified(fits):
    """Return the first of some fits whose certificate holds; they are made one by one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of those that are passed over
        for model in fits:
            if model.certificate_.holds:
                break
    return certified(model)


def decades_below(gamma):
    """Return a gamma and eight smaller ones, for machines that double precision does not determine at the first."""
    return [gamma * 0.1**number for number in range(9)]


def search(model, X, y):
    """Fit a search for gamma: in its default range, then in shorter ones.

    Of few rows with hardly any noise the criterion falls with every decade of gamma, until rounding hides it.
    """

    def fits():
        yield model.fit(X, y)
        high = float(model.gamma_range_[1])
        low = min(float(ends[0]) for ends in model.cv_results_["gamma_range"])
        for end in decades_below(0.1 * high):
            yield model.set_params(gamma_range=(low, end)).fit(X, y)

    return first_certified(fits())


def tuned_regressor(X, y, sigmas, splits):
    """Return an LS-SVM with the best gamma of all, and the best width of a list, by cross-validation."""
    return search(LSSVMRegressorCV(kernels=[RBF(sigma) for sigma in sigmas], cv=splits), X, y)


def tuned_peer(model, grid, X, y, splits, scoring):
    """Return a machine of scikit-learn with the best parameters of a grid."""
    return GridSearchCV(model, grid, cv=splits, scoring=scoring).fit(X, y).best_estimator_


def folds(seed, count=10):
    """Return folds of shuffled rows, different for every seed."""
    return KFold(count, shuffle=True, random_state=seed)


def standardise(X, *further):
    """Return X with columns of mean zero and variance one, and other rows on the same scale."""
    centre, scale = X.mean(axis=0), X.std(axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    return [(array - centre) / scale for array in (X, *further)]


def split(X, y, count, seed):
    """Return a given number of rows to train, and the others to test, drawn at random."""
    order = np.random.default_rng(seed).permutation(len(y))
    return X[order[:count]], y[order[:count]], X[order[count:]], y[order[count:]]
