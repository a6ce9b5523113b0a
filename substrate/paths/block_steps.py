r"""The steps of a block path: the ratio test that ends a segment, and several segments one after the other.

The event that ends a segment is found by the ratio test of [Harris1973]_. Along a segment slacks :math:`s_i \ge 0`
shrink at rates :math:`r_i`; the exact step is :math:`\min s_i / r_i`. Near ties are the rule on these paths, and the
exact minimum may be decided by rounding and belong to a tiny rate. So the bounds are first relaxed by a margin,
:math:`\theta = \min (s_i + \delta) / r_i`, and of all with :math:`s_i / r_i \le \theta` the one with the largest rate
is taken: no bound is passed by more than the margin, and the exchange is well conditioned.

:func:`walk` is one function, so that where it is compiled nothing of a step is interpreted.
"""

import math

import numpy as np

from substrate.arrays import Array
from substrate.paths.block_basis import append, exchange, refined, remove, straightened, times, transposed_times
from substrate.paths.signed_rows import Index, compiled, loops_of

__all__ = ["END", "FLAT", "STALL", "first_event", "rows_times", "travel", "walk"]

#: A rate below this share of its row's norm is rounding: the row depends on those in use.
FLAT = 1e-10
#: By how much the test lets levels and multipliers be exceeded, relative to their sizes.
_MARGIN = 1e-12
#: A step that is longer than any other.
_ENDLESS = 1e100
#: A step below this share of rho counts as zero.
_STILL = 1e-14
#: Exchanges without a step after which the choice is random, and after which the path stalls.
_STEEPEST, _PATIENCE = 4, 200
#: The path ends where the levels have fallen to this share of their initial values.
_LEVEL = 1e-12
#: Why a walk ends: the path cannot be continued, or it is at its end.
STALL, END = 1, 2
#: An exchange magnifies the rounding of the slopes by the length of its row over its distance from the others; they
#: are refined when these factors add up to this.
_MAGNIFIED = 50.0


def rows_times(B: Array, F: Array, G: Array, x: Array, active: Index, known: Array) -> Array:
    """B x, by the factors if there are any; ``known`` are the products of the active signed rows."""
    if F.size == 0:
        return np.asarray(B @ x)
    return np.asarray(np.vecmat((G @ x).reshape(F.shape[:2]), F)).ravel()


@loops_of(rows_times)
def _rows_times(B, F, G, x, active, known):  # type: ignore[no-untyped-def]
    blocks, rank, n = F.shape
    if blocks == 0:
        return _others_times(B, x, active, known)
    inner = times(G, G.shape[0], G.shape[1], x)
    out = np.empty(blocks * n)
    for k in range(blocks):
        np.add(transposed_times(F[k], rank, n, inner[k * rank : (k + 1) * rank]), 0.0, out[k * n : (k + 1) * n])
    return out


@compiled
def _others_times(B: Array, x: Array, active: Index, known: Array) -> Array:
    """B x, where only the rows that are not active are multiplied, four at a time."""
    p, r = B.shape
    out, taken, places, count = np.zeros(p), np.zeros(p), np.empty(p, dtype=np.int64), 0
    for k in range(active.size):
        i = active[k] % p
        taken[i] = 1.0
        out[i] = known[k] if active[k] < p else -known[k]
    for i in range(p):
        if taken[i] == 0.0:
            places[count] = i
            count += 1
    i = 0
    while i + 4 <= count:
        a, b, c, d = B[places[i]], B[places[i + 1]], B[places[i + 2]], B[places[i + 3]]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for j in range(r):
            s0 += a[j] * x[j]
            s1 += b[j] * x[j]
            s2 += c[j] * x[j]
            s3 += d[j] * x[j]
        out[places[i]], out[places[i + 1]], out[places[i + 2]], out[places[i + 3]] = s0, s1, s2, s3
        i += 4
    while i < count:
        out[places[i]] = np.dot(B[places[i]], x)
        i += 1
    return out


def _shortest(slack: Array, rate: Array, margin: float) -> float:
    """The relaxed step over positive rates."""
    return float(((np.maximum(slack, 0.0) + margin) / rate).min())


