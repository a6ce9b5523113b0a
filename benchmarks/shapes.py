"""Shapes that hold everywhere: time, bracket and violations, beside second-order cones on points."""

from collections.abc import Callable
from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np

from benchmarks.measure import measure_result
from benchmarks.table import Table, yes_no
from substrate import Everywhere, Machine, Substrate, fuse
from substrate.composition.shape_oracle import ShapePlan
from substrate.composition.shaped_machine import expanded_function
from substrate.kernels import RBF, Componentwise, Kernel

__all__ = ["run"]

Array = Any
#: Relative width of the bracket, and random points without a violation.
MOST_WIDTH, POINTS = 1e-4, 1_000_000
BLOCK = 20_000


def rows_of(n: int, d: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 4.0, (n, d))
    y = np.tanh(2.0 * (X[:, 0] - 1.0)) + 0.5 * (X[:, -1] > 3.0) + 0.3 * rng.standard_normal(n)
    return X, y


def rising(s: Substrate, everywhere: Everywhere) -> list[Any]:
    return [s.gradient(everywhere, 0) >= 0.0]


def rising_and_curved(s: Substrate, everywhere: Everywhere) -> list[Any]:
    return [s.gradient(everywhere, 0) >= 0.0, s.gradient(everywhere, 4) >= 0.0, s.derivative(everywhere, {2: 2}) >= 0.0]


def convex(s: Substrate, everywhere: Everywhere) -> list[Any]:
    return [s.hessian(everywhere) >= 0.0]


#: Rows, columns, kernel, shapes, and the most CPU seconds on one thread.
CASES: dict[str, tuple[int, int, Any, Callable[[Substrate, Everywhere], list[Any]], float]] = {
    "one column, rising": (1000, 1, RBF(1.0), rising, 10.0),
    "additive, five columns": (1000, 5, Componentwise(RBF(1.5)), rising_and_curved, 10.0),
    "two columns, rising in one": (300, 2, RBF(2.0), rising, 30.0),
    "two columns, jointly convex": (300, 2, RBF(2.0), convex, 30.0),
}
CONES = (33, 129, 513)


def solve_shaped(
    kernel: Kernel, X: Array, y: Array, shapes: Callable[[Substrate, Everywhere], list[Any]]
) -> tuple[Any, list[Any]]:
    """Declare and solve a machine with shapes, and return its result with the constraints."""
    s = Substrate(kernel, X, y)
    constraints = shapes(s, Everywhere())
    objective = 5.0 * cp.sum_squares(s.e) + 0.5 * s.squared_norm
    return Machine(s, minimize=objective, subject_to=constraints).solve(), constraints


def run(quick: bool = False) -> Table:
    """Measure every case, and cones on the example of one column."""
    rows, shortfalls = [], []
    for name, (n, d, kernel, shapes, most) in CASES.items():
        n = min(n, 100) if quick else n
        X, y = rows_of(n, d)
        (result, constraints), seconds = measure_result(partial(solve_shaped, kernel, X, y, shapes))
        width = (result.objective - result.lower_bound) / result.objective
        worst = least_slack(result, constraints, 20_000 if quick else POINTS)
        met = seconds <= most and width <= MOST_WIDTH and worst >= 0.0 and result.certificate.holds
        cells = sum(shape.cells for shape in result.shapes)
        points = sum(len(p) for p in result.points)
        rows.append(
            (
                name,
                str(n),
                f"{seconds:.1f}",
                f"{most:g}",
                f"{width:.1e}",
                str(points),
                str(cells),
                f"{worst:.1e}",
                yes_no(met),
            )
        )
        if not met:
            shortfalls.append(f"{name}: {seconds:.1f} s, bracket {width:.1e}, least slack {worst:.1e}")
    rows += fused(quick)
    rows += cones(33) if quick else [row for count in CONES for row in cones(count)]
    return Table(
        title="Shapes that hold everywhere",
        note=(
            "CPU seconds on one thread; the relative width of the bracket of the infinite problem (at most 1e-4); "
            "points that carry constraints, cells of the proofs, and the least slack at 1,000,000 random points of the "
            "box. Second-order cones on points (Aubin-Frankowski and Szabo 2020) hold everywhere too: their bracket is "
            "how far their value is above the proved lower bound. The bracket of a chosen weight is the gap between "
            "its validation error and what no weight of the range is below."
        ),
        headings=("case", "rows", "seconds", "at most", "bracket", "points", "cells", "least slack", "met"),
        rows=tuple(rows),
        shortfalls=tuple(shortfalls),
    )


def least_slack(result: Any, constraints: list[Any], points: int) -> float:
    """The smallest slack of all shapes at random points of their boxes."""
    functions, rng, least = [expanded_function(e) for e in result.expansions], np.random.default_rng(1), np.inf
    for constraint in constraints:
        plan = ShapePlan.of(constraint)
        shape = plan.bind(functions)
        for _ in range(max(points // BLOCK, 1)):
            at = rng.uniform(plan.box[:, 0], plan.box[:, 1], (BLOCK, plan.box.shape[0]))
            least = min(least, float(shape.values(at).min()) - constraint.bound)
    return least


def fused(quick: bool) -> list[tuple[str, ...]]:
    """Choose the weight of the example of one column by five folds over six decades, within a hundredth."""
    n, ends, gap = (30, (1.0, 30.0), 0.1) if quick else (60, (1e-2, 1e4), 0.01)
    X, y = rows_of(n, 1)

    def build(rows: Array, targets: Array) -> Machine:
        s = Substrate(RBF(1.0), rows, targets)
        C = cp.Parameter(nonneg=True, name="C")
        return Machine(
            s, minimize=0.5 * C * cp.sum_squares(s.e) + 0.5 * s.squared_norm, subject_to=rising(s, Everywhere())
        )

    found, seconds = measure_result(
        lambda: fuse(build, "C", cv=5, data=(X, y), gap=gap, box={"C": ends}, progress=False)
    )
    name = f"weight chosen by five folds, {len(found.path)} values"
    return [(name, str(n), f"{seconds:.1f}", "", f"{found.gap:.1e}", "", "", "", yes_no(found.certificate.holds))]


def cones(count: int) -> list[tuple[str, ...]]:
    """The example of 50 rows, one column, with cones on so many points."""
    X, y = rows_of(50, 1)
    s = Substrate(RBF(1.0), X, y)
    objective = 5.0 * cp.sum_squares(s.e) + 0.5 * s.squared_norm
    result: Any = Machine(s, minimize=objective, subject_to=rising(s, Everywhere())).solve()
    low, high = float(X.min()), float(X.max())
    half = (high - low) / (2 * count)
    grid = np.linspace(low + half, high - half, count)[:, None]
    kappa = s.kernel.derivative(np.zeros((1, 1)), np.array([[0.0], [half]]), {0: 1}, {0: 1})[0]
    reach = float(np.sqrt(2.0 * (kappa[0] - kappa[1])))
    tight, seconds = measure_result(
        lambda: Machine(s, minimize=objective, subject_to=[s.gradient(grid, 0) >= reach * s.norm]).solve()
    )
    above = tight.objective / result.lower_bound - 1.0
    name = f"second-order cones, {count} points"
    return [(name, "50", f"{seconds:.1f}", "", f"{above:.1e}", str(count), "", "", "")]
