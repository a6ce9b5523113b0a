"""One or more instances of every kernel class, each with its naive formula."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import naive_kernels as naive
import numpy as np

from substrate.kernels import (
    RBF,
    Categorical,
    Componentwise,
    CurlFree,
    DivergenceFree,
    Foreign,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    PowerExponential,
    Precomputed,
    Product,
    Restricted,
    Scaled,
    Separable,
    Sum,
    Symmetric,
)
from substrate.kernels.kernel import Composite

N_FEATURES = 3


def cauchy(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """1 / (1 + ||x - z||^2): a positive semi-definite kernel the package does not have."""
    return 1.0 / (1.0 + np.square(X[:, None, :] - Z[None, :, :]).sum(axis=2))


def _cauchy_pair(x, z):
    return 1.0 / (1.0 + math.dist(x, z) ** 2)


def columns_for(kernel: Kernel) -> int:
    """Return the number of columns of the points of a kernel: four where rows are a point and a direction."""
    return 4 if isinstance(kernel, (CurlFree, DivergenceFree)) else N_FEATURES


@dataclass(frozen=True)
class Example:
    kernel: Kernel
    pair: Callable[..., float] | None
    #: How much larger rounding is than in double precision.
    rounding: float = 1.0

    def points(self, n: int, seed: int = 0) -> np.ndarray:
        """n points of three columns, or four; for a precomputed kernel, the n x n matrix of an RBF on them."""
        X = np.random.default_rng(seed).normal(size=(n, columns_for(self.kernel)))
        return X if self.pair is not None else np.exp(-np.square(X[:, None, :] - X[None, :, :]).sum(axis=2))

    def naive(self, X: Any, Z: Any) -> np.ndarray:
        if self.pair is not None:
            return naive.matrix(self.pair, X, Z)
        points = np.asarray(X)
        return _precompute(self.kernel, points)

    def __str__(self) -> str:
        return repr(self.kernel)


def _precompute(kernel: Kernel, points: np.ndarray) -> np.ndarray:
    factor = kernel.factor if isinstance(kernel, Scaled) else 1.0
    return np.array([[factor * float(entry) for entry in row] for row in points])


_R, _L, _P = naive.rbf(1.3), naive.linear(), naive.polynomial(2, 0.5)
_EACH = (1.3, 0.4, 2.0)
_MIXING = ((2.0, -0.5), (-0.5, 1.0))
_ROUGH_OR_LINEAR = naive.total(naive.matern(1.1, 1.5), _L)

EXAMPLES: dict[type[Kernel], tuple[Example, ...]] = {
    RBF: (
        Example(RBF(1.3), _R),
        Example(RBF(sigma=0.2), naive.rbf(0.2)),
        Example(RBF(_EACH), naive.rbf(_EACH)),
    ),
    Linear: (Example(Linear(), _L),),
    PowerExponential: (
        Example(PowerExponential(1.4, 1.0, 0.5), naive.power_exponential(1.4, 1.0, 0.5)),
        Example(PowerExponential(_EACH, 1.6, 1.2), naive.power_exponential(_EACH, 1.6, 1.2)),
    ),
    Polynomial: (
        Example(Polynomial(2, 0.5), _P),
        Example(Polynomial(), naive.polynomial(3, 1.0)),
        Example(Polynomial(degree=1, offset=0.0), _L),
    ),
    Laplacian: (
        Example(Laplacian(0.7), naive.laplacian(0.7)),
        Example(Laplacian(_EACH), naive.laplacian(_EACH)),
    ),
    Matern: (
        Example(Matern(1.1, 0.5), naive.matern(1.1, 0.5)),
        Example(Matern(1.1), naive.matern(1.1, 1.5)),
        Example(Matern(0.6, 2.5), naive.matern(0.6, 2.5)),
        Example(Matern(1.1, nu=3.5), naive.matern(1.1, 3.5)),
        Example(Matern(_EACH), naive.matern(_EACH, 1.5)),
    ),
    Categorical: (
        Example(Categorical(0.7), naive.categorical(0.7)),
        Example(Categorical(_EACH), naive.categorical(_EACH)),
    ),
    Precomputed: (Example(Precomputed(), None),),
    Foreign: (Example(Foreign(cauchy), _cauchy_pair),),
    Sum: (
        Example(RBF(1.3) + Linear(), naive.total(_R, _L)),
        Example(RBF(1.3) + (Linear() + Polynomial(2, 0.5)), naive.total(_R, _L, _P)),
        Example(RBF(1.3) * Polynomial(2, 0.5) + Linear(), naive.total(naive.product(_R, _P), _L)),
    ),
    Product: (
        Example(RBF(1.3) * Linear(), naive.product(_R, _L)),
        Example((RBF(1.3) + Linear()) * Polynomial(2, 0.5), naive.product(naive.total(_R, _L), _P)),
        Example(RBF(1.3) * (2.0 * Linear()), naive.scale(2.0, naive.product(_R, _L))),
        Example(RBF(1.3) * (Linear() * Polynomial(2, 0.5)), naive.product(_R, naive.product(_L, _P))),
    ),
    Scaled: (
        Example(2.5 * RBF(1.3), naive.scale(2.5, _R)),
        Example(0.0 * Linear(), naive.scale(0.0, _L)),
        Example(2.0 * (3.0 * (RBF(1.3) * Linear())), naive.scale(6.0, naive.product(_R, _L))),
        Example(0.25 * Precomputed(), None),
    ),
    Restricted: (
        Example(RBF(1.3).on(1), naive.on(_R, 1)),
        Example((RBF(1.3) + Linear()).on(2, 0), naive.on(naive.total(_R, _L), 2, 0)),
        Example(RBF(_EACH[:2]).on(2, 0), naive.on(naive.rbf(_EACH[:2]), 2, 0)),
        Example(Polynomial(2, 0.5).on(1).on(2, 0), naive.on(_P, 0)),  # column 1 of the columns (2, 0)
    ),
    Symmetric: (
        Example(Symmetric(RBF(1.3)), naive.symmetric(_R, 1)),
        Example(Symmetric(RBF(1.3), "odd"), naive.symmetric(_R, -1)),
        Example(Symmetric(Polynomial(2, 0.5) + Linear(), "odd"), naive.symmetric(naive.total(_P, _L), -1)),
    ),
    Separable: (
        Example(Separable(RBF(1.3), _MIXING), naive.separable(_R, _MIXING)),
        Example(Separable(Matern(1.1) + Linear(), ((1.0,),)), naive.separable(_ROUGH_OR_LINEAR, ((1.0,),))),
    ),
    CurlFree: (
        Example(CurlFree(RBF(1.3)), naive.curl_free(1.3)),
        Example(CurlFree(0.5 * RBF(0.8)), naive.scale(0.5, naive.curl_free(0.8))),
    ),
    DivergenceFree: (
        Example(DivergenceFree(RBF(1.3)), naive.divergence_free(1.3)),
        Example(
            DivergenceFree(RBF(0.8) + RBF(2.0)), naive.total(naive.divergence_free(0.8), naive.divergence_free(2.0))
        ),
    ),
    Componentwise: (
        Example(Componentwise(RBF(1.3)), naive.total(*(naive.on(_R, c) for c in range(N_FEATURES)))),
        Example(
            Componentwise([RBF(1.3), Linear(), Polynomial(2, 0.5)]),
            naive.total(naive.on(_R, 0), naive.on(_L, 1), naive.on(_P, 2)),
        ),
        Example(
            Componentwise({0: Linear(), (2, 1): RBF(1.3)}),
            naive.total(naive.on(_L, 0), naive.on(_R, 2, 1)),
        ),
    ),
}

ALL = tuple(example for examples in EXAMPLES.values() for example in examples)


def concrete_kernels() -> set[type[Kernel]]:
    """Return every public Kernel class that can be made, found by walking down from Kernel inside the package."""
    kernels, waiting = set(), [Kernel]
    while waiting:
        for child in waiting.pop().__subclasses__():
            waiting.append(child)
            if child.__module__.startswith("substrate.") and not child.__name__.startswith("_"):
                kernels.add(child)
    return {cls for cls in kernels if not inspect.isabstract(cls)} - {Composite}
