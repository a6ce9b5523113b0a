r"""The exact full conformal set of a kernel least-squares machine, by one sort per point and no refit.

Add the row (x, z) with weight one. With c and p of :mod:`~substrate.uncertainty.influence`, :math:`S = p + 1/\gamma`
and :math:`t = z - f(x)`, the enlarged system has

.. math:: \alpha_i(z) = \alpha_i - \frac{c_i}{S} t, \qquad \alpha_{new}(z) = \frac{t}{S}, \qquad
          \text{diagonal} \; B_{ii} + \frac{c_i^2}{S} \; \text{and} \; \frac1S ,

so the left-out residual of the new row is t, and row i is at least as strange where

.. math:: \Big| \alpha_i - \frac{c_i}{S} t \Big| \ge \Big( B_{ii} + \frac{c_i^2}{S} \Big) |t| .

([Nouretdinov2001]_ and [Burnaev2014]_ with left-out residuals as scores.) With :math:`P_i = B_{ii} S + c_i^2` and
:math:`d_i = \operatorname{sign}(\alpha_i)\, c_i` that is, for :math:`t \ge 0`, everything but the interval

.. math:: \frac{|\alpha_i| S}{P_i + d_i} < t < \frac{|\alpha_i| S}{d_i - P_i} ,

whose first end is infinite where :math:`d_i \le -P_i` and whose second is where :math:`d_i \le P_i`; for
:math:`t \le 0` the same with :math:`-d_i`. A target z is in the set of level c unless at least
:math:`k = \lceil c (n + 1) \rceil` rows are less strange. All rows are at least as strange at t = 0, so the set
contains f(x), and it is an interval but for rows that return (:math:`d_i > P_i`), which may add pieces further out.
Only the :math:`n - k + 1` largest first ends and the returns have to be sorted.

Most rows need not even be looked at point by point. With :math:`|c_i| \le m_i` at several points,
:math:`g_i = m_i (1 - m_i)`, at most 1/4, and :math:`S_0` the least S of these points, a row with
:math:`B_{ii} S_0 > g_i` does not return, and it leaves at the latest at

.. math:: \frac{|\alpha_i| S}{B_{ii} S - g_i} \le \frac{|\alpha_i|}{B_{ii} - g_i / S_0} .

A few times :math:`n - k + 1` rows that may leave last settle the set, if the others have left where it ends.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from substrate.arrays import Array
from substrate.least_squares.regularization import Regularization
from substrate.namespaces import namespace_of, on_device_of, to_numpy, zeros_beside
from substrate.uncertainty.influence import LeftOutMachines
from substrate.uncertainty.levels import rank
from substrate.uncertainty.order import TRIED, largest, last_to_leave

__all__ = ["conformal_hull", "conformal_region", "split_ends"]

#: One side of f(x), for a block of points, in units of S: where rows leave from the k-th on, the k-th first; where some
#: return, one line for each point that has any, on the host; and the number of these for every point.
_Side = tuple[Array, Array, Any]


class _BothSides(NamedTuple):
    """A block of new points, with f(x), S, and the sides below and above f."""

    block: slice
    fitted: Array
    scale: Array
    sides: list[_Side]


def conformal_hull(machines: LeftOutMachines, fitted: Array | None, X: Any, diagonal: Array, coverage: Any) -> Array:
    """Return the smallest interval that holds the conformal set, one line per new point.

    ``fitted`` are the predictions there, if the machines have no bias.
    """
    ends: Array = zeros_beside(machines.residuals, (X.shape[0], 2))
    for block, f, S, sides in _settle_sides(machines, X, diagonal, fitted, rank(coverage, machines.n)):
        for column, (sign, side) in enumerate(zip((-1.0, 1.0), sides, strict=True)):
            ends[block, column] = f + sign * S * _furthest(side)
    return ends


def conformal_region(
    machines: LeftOutMachines, fitted: Array | None, X: Any, diagonal: Array, coverage: Any
) -> Iterator[Array]:
    """Yield the conformal set of every point in turn: its pieces, ascending, one line (from, to) each, on the host.

    :place [Nouretdinov2001]_ ridge regression confidence machine: the set of targets, exactly and without a grid
    """
    for _, f, S, sides in _settle_sides(machines, X, diagonal, fitted, rank(coverage, machines.n)):
        below, above = (_pieces(side) for side in sides)
        for center, scale, down, up in zip(to_numpy(f), to_numpy(S), below, above, strict=True):
            first = np.array([[-down[0, 1], up[0, 1]]])
            joined = np.concatenate([-down[:0:-1, ::-1], first, up[1:]])
            yield center + scale * joined


def split_ends(scores: Array, fitted: Array, coverage: Any, spreads: Any = 1.0) -> Array:
    """Return f(x) plus and minus the k-th smallest absolute error of rows that the machine has not seen; ascending
    scores.

    Where these are errors over a spread, ``spreads`` are its values at the new points.
    """
    k = rank(coverage, int(scores.shape[0]))
    reach = float("inf") if k > scores.shape[0] else float(scores[k - 1])
    return namespace_of(fitted).stack([fitted - reach * spreads, fitted + reach * spreads], axis=-1)  # type: ignore[no-any-return]


def _settle_sides(
    machines: LeftOutMachines, X: Any, diagonal: Array, fitted: Array | None, k: int
) -> Iterator[_BothSides]:
    """Yield the new points block by block, by as many rows as needed."""
    few = TRIED * (machines.n + 1 - k)
    for block, f, c, p in machines.blocks(X, diagonal, fitted):
        S = p + Regularization(machines.gamma).lam
        if few < machines.n and k <= machines.n:
            numbers, bound_of_rest = last_to_leave(_latest(machines, c, S), few)
            last = on_device_of(S, numbers)
            xp, n_others = namespace_of(c), machines.n - few
            sides = list(_sides(machines, xp.take(c, last, axis=1), S, k - n_others, last))
            if all(bool(xp.all(S * top[:, 0] >= bound_of_rest)) for top, _, _ in sides):
                yield _BothSides(block, f, S, sides)
                continue
        yield _BothSides(block, f, S, list(_sides(machines, c, S, k)))


def _latest(machines: LeftOutMachines, c: Array, S: Array) -> Array:
    """Return where each row has left for good, at all these points; infinity where that is not known."""
    xp = namespace_of(c)
    most = xp.clip(xp.maximum(xp.max(c, axis=0), -xp.min(c, axis=0)), max=0.5)
    slack = machines.diagonal - most * (1.0 - most) / xp.min(S)
    has_slack = slack > 0.0
    return xp.where(has_slack, xp.abs(machines.support_values) / xp.where(has_slack, slack, 1.0), np.inf)  # type: ignore[no-any-return]


def _sides(machines: LeftOutMachines, c: Array, S: Array, k: int, rows: Any = None) -> Iterator[_Side]:
    """Return both sides, below, then above f(x); c, of all rows or of some, is overwritten."""
    xp = namespace_of(c)
    alpha, diagonal = machines.support_values, machines.diagonal
    if rows is not None:
        alpha, diagonal = xp.take(alpha, rows, axis=0), xp.take(diagonal, rows, axis=0)
    size = xp.abs(alpha)
    P = c * c
    P += diagonal * S[:, None]
    wild = xp.abs(c) >= P  # on one side such a row never leaves, on the other it returns
    has_wild = bool(xp.any(wild))
    c *= xp.sign(alpha)
    for sign in (-1.0, 1.0):
        slope = P + c if sign > 0.0 else P - c
        if not has_wild:
            yield _last(size / slope, k), *_no_returns(c)
            continue
        # a row without error is as strange as any everywhere, or at t = 0 only
        always = wild & ((sign * c < 0.0) | (size == 0.0))
        leave = size / xp.where(always, xp.ones_like(slope), slope)
        leave = xp.where(always, xp.full_like(leave, np.inf), leave)
        yield _last(leave, k), *_returns(wild & (sign * c > P), size, sign * c, P)


def _last(leave: Array, k: int) -> Array:
    """Return the rows from the k-th to leave on, that one first."""
    return largest(leave, max(int(leave.shape[1]) + 1 - k, 0))


def _no_returns(c: Array) -> tuple[Array, Any]:
    return np.empty((0, 0)), np.zeros(c.shape[0], dtype=np.intp)


def _returns(back: Any, size: Array, d: Array, P: Array) -> tuple[Array, Any]:
    """Return the distances at which rows return, one line per point that has any, filled up by infinity; and how
    many.
    """
    xp, (m, n) = namespace_of(d), d.shape
    points, rows = xp.nonzero(back)
    at = points * n + rows
    gaps = xp.take(xp.reshape(d, (-1,)), at, axis=0) - xp.take(xp.reshape(P, (-1,)), at, axis=0)
    values, places = to_numpy(xp.take(size, rows, axis=0) / gaps), to_numpy(points)
    counts = np.bincount(places, minlength=m)
    lines = np.cumsum(counts > 0) - 1
    firsts = np.cumsum(counts) - counts
    padded = np.full((int((counts > 0).sum()), int(counts.max(initial=0))), np.inf)
    padded[lines[places], np.arange(places.size) - firsts[places]] = values
    return padded, counts


def _furthest(side: _Side) -> Array:
    """Return the largest t of the set on one side."""
    top, returns, counts = side
    xp = namespace_of(top)
    if top.shape[1] == 0:
        return zeros_beside(top, top.shape[0]) + np.inf  # type: ignore[no-any-return]
    if not counts.any():
        return top[:, 0]
    (places,) = np.nonzero(counts)
    values, crossed, final = _crossings(returns, to_numpy(xp.take(top, on_device_of(top, places), axis=0)))
    last = np.where(crossed == 1, values, -np.inf).max(axis=1)
    furthest = np.array(to_numpy(top[:, 0]))
    furthest[places] = np.where(final < 1, np.inf, last)
    return on_device_of(top, furthest)  # type: ignore[no-any-return]


def _pieces(side: _Side) -> list[Array]:
    """Return the pieces of the set on one side of each point, the first from zero on."""
    top, returns, counts = to_numpy(side[0]), *side[1:]
    if top.shape[1] == 0:
        return [np.array([[0.0, np.inf]])] * int(top.shape[0])
    pieces = [np.array([[0.0, end]]) for end in top[:, 0]]
    (places,) = np.nonzero(counts)
    for point, values, crossed in zip(places, *_crossings(returns, top[places])[:2], strict=True):
        starts, stops = np.append(0.0, values[crossed == -1]), values[crossed == 1]
        stops = np.append(stops, np.inf) if stops.size < starts.size else stops
        pieces[point] = np.column_stack([starts, stops])
    return pieces


def _crossings(returns: Array, leaves: Array) -> tuple[Array, Any, Any]:
    """Return ascending distances, +1 where the set ends and -1 where it begins, and the rows away at the far end.

    ``leaves`` are those from the k-th on: rows away are counted from the k-th. At equal distances rows return first,
    since the sets of all rows are closed.
    """
    values = np.concatenate([returns, leaves], axis=1)
    step = np.concatenate([np.full(returns.shape, -1), np.ones(leaves.shape, dtype=np.int64)], axis=1)
    step = np.where(np.isfinite(values), step, 0)
    order = np.argsort(values, axis=1, kind="stable")
    values, step = np.take_along_axis(values, order, axis=1), np.take_along_axis(step, order, axis=1)
    away = np.cumsum(step, axis=1)
    ended, begun = (step == 1) & (away == 1), (step == -1) & (away == 0)
    return values, ended.astype(np.int8) - begun.astype(np.int8), away[:, -1]
