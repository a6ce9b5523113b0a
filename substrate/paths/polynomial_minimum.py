r"""A lower bound of polynomials on an interval, by branch and bound on second-order Taylor bounds.

On a cell of centre c and half-width d, with :math:`|p'''| \le m_3` on the whole interval,

.. math:: p(c + \tau) \ge p(c) + p'(c) \tau + \tfrac12 \left(p''(c) - m_3 d\right) \tau^2, \qquad |\tau| \le d,

a parabola whose minimum is known. Cells whose bound is below the target are halved. The difference shrinks like
:math:`d^3`, so few cells are left around each minimum.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.polynomial import chebyshev

from substrate.arrays import Array

__all__ = ["Minimum", "minimum_of_polynomial"]

_FIRST_CELLS = 64
_MOST_HALVINGS = 40
_MOST_STEPS = 5
_TIED = 1e-13


@dataclass(frozen=True, slots=True)
class Minimum:
    """A bound from below, the best point found and its value."""

    lower_bound: float
    point: float
    value: float


@cache
def _derivatives(degree: int) -> tuple[Array, ...]:
    """Matrices that take Chebyshev coefficients to those of the first three derivatives, of the same length."""
    first = np.zeros((degree + 1, degree + 1))
    first[:-1] = chebyshev.chebder(np.eye(degree + 1))
    return first, first @ first, first @ first @ first


def _polynomials(x: Array, degree: int) -> Array:
    """All Chebyshev polynomials at x, a row a point."""
    return np.asarray(np.cos(np.outer(np.arccos(x), np.arange(degree + 1))))


@cache
def _first_cells(degree: int) -> tuple[Array, Array]:
    """Centres of the first cells, then the two ends, and the polynomials there."""
    x = np.concatenate([-1.0 + (1.0 + 2.0 * np.arange(_FIRST_CELLS)) / _FIRST_CELLS, [-1.0, 1.0]])
    return x, _polynomials(x, degree)


def minimum_of_polynomial(coefficients: Array, known: float, slack: float) -> Minimum:
    """Bound a polynomial on [-1, 1], given by its Chebyshev coefficients.

    The bound is within ``slack`` of the minimum, or above ``known - slack`` where the minimum is larger than ``known``:
    nobody asks how much larger.
    """
    degree = coefficients.size - 1
    first, second, third = (matrix @ coefficients for matrix in _derivatives(degree))
    series = np.column_stack([coefficients, first, second])
    m3 = float(np.abs(third).sum())
    x, basis = _first_cells(degree)
    at = basis @ series
    start = int(at[:, 0].argmin())
    point, value = float(x[start]), float(at[start, 0])
    bound = float(at[-2:, 0].min())
    centres, width, at = x[:-2], 1.0 / _FIRST_CELLS, at[:-2]
    for _ in range(_MOST_HALVINGS):
        p, slope, curvature = at.T
        lowest = _parabola(p, slope, curvature - m3 * width, width)
        best = int(p.argmin())
        if p[best] < value:
            point, value = float(centres[best]), float(p[best])
        open_cells = lowest < min(value, known) - slack
        bound = min(bound, float(lowest[~open_cells].min(initial=np.inf)))
        if not open_cells.any():
            break
        left = centres[open_cells]
        width /= 2.0
        centres = np.concatenate([left - width, left + width])
        at = _polynomials(centres, degree) @ series
    else:  # rounding of p itself exceeds the slack: what is left is bounded by the last cells
        bound = min(bound, float(lowest.min()))
    return Minimum(bound, *_polished(series, point, value))


def _polished(series: Array, point: float, value: float) -> tuple[float, float]:
    """Newton's steps to the stationary point next to the best one found, which differs from it by a cell at most."""
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
    """Minima of p + slope tau + curvature tau^2 / 2 on [-width, width]."""
    at_end = p - np.abs(slope) * width + 0.5 * curvature * width**2
    inside = (curvature > 0.0) & (np.abs(slope) < curvature * width)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(inside, p - 0.5 * slope**2 / curvature, at_end))
