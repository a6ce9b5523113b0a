"""Composed machines of thirty to a hundred and fifty rows, against the same problem in plain cvxpy with Clarabel."""

from collections.abc import Callable
from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np

from benchmarks.measure import time_interleaved
from benchmarks.table import Headline, Table, yes_no
from substrate import Machine, Substrate
from substrate.kernels import RBF

__all__ = ["run"]

Array = Any
KERNEL, WEIGHT, WIDTH = RBF(1.5), 10.0, 0.1
SIZES = (30, 75, 150)
#: Most times the CPU time of plain cvxpy that a machine may take, its certificate included.
MOST = 1.5
REPEATS = 15
PEER = "cvxpy with Clarabel"


def rows_of(n: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3))
    return X, np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.3 * rng.standard_normal(n)


def labels_of(n: int) -> tuple[Array, Array]:
    X, y = rows_of(n)
    return X, np.where(y > np.median(y), 1.0, -1.0)


def counts_of(n: int) -> tuple[Array, Array]:
    X, y = rows_of(n)
    return X, np.random.default_rng(1).poisson(np.exp(0.5 * y)).astype(float)


#: The rows of a loss, and the loss of targets y and values f.
LOSSES: dict[str, tuple[Callable[[int], tuple[Array, Array]], Callable[[Any, Any], Any]]] = {
    "squared": (rows_of, lambda y, f: cp.sum_squares(y - f)),
    "absolute": (rows_of, lambda y, f: cp.sum(cp.abs(y - f))),
    "pinball": (rows_of, lambda y, f: cp.sum(cp.maximum(0.9 * (y - f), -0.1 * (y - f)))),
    "tube": (rows_of, lambda y, f: cp.sum(cp.pos(cp.abs(y - f) - WIDTH))),
    "Huber": (rows_of, lambda y, f: cp.sum(cp.huber(y - f, 0.3))),
    "hinge": (labels_of, lambda y, f: cp.sum(cp.pos(1.0 - cp.multiply(y, f)))),
    "squared hinge": (labels_of, lambda y, f: cp.sum_squares(cp.pos(1.0 - cp.multiply(y, f)))),
    "logistic": (labels_of, lambda y, f: cp.sum(cp.logistic(-cp.multiply(y, f)))),
    "Poisson": (counts_of, lambda y, f: cp.sum(cp.exp(f) - cp.multiply(y, f))),
    "largest error": (rows_of, lambda y, f: cp.norm_inf(y - f)),
}


def ours(X: Array, y: Array, loss: Callable[[Any, Any], Any]) -> tuple[float, bool]:
    """Return the objective of the machine, and whether its certificate holds."""
    s = Substrate(KERNEL, X, y)
    result = Machine(s, minimize=0.5 * s.squared_norm + WEIGHT * loss(y, s.f())).solve()
    return result.objective, bool(result.certificate.holds)


def plain(X: Array, y: Array, loss: Callable[[Any, Any], Any]) -> float:
    """Return the optimum of the same problem as one would write it in cvxpy: w'w by a factor of the kernel matrix."""
    values, vectors = np.linalg.eigh(KERNEL(X))
    keep = values > values[-1] * len(y) * np.finfo(float).eps
    R = vectors[:, keep] * np.sqrt(values[keep])
    z, b = cp.Variable(R.shape[1]), cp.Variable()
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(z) + WEIGHT * loss(y, R @ z + b)))
    problem.solve(solver="CLARABEL")
    return float(problem.value)


def run(quick: bool) -> Table:
    rows: list[tuple[str, ...]] = []
    shortfalls: list[str] = []
    ratios: list[float] = []
    holds = True
    for name, (make, loss) in LOSSES.items():
        for n in SIZES[:1] if quick else SIZES:
            X, y = make(n)
            contenders = {"ours": partial(ours, X, y, loss), "cvxpy": partial(plain, X, y, loss)}
            seconds = time_interleaved(contenders, 3 if quick else REPEATS)
            (objective, certified), optimum = ours(X, y, loss), plain(X, y, loss)
            ratio = seconds["ours"] / seconds["cvxpy"]
            ratios.append(ratio)
            holds = holds and certified
            met = ratio <= MOST and certified
            rows.append(
                (
                    name,
                    str(n),
                    f"{1e3 * seconds['ours']:.1f}",
                    f"{1e3 * seconds['cvxpy']:.1f}",
                    f"{ratio:.2f}",
                    yes_no(certified),
                    f"{abs(objective - optimum) / max(abs(optimum), 1e-300):.0e}",
                    f"≤ {MOST:g}",
                    yes_no(met),
                )
            )
            if not met:
                reason = "" if certified else ", and its certificate does not hold"
                shortfalls.append(f"{name}, N = {n}: {ratio:.2f} times the time of plain cvxpy{reason}.")
    summary = (
        Headline("small machines: largest of all ratios", "cvxpy with Clarabel", max(ratios), most=MOST, held=holds),
        Headline(
            "small machines: median ratio", "cvxpy with Clarabel", float(np.median(ratios)), most=MOST, held=holds
        ),
    )
    return Table(
        "Machines: small ones, against plain cvxpy",
        "A machine from its rows to its certified solution (kernel matrix, coordinates, compilation, solution, "
        "certificate) against the same problem in plain cvxpy with Clarabel at its default tolerances, "
        f"eigendecomposition included. {KERNEL!r}, (w'w)/2 + {WEIGHT:g} loss; one BLAS thread. CPU milliseconds, the "
        f"median of {REPEATS}, interleaved; objectives compared.",
        ("loss", "N", "machine, ms", "cvxpy, ms", "ratio", "holds", "objectives differ", "target", "met"),
        tuple(rows),
        tuple(shortfalls),
        summary,
    )
