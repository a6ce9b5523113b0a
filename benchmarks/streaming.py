"""Fits of rows that are never held in memory: speed against the limit, memory, and two workers against one process."""

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.data import COLUMNS, regression_data
from benchmarks.measure import MIB, peak_memory
from benchmarks.sparse_fit import GAMMA, WIDTHS, peer
from benchmarks.table import Headline, Table, yes_no
from problems import SparseLSSVMRegressor
from substrate.kernels import RBF
from substrate.reduced import Basis
from substrate.reduced.rows import KernelValues
from substrate.streaming import Passes
from substrate.streaming.passes import BUDGET
from substrate.threads import one_blas_thread

__all__ = ["fit_file", "limit", "ours", "run", "written_rows"]

SIGMA = WIDTHS["accumulated"]
MOST_MEMORY = 200.0
LEAST_FASTER = 2.5
MOST_OVER_LIMIT = 1.3
LEAST_OF_TWO = 1.5
#: Rows and basis vectors: of one process, of the peer where its features fit, of Parquet on two workers; and repeats.
FULL = ((1_000_000, 1000), (300_000, 1000), (10_000_000, 300), 2)
QUICK = ((100_000, 300), (50_000, 200), (200_000, 300), 1)
_GROUP = 100_000


def ours(n_basis: int, executor: str | None = None) -> SparseLSSVMRegressor:
    return SparseLSSVMRegressor(
        RBF(SIGMA),
        GAMMA,
        basis=Basis(n_basis, rule="random", n_scoring=500, random_state=0),
        passes=Passes(executor=executor),
    )


def written_rows(folder: str, n: int) -> str:
    """Return a Parquet file of a number of rows, written one row group at a time."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    path = Path(folder) / f"rows{n}.parquet"
    if path.exists():
        return str(path)
    writer = None
    for seed, start in enumerate(range(0, n, _GROUP)):
        X, y = regression_data(min(_GROUP, n - start), seed)
        table = pa.table({f"x{k}": X[:, k] for k in range(COLUMNS)} | {"y": y})
        writer = ParquetWriter(path, table.schema) if writer is None else writer
        writer.write_table(table)
    if writer is not None:
        writer.close()
    return str(path)


def fit_file(path: str, n_basis: int) -> Callable[[], object]:
    """For a process of its own: warmed by a small fit, so that imports are not the fit's."""
    ours(20).fit([regression_data(1000)])
    return partial(ours(n_basis).fit, path, "y")


def limit(n_basis: int) -> float:
    """Return seconds per million rows on one core: the kernel values of a tile, and their products."""
    from scipy.linalg.blas import dsyrk

    X, _ = regression_data(1 << 16)
    values = KernelValues(RBF(SIGMA), X[:n_basis])
    tile, sums = values.buffer(), np.zeros((n_basis, n_basis), order="F")
    seconds = []
    with one_blas_thread():
        for _ in range(3):
            start = time.process_time()
            for first in range(0, X.shape[0], values.step):
                values.fill(X[first : first + values.step], tile)
                sums = dsyrk(1.0, tile.T, beta=1.0, c=sums, overwrite_c=1)
            seconds.append((time.process_time() - start) * 1e6 / X.shape[0])
    return median(seconds)


def _pass_seconds(path: str, n: int, n_basis: int) -> float:
    """Return seconds per million rows of the pass that computes the sums, reading included."""
    from substrate.reduced.moments import MomentsOfLeaf, Origin
    from substrate.streaming.array_source import CodedSource, numbers
    from substrate.streaming.passes import OpenPasses
    from substrate.streaming.sources import source_of

    X, _ = regression_data(n_basis)
    function = MomentsOfLeaf(KernelValues(RBF(SIGMA), X), Origin(np.zeros(n_basis), np.zeros(1), 1.0))
    source = CodedSource(source_of(path, "y"), numbers)
    start = time.process_time()
    OpenPasses().sums(source, function, "sums")
    return (time.process_time() - start) * 1e6 / n


