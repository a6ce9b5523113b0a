r"""The active rows of a block path as an updated factorisation, and the ratio test that ends a segment.

Rows :math:`D_i` that span a subspace are kept with an orthonormal basis Q of it and with the dual basis Z:

.. math:: Z D^T = I, \qquad \operatorname{span} Z = \operatorname{span} Q = \operatorname{span} D ,

so that the projection off the subspace is :math:`p - Q^T Q p` and the coefficients of a vector in it are :math:`Z p`. A
new row w adds :math:`p = w - Q^T Q w` (made orthogonal twice) to Q and :math:`z = p / \|p\|^2` to Z, and takes
:math:`(Z w) z^T` from the others. To remove row k, a reflection turns Q until its last vector is :math:`Z_k / \|Z_k\|`,
which is orthogonal to all rows but the k-th; that vector leaves Q and is taken out of Z. Both cost :math:`O(mr)`, in
products of a matrix and a vector; the order of the rows is immaterial, so the last fills the gap.

The event that ends a segment is found by the ratio test of [Harris1973]_. Along a segment slacks :math:`s_i \ge 0`
shrink at rates :math:`r_i`; the exact step is :math:`\min s_i / r_i`. Near ties are the rule on these paths, and the
exact minimum may be decided by rounding and belong to a tiny rate. So the bounds are first relaxed by a margin,
:math:`\theta = \min (s_i + \delta) / r_i`, and of all with :math:`s_i / r_i \le \theta` the one with the largest rate
is taken: no bound is passed by more than the margin, and the exchange is well conditioned.
"""

import math

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.paths.signed_rows import Index, compiled

__all__ = ["FLAT", "append", "exchange", "first_event", "rebuild", "remove", "slopes", "travel"]

#: A projection that leaves at least this share of a vector need not be repeated.
_PLAIN = 0.1

# Rows are written through the output argument of a ufunc, and not by assignment to a slice: for the latter the compiler
# would also compile its machinery for error messages, which takes longer than all the rest.


@compiled
def append(Q: Array, Z: Array, D: Array, m: int, w: Array, smallest: float) -> bool:
    """Add row w as the m-th; return False without a change where it depends on the others."""
    if m >= Q.shape[0]:
        return False
    basis, dual = Q[:m], Z[:m]
    size = math.sqrt(np.dot(w, w))
    p = w - np.dot(np.dot(basis, w), basis)
    length = math.sqrt(np.dot(p, p))
    if length < _PLAIN * size:
        p -= np.dot(np.dot(basis, p), basis)
        length = math.sqrt(np.dot(p, p))
    if length <= smallest * size:
        return False
    p /= length
    if length < _PLAIN**2 * size:  # after division by a small length, orthogonalise once more
        p -= np.dot(np.dot(basis, p), basis)
        p /= math.sqrt(np.dot(p, p))
    z = p / np.dot(p, w)
    dual -= np.dot(dual, w).reshape(-1, 1) * z
    np.add(p, 0.0, Q[m])
    np.add(z, 0.0, Z[m])
    np.add(w, 0.0, D[m])
    return True


@compiled
def remove(Q: Array, Z: Array, D: Array, m: int, k: int) -> None:
    """Take out row k of m; the last row of Z and D moves into its place."""
    last = m - 1
    basis, dual = Q[:m], Z[:last]
    g = Z[k] / math.sqrt(np.dot(Z[k], Z[k]))
    x = np.dot(basis, g)
    x /= math.sqrt(np.dot(x, x))
    # the reflection that takes x to the last axis, with the sign that does not cancel
    x[last] += 1.0 if x[last] >= 0.0 else -1.0
    x *= math.sqrt(2.0 / np.dot(x, x))
    basis -= x.reshape(-1, 1) * np.dot(x, basis)
    if k < last:
        np.add(Z[last], 0.0, Z[k])
        np.add(D[last], 0.0, D[k])
    dual -= np.dot(dual, g).reshape(-1, 1) * g


@compiled
def slopes(Q: Array, Z: Array, D: Array, m: int, q: Array) -> tuple[Array, Array]:
    """The part of q off the subspace, and the coefficients of the rest in the rows of D; both with the sign turned."""
    basis, dual = Q[:m], Z[:m]
    p = q - np.dot(np.dot(basis, q), basis)
    if np.dot(p, p) < _PLAIN**2 * np.dot(q, q):
        p -= np.dot(np.dot(basis, p), basis)
    inside = q - p
    x = np.dot(dual, inside)
    x += np.dot(dual, inside - np.dot(x, D[:m]))  # Z alone loses accuracy where rows are nearly dependent
    return -p, -x


def rebuild(Q: Array, Z: Array, D: Array, m: int) -> bool:
    """Recompute Q and Z from the first m rows of D; False where they have become dependent."""
    from scipy.linalg import solve_triangular

    basis, R = np.linalg.qr(D[:m].T)
    pivots = np.abs(np.diagonal(R))
    if m > D.shape[1] or (m and pivots.min() <= 1e-15 * pivots.max()):
        return False
    Q[:m] = basis.T
    Z[:m] = solve_triangular(R, basis.T, check_finite=False)
    return True


def exchange(Z: Array, D: Array, members: NDArray[np.int64], k: int) -> None:
    r"""The members are differences from one reference; make row k of them the reference, and the old one row k.

    The subspace stays: :math:`D_i \leftarrow D_i - D_k` and :math:`D_k \leftarrow -D_k`; in Z only row k changes, to
    minus the sum over the members.
    """
    Z[k] = -Z[members].sum(axis=0)
    D[members[members != k]] -= D[k]
    D[k] = -D[k]


#: A rate below this share of its row's norm is rounding: the row depends on those in use.
FLAT = 1e-10
#: By how much the test lets levels and multipliers be exceeded, relative to their sizes.
_MARGIN = 1e-12

#: A step that is longer than any other.
_ENDLESS = 1e100


@compiled
def _shortest(slack: Array, rate: Array, margin: float) -> float:
    """The relaxed step over positive rates."""
    return float(((np.maximum(slack, 0.0) + margin) / rate).min())


@compiled
def _steepest(slack: Array, rate: Array, step: float, draw: float) -> int:
    """The steepest of those that end within the step; with a draw in [0, 1), any of them."""
    first = np.flatnonzero(np.maximum(slack, 0.0) <= step * rate)
    if first.size == 0:
        return -1
    return int(first[int(draw * first.size)] if draw >= 0.0 else first[np.argmax(rate[first])])


@compiled
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
