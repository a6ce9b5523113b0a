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
_TIED = 1e-14


@dataclass(frozen=True, slots=True)
class Minimum:
    """A bound from below, the best point found and its value."""

    lower_bound: float
    point: float
    value: float


@cache
def _cells(degree: int) -> tuple[Array, Array]:
    """Centres of the first cells and the ends, and the Chebyshev polynomials with two derivatives there."""
    width = 1.0 / _FIRST_CELLS
    x = np.concatenate([-1.0 + width * (1.0 + 2.0 * np.arange(_FIRST_CELLS)), [-1.0, 1.0]])
    return x, _basis(x, degree)


def _basis(x: Array, degree: int) -> Array:
    """Values, slopes and curvatures of all Chebyshev polynomials at x: shape (3, points, degree + 1)."""
    unit = np.eye(degree + 1)
    return np.stack([chebyshev.chebval(x, chebyshev.chebder(unit, order)).T for order in (0, 1, 2)])


@cache
def _third_derivative(degree: int) -> Array:
    return np.asarray(chebyshev.chebder(np.eye(degree + 1), 3))


def minimum_of_polynomial(coefficients: Array, known: float, slack: float) -> Minimum:
    """Bound a polynomial on [-1, 1], given by its Chebyshev coefficients.

    The bound is within ``slack`` of the minimum, or above ``known - slack`` where the minimum is larger than ``known``:
    nobody asks how much larger.
    """
    degree = coefficients.size - 1
    m3 = float(np.abs(_third_derivative(degree) @ coefficients).sum())
    x, basis = _cells(degree)
    at = basis @ coefficients
    first = int(at[0].argmin())
    point, value = float(x[first]), float(at[0, first])
    centres, width = x[:-2], 1.0 / _FIRST_CELLS
    p, slope, curvature = at[:, :-2]
    bound = float(at[0, -2:].min())
    for halving in range(_MOST_HALVINGS):
        if halving:
            p, slope, curvature = _basis(centres, degree) @ coefficients
        lowest, offset = _parabola(p, slope, curvature - m3 * width, width)
        best = int(p.argmin())
        trial = float(centres[best] + offset[best])
        at_trial = float(chebyshev.chebval(trial, coefficients))
        if at_trial < value:
            point, value = trial, at_trial
        open_cells = lowest < min(value, known) - slack
        bound = min(bound, float(lowest[~open_cells].min(initial=np.inf)))
        if not open_cells.any():
            return Minimum(bound, *_polished(coefficients, point, value))
        left = centres[open_cells]
        width /= 2.0
        centres = np.concatenate([left - width, left + width])
    # rounding of p itself exceeds the slack: what is left is bounded by the last cells
    return Minimum(min(bound, float(lowest.min())), *_polished(coefficients, point, value))


def _polished(coefficients: Array, point: float, value: float) -> tuple[float, float]:
    """Newton's steps to the stationary point next to the best one found, which differs from it by a cell at most."""
    first, second = chebyshev.chebder(coefficients), chebyshev.chebder(coefficients, 2)
    x = point
    for _ in range(_MOST_STEPS):
        curvature = float(chebyshev.chebval(x, second))
        if not curvature > 0.0:
            return point, value
        x = float(np.clip(x - float(chebyshev.chebval(x, first)) / curvature, -1.0, 1.0))
    at_x = float(chebyshev.chebval(x, coefficients))
    # at a minimum values differ by less than their rounding, so the slope decides where they tie
    return (x, at_x) if at_x <= value + _TIED * abs(value) else (point, value)


def _parabola(p: Array, slope: Array, curvature: Array, width: float) -> tuple[Array, Array]:
    """Minima of p + slope tau + curvature tau^2 / 2 on [-width, width], and where."""
    down = -np.sign(slope) * width
    at_end = p - np.abs(slope) * width + 0.5 * curvature * width**2
    inside = (curvature > 0.0) & (np.abs(slope) < curvature * width)
    with np.errstate(divide="ignore", invalid="ignore"):
        vertex = np.where(inside, -slope / curvature, down)
        at_vertex = np.where(inside, p - 0.5 * slope**2 / curvature, at_end)
    return at_vertex, vertex
