"""Random machines of ten kinds with a weight to choose, in wild units, and the validation error at any weight.

Every machine is drawn in tame units and declared in wild ones: targets are multiplied and shifted, points shifted, and
rows repeated. The tame machine has the same validation error, which another solver finds accurately, in the wild
unit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np

from substrate import Machine, Substrate
from substrate.fits.coordinates import shared_coordinates
from substrate.fits.l1 import solve_l1
from substrate.fits.variation import solve_maximal_variation
from substrate.kernels import RBF, Componentwise, Laplacian, Linear

__all__ = ["KINDS", "FusedMachine", "fused_machine"]

#: What is fused: the loss or the penalty that has the weight.
KINDS = (
    "tube",
    "pinball",
    "hinge",
    "squared hinge",
    "huber",
    "logistic",
    "monotone ridge",
    "absolute errors in bounds",
    "l1",
    "variation",
)
_CLASSES = ("hinge", "squared hinge", "logistic")
_LINEAR = ("tube", "pinball", "huber", "absolute errors in bounds")
#: Where a monotone function must not decrease.
_KNOTS = np.linspace(-2.0, 2.0, 7)[:, None]
_TIGHT = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


@dataclass(frozen=True)
class FusedMachine:
    """A machine as it is declared, and the same in tame units.

    ``build(X, y)`` declares it with a parameter ``weight``; ``folds`` are the rows for training and for validation,
    ``box`` the range of the weight; ``error(value)`` is the validation error of the tame machine, in the wild unit.
    """

    kind: str
    build: Callable[[Any, Any], Machine]
    data: tuple[Any, Any]
    folds: list[tuple[Any, Any]]
    box: tuple[float, float]
    variance: float
    error: Callable[[float], float]


def fused_machine(kind: str, seed: int) -> FusedMachine:
    """Draw a machine of a kind."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    n, d = int(rng.integers(12, 19)), 1 if kind == "monotone ridge" else int(rng.integers(1, 4))
    X = rng.uniform(-2.0, 2.0, size=(n, d))
    g = np.sin(1.5 * X[:, 0]) + 0.3 * X[:, -1] + 0.4 * rng.normal(size=n)
    if rng.random() < 0.4:  # the same row again, once with the same target
        X[1], X[3], g[1] = X[0], X[2], g[0]
    y = np.where(g >= np.median(g), 1.0, -1.0) if kind in _CLASSES else g
    wild = kind not in _CLASSES and rng.random() < 0.5
    unit = 10.0 ** rng.uniform(-3.0, 3.0) if wild else 1.0
    bias = kind != "monotone ridge" or rng.random() < 0.5
    offset = unit * 10.0 ** rng.uniform(0.0, 4.0) if wild and bias and kind != "variation" else 0.0
    shift = 100.0 if rng.random() < 0.3 and kind != "variation" else 0.0
    kernel: Any = [RBF(1.0), RBF(2.5), Laplacian(1.5)][rng.integers(3)]
    if kind == "variation":
        kernel = Componentwise([RBF(1.5), Linear()][rng.integers(2)])
    folds = _folds(rng, n)
    low, high = (1e-2, 1e2) if kind not in ("l1", "variation") else (1e-2, 3e1)
    power = {"l1": 1, "variation": 1, **dict.fromkeys(_LINEAR, 1)}.get(kind, 0)  # the weight in the unit of y
    tame = [_sum_of_squares(kind, kernel, bias, X, y, train, test) for train, test in folds]

    def build(points: Any, targets: Any) -> Machine:
        task = {"task": "classification"} if kind in _CLASSES else {}
        s = Substrate(kernel, points, targets, bias=bias, **task)
        return _declare(kind, s, cp.Parameter(nonneg=True, name="weight"), unit, offset, _KNOTS + shift)

    def error(value: float) -> float:
        return unit**2 * sum(loss(value / unit**power) for loss in tame) / sum(len(test) for _, test in folds)

    data = X + shift, unit * y + offset
    box = (low * unit**power, high * unit**power)
    rows = np.concatenate([test for _, test in folds])
    return FusedMachine(kind, build, data, folds, box, unit**2 * float(np.var(y[rows])), error)


def _folds(rng: Any, n: int) -> list[tuple[Any, Any]]:
    """Return one validation set of half of the rows, or two folds."""
    rows = rng.permutation(n)
    half = n // 2
    folds = [(rows[:half], rows[half:]), (rows[half:], rows[:half])]
    return folds if rng.random() < 0.3 else folds[:1]


