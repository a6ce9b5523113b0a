r"""The cones of a program: points that are inside for certain, multipliers in the dual, and a direction inwards.

A vector s of the rows of a program is in a product of the cones that cvxpy writes problems with ([Boyd2004]_ sections
2.2 and 2.6),

.. math::

    \{0\}, \qquad \mathbb{R}_+, \qquad \mathcal{Q} = \{(t, u) : \|u\| \le t\}, \qquad
    \mathcal{E} = \overline{\{(u, v, w) : v e^{u/v} \le w, \; v > 0\}}, \qquad \mathbb{S}_+ ,

whose duals are the line, themselves, and
:math:`\mathcal{E}^* = \overline{\{(u, v, w) : -u e^{v/u} \le e\, w, \; u < 0\}}`.

A symmetric matrix is its upper triangle, column by column, with off-diagonal entries times :math:`\sqrt 2`, as cvxpy
and Clarabel write it. Then :math:`s^T z = \operatorname{tr} S Z` and :math:`\|s\| = \|S\|_F \ge \|S\|_2`, so that for
every s within a radius r, entry by entry, of one that was computed

.. math:: \lambda_{\min}(S) \ge \hat\lambda_{\min} - \|r\| - c\, n\, u\, \|\hat S\|_F

(Weyl's inequality, and the backward error of a symmetric eigenvalue decomposition).
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.errors import DeclarationError
from substrate.numbers import relative_rounding

__all__ = [
    "KINDS",
    "Cone",
    "clarabel_cones",
    "dual_point",
    "inward",
    "is_inside",
    "misalignment",
    "read_cones",
    "violation",
]

#: What cvxpy calls the cone of positive semi-definite matrices.
SEMIDEFINITE = "SvecPSD"
#: The cones that are understood, by cvxpy's names.
KINDS = frozenset({"Zero", "NonNeg", "SOC", "ExpCone", SEMIDEFINITE})
#: Rounded operations per row that an eigenvalue decomposition is assumed to need, with room for the entries' own.
_DECOMPOSITION = 32.0
#: Largest exponent at which a point of an exponential cone is looked at.
_STEEPEST = 300.0


class Cone(NamedTuple):
    """The kind of a cone, by cvxpy's name, and its rows; of exponential cones, three rows for each."""

    kind: str
    rows: slice


