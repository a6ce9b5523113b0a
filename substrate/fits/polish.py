r"""From a solver's point to the exact one: vanishing components and active rows are identified, the rest is linear.

For :math:`\min_u \tfrac12 \|u - \tilde y\|^2 + \sum_l \rho_l \|B^l u\|_\infty` guess the components that vanish
and, in each of the others, the rows where :math:`s_i B^l_i u = t_l`. With one of these rows as reference, the
optimum is the projection of :math:`\tilde y - \sum_l \rho_l s_{ref} B^l_{ref}` on the null space of the differences
:math:`s_i B^l_i - s_{ref} B^l_{ref}` and of the vanishing components, and the multipliers are the coordinates of the
component removed. The guess is right if no multiplier is negative and no row exceeds its bound; otherwise the worst of
each is corrected and the step repeated.

A row that depends on other active rows, :math:`r_d = \sum_j c_j r_j`, has no multiplier, and rounding may leave it
beyond its bound. It takes the place of one of them: with a multiplier :math:`\tau` for :math:`r_d` and
:math:`w_j - \tau c_j` for the others nothing else changes, and the first to reach zero leaves.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular

from substrate.arrays import Array
from substrate.ingredients.component_weights import Weights, of_some, penalty, per_row

__all__ = ["BALL", "VariationPoint", "equate_active_rows", "gap_of", "polish"]

Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]

#: Corrections of the active set: where it settles at all, it took at most 14 in trials of 5 to 25 components.
_ROUNDS = 16
_DEPENDENT = 1e-11
#: Relative size of directions in which rows are too alike to be made equal.
_TIED = 1e-9
#: Share of rho above which a multiplier implies that its row is at its bound.
_PULLED = 1e-9
#: Multipliers below zero and rows beyond their bound by these shares count as rounding: of a point that may be
#: returned, and of one that needs no further correction. The accuracy is about the square root of rho times them.
_EXACT, _ROUNDED = 1e-10, 1e-14
#: A bound on the rounding by which a multiplier of a vanishing component may leave its ball.
BALL = 1e-8
#: The same where other components remain: the correction removes the error of a solver, and not only rounding.
_LEFT = 1e-7
#: A component below this share of the target is set to zero tentatively.
_NOUGHT = 1e-8


@dataclass(frozen=True, slots=True)
class VariationPoint:
    """A primal and dual point: u, and the net multipliers xi^+ - xi^- of the rows (d x N)."""

    u: Array
    xi: Array


def gap_of(B: Array, target: Array, rho: Weights, point: VariationPoint) -> float:
    """Return the duality gap of the dual point, with the primal point that it implies."""
    implied = target - np.tensordot(point.xi, B, 2)
    values = B @ implied
    return float(penalty(rho, np.abs(values).max(axis=1)) - np.sum(point.xi * values))


def polish(B: Array, target: Array, rho: Weights, point: VariationPoint, small: float = 1e-6) -> VariationPoint | None:
    """Return the exact point of the same active set, or None where the guess cannot be corrected."""
    values = B @ point.u
    t = np.abs(values).max(axis=1)
    vanishing = t <= max(small * float(t.max()), _NOUGHT * float(np.linalg.norm(target)))
    N = _null_space(B[vanishing])
    if vanishing.all():
        # zero, unless the rows are so few that some directions are unbounded
        free = np.zeros(target.size) if N is None else N @ (N.T @ target)
        return _with_duals_of_zeros(B, target, rho, VariationPoint(free, point.xi), vanishing)
    inner, goal = (B[~vanishing], target) if N is None else (B[~vanishing] @ N, N.T @ target)
    weights_left = of_some(rho, ~vanishing)
    settled = _settle(inner, goal, weights_left, values[~vanishing], point.xi[~vanishing]) if goal.size else None
    if settled is None:
        return None
    u, xi = settled[0], point.xi.copy()
    xi[~vanishing] = settled[1]
    exact = VariationPoint(u if N is None else N @ u, xi)
    return _with_duals_of_zeros(B, target, rho, exact, vanishing)


def equate_active_rows(components: Array, R: Array, rho: Weights, v: Array, xi: Array) -> Array:
    """Return the nearest coordinates at which the rows with multipliers of a component agree.

    The gap is of the first order in their differences, and the fitted values are known to its root only.
    """
    differences = []
    for component, multipliers, active in zip(components, xi, np.abs(xi) > _PULLED * per_row(rho), strict=True):
        (rows,) = np.nonzero(active)
        signed = np.sign(multipliers[rows])[:, None] * component[rows]
        differences.append(signed - signed[np.abs(multipliers[rows]).argmax()] if rows.size else signed)
    D = np.vstack(differences)
    along = solve_triangular(R, D.T, trans="T").T
    for _ in range(3):
        v = v - solve_triangular(R, np.linalg.lstsq(along, D @ v, rcond=_TIED)[0])
    return v


def _null_space(B: Array) -> Array | None:
    """Return an orthonormal basis of {u: B u = 0}; None is the whole space."""
    if B.shape[0] == 0:
        return None
    rows = np.linalg.qr(B.reshape(-1, B.shape[2]), mode="r")
    _, s, Vt = np.linalg.svd(rows)
    rank = int((s > 1e-10 * s[0]).sum()) if s.size and s[0] > 0.0 else 0
    return np.ascontiguousarray(Vt[rank:].T)


def _settle(B: Array, target: Array, rho: Weights, values: Array, xi: Array) -> tuple[Array, Array] | None:
    """Return exact u and multipliers where no component vanishes, correcting the active set a few times.

    Where a row is about to become active, several sets are right to rounding, and the best of them is returned.
    """
    best: tuple[float, Array, Array] | None = None
    visited: set[bytes] = set()
    active = np.abs(xi) > 1e-6 * per_row(rho)
    signs = np.sign(np.where(active, xi, values))
    size = float(np.linalg.norm(target)) or 1.0
    for _ in range(_ROUNDS):
        for component in np.flatnonzero(~active.any(axis=1)):
            row = int(np.abs(values[component]).argmax())
            active[component, row], signs[component, row] = True, np.sign(values[component, row]) or 1.0
        reference = np.where(active, np.abs(xi), -1.0).argmax(axis=1)
        numbers = np.arange(B.shape[0])
        sign_of = signs[numbers, reference]
        anchor = sign_of[:, None] * B[numbers, reference]
        further_active = active.copy()
        further_active[numbers, reference] = False
        at_part, at_row = np.nonzero(further_active)
        differences = signs[at_part, at_row][:, None] * B[at_part, at_row] - anchor[at_part]
        start = target - (rho @ anchor if isinstance(rho, np.ndarray) else rho * anchor.sum(axis=0))
        projection = _project(differences, start)
        u, weights = projection.u, projection.weights
        xi = np.zeros_like(xi)
        xi[at_part, at_row] = signs[at_part, at_row] * weights
        taken = np.zeros(B.shape[0])
        np.add.at(taken, at_part, weights)
        xi[numbers, reference] = sign_of * (rho - taken)
        values = B @ u
        slack = np.where(active, signs * xi, 0.0)
        if isinstance(rho, np.ndarray):  # as shares of their weights
            slack = slack / rho[:, None]
        excess = np.abs(values) - (sign_of * values[numbers, reference])[:, None]
        scale = max(float(np.abs(values).max()), 1e-3 * size)
        negative = -float(slack.min()) / (1.0 if isinstance(rho, np.ndarray) else rho)
        beyond = float(excess.max()) / scale
        missed = max(negative, beyond)
        if missed <= _EXACT and (best is None or missed < best[0]):
            best = missed, u, xi
        state = np.packbits(active).tobytes()
        if missed <= _ROUNDED or state in visited:
            break
        visited.add(state)
        if negative > (_EXACT if best is None else 0.0) and (best is None or negative >= beyond):
            active[np.unravel_index(int(slack.argmin()), slack.shape)] = False
            continue
        worst = np.unravel_index(int(excess.argmax()), excess.shape)
        if not active[worst]:
            active[worst], signs[worst] = True, np.sign(values[worst])
            continue
        entering = np.flatnonzero((at_part == worst[0]) & (at_row == worst[1]))
        leaving = _choose_leaving(projection, entering, at_part, rho - taken)
        if leaving is None:
            break
        place = leaving - at_part.size
        active[(at_part[leaving], at_row[leaving]) if place < 0 else (place, reference[place])] = False
    return None if best is None else best[1:]


@dataclass(frozen=True, slots=True)
class _Projection:
    """A projection u on the null space of rows, and the coordinates of the rest in them.

    ``coefficients`` has a column for every ``dependent`` row: its coordinates in the others.
    """

    u: Array
    weights: Array
    dependent: Rows
    coefficients: Array


def _project(rows: Array, start: Array) -> _Projection:
    """Project ``start`` on the null space of the rows."""
    count = rows.shape[0]
    weights = np.zeros(count)
    if not count:
        return _Projection(start, weights, np.zeros(0, dtype=np.intp), np.zeros((0, 0)))
    Q, R, order = qr(rows.T, mode="economic", pivoting=True)
    sizes = np.abs(np.diag(R))
    rank = int((sizes > _DEPENDENT * sizes[0]).sum())
    u = start
    for _ in range(2):  # the start may be long and its projection short: the second time removes the rounding
        along = Q[:, :rank].T @ u
        weights[order[:rank]] += solve_triangular(R[:rank, :rank], along)
        u = u - Q[:, :rank] @ along
    coefficients = np.zeros((count, count - rank))
    coefficients[order[:rank]] = solve_triangular(R[:rank, :rank], R[:rank, rank:])
    return _Projection(u, weights, order[rank:], coefficients)


def _choose_leaving(projection: _Projection, entering: Rows, components: Rows, references: Array) -> int | None:
    """Return the row whose place a dependent row takes, the references counted after the others; None: there is none.

    ``references`` are the multipliers of the reference rows, which hold what the others leave of the weight.
    """
    (column,) = np.nonzero(np.isin(projection.dependent, entering))
    if column.size != 1:
        return None
    c = projection.coefficients[:, column[0]].copy()
    c[entering] = -1.0
    sums = np.zeros(references.size)
    np.add.at(sums, components, c)
    falls = np.concatenate([c, -sums])
    falling = falls > _DEPENDENT
    if not falling.any():
        return None
    ratios = np.full(falls.size, np.inf)
    ratios[falling] = np.maximum(np.concatenate([projection.weights, references])[falling], 0.0) / falls[falling]
    return int(ratios.argmin())


def _with_duals_of_zeros(
    B: Array, target: Array, rho: Weights, point: VariationPoint, vanishing: Mask
) -> VariationPoint | None:
    """Correct the multipliers of vanishing components so that they imply u; None where that takes them off their
    balls.
    """
    if not vanishing.any():
        return point
    rows, limits, xi = B[vanishing], of_some(rho, vanishing), point.xi.copy()
    missing = target - point.u - np.tensordot(xi, B, 2)
    change, *_ = np.linalg.lstsq(rows.reshape(-1, target.size).T, missing, rcond=1e-12)
    xi[vanishing] += change.reshape(rows.shape[:2])
    room = BALL if vanishing.all() else _LEFT
    inside = np.abs(xi[vanishing]).sum(axis=1) <= limits * (1.0 + room)
    return VariationPoint(point.u, xi) if inside.all() else None
