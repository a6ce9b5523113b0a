r"""The ratio test that ends a segment of a block path.

The event that ends a segment is found by the ratio test of [Harris1973]_. Along a segment slacks :math:`s_i \ge 0`
shrink at rates :math:`r_i`; the exact step is :math:`\min s_i / r_i`. Near ties are the rule on these paths, and the
exact minimum may be decided by rounding and belong to a tiny rate. So the bounds are first relaxed by a margin,
:math:`\theta = \min (s_i + \delta) / r_i`, and of all with :math:`s_i / r_i \le \theta` the one with the largest rate
is taken: no bound is passed by more than the margin, and the exchange is well conditioned.
"""

import numpy as np

from substrate.arrays import Array
from substrate.compilation import compiled, loops_of
from substrate.penalized.homotopy.signed_rows import Index
from substrate.penalized.homotopy.vector_loops import add_multiple, find_largest, scale_into

__all__ = ["FLAT", "first_event", "one_of", "travel"]

#: A rate below this share of its row's norm is rounding: the row depends on those in use.
FLAT = 1e-10
#: By how much the test lets levels and multipliers be exceeded, relative to their sizes.
_MARGIN = 1e-12
#: A step that is longer than any other.
_ENDLESS = 1e100


def _shortest(slack: Array, rate: Array, margin: float) -> float:
    """Return the relaxed step over positive rates."""
    return float(((np.maximum(slack, 0.0) + margin) / rate).min())


def _steepest(slack: Array, rate: Array, step: float, draw: float) -> int:
    """Return the steepest of those that end within the step; with a draw in [0, 1), any of them."""
    first = (np.maximum(slack, 0.0) <= step * rate).nonzero()[0]
    return one_of(first, rate, draw) if first.size else -1


def first_event(
    slack: Array,
    rate: Array,
    least: Array,
    eta: Array,
    slope: Array,
    speed: float,
    level: float,
    rho: float,
    draw: float,
) -> tuple[bool, int, float]:
    """Return whether a row leaves (else one enters), which, and after how far; -1 where nothing ends the segment.

    Parameters
    ----------
    slack, rate
        Of all signed rows: the distance to their level, and how fast it shrinks.
    least
        The smallest rates that count, per unit of speed; infinite for rows that may not enter.
    eta, slope
        Multipliers of the active rows and how they change.
    speed, level, rho
        Sizes of the direction, of the levels and of the multipliers.
    draw
        Negative for the steepest, else a random number that decides.
    """
    longest = _ENDLESS
    fall = (slope < -FLAT).nonzero()[0]
    if fall.size:
        longest = _shortest(eta[fall], -slope[fall], _MARGIN * rho)
    near = (slack <= longest * rate).nonzero()[0]  # few: rows that reach their level before a multiplier vanishes
    near = near[rate[near] > speed * least[near]]
    step = longest
    if near.size:
        step = min(longest, _shortest(slack[near], rate[near], _MARGIN * level))
    if step >= _ENDLESS:
        return False, -1, np.inf
    if fall.size:  # a row that can leave does so first: fewer rows are better conditioned
        row_found = _steepest(eta[fall], -slope[fall], step, draw)
        if row_found >= 0:
            return True, int(fall[row_found]), max(eta[fall[row_found]], 0.0) / -slope[fall[row_found]]
    row_found = near[_steepest(slack[near], rate[near], step, draw)]
    return False, int(row_found), max(slack[row_found], 0.0) / rate[row_found]


@compiled
def one_of(places: Index, rates: Array, draw: float) -> int:
    """Return the place with the largest rate, the first of equal ones; with a draw in [0, 1), any of the places."""
    return int(places[int(draw * places.size)]) if draw >= 0.0 else find_largest(rates, places)


@loops_of(first_event)
def _first_event(slack, rate, least, eta, slope, speed, level, rho, draw):  # type: ignore[no-untyped-def]
    longest = longest_step(eta, slope, rho)
    near, count = np.empty(rate.size, dtype=np.int64), 0
    for i in range(rate.size):
        if slack[i] <= longest * rate[i] and rate[i] > speed * least[i]:
            near[count] = i
            count += 1
    return first_of(near[:count], slack, rate, eta, slope, longest, level, draw)


