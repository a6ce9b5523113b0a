"""The L1 substrate by its active set against a conic solver on the same problem."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np

from benchmarks.data import regression_data
from benchmarks.measure import time_interleaved
from benchmarks.regression_fit import KERNEL
from benchmarks.table import Headline, Table, yes_no
from substrate.arrays import Array
from substrate.penalized.l1.active_set import l1_rows, solve_l1, zeta_max

__all__ = ["run"]

SIZES: dict[int, int] = {300: 9, 1000: 3}
QUICK: dict[int, int] = {300: 2, 1000: 1}
#: zeta as a share of the smallest one that leaves no support values.
SHARES = (0.1, 0.01)
FASTER = 1.0
TOLERANCE = 1e-8


def peer(K: Array, y: Array, zeta: float) -> tuple[Any, Callable[[], float]]:
    """Clarabel on the problem as one writes it in cvxpy; built beforehand and compiled in the uncounted first round."""
    a, b, e = cp.Variable(y.size), cp.Variable(), cp.Variable(y.size)
    cost = 0.5 * cp.sum_squares(e) + zeta * cp.norm1(a)
    problem = cp.Problem(cp.Minimize(cost), [y - K @ a - b - e == 0, cp.sum(a) == 0])
    tolerances = {"tol_gap_abs": TOLERANCE, "tol_gap_rel": TOLERANCE, "tol_feas": TOLERANCE}

    def solve() -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the table shows its status
            return float(problem.solve(solver="CLARABEL", **tolerances))

    return problem, solve


def objective(K: Array, y: Array, zeta: float, solved: Any) -> float:
    e = y - K @ solved.coefficients - solved.bias
    return float(0.5 * e @ e + zeta * np.abs(solved.coefficients).sum())


def run(quick: bool) -> Table:
    rows: list[tuple[str, ...]] = []
    shortfalls: list[str] = []
    summary: list[Headline] = []
    for n, repeats in (QUICK if quick else SIZES).items():
        X, y = regression_data(n)
        K = KERNEL(X)
        for share in SHARES:
            zeta = share * zeta_max(K, y)
            solved, (problem, peer_value) = solve_l1(K, y, zeta), peer(K, y, zeta)
            certified = l1_rows(K, y, zeta, solved.coefficients, solved.bias)
            assert all(row.passes for row in certified)
            above = objective(K, y, zeta, solved) / peer_value() - 1.0
            assert above < 1e-6
            t = time_interleaved({"ours": partial(solve_l1, K, y, zeta), "peer": peer_value}, repeats)
            faster = t["peer"] / t["ours"]
            met = faster >= FASTER
            support = int(np.count_nonzero(solved.coefficients))
            rows.append(
                (
                    str(n),
                    f"{share:g}",
                    str(support),
                    str(solved.steps),
                    f"{t['ours']:.4f}",
                    f"{t['peer']:.4f}",
                    f"{faster:.1f}",
                    f"≥ {FASTER:g}",
                    yes_no(met),
                    problem.status,
                    f"{above:+.1e}",
                )
            )
            work = f"L1 substrate, N = {n}, {support} support values"
            summary.append(Headline(work, "cvxpy with Clarabel", faster, least=FASTER))
            if not met:
                shortfalls.append(f"N = {n}, share {share:g}: {solved.steps} steps to {support} support values.")
    return Table(
        "L1 substrate: active set against a conic solver",
        "`solve_l1` against cvxpy with Clarabel at tolerance 1e-8 on the same kernel matrix, the problem built and "
        "compiled beforehand; zeta as a share of zeta_max. Median CPU seconds; the last column is our objective over "
        "Clarabel's, less one.",
        (
            "N",
            "zeta / zeta_max",
            "support values",
            "steps",
            "active set, s",
            "Clarabel, s",
            "Clarabel / active set",
            "target",
            "met",
            "Clarabel's status",
            "objective",
        ),
        tuple(rows),
        tuple(shortfalls),
        tuple(summary),
    )
