"""All rows on the host, certified: a hundred thousand rows without a kernel matrix, on all cores.

``python -m benchmarks.all_rows_on_host`` where cvxpy is not installed; ``--write`` and ``--record`` as
:mod:`benchmarks.device` has them.
"""

import resource
import sys
import time

import numpy as np

from benchmarks.all_rows import GAMMA, HEADINGS, SHARE, WIDTH, describe_way
from benchmarks.data import COLUMNS
from benchmarks.device import write_section
from benchmarks.measure import all_cores
from benchmarks.table import Headline, Table, yes_no
from problems import LSSVMRegressor
from substrate.kernels import RBF

__all__ = ["run"]

#: Rows; seconds and bytes that are allowed.
ROWS, LIMIT, MOST_BYTES = 100_000, 1200.0, 2e9
QUICK = 20


def run(quick: bool) -> Table:
    n = ROWS // QUICK if quick else ROWS
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, COLUMNS))
    y = np.sin(X).sum(axis=1) + 0.1 * rng.standard_normal(n)
    start, cpu = time.perf_counter(), time.process_time()
    with all_cores() as cores:
        model = LSSVMRegressor(RBF(WIDTH), GAMMA, tol=SHARE).fit(X, y)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    accuracy = model.certificate_.rows[0]
    met = bool(model.certificate_.holds and seconds <= LIMIT and peak <= MOST_BYTES)
    bounds = f"{LIMIT:g} s, {MOST_BYTES / 1e9:g} GB"
    row = ("all rows, without a matrix", f"{n:,}", f"{seconds:.0f} ({cpu:.0f} of CPU), {peak / 1e9:.2f} GB")
    case = f"all rows on the host, N = {n}"
    return Table(
        "All rows on the host, certified",
        f"{COLUMNS} standard normal columns, y the sum of their sines with noise 0.1, `LSSVMRegressor(RBF(sqrt(10)), "
        f"gamma={GAMMA:g}, tol={SHARE:g})`, certificate included, on {cores} cores.",
        HEADINGS,
        ((*row, f"{accuracy.relative:.1e}", "", bounds, yes_no(met), describe_way(model)),),
        () if met else (f"{case}: {seconds:.0f} s and {peak / 1e9:.2f} GB of {bounds}.",),
        (Headline(case, bounds, max(seconds / LIMIT, peak / MOST_BYTES), most=1.0, held=model.certificate_.holds),),
    )


if __name__ == "__main__":
    sys.exit(write_section("all_rows_on_host", run, sys.argv[1:]))
