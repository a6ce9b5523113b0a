"""The Huber LS-SVM by its active set against a conic solver on the same problem."""

import warnings
from collections.abc import Callable
from functools import partial

import cvxpy as cp
import numpy as np

from benchmarks.data import regression_data
from benchmarks.measure import time_interleaved
from benchmarks.regression_fit import KERNEL
from benchmarks.table import Headline, Table, yes_no
from substrate.arrays import Array
from substrate.gram import Gram
from substrate.ingredients import huber_loss
from substrate.penalized.huber.active_set import HuberSolution, huber_solution_rows, solve_huber

__all__ = ["run"]

SIZES: dict[int, int] = {300: 5, 1000: 3}
QUICK: dict[int, int] = {300: 2}
#: delta in deviations of the noise: a few rows linear, about a third, nearly all.
DELTAS = (2.0, 1.0, 0.1)
GAMMA, NOISE, TOLERANCE = 10.0, 0.3, 1e-8
FASTER = 1.0


def peer(K: Array, y: Array, delta: float) -> Callable[[], float]:
    """Clarabel on the primal in a factor of K; built beforehand and compiled in the uncounted first round."""
    values, vectors = np.linalg.eigh(K)
    kept = values > y.size * np.finfo(float).eps * values[-1]
    R = vectors[:, kept] * np.sqrt(values[kept])
    w, b = cp.Variable(R.shape[1]), cp.Variable()
    cost = 0.5 * cp.sum_squares(w) + 0.5 * GAMMA * cp.sum(cp.huber(y - R @ w - b, delta))
    problem = cp.Problem(cp.Minimize(cost))
    tolerances = {"tol_gap_abs": TOLERANCE, "tol_gap_rel": TOLERANCE, "tol_feas": TOLERANCE}

    def solve() -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return float(problem.solve(solver="CLARABEL", **tolerances))

    return solve


def ours(K: Array, y: Array, delta: float) -> HuberSolution:
    return solve_huber(Gram.from_matrix(K), y, np.full(y.size, 1.0 / GAMMA), delta)


def run(quick: bool) -> Table:
    rows: list[tuple[str, ...]] = []
    shortfalls: list[str] = []
    summary: list[Headline] = []
    for n, repeats in (QUICK if quick else SIZES).items():
        X, y = regression_data(n)
        y = y + NOISE * np.random.default_rng(n).standard_t(2.0, size=n)
        K = KERNEL(X)
        for share in DELTAS:
            delta = share * NOISE
            solved, peer_solution = ours(K, y, delta), peer(K, y, delta)
            ridge, alpha = np.full(n, 1.0 / GAMMA), solved.support_values
            certified = huber_solution_rows(solved.products, K.diagonal(), y, ridge, delta, alpha, solved.bias)
            assert all(row.passes for row in certified)
            errors = y - solved.products - solved.bias
            cost = 0.5 * float(alpha @ solved.products) + GAMMA * float(huber_loss(errors, delta).sum())
            above = cost / peer_solution() - 1.0
            assert above < 1e-6
            t = time_interleaved({"ours": partial(ours, K, y, delta), "peer": peer_solution}, repeats)
            faster = t["peer"] / t["ours"]
            linear = int(np.count_nonzero(solved.signs))
            rows.append(
                (
                    str(n),
                    f"{delta:g}",
                    str(linear),
                    str(solved.steps),
                    f"{t['ours']:.4f}",
                    f"{t['peer']:.4f}",
                    f"{faster:.1f}",
                    f"≥ {FASTER:g}",
                    yes_no(faster >= FASTER),
                    f"{above:+.1e}",
                )
            )
            work = f"Huber LS-SVM, N = {n}, {linear} linear rows"
            summary.append(Headline(work, "cvxpy with Clarabel", faster, least=FASTER))
            if faster < FASTER:
                shortfalls.append(f"N = {n}, delta {delta:g}: {solved.steps} systems for {linear} linear rows.")
    return Table(
        "Huber LS-SVM: active set against a conic solver",
        "`solve_huber` on a kernel matrix, its copy and check included, against cvxpy with Clarabel at tolerance 1e-8 "
        "on the primal in a factor of the matrix, factored, built and compiled beforehand. Median CPU seconds; the "
        "last column is our objective over Clarabel's, less one.",
        (
            "N",
            "delta",
            "linear rows",
            "systems",
            "active set, s",
            "Clarabel, s",
            "Clarabel / active set",
            "target",
            "met",
            "objective",
        ),
        tuple(rows),
        tuple(shortfalls),
        tuple(summary),
    )
