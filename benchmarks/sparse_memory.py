"""Peak memory of a fit on a reduced basis, which must not depend on the number of rows."""

from collections.abc import Callable

from benchmarks.data import regression_data
from benchmarks.measure import MIB, peak_memory
from benchmarks.sparse_fit import WIDTHS, ours, peer
from benchmarks.table import Headline, Table, yes_no

__all__ = ["fit_ours", "fit_peer", "run"]

SIZES = (100_000, 1_000_000)
QUICK = (20_000, 60_000)
N_BASIS = 500
MOST = 60.0


def fit_ours(n: int, n_basis: int) -> Callable[[], object]:
    model = ours(WIDTHS["accumulated"], n_basis)
    ours(WIDTHS["accumulated"], 20).fit(*regression_data(1000))  # lazy imports are not the fit's
    X, y = regression_data(n)
    return lambda: model.fit(X, y)


def fit_peer(n: int, n_basis: int) -> Callable[[], object]:
    model = peer(WIDTHS["accumulated"], n_basis)
    peer(WIDTHS["accumulated"], 20).fit(*regression_data(1000))
    X, y = regression_data(n)
    return lambda: model.fit(X, y)


def run(quick: bool) -> Table:
    rows: list[tuple[str, ...]] = []
    shortfalls: list[str] = []
    summary: list[Headline] = []
    for n in QUICK if quick else SIZES:
        used = peak_memory(fit_ours, n, N_BASIS, repeats=1) / MIB
        # the peer keeps n x n_basis features: only where they fit
        peer_memory = f"{peak_memory(fit_peer, n, N_BASIS, repeats=1) / MIB:.0f}" if n <= SIZES[0] else "-"
        met = used <= MOST
        rows.append((str(n), f"{8.0 * n * 11 / MIB:.0f}", f"{used:.0f}", f"≤ {MOST:g}", yes_no(met), peer_memory))
        summary.append(Headline(f"memory of a reduced fit, l = {n:,}, MiB", "", used, most=MOST))
        if not met:
            shortfalls.append(f"l = {n}: {used:.0f} MiB, {8.0 * n / MIB:.0f} of them for each number kept per row.")
    return Table(
        "Sparse LS-SVM: peak memory of a fit",
        f"Largest resident memory during `fit` with {N_BASIS} vectors drawn at random less what was resident before it "
        "(the data, of ten columns and a target, and imported libraries), each in a fresh process.",
        ("l", "data, MiB", "fit, MiB", "target", "met", "Nystroem + Ridge, MiB"),
        tuple(rows),
        tuple(shortfalls),
        tuple(summary),
    )
