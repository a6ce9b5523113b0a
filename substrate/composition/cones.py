r"""The cones of a program: points that are inside for certain, multipliers in the dual, and a direction inwards.

A vector s of the rows of a program is in a product of the cones that cvxpy writes problems with ([Boyd2004]_ sections
2.2 and 2.6),

.. math::

    \{0\}, \qquad \mathbb{R}_+, \qquad \mathcal{Q} = \{(t, u) : \|u\| \le t\}, \qquad
    \mathcal{E} = \overline{\{(u, v, w) : v e^{u/v} \le w, \; v > 0\}}, \qquad \mathbb{S}_+ ,

whose duals are the line, themselves, and
:math:`\mathcal{E}^* = \overline{\{(u, v, w) : -u e^{v/u} \le e\, w, \; u < 0\}}`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.composition.semidefinite import SEMIDEFINITE, least_eigenvalue, order_of, raise_to_cone, vector_of
from substrate.errors import DeclarationError

__all__ = ["Cone", "clarabel_cones", "dual_point", "inward", "is_inside", "read_cones"]

_KINDS = frozenset({"Zero", "NonNeg", "SOC", "ExpCone", SEMIDEFINITE})
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
        if kind not in _KINDS:
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
        value, margin, _ = least_eigenvalue(s, radius)
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


def dual_point(cones: Sequence[Cone], z: Array) -> Array:
    """Return z moved into the dual cones: raised where it is outside."""
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
            z[rows] = raise_to_cone(z[rows])
        elif kind == "ExpCone":
            u, v, w = z[rows].reshape(-1, 3).T
            u = np.minimum(u, 0.0)
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
            room[rows] = vector_of(np.eye(order_of(size)))
        elif kind == "ExpCone":
            room[rows] = np.tile((-1.0, 1.0, 1.0), size // 3)
    return room


def clarabel_cones(cones: Sequence[Cone]) -> list[Any]:
    """Return the cones as Clarabel takes them."""
    import clarabel

    made = list[Any]()
    for kind, rows in cones:
        size = rows.stop - rows.start
        if kind == "Zero":
            made.append(clarabel.ZeroConeT(size))
        elif kind == "NonNeg":
            made.append(clarabel.NonnegativeConeT(size))
        elif kind == "SOC":
            made.append(clarabel.SecondOrderConeT(size))
        elif kind == SEMIDEFINITE:
            made.append(clarabel.PSDTriangleConeT(order_of(size)))
        else:
            made += [clarabel.ExponentialConeT()] * (size // 3)
    return made
