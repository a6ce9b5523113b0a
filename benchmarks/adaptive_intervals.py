"""Coverage by thirds of the prediction, of intervals of one width and of adaptive ones."""

import warnings
from typing import Any

import numpy as np

from benchmarks.accuracy_sets import REGRESSION, split_of
from benchmarks.table import Headline, Table, yes_no
from problems import LSSVMRegressorCV
from substrate.arrays import Array
from substrate.uncertainty import coverage_by_thirds

__all__ = ["run"]

COVERAGE, FOLDS = 0.9, 10
SPLITS, QUICK_SPLITS = 20, 2
QUICK_SETS = ("motorcycle", "friedman3")
#: Least and most coverage of a third, mean over splits.
LEAST, MOST = 0.85, 0.95
METHODS: dict[str, dict[str, Any]] = {
    "studentised": {"method": "studentised"},
    "nested": {"method": "nested"},
    "adaptive": {"method": "nested", "adaptive": True},
}


def measure(name: str, splits: int) -> dict[str, tuple[Array, float, float, float]]:
    """Return, by method, the mean coverage of every third, that of all rows, the mean width, and the width that one
    row in twenty exceeds over that which nineteen do, rows held back.
    """
    thirds: dict[str, list[Array]] = {method: [] for method in METHODS}
    for seed in range(splits):
        split = split_of(name, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LSSVMRegressorCV.recommended().fit(split.X, split.y, nested=FOLDS)
        predicted = model.predict(split.X_test)
        for method, options in METHODS.items():
            ends = model.predict_interval(split.X_test, COVERAGE, **options)
            by_thirds = coverage_by_thirds(split.y_test, predicted, ends)
            low, high = np.quantile(np.diff(ends, axis=1), (0.05, 0.95))
            shares = np.array(by_thirds.shares)
            total = float(shares @ np.array(by_thirds.counts) / sum(by_thirds.counts))
            thirds[method].append(np.array([*shares, total, float(np.diff(ends, axis=1).mean()), high / low]))
    means = {method: np.mean(values, axis=0) for method, values in thirds.items()}
    return {method: (values[:3], *(float(v) for v in values[3:])) for method, values in means.items()}


def run(quick: bool) -> Table:
    rows, missed, distances = [], [], []
    for name in QUICK_SETS if quick else tuple(REGRESSION):
        for method, (shares, total, width, ratio) in measure(name, QUICK_SPLITS if quick else SPLITS).items():
            met = ""
            if method == "adaptive":
                met = yes_no(bool(((shares >= LEAST) & (shares <= MOST)).all()))
                distances.append(float(np.abs(shares - COVERAGE).max()))
                if met == "no":
                    missed.append(f"{name}: {', '.join(f'{share:.3f}' for share in shares)} of the thirds.")
            cells = [f"{share:.3f}" for share in (*shares, total)]
            rows.append((name, method, *cells, f"{width:.3g}", f"{ratio:.2f}", met))
    return Table(
        "Adaptive prediction intervals: coverage by thirds of the prediction",
        f"Intervals of coverage {COVERAGE:g} of `LSSVMRegressorCV.recommended()` at rows held back, means over splits: "
        "the shares that are covered of the rows with low, middle and high predictions, of all rows, the mean width, "
        "and the 0.95 quantile of widths over the 0.05 quantile. `adaptive` is `predict_interval(adaptive=True)`, by "
        f"{FOLDS} folds of the whole choice; every third is to be covered by {LEAST:g} to {MOST:g}.",
        ("data", "method", "low", "middle", "high", "all", "mean width", "wide over narrow", "met"),
        tuple(rows),
        tuple(missed),
        (
            Headline(
                "largest distance of a third's coverage", "asked for", max(distances), most=round(MOST - COVERAGE, 2)
            ),
        ),
    )
