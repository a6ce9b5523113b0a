"""Shapes that hold everywhere: seconds to a certified solution."""

from collections.abc import Callable, Iterator
from typing import Any

import cvxpy as cp
import numpy as np

from benchmarks.measure import Row, certified, limit
from substrate import Everywhere, Machine, Substrate
from substrate.kernels import RBF, Componentwise, Kernel

__all__ = ["rows"]

Shape = Callable[[Substrate, Everywhere], list[Any]]


def rising(s: Substrate, everywhere: Everywhere) -> list[Any]:
    """Return a slope of one sign."""
    return [s.gradient(everywhere, 0) >= 0.0]


def rising_and_curved(s: Substrate, everywhere: Everywhere) -> list[Any]:
    """Return two slopes of one sign and a curvature of one sign."""
    return [s.gradient(everywhere, 0) >= 0.0, s.gradient(everywhere, 4) >= 0.0, s.derivative(everywhere, {2: 2}) >= 0.0]


#: Rows, columns, kernel, shape, and the most CPU seconds.
CASES: dict[str, tuple[int, int, Kernel, Shape, float]] = {
    "one column, N = 1000": (1000, 1, RBF(1.0), rising, 10.0),
    "additive, five columns, N = 1000": (1000, 5, Componentwise(RBF(1.5)), rising_and_curved, 10.0),
    "two columns, N = 300": (300, 2, RBF(2.0), rising, 30.0),
}


def solve(n: int, d: int, kernel: Kernel, shape: Shape) -> object:
    """Solve least squares with a shape."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 4.0, (n, d))
    y = np.tanh(2.0 * (X[:, 0] - 1.0)) + 0.5 * (X[:, -1] > 3.0) + 0.3 * rng.standard_normal(n)
    s = Substrate(kernel, X, y)
    objective = 5.0 * cp.sum_squares(s.e) + 0.5 * s.squared_norm
    return certified(Machine(s, minimize=objective, subject_to=shape(s, Everywhere())).solve())


def rows() -> Iterator[Row]:
    """Yield every shape."""
    for name, (n, d, kernel, shape, most) in CASES.items():
        yield limit(f"shape: {name}", lambda case=(n, d, kernel, shape): solve(*case), most)  # type: ignore[misc]
