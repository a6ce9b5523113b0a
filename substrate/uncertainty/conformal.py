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
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.namespaces import namespace_of, on_device_of, to_numpy, zeros_beside
from substrate.uncertainty.influence import LeftOutMachines
from substrate.uncertainty.levels import rank
from substrate.uncertainty.order import kth_smallest, largest

__all__ = ["conformal_hull", "conformal_region", "split_ends"]

#: One side of f(x), for a block of points, in units of S: where each row leaves; where some return, one line for each
#: point that has any, on the host; and the number of these for every point.
_Side = tuple[Array, Array, Any]


def conformal_hull(machines: LeftOutMachines, fitted: Array, X: Any, diagonal: Array, coverage: Any) -> Array:
    """The smallest interval that holds the conformal set, one line per new point."""
    k = rank(coverage, machines.n)
    ends: Array = zeros_beside(fitted, (fitted.shape[0], 2))
    for some, c, p in machines.blocks(X, diagonal):
        S = p + 1.0 / machines.gamma
        for column, (sign, side) in enumerate(zip((-1.0, 1.0), _sides(machines, c, S), strict=True)):
            ends[some, column] = fitted[some] + sign * S * _furthest(side, k)
    return ends


def conformal_region(
    machines: LeftOutMachines, fitted: Array, X: Any, diagonal: Array, coverage: Any
) -> Iterator[Array]:
    """The conformal set of every point in turn: its pieces, ascending, one line (from, to) each, on the host.

    :place [Nouretdinov2001]_ ridge regression confidence machine: the set of targets, exactly and without a grid
    """
    k = rank(coverage, machines.n)
    for some, c, p in machines.blocks(X, diagonal):
        S = p + 1.0 / machines.gamma
        below, above = (_pieces(side, k) for side in _sides(machines, c, S))
        for f, scale, down, up in zip(to_numpy(fitted[some]), to_numpy(S), below, above, strict=True):
            first = np.array([[-down[0, 1], up[0, 1]]])
            joined = np.concatenate([-down[:0:-1, ::-1], first, up[1:]])
            yield f + scale * joined


def split_ends(scores: Array, fitted: Array, coverage: Any) -> Array:
    """f(x) plus and minus the k-th smallest absolute error of rows that the machine has not seen; ascending scores."""
    k = rank(coverage, int(scores.shape[0]))
    reach = float("inf") if k > scores.shape[0] else float(scores[k - 1])
    return namespace_of(fitted).stack([fitted - reach, fitted + reach], axis=-1)  # type: ignore[no-any-return]


def _sides(machines: LeftOutMachines, c: Array, S: Array) -> Iterator[_Side]:
    """Below, then above f(x)."""
    xp = namespace_of(c)
    size = xp.abs(machines.support_values)
    P = c * c
    P += machines.diagonal * S[:, None]
    wild = xp.abs(c) >= P  # on one side such a row never leaves, on the other it returns
    some = bool(xp.any(wild))
    c *= xp.sign(machines.support_values)
    for sign in (-1.0, 1.0):
        slope = P + c if sign > 0.0 else P - c
        if not some:
            yield size / slope, *_no_returns(c)
            continue
        # a row without error is as strange as any everywhere, or at t = 0 only
        always = wild & ((sign * c < 0.0) | (size == 0.0))
        leave = size / xp.where(always, xp.ones_like(slope), slope)
        leave = xp.where(always, xp.full_like(leave, np.inf), leave)
        yield leave, *_returns(wild & (sign * c > P), size, sign * c, P)


def _no_returns(c: Array) -> tuple[Array, Any]:
    return np.empty((0, 0)), np.zeros(c.shape[0], dtype=np.intp)


def _returns(back: Any, size: Array, d: Array, P: Array) -> tuple[Array, Any]:
    """The distances at which rows return, one line per point that has any, filled up by infinity; and how many."""
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


def _furthest(side: _Side, k: int) -> Array:
    """The largest t of the set on one side."""
    leave, returns, counts = side
    xp, n = namespace_of(leave), int(leave.shape[1])
    if k > n:
        return xp.full_like(leave[:, 0], np.inf)  # type: ignore[no-any-return]
    if not counts.any():
        return kth_smallest(leave, k)
    top = largest(leave, n + 1 - k)  # from the k-th row to leave on
    (some,) = np.nonzero(counts)
    values, crossed, final = _crossings(returns, to_numpy(xp.take(top, on_device_of(leave, some), axis=0)), k)
    last = np.where(crossed == 1, values, -np.inf).max(axis=1)
    found = np.array(to_numpy(top[:, 0]))
    found[some] = np.where(final < k, np.inf, last)
    return on_device_of(leave, found)  # type: ignore[no-any-return]


def _pieces(side: _Side, k: int) -> list[Array]:
    """The pieces of the set on one side of each point, the first from zero on."""
    leave, returns, counts = side
    n = int(leave.shape[1])
    if k > n:
        return [np.array([[0.0, np.inf]])] * int(leave.shape[0])
    top = to_numpy(largest(leave, n + 1 - k))
    found = [np.array([[0.0, end]]) for end in top[:, 0]]
    (some,) = np.nonzero(counts)
    for point, values, crossed in zip(some, *_crossings(returns, top[some], k)[:2], strict=True):
        starts, stops = np.append(0.0, values[crossed == -1]), values[crossed == 1]
        stops = np.append(stops, np.inf) if stops.size < starts.size else stops
        found[point] = np.column_stack([starts, stops])
    return found


def _crossings(returns: Array, leaves: Array, k: int) -> tuple[Array, Any, Any]:
    """Ascending distances, +1 where the set ends and -1 where it begins again, and the rows away at the far end.

    ``leaves`` are those from the k-th on: k - 1 rows are away before. At equal distances rows return first, since
    the sets of all rows are closed.
    """
    values = np.concatenate([returns, leaves], axis=1)
    step = np.concatenate([np.full(returns.shape, -1), np.ones(leaves.shape, dtype=np.int64)], axis=1)
    step = np.where(np.isfinite(values), step, 0)
    order = np.argsort(values, axis=1, kind="stable")
    values, step = np.take_along_axis(values, order, axis=1), np.take_along_axis(step, order, axis=1)
    away = (k - 1) + np.cumsum(step, axis=1)
    ended, begun = (step == 1) & (away == k), (step == -1) & (away == k - 1)
    return values, ended.astype(np.int8) - begun.astype(np.int8), away[:, -1]
