"""Peak memory of a fit, in units of the one N x N array that it needs."""

from collections.abc import Callable

from benchmarks.data import regression_data
from benchmarks.measure import MIB, peak_memory
from benchmarks.regression_fit import ours, peer
from benchmarks.table import Headline, Table, yes_no

__all__ = ["fit_ours", "fit_peer", "run"]

SIZES = (3000, 5000)
QUICK = (2000,)
MOST = 1.2


def fit_ours(n: int) -> Callable[[], object]:
    ours().fit(*regression_data(100))  # lazy imports and the BLAS's own buffers are not the fit's
    X, y = regression_data(n)
    return lambda: ours().fit(X, y)


def fit_peer(n: int) -> Callable[[], object]:
    peer().fit(*regression_data(100))
    X, y = regression_data(n)
    return lambda: peer().fit(X, y)


def run(quick: bool) -> Table:
    rows: list[tuple[str, ...]] = []
    shortfalls: list[str] = []
    summary: list[Headline] = []
    repeats = 1 if quick else 3
    for n in QUICK if quick else SIZES:
        matrix = 8.0 * n * n
        used = peak_memory(fit_ours, n, repeats=repeats)
        peer_memory = peak_memory(fit_peer, n, repeats=repeats)
        met = used <= MOST * matrix
        rows.append(
            (
                str(n),
                f"{matrix / MIB:.0f}",
                f"{used / MIB:.0f}",
                f"{used / matrix:.2f}",
                f"≤ {MOST:g}",
                yes_no(met),
                f"{peer_memory / MIB:.0f}",
                f"{peer_memory / matrix:.2f}",
            )
        )
        summary.append(Headline(f"memory of a fit, N = {n}", "one N x N array", used / matrix, most=MOST))
        if not met:
            shortfalls.append(f"N = {n}: {(used - matrix) / MIB:.0f} MiB are taken beside the kernel matrix.")
    return Table(
        "Regression: peak memory of a fit",
        "Largest resident memory during `fit` less what was resident before it (data and imported libraries), each in "
        "a fresh process; the multiple is of one N x N array of float64.",
        ("N", "N x N array, MiB", "fit, MiB", "multiple", "target", "met", "KernelRidge, MiB", "its multiple"),
        tuple(rows),
        tuple(shortfalls),
        tuple(summary),
    )