@compiled
def longest_step(eta: Array, slope: Array, rho: float) -> float:
    """Return the relaxed step after which the first multiplier vanishes."""
    longest = _ENDLESS
    for i in range(slope.size):
        if slope[i] < -FLAT:
            longest = min(longest, (max(eta[i], 0.0) + _MARGIN * rho) / -slope[i])
    return longest


@compiled
def first_of(
    near: Index, slack: Array, rate: Array, eta: Array, slope: Array, longest: float, level: float, draw: float
) -> tuple[bool, int, float]:
    """Return what :func:`first_event` returns, once the rows are known that reach their level before a multiplier
    vanishes.
    """
    step = longest
    for i in near:
        step = min(step, (max(slack[i], 0.0) + _MARGIN * level) / rate[i])
    if step >= _ENDLESS:
        return False, -1, np.inf
    tied, ties = np.empty(max(slope.size, near.size), dtype=np.int64), 0
    for i in range(slope.size):
        if slope[i] < -FLAT and max(eta[i], 0.0) <= step * -slope[i]:
            tied[ties] = i
            ties += 1
    if ties > 0:
        fall = np.empty(slope.size)
        scale_into(fall, -1.0, slope)
        which = one_of(tied[:ties], fall, draw)
        return True, which, max(eta[which], 0.0) / -slope[which]
    for i in near:
        if max(slack[i], 0.0) <= step * rate[i]:
            tied[ties] = i
            ties += 1
    which = one_of(tied[:ties], rate, draw)
    return False, which, max(slack[which], 0.0) / rate[which]


@compiled
def _end_segment(leaves: bool, which: int, step: float, t: Array, dt: Array, floor: float) -> tuple[int, float]:
    """Return what ends a segment, as :func:`travel` numbers it, and its step: the levels may reach the floor first."""
    fall, height = -dt.sum(), t.sum() - floor
    if fall > 0.0 and height <= step * fall * (1.0 + 1e-9):
        return 3, height / fall
    return (0 if which < 0 else 2 if leaves else 1), step


def travel(
    dv: Array,
    block: Index,
    slack: Array,
    least: Array,
    eta: Array,
    slope: Array,
    t: Array,
    dt: Array,
    speed: float,
    rho: float,
    floor: float,
    draw: float,
) -> tuple[int, int, float]:
    """Go to the end of the segment: ``slack``, ``eta`` and ``t`` are moved there.

    Returns what ends it (0 nothing: then nothing was moved; 1 a row enters, 2 one leaves, 3 the levels are at the
    floor), which row, and the step in rho. ``dv`` are the slopes of the rows without signs, ``dt`` of the levels.
    """
    rate = np.concatenate((dv, -dv)) - np.take(dt, block)
    leaves, which, step = first_event(slack, rate, least, eta, slope, speed, t.max(), rho, draw)
    kind, step = _end_segment(leaves, which, step, t, dt, floor)
    if kind == 0:
        return kind, which, step
    eta += step * slope
    slack -= step * rate
    t += step * dt
    return kind, which, step


@loops_of(travel)
def _travel(dv, block, slack, least, eta, slope, t, dt, speed, rho, floor, draw):  # type: ignore[no-untyped-def]
    p, rate, near, count, below = dv.size, np.empty(slack.size), np.empty(slack.size, dtype=np.int64), 0, 0
    longest = longest_step(eta, slope, rho)
    for i in range(p):  # the rows that may end the segment are found as their rates are made, in one pass
        up, down = dv[i] - dt[block[i]], -dv[i] - dt[block[p + i]]
        rate[i], rate[p + i] = up, down
        if slack[i] <= longest * up and up > speed * least[i]:
            near[count] = i
            count += 1
        if slack[p + i] <= longest * down and down > speed * least[p + i]:
            near[p + below] = p + i
            below += 1
    for i in range(below):  # in the order of the rows
        near[count + i] = near[p + i]
    level = t[0]
    for k in range(t.size):
        level = max(level, t[k])
    leaves, which, step = first_of(near[: count + below], slack, rate, eta, slope, longest, level, draw)
    kind, step = _end_segment(leaves, which, step, t, dt, floor)
    if kind == 0:
        return kind, which, step
    add_multiple(slack, -step, rate)
    add_multiple(eta, step, slope)
    add_multiple(t, step, dt)
    return kind, which, step
