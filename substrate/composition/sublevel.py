r"""Whether all points of a quadratic program that are no worse than a given one lie within a radius of it.

Let :math:`\tilde x` be feasible, :math:`f(y) \le f(\tilde x)` for another feasible y, :math:`d = y - \tilde x`, and z
any multipliers with residual r at some :math:`x_c`. Then

.. math::

    \tfrac12 \|d\|_P^2 + z^T s(y) \le z^T \tilde s - r^T d - (\tilde x - x_c)^T P d
    \le z^T \tilde s + g^T R + a \|d\|_P ,

as long as :math:`|d| \le R` (:mod:`substrate.composition.coordinate_ties`; :math:`\|\tilde x - x_c\|_P` is part of a).
Hence :math:`\|d\|_P \le D = a + \sqrt{a^2 + 2 (z^T \tilde s + g^T R)}`, and every slack is bounded,
:math:`0 \le s_i(y) \le G / z_i` with :math:`G = z^T \tilde s + g^T R + a^2/2`. Multipliers of an interior point are all
positive, and with :math:`e_j = A^T W + P X + E` each coordinate is bounded,

.. math:: |d_j| \le \sum_i |W_i| \max(\tilde s_i, G / z_i) + \sqrt{X^T P X}\, D + |E|^T R .

If that is below :math:`R_j` for all j, no segment from :math:`\tilde x` to a point that is no worse can leave the box,
and the optimum is in it.
"""

import math

import numpy as np

from substrate.arrays import Array
from substrate.composition.cone_program import ConeProgram
from substrate.composition.coordinate_ties import CoordinateTies
from substrate.composition.polish import interior_point

__all__ = ["within_radius"]

#: Accuracies at which an interior point is stopped: central enough to bound slacks, near enough to bound distances.
_CENTRAL = (1e-4, 1e-6, 1e-8)
_MARGIN = 0.9


def within_radius(program: ConeProgram, x: Array, radius: Array, ties: CoordinateTies) -> bool:
    """Whether every optimum is proved to be within the radius of the feasible point x, coordinate by coordinate."""
    for accuracy in _CENTRAL:
        inside = interior_point(program, accuracy)
        if inside is None:
            continue
        with np.errstate(all="ignore"):
            if _proved(program, x, radius, ties, *inside):
                return True
    return False


def _proved(program: ConeProgram, x: Array, radius: Array, ties: CoordinateTies, centre: Array, z: Array) -> bool:
    z = _stationary(program, centre, z)
    linear, weights = program.linear, z[program.linear]
    if not np.isfinite(z).all() or (weights <= 0.0).any():
        return False
    slope, error = program.slope(centre, z)
    a, untied = ties.split(np.abs(slope) + error, radius)
    apart = x - centre
    a = 1.001 * (a + math.sqrt(max(float(apart @ (program.P @ apart)), 0.0)))
    slack, rounding = program.slack(x)
    slacks = (np.maximum(slack, 0.0) + rounding)[linear]
    gap = 1.001 * (float(weights @ slacks) + float(untied @ radius))
    distance = a + math.sqrt(a * a + 2.0 * gap)
    reach = np.maximum(slacks, (gap + 0.5 * a * a) / weights)
    return bool((_reached(program, distance, reach, radius) <= _MARGIN * radius).all())


def _stationary(program: ConeProgram, centre: Array, z: Array) -> Array:
    """z moved by shares of itself so that the coordinates that P does not tie are stationary."""
    weak = program.alone == 0.0
    shares = np.abs(z)
    shares[program.equal] += 1.0
    rows = program.A[:, weak].T.toarray() * shares
    left = (program.P @ centre + program.q - program.A.T @ z)[weak]
    return z + shares * np.linalg.lstsq(rows, left, rcond=1e-14)[0] if weak.any() else z


def _reached(program: ConeProgram, distance: float, reach: Array, radius: Array) -> Array:
    """How far each coordinate can be, from what the rows and the norm of P can move."""
    m, n = program.b.size, program.q.size
    cost = np.full(m, 1e-6 * float(reach.min(initial=1.0)))  # equalities do not move
    cost[program.linear] = reach
    stiff = np.sqrt(np.maximum(program.P.diagonal(), 0.0)) * distance
    stiff = np.where(stiff > 0.0, stiff, 1.0)
    A, P = program.A.toarray().T, program.P.toarray()
    solved = np.linalg.lstsq(np.hstack([A / cost, P / stiff]), np.eye(n), rcond=1e-14)[0]
    W, X = solved[:m] / cost[:, None], solved[m:] / stiff[:, None]
    left = np.abs(np.eye(n) - A @ W - P @ X) + 1e-15 * (m + n) * (np.abs(A) @ np.abs(W) + np.abs(P) @ np.abs(X))
    squares = np.maximum(np.sum(X * (P @ X), axis=0), 0.0) + 1e-15 * n * np.sum(
        np.abs(X) * (np.abs(P) @ np.abs(X)), axis=0
    )
    return np.asarray(np.abs(W[program.linear]).T @ reach + distance * np.sqrt(squares) + left.T @ radius)
