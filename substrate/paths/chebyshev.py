r"""Polynomials in place of an analytic function, with a bound on the difference.

A function of :math:`t = \log\lambda` that is a sum of terms :math:`1/(s_k + e^t)`, :math:`s_k \ge 0`, has no
singularity in the strip :math:`|\operatorname{Im} t| < \pi`. On an interval of half-length h take the ellipse with the
ends of the interval as foci that reaches :math:`\pm i\theta`, :math:`\theta < \pi`: its semi-axes add up to
:math:`h \rho`. If :math:`|F| \le M` on it, the interpolant p of degree n in the Chebyshev points satisfies

.. math:: |F - p| \le \frac{4 M \rho^{-n}}{\rho - 1}, \qquad \rho = \beta + \sqrt{1 + \beta^2}, \quad \beta = \theta / h

([Trefethen2013]_ theorem 8.2). For M: with :math:`|\arg z| \le \theta`,
:math:`|s + z| \ge (s + |z|) \cos(\theta/2)`, and the terms :math:`1/(s_k + z)` lie in a cone of that half-angle, so a
sum of positive multiples of them is at least :math:`\cos(\theta/2)` times the sum of their sizes. A ceiling of the
sizes on the interval itself, which grows by at most :math:`e^{g x}` at distance x outside it, therefore gives

.. math:: M = \cos(\theta/2)^{-c} \, e^{g (a - h)} \times \text{ceiling}, \qquad a = \tfrac{h}{2} (\rho + 1/\rho).
"""

from functools import cache

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rows import EPS

__all__ = [
    "DEGREE",
    "LEBESGUE",
    "coefficients",
    "ellipse",
    "growth_on_ellipse",
    "interpolation_error",
    "points",
]

#: Degree of every interpolant: about the fewest evaluations in all over ten decades of lambda.
DEGREE = 32
#: By how much, at most, interpolation in these points magnifies errors of the values.
LEBESGUE = 1.0 + 2.0 / np.pi * float(np.log(DEGREE + 1.0))

_ANGLES = np.linspace(0.3, 3.1, 57)


def points() -> Array:
    """The Chebyshev points of [-1, 1], ascending, ends included."""
    return np.asarray(-np.cos(np.pi * np.arange(DEGREE + 1) / DEGREE))


@cache
def _transform() -> Array:
    """Values at the points to coefficients of Chebyshev polynomials."""
    k = np.arange(DEGREE + 1)
    half = np.where((k == 0) | (k == DEGREE), 0.5, 1.0)
    cosines = np.cos(np.pi * np.outer(k, DEGREE - k) / DEGREE)
    return np.asarray(2.0 / DEGREE * half[:, None] * cosines * half)


def coefficients(values: Array) -> Array:
    """Chebyshev coefficients of the interpolant of values at the points, along the first axis."""
    return np.asarray(_transform() @ values)


def ellipse(half_length: float, angles: Array) -> tuple[Array, Array]:
    """rho of the ellipses that reach the given angles, and how far they reach beyond the ends of the interval."""
    beta = angles / half_length
    rho = beta + np.sqrt(1.0 + beta**2)
    return rho, 0.5 * half_length * (rho + 1.0 / rho) - half_length


def growth_on_ellipse(half_length: float, angles: Array, cone: int, growth: float) -> Array:
    """The logarithm of M over the ceiling on the interval."""
    _, beyond = ellipse(half_length, angles)
    return np.asarray(growth * beyond - cone * np.log(np.cos(angles / 2.0)))


def interpolation_error(half_length: float, ceiling: Array, cone: int, growth: float) -> Array:
    """The largest difference between function and interpolant, by the best of many ellipses; none on a point."""
    if half_length == 0.0:
        return np.zeros_like(ceiling)
    rho, _ = ellipse(half_length, _ANGLES)
    logarithm = growth_on_ellipse(half_length, _ANGLES, cone, growth) - DEGREE * np.log(rho) - np.log(rho - 1.0)
    with np.errstate(over="ignore"):
        return np.asarray(4.0 * (1.0 + 64.0 * EPS) * np.exp(logarithm.min()) * ceiling)
