"""Coverage of prediction intervals after a search over kernels and widths: rows left out in closed form, and nested."""

import warnings

import numpy as np

from benchmarks.accuracy_sets import REGRESSION, split_of
from benchmarks.table import Headline, Table, yes_no
from problems import LSSVMRegressorCV

__all__ = ["run"]

COVERAGE, FOLDS = 0.9, 10
SPLITS, QUICK_SPLITS = 20, 2
QUICK_SETS = ("motorcycle", "friedman3")
METHODS = ("conformal", "studentised", "nested")
#: Standard errors of the mean over splits by which nested intervals may cover less than is asked for.
ERRORS = 2.0


def measure(name: str, splits: int) -> dict[str, tuple[float, float, float]]:
    """Return mean coverage of rows held back, its standard error, and mean width, by method."""
    covered: dict[str, list[float]] = {method: [] for method in METHODS}
    widths: dict[str, list[float]] = {method: [] for method in METHODS}
    for seed in range(splits):
        split = split_of(name, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LSSVMRegressorCV.recommended().fit(split.X, split.y, nested=FOLDS)
        for method in METHODS:
            low, high = model.predict_interval(split.X_test, COVERAGE, method).T
            covered[method].append(float(np.mean((low <= split.y_test) & (split.y_test <= high))))
            widths[method].append(float(np.mean(high - low)))
    return {
        method: (
            float(np.mean(covered[method])),
            float(np.std(covered[method], ddof=1) / np.sqrt(splits)),
            float(np.mean(widths[method])),
        )
        for method in METHODS
    }


def run(quick: bool) -> Table:
    rows, missed, reached = [], [], []
    for name in QUICK_SETS if quick else tuple(REGRESSION):
        for method, (share, error, width) in measure(name, QUICK_SPLITS if quick else SPLITS).items():
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
