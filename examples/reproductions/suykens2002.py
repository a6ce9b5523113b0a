"""The weighted LS-SVM on sinc, pruned too, on the motorcycle and on the Boston data ([Suykens2002] section 5).

Sinc with three outliers, or with t noise of 4 degrees of freedom (Fig. 1-6), 300 rows: mean squared distance from the
true function, and the statistic of Anderson and Darling of the errors, before and after weighting.

Motorcycle (Fig. 7-8): gamma = 2 and sigma = 6.6, next to an SVM with sigma = 11, epsilon = 0 and C infinite (10000
here). Rows are left out in ten folds. The boundary is the first and the last tenth of the time axis; the region of the
outliers is every tenth that has a row whose weight in the fit to all rows is below one.

Boston (Fig. 9): 406 and 100 rows, inputs normalised except the binary one, and the target too.

Pruning (Algorithm 2, Fig. 10-11): sinc with outliers, from 300 rows to 100, 50 and 20, in steps of five per cent.

Breakdown (end of section 3): sinc where a share of the targets is raised by two, gamma = 10 and sigma = 1.
"""

import warnings
from functools import partial

import numpy as np
from fitting import certified, folds, split, standardise, tuned_peer, tuned_regressor
from scipy.special import log_ndtr
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVR

from problems import KernelRegressor, LSSVMRegressor, PrunedLSSVMRegressor, Robust
from substrate.conventions import sigma_to
from substrate.datasets import boston, motorcycle, sinc, sinc_outliers, sinc_student
from substrate.kernels import RBF

SIGMAS = (0.5, 0.8, 1.2, 1.8)


def sinc_error(model):
    """Return the mean squared distance from the true function, on an even grid."""
    points = np.linspace(-5.0, 5.0, 500)[:, None]
    return np.mean((model.predict(points) - np.sinc(points[:, 0])) ** 2)


def normality_statistic(errors):
    """Return the statistic of Anderson and Darling with its correction for few rows, [DAgostino1986] Table 4.9."""
    n, z = errors.size, np.sort((errors - errors.mean()) / errors.std(ddof=1))
    ranks = 2.0 * np.arange(1, n + 1) - 1.0
    return (-n - ranks @ (log_ndtr(z) + log_ndtr(-z[::-1])) / n) * (1.0 + 0.75 / n + 2.25 / n**2)


def weighted_sinc(draw, seed):
    """Measure the three machines on sinc, tuned by ten folds."""
    X, y = draw(300, random_state=seed)
    plain = tuned_regressor(X, y, SIGMAS, folds(seed))
    weighted = certified(LSSVMRegressor(plain.kernel_, plain.gamma_, robust="hampel").fit(X, y))
    grid = {"C": (0.3, 3.0, 30.0), "epsilon": (0.0, 0.1)}
    grid["gamma"] = [sigma_to("scikit-learn SVM", sigma) for sigma in SIGMAS]
    peer = tuned_peer(SVR(), grid, X, y, folds(seed), "neg_mean_squared_error")
    first, last = weighted.history_[0], weighted.history_[-1]
    # of a fit with weights v the ridge is 1/(gamma v), and its root times alpha is the root of v times e
    root = np.sqrt(weighted.ridge_)
    before = root * np.sqrt(last.weights / first.weights) * first.support_values
    return {
        "LS-SVM": sinc_error(plain),
        "weighted LS-SVM": sinc_error(weighted),
        "SVM": sinc_error(peer),
        "normality statistic, LS-SVM": normality_statistic(before),
        "normality statistic, weighted LS-SVM": normality_statistic(root * last.support_values),
    }


def motorcycle_machines(X, y):
    """Return the three machines of Fig. 7-8."""
    return {
        "LS-SVM": certified(LSSVMRegressor(RBF(6.6), 2.0).fit(X, y)),
        "weighted LS-SVM": certified(LSSVMRegressor(RBF(6.6), 2.0, robust="hampel").fit(X, y)),
        "SVM": SVR(C=1e4, epsilon=0.0, gamma=sigma_to("scikit-learn SVM", 11.0)).fit(X, y),
    }


