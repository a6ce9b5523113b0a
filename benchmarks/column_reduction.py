"""The second stage of the column-reduced classifiers against the pseudo-inverse on the same columns."""

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.data import classification_data
from benchmarks.measure import time_interleaved
from benchmarks.regression_fit import KERNEL
from benchmarks.table import Headline, Table, yes_no
from substrate.arrays import Array
from substrate.least_squares.column_reduction import column_rows, solve_columns, with_bias
from substrate.least_squares.saddle_system import bordered_matrix, bordered_target

__all__ = ["run"]

N = 1000
GAMMAS = (2.0, 1000.0)
SHARES = (0.5, 0.75)
FASTER = 8.0
EQUAL = 1e-8


def pseudo_inverse(M: Array, columns: Array, B: Array) -> Array:
    return np.asarray(np.linalg.pinv(M[:, with_bias(columns)]) @ B)


def run(quick: bool) -> Table:
    repeats = 2 if quick else 9
    X, labels = classification_data(N, noise=0.1)
    K, B = KERNEL(X), bordered_target(np.where(labels == 1, 1.0, -1.0))
    rows: list[tuple[str, ...]] = []
    shortfalls: list[str] = []
    summary: list[Headline] = []
    for gamma in GAMMAS:
        M = bordered_matrix(K, np.full(N, 1.0 / gamma))
        for share in SHARES:
            columns = np.sort(np.random.default_rng(0).permutation(N)[: int(share * N)])
            solution, peer_solution = solve_columns(M, columns, B), pseudo_inverse(M, columns, B)
            assert all(row.passes for row in column_rows(M, columns, B, solution.bias, solution.coefficients))
            f = K[:, columns] @ solution.coefficients + solution.bias
            distance = float(np.abs(f - K[:, columns] @ peer_solution[1:] - peer_solution[0]).max())
            contenders: dict[str, Callable[[], object]] = {
                "ours": partial(solve_columns, M, columns, B),
                "peer": partial(pseudo_inverse, M, columns, B),
            }
            t = time_interleaved(contenders, repeats)
            faster = t["peer"] / t["ours"]
            quick_enough, equal = faster >= FASTER, distance <= EQUAL
            rows.append(
                (
                    str(N),
                    f"{gamma:g}",
                    str(columns.size),
                    solution.method,
                    f"{t['ours']:.4f}",
                    f"{t['peer']:.4f}",
                    f"{faster:.1f}",
                    f"≥ {FASTER:g}",
                    yes_no(quick_enough),
                    f"{distance:.1e}",
                    f"≤ {EQUAL:g}",
                    yes_no(equal),
                )
            )
            work = f"{columns.size} of {N} columns, gamma {gamma:g}"
            summary.append(Headline(work, "pinv", faster, least=FASTER, held=equal))
            if not (quick_enough and equal):
                shortfalls.append(f"gamma {gamma:g}, {columns.size} columns: solved by {solution.method}.")
    return Table(
        "Column reduction: least squares on the kept columns against the pseudo-inverse",
        "`solve_columns` against `numpy.linalg.pinv` on the same columns of the linear system. Median CPU seconds; "
        "decision values of the training rows compared.",
        (
            "N",
            "gamma",
            "columns",
            "method",
            "ours, s",
            "pinv, s",
            "pinv / ours",
            "target",
            "met",
            "largest difference",
            "target ",
            "met ",
        ),
        tuple(rows),
        tuple(shortfalls),
        tuple(summary),
    )
