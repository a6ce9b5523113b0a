"""The cost of a certificate: the check inside a fit, the same in doubled precision, and a proof in ball arithmetic."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import problems.estimators.full.saddle_fit as saddle_fit
from benchmarks.measure import time_interleaved
from benchmarks.table import Headline, Table, yes_no
from problems import LSSVMRegressor
from substrate.arrays import Array
from substrate.kernels import RBF, Linear, Polynomial
from substrate.kernels.algebra import Kernel
from substrate.least_squares.answer import Answer

__all__ = ["run"]

N, N_PROOF = 2000, 200
#: The largest share of a fit that its check may take.
MOST = 0.10


def data(n: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    return X, np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=n)


@contextmanager
def skip_checks() -> Iterator[None]:
    """Let fits inside this block not bound their answer."""
    kept = saddle_fit.bound_and_refine

    def nothing(question: Any, alpha: Array, bias: Array, *arguments: Any, **choices: Any) -> Answer:
        return Answer(alpha, bias, None, (), ())

    saddle_fit.bound_and_refine = nothing
    try:
        yield
    finally:
        saddle_fit.bound_and_refine = kept


def without_check(model: LSSVMRegressor, X: Array, y: Array) -> LSSVMRegressor:
    with skip_checks():
        return model.fit(X, y)


def measure(kernel: Kernel, gamma: float, quick: bool) -> tuple[tuple[str, ...], float]:
    X, y = data(N)
    few_X, few_y = data(N_PROOF)
    model, plain, small = (LSSVMRegressor(kernel, gamma, solver="cholesky") for _ in range(3))
    checked = model.fit(X, y)
    small.fit(few_X, few_y)
    contenders: dict[str, Callable[[], object]] = {
        "without": lambda: without_check(plain, X, y),
        "with": lambda: LSSVMRegressor(kernel, gamma, solver="cholesky").fit(X, y),
        "again": lambda: checked.certify(X, y),
    }
    t = time_interleaved(contenders, 3 if quick else 15)
    proof = time_interleaved({"prove": lambda: small.prove(few_X, few_y)}, 1)["prove"]
    share = t["with"] / t["without"] - 1.0
    path = "primal weights" if hasattr(checked, "primal_weights_") else dict(checked.certificate_.record).get("check")
    path = path if checked.certificate_.holds else "does not hold"
    reached = checked.certificate_.accuracy / checked.certificate_.spread
    cells = (
        f"`{kernel!r}`",
        f"{gamma:g}",
        f"{t['without']:.2f}",
        f"{t['with']:.2f}",
        f"{100.0 * share:+.1f} %",
        "working precision" if path is None else path,
        f"{reached:.1e}",
        f"{t['again']:.2f}",
        f"{proof:.2f}",
        yes_no(share <= MOST),
    )
    return cells, share


def run(quick: bool) -> Table:
    cases = [(RBF(2.0), 10.0), (RBF(2.0), 1e6), (Polynomial(3), 1.0), (RBF(6.0), 1e10), (Linear(), 1e12)]
    rows, prices = zip(*(measure(kernel, gamma, quick) for kernel, gamma in cases), strict=True)
    summary = tuple(
        Headline(f"certificate of {row[0]}, gamma {row[1]}: price", "fit without", price, most=MOST)
        for row, price in zip(rows, prices, strict=True)
    )
    missed = tuple(f"{row[0]}, gamma {row[1]}: {row[4]} of the fit." for row in rows if row[-1] == "no")
    return Table(
        "Certificates: what the promise costs",
        f"`LSSVMRegressor(solver='cholesky')` on {N} rows and five columns, one BLAS thread, median CPU seconds: the "
        "fit without a bound on its answer, the fit with it, and `certify`, which checks the stored numbers with care. "
        "Where working precision is not enough, the fit checks with care, refines, or goes over to primal weights, and "
        f"the price is that of a better answer. `prove` is at {N_PROOF} rows; it grows with their square.",
        (
            "kernel",
            "gamma",
            "fit without, s",
            "fit, s",
            "price",
            "by",
            "accuracy / spread",
            "certify, s",
            f"prove at {N_PROOF}, s",
            "met ≤ 10 %",
        ),
        rows,
        missed,
        summary,
    )
