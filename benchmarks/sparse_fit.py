"""Fit and leave-one-out on a reduced basis, against Nystroem features and ridge regression."""

from collections.abc import Callable
from functools import partial

from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline, make_pipeline

from benchmarks.data import COLUMNS, regression_data
from benchmarks.measure import interleaved
from benchmarks.table import Headline, Table, yes_no
from problems import SparseLSSVMRegressor
from substrate.conventions import sigma_to
from substrate.kernels import RBF
from substrate.reduced import Basis

__all__ = ["ours", "peer", "run"]

#: A width at which sums of kernel values keep their digits, and one at which rows must become features first.
WIDTHS: dict[str, float] = {"accumulated": 10.0**0.5, "row-wise": 8.0}
GAMMA = 2.0
LEAST_FASTER = {"accumulated": 2.5, "row-wise": 1.2}
MOST_LEFT_OUT = 1.3
FULL = (100_000, 500, 3)
QUICK = (20_000, 200, 1)


def ours(sigma: float, n_basis: int) -> SparseLSSVMRegressor:
    return SparseLSSVMRegressor(RBF(sigma), GAMMA, basis=Basis(n_basis, rule="random", n_scoring=500, random_state=0))


def peer(sigma: float, n_basis: int) -> Pipeline:
    features = Nystroem(gamma=sigma_to("scikit-learn", sigma), n_components=n_basis, random_state=0)
    return make_pipeline(features, Ridge(alpha=1.0 / GAMMA))


def run(quick: bool) -> Table:
    n, n_basis, repeats = QUICK if quick else FULL
    X, y = regression_data(n)
    rows: list[tuple[str, ...]] = []
    shortfalls: list[str] = []
    summary: list[Headline] = []
    for way, sigma in WIDTHS.items():
        fitted = ours(sigma, n_basis).fit(X, y)
        taken = dict(fitted.certificate_.record)["statistic"].split(",")[0]
        assert fitted.certificate_.holds
        contenders: dict[str, Callable[[], object]] = {
            "fit": partial(ours(sigma, n_basis).fit, X, y),
            "left out": partial(fitted.leave_one_out, X, y),
            "peer": partial(peer(sigma, n_basis).fit, X, y),
        }
        t = interleaved(contenders, repeats)
        faster, more = t["peer"] / t["fit"], t["left out"] / t["fit"]
        fast, cheap = faster >= LEAST_FASTER[way], more <= MOST_LEFT_OUT
        rows.append(
            (
                f"{sigma:.3g}", taken, f"{t['fit']:.2f}", f"{t['peer']:.2f}", f"{faster:.2f}",
                f"≥ {LEAST_FASTER[way]:g}", yes_no(fast), f"{t['left out']:.2f}", f"{more:.2f}",
                f"≤ {MOST_LEFT_OUT:g}", yes_no(cheap),
            )
        )  # fmt: skip
        work = f"reduced basis, l = {n:,}, n = {n_basis}, sigma = {sigma:.3g}"
        summary.append(Headline(work, "Nystroem + Ridge", faster, least=LEAST_FASTER[way]))
        summary.append(Headline(f"{work}, leave-one-out", "one fit", more, most=MOST_LEFT_OUT))
        if not fast:
            shortfalls.append(
                f"sigma = {sigma:.3g}, {taken}: {faster:.2f} times faster; the kernel values are computed twice, the "
                "second time for a certificate that the peer does not have."
            )
    return Table(
        "Sparse LS-SVM: fit with certificate, and leave-one-out",
        f"`SparseLSSVMRegressor(RBF(sigma), gamma=2, basis=Basis({n_basis}, 'random'))` on {n} rows and {COLUMNS} "
        "columns, against `Nystroem` and `Ridge` of scikit-learn with as many components; leave-one-out of all rows by "
        "the fitted model. Median CPU seconds.",
        (
            "sigma", "sums", "fit, s", "Nystroem + Ridge, s", "times faster", "target", "met",
            "leave-one-out, s", "of a fit", "target ", "met ",
        ),
        tuple(rows),
        tuple(shortfalls),
        tuple(summary),
    )  # fmt: skip
