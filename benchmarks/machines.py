"""Machines from their rows to their certified solution, against the same problem in plain cvxpy with Clarabel."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np

from benchmarks.measure import Row, certified, compare
from substrate import Machine, Result, Substrate
from substrate.arrays import Array
from substrate.kernels import RBF

__all__ = ["rows"]

KERNEL, KERNELS, WEIGHT, WIDTH = RBF(1.5), (RBF(1.0), RBF(4.0)), 10.0, 0.1
#: N, and the largest share of the time of plain cvxpy.
SIZES = {50: 3.0, 200: 1.5, 1000: 1.0}

Loss = Callable[[Any, Any], Any]


def numbers(n: int) -> tuple[Array, Array]:
    """Return rows of three columns with a smooth target."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3))
    return X, np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.3 * rng.standard_normal(n)


def labels(n: int) -> tuple[Array, Array]:
    """Return the same rows with two classes."""
    X, y = numbers(n)
    return X, np.where(y > np.median(y), 1.0, -1.0)


def counts(n: int) -> tuple[Array, Array]:
    """Return the same rows with counts."""
    X, y = numbers(n)
    return X, np.random.default_rng(1).poisson(np.exp(0.5 * y)).astype(float)


#: The rows of a loss, and the loss of targets y and values f.
LOSSES: dict[str, tuple[Callable[[int], tuple[Array, Array]], Loss]] = {
    "squared": (numbers, lambda y, f: cp.sum_squares(y - f)),
    "absolute": (numbers, lambda y, f: cp.sum(cp.abs(y - f))),
    "pinball": (numbers, lambda y, f: cp.sum(cp.maximum(0.9 * (y - f), -0.1 * (y - f)))),
    "tube": (numbers, lambda y, f: cp.sum(cp.pos(cp.abs(y - f) - WIDTH))),
    "Huber": (numbers, lambda y, f: cp.sum(cp.huber(y - f, 0.3))),
    "hinge": (labels, lambda y, f: cp.sum(cp.pos(1.0 - cp.multiply(y, f)))),
    "squared hinge": (labels, lambda y, f: cp.sum_squares(cp.pos(1.0 - cp.multiply(y, f)))),
    "logistic": (labels, lambda y, f: cp.sum(cp.logistic(-cp.multiply(y, f)))),
    "Poisson": (counts, lambda y, f: cp.sum(cp.exp(f) - cp.multiply(y, f))),
    "maximum of the errors": (numbers, lambda y, f: cp.norm_inf(y - f)),
    "CVaR": (numbers, lambda y, f: y.size * cp.cvar(cp.abs(y - f), 0.9)),
    "Cox": (numbers, lambda y, f: cp.sum(cp.hstack([cp.log_sum_exp(f[y >= time]) for time in y]) - f)),
}
#: Losses whose declaration has as many terms for each row as there are rows are for the smaller sizes.
LARGEST = {"Cox": 200}


def ours(X: Array, y: Array, loss: Loss) -> Result:
    """Solve the machine."""
    s = Substrate(KERNEL, X, y)
    return certified(Machine(s, minimize=0.5 * s.squared_norm + WEIGHT * loss(y, s.f())).solve())


def factor(K: Array) -> Array:
    """Return R with R R' = K, as one would factor it for cvxpy."""
    values, vectors = np.linalg.eigh(K)
    keep = values > values[-1] * len(K) * np.finfo(float).eps
    return np.asarray(vectors[:, keep] * np.sqrt(values[keep]))


def plain(X: Array, y: Array, loss: Loss) -> None:
    """Solve the same problem as one would write it in cvxpy: w'w by a factor of the kernel matrix."""
    R = factor(KERNEL(X))
    z, b = cp.Variable(R.shape[1]), cp.Variable()
    with suppress(cp.error.SolverError):  # Clarabel gives up on the Poisson loss of many rows; its time counts
        cp.Problem(cp.Minimize(0.5 * cp.sum_squares(z) + WEIGHT * loss(y, R @ z + b))).solve(solver="CLARABEL")


def ours_of_kernels(X: Array, y: Array) -> Result:
    """Solve the machine of two kernels, whose norms are added before they are squared."""
    first, second = (Substrate(kernel, X, y, bias=kernel is KERNELS[0]) for kernel in KERNELS)
    cost = 0.5 * cp.square(first.norm + second.norm) + WEIGHT * cp.sum_squares(y - first.f() - second.f())
    return certified(Machine(first, second, minimize=cost, predict=first + second).solve())


def plain_of_kernels(X: Array, y: Array) -> None:
    """Solve the same problem as one would write it in cvxpy."""
    factors = [factor(kernel(X)) for kernel in KERNELS]
    weights, b = [cp.Variable(R.shape[1]) for R in factors], cp.Variable()
    f = sum(R @ z for R, z in zip(factors, weights, strict=True)) + b
    norm = cp.square(sum(cp.norm(z) for z in weights))
    cp.Problem(cp.Minimize(0.5 * norm + WEIGHT * cp.sum_squares(y - f))).solve(solver="CLARABEL")


def rows() -> Iterator[Row]:
    """Yield every loss at every size, and two kernels."""
    for n, most in SIZES.items():
        mine, peer = partial(ours_of_kernels, *numbers(n)), partial(plain_of_kernels, *numbers(n))
        yield compare(f"Machine: MKL, N = {n}", mine, "plain cvxpy", peer, most=most)
    for name, (make, loss) in LOSSES.items():
        for n, most in SIZES.items():
            if n > LARGEST.get(name, n):
                continue
            data = make(n)
            peer = partial(plain, *data, loss)
            yield compare(f"Machine: {name}, N = {n}", partial(ours, *data, loss), "plain cvxpy", peer, most=most)
