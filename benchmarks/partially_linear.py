"""Partially linear LS-SVM regression against the plain machine on the same rows, which is what it costs at least."""

import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.data import regression_data
from benchmarks.measure import time_interleaved
from benchmarks.regression_fit import KERNEL
from benchmarks.table import Headline, Table, yes_no
from problems import (
    LSSVMRegressor,
    PartiallyLinearLSSVMRegressor,
    SparseLSSVMRegressor,
    SparsePartiallyLinearLSSVMRegressor,
)
from substrate.arrays import Array
from substrate.kernels import Linear
from substrate.reduced import Basis

__all__ = ["run"]

#: Rows and repeats of the machines on all rows; rows, basis vectors and repeats of the reduced ones.
SIZES: dict[int, int] = {500: 7, 1000: 7, 2000: 5}
QUICK: dict[int, int] = {300: 2, 1000: 3}
SPARSE = (20_000, 200)
SPARSE_REPEATS = {True: 2, False: 5}
GAMMA = 10.0
#: Columns with a linear effect; the other ones have a kernel.
LINEAR, SMOOTH = (7, 8, 9), (0, 1, 2, 3, 4, 5, 6)
#: A linear kernel this much heavier than the other one is nearly free of its penalty.
HEAVY = 1e6
#: Of the plain machine on the columns of the kernel, which has the same factorisation, or the same sums but three.
LIMIT = 1.25
HEADINGS = (
    "N",
    "basis",
    "partially linear, s",
    "plain, s",
    "sum of kernels, s",
    "partially linear / plain",
    "target",
    "met",
    "difference",
)


def data(n: int) -> tuple[Array, Array, Array]:
    """Rows, the columns of the kernel alone, and targets with a linear effect of the other ones."""
    X, y = regression_data(n)
    return X, np.ascontiguousarray(X[:, SMOOTH]), y + X[:, LINEAR] @ np.array([1.0, -2.0, 0.5])


def dense() -> tuple[Any, Any, Any]:
    """Ours, the plain machine and the sum of kernels, in closed form."""
    return (
        PartiallyLinearLSSVMRegressor(KERNEL, GAMMA, linear_columns=LINEAR, solver="cholesky"),
        LSSVMRegressor(KERNEL, GAMMA, solver="cholesky"),
        LSSVMRegressor(KERNEL.on(*SMOOTH) + HEAVY * Linear().on(*LINEAR), GAMMA, solver="cholesky"),
    )


def sparse(n_basis: int) -> tuple[Any, Any]:
    """Ours and the plain machine on a reduced basis of rows drawn at random, which takes no time to choose."""
    basis = Basis(n_basis, rule="random", n_scoring=500, random_state=0)
    return (
        SparsePartiallyLinearLSSVMRegressor(KERNEL, GAMMA, linear_columns=LINEAR, basis=basis),
        SparseLSSVMRegressor(KERNEL, GAMMA, basis=basis),
    )


def run(quick: bool) -> Table:
    rows: list[tuple[str, ...]] = []
    shortfalls: list[str] = []
    summary: list[Headline] = []

    def add(n: int, basis: int | None, t: dict[str, float], apart: float | None) -> None:
        """Add the row of one size, its headline, and what is missed."""
        cost, named = t["ours"] / t["plain"], f"N = {n}" if basis is None else f"N = {n}, basis of {basis}"
        peer = f"{t['peer']:.4f}" if "peer" in t else ""
        known = "" if apart is None else f"{apart:.1e}"
        size = "all rows" if basis is None else str(basis)
        times = (f"{t['ours']:.4f}", f"{t['plain']:.4f}", peer)
        rows.append((str(n), size, *times, f"{cost:.2f}", f"≤ {LIMIT:g}", yes_no(cost <= LIMIT), known))
        summary.append(Headline(f"partially linear LS-SVM, {named}", "plain machine", 1.0 / cost, least=1.0 / LIMIT))
        if cost > LIMIT:
            more = 1e3 * (t["ours"] - t["plain"])
            shortfalls.append(f"{named}: linear columns, standard errors and their checks take {more:.1f} ms more.")

    for n, repeats in (QUICK if quick else SIZES).items():
        X, smooth, y = data(n)
        ours, plain, peer = dense()
        assert ours.fit(X, y).certificate_.holds
        assert plain.fit(smooth, y).certificate_.holds
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):  # of the sum, whose may fail
            apart = float(np.abs(ours.predict(X) - peer.fit(X, y).predict(X)).max()) / float(np.std(y))
        fits = {
            "ours": partial(ours.fit, X, y),
            "plain": partial(plain.fit, smooth, y),
            "peer": partial(peer.fit, X, y),
        }
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            times = time_interleaved(fits, repeats)
        assert apart < 1e-3
        add(n, None, times, apart)
    n, n_basis = SPARSE
    X, smooth, y = data(n)
    ours, plain = sparse(n_basis)
    assert ours.fit(X, y).certificate_.holds
    assert plain.fit(smooth, y).certificate_.holds
    reduced = {"ours": partial(ours.fit, X, y), "plain": partial(plain.fit, smooth, y)}
    add(n, n_basis, time_interleaved(reduced, SPARSE_REPEATS[quick]), None)
    return Table(
        "Partially linear LS-SVM: the price of columns that are not penalised",
        "`PartiallyLinearLSSVMRegressor` with three linear columns of ten, its standard errors included, against "
        "`LSSVMRegressor` on the other seven, which has the same factorisation, and against a linear kernel of great "
        "weight in a sum, all in closed form; and `SparsePartiallyLinearLSSVMRegressor` against `SparseLSSVMRegressor` "
        "on the same basis vectors. Median CPU seconds; the last column is the largest difference of fitted values "
        "from the sum's, in deviations of y: a penalty remains there, and its certificate may fail.",
        HEADINGS,
        tuple(rows),
        tuple(shortfalls),
        tuple(summary),
    )
