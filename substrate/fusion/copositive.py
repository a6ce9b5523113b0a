r"""Copositive matrices of order two, three and four, and the exact minimum of a line minus a root over a simplex.

A symmetric H is copositive if :math:`t^T H t \ge 0` for all :math:`t \ge 0`. Scaled to a unit diagonal, with entries
:math:`c_{ij}`, it is so for order two iff :math:`c_{12} \ge -1`, and for order three iff every :math:`c_{ij} \ge -1`
and

.. math:: c_{12} + c_{13} + c_{23} + 1 + \sqrt{2 (1 + c_{12}) (1 + c_{13}) (1 + c_{23})} \ge 0

[Hadeler1983]_. Of order n, with copositive principal submatrices of order n - 1, it is copositive unless its
determinant is negative and its adjugate has no negative entry [Hadeler1983]_; [Kaplan2000]_ states the same by
eigenvectors. Entries above one may be set to one: along :math:`e_i - e_j` the form is then concave, and a minimum has
:math:`t_i t_j = 0`.

Copositivity is monotone in the entries. Entries are therefore rounded down before a test, and what passes is copositive
in exact arithmetic.

For :math:`\beta \le \min_i a_i` both sides of :math:`a^T t - \beta \ge \sigma \sqrt{t^T Q t}` may be squared on the
unit simplex, so that

.. math:: \min_{t} \; a^T t - \sigma \sqrt{t^T Q t} \;\ge\; \beta \quad \Longleftrightarrow \quad
          (a - \beta 1)(a - \beta 1)^T - \sigma^2 Q \;\text{ is copositive.}
"""

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding

__all__ = ["copositive", "least_difference", "pairwise_difference"]

#: Relative rounding of the entries and of the tests.
_ROUNDING = relative_rounding(64.0)
#: Rounds of the search for the largest beta, and candidates in each.
_ROUNDS, _CANDIDATES = 3, 33


def copositive(H: Array) -> NDArray[np.bool_]:
    """Return which of the matrices are certainly copositive.

    H has shape (k, n, n) with n up to four, and holds lower bounds of their entries.
    """
    n = H.shape[-1]
    diagonal = np.einsum("kii->ki", H)
    root = np.sqrt(np.maximum(diagonal, 0.0))
    plain = np.asarray((H >= 0.0).all(axis=(1, 2)))
    if n == 1:
        return plain
    with np.errstate(divide="ignore", invalid="ignore"):
        C = H / (root[:, :, None] * root[:, None, :])
        C = np.minimum(C - _ROUNDING * (1.0 + np.abs(C)), 1.0)
    usable = (diagonal > 0.0).all(axis=1)
    return np.asarray(plain | (usable & _unit(np.where(np.isfinite(C), C, -2.0))))


def _unit(C: Array) -> NDArray[np.bool_]:
    """Return the test for a diagonal of ones, of which only the other entries are read."""
    n = C.shape[-1]
    pairs = list(combinations(range(n), 2))
    passed = np.all([C[:, i, j] >= -1.0 for i, j in pairs], axis=0)
    for i, j, k in combinations(range(n), 3):
        a, b, c = C[:, i, j], C[:, i, k], C[:, j, k]
        product = np.maximum(1.0 + a, 0.0) * np.maximum(1.0 + b, 0.0) * np.maximum(1.0 + c, 0.0)
        passed &= a + b + c + 1.0 + np.sqrt(2.0 * product) >= _ROUNDING
    if n == 4:
        passed &= _fourth(C, passed)
    return np.asarray(passed)


def _fourth(C: Array, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the test by determinant and adjugate, with a margin for their rounding; entries are between minus one
    and one.
    """
    is_copositive = np.zeros(C.shape[0], dtype=bool)
    M = C[among].copy()
    M[:, range(4), range(4)] = 1.0
    adjugate = np.empty_like(M)
    for i in range(4):
        for j in range(i, 4):
            adjugate[:, i, j] = adjugate[:, j, i] = _minor(M, i, j)
    determinant = np.einsum("kj,kj->k", M[:, 0], adjugate[:, 0])
    negative = (adjugate < -1e2 * _ROUNDING).any(axis=(1, 2))
    is_copositive[among] = (M >= 0.0).all(axis=(1, 2)) | (determinant >= 1e3 * _ROUNDING) | negative
    return is_copositive


def _minor(M: Array, i: int, j: int) -> Array:
    """Return the signed minors of order three."""
    r, c = [k for k in range(4) if k != i], [k for k in range(4) if k != j]
    rows = [[M[:, a, b] for b in c] for a in r]
    value = (
        rows[0][0] * (rows[1][1] * rows[2][2] - rows[1][2] * rows[2][1])
        - rows[0][1] * (rows[1][0] * rows[2][2] - rows[1][2] * rows[2][0])
        + rows[0][2] * (rows[1][0] * rows[2][1] - rows[1][1] * rows[2][0])
    )
    return np.asarray(value * (-1.0) ** (i + j))


def pairwise_difference(a: Array, Q: Array) -> float:
    r"""Return the largest beta with :math:`(a_i - \beta)(a_j - \beta) \ge Q_{ij}` for all pairs, a bound without a
    test.
    """
    positive = np.maximum(Q, 0.0) * (1.0 + _ROUNDING)
    differences = a[:, None] - a[None, :]
    beta = 0.5 * (a[:, None] + a[None, :] - np.sqrt(differences * differences + 4.0 * positive))
    low = float(beta.min())
    return low - _ROUNDING * (abs(low) + float(np.abs(a).max()) + float(np.sqrt(positive.max())))


def least_difference(a: Array, Q: Array, enough: float = np.inf) -> float:
    r"""Return a lower bound of :math:`a^T t - \sqrt{t^T Q t}` over the unit simplex, exact up to the steps of its
    search.

    The search ends early at a bound of ``enough``.
    """
    low = pairwise_difference(a, Q)
    high = float((a - np.sqrt(np.maximum(np.diagonal(Q), 0.0))).min())
    for _ in range(_ROUNDS):
        if low >= enough or high - low <= 1e-9 * (abs(low) + abs(high)):
            break
        betas = np.linspace(low, high, _CANDIDATES)[1:]
        passed = copositive(_round_down(a, Q, betas))
        if passed.any():
            last = int(np.flatnonzero(passed)[-1])
            low = float(betas[last])
            high = float(betas[min(last + 1, betas.size - 1)])
        else:
            high = float(betas[0])
    return low


def _round_down(a: Array, Q: Array, betas: Array) -> Array:
    """Return (a - beta)(a - beta)' - Q for every beta, rounded down."""
    differences = a[None, :] - betas[:, None]
    differences = np.maximum(differences - _ROUNDING * (np.abs(a)[None, :] + np.abs(betas)[:, None]), 0.0)
    squares = differences[:, :, None] * differences[:, None, :]
    return np.asarray(squares * (1.0 - _ROUNDING) - Q - _ROUNDING * np.abs(Q))
