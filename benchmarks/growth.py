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

__all__ = ["prepared", "run"]

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


def _fit(n: int, mine: bool) -> Callable[[], object]:
    from benchmarks.regression_fit import GAMMA, KERNEL, peer
    from problems import LSSVMRegressor

    X, y = regression_data(n)
    return lambda: (LSSVMRegressor(KERNEL, GAMMA) if mine else peer()).fit(X, y)


def _search(n: int, mine: bool) -> Callable[[], object]:
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.model_selection import GridSearchCV

    from problems import LSSVMRegressorCV

    X, y = regression_data(n)
    if mine:
        return lambda: LSSVMRegressorCV(KERNEL).fit(X, y)
    grid = {"alpha": list(np.geomspace(1e-6, 1e2, VALUES)[:FITTED])}
    peer = GridSearchCV(KernelRidge(kernel="rbf", gamma=0.1), grid, cv=FOLDS, refit=False)
    return lambda: peer.fit(X, y)


def _reduced(n: int, mine: bool) -> Callable[[], object]:
    from benchmarks.sparse_fit import WIDTHS, ours, peer

    X, y = regression_data(n)
    sigma = WIDTHS["accumulated"]
    return lambda: (ours if mine else peer)(sigma, N_BASIS).fit(X, y)


def _composed(n: int, mine: bool) -> Callable[[], object]:
    import cvxpy as cp

    from benchmarks.composed_machines import CASES, WEIGHT, ours, plain

    make, loss, monotone = CASES["epsilon-insensitive"]
    X, y = make(n)
    if not mine:
        return lambda: plain(X, y, loss, monotone)

    def solved() -> object:
        weight = cp.Parameter(nonneg=True, name="weight")
        return ours(X, y, loss, monotone, weight).solve(weight=WEIGHT)

    return solved


CALLS = {"fit": _fit, "search of gamma": _search, "reduced fit": _reduced, "composed machine": _composed}


def prepared(work: str, n: int, mine: bool) -> Callable[[], object]:
    """For a process of its own: a call, after a small one that imports what it needs."""
    smallest = 1000 if work == "reduced fit" else 60
    CALLS[work](smallest, mine)()
    return CALLS[work](n, mine)


def measured(work: str, n: int, mine: bool) -> Point:
    seconds, used = cost(f"{__name__}:prepared", work, n, mine)
    if work == "search of gamma" and not mine:
        seconds *= VALUES / FITTED  # all fits of the grid cost the same
    return Point(n, seconds, used)


def exponent(points: list[Point], figure: Callable[[Point], float]) -> float:
    """The slope of the logarithm of a figure in that of the rows, by least squares over the three largest sizes."""
    logs = np.log([[point.rows, max(figure(point), 1e-9)] for point in points[-3:]])
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])


def run(quick: bool) -> Table:
    rows: list[tuple[str, ...]] = []
    found: dict[str, dict[str, list[Point]]] = {}
    for work, (mine, peer, sizes) in WORK.items():
        found[work] = {mine: [], peer: []}
        for n in sizes[:2] if quick else sizes:
            for name in (mine, peer):
                found[work][name].append(measured(work, n, name == mine))
        for name, points in found[work].items():
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
        draw(found)
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


def draw(found: dict[str, dict[str, list[Point]]], path: Path = PICTURE) -> None:
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
        figure, axes = plt.subplots(2, len(found), figsize=(3.1 * len(found), 6.2), layout="constrained", sharex="col")
        for column, (work, sides) in enumerate(found.items()):
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
