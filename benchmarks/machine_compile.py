"""The cost of a hierarchical machine besides its solver: compiling it, and solving it again for another parameter."""

from collections.abc import Callable
from typing import Any

import cvxpy as cp

from benchmarks.data import regression_data
from benchmarks.measure import time_interleaved
from benchmarks.regression_fit import GAMMA, KERNEL
from benchmarks.table import Headline, Table, yes_no
from substrate import Machine, Substrate
from substrate.penalized.l1.active_set import zeta_max

__all__ = ["run"]

N = 300
MOST_COMPILING = 0.5
LEAST_GAIN = 1.5
SHARE = 0.1


def tikhonov(s: Any, weight: Any) -> Machine:
    return Machine(s, minimize=0.5 * s.squared_norm + weight * cp.sum_squares(s.e))


def sparse(s: Any, weight: Any) -> Machine:
    return Machine(s, minimize=0.5 * cp.sum_squares(s.e) + weight * cp.norm1(s.alpha))


def parameter() -> Any:
    return cp.Parameter(nonneg=True, name="weight")


def run(quick: bool) -> Table:
    X, y = regression_data(N)
    machines: dict[str, tuple[Callable[[Any, Any], Machine], float]] = {
        "Tikhonov": (tikhonov, 0.5 * GAMMA),
        "1-norm of alpha": (sparse, SHARE * zeta_max(KERNEL(X), y)),
    }
    rows: list[tuple[str, ...]] = []
    shortfalls: list[str] = []
    summary: list[Headline] = []
    for name, (build, weight) in machines.items():
        t = _measure(build, weight, X, y, 2 if quick else 7)
        compiling, total = t["compile"] - t["substrate"], t["everything"] - t["substrate"]
        share, gain = compiling / total, t["rebuild"] / t["again"]
        light, is_worthwhile = share < MOST_COMPILING, gain >= LEAST_GAIN
        rows.append(
            (
                name,
                f"{compiling:.4f}",
                f"{total:.4f}",
                f"{share:.2f}",
                f"< {MOST_COMPILING:g}",
                yes_no(light),
                f"{t['again']:.4f}",
                f"{t['rebuild']:.4f}",
                f"{gain:.2f}",
                f"≥ {LEAST_GAIN:g}",
                yes_no(is_worthwhile),
            )
        )
        summary.append(Headline(f"machine solved again, {name}", "rebuilt and solved", gain, least=LEAST_GAIN))
        if not light:
            shortfalls.append(f"{name}: {compiling:.3f} s go into coordinates and substitution of expressions.")
        if not is_worthwhile:
            shortfalls.append(f"{name}: of {t['rebuild']:.3f} s, the solver and the certificate take {t['again']:.3f}.")
    return Table(
        f"Machines: compilation, N = {N}",
        "A machine with one parameter on the data of the other topics. Compiling is `Machine(...)` on a fresh "
        "substrate, whose kernel matrix is not counted; the total adds its first `solve`, certificate included. "
        "Solving again is `solve` with another value of the parameter; rebuilding makes the machine again on the same "
        "substrate. Median CPU seconds.",
        (
            "machine",
            "compile, s",
            "compile and solve, s",
            "share",
            "target",
            "met",
            "solve again, s",
            "rebuild and solve, s",
            "rebuild / again",
            "target ",
            "met ",
        ),
        tuple(rows),
        tuple(shortfalls),
        tuple(summary),
    )


def _measure(build: Callable[[Any, Any], Machine], weight: float, X: Any, y: Any, repeats: int) -> dict[str, float]:
    kept = Substrate(KERNEL, X, y)
    machine = build(kept, parameter())
    assert machine.solve(weight=weight).certificate.holds
    turn = iter(range(10**6))

    def next_weight() -> float:
        return weight * (1.0 + 0.01 * next(turn))

    return time_interleaved(
        {
            "substrate": lambda: Substrate(KERNEL, X, y),
            "compile": lambda: build(Substrate(KERNEL, X, y), parameter()),
            "everything": lambda: build(Substrate(KERNEL, X, y), parameter()).solve(weight=weight),
            "again": lambda: machine.solve(weight=next_weight()),
            "rebuild": lambda: build(kept, parameter()).solve(weight=next_weight()),
        },
        repeats,
    )
