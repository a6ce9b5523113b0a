r"""Weights of the rows from their errors, which make a least-squares fit robust.

With a robust scale :math:`\hat s` of the errors and :math:`r_k = e_k / \hat s`, the weight of a row is

.. math::

    \text{hampel:} \quad v_k = \begin{cases} 1 & |r_k| \le c_1 \\ (c_2 - |r_k|) / (c_2 - c_1) & c_1 < |r_k| < c_2 \\
    10^{-4} & \text{otherwise} \end{cases}, \qquad
    \text{huber:} \quad v_k = \min(1, \beta / |r_k|), \qquad
    \text{logistic:} \quad v_k = \frac{\tanh r_k}{r_k}, \qquad
    \text{myriad:} \quad v_k = \frac{\delta^2}{\delta^2 + r_k^2}

and the scale is either of

.. math:: \hat s = \frac{\mathrm{IQR}(e)}{2 \cdot 0.6745}, \qquad \hat s = 1.483 \, \mathrm{MAD}(e) .

Hampel's weight with :math:`c_1 = 2.5`, :math:`c_2 = 3` and both scales are [Suykens2002]_ eq. (14)-(15); the other
weights are compared in [DeBrabanter2009]_, here with :math:`\beta = 1.345`, and :math:`\delta = 0.6745`, half the
interquartile range of a Gaussian of unit scale. Errata of (14)-(15): the ramp falls to 0 at :math:`c_2`, where
:math:`1/(\gamma v_k)` is infinite, so that every weight is kept at or above :math:`10^{-4}`; the MAD is taken over the
errors, not over the inputs.

Quantiles are taken from the weighted distribution function, as the mean of both ends where it is level: a row of weight
two counts as two rows, and a factor common to all weights changes nothing.

**Density.** [Suykens2002]_ section 3 weighs a row down from :math:`c_1 = 2.5` robust deviations on, fully from
:math:`c_2 = 3`, or takes both from an estimate of the density of the errors, without a formula. Here they are the sizes
at which that density first falls to what a Gaussian has there,

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
from substrate.errors import DeclarationError

__all__ = [
    "LEAST_WEIGHT",
    "SCALES",
    "WEIGHTINGS",
    "check_choice",
    "density_thresholds",
    "robust_scale",
    "robust_weights",
    "weighted_quantile",
]

#: The last one needs all errors at once, the others the scale of the errors alone.
WEIGHTINGS: tuple[str, ...] = ("hampel", "huber", "logistic", "myriad", "density")
SCALES: tuple[str, ...] = ("iqr", "mad")
#: No row weighs less: its diagonal 1/(gamma v) stays finite.
LEAST_WEIGHT = 1e-4

#: Where the usual ramp of the weights begins and ends, in deviations of a Gaussian.
_USUAL = (2.5, 3.0)
_HUBER = 1.345
_QUARTILE = 0.6745  # of a Gaussian of unit scale
_MAD_TO_DEVIATION = 1.483
#: Beyond this ratio every weight is the least one, and squares must not overflow.
_ENORMOUS = 1e8
#: A scale this small against the largest error is the rounding of equal errors.
_ROUNDED = 1e-13
#: Cumulated weights this near to a level count as equal to it: sums of N weights round.
_LEVEL = 1e-12


def check_choice(value: object, choices: tuple[str, ...], name: str) -> str:
    """Return the value, if it is one of the known names."""
    if not isinstance(value, str) or value not in choices:
        raise DeclarationError(f"{name} must be one of {', '.join(choices)}, received {value!r}")
    return value


def weighted_quantile(values: Array, level: float, weights: Array | None = None) -> float:
    """Return the quantile of the weighted distribution function, the mean of both ends of a level stretch."""
    order = np.argsort(values, kind="stable")
    cumulated = np.cumsum(np.ones(values.size) if weights is None else weights[order])
    target, slack = level * cumulated[-1], _LEVEL * cumulated[-1]
    first = int(np.searchsorted(cumulated, target - slack))
    last = min(int(np.searchsorted(cumulated, target + slack, side="right")), values.size - 1)
    return float(0.5 * values[order[first]] + 0.5 * values[order[last]])


def robust_scale(errors: Array, scale: str = "iqr", weights: Array | None = None) -> float:
    """Return the standard deviation that a Gaussian with these quartiles, or this median absolute deviation, would
    have.

    It is zero where half of the errors are equal up to rounding.

    :equation [Suykens2002]_ (15): the scale from the interquartile range, and the scale of the line after it
    """

    check_choice(scale, SCALES, "scale")
    if scale == "iqr":
        low, high = (weighted_quantile(errors, level, weights) for level in (0.25, 0.75))
        estimate = (high - low) / (2.0 * _QUARTILE)
    else:
        distances = np.abs(errors - weighted_quantile(errors, 0.5, weights))
        estimate = _MAD_TO_DEVIATION * weighted_quantile(distances, 0.5, weights)
    return estimate if estimate > _ROUNDED * float(np.abs(errors).max()) else 0.0


def robust_weights(
    errors: Array,
    scale: float,
    weighting: str = "hampel",
    thresholds: tuple[float, float] = _USUAL,
    weights: Array | None = None,
) -> Array:
    """Return one weight in [1e-4, 1] per row; all ones where the scale is zero, since no error is then large or small.

    ``thresholds`` are c1 and c2 of Hampel's weights; ``"density"`` takes them from the density of the errors, in which
    the rows have these ``weights``.

    :equation [Suykens2002]_ (14): Hampel's weights
    """
    check_choice(weighting, WEIGHTINGS, "weighting")
    if scale == 0.0:
        return np.ones(errors.size)
    with np.errstate(over="ignore"):
        r = np.minimum(np.abs(errors) / scale, _ENORMOUS)
    if weighting in ("hampel", "density"):
        first, last = thresholds if weighting == "hampel" else density_thresholds(errors, scale, weights)
        v = np.clip((last - r) / (last - first), 0.0, 1.0)
    elif weighting == "huber":
        v = _HUBER / np.maximum(r, _HUBER)
    elif weighting == "logistic":
        none = r == 0.0
        v = np.where(none, 1.0, np.tanh(r) / np.where(none, 1.0, r))
    else:
        v = 1.0 / (1.0 + (r / _QUARTILE) ** 2)
    return np.asarray(np.maximum(v, LEAST_WEIGHT))


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
