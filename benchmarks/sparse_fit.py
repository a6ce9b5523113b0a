"""Fit and leave-one-out on a reduced basis, against Nystroem features and ridge regression, and against the limit."""

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.linalg.blas import dsyrk
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline, make_pipeline

from benchmarks.data import COLUMNS, regression_data
from benchmarks.measure import shares, time_interleaved
from benchmarks.table import Headline, Table, yes_no
from problems import SparseLSSVMRegressor
from substrate.arrays import Array
from substrate.conventions import sigma_to
from substrate.kernels import RBF
from substrate.reduced import Basis
from substrate.reduced.rows import KernelValues
from substrate.threads import one_blas_thread

__all__ = ["kernel_and_products", "ours", "peer", "run"]

#: A width at which sums of kernel values keep their digits, and one at which rows must become features first.
WIDTHS: dict[str, float] = {"accumulated": 10.0**0.5, "row-wise": 8.0}
GAMMA = 2.0
MOST_LEFT_OUT = 1.3
#: Of a whole fit, certificate included, over kernel values and symmetric rank-k updates alone.
MOST_OVER_LIMIT = 1.25
#: Rows, basis vectors and repeats, with the least number of times that a fit is faster than its peer at either width.
SMALL = (20_000, 200, 3, {"accumulated": 2.0, "row-wise": 1.2})
LARGE = (100_000, 500, 3, {"accumulated": 2.7, "row-wise": 1.2})

#: The parts of a fit, for the sentence on a target that is missed: the file and the name of a function of each.
PARTS = {
    "kernel values": ("reduced/rows.py", "fill"),
    "sums of products": ("reduced/row_products.py", "add"),
    "features of rows": ("reduced/moments.py", "_features"),
    "products with eigenvectors": ("reduced/moments.py", "transformed"),
    "eigenvalues": ("numpy/linalg/_linalg.py", "eigh"),
    "bound on the accuracy": ("reduced/certificate.py", "reduced_accuracy"),
    "factor of the leverages": ("reduced/left_out.py", "leverage_factor"),
    "reconstruction error": ("reduced/features.py", "reconstruction_errors"),
    "rounding of kernel values": ("reduced/rows.py", "rounding"),
}


def ours(sigma: float, n_basis: int) -> SparseLSSVMRegressor:
    return SparseLSSVMRegressor(RBF(sigma), GAMMA, basis=Basis(n_basis, rule="random", n_scoring=500, random_state=0))


def peer(sigma: float, n_basis: int) -> Pipeline:
    features = Nystroem(gamma=sigma_to("scikit-learn", sigma), n_components=n_basis, random_state=0)
    return make_pipeline(features, Ridge(alpha=1.0 / GAMMA))


def kernel_and_products(X: Array, sigma: float, n_basis: int) -> object:
    """Return what no fit can do without: all kernel values, one tile at a time, and the sum of their products."""
    values = KernelValues(RBF(sigma), X[:n_basis])
    tile, sums = values.buffer(), np.zeros((n_basis, n_basis), order="F")
    with one_blas_thread():
        for first in range(0, X.shape[0], values.step):
            block = tile[: min(values.step, X.shape[0] - first)]
            values.fill(X[first : first + values.step], block)
            sums = dsyrk(1.0, block.T, beta=1.0, c=sums, overwrite_c=1)
    return sums


def run(quick: bool) -> Table:
    rows: list[tuple[str, ...]] = []
    shortfalls: list[str] = []
    summary: list[Headline] = []
    for n, n_basis, repeats, least in (SMALL,) if quick else (SMALL, LARGE):
        X, y = regression_data(n)
        for way, sigma in WIDTHS.items():
            fitted = ours(sigma, n_basis).fit(X, y)
            taken = dict(fitted.certificate_.record)["statistic"].split(",")[0]
            assert fitted.certificate_.holds
            contenders: dict[str, Callable[[], object]] = {
                "fit": partial(ours(sigma, n_basis).fit, X, y),
                "limit": partial(kernel_and_products, X, sigma, n_basis),
                "left out": partial(fitted.leave_one_out, X, y),
                "peer": partial(peer(sigma, n_basis).fit, X, y),
            }
            t = time_interleaved(contenders, repeats)
            faster, over, more = t["peer"] / t["fit"], t["fit"] / t["limit"], t["left out"] / t["fit"]
            narrow = way == "accumulated"  # the other width may need features or a second pass
            fast, near, cheap = faster >= least[way], over <= MOST_OVER_LIMIT, more <= MOST_LEFT_OUT
            rows.append(
                (
                    str(n),
                    str(n_basis),
                    f"{sigma:.3g}",
                    taken,
                    f"{t['fit']:.2f}",
                    f"{t['peer']:.2f}",
                    f"{faster:.2f}",
                    f"≥ {least[way]:g}",
                    yes_no(fast),
                    f"{over:.2f}",
                    f"≤ {MOST_OVER_LIMIT:g}" if narrow else "",
                    yes_no(near) if narrow else "",
                    f"{more:.2f}",
                    f"≤ {MOST_LEFT_OUT:g}",
                    yes_no(cheap),
                )
            )
            work = f"reduced basis, l = {n:,}, n = {n_basis}, sigma = {sigma:.3g}"
            summary.append(Headline(work, "Nystroem + Ridge", faster, least=least[way], limit=over))
            if narrow:
                summary.append(Headline(f"{work}, whole fit", "kernel + syrk", over, most=MOST_OVER_LIMIT))
            summary.append(Headline(f"{work}, leave-one-out", "one fit", more, most=MOST_LEFT_OUT))
            where = f"l = {n}, n = {n_basis}, sigma = {sigma:.3g}"
            if not fast:
                most = t["peer"] / t["limit"]
                shortfalls.append(
                    f"{where}: {faster:.2f} times faster; kernel values and products alone would be {most:.2f} times."
                )
            if narrow and not near:
                overhead = t["fit"] - t["limit"]
                shortfalls.append(
                    f"{where}: {over:.2f} of the limit; {overhead:.3f} s are not kernel values and products."
                )
            if not fast or (narrow and not near):
                shortfalls.append(f"{where}, shares of a fit: {shares(contenders['fit'], PARTS)}.")
    return Table(
        "Sparse LS-SVM: fit with certificate, and leave-one-out",
        f"`SparseLSSVMRegressor(RBF(sigma), gamma=2, basis=Basis(n, 'random'))` on l rows and {COLUMNS} columns, "
        "against `Nystroem` and `Ridge` of scikit-learn with as many components, and against the limit: kernel values "
        "and symmetric rank-k updates alone; leave-one-out of all rows by the fitted model. Median CPU seconds.",
        (
            "l",
            "n",
            "sigma",
            "sums",
            "fit, s",
            "Nystroem + Ridge, s",
            "times faster",
            "target",
            "met",
            "fit / limit",
            "target ",
            "met ",
            "leave-one-out / fit",
            "target  ",
            "met  ",
        ),
        tuple(rows),
        tuple(shortfalls),
        tuple(summary),
    )