def motorcycle_parts(seed):
    """Measure the machines in the parts of the axis that the captions name, on rows left out."""
    X, y = motorcycle()
    ends = np.linspace(X.min(), X.max(), 11)
    tenths = np.clip(np.searchsorted(ends, X[:, 0], side="right") - 1, 0, 9)
    boundary = np.isin(tenths, (0, 9))
    whole = motorcycle_machines(X, y)
    region = np.isin(tenths, tenths[whole["weighted LS-SVM"].weights_ < 1.0])
    parts = [np.linspace(ends[k], ends[k + 1], 50)[:, None] for k in (0, 9)]
    errors, waves = {name: np.zeros(y.size) for name in whole}, {name: [] for name in whole}
    for train, test in folds(seed).split(X):
        for name, model in motorcycle_machines(X[train], y[train]).items():
            errors[name][test] = np.abs(y[test] - model.predict(X[test]))
            waves[name].append(sum(np.abs(np.diff(model.predict(part))).sum() for part in parts))
    numbers = {}
    for name, error in errors.items():
        numbers[name] = np.mean(error**2)
        numbers[f"{name}, boundary"] = np.mean(error[boundary] ** 2)
        numbers[f"{name}, variation at the boundary"] = np.median(waves[name])
        numbers[f"{name}, region of outliers"] = error[region].mean()
    return numbers


def weighted_boston(seed):
    """Measure test errors without and with weights."""
    X, y, X_test, y_test = split(*boston(), 406, seed)
    binary, binary_test = X[:, 3], X_test[:, 3]
    X, X_test = standardise(X, X_test)
    X[:, 3], X_test[:, 3] = binary, binary_test
    y, y_test = (target[:, 0] for target in standardise(y[:, None], y_test[:, None]))
    plain = tuned_regressor(X, y, (3.0, 4.5, 7.0), folds(seed))
    weighted = certified(LSSVMRegressor(plain.kernel_, plain.gamma_, robust="hampel").fit(X, y))
    models = {"LS-SVM": plain, "weighted LS-SVM": weighted}
    return {name: np.mean((y_test - model.predict(X_test)) ** 2) for name, model in models.items()}


def pruning(seed):
    """Measure pruned machines, with gamma and sigma kept, and searched again when the index degrades."""
    X, y = sinc_outliers(300, random_state=seed)
    plain = tuned_regressor(X, y, SIGMAS, folds(seed))
    setting = {"kernel": plain.kernel_, "gamma": plain.gamma_}
    numbers = {"LS-SVM, all rows": sinc_error(plain)}
    numbers["weighted LS-SVM, all rows"] = sinc_error(certified(LSSVMRegressor(**setting, robust="hampel").fit(X, y)))
    for retune, words in ((False, "kept"), (True, "searched again")):
        for size in (100, 50, 20):
            few = PrunedLSSVMRegressor(**setting, robust="hampel", retune=retune, n_support=size)
            numbers[f"{size} rows, gamma and sigma {words}"] = sinc_error(certified(few.fit(X, y)))
    return numbers


def breakdown(seed):
    """Measure machines on targets of which a share is raised."""
    X, y = sinc(300, random_state=seed)
    order = np.random.default_rng([seed, 1]).permutation(300)
    machines = {
        "LS-SVM": LSSVMRegressor(RBF(1.0), 10.0),
        "weighted LS-SVM": LSSVMRegressor(RBF(1.0), 10.0, robust="hampel"),
        "iterated LS-SVM": LSSVMRegressor(RBF(1.0), 10.0, robust=Robust(max_reweightings=50)),
        "iterated LS-SVM, scale by MAD": LSSVMRegressor(
            RBF(1.0), 10.0, robust=Robust(scale="mad", max_reweightings=50)
        ),
        "Huber LS-SVM": KernelRegressor(RBF(1.0), 10.0),
    }
    numbers = {}
    for share in range(0, 55, 5):
        raised = y.copy()
        raised[order[: 3 * share]] += 2.0
        for name, model in machines.items():
            with warnings.catch_warnings():
                # weights of half a sample need not settle, and the last of them are measured
                warnings.filterwarnings("ignore", "the support values still changed", ConvergenceWarning)
                numbers[f"{name}, {share} %"] = sinc_error(certified(model.fit(X, raised)))
    return numbers


STUDIES = {
    "suykens2002-outliers": (partial(weighted_sinc, sinc_outliers), 20, {"weighted LS-SVM": "best of the three"}),
    "suykens2002-heavy-tails": (partial(weighted_sinc, sinc_student), 20, {"weighted LS-SVM": "best of the three"}),
    "suykens2002-motorcycle": (
        motorcycle_parts,
        20,
        {"weighted LS-SVM, region of outliers": "improves", "SVM, variation at the boundary": "oscillatory"},
    ),
    "suykens2002-boston": (weighted_boston, 20, {"LS-SVM": "0.1880", "weighted LS-SVM": "0.1638"}),
    "suykens2002-pruning": (pruning, 20, {"20 rows, gamma and sigma searched again": '"about 20" are needed'}),
    "suykens2002-breakdown": (breakdown, 20, {"weighted LS-SVM, 20 %": "improved"}),
}
