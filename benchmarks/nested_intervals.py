"""Coverage of prediction intervals after a search over kernels and widths: rows left out in closed form, and nested."""

import warnings
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from benchmarks.accuracy_sets import REGRESSION, split_of
from benchmarks.processes import complete_all
from benchmarks.table import Headline, Table, yes_no
from problems import LSSVMRegressorCV
from substrate.uncertainty import coverage_by_thirds

__all__ = ["run"]

COVERAGE, FOLDS = 0.9, 10
SPLITS, QUICK_SPLITS = 20, 2
QUICK_SETS = ("motorcycle", "friedman3")
#: Options of `predict_interval`, and the methods of this table; the others are in that of adaptive intervals.
METHODS: dict[str, dict[str, Any]] = {
    "conformal": {"method": "conformal"},
    "studentised": {"method": "studentised"},
    "nested": {"method": "nested"},
    "adaptive": {"method": "nested", "adaptive": True},
}
SHOWN = ("conformal", "studentised", "nested")
#: Standard errors of the mean over splits by which nested intervals may cover less than is asked for.
ERRORS = 2.0


class IntervalMeasures(NamedTuple):
    """Coverage of the rows with low, middle and high predictions and of all, mean width, and the 0.95 quantile of the
    widths over the 0.05 quantile.
    """

    thirds: tuple[float, ...]
    coverage: float
    width: float
    wide_over_narrow: float


def measure_split(case: tuple[str, int]) -> dict[str, IntervalMeasures]:
    """Return what the intervals of every method are like at the rows held back of one split of a set."""
    split = split_of(*case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LSSVMRegressorCV.recommended().fit(split.X, split.y, nested=FOLDS)
    predicted = model.predict(split.X_test)
    measures = {}
    for method, options in METHODS.items():
        ends = model.predict_interval(split.X_test, COVERAGE, **options)
        widths = np.diff(ends, axis=1)
        narrow, wide = np.quantile(widths, (0.05, 0.95))
        thirds = coverage_by_thirds(split.y_test, predicted, ends)
        covered = (ends[:, 0] <= split.y_test) & (split.y_test <= ends[:, 1])
        measures[method] = IntervalMeasures(
            thirds=tuple(thirds.shares),
            coverage=float(np.mean(covered)),
            width=float(np.mean(widths)),
            wide_over_narrow=float(wide / narrow),
        )
    return measures


@cache
def measure_all(quick: bool) -> dict[str, dict[str, list[IntervalMeasures]]]:
    """Return the measures of all splits, by set and method; both topics that ask for them share the fits."""
    names, splits = (QUICK_SETS, QUICK_SPLITS) if quick else (tuple(REGRESSION), SPLITS)
    measures: dict[str, dict[str, list[IntervalMeasures]]] = {
        name: {method: [] for method in METHODS} for name in names
    }
    cases = [(name, seed) for name in names for seed in range(splits)]
    for (name, _), by_method in complete_all(measure_split, cases).items():
        for method, measured in by_method.items():
            measures[name][method].append(measured)
    return measures


def run(quick: bool) -> Table:
    rows, missed, reached = [], [], []
    for name, measures in measure_all(quick).items():
        for method in SHOWN:
            shares = [split.coverage for split in measures[method]]
            share, error = float(np.mean(shares)), float(np.std(shares, ddof=1) / np.sqrt(len(shares)))
            width = float(np.mean([split.width for split in measures[method]]))
            met = ""
            if method == "nested":
                met = yes_no(share >= COVERAGE - ERRORS * error)
                reached.append((share + ERRORS * error) / COVERAGE)
                if met == "no":
                    missed.append(f"{name}: {share:.3f} where {COVERAGE:g} is asked for.")
            rows.append((name, method, f"{share:.3f}", f"{error:.3f}", f"{width:.3g}", met))
    return Table(
        "Prediction intervals after a search: coverage",
        f"Intervals of coverage {COVERAGE:g} of `LSSVMRegressorCV.recommended()` at rows held back, by rows left out "
        f"with kernel and gamma held, and by {FOLDS} folds of the whole choice: means over splits, and the standard "
        f"error of the mean. Nested intervals are to cover that much, up to {ERRORS:g} standard errors.",
        ("data", "method", "coverage", "error", "mean width", "met"),
        tuple(rows),
        tuple(missed),
        (Headline("coverage of nested intervals, with its error", "asked for", min(reached), least=1.0),),
    )
