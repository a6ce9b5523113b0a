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
from substrate.uncertainty.order import largest, smallest

__all__ = ["conformal_hull", "conformal_region", "split_ends"]

#: The distances from f(x) at which rows leave the set, and at which they return, on one side of all points of a block.
_Side = tuple[Array, Array | None, Any]


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
    """Below, then above f(x): the distances, in units of S, where rows leave and return, and whether any returns."""
    xp = namespace_of(c)
    size = xp.abs(machines.support_values)
    P = c * c
    P += machines.diagonal * S[:, None]
    exact = size == 0.0  # a row without error: as strange as any everywhere, or nowhere but at t = 0
    held = (xp.abs(c) >= P) & exact if bool(xp.any(exact)) else None
    c *= xp.sign(machines.support_values)
    for d in (-c, c):
        slope = P + d
        leave = size / xp.where(slope > 0.0, slope, xp.ones_like(slope))
        leave = xp.where(slope > 0.0, leave, xp.full_like(leave, np.inf))
        if held is not None:
            leave = xp.where(held, xp.full_like(leave, np.inf), leave)
        back = d > P
        returns = None
        if bool(xp.any(back)):
            gap = xp.where(back, d - P, xp.ones_like(d))
            returns = xp.where(back, size / gap, xp.full_like(d, np.inf))
        yield leave, returns, back


def _furthest(side: _Side, k: int) -> Array:
    """The largest t of the set on one side."""
    leave, returns, back = side
    xp, n = namespace_of(leave), int(leave.shape[1])
    if k > n:
        return xp.full_like(leave[:, 0], np.inf)  # type: ignore[no-any-return]
    top = largest(leave, n + 1 - k)
    ends = top[:, 0]  # the k-th row leaves
    counts = to_numpy(xp.sum(xp.astype(back, xp.int64), axis=1))
    (some,) = np.nonzero(counts)
    if returns is None or not some.size:
        return ends
    at = on_device_of(leave, some)
    known = smallest(xp.take(returns, at, axis=0), int(counts.max()))
    values, crossed, final = _crossings(to_numpy(known), to_numpy(xp.take(top, at, axis=0)), k)
    last = np.where(crossed == 1, values, -np.inf).max(axis=1)
    found = np.array(to_numpy(ends))
    found[some] = np.where(final < k, np.inf, last)
    return on_device_of(leave, found)  # type: ignore[no-any-return]


def _pieces(side: _Side, k: int) -> list[Array]:
    """The pieces of the set on one side of each point, the first from zero on."""
    leave, returns, back = side
    n = int(leave.shape[1])
    if k > n:
        return [np.array([[0.0, np.inf]])] * int(leave.shape[0])
    top = to_numpy(largest(leave, n + 1 - k))
    xp = namespace_of(leave)
    most = int(np.max(to_numpy(xp.sum(xp.astype(back, xp.int64), axis=1)), initial=0))
    known = np.empty((top.shape[0], 0)) if returns is None else to_numpy(smallest(returns, most))
    found = []
    for values, crossed in zip(*_crossings(known, top, k)[:2], strict=True):
        starts = np.concatenate([[0.0], values[crossed == -1]])
        stops = values[crossed == 1]
        if stops.size < starts.size:
            stops = np.append(stops, np.inf)
        found.append(np.column_stack([starts, stops]))
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
