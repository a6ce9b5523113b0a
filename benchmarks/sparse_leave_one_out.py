"""Leave-one-out on a reduced basis, fast against explicit, on motorcycle and over the rows of Boston housing."""

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.measure import time_interleaved
from benchmarks.table import Headline, Table, yes_no
from problems import SparseLSSVMRegressor
from problems.reproductions.reduction import boston_case, motorcycle_case, refits
from substrate.arrays import Array

__all__ = ["run"]

LEAST_FASTER = 100.0
BOSTON = (250, 350, 506)
QUICK = (250,)
#: Calls of the fast one per measurement, each being too short to time.
TIMES = 10
#: Rows left out explicitly on Boston; the time of all is that of these times their share.
SAMPLED = 25


def repeatedly(fitted: SparseLSSVMRegressor, X: Array, y: Array) -> None:
    for _ in range(TIMES):
        fitted.leave_one_out(X, y)


def run(quick: bool) -> Table:
    """:place [Cawley2004]_ Table 1 and Fig. 4: fast against explicit leave-one-out"""
    rows: list[tuple[str, ...]] = []
    shortfalls: list[str] = []
    summary: list[Headline] = []
    cases = [("motorcycle", motorcycle_case(), True)]
    cases += [("Boston", boston_case(size, 200, 0), False) for size in (QUICK if quick else BOSTON)]
    for name, (model, X, y), judged in cases:
        tested = np.arange(y.size) if judged else np.linspace(0, y.size - 1, SAMPLED).astype(np.intp)
        outputs = model.leave_one_out(X, y).outputs
        difference = float(np.abs(outputs[tested] - refits(model, X, y, tested)).max() / np.abs(y).max())
        contenders: dict[str, Callable[[], object]] = {
            "fast": partial(repeatedly, model, X, y),
            "explicit": partial(refits, model, X, y, tested),
        }
        t = time_interleaved(contenders, 2 if quick else 5)
        seconds_per_run, all_rows = t["fast"] / TIMES, t["explicit"] * y.size / tested.size
        faster = all_rows / seconds_per_run
        met = faster >= LEAST_FASTER
        rows.append(
            (
                name,
                str(y.size),
                str(len(model.basis_)),
                f"{seconds_per_run:.4f}",
                f"{all_rows:.3f}",
                f"{faster:.0f}",
                f"≥ {LEAST_FASTER:g}" if judged else "",
                yes_no(met) if judged else "",
                f"{difference:.1e}",
            )
        )
        if judged:
            summary.append(
                Headline(f"leave-one-out, reduced basis, {name}", "one refit per row", faster, least=LEAST_FASTER)
            )
        if judged and not met:
            shortfalls.append(f"{name}: {faster:.0f} times faster than {y.size} refits, {LEAST_FASTER:g} wanted.")
    return Table(
        "Sparse LS-SVM: leave-one-out against one refit per row",
        "`leave_one_out()` of a fitted model, certificate and one refit as a check included, against a fit (with its "
        f"own certificate) and a prediction for every row on the same basis; on Boston {SAMPLED} rows are refitted and "
        "the time of all is in proportion. Median CPU seconds.",
        (
            "data",
            "l",
            "vectors",
            "leave-one-out, s",
            "explicit, s",
            "times faster",
            "target",
            "met",
            "largest difference / largest y",
        ),
        tuple(rows),
        tuple(shortfalls),
        tuple(summary),
    )
