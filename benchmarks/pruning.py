"""Pruning and robust fits, in numbers of plain fits; pruning one row at a time against a refit at every step."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from benchmarks.data import COLUMNS, regression_data
from benchmarks.measure import time_interleaved
from benchmarks.regression_fit import GAMMA, KERNEL
from benchmarks.table import Headline, Table, yes_no
from problems import LSSVMRegressor, PrunedLSSVMRegressor, RobustLSSVMRegressor
from substrate.arrays import Array

__all__ = ["run"]

SIZES: dict[int, int] = {1000: 7, 2000: 3}
QUICK: dict[int, int] = {1000: 1}
#: A kernel matrix once, two factorisations: less than two fits.
MOST_ROBUST = 2.0
#: Steps of 5 % all the way down: refits of shrinking size would take 1/(1 - 0.95^3) = 7.0 fits.
MOST_STEPS = 8.0
#: One row at a time, O(N^3) in all: the ratio must not grow with N.
MOST_ONE_BY_ONE = 15.0
#: From so many rows to so many, one at a time, and how many times faster than the refits.
FROM, TO, TIMES_FASTER = 500, 20, 6.0


def refit(X: Array, y: Array) -> Any:
    """Return the rows left when every machine is fitted by a Cholesky factorisation of its part of one kernel matrix.

    The least that a refit can do: no index of the machines, no bound on an error, no certificate.
    """
    matrix = KERNEL(X) + np.eye(FROM) / GAMMA
    rows = np.arange(FROM)
    while True:
        submatrix = matrix.take(rows, axis=0).take(rows, axis=1)
        factor, _ = dpotrf(submatrix.T, lower=1, clean=0, overwrite_a=1)
        solved, _ = dpotrs(factor, np.array([y[rows], np.ones(rows.size)]).T, lower=1)
        alpha = solved[:, 0] - solved[:, 0].sum() / solved[:, 1].sum() * solved[:, 1]
        if rows.size == TO:
            return rows
        rows = np.delete(rows, np.abs(alpha).argmin())


def one_at_a_time(repeats: int) -> tuple[list[tuple[str, ...]], list[str], Headline]:
    """Return rows of the table, shortfalls, and the headline."""
    X, y = regression_data(FROM)
    model = PrunedLSSVMRegressor(kernel=KERNEL, gamma=GAMMA, n_support=TO, step=1)
    t = time_interleaved({"ours": partial(model.fit, X, y), "refits": partial(refit, X, y)}, repeats)
    assert model.certificate_.holds
    assert np.array_equal(model.support_, refit(X, y))
    faster, what = t["refits"] / t["ours"], f"one at a time to {TO}"
    met = yes_no(faster >= TIMES_FASTER)
    rows = [
        (str(FROM), f"{what}, a refit at every step", f"{t['refits']:.3f}", "", "", ""),
        (str(FROM), what, f"{t['ours']:.3f}", f"{faster:.1f} times faster than refits", f"≥ {TIMES_FASTER:g}", met),
    ]
    short = [] if met == "yes" else [f"N = {FROM}, {what}: {faster:.1f} times faster than a refit at every step."]
    return rows, short, Headline(f"pruning {what}, N = {FROM}", "a refit at every step", faster, least=TIMES_FASTER)


def run(quick: bool) -> Table:
    rows: list[tuple[str, ...]] = []
    shortfalls: list[str] = []
    summary: list[Headline] = []
    for n, repeats in (QUICK if quick else SIZES).items():
        X, y = regression_data(n)
        few = {"kernel": KERNEL, "gamma": GAMMA, "n_support": 2}
        models = {
            "plain": LSSVMRegressor(kernel=KERNEL, gamma=GAMMA, solver="cholesky"),
            "robust": RobustLSSVMRegressor(kernel=KERNEL, gamma=GAMMA),
            "5 %": PrunedLSSVMRegressor(**few),
            "5 %, leave-one-out": PrunedLSSVMRegressor(**few, cv="loo"),
            "one at a time": PrunedLSSVMRegressor(**few, step=1),
            "5 %, reweighted": PrunedLSSVMRegressor(**few, weighting="hampel", reweight=True),
        }
        contenders: dict[str, Callable[[], object]] = {name: partial(m.fit, X, y) for name, m in models.items()}
        t = time_interleaved(contenders, repeats)
        assert all(model.certificate_.holds for model in models.values())
        targets = {
            "robust": MOST_ROBUST,
            "5 %": MOST_STEPS,
            "5 %, leave-one-out": MOST_STEPS,
            "one at a time": MOST_ONE_BY_ONE,
        }
        for name, seconds in t.items():
            ratio, most = seconds / t["plain"], targets.get(name)
            met = "" if most is None else yes_no(ratio <= most)
            rows.append((str(n), name, f"{seconds:.3f}", f"{ratio:.2f}", "" if most is None else f"≤ {most:g}", met))
            if most is not None:
                summary.append(Headline(f"{name}, N = {n}", "one plain fit", ratio, most=most))
            if met == "no":
                shortfalls.append(f"N = {n}, {name}: {ratio:.2f} plain fits.")
    more, short, headline = one_at_a_time(3 if quick else 7)
    rows += more
    shortfalls += short
    summary.append(headline)
    return Table(
        "Robust and pruned LS-SVMs, in plain fits",
        f"On {COLUMNS} columns: `LSSVMRegressor(RBF(sqrt(10)), gamma=2, solver='cholesky').fit`; the robust fit, whose "
        "kernel matrix is computed once for two factorisations; and pruning to two support vectors, every machine on "
        "the path scored on all rows: by down-dating, or, with weights computed again, by two refits per step. Last, "
        "one row at a time against a Cholesky factorisation at every step of the same path, with no index and no "
        "certificate. Median CPU seconds.",
        ("N", "model", "s", "in plain fits", "target", "met"),
        tuple(rows),
        tuple(shortfalls),
        tuple(summary),
    )
