"""A fit whose kernel matrix is never stored: peak memory, and agreement with the factor where that still fits."""

import time
from collections.abc import Callable

import numpy as np

from benchmarks.data import regression_data
from benchmarks.measure import MIB, peak_memory
from benchmarks.regression_fit import GAMMA, KERNEL, ours
from benchmarks.table import Headline, Table, yes_no
from problems import LSSVMRegressor

__all__ = ["fit_by_blocks", "run"]

SIZES = (5000, 20_000)
QUICK = (3000,)
MOST_BYTES = 1e9
#: Up to here the closed form is run as well, to compare predictions.
COMPARED_UP_TO = 5000


def by_blocks() -> LSSVMRegressor:
    return LSSVMRegressor(kernel=KERNEL, gamma=GAMMA, solver="cg")


def fit_by_blocks(n: int) -> Callable[[], object]:
    by_blocks().fit(*regression_data(100))
    X, y = regression_data(n)
    return lambda: by_blocks().fit(X, y)


def run(quick: bool) -> Table:
    rows: list[tuple[str, ...]] = []
    shortfalls: list[str] = []
    summary: list[Headline] = []
    for n in QUICK if quick else SIZES:
        used = peak_memory(f"{__name__}:fit_by_blocks", n, repeats=1)
        X, y = regression_data(n)
        start = time.process_time()
        model = by_blocks().fit(X, y)
        seconds = time.process_time() - start
        assert model.certificate_.holds
        difference = ""
        if n <= COMPARED_UP_TO:
            difference = f"{np.abs(model.predict(X) - ours().fit(X, y).predict(X)).max():.1e}"
        met = used < MOST_BYTES
        rows.append(
            (
                str(n), f"{8.0 * n * n / MIB:.0f}", f"{used / MIB:.0f}", f"< {MOST_BYTES / MIB:.0f}", yes_no(met),
                str(model.n_iter_), f"{model.certificate_['relative residual'].relative:.1e}", f"{seconds:.1f}",
                difference,
            )
        )  # fmt: skip
        work = f"memory of a fit by conjugate gradients, N = {n}, MiB"
        summary.append(Headline(work, "", used / MIB, most=MOST_BYTES / MIB))
        if not met:
            shortfalls.append(f"N = {n}: blocks and preconditioner take {used / MIB:.0f} MiB.")
    return Table(
        "Conjugate gradients: memory",
        "`LSSVMRegressor(RBF(sqrt(10)), gamma=2, solver='cg').fit`: peak memory beyond data and libraries in a fresh "
        "process, beside what the kernel matrix alone would take; CPU seconds of one fit.",
        (
            "N", "kernel matrix, MiB", "fit, MiB", "target", "met", "iterations", "relative residual", "CPU s",
            "largest difference from the closed form",
        ),
        tuple(rows),
        tuple(shortfalls),
        tuple(summary),
    )  # fmt: skip