def _wall(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _warm_up() -> None:
    """Import on a worker."""
    ours(20).fit(*regression_data(1000))


def _two_workers(path: str, n_basis: int) -> tuple[float, float, float]:
    """Wall seconds of a fit by one process, by two workers, and of leave-one-out by two workers."""
    import distributed

    alone = _wall(partial(ours(n_basis).fit, path, "y"))
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        model = ours(n_basis).set_params(passes__executor=client)
        client.run(_warm_up)
        seconds_together = _wall(partial(model.fit, path, "y"))
        left_out = _wall(partial(model.leave_one_out, path, "y"))
    assert model.certificate_.holds
    return alone, seconds_together, left_out


def run(quick: bool) -> Table:
    n_rows, fits, parquet, repeats = QUICK if quick else FULL
    rows: list[tuple[str, ...]] = []
    shortfalls: list[str] = []
    summary: list[Headline] = []

    def judge(what: str, size: tuple[int, int], figure: float, target: float, least: bool, note: str) -> None:
        met = figure >= target if least else figure <= target
        sign = "≥" if least else "≤"
        rows.append((what, str(size[0]), str(size[1]), f"{figure:.2f}", f"{sign} {target:g}", yes_no(met), note))
        bound = {"least": target} if least else {"most": target}
        summary.append(Headline(f"streamed, l = {size[0]:,}, n = {size[1]}: {what}", "", figure, **bound))
        if not met:
            shortfalls.append(f"{what}, l = {size[0]}, n = {size[1]}: {figure:.2f} where {sign} {target:g} was wanted.")

    with tempfile.TemporaryDirectory() as folder:
        path = written_rows(folder, n_rows[0])
        used = peak_memory(fit_file, path, n_rows[1], repeats=1) / MIB
        judge(
            "memory over the block budget, MiB",
            n_rows,
            used - BUDGET / MIB,
            MOST_MEMORY,
            False,
            f"{used:.0f} MiB in all",
        )
        least, sums = limit(n_rows[1]), _pass_seconds(path, n_rows[0], n_rows[1])
        note = f"{1e6 / sums:,.0f} rows/s of {1e6 / least:,.0f}"
        judge("pass over the kernel + syrk limit", n_rows, sums / least, MOST_OVER_LIMIT, False, note)
        X, y = regression_data(fits[0])
        small = written_rows(folder, fits[0])
        times = [
            (_cpu(partial(ours(fits[1]).fit, small, "y")), _cpu(partial(peer(SIGMA, fits[1]).fit, X, y)))
            for _ in range(repeats)
        ]
        our_seconds, peer_seconds = (median(column) for column in zip(*times, strict=True))
        judge(
            "faster than Nystroem + Ridge",
            fits,
            peer_seconds / our_seconds,
            LEAST_FASTER,
            True,
            f"{our_seconds:.2f} s and {peer_seconds:.2f} s",
        )
        big = written_rows(folder, parquet[0])
        alone, seconds_together, left_out = _two_workers(big, parquet[1])
        note = f"fit {alone:.1f} s and {seconds_together:.1f} s, leave-one-out {left_out:.1f} s, all of wall time"
        judge("two Dask workers over one process", parquet, alone / seconds_together, LEAST_OF_TWO, True, note)
    return Table(
        "Streaming: fits from Parquet",
        f"`SparseLSSVMRegressor(RBF({SIGMA:.3g}), gamma={GAMMA:g}, basis='random')` from a Parquet file of {COLUMNS} "
        "columns and a target, with certificate; memory is the peak of a fresh process over its start. CPU seconds of "
        "one core unless a note states otherwise; the limit is kernel values and symmetric rank-k updates of rows in "
        "memory, and nothing else.",
        ("figure", "l", "n", "value", "target", "met", "note"),
        tuple(rows),
        tuple(shortfalls),
        tuple(summary),
    )


def _cpu(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start
