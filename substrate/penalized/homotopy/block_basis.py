r"""The active rows of a block path as an updated factorisation.

Rows :math:`D_i` that span a subspace are kept by their coefficients C in an orthonormal basis Q of it, with those of
the dual basis, S:

.. math:: D = C Q, \qquad S C^T = I ,

so that the projection of a vector p off the subspace is :math:`p - Q^T Q p` and the coefficients of the rest in the
rows of D are :math:`S Q p`. A new row w adds :math:`p = w - Q^T c`, :math:`c = Q w`, to Q (made orthogonal again where
little of w is left), the row :math:`(c, \|p\|)` to C, and to S a column :math:`-S c / \|p\|`. To remove row k, a
reflection turns Q until its last vector has the coefficients :math:`S_k / \|S_k\|`: it is orthogonal to all rows but
the k-th, and leaves. Both need a few products of the m x r matrix Q and a vector, and otherwise m x m matrices; the
order of the rows is immaterial, so the last fills the gap.

The direction of a path is the projection of one vector q, and its slopes are the coefficients x of the rest. Both are
updated with the factors: a vector p that joins Q takes :math:`p\,(p^T q)` from the projection and
:math:`S c\,(p^T q)/\|p\|` from the coefficients, one that leaves returns it. The projection is made orthogonal again
after it has become much shorter, and the coefficients are refined: :math:`x \leftarrow x + S (y - C^T x)`,
:math:`y = Q q`.
"""

import math

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.compilation import compiled, entry, loops_of
from substrate.penalized.homotopy.vector_loops import add_multiple, copy_into, inner_product, scale_into

__all__ = [
    "add_transposed_product",
    "append",
    "drift",
    "exchange",
    "four_products",
    "measure_turn",
    "rebuild",
    "refine_coefficients",
    "remove",
    "straighten",
    "subtract_outer",
    "sweep",
    "times",
    "transposed_times",
]

#: A projection that leaves at least this share of a vector need not be repeated.
_PLAIN = 0.5
#: A repeated projection that leaves less than this share is repeated once more.
_AGAIN = 0.5
#: A direction that has become this much shorter is made orthogonal again.
_SHORTER = 0.1
#: Entries of a part of a matrix that stays in the cache between two uses.
_PART = 32768