def _steepest(slack: Array, rate: Array, step: float, draw: float) -> int:
    """The steepest of those that end within the step; with a draw in [0, 1), any of them."""
    first = np.flatnonzero(np.maximum(slack, 0.0) <= step * rate)
    if first.size == 0:
        return -1
    return int(first[int(draw * first.size)] if draw >= 0.0 else first[np.argmax(rate[first])])


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
    """Whether a row leaves (else one enters), which, and after how far; -1 where nothing ends the segment.

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
    fall = np.flatnonzero(slope < -FLAT)
    if fall.size:
        longest = _shortest(eta[fall], -slope[fall], _MARGIN * rho)
    near = np.flatnonzero(slack <= longest * rate)  # few: rows that reach their level before a multiplier vanishes
    near = near[rate[near] > speed * least[near]]
    step = longest
    if near.size:
        step = min(longest, _shortest(slack[near], rate[near], _MARGIN * level))
    if step >= _ENDLESS:
        return False, -1, np.inf
    if fall.size:  # a row that can leave does so first: fewer rows are better conditioned
        found = _steepest(eta[fall], -slope[fall], step, draw)
        if found >= 0:
            return True, int(fall[found]), max(eta[fall[found]], 0.0) / -slope[fall[found]]
    found = near[_steepest(slack[near], rate[near], step, draw)]
    return False, int(found), max(slack[found], 0.0) / rate[found]


@compiled
def one_of(places: Index, rates: Array, draw: float) -> int:
    """The place of the largest rate, the first of equal ones; with a draw in [0, 1), any of them."""
    return int(places[int(draw * places.size)] if draw >= 0.0 else places[np.argmax(rates)])


@loops_of(first_event)
def _first_event(slack, rate, least, eta, slope, speed, level, rho, draw):  # type: ignore[no-untyped-def]
    longest = _ENDLESS
    for i in range(slope.size):
        if slope[i] < -FLAT:
            longest = min(longest, (max(eta[i], 0.0) + _MARGIN * rho) / -slope[i])
    near, count, step = np.empty(rate.size, dtype=np.int64), 0, longest
    for i in range(rate.size):
        if slack[i] <= longest * rate[i] and rate[i] > speed * least[i]:
            near[count] = i
            count += 1
            step = min(step, (max(slack[i], 0.0) + _MARGIN * level) / rate[i])
    if step >= _ENDLESS:
        return False, -1, np.inf
    found, ties = np.empty(max(slope.size, count), dtype=np.int64), 0
    for i in range(slope.size):
        if slope[i] < -FLAT and max(eta[i], 0.0) <= step * -slope[i]:
            found[ties] = i
            ties += 1
    if ties > 0:
        which = one_of(found[:ties], -slope[found[:ties]], draw)
        return True, which, max(eta[which], 0.0) / -slope[which]
    for k in range(count):
        i = near[k]
        if max(slack[i], 0.0) <= step * rate[i]:
            found[ties] = i
            ties += 1
    which = one_of(found[:ties], rate[found[:ties]], draw)
    return False, which, max(slack[which], 0.0) / rate[which]


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
    fall, height = -dt.sum(), t.sum() - floor
    kind = 2 if leaves else 1
    if fall > 0.0 and height <= step * fall * (1.0 + 1e-9):
        kind, step = 3, height / fall
    elif which < 0:
        return 0, which, step
    eta += step * slope
    slack -= step * rate
    t += step * dt
    return kind, which, step


@loops_of(travel)
def _travel(dv, block, slack, least, eta, slope, t, dt, speed, rho, floor, draw):  # type: ignore[no-untyped-def]
    p, rate = dv.size, np.empty(slack.size)
    for i in range(p):
        rate[i] = dv[i] - dt[block[i]]
        rate[p + i] = -dv[i] - dt[block[p + i]]
    leaves, which, step = first_event(slack, rate, least, eta, slope, speed, t.max(), rho, draw)
    fall, height = -dt.sum(), t.sum() - floor
    kind = 2 if leaves else 1
    if fall > 0.0 and height <= step * fall * (1.0 + 1e-9):
        kind, step = 3, height / fall
    elif which < 0:
        return 0, which, step
    for i in range(slack.size):
        slack[i] -= step * rate[i]
    eta += step * slope
    t += step * dt
    return kind, which, step


def slopes_of(x: Array, home: Index, blocks: int, n: int) -> Array:
    """How the multipliers of the n active rows change: those of a block add up to rho."""
    return np.concatenate([1.0 + np.bincount(home[blocks:n], x[: n - blocks], blocks), -x[: n - blocks]])


@loops_of(slopes_of)
def _slopes_of(x, home, blocks, n):  # type: ignore[no-untyped-def]
    out = np.ones(n)
    for k in range(blocks, n):
        out[k] = -x[k - blocks]
        out[home[k]] += x[k - blocks]
    return out


@compiled
def signed_row(B: Array, i: int) -> Array:
    """Row i of [B; -B]."""
    p = B.shape[0]
    return B[i] * 1.0 if i < p else -B[i - p]


@compiled
def opened(least: Array, flat: Array, active: Index, n: int) -> None:
    """Allow all rows but the n active ones to enter."""
    np.add(flat, 0.0, least)
    for i in active[:n]:
        least[i] = np.inf


@compiled
def referred(B: Array, references: Array, q: Array, active: Index, k: int) -> None:
    """Read reference k and the sum of all again."""
    np.add(signed_row(B, active[k]), 0.0, references[k])
    np.add(references.sum(axis=0), 0.0, q)


@compiled
def walk(
    B: Array,
    F: Array,
    G: Array,
    block: Index,
    flat: Array,
    Q: Array,
    S: Array,
    C: Array,
    x: Array,
    y: Array,
    references: Array,
    q: Array,
    u: Array,
    du: Array,
    t: Array,
    eta: Array,
    slack: Array,
    least: Array,
    active: Index,
    home: Index,
    limits: tuple[float, float, float],
    numbers: Array,
    counts: Index,
    draws: Array,
    kept: tuple[Array, Array, Array, Array],
    rows: tuple[Index, Index],
) -> int:
    """Go to the end of one segment for each draw; 0, or why the path cannot continue.

    ``limits`` are the floor of the levels, the squared length of u and the height of the levels at which it ends;
    ``numbers`` are rho, the longest length of du since it was made orthogonal, and how much exchanges have magnified
    rounding since the slopes were refined; ``counts`` are the active rows, the
    exchanges, those without a step, the row that has just left, and the knots kept. Of these the arrays ``kept`` have
    rho, u, t and the multipliers, and ``rows`` where these begin and their rows (:class:`Knots`).
    """
    d, r = references.shape
    floor, finish, height = limits
    kept_rho, kept_u, kept_t, kept_eta = kept
    starts, places = rows
    for draw in draws:
        n = counts[0]
        m = n - d
        if numbers[2] > _MAGNIFIED:
            refined(S, C, x, y, m)
            numbers[2] = 0.0
        dt = times(references, d, r, du)
        dv = rows_times(B, F, G, du, active[:n], np.take(dt, home[:n]))
        slope, speed, now = slopes_of(x, home, d, n), math.sqrt(np.dot(du, du)), eta[:n]
        chance = draw if counts[2] > _STEEPEST else -1.0
        kind, which, step = travel(dv, block, slack, least, now, slope, t, dt, speed, numbers[0], floor, chance)
        if kind == 0:
            return STALL
        numbers[0] += step
        u += step * du
        if kind == 2:  # exactly zero; the remainder from rounding is added to the largest of its block
            members = np.flatnonzero(home[:n] == home[which])
            largest = members[np.argmax(eta[members])]
            eta[largest] += eta[which]
            eta[which] = 0.0
        counts[1] += 1
        ends = kind == 3 or np.dot(u, u) <= finish or t.sum() - floor <= height
        if ends or step > _STILL * numbers[0]:
            k = counts[4]
            begin = starts[k]
            kept_rho[k], starts[k + 1] = numbers[0], begin + n
            np.add(u, 0.0, kept_u[k])
            np.add(t, 0.0, kept_t[k])
            np.add(active[:n], 0, places[begin : begin + n])
            np.add(np.maximum(now, 0.0), 0.0, kept_eta[begin : begin + n])
            counts[4] += 1
            counts[2] = 0
            if counts[3] >= 0:  # a row that has just left may enter again once a step is made
                least[counts[3]] = flat[counts[3]]
                counts[3] = -1
        else:
            counts[2] += 1
        if ends:
            return END
        if counts[2] > _PATIENCE:
            return STALL
        if kind == 2:
            if which < d:  # another reference: the row of the block with the largest multiplier
                members = np.flatnonzero(home[d:n] == which)
                k = members[np.argmax(eta[d + members])]
                exchange(S, C, x, y, m, members, k)
                k += d
                active[which], active[k] = active[k], active[which]
                eta[which], eta[k] = eta[k], eta[which]
                referred(B, references, q, active, which)
                which = k
            counts[3] = active[which]
            numbers[2] += remove(Q, S, C, x, y, du, m, which - d)
            active[which], home[which], eta[which] = active[n - 1], home[n - 1], eta[n - 1]
            counts[0] = n - 1
            opened(least, flat, active, n - 1)  # rows that depended on the row that left may be independent now
            least[counts[3]] = np.inf
        else:
            least[which] = np.inf  # active from now on, or dependent on the active ones
            magnified = append(Q, S, C, x, y, du, m, signed_row(B, which) - references[block[which]], 0.1 * FLAT)
            numbers[2] += magnified
            if magnified > 0.0:
                active[n], home[n], eta[n] = which, block[which], 0.0
                counts[0] = n + 1
        numbers[1] = straightened(Q, counts[0] - d, du, numbers[1])
    return 0
