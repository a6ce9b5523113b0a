"""``fuse`` to one per cent over a parameter of a machine, against 60 cold solves of the same problem in cvxpy."""

from collections.abc import Callable, Iterator
from typing import Any

import cvxpy as cp
import numpy as np

from benchmarks.measure import Row, certified, compare
from substrate import Machine, Substrate, fuse
from substrate.arrays import Array
from substrate.datasets import additive_function
from substrate.kernels import RBF, Componentwise

__all__ = ["rows"]

GAP, ENDS, COLD = 1e-2, (1e-2, 1e3), 60

Built = tuple[Machine, str, tuple[Array, Array]]


def data(n: int, classes: bool = False) -> tuple[Array, Array, Array, Array]:
    """Return training and validation rows of a smooth function of two inputs, targets of mean zero and variance one."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(2 * n, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.normal(size=2 * n)
    y = np.sign(y) if classes else (y - y[:n].mean()) / y[:n].std()
    return X[:n], y[:n], X[n:], y[n:]


def weighed(n: int, loss: Callable[[Any, Array], Any], classes: bool = False) -> Built:
    """Return a machine with w'w/2 and a weight C of its losses."""
    X, y, *validation = data(n, classes)
    s, C = Substrate(RBF(1.0), X, y), cp.Parameter(nonneg=True, name="C")
    return Machine(s, minimize=0.5 * s.squared_norm + C * loss(s, y)), "C", tuple(validation)  # type: ignore[return-value]


def svr() -> Built:
    """Return the machine of the tube."""
    return weighed(200, lambda s, y: cp.sum(cp.pos(cp.abs(s.e) - 0.1)))


def pinball() -> Built:
    """Return the machine of a quantile."""
    return weighed(200, lambda s, y: cp.sum(cp.maximum(0.9 * s.e, -0.1 * s.e)))


def hinge() -> Built:
    """Return the support vector classifier."""
    return weighed(200, lambda s, y: cp.sum(cp.pos(1.0 - cp.multiply(y, s.f()))), classes=True)


def logistic() -> Built:
    """Return kernel logistic regression."""
    return weighed(100, lambda s, y: cp.sum(cp.logistic(cp.multiply(-y, s.f()))), classes=True)


def monotone() -> Built:
    """Return least squares with slopes of one sign at points, over its ridge."""
    X, y, *validation = data(200)
    s, tau = Substrate(RBF(1.0), X, y), cp.Parameter(nonneg=True, name="tau")
    points = np.random.default_rng(1).uniform(-2.0, 2.0, size=(20, 2))
    cost = 0.5 * cp.sum_squares(s.e) + 0.5 * tau * s.squared_norm
    return Machine(s, minimize=cost, subject_to=[s.gradient(points, 1) >= 0.0]), "tau", tuple(validation)  # type: ignore[return-value]


def l1() -> Built:
    """Return the L1 norm of the support values."""
    X, y, *validation = data(100)
    s, zeta = Substrate(RBF(1.0), X, y), cp.Parameter(nonneg=True, name="zeta")
    return Machine(s, minimize=0.5 * cp.sum_squares(s.e) + zeta * cp.norm1(s.alpha)), "zeta", tuple(validation)  # type: ignore[return-value]


def variation() -> Built:
    """Return maximal variation of five inputs."""
    X, y = additive_function(n_samples=300, n_features=5, random_state=1)
    s, rho = Substrate(Componentwise(RBF(1.0)), X[:150], y[:150]), cp.Parameter(nonneg=True, name="rho")
    cost = 0.5 * cp.sum_squares(s.e) + rho * cp.sum(s.maximal_variation)
    return Machine(s, minimize=cost), "rho", (X[150:], y[150:])


#: What builds a machine, its rows, and the largest share of the time of the cold solves.
CASES: dict[str, tuple[Callable[[], Built], float]] = {
    "SVR, N = 200": (svr, 1.5),
    "pinball, N = 200": (pinball, 1.5),
    "hinge, N = 200": (hinge, 1.5),
    "monotone at points, N = 200": (monotone, 1.5),
    "variation, N = 150": (variation, 1.5),
    "logistic, N = 100": (logistic, 5.0),
    "L1, N = 100": (l1, 5.0),
}


def rows() -> Iterator[Row]:
    """Yield every machine, built anew in every round so that nothing is known of an earlier one."""
    for name, (build, most) in CASES.items():

        def ours(build: Callable[[], Built] = build) -> object:
            machine, over, validation = build()
            return certified(fuse(machine, over=over, validation=validation, gap=GAP, box={over: ENDS}))

        def solve_once(build: Callable[[], Built] = build) -> object:
            problem = build()[0].problem
            fresh = cp.Problem(problem.objective, problem.constraints)
            for parameter in fresh.parameters():
                parameter.value = float(np.sqrt(ENDS[0] * ENDS[1]))
            return fresh.solve(solver="CLARABEL")

        yield compare(f"fuse: {name}", ours, f"{COLD} cold solves", solve_once, most=most, times=COLD)
