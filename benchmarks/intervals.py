"""Coverage and width of prediction intervals over random splits of the embedded regression data, by every method."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

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

Machine = Callable[[], Any]


def data() -> Mapping[str, tuple[Array, Array, float, float]]:
    """Inputs, standardised by all rows, targets, and a width and a gamma that were fixed in advance."""
    sets = {"motorcycle": (motorcycle(), 0.5, 2.0), "boston": (boston(), 4.0, 20.0)}
    sets["sinc, t noise"] = (sinc_student(random_state=0), 0.5, 2.0)
    data_sets = {}
    for name, ((X, y), sigma, gamma) in sets.items():
        data_sets[name] = ((X - X.mean(axis=0)) / X.std(axis=0), y, sigma, gamma)
    return data_sets


def measure(X: Array, y: Array, machine: Machine, splits: int) -> dict[str, tuple[float, float, float]]:
    """Return mean coverage, its standard error, and mean width, by method; half of the rows train."""
    covered: dict[str, list[float]] = {method: [] for method in METHODS}
    widths: dict[str, list[float]] = {method: [] for method in METHODS}
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(y.size)
        half, quarter = y.size // 2, y.size // 4
        train, test = order[:half], order[half:]
        whole = machine().fit(X[train], y[train])
        calibrated = (
            machine().fit(X[train[:quarter]], y[train[:quarter]]).calibrate(X[train[quarter:]], y[train[quarter:]])
        )
        for method in METHODS:
            if method == "conditional":
                rows = (X[train[quarter:]], y[train[quarter:]])
                low, high = calibrated.predict_conditional_interval(X[test], rows, COVERAGE).ends.T
            else:
                model = calibrated if method == "split" else whole
                low, high = model.predict_interval(X[test], COVERAGE, method).T
            covered[method].append(float(np.mean((low <= y[test]) & (y[test] <= high))))
            widths[method].append(float(np.mean(high - low)))
    error = {method: float(np.std(values) / np.sqrt(splits)) for method, values in covered.items()}
    return {
        method: (float(np.mean(covered[method])), error[method], float(np.mean(widths[method]))) for method in METHODS
    }


def run(quick: bool) -> Table:
    splits = QUICK_SPLITS if quick else SPLITS
    rows, missed, held_by = [], [], []
    for name, (X, y, sigma, gamma) in data().items():
        machines: dict[str, Machine] = {
            "fixed": lambda sigma=sigma, gamma=gamma: LSSVMRegressor(RBF(sigma), gamma=gamma),  # type: ignore[misc]
            "chosen": lambda sigma=sigma: LSSVMRegressorCV(RBF(sigma)),  # type: ignore[misc]
        }
        for how, machine in machines.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                measures = measure(X, y, machine, splits)
                guarantees = {
                    # conditional intervals guarantee what split ones do, on the mean over all rows
                    method: machine().fit(X, y).interval_guarantee(COVERAGE, method.replace("conditional", "split"))
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
