"""The cost of a row in each pass of a streamed fit: the constants of the scaling model in docs/scaling.md."""

import tempfile
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.data import COLUMNS, regression_data
from benchmarks.measure import Measured, measure_result
from benchmarks.streaming import SIGMA, limit, ours, written_rows
from benchmarks.table import Headline, Table
from substrate.kernels import RBF
from substrate.reduced.left_out import LeverageFactor, left_out_rows
from substrate.reduced.moments import MomentsOfLeaf, Origin
from substrate.reduced.rows import KernelRows, KernelValues
from substrate.reduced.solution import residual_pass
from substrate.streaming.array_source import CodedSource, numbers
from substrate.streaming.passes import OpenPasses
from substrate.streaming.source import Source
from substrate.streaming.sources import source_of

__all__ = ["run"]

SIZES = (100, 300, 1000)
FULL, QUICK = 131_072, 32_768
#: Whole fits against what the constants predict: rows, basis vectors, and how far above the prediction they may be.
CHECKED, CHECKED_QUICK, VECTORS, MOST_ABOVE = (1_000_000, 10_000_000), (100_000, 200_000), 300, 1.25


def _microseconds(call: Callable[[], object], n: int) -> Measured:
    figure: Measured = measure_result(call)[1] * (1e6 / n)
    return figure


def _passes(source: Source, n_basis: int) -> dict[str, Callable[[], object]]:
    """Return every pass by itself, on a machine that was fitted to the first rows."""
    X, y = regression_data(4 * n_basis + 1000)
    model = ours(n_basis).fit(X, y)
    rows = KernelRows(KernelValues(RBF(SIGMA), model.basis_), source, OpenPasses())
    beta, bias = model.support_values_[:, None], np.array([model.bias_])
    sums = MomentsOfLeaf(rows.values, Origin(np.zeros(n_basis), np.zeros(1), 1.0))
    factor = LeverageFactor(model.leverage_factor_, model.leverage_offset_, source.n_rows)
    return {
        "sums": lambda: rows.sums(sums, "sums"),
        "errors": lambda: residual_pass(rows, 1.0, beta, bias),
        "leave-one-out": lambda: list(left_out_rows(rows, beta, bias, factor)),
        "reading": rows.target_summary,
    }


def run(quick: bool) -> Table:
    n = QUICK if quick else FULL
    table_rows, said, summary, short = [], [], [], []
    predicted = np.nan
    with tempfile.TemporaryDirectory() as folder:
        source = CodedSource(source_of(written_rows(folder, n), "y"), numbers)
        for n_basis in SIZES:
            costs = {name: _microseconds(call, n) for name, call in _passes(source, n_basis).items()}
            table_rows.append((str(n_basis), *(f"{cost:.1f}" for cost in (limit(n_basis), *costs.values()))))
            if n_basis == VECTORS:
                # a fit reads the targets, draws its basis, and sums; its sums have digits enough for the certificate
                predicted = costs["sums"] + 2.0 * costs["reading"]
        for rows in CHECKED_QUICK if quick else CHECKED:
            path = written_rows(folder, rows)
            cost = _microseconds(partial(ours(VECTORS).fit, path, "y"), rows)
            said.append(f"{rows:,} rows take {1e-6 * rows * cost:.1f} s, {1e6 / cost:,.0f} rows per second")
            line = Headline(
                f"streamed fit, l = {rows:,}, n = {VECTORS}", "row costs", cost / predicted, most=MOST_ABOVE
            )
            summary.append(line)
            if not line.is_met:
                short.append(f"{line.work}: {cost:.1f} microseconds per row where {predicted:.1f} were predicted.")
    return Table(
        "Streaming: the cost of a row",
        f"CPU microseconds per row on one core, of {n} rows of {COLUMNS} columns in a Parquet file, RBF({SIGMA:.3g}): "
        "kernel values and symmetric rank-k updates of rows in memory alone; then each whole pass, "
        f"reading included; and a pass that only reads and checks. Whole fits at n = {VECTORS}, for which these "
        f"constants predict {predicted:.1f} microseconds per row: {'; '.join(said)}.",
        ("n", "kernel + syrk", "sums", "errors and certificate", "leave-one-out", "reading"),
        tuple(table_rows),
        tuple(short),
        tuple(summary),
    )
