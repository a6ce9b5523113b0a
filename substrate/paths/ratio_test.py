r"""Which event ends a segment: the ratio test of [Harris1973]_.

Along a segment slacks :math:`s_i \ge 0` shrink at rates :math:`r_i`; the exact step is :math:`\min s_i / r_i`. Near
ties are the rule on these paths, and the exact minimum may be decided by rounding and belong to a tiny rate. So the
bounds are first relaxed by a margin, :math:`\theta = \min (s_i + \delta) / r_i`, and of all with
:math:`s_i / r_i \le \theta` the one with the largest rate is taken: no bound is passed by more than the margin, and the
exchange is well conditioned.
"""

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.paths.compiled import compiled

__all__ = ["FLAT", "first_event"]

#: A rate below this share of its row's norm is rounding: the row depends on those in use.
FLAT = 1e-10
#: By how much the test lets levels and multipliers be passed, relative to their sizes.
_MARGIN = 1e-12


#: Stand for a rate and a margin of zero; a step as long as what they give is no end.
_NO_RATE, _NO_MARGIN, _NO_END = 1e-200, 1e-40, 1e150


@compiled
def _shortest(slack: Array, rate: Array, margin: float) -> float:
    """The relaxed step; rates of zero end nothing."""
    return float(((np.maximum(slack, 0.0) + margin) / np.maximum(rate, _NO_RATE)).min())


@compiled
def _steepest(slack: Array, rate: Array, step: float, draw: float) -> int:
    """The steepest of those that end within the step; with a draw in [0, 1), any of them; -1 for none."""
    first = np.flatnonzero((slack <= step * rate) & (rate > 0.0))
    if first.size == 0:
        return -1
    if draw >= 0.0:
        return int(first[int(draw * first.size)])
    return int(first[np.argmax(rate[first])])


@compiled
def first_event(
    v: Array, dv: Array, block: NDArray[np.int64], norms: Array, free: NDArray[np.bool_],
    t: Array, dt: Array, eta: Array, slope: Array, speed: float, rho: float, draw: float,
) -> tuple[bool, int, float]:  # fmt: skip
    """Whether a row leaves (else one enters), which, and after how far; -1 where nothing ends the segment.

    Parameters
    ----------
    v, dv
        Values of the rows and how they change; the signed rows are these and their negatives.
    block, norms, free
        Of the signed rows: their block, their norm, and whether they may enter.
    t, dt, eta, slope
        Levels of the blocks and multipliers of the active rows, and how they change.
    speed, rho
        Sizes of the direction and of the multipliers.
    draw
        Negative for the steepest, else a number that decides by chance.
    """
    rate = np.concatenate((dv, -dv)) - np.take(dt, block)
    slack = np.take(t, block) - np.concatenate((v, -v))
    rate *= (rate > (FLAT * speed) * norms) & free
    fall = -slope * (slope < -FLAT)
    step = min(_shortest(slack, rate, _MARGIN * t.max() + _NO_MARGIN), _shortest(eta, fall, _MARGIN * rho + _NO_MARGIN))
    if step >= _NO_END:
        return False, -1, np.inf
    # a row that can leave does so first: fewer rows are better conditioned
    found = _steepest(eta, fall, step, draw)
    if found >= 0:
        return True, found, max(eta[found], 0.0) / fall[found]
    found = _steepest(slack, rate, step, draw)
    return False, found, max(slack[found], 0.0) / rate[found]
