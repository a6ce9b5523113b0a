"""The steps of a block path: several segments one after the other, each to the row that ends it.

:func:`walk` is one function, so that where it is compiled nothing of a step is interpreted.
"""

import math

import numpy as np

from substrate.arrays import Array
from substrate.compilation import compiled, entry, loops_of
from substrate.penalized.homotopy.block_basis import (
    add_transposed_product,
    append,
    exchange,
    four_products,
    refine_coefficients,
    remove,
    straighten,
    times,
    transposed_times,
)
from substrate.penalized.homotopy.ratio_test import FLAT, travel
from substrate.penalized.homotopy.signed_rows import Index
from substrate.penalized.homotopy.vector_loops import (
    add_multiple,
    copy_into,
    find_largest,
    find_members,
    inner_product,
    scale_into,
)

__all__ = ["END", "STALL", "open_rows", "rows_times", "walk"]

#: A step below this share of rho counts as zero.
_STILL = 1e-14
#: Exchanges without a step after which the choice is random, and after which the path stalls.
_STEEPEST, _PATIENCE = 4, 200
#: Why a walk ends: the path cannot be continued, or it is at its end.
STALL, END = 1, 2


def rows_times(B: Array, F: Array, G: Array, x: Array, active: Index, home: Index, dt: Array) -> Array:
    """Return B x, by the factors if there are any; the active signed rows have those of their homes, ``dt``."""
    if F.size == 0:
        return np.asarray(B @ x)
    return np.asarray(np.vecmat((G @ x).reshape(F.shape[:2]), F)).ravel()


@loops_of(rows_times)
def _rows_times(B, F, G, x, active, home, dt):  # type: ignore[no-untyped-def]
    blocks, rank, n = F.shape
    if blocks == 0:
        return _others_times(B, x, active, home, dt)
    inner = times(G, G.shape[0], G.shape[1], x)
    out = np.zeros(blocks * n)
    for k in range(blocks):
        add_transposed_product(F[k], rank, n, inner[k * rank : (k + 1) * rank], out[k * n : (k + 1) * n])
    return out


@compiled
def _others_times(B: Array, x: Array, active: Index, home: Index, dt: Array) -> Array:
    """Return B x, where only the rows that are not active are multiplied, four at a time."""
    p, r = B.shape
    out, taken, places, count = np.zeros(p), np.zeros(p), np.empty(p, dtype=np.int64), 0
    for k in range(active.size):
        i = active[k] % p
        taken[i] = 1.0
        out[i] = dt[home[k]] if active[k] < p else -dt[home[k]]
    for i in range(p):
        if taken[i] == 0.0:
            places[count] = i
            count += 1
    i = 0
    while i + 4 <= count:
        a, b, c, d = B[places[i]], B[places[i + 1]], B[places[i + 2]], B[places[i + 3]]
        s0, s1, s2, s3 = four_products(a, b, c, d, x, r)
        out[places[i]], out[places[i + 1]], out[places[i + 2]], out[places[i + 3]] = s0, s1, s2, s3
        i += 4
    while i < count:
        out[places[i]] = inner_product(B[places[i]], x)
        i += 1
    return out


def slopes_of(x: Array, home: Index, blocks: int, n: int) -> Array:
    """Return how the multipliers of the n active rows change: those of a block add up to rho."""
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
    """Return row i of [B; -B]."""
    p = B.shape[0]
    row: Array = B[i % p].copy()
    if i >= p:
        scale_into(row, -1.0, row)
    return row


def open_rows(least: Array, flat: Array, active: Index, n: int) -> None:
    """Allow all rows but the n active ones to enter."""
    least[:] = flat
    least[active[:n]] = np.inf


@loops_of(open_rows)
def _open_rows_by_loops(least, flat, active, n):  # type: ignore[no-untyped-def]
    for i in range(flat.size):
        least[i] = flat[i]
    for k in range(n):
        least[active[k]] = np.inf


@compiled
def read_reference(B: Array, references: Array, q: Array, active: Index, k: int) -> None:
    """Read reference k and the sum of all again."""
    copy_into(references[k], signed_row(B, active[k]))
    d, r = references.shape
    copy_into(q, transposed_times(references, d, r, np.ones(d)))


@entry
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
    ``numbers`` are rho and the longest length of du since it was made orthogonal; ``counts`` are the active rows, the
    exchanges, those without a step, the row that has just left, and the knots kept. Of these the arrays ``kept`` have
    rho, u, t and the multipliers, and ``rows`` where these begin and their rows, as in
    :class:`~substrate.penalized.homotopy.signed_rows.Knots`.
    """
    d, r = references.shape
    floor, finish, height = limits
    kept_rho, kept_u, kept_t, kept_eta = kept
    starts, places = rows
    for draw in draws:
        n = counts[0]
        m = n - d
        refine_coefficients(S, C, x, y, m)
        dt = times(references, d, r, du)
        dv = rows_times(B, F, G, du, active[:n], home, dt)
        slope, speed, now = slopes_of(x, home, d, n), math.sqrt(inner_product(du, du)), eta[:n]
        chance = draw if counts[2] > _STEEPEST else -1.0
        kind, which, step = travel(dv, block, slack, least, now, slope, t, dt, speed, numbers[0], floor, chance)
        if kind == 0:
            return STALL
        numbers[0] += step
        add_multiple(u, step, du)
        if kind == 2:  # exactly zero; the remainder from rounding is added to the largest of its block
            eta[find_largest(eta, find_members(home[:n], home[which]))] += eta[which]
            eta[which] = 0.0
        counts[1] += 1
        ends = kind == 3 or inner_product(u, u) <= finish or t.sum() - floor <= height
        if ends or step > _STILL * numbers[0]:
            k = counts[4]
            begin = starts[k]
            kept_rho[k], starts[k + 1] = numbers[0], begin + n
            copy_into(kept_u[k], u)
            copy_into(kept_t[k], t)
            copy_into(places[begin : begin + n], active[:n])
            for i in range(n):
                kept_eta[begin + i] = max(now[i], 0.0)
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
                members = find_members(home[d:n], which)
                k = find_largest(eta[d:n], members)
                exchange(S, C, x, y, m, members, k)
                k += d
                active[which], active[k] = active[k], active[which]
                eta[which], eta[k] = eta[k], eta[which]
                read_reference(B, references, q, active, which)
                which = k
            counts[3] = active[which]
            remove(Q, S, C, x, y, du, m, which - d)
            active[which], home[which], eta[which] = active[n - 1], home[n - 1], eta[n - 1]
            counts[0] = n - 1
            open_rows(least, flat, active, n - 1)  # rows that depended on the row that left may be independent now
            least[counts[3]] = np.inf
        else:
            least[which] = np.inf  # active from now on, or dependent on the active ones
            w = signed_row(B, which)
            add_multiple(w, -1.0, references[block[which]])
            if append(Q, S, C, x, y, du, m, w, 0.1 * FLAT) > 0.0:
                active[n], home[n], eta[n] = which, block[which], 0.0
                counts[0] = n + 1
        numbers[1] = straighten(Q, counts[0] - d, du, numbers[1])
    return 0
