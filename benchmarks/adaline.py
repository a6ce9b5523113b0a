"""The Adaline on the linear system of tic-tac-toe: plain, and along conjugate directions."""

from functools import partial

import numpy as np

from benchmarks.measure import time_interleaved
from benchmarks.table import Headline, Table, yes_no
from substrate.arrays import Array
from substrate.datasets import tic_tac_toe
from substrate.kernels import RBF
from substrate.least_squares.adaline import solve_by_adaline
from substrate.least_squares.saddle_system import bordered_matrix, bordered_target

__all__ = ["run"]

TOLERANCE = 1e-3
MOST_SECONDS = 5.0
KERNEL, GAMMA = RBF(sigma=2.0), 100.0


def run(quick: bool) -> Table:
    X, labels = tic_tac_toe()
    M = bordered_matrix(KERNEL(X), np.full(len(X), 1.0 / GAMMA))
    B = bordered_target(np.where(labels == "positive", 1.0, -1.0))
    values, vectors = np.linalg.eigh(M)
    rows: list[tuple[str, ...]] = []
    summary: list[Headline] = []
    for name, accelerated, epochs in (("conjugate", True, 5000), ("plain", False, 500 if quick else 5000)):
        solve = partial(solve_by_adaline, M, B, tolerance=TOLERANCE, max_epochs=epochs, accelerated=accelerated)
        seconds, solution = time_interleaved({name: solve}, 1)[name], solve()
        met = solution.is_converged and seconds <= MOST_SECONDS
        if accelerated:
            summary.append(
                Headline("Adaline on 958 boards, s", "", seconds, most=MOST_SECONDS, held=solution.is_converged)
            )
        goal = (f"≤ {MOST_SECONDS:g}", yes_no(met)) if accelerated else ("", "")
        rows.append((name, str(solution.epochs), f"{float(solution.residual):.1e}", f"{seconds:.2f}", *goal))
    return Table(
        "Adaline: conjugate directions against the plain rule",
        f"`solve_by_adaline` on all {len(X)} boards, RBF(2), gamma {GAMMA:g}, condition number "
        f"{np.abs(values).max() / np.abs(values).min():.0f}, to a relative residual of {TOLERANCE:g}. The plain rule "
        "is stopped early: its error along every eigenvector shrinks by a known factor per epoch, by which it needs "
        f"{plain_epochs(values, vectors.T @ B):.1e} epochs. Median CPU seconds.",
        ("rule", "epochs", "relative residual", "seconds", "target", "met"),
        tuple(rows),
        summary=tuple(summary),
    )


def plain_epochs(values: Array, B: Array) -> float:
    """Epochs that the plain rule needs, to two digits: the residual along eigenvector k is (1 - s_k^2/s_1^2)^epochs."""
    rate = np.log1p(-np.minimum((values / np.abs(values).max()) ** 2, 1.0 - 1e-15))
    tried = np.logspace(0.0, 10.0, 1000)
    enough = [np.linalg.norm(np.exp(epochs * rate) * B) <= TOLERANCE * np.linalg.norm(B) for epochs in tried]
    return float(tried[int(np.argmax(enough))])
