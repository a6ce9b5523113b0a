"""``fuse`` over a parameter of machines with other losses and constraints, against cold solves of the same machine."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np

from benchmarks import fusion as one_weight
from benchmarks.measure import measure_rounds
from benchmarks.table import Headline, Table, measure_rows, yes_no
from substrate import Machine, Substrate, fuse
from substrate.arrays import Array
from substrate.kernels import RBF, Componentwise

__all__ = ["run"]

GAP, RANGE = 1e-2, (1e-2, 1e3)
#: How many cold solves a proof may take.
COLD = 60

Built = tuple[Machine, str, tuple[Array, Array]]


def data(n: int, classes: bool = False) -> tuple[Array, Array, Array, Array]:
    """Training and validation rows of a smooth function of two inputs, targets of mean zero and variance one."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(2 * n, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.normal(size=2 * n)
    y = np.sign(y) if classes else (y - y[:n].mean()) / y[:n].std()
    return X[:n], y[:n], X[n:], y[n:]


def machine(n: int, cost: Callable[[Any, Array], Any], classes: bool = False) -> Built:
    """Return a machine with w'w/2 and a weight C of its losses."""
    X, y, X_val, y_val = data(n, classes)
    s, C = Substrate(RBF(1.0), X, y), cp.Parameter(nonneg=True, name="C")
    return Machine(s, minimize=0.5 * s.squared_norm + C * cost(s, y)), "C", (X_val, y_val)


def svr(n: int) -> Built:
    return machine(n, lambda s, y: cp.sum(cp.pos(cp.abs(s.e) - 0.1)))


def pinball(n: int) -> Built:
    return machine(n, lambda s, y: cp.sum(cp.maximum(0.9 * s.e, -0.1 * s.e)))


def svc(n: int) -> Built:
    return machine(n, lambda s, y: cp.sum(cp.pos(1.0 - cp.multiply(y, s.f()))), classes=True)


def logistic(n: int) -> Built:
    return machine(n, lambda s, y: cp.sum(cp.logistic(cp.multiply(-y, s.f()))), classes=True)


def monotone(n: int) -> Built:
    """Least squares with slopes of one sign, over its ridge."""
    X, y, X_val, y_val = data(n)
    s, tau = Substrate(RBF(1.0), X, y), cp.Parameter(nonneg=True, name="tau")
    points = np.random.default_rng(1).uniform(-2.0, 2.0, size=(20, 2))
    cost = 0.5 * cp.sum_squares(s.e) + 0.5 * tau * s.squared_norm
    return Machine(s, minimize=cost, subject_to=[s.gradient(points, 1) >= 0.0]), "tau", (X_val, y_val)


def l1(n: int) -> Built:
    """Return the L1 norm of the support values."""
    X, y, X_val, y_val = data(n)
    s, zeta = Substrate(RBF(1.0), X, y), cp.Parameter(nonneg=True, name="zeta")
    return Machine(s, minimize=0.5 * cp.sum_squares(s.e) + zeta * cp.norm1(s.alpha)), "zeta", (X_val, y_val)


def variation(n: int) -> Built:
    """Maximal variation of five inputs."""
    X, y, X_val, y_val = one_weight.data(n, 5, n)
    return one_weight.machine_of(X, y, Componentwise(RBF(1.0)))[0], "rho", (X_val, y_val)


@dataclass(frozen=True, slots=True)
class Case:
    """A machine, its rows, and its target: CPU seconds, or none where it is a number of cold solves."""

    title: str
    build: Callable[[int], Built]
    n: int
    seconds: float | None = None
    gap: float = GAP
    ranged: bool = True


QUICK = (Case("SVR", svr, 40), Case("maximal variation, d = 5", variation, 30, 5.0, 1e-3, ranged=False))
CASES = (
    Case("SVR", svr, 200),
    Case("pinball", pinball, 200),
    Case("hinge", svc, 200),
    Case("SVR", svr, 500, 60.0),
    Case("pinball", pinball, 500, 60.0),
    Case("hinge", svc, 500, 60.0),
    Case("monotone, over its ridge", monotone, 200, 10.0),
    Case("logistic", logistic, 100, 30.0),
    Case("L1 on alpha", l1, 100, 3.0),
    Case("maximal variation, d = 5", variation, 150, 5.0, 1e-3, ranged=False),
)


def cold_seconds(built: Built) -> float:
    """CPU seconds of one solve of the same problem by plain cvxpy, at the middle of the range, compiled anew."""
    problem = built[0].problem
    fresh = cp.Problem(problem.objective, problem.constraints)
    for parameter in fresh.parameters():
        parameter.value = float(np.sqrt(RANGE[0] * RANGE[1]))
    start = time.process_time()
    fresh.solve(solver="CLARABEL")
    return time.process_time() - start


def row(case: Case, shortfalls: list[str], summary: list[Headline]) -> tuple[str, ...]:
    results: list[Any] = []

    def measure_round(turn: int) -> dict[str, float]:
        machine, over, validation = case.build(case.n)  # anew: nothing is known of an earlier round
        cold = cold_seconds((machine, over, validation))
        start = time.process_time()
        box = {over: RANGE} if case.ranged else None
        found = fuse(machine, over=over, validation=validation, gap=case.gap, box=box)
        seconds = time.process_time() - start
        results[:] = [found]
        return {"cold": cold, "fuse": seconds}

    t, (found,) = measure_rounds(measure_round, 1), results
    cold, seconds = t["cold"], t["fuse"]
    most = COLD * cold if case.seconds is None else case.seconds
    met = bool(seconds <= most and found.certificate.holds)
    title = f"{case.title}, N = {case.n} + {case.n}"
    peer = f"{COLD} cold solves" if case.seconds is None else f"{case.seconds:g} s"
    summary.append(
        Headline(f"proof: {title}, to {case.gap:g}", peer, seconds / most, most=1.0, held=found.certificate.holds)
    )
    if not met:
        shortfalls.append(f"{title}: {seconds:.1f} s of {most:.1f}, gap proved {found.gap:.2g}.")
    return (
        title,
        f"{case.gap:g}",
        f"{seconds:.2f}",
        f"{found.gap:.1e}",
        f"{cold:.3f}",
        f"{seconds / cold:.0f}",
        f"≤ {most:.1f} s ({peer})" if case.seconds is None else f"≤ {peer}",
        yes_no(met),
    )


def run(quick: bool) -> Table:
    rows, shortfalls, summary = measure_rows(QUICK if quick else CASES, row)
    return Table(
        "Fusion: other losses, constraints and penalties with proof",
        f"`fuse` over the weight of a machine from {RANGE[0]:g} to {RANGE[1]:g} (maximal variation: over all weights), "
        "beside one cold solve of the same problem by plain cvxpy with Clarabel, compilation included. Targets of mean "
        "zero and variance one, two inputs, as many validation rows as training rows. Median CPU seconds, one BLAS "
        "thread.",
        ("machine", "gap", "fuse, s", "gap proved", "cold solve, s", "cold solves", "target", "met"),
        tuple(rows),
        tuple(shortfalls),
        tuple(summary),
    )
