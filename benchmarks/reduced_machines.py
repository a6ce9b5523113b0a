"""Machines on a reduced basis beside least squares: robust and L1, against Nystroem features and scikit-learn's models.

The exact L1 path is followed from sums over the rows; its peer makes as many features of all rows and follows the lasso
on them by least angles. The same sums from a kernel matrix that is held in memory, followed by least angles and no
certificate, are the limit beside it.
"""

from collections.abc import Callable

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import HuberRegressor, LassoLars, lars_path_gram
from sklearn.pipeline import Pipeline, make_pipeline

from benchmarks.data import COLUMNS, regression_data
from benchmarks.measure import MIB, peak_memory, time_interleaved
from benchmarks.table import Headline, Table, yes_no
from problems import RobustSparseLSSVMRegressor, SparseL1SubstrateRegressor
from substrate.arrays import Array
from substrate.conventions import sigma_to
from substrate.kernels import RBF
from substrate.reduced import Basis

__all__ = ["fit_ours", "run"]

SIGMA = 10.0**0.5
#: Share of zeta_max down to which the path is followed.
SHARE = 0.01
MOST = 60.0
FULL = (100_000, 300, 3, (100_000, 1_000_000))
QUICK = (20_000, 100, 1, (20_000, 60_000))


def data(n: int) -> tuple[Array, Array]:
    """Return the common data with one wrong target in twenty."""
    X, y = regression_data(n)
    return X, np.where(np.arange(n) % 20 == 0, y + 5.0, y)


def ours(kind: str, n_basis: int, zeta: float = 1.0) -> RobustSparseLSSVMRegressor | SparseL1SubstrateRegressor:
    common = {"basis": Basis(n_basis, "random", n_scoring=500, random_state=0)}
    if kind == "robust":
        return RobustSparseLSSVMRegressor(RBF(SIGMA), 2.0, weighting="huber", **common)
    return SparseL1SubstrateRegressor(RBF(SIGMA), zeta, **common)


def nystroem(n_basis: int) -> Nystroem:
    return Nystroem(gamma=sigma_to("scikit-learn", SIGMA), n_components=n_basis, random_state=0)


def huber(n_basis: int) -> Pipeline:
    return make_pipeline(nystroem(n_basis), HuberRegressor(alpha=0.5, max_iter=1000))


def lasso(n_basis: int, alpha: float) -> Pipeline:
    return make_pipeline(nystroem(n_basis), LassoLars(alpha=alpha))


def least_angles(kernel: RBF, X: Array, y: Array, points: Array, share: float) -> object:
    """Return the path on the kernel values themselves, all of them in memory."""
    K = kernel(X, points)
    K -= K.mean(axis=0)
    products = K.T @ (y - y.mean())
    least = share * float(np.abs(products).max()) / y.size
    return lars_path_gram(products, K.T @ K, n_samples=y.size, alpha_min=least, method="lasso")


def fit_ours(kind: str, n: int, n_basis: int) -> Callable[[], object]:
    """Return a fit to measure, after the lazy imports of a small one."""
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
    path = ours("L1 path", n_basis, zeta)
    robust, l1 = (lambda: ours("robust", n_basis).fit(X, y)), (lambda: path.fit(X, y))
    contenders: list[tuple[str, str, float | None, Callable[[], object], Callable[[], object]]] = [
        ("robust", "Nystroem + HuberRegressor", 2.0, robust, lambda: huber(n_basis).fit(X, y)),
        ("L1 path", "Nystroem + LassoLars", 1.0, l1, lambda: lasso(n_basis, alpha).fit(X, y)),
        (
            "L1 path",
            "kernel matrix + lars_path_gram, no certificate",
            None,
            l1,
            lambda: least_angles(RBF(SIGMA), X, y, sparse.basis_, SHARE),
        ),
    ]
    rows: list[tuple[str, ...]] = []
    shortfalls: list[str] = []
    summary: list[Headline] = []
    for kind, name, least, machine, peer in contenders:
        t = time_interleaved({"ours": machine, "peer": peer}, repeats)
        memory = [peak_memory(fit_ours, kind, size, n_basis, repeats=1) / MIB for size in sizes]
        faster = t["peer"] / t["ours"]
        fast, flat = least is None or faster >= least, max(memory) <= MOST
        target, met = ("", "") if least is None else (f"≥ {least:g}", yes_no(fast))
        used = " / ".join(f"{size:.0f}" for size in memory)
        times = f"{t['ours']:.2f}", name, f"{t['peer']:.2f}", f"{faster:.2f}"
        rows.append((kind, *times, target, met, used, f"≤ {MOST:g}", yes_no(flat)))
        if least is not None:
            work = f"reduced basis, {kind}, l = {n:,}, n = {n_basis}"
            summary.append(Headline(work, name, faster, least=least, held=flat))
        if not fast:
            shortfalls.append(f"{kind}: {faster:.2f} times as fast; every pass computes the kernel values again.")
        if not flat:
            shortfalls.append(f"{kind}: {max(memory):.0f} MiB.")
    return Table(
        "Machines on a reduced basis",
        f"`RobustSparseLSSVMRegressor` (Huber weights, one reweighting) and `SparseL1SubstrateRegressor` (path to "
        f"{SHARE:g} of zeta_max) with {n_basis} vectors drawn at random on {n} rows and {COLUMNS} columns, "
        f"certificates included. Median CPU seconds; peak memory of a fit at {sizes[0]} and {sizes[1]} rows, the "
        "data aside.",
        ("machine", "fit, s", "peer", "peer, s", "times faster", "target", "met", "fit, MiB", "target ", "met "),
        tuple(rows),
        tuple(shortfalls),
        tuple(summary),
    )
