r"""How far a feasible point is from the optimum, in the norm of the quadratic term.

For a feasible x, the optimum :math:`x^\star`, :math:`d = x^\star - x`, any :math:`z \in \mathcal{K}^*` and
:math:`r = P x + q - A^T z`, optimality :math:`(P x^\star + q)^T d \le 0` gives

.. math::

    d^T P d \le -(P x + q)^T d = z^T (A x + b) - z^T (A x^\star + b) - r^T d \le z^T s - r^T d ,

since :math:`z^T s^\star \ge 0`. With :math:`|r^T d| \le a \|d\|_P + g^T R`, where P determines coordinates and where
:math:`|d_j| \le R_j` is assumed (:mod:`substrate.composition.determined`),

.. math:: \|d\|_P \le \tfrac12 \left( a + \sqrt{a^2 + 4 (z^T s + g^T R)} \right) .

The rounding error of every product is included. Where the program knows what its coordinates leave out of w
(:mod:`substrate.composition.whole_space`), the optimum is that over all w. R enters linearly under a root: an optimum
:math:`\kappa` times farther away than R makes the bound at most :math:`\sqrt\kappa` times larger.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import lsqr

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.composition.cone_program import Cone, ConeProgram
from substrate.composition.determined import CoordinateBounds
from substrate.composition.feasible_point import Feasibility, FeasiblePoint, Step
from substrate.composition.semidefinite import SEMIDEFINITE, raise_to_cone

__all__ = ["Nearness", "corrected_multipliers", "in_dual_cone", "nearness"]

_ROOM = 1.0 + 1e-9
#: Room for what a step towards feasibility changes in what is known of the rows.
_MARGIN = 1.1
#: Attempts at a point whose rows are known as well as was assumed.
_ROUNDS = 4
#: Largest matrix whose least-squares problems are solved by its singular values.
_DENSE = 1_000_000


@dataclass(frozen=True, slots=True)
class Nearness:
    """A feasible point (within ``point_radius`` of x, coordinate by coordinate) and how far it is from the optimum."""

    x: Array
    point_radius: Array
    distance: float


def nearness(
    program: ConeProgram, x: Array, z: Array, radius: Array, ties: CoordinateBounds, step: Step | None = None
) -> Nearness | str:
    """Return a feasible point near x and its distance from the optimum by the multipliers z, or why there is none."""
    z = in_dual_cone(program, z)
    if program.whole is None:
        point = Feasibility(program).near(x, step)
        return point if isinstance(point, str) else _near(program, point, z, radius, ties)
    space_radius = program.whole.bound_radius(program, x, z)
    for _ in range(_ROUNDS):
        assumed = _MARGIN * space_radius
        inexact = program.with_space(program.whole, assumed)
        point = Feasibility(inexact).near(x, step)
        if isinstance(point, str):
            return point
        space_radius = program.whole.bound_radius(program, point.x, z, float(point.radius.max(initial=0.0)))
        if (space_radius <= assumed).all():
            return _near(inexact, point, z, radius, ties)
    return "the readings of the kernel at the solver's point are not known well enough"


def _near(program: ConeProgram, point: FeasiblePoint, z: Array, radius: Array, ties: CoordinateBounds) -> Nearness:
    return Nearness(point.x, point.radius, _distance(program, point, z, radius, ties))


def _distance(program: ConeProgram, point: FeasiblePoint, z: Array, radius: Array, ties: CoordinateBounds) -> float:
    weights = np.abs(z)
    weights[program.equal] = 0.0  # equalities hold exactly
    slack, rounding = program.slack(point.x)
    slack_radius = rounding + program.sizes[1] @ point.radius
    inside = np.where(weights > 0.0, z * slack, 0.0)
    gap = float(inside.sum()) + float(weights @ slack_radius) + relative_rounding(z.size) * float(np.abs(inside).sum())
    r, error = program.slope(point.x, z)
    residual = np.abs(r) + error + program.sizes[0] @ point.radius
    if program.whole is not None:
        residual = program.whole.steeper(z, residual)
    a, untied = ties.split(residual, radius)
    gap = max(gap, 0.0) + float(untied @ radius)
    return _ROOM * 0.5 * (a + math.sqrt(a * a + 4.0 * gap))


def in_dual_cone(program: ConeProgram, z: Array) -> Array:
    """Return z moved into the dual cone: raised where it is outside."""
    z = z.copy()
    z[program.linear] = np.maximum(z[program.linear], 0.0)
    for cone in program.cone_blocks:
        z[cone.rows] = _raise_multipliers(cone, z[cone.rows], program.constant[cone.rows])
    return z


def _raise_multipliers(cone: Cone, z: Array, constant: NDArray[np.bool_]) -> Array:
    """Return z in the dual of one cone; a multiplier of a constant row may be raised at no cost to stationarity."""
    if cone.kind == "SOC":
        return np.append(
            max(float(z[0]), (1.0 + relative_rounding(4.0 * z.size)) * float(np.linalg.norm(z[1:]))), z[1:]
        )
    if cone.kind == SEMIDEFINITE:
        return raise_to_cone(z)
    u, v, w = map(float, z)
    if u >= 0.0:
        return np.array([0.0, max(v, 0.0), max(w, 0.0)])
    if constant[1] and w / -u > 0.0:
        ratio = math.log(w / -u)
        v = max(v, u * (1.0 + ratio) + 1e-14 * -u * (2.0 + abs(ratio)))
    level = -u * math.exp(min(v / u - 1.0, 700.0))
    return np.array([u, v, max(w, (1.0 + 1e-14 * (2.0 + abs(v / u))) * level)])


def corrected_multipliers(program: ConeProgram, x: Array, z: Array, rounds: int = 3) -> Array:
    """Return multipliers nearer to stationarity where P has no effect: by least squares, in rows of either sign."""
    z = in_dual_cone(program, z)
    weak = program.alone == 0.0
    if not weak.any():
        return z
    slack = program.A @ x + program.b
    free = np.zeros(z.size, dtype=bool)
    free[program.equal] = True
    free[program.linear] = z[program.linear] > np.maximum(slack[program.linear], 0.0)
    for cone in program.cone_blocks:
        free[cone.rows] = float(np.abs(z[cone.rows]).max()) > 1e-6 * max(float(np.abs(z).max()), 1.0)
    M = program.A[free][:, weak].T
    if not M.shape[1]:
        return z
    best, least = z, math.inf
    for _ in range(rounds + 1):
        r = (program.P @ x + program.q - program.A.T @ z)[weak]
        size = float(np.abs(r).sum())
        if size < least:
            best, least = z, size
        else:
            break
        z = z.copy()
        z[free] += _least_squares(M, r)
        z = in_dual_cone(program, z)
    return best


def _least_squares(M: Any, r: Array) -> Array:
    if M.shape[0] * M.shape[1] <= _DENSE:
        return np.asarray(np.linalg.lstsq(M.toarray(), r, rcond=1e-13)[0])
    return np.asarray(lsqr(M, r, atol=1e-15, btol=1e-15, iter_lim=4 * sum(M.shape))[0])
