r"""Confidence bands of the mean: where the function that the targets scatter about is, pointwise or everywhere at once.

A least-squares machine with kernel and gamma fixed is a linear smoother, :math:`f(x) = l(x)^T y` with :math:`l = c` of
:mod:`~substrate.intervals.conformal` and :math:`H` its rows at the training points ([DeBrabanter2011]_). What it is
biased by is estimated by smoothing once more, :math:`\hat b(x) = l(x)^T H y - f(x)`, so that

.. math:: f_c(x) = f(x) - \hat b(x) = f(x) + l(x)^T e, \qquad l_c(x) = (2 I - H)^T l(x), \qquad e = y - H y,

is a linear smoother too. Its variance follows from :math:`l_c`, and is larger than the variance from l:
[DeBrabanter2011]_ uses the latter, and bands that are corrected but not widened cover less than they state
([Calonico2018]_).

With the noise of variance :math:`s^2 / v_i` at row i, :math:`S = V^{1/2} (I - H) V^{-1/2}` (squared for the corrected
machine) and :math:`\delta_k = \operatorname{tr} (S^T S)^k`,

.. math:: \hat s^2 = \frac{\lVert S V^{1/2} y \rVert^2}{\delta_1}, \qquad
          \text{band} = f_c(x) \pm q\, \hat s\, \lVert V^{-1/2} l_c(x) \rVert, \qquad \nu = \delta_1^2 / \delta_2 ,

q a quantile of Student's t with :math:`\nu` degrees of freedom. Where the noise varies from row to row, weights of the
rows say how.

*Everywhere at once*, along a curve, the tube formula of [SunLoader1994]_ gives q: with :math:`\kappa` the length of the
curve of the unit vectors along :math:`V^{-1/2} l_c(x)`,

.. math:: \frac{\kappa}{\pi} \Big( 1 + \frac{q^2}{\nu} \Big)^{-\nu/2} + P(|t_\nu| > q) = 1 - \text{coverage} .

The length is measured along a polygon of great circles with more and more corners, so that no derivative of the kernel
is needed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.errors import DataError
from substrate.numbers import relative_rounding

__all__ = ["Smoother", "curve_length", "tube_quantile"]

#: Relative change of the length of a curve at which it is known well enough: q depends on its logarithm.
_SETTLED = 1e-3
_FIRST_CORNERS, _MOST_CORNERS = 128, 16_384


@dataclass(frozen=True, slots=True)
class Smoother:
    """One output of a machine as a linear function of its targets, in coordinates in which the noise has one variance.

    ``remainder`` is :math:`V^{1/2} (I - H) V^{-1/2}`, ``errors`` are :math:`V^{1/2} (y - H y)` and ``roots`` the square
    roots of the weights.
    """

    remainder: Array
    errors: Array
    roots: Array
    corrected: bool

    @classmethod
    def of(cls, hat: Array, errors: Array, weights: Array, corrected: bool) -> "Smoother":
        """Return the smoother of a hat matrix, the errors of its rows, and their weights."""
        roots = np.sqrt(weights)
        remainder = -roots[:, None] * hat / roots
        remainder[np.diag_indices(roots.size)] += 1.0
        return cls(remainder=remainder, errors=roots * errors, roots=roots, corrected=corrected)

    def noise(self) -> tuple[float, float]:
        """Return the deviation of the noise of a row of weight one, and the degrees of freedom of its estimate."""
        S = self.remainder @ self.remainder if self.corrected else self.remainder
        inner = S.T @ S
        first, second = float(np.trace(inner)), float(np.square(inner).sum())
        if not first > relative_rounding(100.0 * S.shape[0]) * S.shape[0]:
            raise DataError(
                "the machine passes through all targets, which leaves no degree of freedom for the noise; use a "
                "smaller gamma"
            )
        unit = float(np.abs(self.errors).max())
        if unit == 0.0:
            return 0.0, first * first / second
        errors = self.errors / unit
        if self.corrected:
            errors = self.remainder @ errors
        return unit * float(np.linalg.norm(errors)) / math.sqrt(first), first * first / second

    def shift(self, rows: Array) -> Array:
        """Return the correction of the bias at x, from lines l(x)."""
        if not self.corrected:
            return np.zeros(rows.shape[0])
        return np.asarray((rows / self.roots) @ self.errors)

    def lines(self, rows: Array) -> Array:
        """Return the lines of the smoother in use, in coordinates of one variance, from lines l(x)."""
        lines = rows / self.roots
        return np.asarray(lines + lines @ self.remainder if self.corrected else lines)


def curve_length(unit_lines: Callable[[Array], Array], corners: Array) -> float:
    """Return the length of a curve of unit vectors along the polyline through some points, one line each.

    ``unit_lines`` gives the vectors at points; corners are added between the points until the length settles.
    """
    if corners.shape[0] < 2:
        return 0.0
    steps = np.abs(np.diff(corners, axis=0)).sum(axis=1)
    corners = corners[np.concatenate([[True], steps > 0.0])]
    length = 0.0
    pieces = max(1, math.ceil(_FIRST_CORNERS / max(1, corners.shape[0] - 1)))
    while corners.shape[0] > 1:
        between = np.linspace(0.0, 1.0, pieces, endpoint=False)
        points = (corners[:-1, None, :] + between[None, :, None] * np.diff(corners, axis=0)[:, None, :]).reshape(
            -1, corners.shape[1]
        )
        vectors = unit_lines(np.concatenate([points, corners[-1:]]))
        before, after = vectors[:-1], vectors[1:]
        # the angle between unit vectors, accurate also where it is small
        angles = 2.0 * np.arctan2(np.linalg.norm(after - before, axis=1), np.linalg.norm(after + before, axis=1))
        longer = float(angles.sum())
        if longer - length <= _SETTLED * longer or vectors.shape[0] > _MOST_CORNERS:
            return longer
        length, pieces = longer, 2 * pieces
    return 0.0


def tube_quantile(coverage: float, freedom: float, length: float = 0.0) -> float:
    """Return q of a band along a curve of that length; without one the two-sided quantile of Student's t.

    :place [SunLoader1994]_ the tube formula: the quantile of a band that holds along a whole curve
    """
    from scipy.optimize import brentq
    from scipy.special import stdtr

    miss = 1.0 - coverage

    def excess(q: float) -> float:
        tube = length / math.pi * math.exp(-0.5 * freedom * math.log1p(q * q / freedom))
        return tube + 2.0 * float(stdtr(freedom, -q)) - miss

    high = 1.0
    while excess(high) > 0.0:
        high *= 2.0
    return float(brentq(excess, 0.0, high, xtol=1e-12))
