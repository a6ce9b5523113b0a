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
"""

import numpy as np

from substrate.arrays import Array
from substrate.errors import DeclarationError

__all__ = [
    "LEAST_WEIGHT",
    "SCALES",
    "WEIGHTINGS",
    "check_choice",
    "robust_scale",
    "robust_weights",
    "weighted_quantile",
]

WEIGHTINGS: tuple[str, ...] = ("hampel", "huber", "logistic", "myriad")
SCALES: tuple[str, ...] = ("iqr", "mad")
#: No row weighs less: its diagonal 1/(gamma v) stays finite.
LEAST_WEIGHT = 1e-4

_C1, _C2 = 2.5, 3.0
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
    errors: Array, scale: float, weighting: str = "hampel", thresholds: tuple[float, float] = (_C1, _C2)
) -> Array:
    """Return one weight in [1e-4, 1] per row; all ones where the scale is zero, since no error is then large or small.

    ``thresholds`` are c1 and c2 of Hampel's weights.

    :equation [Suykens2002]_ (14): Hampel's weights
    """
    check_choice(weighting, WEIGHTINGS, "weighting")
    if scale == 0.0:
        return np.ones(errors.size)
    with np.errstate(over="ignore"):
        r = np.minimum(np.abs(errors) / scale, _ENORMOUS)
    if weighting == "hampel":
        first, last = thresholds
        v = np.clip((last - r) / (last - first), 0.0, 1.0)
    elif weighting == "huber":
        v = _HUBER / np.maximum(r, _HUBER)
    elif weighting == "logistic":
        none = r == 0.0
        v = np.where(none, 1.0, np.tanh(r) / np.where(none, 1.0, r))
    else:
        v = 1.0 / (1.0 + (r / _QUARTILE) ** 2)
    return np.asarray(np.maximum(v, LEAST_WEIGHT))
