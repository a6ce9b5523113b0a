"""Machines on a reduced basis beside least squares: robust and L1, against Nystroem features and scikit-learn's models.

The exact L1 path is walked from sums over the rows; its peer makes as many features of all rows and walks the lasso on
them by least angles.
"""

from collections.abc import Callable

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import HuberRegressor, LassoLars
from sklearn.pipeline import Pipeline, make_pipeline

from benchmarks.data import COLUMNS, regression_data
from benchmarks.measure import MIB, interleaved, peak_memory
from benchmarks.table import Table, yes_no
from problems import RobustSparseLSSVMRegressor, SparseL1SubstrateRegressor
from substrate.arrays import Array
from substrate.conventions import sigma_to
from substrate.kernels import RBF

__all__ = ["fit_ours", "run"]

SIGMA = 10.0**0.5
#: Share of zeta_max down to which the path is followed.
SHARE = 0.01
LEAST_FASTER = {"robust": 2.0, "L1 path": 1.0}
MOST = 60.0
FULL = (100_000, 300, 3, (100_000, 1_000_000))
QUICK = (20_000, 100, 1, (20_000, 60_000))


def data(n: int) -> tuple[Array, Array]:
    """The common data with one target in twenty far off."""
    X, y = regression_data(n)
    return X, np.where(np.arange(n) % 20 == 0, y + 5.0, y)


def ours(kind: str, n_basis: int, zeta: float = 1.0) -> RobustSparseLSSVMRegressor | SparseL1SubstrateRegressor:
    common = {"n_basis": n_basis, "basis": "random", "n_scoring": 500, "random_state": 0}
    if kind == "robust":
        return RobustSparseLSSVMRegressor(RBF(SIGMA), 2.0, "huber", **common)
    return SparseL1SubstrateRegressor(RBF(SIGMA), zeta, **common)


def nystroem(n_basis: int) -> Nystroem:
    return Nystroem(gamma=sigma_to("scikit-learn", SIGMA), n_components=n_basis, random_state=0)


def huber(n_basis: int) -> Pipeline:
    return make_pipeline(nystroem(n_basis), HuberRegressor(alpha=0.5, max_iter=1000))


def lasso(n_basis: int, alpha: float) -> Pipeline:
    return make_pipeline(nystroem(n_basis), LassoLars(alpha=alpha))


def fit_ours(kind: str, n: int, n_basis: int) -> Callable[[], object]:
    """A fit to measure, after the lazy imports of a small one."""
    ours(kind, 20, 1.0).fit(*data(1000))
    X, y = data(n)
    return lambda: ours(kind, n_basis, 1e-4 * n).fit(X, y)


def run(quick: bool) -> Table:
    n, n_basis, repeats, sizes = QUICK if quick else FULL
    X, y = data(n)
    sparse = ours("L1 path", n_basis, 1e-4 * n).fit(X, y)
    zeta = SHARE * sparse.zeta_max_
    features = nystroem(n_basis).fit_transform(X)
    features -= features.mean(axis=0)
    alpha = SHARE * float(np.abs(features.T @ (y - y.mean())).max()) / n
    del features
    contenders: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "robust": (lambda: ours("robust", n_basis).fit(X, y), lambda: huber(n_basis).fit(X, y)),
        "L1 path": (
            lambda: ours("L1 path", n_basis, zeta).fit(X, y),
            lambda: lasso(n_basis, alpha).fit(X, y),
        ),
    }
    names = {"robust": "Nystroem + HuberRegressor", "L1 path": "Nystroem + LassoLars"}
    rows: list[tuple[str, ...]] = []
    shortfalls: list[str] = []
    for kind, (mine, peer) in contenders.items():
        t = interleaved({"ours": mine, "peer": peer}, repeats)
        memory = [peak_memory(f"{__name__}:fit_ours", kind, size, n_basis, repeats=1) / MIB for size in sizes]
        faster = t["peer"] / t["ours"]
        fast, flat = faster >= LEAST_FASTER[kind], max(memory) <= MOST
        rows.append(
            (
                kind, f"{t['ours']:.2f}", names[kind], f"{t['peer']:.2f}", f"{faster:.2f}",
                f"≥ {LEAST_FASTER[kind]:g}", yes_no(fast), " / ".join(f"{used:.0f}" for used in memory),
                f"≤ {MOST:g}", yes_no(flat),
            )
        )  # fmt: skip
        if not fast:
            shortfalls.append(f"{kind}: {faster:.2f} times as fast; every pass computes the kernel values again.")
        if not flat:
            shortfalls.append(f"{kind}: {max(memory):.0f} MiB.")
    return Table(
        "Machines on a reduced basis",
        f"`RobustSparseLSSVMRegressor` (Huber weights, one reweighting) and `SparseL1SubstrateRegressor` (path to "
        f"{SHARE:g} of zeta_max) with {n_basis} vectors drawn by lot on {n} rows and {COLUMNS} columns, certificates "
        f"included. Median CPU seconds; peak memory of a fit at {sizes[0]} and {sizes[1]} rows, the data aside.",
        ("machine", "fit, s", "peer", "peer, s", "times faster", "target", "met", "fit, MiB", "target ", "met "),
        tuple(rows),
        tuple(shortfalls),
    )
