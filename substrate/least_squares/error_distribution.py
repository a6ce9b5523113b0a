r"""The distribution of the errors of a fit: from which size on errors are rare.

[Suykens2002]_ section 3 weighs a row down from :math:`c_1 = 2.5` robust deviations on, fully from :math:`c_2 = 3`, or
takes both from an estimate of the density of the errors, without a formula. Here they are the sizes at which that
density first falls to what a Gaussian has there,

.. math:: c_1 = \inf \{ t \ge m : \hat p(t) \le \varphi(2.5) \}, \qquad
          c_2 = \inf \{ t \ge c_1 : \hat p(t) \le \varphi(3) \},

with m the median of :math:`|r_k|`, :math:`r_k = e_k / \hat s`, and the density symmetric about zero, as the paper
assumes,

.. math:: \hat p(t) = \frac{q}{2 h} \sum_k \frac{v_k}{\sum_j v_j} \Big[ \varphi\Big(\frac{q t - |r_k|}{h}\Big)
          + \varphi\Big(\frac{q t + |r_k|}{h}\Big) \Big], \qquad h = 0.9\, n^{-1/5}, \qquad q = \sqrt{1 + h^2} .

q takes back the variance that smoothing adds, so that Gaussian errors have :math:`c_1 = 2.5` and :math:`c_2 = 3` for
every h. Errors that are separated from the others, however many, end the ramp before them; heavy tails move it outward.
"""

from collections.abc import Callable

import numpy as np

from substrate.arrays import Array
from substrate.least_squares.robust_weights import WEIGHTINGS, robust_weights, weighted_quantile

__all__ = ["ALL_WEIGHTINGS", "density_thresholds", "weigh_by_density"]

#: The weightings that need all errors at once, and those that need the scale of the errors alone.
ALL_WEIGHTINGS: tuple[str, ...] = (*WEIGHTINGS, "density")

#: Where the usual ramp of the weights begins and ends, in deviations of a Gaussian.
_USUAL = (2.5, 3.0)
#: The ramp is at least this long.
_SHORTEST = 0.1
_STEP = 0.01
#: Grid points that are evaluated together, and rows times grid points that are held at a time.
_BLOCK = 100
_MOST_CELLS = 4_000_000
#: The first crossing is below 1 / (2 phi(3)), since the density has mass one half on each side.
_FARTHEST = 120.0


def _normal_density(t: Array) -> Array:
    with np.errstate(under="ignore"):
        return np.asarray(np.exp(-0.5 * np.square(t)) / np.sqrt(2.0 * np.pi))


def density_thresholds(errors: Array, scale: float, weights: Array | None = None) -> tuple[float, float]:
    """Return c1 and c2, in units of the scale, from the density of the errors; 2.5 and 3 where the scale is zero.

    :place [Suykens2002]_ section 3, after (15): c1 and c2 by a density estimate
    """
    if scale == 0.0:
        return _USUAL
    with np.errstate(over="ignore"):
        sizes = np.minimum(np.abs(errors) / scale, 2.0 * _FARTHEST)
    shares = np.full(sizes.size, 1.0 / sizes.size) if weights is None else weights / weights.sum()
    count = 1.0 / float(np.square(shares).sum())  # as many rows of equal weight
    h = 0.9 * count ** (-0.2)
    q = float(np.sqrt(1.0 + h * h))

    def density(t: Array) -> Array:
        values = np.zeros(t.size)
        for start in range(0, sizes.size, max(1, _MOST_CELLS // t.size)):
            rows = slice(start, start + max(1, _MOST_CELLS // t.size))
            for sign in (-1.0, 1.0):
                values += _normal_density((q * t[:, None] + sign * sizes[None, rows]) / h) @ shares[rows]
        return np.asarray(0.5 * q / h * values)

    ends: list[float] = []
    at = weighted_quantile(sizes, 0.5, weights)
    for level in _normal_density(np.array(_USUAL)):
        at = _first_below(density, at, float(level))
        ends.append(at)
    return ends[0], max(ends[1], ends[0] + _SHORTEST)


def weigh_by_density(
    errors: Array, scale: float, weighting: str, weights: Array | None = None
) -> tuple[Array, tuple[float, float]]:
    """Return robust weights by any of ``ALL_WEIGHTINGS``, and c1 and c2, which are 2.5 and 3 but for ``"density"``.

    ``"density"`` is Hampel's weight between the thresholds of the density of the errors; ``weights`` are the weights of
    the rows in it.
    """
    if weighting != "density":
        return robust_weights(errors, scale, weighting), _USUAL
    thresholds = density_thresholds(errors, scale, weights)
    return robust_weights(errors, scale, "hampel", thresholds), thresholds


def _first_below(density: Callable[[Array], Array], start: float, level: float) -> float:
    """Return the first point from ``start`` on at which the density is at the level, or below, by lines on a grid."""
    while start < _FARTHEST:
        t = start + _STEP * np.arange(_BLOCK + 1, dtype=np.float64)
        p = density(t)
        (below,) = np.nonzero(p <= level)
        if below.size:
            last = int(below[0])
            if last == 0:
                return start
            return float(t[last] - _STEP * (level - p[last]) / (p[last - 1] - p[last]))
        start = float(t[-1])
    return _FARTHEST
