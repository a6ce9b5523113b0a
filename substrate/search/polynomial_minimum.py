r"""Polynomial interpolants of analytic functions, with bounds on their error and on their minimum over an interval.

The minimum is found by branch and bound. On a cell of centre c and half-width d, with :math:`|p'''| \le m_3` on the
whole interval,

.. math:: p(c + \tau) \ge p(c) + p'(c) \tau + \tfrac12 \left(p''(c) - m_3 d\right) \tau^2, \qquad |\tau| \le d,

a parabola whose minimum is known. Cells whose bound is below the target are halved. The difference shrinks like
:math:`d^3`, so few cells are left around each minimum.

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

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.numbers import relative_rounding

__all__ = [
    "DEGREE",
    "LEBESGUE",
    "coefficients",
    "interpolation_error",
    "largest_on_cells",
    "minimum_of_polynomial",
    "points",
]

_FIRST_CELLS = 64
_MOST_HALVINGS = 40
_MOST_STEPS = 5
_TIED = 1e-13


@dataclass(frozen=True, slots=True)
class Minimum:
    """A bound from below, the best point found and its value; and a bound for every one of the first cells."""

    lower_bound: float
    point: float
    value: float
    cells: Array


@cache
def _derivatives(degree: int) -> tuple[Array, ...]:
    """Return matrices that take Chebyshev coefficients to those of the first three derivatives."""
    first = np.zeros((degree + 1, degree + 1))
    first[:-1] = chebyshev.chebder(np.eye(degree + 1))
    return first, first @ first, first @ first @ first


def _polynomials(x: Array, degree: int) -> Array:
    """Return all Chebyshev polynomials at x, one row per point."""
    return np.asarray(np.cos(np.outer(np.arccos(x), np.arange(degree + 1))))


@cache
def _first_cells(degree: int) -> tuple[Array, Array]:
    """Return the centres of the first cells, then the two ends, and the polynomials there."""
    x = np.concatenate([-1.0 + (1.0 + 2.0 * np.arange(_FIRST_CELLS)) / _FIRST_CELLS, [-1.0, 1.0]])
    return x, _polynomials(x, degree)


def minimum_of_polynomial(coefficients: Array, upper_bound: float, slack: float) -> Minimum:
    """Bound a polynomial on [-1, 1], given by its Chebyshev coefficients.

    The bound is within ``slack`` of the minimum, or above ``known - slack`` where the minimum is larger than ``known``.
    """
    degree = coefficients.size - 1
    first, second, third = (matrix @ coefficients for matrix in _derivatives(degree))
    series = np.column_stack([coefficients, first, second])
    m3 = float(np.abs(third).sum())
    x, basis = _first_cells(degree)
    at = basis @ series
    start = int(at[:, 0].argmin())
    point, value = float(x[start]), float(at[start, 0])
    ends = float(at[-2:, 0].min())
    centres, width, at = x[:-2], 1.0 / _FIRST_CELLS, at[:-2]
    cells, owners = np.full(_FIRST_CELLS, np.inf), np.arange(_FIRST_CELLS)
    for _ in range(_MOST_HALVINGS):
        p, slope, curvature = at.T
        lowest = _parabola(p, slope, curvature - m3 * width, width)
        best = int(p.argmin())
        if p[best] < value:
            point, value = float(centres[best]), float(p[best])
        open_cells = lowest < min(value, upper_bound) - slack
        np.minimum.at(cells, owners[~open_cells], lowest[~open_cells])
        if not open_cells.any():
            break
        centres_left, parents = centres[open_cells], owners
        owners = np.tile(owners[open_cells], 2)
        width /= 2.0
        centres = np.concatenate([centres_left - width, centres_left + width])
        at = _polynomials(centres, degree) @ series
    else:  # rounding of p itself exceeds the slack: the remaining cells give the bound
        np.minimum.at(cells, parents, lowest)
    return Minimum(min(ends, float(cells.min())), *_polish(series, point, value), cells)


def _polish(series: Array, point: float, value: float) -> tuple[float, float]:
    """Take Newton's steps to the stationary point next to the best one, which is at most a cell away."""
    x = point
    for _ in range(_MOST_STEPS):
        _, slope, curvature = (_polynomials(np.array([x]), series.shape[0] - 1) @ series)[0]
        if not curvature > 0.0:
            return point, value
        x = float(np.clip(x - slope / curvature, -1.0, 1.0))
    at_x = float((_polynomials(np.array([x]), series.shape[0] - 1) @ series)[0, 0])
    # at a minimum values differ by less than their rounding, so the slope decides where they tie
    return (x, at_x) if at_x <= value + _TIED * abs(value) else (point, value)


def _parabola(p: Array, slope: Array, curvature: Array, width: float) -> Array:
    """Return the minima of p + slope tau + curvature tau^2 / 2 on [-width, width]."""
    at_end = p - np.abs(slope) * width + 0.5 * curvature * width**2
    inside = (curvature > 0.0) & (np.abs(slope) < curvature * width)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(inside, p - 0.5 * slope**2 / curvature, at_end))


#: Degree of every interpolant: about the fewest evaluations in all over ten decades of lambda.
DEGREE = 32
#: A bound on the factor by which interpolation in these points magnifies errors of the values.
LEBESGUE = 1.0 + 2.0 / np.pi * float(np.log(DEGREE + 1.0))

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


@cache
def _points_of_cells() -> NDArray[np.bool_]:
    """Return which stretches, from a point to the next, meet each of the first cells; the last point has none."""
    edges, x = -1.0 + 2.0 * np.arange(_FIRST_CELLS + 1) / _FIRST_CELLS, points()
    meet = (x[None, :-1] <= edges[1:, None] + 1e-12) & (x[None, 1:] >= edges[:-1, None] - 1e-12)
    return np.column_stack([meet, np.zeros(_FIRST_CELLS, dtype=bool)])


def largest_on_cells(stretches: Array) -> Array:
    """Return the largest of numbers that hold from each point to the next, on every one of the first cells."""
    return np.asarray(np.where(_points_of_cells(), stretches, 0.0).max(axis=1))


def coefficients(values: Array) -> Array:
    """Return the Chebyshev coefficients of the interpolant of values at the points, along the first axis."""
    return np.asarray(_transform() @ values)


def ellipse(half_length: float, angles: Array) -> tuple[Array, Array]:
    """rho of the ellipses that reach the given angles, and how far they reach beyond the ends of the interval."""
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
