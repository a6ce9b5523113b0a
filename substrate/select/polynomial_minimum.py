r"""Polynomial interpolants of analytic functions, with bounds on their error and on their minimum over an interval.

Every stretch from one Chebyshev point to the next is cut into cells. On a cell of centre c and half-width d,
:math:`|p'''| \le m_3 = |p'''(c)| + m_4 d` with m_4 a bound on the fourth derivative on the whole interval, so that

.. math:: p(c + \tau) \ge p(c) + p'(c) \tau + \tfrac12 \left(p''(c) - \tfrac13 m_3 d\right) \tau^2,
          \qquad |\tau| \le d,

a parabola whose minimum is known, and which misses the minimum of the polynomial by a multiple of :math:`d^3`.

The error of the interpolant is bounded as follows. A function of :math:`t = \log\lambda` that is a sum of terms
:math:`1/(s_k + e^t)`, :math:`s_k \ge 0`, has no singularity in the strip :math:`|\operatorname{Im} t| < \pi`. On an
interval of half-length h take the ellipse with the ends of the interval as foci that reaches :math:`\pm i\theta`,
:math:`\theta < \pi`: its semi-axes add up to :math:`h \rho`. If :math:`|F| \le M` on it, the interpolant p of degree n
in the Chebyshev points satisfies

.. math:: |F - p| \le \frac{4 M \rho^{-n}}{\rho - 1}, \qquad \rho = \beta + \sqrt{1 + \beta^2}, \quad \beta = \theta / h

([Trefethen2013]_ theorem 8.2). For M: with :math:`|\arg z| \le \theta`,
:math:`|s + z| \ge (s + |z|) \cos(\theta/2)`, and the terms :math:`1/(s_k + z)` lie in a cone of that half-angle, so a
sum of positive multiples of them is at least :math:`\cos(\theta/2)` times the sum of their sizes. A ceiling of the
sizes on the interval itself, which grows by at most :math:`e^{g x}` at distance x outside it, therefore gives

.. math:: M = \cos(\theta/2)^{-c} \, e^{g (a - h)} \times \text{ceiling}, \qquad a = \tfrac{h}{2} (\rho + 1/\rho).
"""

from functools import cache

import numpy as np
from numpy.polynomial import chebyshev

from substrate.arrays import Array
from substrate.numbers import relative_rounding

__all__ = ["DEGREE", "LEBESGUE", "coefficients", "interpolation_error", "minima_of_polynomial", "points"]

#: Degree of every interpolant: about the fewest evaluations in all over ten decades of lambda.
DEGREE = 32
#: A bound on the factor by which interpolation in these points magnifies errors of the values.
LEBESGUE = 1.0 + 2.0 / np.pi * float(np.log(DEGREE + 1.0))

#: Cells of a stretch; Newton's steps from the best of their centres, and how much they may rise by rounding.
_CELLS, _STEPS, _TIED = 64, 5, 1e-13
_ANGLES = np.linspace(0.3, 3.1, 57)


def points() -> Array:
    """Return the Chebyshev points of [-1, 1], ascending, ends included."""
    return np.asarray(-np.cos(np.pi * np.arange(DEGREE + 1) / DEGREE))


@cache
def _transform() -> Array:
    """Return the matrix that takes values at the points to coefficients of Chebyshev polynomials."""
    k = np.arange(DEGREE + 1)
    half = np.where((k == 0) | (k == DEGREE), 0.5, 1.0)
    cosines = np.cos(np.pi * np.outer(k, DEGREE - k) / DEGREE)
    return np.asarray(2.0 / DEGREE * half[:, None] * cosines * half)


def coefficients(values: Array) -> Array:
    """Return the Chebyshev coefficients of the interpolant of values at the points, along the first axis."""
    return np.asarray(_transform() @ values)


@cache
def _cells() -> tuple[Array, Array, Array]:
    """Return the centres and half-widths of all cells, and the Chebyshev polynomials at the centres."""
    x, shares = points(), (0.5 + np.arange(_CELLS)) / _CELLS
    width = np.diff(x)[:, None]
    centres = (x[:-1, None] + width * shares).ravel()
    return centres, np.repeat(0.5 * width / _CELLS, _CELLS), np.asarray(chebyshev.chebvander(centres, DEGREE))


def minima_of_polynomial(coefficients: Array) -> tuple[Array, float, float]:
    """Return a lower bound of a polynomial on every stretch between the points, from its Chebyshev coefficients; and
    where it is smallest, as near as Newton's method comes, with the value there.
    """
    centres, d, basis = _cells()
    series = np.zeros((DEGREE + 1, 5))  # the coefficients of the derivatives of order 0 to 4
    for order in range(5):
        series[: DEGREE + 1 - order, order] = chebyshev.chebder(coefficients, order)
    p, slope, curvature, third = (basis @ series[:, :4]).T
    bent = curvature - (np.abs(third) + np.abs(series[:, 4]).sum() * d) * d / 3.0
    at_end = p - np.abs(slope) * d + 0.5 * bent * d**2
    inside = (bent > 0.0) & (np.abs(slope) < bent * d)
    with np.errstate(divide="ignore", invalid="ignore"):
        lowest = np.where(inside, p - 0.5 * slope**2 / bent, at_end)
    ends = np.array([-1.0, 1.0])
    tried = np.concatenate([ends, centres])
    point = x = float(tried[np.concatenate([chebyshev.chebval(ends, coefficients), p]).argmin()])
    for _ in range(_STEPS):
        _, slope_at, curvature_at = (chebyshev.chebval(x, series[:, k]) for k in range(3))
        if not curvature_at > 0.0:
            break
        x = float(np.clip(x - slope_at / curvature_at, -1.0, 1.0))
    value, polished = (float(chebyshev.chebval(place, coefficients)) for place in (point, x))
    # at a minimum values differ by less than their rounding, so the slope decides where they tie
    point, value = (x, polished) if polished <= value + _TIED * abs(value) else (point, value)
    return lowest.reshape(DEGREE, _CELLS).min(axis=1), point, value


def ellipse(half_length: float, angles: Array) -> tuple[Array, Array]:
    """Return rho of the ellipses that reach the given angles, and how far they reach beyond the ends of the
    interval.
    """
    beta = angles / half_length
    rho = beta + np.sqrt(1.0 + beta**2)
    return rho, 0.5 * half_length * (rho + 1.0 / rho) - half_length


def growth_on_ellipse(half_length: float, angles: Array, cone: int, growth: float) -> Array:
    """Return the logarithm of M over the ceiling on the interval."""
    _, beyond = ellipse(half_length, angles)
    return np.asarray(growth * beyond - cone * np.log(np.cos(angles / 2.0)))


def interpolation_error(half_length: float, ceiling: Array, cone: int, growth: float) -> Array:
    """Return the largest difference between function and interpolant, by the best of many ellipses; none on a point."""
    if half_length == 0.0:
        return np.zeros_like(ceiling)
    rho, _ = ellipse(half_length, _ANGLES)
    logarithm = growth_on_ellipse(half_length, _ANGLES, cone, growth) - DEGREE * np.log(rho) - np.log(rho - 1.0)
    with np.errstate(over="ignore"):
        return np.asarray(4.0 * (1.0 + relative_rounding(64.0)) * np.exp(logarithm.min()) * ceiling)