@compiled
def four_products(a: Array, b: Array, c: Array, d: Array, v: Array, columns: int) -> tuple[float, float, float, float]:
    """Return four rows times v, for each entry of v that is read."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    for j in range(columns):
        s0 += a[j] * v[j]
        s1 += b[j] * v[j]
        s2 += c[j] * v[j]
        s3 += d[j] * v[j]
    return s0, s1, s2, s3


def times(A: Array, rows: int, columns: int, v: Array) -> Array:
    """Return the first rows and columns of A times v."""
    return np.asarray(A[:rows, :columns] @ v[:columns])


@loops_of(times)
def _times(A, rows, columns, v):  # type: ignore[no-untyped-def]
    out = np.empty(rows)
    i = 0
    while i + 4 <= rows:
        s0, s1, s2, s3 = four_products(A[i], A[i + 1], A[i + 2], A[i + 3], v, columns)
        out[i], out[i + 1], out[i + 2], out[i + 3] = s0, s1, s2, s3
        i += 4
    while i < rows:
        s0 = 0.0
        for j in range(columns):
            s0 += A[i, j] * v[j]
        out[i] = s0
        i += 1
    return out


def transposed_times(A: Array, rows: int, columns: int, v: Array) -> Array:
    """Return v times the first rows and columns of A."""
    return np.asarray(v[:rows] @ A[:rows, :columns])


@loops_of(transposed_times)
def _transposed_times(A, rows, columns, v):  # type: ignore[no-untyped-def]
    out = np.zeros(columns)
    add_transposed_product(A, rows, columns, v, out)
    return out


@compiled
def add_transposed_product(A: Array, rows: int, columns: int, v: Array, out: Array) -> None:
    """Add v times the first rows and columns of A to ``out``."""
    i = 0
    while i + 4 <= rows:
        a, b, c, d = A[i], A[i + 1], A[i + 2], A[i + 3]
        v0, v1, v2, v3 = v[i], v[i + 1], v[i + 2], v[i + 3]
        for j in range(columns):
            out[j] += v0 * a[j] + v1 * b[j] + v2 * c[j] + v3 * d[j]
        i += 4
    while i < rows:
        for j in range(columns):
            out[j] += v[i] * A[i, j]
        i += 1


def subtract_outer(A: Array, rows: int, columns: int, a: Array, b: Array) -> None:
    """Take a b' from the first rows and columns of A."""
    size = max(16, _PART // max(columns, 1))
    for start in range(0, rows, size):
        block = A[start : min(start + size, rows), :columns]
        block -= a[start : start + block.shape[0], None] * b[:columns]


@loops_of(subtract_outer)
def _subtract_outer_by_loops(A, rows, columns, a, b):  # type: ignore[no-untyped-def]
    for i in range(rows):
        row, size = A[i], a[i]
        for j in range(columns):
            row[j] -= size * b[j]


def sweep(Q: Array, m: int, w: Array, c: Array) -> None:
    """Take the projection of w on the first m rows of Q from it, part by part, and add its coefficients to c."""
    size = max(16, _PART // Q.shape[1])
    for start in range(0, m, size):
        block = Q[start : min(start + size, m)]
        s = block @ w
        w -= s @ block
        c[start : start + s.size] += s


@loops_of(sweep)
def _sweep(Q, m, w, c):  # type: ignore[no-untyped-def]
    r = w.size
    i = 0
    while i + 4 <= m:  # four rows at a time, which are in the cache when they are subtracted
        a, b, e, f = Q[i], Q[i + 1], Q[i + 2], Q[i + 3]
        s0, s1, s2, s3 = four_products(a, b, e, f, w, r)
        for j in range(r):
            w[j] -= s0 * a[j] + s1 * b[j] + s2 * e[j] + s3 * f[j]
        c[i] += s0
        c[i + 1] += s1
        c[i + 2] += s2
        c[i + 3] += s3
        i += 4
    while i < m:
        s0 = 0.0
        for j in range(r):
            s0 += Q[i, j] * w[j]
        for j in range(r):
            w[j] -= s0 * Q[i, j]
        c[i] += s0
        i += 1


@entry
def append(Q: Array, S: Array, C: Array, x: Array, y: Array, du: Array, m: int, w: Array, smallest: float) -> float:
    """Add row w as the m-th; its length over its distance from the others, or zero without a change if it depends."""
    if m >= Q.shape[0]:
        return 0.0
    size, p, c = math.sqrt(inner_product(w, w)), w.copy(), np.zeros(m)
    sweep(Q, m, p, c)
    length = math.sqrt(inner_product(p, p))
    if length < _PLAIN * size:
        before = length
        sweep(Q, m, p, c)
        length = math.sqrt(inner_product(p, p))
        if length < _AGAIN * before:
            sweep(Q, m, p, c)
            length = math.sqrt(inner_product(p, p))
    if length <= smallest * size:
        return 0.0
    scale_into(p, 1.0 / length, p)
    last = inner_product(p, w)
    v = times(S, m, m, c)
    copy_into(C[m, :m], c)
    scale_into(C[:m, m], 0.0, v)
    scale_into(S[m, :m], 0.0, v)
    scale_into(S[:m, m], -1.0 / last, v)
    C[m, m], S[m, m] = last, 1.0 / last
    copy_into(Q[m], p)
    along = -inner_product(p, du)  # p'q, of which du has all that is left
    add_multiple(x[:m], -along / last, v)
    x[m], y[m] = along / last, along
    add_multiple(du, along, p)
    return float(size / last)


@compiled
def remove(Q: Array, S: Array, C: Array, x: Array, y: Array, du: Array, m: int, k: int) -> float:
    """Take out row k of m, and return its length over its distance from the others.

    The last row of S and C moves into its place.
    """
    last, r = m - 1, Q.shape[1]
    g, size = S[k, :m].copy(), math.sqrt(inner_product(C[k, :m], C[k, :m]))
    size *= math.sqrt(inner_product(g, g))
    scale_into(g, 1.0 / math.sqrt(inner_product(g, g)), g)
    coefficients_left = times(C, m, m, g)  # zero but for row k; once more, since S is known only by updates
    coefficients_left[k] = 0.0
    add_multiple(g, -1.0, transposed_times(S, m, m, coefficients_left))
    scale_into(g, 1.0 / math.sqrt(inner_product(g, g)), g)
    gone, dual, projection = transposed_times(Q, m, r, g), times(S, m, m, g), np.zeros(m)
    projection[k] = inner_product(C[k, :m], g)
    # the reflection that takes g to the last axis, with the sign that does not cancel
    sign = 1.0 if g[last] >= 0.0 else -1.0
    h = g.copy()
    h[last] += sign
    share = 2.0 / inner_product(h, h)
    shares = h.copy()
    scale_into(shares, share, h)
    inner = y[:m]
    along = inner_product(g, inner)
    add_multiple(x[:m], -along, dual)
    add_multiple(inner, -share * inner_product(h, inner), h)
    add_multiple(du, -along, gone)
    # the rows of the reflection, each plus or minus the last one
    add_multiple(gone, sign, Q[last])
    add_multiple(dual, sign, S[:m, last])
    add_multiple(projection, sign, C[:m, last])
    subtract_outer(S, m, last, dual, shares)
    subtract_outer(C, m, last, projection, shares)
    subtract_outer(Q, last, r, shares, gone)
    if k < last:
        copy_into(S[k, :last], S[last, :last])
        copy_into(C[k, :last], C[last, :last])
        x[k] = x[last]
    return size


@compiled
def exchange(S: Array, C: Array, x: Array, y: Array, m: int, members: NDArray[np.int64], k: int) -> None:
    r"""Make row k the reference of the members, which are differences from it, and the old reference row k.

    The subspace stays: :math:`D_i \leftarrow D_i - D_k` and :math:`D_k \leftarrow -D_k`; in S only row k changes, to
    minus the sum over the members. q, the sum of all references, grows by the old :math:`D_k`.
    """
    dual, total, coefficients_of_row = np.zeros(m), 1.0, C[k, :m].copy()
    for i in members:
        add_multiple(dual, 1.0, S[i, :m])
        total += x[i]
        add_multiple(C[i, :m], -1.0, coefficients_of_row)
    scale_into(S[k, :m], -1.0, dual)
    scale_into(C[k, :m], -1.0, coefficients_of_row)
    x[k] = -total
    add_multiple(y[:m], 1.0, coefficients_of_row)


@compiled
def refine_coefficients(S: Array, C: Array, x: Array, y: Array, m: int) -> None:
    """Refine the coefficients by one step."""
    inside = x[:m]
    rest = transposed_times(C, m, m, inside)
    add_multiple(rest, -1.0, y[:m])
    add_multiple(inside, -1.0, times(S, m, m, rest))


@compiled
def straighten(Q: Array, m: int, du: Array, length: float) -> float:
    """Make a direction that was of this length orthogonal again, if it is much shorter now; the length to compare."""
    now = math.sqrt(inner_product(du, du))
    if now < _SHORTER * length:
        sweep(Q, m, du, np.zeros(m))
        return math.sqrt(inner_product(du, du))
    return max(now, length)


def rebuild(Q: Array, S: Array, C: Array, D: Array) -> bool:
    """Compute all factors from the rows D; False where they are dependent."""
    from scipy.linalg import solve_triangular

    m = D.shape[0]
    basis, R = np.linalg.qr(D.T)
    pivots = np.abs(np.diagonal(R))
    if m > D.shape[1] or (m and pivots.min() <= 1e-15 * pivots.max()):
        return False
    Q[:m], C[:m, :m] = basis.T, R.T
    S[:m, :m] = solve_triangular(R, np.eye(m), check_finite=False)
    return True


def drift(Q: Array, S: Array, C: Array, D: Array, chance: np.random.Generator) -> tuple[float, float, float]:
    """Return how far rounding has come, seen by random vectors: of D - CQ and of QQ' - I, relative, and of SC' - I."""
    m, r = D.shape
    if not m:
        return 0.0, 0.0, 0.0
    v, sizes = chance.standard_normal(r), np.sqrt(np.einsum("ij,ij->i", D, D))
    distance = float(np.max(np.abs(D @ v - C[:m, :m] @ (Q[:m] @ v)) / sizes))
    return distance, *measure_turn(Q, S, C, m, chance)


def measure_turn(Q: Array, S: Array, C: Array, m: int, chance: np.random.Generator) -> tuple[float, float]:
    """Return the same of QQ' - I and of SC' - I alone, for which the rows themselves are not needed."""
    a = chance.standard_normal(m)
    basis = float(np.abs(Q[:m] @ (a @ Q[:m]) - a).max(initial=0.0))
    return basis, float(np.abs(S[:m, :m] @ (a @ C[:m, :m]) - a).max(initial=0.0))
