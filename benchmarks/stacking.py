"""A stack of the machines of a search against the one that the search keeps: errors and intervals on rows held back,
CPU time.
"""

import time
import warnings
from typing import Any

import numpy as np

from benchmarks.accuracy_sets import REGRESSION, Split, split_of
from benchmarks.table import Headline, Table
from problems import LSSVMRegressorCV, StackedLSSVMRegressor

__all__ = ["run"]

SPLITS, QUICK_SPLITS = 10, 1
QUICK_SETS = ("motorcycle", "friedman3")
#: Most error of the stack as a multiple of that of one machine, geometric mean over sets.
MOST_ERROR = 1.0
#: The level of the intervals.
COVERAGE = 0.9


def measure(model: Any, split: Split) -> tuple[float, float, Any]:
    """Return the root mean square error on rows held back, the CPU seconds of the fit, and the model."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(split.X, split.y)
    seconds = time.process_time() - start
    return float(np.sqrt(np.mean((model.predict(split.X_test) - split.y_test) ** 2))), seconds, model


def measure_intervals(model: Any, split: Split) -> tuple[float, float]:
    """Return the share of rows held back inside left-out intervals, and their mean width."""
    low, high = np.asarray(model.predict_interval(split.X_test, COVERAGE)).T
    return float(np.mean((low <= split.y_test) & (split.y_test <= high))), float(np.mean(high - low))


def run(quick: bool) -> Table:
    names = QUICK_SETS if quick else tuple(REGRESSION)
    rows, ratios, times = [], [], []
    for name in names:
        errors, seconds, seen, intervals = [], [], [], []
        for seed in range(QUICK_SPLITS if quick else SPLITS):
            split = split_of(name, seed)
            single = measure(LSSVMRegressorCV.recommended(), split)
            stack = measure(StackedLSSVMRegressor.recommended(), split)
            errors.append((single[0], stack[0]))
            seconds.append((single[1], stack[1]))
            expected = float(np.sqrt(stack[2].criterion_)), float(np.sqrt(stack[2].apparent_criterion_))
            seen.append([value / stack[0] for value in expected])
            intervals.append([measure_intervals(fitted[2], split) for fitted in (single, stack)])
        one, several = np.mean(errors, axis=0)
        ratios.append(several / one)
        times.append(np.sum(seconds, axis=0)[1] / np.sum(seconds, axis=0)[0])
        honest, apparent = np.mean(seen, axis=0)
        (covered, width), (covered_by_stack, width_of_stack) = np.mean(intervals, axis=0)
        rows.append(
            (
                name,
                f"{one:.4g}",
                f"{several:.4g}",
                f"{ratios[-1]:.3f}",
                f"{honest:.2f}",
                f"{apparent:.2f}",
                f"{times[-1]:.1f}",
                f"{covered:.3f}",
                f"{covered_by_stack:.3f}",
                f"{width_of_stack / width:.2f}",
            )
        )
    mean = float(np.exp(np.mean(np.log(ratios))))
    missed = () if mean <= MOST_ERROR else (f"The stack has {mean:.3f} times the error of one machine.",)
    return Table(
        "A stack of machines against the best of them",
        "`StackedLSSVMRegressor.recommended()` beside `LSSVMRegressorCV.recommended()` on the same splits: root mean "
        "square errors on rows held back, means over splits, their ratio, the left-out error that the stack states "
        "(and the one that its weights have seen) as a share of its error on those rows, the ratio of CPU times, and "
        f"what intervals of {COVERAGE:g} by leaving rows out cover of rows held back after the search, with the ratio "
        "of their widths.",
        (
            "data",
            "one machine",
            "stack",
            "ratio",
            "stated",
            "seen by weights",
            "CPU time, ratio",
            "covered, one machine",
            "covered, stack",
            "width, ratio",
        ),
        tuple(rows),
        missed,
        (Headline("error of a stack", "error of one machine", mean, most=MOST_ERROR),),
    )
