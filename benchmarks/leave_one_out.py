"""Leave-one-out without refitting, against one refit per row, on the motorcycle data."""

from collections.abc import Callable

import numpy as np

from benchmarks.measure import time_interleaved
from benchmarks.table import Headline, Table, yes_no
from problems import LSSVMRegressor
from substrate.arrays import Array
from substrate.datasets import motorcycle
from substrate.kernels import RBF

__all__ = ["run"]

LEAST_FASTER = 100.0
#: Calls per measurement, each being too short to time.
TIMES = 20


def model() -> LSSVMRegressor:
    return LSSVMRegressor(kernel=RBF(sigma=10.0), gamma=20.0)


def fast(X: Array, y: Array) -> Array:
    return np.asarray(model().fit(X, y).leave_one_out().outputs)


def explicit(X: Array, y: Array) -> Array:
    rows = np.arange(y.size)
    return np.array([model().fit(X[rows != i], y[rows != i]).predict(X[i : i + 1])[0] for i in rows])


def run(quick: bool) -> Table:
    X, y = motorcycle()
    difference = float(np.abs(fast(X, y) - explicit(X, y)).max() / np.abs(y).max())
    fitted = model().fit(X, y)
    contenders: dict[str, Callable[[], object]] = {
        "fast": lambda: [fitted.leave_one_out() for _ in range(TIMES)],
        "with fit": lambda: [fast(X, y) for _ in range(TIMES)],
        "explicit": lambda: explicit(X, y),
    }
    t = time_interleaved(contenders, 3 if quick else 9)
    seconds_alone, seconds_with_fit = t["fast"] / TIMES, t["with fit"] / TIMES
    faster = t["explicit"] / seconds_alone
    met = faster >= LEAST_FASTER
    missed = f"{faster:.0f} times faster than {y.size} refits, {LEAST_FASTER:g} wanted."
    return Table(
        "Leave-one-out: one fit against one per row",
        "`leave_one_out()` of `LSSVMRegressor(RBF(10), gamma=20)` on motorcycle, certificate and a check by one refit "
        "included, against a fit and a prediction for every row. Median CPU seconds.",
        (
            "N",
            "leave-one-out, s",
            "explicit, s",
            "times faster",
            "target",
            "met",
            "fit and leave-one-out, s",
            "times faster ",
            "largest difference / largest y",
        ),
        (
            (
                str(y.size),
                f"{seconds_alone:.4f}",
                f"{t['explicit']:.4f}",
                f"{faster:.0f}",
                f"≥ {LEAST_FASTER:g}",
                yes_no(met),
                f"{seconds_with_fit:.4f}",
                f"{t['explicit'] / seconds_with_fit:.0f}",
                f"{difference:.1e}",
            ),
        ),
        () if met else (missed,),
        (Headline(f"leave-one-out, N = {y.size}", "one refit per row", faster, least=LEAST_FASTER),),
    )
