"""Coverage by thirds of the prediction, of intervals of one width and of adaptive ones."""

import numpy as np

from benchmarks.nested_intervals import COVERAGE, FOLDS, measure_all
from benchmarks.table import Headline, Table, yes_no

__all__ = ["run"]

#: Least and most coverage of a third, mean over splits.
LEAST, MOST = 0.85, 0.95
SHOWN = ("studentised", "nested", "adaptive")


def run(quick: bool) -> Table:
    rows, missed, distances = [], [], []
    for name, measures in measure_all(quick).items():
        for method in SHOWN:
            splits = measures[method]
            shares = np.mean([split.thirds for split in splits], axis=0)
            total, width, ratio = np.mean(
                [(split.coverage, split.width, split.wide_over_narrow) for split in splits], axis=0
            )
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
        f"{FOLDS} folds of the whole choice; every third is to be covered by {LEAST:g} to {MOST:g}. The fits are those "
        "of the table of coverage after a search.",
        ("data", "method", "low", "middle", "high", "all", "mean width", "wide over narrow", "met"),
        tuple(rows),
        tuple(missed),
        (
            Headline(
                "largest distance of a third's coverage", "asked for", max(distances), most=round(MOST - COVERAGE, 2)
            ),
        ),
    )
