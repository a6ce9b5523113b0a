r"""The minimum on a line of a norm and of losses whose slopes are clipped: Huber's loss, and the squared hinge.

.. math:: \phi'(s) = p + c s - \sum_i u_i \, \mathrm{clip}(e_i - s m_i,\, l,\, h)\, m_i

is the slope of the objective along a line on which the errors are :math:`e - s m`. It never falls with s, and is linear
between the values of s at which a row reaches a bound or leaves it, so that its root is found by bisection over these.
"""

from bisect import bisect_left

import numpy as np

from substrate.arrays import Array

__all__ = ["find_root"]


def find_root(
    e: Array, move: Array, pulls: Array, bounds: tuple[float, float], slope: float, curvature: float
) -> float:
    """Return where the slope is zero; the middle where it is zero on a stretch. A bound may be infinite."""
    low, high = bounds

    def value(s: float) -> float:
        return slope + curvature * s - float(pulls * np.clip(e - s * move, low, high) @ move)

    moving = move != 0.0
    ends = [(e[moving] - bound) / move[moving] for bound in (high, low) if np.isfinite(bound)]
    knots = np.unique(np.concatenate(ends))
    if not knots.size:
        return -value(0.0) / curvature if curvature > 0.0 else 0.0
    first = bisect_left(range(knots.size), True, key=lambda k: value(float(knots[k])) >= 0.0)
    after = bisect_left(range(knots.size), True, key=lambda k: value(float(knots[k])) > 0.0)
    if first < after:
        return 0.5 * float(knots[first] + knots[after - 1])
    if 0 < first < knots.size:
        lower_knot, upper_knot = float(knots[first - 1]), float(knots[first])
        below, above = value(lower_knot), value(upper_knot)
        return lower_knot - below * (upper_knot - lower_knot) / (above - below)
    # beyond all knots the slope is linear: by two of its values
    end = float(knots[0] if first == 0 else knots[-1])
    beyond = end - 1.0 - abs(end) if first == 0 else end + 1.0 + abs(end)
    rise = (value(beyond) - value(end)) / (beyond - end)
    return end - value(end) / rise if rise > 0.0 else end
