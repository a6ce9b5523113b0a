"""The comparisons of Suykens and others (2002), section 5, over many seeds: plain, weighted, pruned, tuned SVR."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.svm import SVR

from benchmarks.table import Table
from problems import LSSVMRegressor, PrunedLSSVMRegressor, RobustLSSVMRegressor
from substrate.arrays import Array
from substrate.datasets import boston, motorcycle, sinc_outliers, sinc_student
from substrate.kernels import RBF

__all__ = ["Errors", "boston_errors", "motorcycle_errors", "run", "sinc_errors"]

SEEDS, QUICK = 20, 2
GAMMAS, SIGMAS = (0.3, 1.0, 3.0, 10.0, 30.0), (0.5, 0.8, 1.2, 1.8)
SVR_GRID = {"C": (0.3, 3.0, 30.0), "epsilon": (0.0, 0.1), "gamma": tuple(1.0 / s**2 for s in SIGMAS)}
#: In the units of the motorcycle data; the paper has epsilon = 0, C = infinity and sigma = 11.
MOTORCYCLE_GRID = {
    "C": (10.0, 100.0, 1000.0),
    "epsilon": (0.0, 10.0),
    "gamma": tuple(1.0 / s**2 for s in (4.0, 6.6, 11.0)),
}


@dataclass(frozen=True, slots=True)
class Errors:
    """Mean square test errors of each model, a number a seed."""

    of: dict[str, list[float]]

    def mean(self, name: str) -> float:
        return float(np.mean(self.of[name]))

    def wins(self, name: str, against: str = "plain") -> int:
        return int(np.sum(np.array(self.of[name]) < np.array(self.of[against])))


def _gathered(seeds: int, one: Callable[[int], dict[str, float]]) -> Errors:
    rows = [one(seed) for seed in range(seeds)]
    return Errors({name: [row[name] for row in rows] for name in rows[0]})


def _tuned(model: Any, grid: dict[str, Any], X: Array, y: Array, seed: int, n_folds: int = 10) -> Any:
    """The paper's choice of parameters: cross-validation on the training rows, in ten folds unless told."""
    folds = KFold(n_folds, shuffle=True, random_state=seed)
    return GridSearchCV(model, grid, cv=folds, scoring="neg_mean_squared_error").fit(X, y)


def sinc_errors(draw: Callable[..., Any], seeds: int, prune: bool = False) -> Errors:
    """Distance from the true function on a grid of points."""
    points = np.linspace(-5.0, 5.0, 500)[:, None]
    truth = np.sinc(points[:, 0])

    def one(seed: int) -> dict[str, float]:
        X, y = draw(random_state=seed)
        chosen = _tuned(LSSVMRegressor(), {"gamma": GAMMAS, "kernel": [RBF(s) for s in SIGMAS]}, X, y, seed)
        own = {"kernel": chosen.best_params_["kernel"], "gamma": chosen.best_params_["gamma"]}
        models = {
            "plain": chosen,
            "weighted": RobustLSSVMRegressor(**own).fit(X, y),
            "SVR": _tuned(SVR(), SVR_GRID, X, y, seed),
        }
        if prune:
            few = {**own, "weighting": "hampel", "reweight": True}
            for n in (50, 20):
                models[f"pruned to {n}"] = PrunedLSSVMRegressor(**few, n_support=n).fit(X, y)
                models[f"pruned to {n}, retuned"] = PrunedLSSVMRegressor(**few, n_support=n, retune=True).fit(X, y)
        return {name: float(np.mean((model.predict(points) - truth) ** 2)) for name, model in models.items()}

    return _gathered(seeds, one)


def motorcycle_errors(seeds: int) -> Errors:
    """Ten folds, cut anew for each seed; gamma = 2 and sigma = 6.6 as printed, the SVR tuned inside each fold."""
    X, y = motorcycle()
    own = {"kernel": RBF(6.6), "gamma": 2.0}

    def one(seed: int) -> dict[str, float]:
        squares: dict[str, list[Array]] = {"plain": [], "weighted": [], "SVR": []}
        for train, test in KFold(10, shuffle=True, random_state=seed).split(X):
            models = {
                "plain": LSSVMRegressor(**own).fit(X[train], y[train]),
                "weighted": RobustLSSVMRegressor(**own).fit(X[train], y[train]),
                "SVR": _tuned(SVR(), MOTORCYCLE_GRID, X[train], y[train], seed, 5),
            }
            for name, model in models.items():
                squares[name].append((y[test] - model.predict(X[test])) ** 2)
        return {name: float(np.mean(np.concatenate(parts))) for name, parts in squares.items()}

    return _gathered(seeds, one)


def boston_errors(seeds: int) -> Errors:
    """Random splits into 406 and 100 rows, columns and target standardised; sigma and gamma fixed at good values."""
    X, y = boston()
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    own = {"kernel": RBF(4.5), "gamma": 60.0}

    def one(seed: int) -> dict[str, float]:
        order = np.random.default_rng(seed).permutation(y.size)
        train, test = order[:406], order[406:]
        models = {"plain": LSSVMRegressor(**own), "weighted": RobustLSSVMRegressor(**own)}
        return {
            name: float(np.mean((y[test] - model.fit(X[train], y[train]).predict(X[test])) ** 2))
            for name, model in models.items()
        }

    return _gathered(seeds, one)


def run(quick: bool) -> Table:
    """:place [Suykens2002]_ section 5: sinc with outliers, sinc with t noise, motorcycle, Boston"""
    seeds = QUICK if quick else SEEDS
    published = {
        ("sinc, 3 outliers", "weighted"): "better than both",
        ("sinc, 3 outliers", "pruned to 20"): "good with about 20",
        ("sinc, t noise", "weighted"): "better than both",
        ("motorcycle", "weighted"): "better in parts of the range",
        ("Boston", "plain"): "0.1880",
        ("Boston", "weighted"): "0.1638",
    }
    topics: dict[str, Callable[[], Errors]] = {
        "sinc, 3 outliers": partial(sinc_errors, sinc_outliers, seeds, prune=True),
        "sinc, t noise": partial(sinc_errors, sinc_student, seeds),
        "motorcycle": partial(motorcycle_errors, 1 if quick else 5),
        "Boston": partial(boston_errors, seeds),
    }
    rows: list[tuple[str, ...]] = []
    for topic, measured in topics.items():
        errors = measured()
        n = len(errors.of["plain"])
        for name in errors.of:
            wins = "" if name == "plain" else f"{errors.wins(name)} of {n}"
            rows.append((topic, name, f"{errors.mean(name):.3g}", wins, published.get((topic, name), "")))
    return Table(
        "Robust estimates: the comparisons of Suykens and others (2002)",
        "Mean squared test error, mean over seeds. sinc: 300 rows, distance from the true function; gamma and sigma, "
        "and C, epsilon and sigma of the SVR, by ten folds; pruning by Algorithm 2. Motorcycle: ten folds, "
        "gamma = 2, sigma = 6.6, the SVR tuned within each fold. Boston: splits of 406 and 100 rows, gamma = 60, "
        "sigma = 4.5.",
        ("data", "model", "mean squared error", "better than plain", "published"),
        tuple(rows),
    )