def _declare(kind: str, s: Any, weight: Any, unit: float, offset: float, knots: Any) -> Machine:
    norm, squares, rules = 0.5 * s.squared_norm, 0.5 * cp.sum_squares(s.e), []
    if kind == "l1":
        cost = squares + weight * cp.norm1(s.alpha)
    elif kind == "variation":
        cost = squares + weight * cp.sum(s.maximal_variation)
    else:
        differences = s.f(knots[1:]) - s.f(knots[:-1]) if kind == "monotone ridge" else None
        cost, rules = _cost(kind, weight, norm, s.f(), s.y, unit, offset, differences)
    return Machine(s, minimize=cost, subject_to=rules)


def _cost(
    kind: str, weight: Any, norm: Any, f: Any, y: Any, unit: float, offset: float, differences: Any
) -> tuple[Any, list[Any]]:
    """Return the objective and the constraints in values of f, as expressions of a substrate or of plain variables."""
    e = y - f
    if kind == "tube":
        return norm + weight * cp.sum(cp.pos(cp.abs(e) - 0.1 * unit)), []
    if kind == "pinball":
        return norm + weight * cp.sum(cp.maximum(0.8 * e, -0.2 * e)), []
    if kind == "huber":
        return norm + weight * unit * cp.sum(cp.huber(e / unit, 0.3)), []
    if kind == "absolute errors in bounds":
        return norm + weight * cp.norm1(e), [f <= offset + 0.8 * unit, f >= offset - 0.8 * unit]
    if kind == "hinge":
        return norm + weight * cp.sum(cp.pos(1.0 - cp.multiply(y, f))), []
    if kind == "squared hinge":
        return norm + weight * cp.sum_squares(cp.pos(1.0 - cp.multiply(y, f))), []
    if kind == "logistic":
        return norm + weight * cp.sum(cp.logistic(-cp.multiply(y, f))), []
    return 0.5 * cp.sum_squares(e) + weight * norm, [differences >= 0.0]


def _sum_of_squares(
    kind: str, kernel: Any, bias: bool, X: Any, y: Any, train: Any, test: Any
) -> Callable[[float], float]:
    """Return the sum of squared validation errors at a weight, in tame units, by a program written out in plain
    numbers.
    """
    X, V, y, u = X[train], X[test], y[train], y[test]
    if kind == "l1":
        return lambda value: _squares_of_l1(solve_l1(kernel(X), y, value), kernel(V, X), u)
    if kind == "variation":
        components = kernel.components(X.shape[1])
        coordinates, below = (
            shared_coordinates([component(X) for component in components]),
            sum(component(V, X) for component in components),
        )
        return lambda value: _squares_of_variation(coordinates, y, value, below, u)
    knots = _KNOTS if kind == "monotone ridge" else np.zeros((0, X.shape[1]))
    points = np.unique(np.vstack([X, knots]), axis=0)
    values, vectors = np.linalg.eigh(kernel(points))
    kept = values > 1e-12 * values.max()
    roots = vectors[:, kept] / np.sqrt(values[kept])
    z, b, weight = cp.Variable(int(kept.sum())), cp.Variable(), cp.Parameter(nonneg=True)

    def f(rows: Any) -> Any:
        return kernel(rows, points) @ roots @ z + (b if bias else 0.0)

    differences = f(knots[1:]) - f(knots[:-1]) if kind == "monotone ridge" else None
    cost, rules = _cost(kind, weight, 0.5 * cp.sum_squares(z), f(X), y, 1.0, 0.0, differences)
    problem, predicted = cp.Problem(cp.Minimize(cost), rules), f(V)

    def squares(value: float) -> float:
        weight.value = value
        problem.solve(solver="CLARABEL", **_TIGHT)
        return float(np.sum((u - predicted.value) ** 2))

    return squares


def _squares_of_l1(solved: Any, below: Any, u: Any) -> float:
    return float(np.sum((u - below @ solved.coefficients - solved.bias) ** 2))


def _squares_of_variation(coordinates: Any, y: Any, value: float, below: Any, u: Any) -> float:
    v = solve_maximal_variation(coordinates, y, value).v
    return float(np.sum((u - below @ coordinates.expand(v) - coordinates.bias_of(y, v)) ** 2))
