"""Time and memory against the number of rows, ours and those of peers, with the exponents of their growth.

A full run also draws docs/images/growth.png, where matplotlib is installed.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.data import regression_data
from benchmarks.measure import MIB, cost
from benchmarks.regression_fit import GAMMA, KERNEL
from benchmarks.table import Table

__all__ = ["prepare", "run"]

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "growth.png"
#: Work: our side, the peer, and the numbers of rows; a quick run has the first two.
WORK: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "fit": ("LSSVMRegressor", "KernelRidge", (500, 1000, 2000, 4000)),
    "search of gamma": ("LSSVMRegressorCV", "GridSearchCV", (250, 500, 1000, 2000)),
    "reduced fit": ("SparseLSSVMRegressor", "Nystroem + Ridge", (10_000, 30_000, 100_000, 300_000)),
    "composed machine": ("Machine", "raw cvxpy", (100, 200, 400, 800)),
}
N_BASIS = 200
#: The peer's grid: values of gamma and folds, and how many of the values are really fitted.
VALUES, FOLDS, FITTED = 50, 10, 2


class Point(NamedTuple):
    """One call: its rows, CPU seconds and bytes."""

    rows: int
    seconds: float
    bytes: float


def _fit(n: int, is_ours: bool) -> Callable[[], object]:
    from benchmarks.regression_fit import GAMMA, KERNEL, peer
    from problems import LSSVMRegressor

    X, y = regression_data(n)
    return lambda: (LSSVMRegressor(KERNEL, GAMMA) if is_ours else peer()).fit(X, y)


def _search(n: int, is_ours: bool) -> Callable[[], object]:
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.model_selection import GridSearchCV

    from problems import LSSVMRegressorCV

    X, y = regression_data(n)
    if is_ours:
        return lambda: LSSVMRegressorCV(KERNEL).fit(X, y)
    grid = {"alpha": list(np.geomspace(1e-6, 1e2, VALUES)[:FITTED])}
    peer = GridSearchCV(KernelRidge(kernel="rbf", gamma=0.1), grid, cv=FOLDS, refit=False)
    return lambda: peer.fit(X, y)


def _make_reduced(n: int, is_ours: bool) -> Callable[[], object]:
    from benchmarks.sparse_fit import WIDTHS, ours, peer

    X, y = regression_data(n)
    sigma = WIDTHS["accumulated"]
    return lambda: (ours if is_ours else peer)(sigma, N_BASIS).fit(X, y)


def _make_composed(n: int, is_ours: bool) -> Callable[[], object]:
    import cvxpy as cp

    from benchmarks.composed_machines import CASES, WEIGHT, ours, plain

    make, loss, monotone = CASES["epsilon-insensitive"]
    X, y = make(n)
    if not is_ours:
        return lambda: plain(X, y, loss, monotone)

    def solve() -> object:
        weight = cp.Parameter(nonneg=True, name="weight")
        return ours(X, y, loss, monotone, weight).solve(weight=WEIGHT)

    return solve


CALLS = {"fit": _fit, "search of gamma": _search, "reduced fit": _make_reduced, "composed machine": _make_composed}


def prepare(work: str, n: int, is_ours: bool) -> Callable[[], object]:
    """For a process of its own: a call, after a small one that imports what it needs."""
    smallest = 1000 if work == "reduced fit" else 60
    CALLS[work](smallest, is_ours)()
    return CALLS[work](n, is_ours)


def measure(work: str, n: int, is_ours: bool) -> Point:
    seconds, used = cost(prepare, work, n, is_ours)
    if work == "search of gamma" and not is_ours:
        seconds *= VALUES / FITTED  # all fits of the grid cost the same
    return Point(n, seconds, used)


def exponent(points: list[Point], figure: Callable[[Point], float]) -> float:
    """Return the slope of the logarithm of a figure in that of the rows, by least squares over the three largest
    sizes.
    """
    logs = np.log([[point.rows, max(figure(point), 1e-9)] for point in points[-3:]])
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])


def run(quick: bool) -> Table:
    rows: list[tuple[str, ...]] = []
    points_of: dict[str, dict[str, list[Point]]] = {}
    for work, (is_ours, peer, sizes) in WORK.items():
        points_of[work] = {is_ours: [], peer: []}
        for n in sizes[:2] if quick else sizes:
            for name in (is_ours, peer):
                points_of[work][name].append(measure(work, n, name == is_ours))
        for name, points in points_of[work].items():
            rows.append(
                (
                    work,
                    name,
                    " / ".join(f"{point.rows:,}" for point in points),
                    " / ".join(f"{point.seconds:.3g}" for point in points),
                    f"{exponent(points, lambda p: p.seconds):.1f}",
                    " / ".join(f"{point.bytes / MIB:.0f}" for point in points),
                    f"{exponent(points, lambda p: p.bytes):.1f}",
                )
            )
    if not quick:
        draw(points_of)
    return Table(
        "Growth with the number of rows",
        f"One call each in a fresh process, certificates included: `LSSVMRegressor(RBF(sqrt(10)), gamma={GAMMA:g})`; "
        f"the best gamma of a range by leave-one-out against a grid of {VALUES} values and {FOLDS} folds, of which "
        f"{FITTED} values are fitted and multiplied; {N_BASIS} vectors drawn at random; the epsilon-insensitive loss "
        "from its rows to the certified solution, against Clarabel at its default tolerances. CPU seconds, peak "
        "memory beyond the data, and the exponents a of rows^a fitted to the three largest sizes.",
        ("work", "by", "rows", "CPU s", "exponent", "MiB", "exponent "),
        tuple(rows),
    )


def draw(points_of: dict[str, dict[str, list[Point]]], path: Path = PICTURE) -> None:
    """Time above, memory below, one column for each work; nothing where matplotlib is not installed."""
    try:
        import matplotlib as mpl
    except ImportError:
        return
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    look: dict[str, Any] = {
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlesize": 12.5,
        "axes.titlelocation": "left",
        "font.size": 11.5,
        "legend.fontsize": 10.0,
        "legend.edgecolor": "none",
        "lines.linewidth": 2.0,
    }
    figures: tuple[tuple[str, Callable[[Point], float]], ...] = (
        ("CPU time (s)", lambda point: point.seconds),
        ("peak memory (MiB)", lambda point: max(point.bytes / MIB, 0.1)),
    )
    with plt.rc_context(look):
        figure, axes = plt.subplots(
            2, len(points_of), figsize=(3.1 * len(points_of), 6.2), layout="constrained", sharex="col"
        )
        for column, (work, sides) in enumerate(points_of.items()):
            for row, (label, value) in enumerate(figures):
                ax = axes[row, column]
                styles = (("#b03060", "-", "o"), ("#0072b2", "--", "s"))
                for (name, points), (colour, line, mark) in zip(sides.items(), styles, strict=True):
                    a = exponent(points, value)
                    text = f"{name}\n$N^{{{a:.1f}}}$" if math.isfinite(a) else name
                    sizes, heights = [point.rows for point in points], [value(point) for point in points]
                    ax.loglog(sizes, heights, color=colour, linestyle=line, marker=mark, label=text)
                ax.set_xticks(sizes, [f"{n:,}" if n < 10_000 else f"{n // 1000}k" for n in sizes])
                ax.minorticks_off()
                if row == 0:
                    ax.set_title(work)
                else:
                    ax.set_xlabel("rows")
                if column == 0:
                    ax.set_ylabel(label)
                ax.legend(loc="upper left")
                low, high = ax.get_ylim()
                ax.set_ylim(low, high * (high / low) ** 0.7)  # room for the legend
        figure.savefig(path, dpi=130, facecolor="white")
        plt.close(figure)