def read_cones(constraints: Sequence[Any]) -> tuple[Cone, ...]:
    """Return the cones of a compiled problem, in the order of their rows."""
    cones, start = list[Cone](), 0
    for constraint in constraints:
        kind = type(constraint).__name__
        if kind not in KINDS:
            raise DeclarationError(
                f"the problem needs the cone {kind!r}; what can be fused over are problems of linear, second-order, "
                "exponential and semi-definite cones: squares, norms, maxima, hinges, logistic losses, entropies, "
                "eigenvalues, nuclear norms, determinants"
            )
        sizes = [constraint.size]
        if kind == "SOC":
            sizes = list(constraint.cone_sizes())
        elif kind == SEMIDEFINITE:
            sizes = [order * (order + 1) // 2 for order in constraint.cone_sizes()]
        for size in sizes:
            cones.append(Cone(kind, slice(start, start + int(size))))
            start += int(size)
    return tuple(cones)


def is_inside(cones: Sequence[Cone], s: Array, radius: Array) -> bool:
    """Return whether every vector within a radius of s, row by row, is in the cones; rows of zeros are left out."""
    return all(_holds(kind, s[rows], radius[rows]) for kind, rows in cones)


def _holds(kind: str, s: Array, radius: Array) -> bool:
    if kind == "Zero":
        return True
    if kind == "NonNeg":
        return bool((s >= radius).all())
    if kind == "SOC":
        length = float(np.linalg.norm(s[1:]) + np.linalg.norm(radius[1:]))
        return float(s[0] - radius[0]) >= length * (1.0 + relative_rounding(s.size))
    if kind == SEMIDEFINITE:
        value, margin = _least_eigenvalue(s, radius)
        return value >= margin
    (u, v, w), (du, dv, dw) = s.reshape(-1, 3).T, radius.reshape(-1, 3).T
    if not (v > dv).all():
        return False
    steepest = np.maximum((u + du) / (v - dv), (u + du) / (v + dv))
    if (steepest > _STEEPEST).any():
        return False
    # v exp(u/v) grows with v for u < v and falls beyond, so that its largest value is at an end of both ranges
    top = np.maximum((v - dv) * np.exp((u + du) / (v - dv)), (v + dv) * np.exp((u + du) / (v + dv)))
    return bool((w - dw >= top * (1.0 + relative_rounding(16.0) * (1.0 + np.abs(steepest)))).all())


def dual_point(cones: Sequence[Cone], z: Array, constant: NDArray[np.bool_] | None = None) -> Array:
    """Return z moved into the dual cones: raised where it is outside, in ``constant`` rows of A where there are some.

    There it costs nothing of stationarity.
    """
    z = z.copy()
    for kind, rows in cones:
        if kind == "NonNeg":
            z[rows] = np.maximum(z[rows], 0.0)
        elif kind == "SOC":
            length = float(np.linalg.norm(z[rows][1:]))
            z[rows.start] = max(
                float(z[rows.start]), length * (1.0 + relative_rounding(4.0 * (rows.stop - rows.start)))
            )
        elif kind == SEMIDEFINITE:
            z[rows] = _raise_to_semidefinite(z[rows])
        elif kind == "ExpCone":
            u, v, w = z[rows].reshape(-1, 3).T
            u = np.minimum(u, 0.0)
            if constant is not None:
                free = constant[rows].reshape(-1, 3)[:, 1] & (u < 0.0) & (w > 0.0)
                logarithm = np.log(np.where(free, w, 1.0) / np.where(free, -u, 1.0))
                least = u * (1.0 + logarithm) - relative_rounding(16.0) * u * (2.0 + np.abs(logarithm))
                v = np.where(free, np.maximum(v, least), v)
            ratio = v / np.where(u < 0.0, u, -1.0)
            level = (
                -u * np.exp(np.minimum(ratio - 1.0, 700.0)) * (1.0 + relative_rounding(16.0) * (2.0 + np.abs(ratio)))
            )
            z[rows] = np.column_stack([u, np.where(u < 0.0, v, np.maximum(v, 0.0)), np.maximum(w, level)]).ravel()
    return z


def inward(cones: Sequence[Cone], height: int) -> Array:
    """Return a vector in the interior of every cone, zero in rows of zeros."""
    room = np.zeros(height)
    for kind, rows in cones:
        size = rows.stop - rows.start
        if kind == "NonNeg":
            room[rows] = 1.0
        elif kind == "SOC":
            room[rows.start] = 1.0
        elif kind == SEMIDEFINITE:
            room[rows] = _vector_of(np.eye(_order_of(size)))
        elif kind == "ExpCone":
            room[rows] = np.tile((-1.0, 1.0, 1.0), size // 3)
    return room


def clarabel_cones(cones: Sequence[Cone]) -> list[Any]:
    """Return the cones as Clarabel takes them."""
    import clarabel

    solver_cones = list[Any]()
    for kind, rows in cones:
        size = rows.stop - rows.start
        if kind == "Zero":
            solver_cones.append(clarabel.ZeroConeT(size))
        elif kind == "NonNeg":
            solver_cones.append(clarabel.NonnegativeConeT(size))
        elif kind == "SOC":
            solver_cones.append(clarabel.SecondOrderConeT(size))
        elif kind == SEMIDEFINITE:
            solver_cones.append(clarabel.PSDTriangleConeT(_order_of(size)))
        else:
            solver_cones += [clarabel.ExponentialConeT()] * (size // 3)
    return solver_cones


def violation(cones: Sequence[Cone], s: Array) -> float:
    """Return the largest violation among the cones at s, zero inside."""
    exponential = ("Zero", "ExpCone")
    raised = dual_point([cone for cone in cones if cone.kind not in exponential], s)  # the others are self-dual
    worst = float(np.abs(raised - s).max(initial=0.0))
    for kind, rows in cones:
        if kind == "Zero":
            worst = max(worst, float(np.abs(s[rows]).max(initial=0.0)))
        elif kind == "ExpCone":
            u, v, w = s[rows].reshape(-1, 3).T
            inside = v > 0.0
            level = v * np.exp(np.minimum(u / np.where(inside, v, 1.0), 700.0))
            edge = np.maximum(np.maximum(-v, u), -w)  # of the closure, at v = 0
            worst = max(worst, float(np.where(inside, level - w, edge).max(initial=0.0)))
    return worst


def misalignment(cones: Sequence[Cone], s: Array, z: Array) -> float:
    """Return how far s and z are from complementary, to first order in an error of either.

    Entry by entry in the orthant; in a second-order cone by their Jordan product, :math:`(s^T z, s_0 z_1 + z_0 s_1)`,
    since :math:`s^T z` depends on the angle between two vectors on the boundary only to second order.
    """
    worst = 0.0
    for kind, rows in cones:
        p, q = s[rows], z[rows]
        if kind == "NonNeg":
            worst = max(worst, float(np.abs(p * q).sum()))
        elif kind != "Zero":
            worst = max(worst, abs(float(p @ q)))
        if kind == "SOC":
            worst = max(worst, float(np.abs(p[1:] * q[0] + p[0] * q[1:]).max(initial=0.0)))
    return worst


def _order_of(size: int) -> int:
    """Return the order n of a matrix with this many entries in its triangle."""
    return (math.isqrt(8 * size + 1) - 1) // 2


def _matrix_of(s: Array) -> Array:
    """Return the symmetric matrix of a vector."""
    n = _order_of(s.size)
    S = np.zeros((n, n))
    columns, rows = np.tril_indices(n)  # the upper triangle, column by column
    S[rows, columns] = np.where(rows == columns, s, s / math.sqrt(2.0))
    return np.asarray(np.where(S == 0.0, S.T, S))


def _vector_of(S: Array) -> Array:
    """Return the vector of a symmetric matrix."""
    columns, rows = np.tril_indices(S.shape[0])
    return np.asarray(np.where(rows == columns, 1.0, math.sqrt(2.0)) * S[rows, columns])


def _least_eigenvalue(s: Array, radius: Array | float = 0.0) -> tuple[float, float]:
    """Return the least eigenvalue, and how far it may be from the least eigenvalue of a vector within ``radius``."""
    values = np.linalg.eigvalsh(_matrix_of(s))
    wide = float(np.linalg.norm(np.broadcast_to(radius, s.shape)))
    rounding = relative_rounding(_DECOMPOSITION * max(values.size, 1)) * float(np.linalg.norm(s))
    return float(values[0]), 1.01 * wide + rounding


def _raise_to_semidefinite(z: Array) -> Array:
    """Return a vector of the cone near z: its projection, and a little more where rounding could leave it outside."""
    value, radius = _least_eigenvalue(z)
    if value >= radius:
        return z
    values, directions = np.linalg.eigh(_matrix_of(z))
    S = (directions * np.maximum(values, 0.0)) @ directions.T
    return _vector_of(0.5 * (S + S.T) + 4.0 * radius * np.eye(values.size))
