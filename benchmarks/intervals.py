"""Coverage and width of prediction intervals over random splits of the embedded regression data, by every method."""

import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from benchmarks.processes import complete_all
from benchmarks.table import Headline, Table, yes_no
from problems import LSSVMRegressor, LSSVMRegressorCV
from substrate.arrays import Array
from substrate.datasets import boston, motorcycle, sinc_student
from substrate.kernels import RBF

__all__ = ["run"]

COVERAGE = 0.9
SPLITS, QUICK_SPLITS = 200, 10
METHODS = ("conformal", "studentised", "jackknife+", "jackknife-minmax", "gaussian", "split", "conditional")
#: Standard errors of the mean over splits by which a coverage may be below what is guaranteed.
ERRORS = 3.0

#: Splits that a process measures before it is given others.
TOGETHER = 10


@cache
def data() -> Mapping[str, tuple[Array, Array, float, float]]:
    """Inputs, standardised by all rows, targets, and a width and a gamma that were fixed in advance."""
    sets = {"motorcycle": (motorcycle(), 0.5, 2.0), "boston": (boston(), 4.0, 20.0)}
    sets["sinc, t noise"] = (sinc_student(random_state=0), 0.5, 2.0)
    data_sets = {}
    for name, ((X, y), sigma, gamma) in sets.items():
        data_sets[name] = ((X - X.mean(axis=0)) / X.std(axis=0), y, sigma, gamma)
    return data_sets


class Splits(NamedTuple):
    """Some splits of a set, for a machine whose gamma is fixed in advance or chosen."""

    name: str
    gamma: str
    seeds: range


def machine(name: str, gamma: str) -> Any:
    """Return the machine of a set, not fitted."""
    _, _, sigma, fixed = data()[name]
    return LSSVMRegressor(RBF(sigma), gamma=fixed) if gamma == "fixed" else LSSVMRegressorCV(RBF(sigma))


def measure(splits: Splits) -> dict[str, list[tuple[float, float]]]:
    """Return coverage and mean width of every split, by method; half of the rows train."""
    X, y, _, _ = data()[splits.name]
    measures: dict[str, list[tuple[float, float]]] = {method: [] for method in METHODS}
    for seed in splits.seeds:
        order = np.random.default_rng(seed).permutation(y.size)
        half, quarter = y.size // 2, y.size // 4
        train, test = order[:half], order[half:]
        proper, others = train[:quarter], train[quarter:]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            whole = machine(splits.name, splits.gamma).fit(X[train], y[train])
            calibrated = machine(splits.name, splits.gamma).fit(X[proper], y[proper]).calibrate(X[others], y[others])
            for method in METHODS:
                if method == "conditional":
                    rows = (X[others], y[others])
                    low, high = calibrated.predict_conditional_interval(X[test], rows, COVERAGE).ends.T
                else:
                    model = calibrated if method == "split" else whole
                    low, high = model.predict_interval(X[test], COVERAGE, method).T
                share = float(np.mean((low <= y[test]) & (y[test] <= high)))
                measures[method].append((share, float(np.mean(high - low))))
    return measures


def measure_all(splits: int) -> dict[tuple[str, str], dict[str, tuple[float, float, float]]]:
    """Return mean coverage, its standard error, and mean width, by set and gamma, and by method."""
    starts = range(0, splits, TOGETHER)
    jobs = [
        Splits(name, gamma, range(start, min(start + TOGETHER, splits)))
        for name in data()
        for gamma in ("fixed", "chosen")
        for start in starts
    ]
    measures: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
    for job, by_method in complete_all(measure, jobs).items():
        gathered = measures.setdefault((job.name, job.gamma), {method: [] for method in METHODS})
        for method, pairs in by_method.items():
            gathered[method] += pairs
    return {
        case: {method: _summarise(np.array(pairs)) for method, pairs in by_method.items()}
        for case, by_method in measures.items()
    }


def _summarise(pairs: Array) -> tuple[float, float, float]:
    share, width = pairs.mean(axis=0)
    return float(share), float(np.std(pairs[:, 0]) / np.sqrt(pairs.shape[0])), float(width)


def run(quick: bool) -> Table:
    splits = QUICK_SPLITS if quick else SPLITS
    rows, missed, held_by = [], [], []
    for (name, how), measures in measure_all(splits).items():
        X, y, _, _ = data()[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = machine(name, how).fit(X, y)
            # conditional intervals guarantee what split ones do, on the mean over all rows
            guarantees = {
                method: fitted.interval_guarantee(COVERAGE, method.replace("conditional", "split"))
                for method in METHODS
            }
        for method, (share, error, width) in measures.items():
            guarantee = guarantees[method]
            level = guarantee.level if guarantee.holds else None
            met = "" if level is None else yes_no(share >= level - ERRORS * error)
            if level is not None:
                held_by.append((share + ERRORS * error) / level)
            if met == "no":
                missed.append(f"{name}, {how}, {method}: {share:.3f} where {level:g} is guaranteed.")
            guaranteed = "approximate" if level is None else f"≥ {level:g}"
            rows.append(
                (
                    name,
                    str(y.size // 2),
                    how,
                    method,
                    f"{share:.3f}",
                    f"{error:.3f}",
                    f"{width:.3g}",
                    guaranteed,
                    met,
                )
            )
    return Table(
        "Prediction intervals: coverage and width",
        f"Intervals of coverage {COVERAGE:g} of `LSSVMRegressor` with kernel and gamma fixed in advance, and of "
        f"`LSSVMRegressorCV`, which chooses gamma by leave-one-out: means over {splits} random splits, half of the "
        "rows training (of which half calibrate for `split`) and half tested. The error is that of the mean over "
        "splits.",
        ("data", "rows", "gamma", "method", "coverage", "error", "mean width", "guaranteed", "met"),
        tuple(rows),
        tuple(missed),
        (Headline("coverage of intervals, with its error", "guaranteed", min(held_by), least=1.0),),
    )
