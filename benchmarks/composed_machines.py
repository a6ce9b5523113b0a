"""Composed machines at a hundred to five thousand rows, against the same problem in plain cvxpy with Clarabel."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np

from benchmarks.measure import Measured, measure_result, measure_rounds
from benchmarks.table import Headline, Table, yes_no
from substrate import Machine, Substrate
from substrate.kernels import RBF

__all__ = ["run"]

Array = Any
KERNEL, WEIGHT, WIDTH = RBF(1.5), 10.0, 0.1
#: Rows up to which plain cvxpy is measured: beyond, it takes minutes.
RAW_ROWS = 1000
#: Least ratio to plain cvxpy and most CPU seconds, by machine and number of rows.
LEAST_GAIN = {("epsilon-insensitive", 1000): 20.0, ("pinball", 1000): 20.0}
MOST_SECONDS = {
    ("epsilon-insensitive", 1000): 1.5,
    ("pinball", 1000): 1.5,
    ("monotone least squares", 1000): 1.5,
    ("epsilon-insensitive", 2000): 6.0,
    ("pinball", 2000): 6.0,
    ("epsilon-insensitive", 10_000): 10.0,
    ("pinball", 10_000): 10.0,
    ("monotone least squares", 10_000): 10.0,
}
#: Vectors of the reduced basis.
BASIS = 200
#: Rows up to which a solve is short, and rounds of short ones and of longer ones up to 2000 rows.
SHORT, MANY_ROUNDS, ROUNDS = 500, 15, 3
MOST_AGAIN = 0.5


def rows_of(n: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3))
    return X, np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.3 * rng.standard_normal(n)


def sorted_rows_of(n: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(1)
    X = np.sort(rng.uniform(-3.0, 3.0, (n, 1)), axis=0)
    return X, np.arctan(2.0 * X[:, 0]) + 0.3 * rng.standard_normal(n)


def insensitive(e: Any) -> Any:
    return cp.sum(cp.pos(cp.abs(e) - WIDTH))


def pinball(e: Any) -> Any:
    return cp.sum(cp.maximum(0.9 * e, -0.1 * e))


def squares(e: Any) -> Any:
    return cp.sum_squares(e)


CASES: dict[str, tuple[Callable[[int], tuple[Array, Array]], Callable[[Any], Any], bool]] = {
    "epsilon-insensitive": (rows_of, insensitive, False),
    "pinball": (rows_of, pinball, False),
    "monotone least squares": (sorted_rows_of, squares, True),
}


def ours(
    X: Array, y: Array, loss: Callable[[Any], Any], monotone: bool, weight: Any, basis: int | None = None
) -> Machine:
    s = Substrate(KERNEL, X, y) if basis is None else Substrate(KERNEL, X, y, basis=basis)
    constraints = [cp.diff(s.f()) >= 0.0] if monotone else []
    return Machine(s, minimize=0.5 * s.squared_norm + weight * loss(s.e), subject_to=constraints)


def plain(X: Array, y: Array, loss: Callable[[Any], Any], monotone: bool) -> tuple[float, str]:
    """Return the same problem as one would write it in cvxpy: w'w by a factor of the kernel matrix."""
    values, vectors = np.linalg.eigh(KERNEL(X))
    keep = values > values[-1] * len(y) * np.finfo(float).eps
    R = vectors[:, keep] * np.sqrt(values[keep])
    z, b = cp.Variable(R.shape[1]), cp.Variable()
    f = R @ z + b
    constraints = [cp.diff(f) >= 0.0] if monotone else []
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(z) + WEIGHT * loss(y - f)), constraints)
    try:
        problem.solve(solver="CLARABEL")
    except cp.error.SolverError:
        return np.nan, "failed"
    return float(problem.value), str(problem.status)


def measure(
    X: Array, y: Array, loss: Callable[[Any], Any], monotone: bool, basis: int | None, repeats: int
) -> tuple[dict[str, Measured], Any]:
    """Return CPU seconds of a first solve and of one with another weight, each on a machine of its own round; and the
    last first solution.
    """
    results: list[Any] = []

    def measure_round(turn: int) -> dict[str, float]:
        weight = cp.Parameter(nonneg=True, name="weight")
        start = time.process_time()
        machine = ours(X, y, loss, monotone, weight, basis)
        result = machine.solve(weight=WEIGHT)
        first = time.process_time() - start
        start = time.process_time()
        again = machine.solve(weight=1.1 * WEIGHT)
        seconds = {"first": first, "again": time.process_time() - start}
        assert result.certificate.holds
        assert again.certificate.holds
        results[:] = [result]
        return seconds

    return measure_rounds(measure_round, repeats), results[0]


def run(quick: bool) -> Table:
    rows: list[tuple[str, ...]] = []
    shortfalls: list[str] = []
    summary: list[Headline] = []
    for name, (make, loss, monotone) in CASES.items():
        full = (100, 500) if quick else (100, 500, 1000, 2000, 5000)
        reduced = ((1000, 50),) if quick else ((10_000, BASIS),)
        for n, basis in (*((n, None) for n in full), *reduced):
            X, y = make(n)
            rounds = MANY_ROUNDS if n <= SHORT and not quick else ROUNDS if n <= 2000 else 1
            t, result = measure(X, y, loss, monotone, basis, rounds)
            seconds, share = t["first"], t["again"] / t["first"]
            raw, gain, agree = None, np.nan, ""
            if n <= RAW_ROWS and basis is None:
                (value, status), raw = measure_result(partial(plain, X, y, loss, monotone))
                gain = raw / seconds
                agree = f"{abs(result.objective - value) / abs(value):.0e}, {status}"
            least, most = LEAST_GAIN.get((name, n)), MOST_SECONDS.get((name, n))
            wanted = [f"≥ {least:g} times"] if least else []
            wanted += [f"≤ {most:g} s"] if most else []
            targets = ", ".join([*wanted, f"again ≤ {MOST_AGAIN:g}"])
            met = (least is None or gain >= least) and (most is None or seconds <= most) and share <= MOST_AGAIN
            rows.append(
                (
                    name,
                    str(n),
                    str(basis or ""),
                    f"{seconds:.2f}",
                    f"{t['again']:.2f}",
                    f"{share:.2f}",
                    f"{raw:.2f}" if raw is not None else "",
                    f"{gain:.1f}" if raw is not None else "",
                    agree,
                    targets,
                    yes_no(met),
                )
            )
            if least:
                summary.append(Headline(f"composed: {name}, N = {n}", "cvxpy with Clarabel", gain, least=least))
            summary.append(Headline(f"composed: {name}, N = {n}, solved again", "first solve", share, most=MOST_AGAIN))
            if not met:
                shortfalls.append(f"{name}, N = {n}: {seconds:.2f} s, again {share:.2f} of it, {gain:.1f} times cvxpy.")
    return Table(
        "Machines: composed, against plain cvxpy",
        "A machine from its rows to its certified solution (kernel matrix, coordinates, compilation, solution, "
        "certificate), on all rows or on a reduced basis, then `solve` with another weight, against the same problem "
        "in plain cvxpy with Clarabel at its "
        f"default tolerances, eigendecomposition included, up to {RAW_ROWS} rows. {KERNEL!r}, loss weight {WEIGHT:g}; "
        "one BLAS thread. Median CPU seconds; objectives compared.",
        (
            "machine",
            "N",
            "basis",
            "first solve, s",
            "again, s",
            "again / first",
            "cvxpy, s",
            "cvxpy / first",
            "objectives differ",
            "target",
            "met",
        ),
        tuple(rows),
        tuple(shortfalls),
        tuple(summary),
    )
