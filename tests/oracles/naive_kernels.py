"""Kernels by their formulas, one pair of points at a time, in plain Python floats."""

import math
from collections.abc import Callable, Sequence

import numpy as np

Points = Sequence[Sequence[float]]
PairKernel = Callable[[Sequence[float], Sequence[float]], float]


def _scaled_differences(x, z, sigma):
    """Absolute differences in units of the width, or of the width of their column."""
    widths = sigma if isinstance(sigma, tuple) else (sigma,) * len(x)
    return [abs(a - b) / width for a, b, width in zip(x, z, widths, strict=True)]


def rbf(sigma: float | tuple[float, ...]) -> PairKernel:
    def k(x, z):
        return math.exp(-sum(gap**2 for gap in _scaled_differences(x, z, sigma)))

    return k


def linear() -> PairKernel:
    return lambda x, z: math.fsum(a * b for a, b in zip(x, z, strict=True))


def polynomial(degree: int, offset: float) -> PairKernel:
    return lambda x, z: (linear()(x, z) + offset) ** degree


def laplacian(sigma: float | tuple[float, ...]) -> PairKernel:
    return lambda x, z: math.exp(-sum(_scaled_differences(x, z, sigma)))


def categorical(sigma: float | tuple[float, ...]) -> PairKernel:
    def k(x, z):
        widths = sigma if isinstance(sigma, tuple) else (sigma,) * len(x)
        return math.exp(-sum(1.0 / width for a, b, width in zip(x, z, widths, strict=True) if a != b))

    return k


def power_exponential(sigma: float | tuple[float, ...], p: float, q: float) -> PairKernel:
    return lambda x, z: math.exp(-(sum(r**p for r in _scaled_differences(x, z, sigma)) ** (q / p)))


def matern(sigma: float | tuple[float, ...], nu: float) -> PairKernel:
    """2^(1-nu)/Gamma(nu) s^nu K_nu(s), with K_nu(s) the integral of exp(-s cosh t) cosh(nu t) over t > 0."""

    def k(x, z):
        s = math.sqrt(2.0 * nu) * math.hypot(*_scaled_differences(x, z, sigma))
        if s == 0.0:
            return 1.0
        top = math.acosh(1.0 + 750.0 / s)
        step = top / 400
        terms = [math.exp(-s * math.cosh(i * step)) * math.cosh(nu * i * step) for i in range(401)]
        bessel = step * (math.fsum(terms) - 0.5 * terms[0])
        return 2.0 ** (1.0 - nu) / math.gamma(nu) * s**nu * bessel

    return k


def total(*kernels: PairKernel) -> PairKernel:
    return lambda x, z: math.fsum(k(x, z) for k in kernels)


def product(first: PairKernel, second: PairKernel) -> PairKernel:
    return lambda x, z: first(x, z) * second(x, z)


def scale(factor: float, kernel: PairKernel) -> PairKernel:
    return lambda x, z: factor * kernel(x, z)


def on(kernel: PairKernel, *columns: int) -> PairKernel:
    return lambda x, z: kernel([x[c] for c in columns], [z[c] for c in columns])


def symmetric(kernel: PairKernel, sign: int) -> PairKernel:
    return lambda x, z: (kernel(x, z) + sign * kernel([-a for a in x], z)) / 2.0


def separable(kernel: PairKernel, mixing: Sequence[Sequence[float]]) -> PairKernel:
    def k(x, z):
        d = len(x) - len(mixing)
        mixed = math.fsum(x[d + i] * entry * z[d + j] for i, line in enumerate(mixing) for j, entry in enumerate(line))
        return mixed * kernel(x[:d], z[:d])

    return k


def _bends(x, z, sigma):
    """The second derivatives of the Gaussian, one in each point: exp(-t't/s^2) (2 I/s^2 - 4 t t'/s^4)."""
    t = [a - b for a, b in zip(x, z, strict=True)]
    value = math.exp(-sum(gap**2 for gap in t) / sigma**2)
    n = range(len(t))
    return [[value * (2.0 * (i == j) / sigma**2 - 4.0 * t[i] * t[j] / sigma**4) for j in n] for i in n]


def curl_free(sigma: float) -> PairKernel:
    def k(x, z):
        d = len(x) // 2
        bends = _bends(x[:d], z[:d], sigma)
        return math.fsum(x[d + i] * bends[i][j] * z[d + j] for i in range(d) for j in range(d))

    return k


def divergence_free(sigma: float) -> PairKernel:
    """In two inputs, the gradient turned by a right angle in both points."""

    def k(x, z):
        bends = _bends(x[:2], z[:2], sigma)
        turned = [[bends[1][1], -bends[1][0]], [-bends[0][1], bends[0][0]]]
        return math.fsum(x[2 + i] * turned[i][j] * z[2 + j] for i in range(2) for j in range(2))

    return k


def matrix(kernel: PairKernel, X: Points, Z: Points) -> np.ndarray:
    """Return the double loop."""
    rows, columns = np.asarray(X).tolist(), np.asarray(Z).tolist()
    return np.array([[kernel(x, z) for z in columns] for x in rows])


def median_distance(X: Points, order: int = 2) -> float:
    """Median over pairs i < j of distinct points, sorted by hand."""
    points = np.asarray(X).tolist()
    distances = []
    for i, x in enumerate(points):
        for z in points[i + 1 :]:
            gaps = [abs(a - b) for a, b in zip(x, z, strict=True)]
            distance = sum(gaps) if order == 1 else math.sqrt(sum(gap * gap for gap in gaps))
            if distance > 0.0:
                distances.append(distance)
    distances.sort()
    middle = len(distances) // 2
    return distances[middle] if len(distances) % 2 else 0.5 * (distances[middle - 1] + distances[middle])
