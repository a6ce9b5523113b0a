r"""Maximal variation solved in conditioned coordinates, by generation of rows.

.. math::

    \min_v \; \tfrac12 \|R v - \tilde y\|^2 + \rho \sum_{l=1}^d \|C^l v\|_\infty

(:mod:`substrate.closed_form.component_coordinates` says what v, R and C are). As a quadratic program it has two rows
:math:`\pm C^l_i v \le t_l` for every point and component, of which few bind. The program is solved by PIQP's dense
interior-point method with the rows at hand; rows that the solution violates join, until none does. The last point is
polished: active rows and vanishing components are read off, and the optimum among them is linear algebra
(:mod:`substrate.closed_form.variation_polish`), so that a zero is a zero and not a small number.

From :math:`\rho_{max}` on, v = 0. It is the value of two dual linear programs

.. math:: \rho_{max} = \min_\xi \Big\{ \max_l \|\xi^l\|_1 : \sum_l C^{lT} \xi^l = R^T \tilde y \Big\}
          = \max_v \Big\{ \tilde y^T R v : \sum_l \|C^l v\|_\infty \le 1 \Big\},

and :math:`\xi^l = y - \bar y 1` (y without bias) is feasible for the first, so that :math:`\|y - \bar y 1\|_1` bounds
it from above. [Pelckmans2005]_ eq. (13)-(14), (24)-(25).
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr, solve_triangular

from substrate.arrays import Array
from substrate.closed_form.component_coordinates import ComponentCoordinates, centred
from substrate.closed_form.variation_polish import VariationPoint, gap_of, polished
from substrate.errors import SolverError

__all__ = ["VariationSolution", "rho_bound", "rho_max", "right_divided", "solve_maximal_variation"]

#: Rows a component starts with at either end, and how many join it in one round.
_FIRST, _JOIN = 4, 8
_ROUNDS = 200
#: A row counts as violated beyond this share of the largest component value.
_VIOLATED = 1e-9
#: Where the components are this small in the unit of the target and no active set settles, zero itself is tried.
_NEARLY_ZERO = 1e-4


@dataclass(frozen=True, slots=True)
class VariationSolution:
    """v, the maximal variations t, the multipliers xi^-, xi^+ (d x N each) and how they were found."""

    v: Array
    maximal_variation: Array
    xi_minus: Array
    xi_plus: Array
    rounds: int
    rows: int
    polished: bool


def solve_maximal_variation(coordinates: ComponentCoordinates, y: Array, rho: float) -> VariationSolution:
    """Solve for one rho.

    :equation [Pelckmans2005]_ (25): structure detection with e and c eliminated
    """
    target = coordinates.targets(y)
    R, parts = coordinates.metric, coordinates.parts
    spread = float(np.linalg.norm(centred(y, coordinates.bias)))
    unit = float(np.linalg.norm(target))
    if unit <= 1e-14 * max(spread, float(np.linalg.norm(y))):  # nothing to fit
        return _solution(
            coordinates, y, rho, VariationPoint(np.zeros_like(target), np.zeros(parts.shape[:2])), 0, 0, True
        )
    if rho >= rho_bound(coordinates, y):
        xi = np.tile(centred(y, coordinates.bias), (parts.shape[0], 1))
        return _solution(coordinates, y, rho, VariationPoint(np.zeros_like(target), xi), 0, 0, True)
    B, goal, weight = right_divided(parts, R), target / unit, rho / unit
    H, c = _fitting(R, goal, weight, parts.shape[0])
    x, xi, _, rounds, rows = _generated(parts, H, c, parts @ solve_triangular(R, target))
    point = VariationPoint(R @ x[: target.size], xi)
    exact = polished(B, goal, weight, point)
    if exact is not None and gap_of(B, goal, weight, exact) > max(gap_of(B, goal, weight, point), 1e-12):
        exact = None
    if exact is None and float(x[target.size :].max()) <= _NEARLY_ZERO:
        largest, at_zero = _least_rho_of_zero(coordinates, goal)
        exact = VariationPoint(np.zeros_like(goal), at_zero) if rho >= unit * largest else None
    chosen = point if exact is None else exact
    scaled = VariationPoint(unit * chosen.u, unit * chosen.xi)
    return _solution(coordinates, y, rho, scaled, rounds, rows, exact is not None)


def right_divided(parts: Array, R: Array) -> Array:
    """B^l = C^l R^{-1}."""
    d, n, r = parts.shape
    return np.asarray(solve_triangular(R, parts.reshape(d * n, r).T, trans="T").T.reshape(d, n, r))


def _fitting(R: Array, target: Array, rho: float, d: int) -> tuple[Array, Array]:
    """Quadratic and linear term of half ||R v - target||^2 + rho 1't, in (v, t)."""
    r = target.size
    H = np.zeros((r + d, r + d))
    H[:r, :r] = R.T @ R
    return H, np.append(-(R.T @ target), np.full(d, rho))


def _generated(
    parts: Array, H: Array, c: Array, guess: Array, extra: Array | None = None, limit: float = 0.0
) -> tuple[Array, Array, Array, int, int]:
    """Minimise x'Hx/2 + c'x over x = (v, t) with |C^l v| <= t_l 1, and extra'x <= limit if given.

    Returns x, the net multipliers of the bounds, the multiplier of the extra row, the rounds taken and the rows of the
    last one. ``guess`` are component values whose largest and smallest entries give the first rows.
    """
    d, n, r = parts.shape
    order = np.argsort(guess, axis=1)
    above, below = np.zeros((d, n), dtype=bool), np.zeros((d, n), dtype=bool)
    np.put_along_axis(above, order[:, -_FIRST:], True, axis=1)
    np.put_along_axis(below, order[:, :_FIRST], True, axis=1)
    if extra is not None:  # without a quadratic term the first rows must bound v, or there is no solution
        order = qr(parts.reshape(d * n, r).T, mode="r", pivoting=True)[1][:r]
        above[order // n, order % n] = below[order // n, order % n] = True
    more = np.zeros((0, r + d)) if extra is None else extra[None, :]
    for rounds in range(1, _ROUNDS + 1):
        at_part, at_row = np.nonzero(np.concatenate([above, below]))
        sides = np.where(at_part < d, 1.0, -1.0)
        at_part = at_part % d
        G = np.zeros((at_part.size, r + d))
        G[:, :r] = sides[:, None] * parts[at_part, at_row]
        G[np.arange(at_part.size), r + at_part] = -1.0
        x, multipliers = _piqp(H, c, np.vstack([G, more]), np.append(np.zeros(at_part.size), [limit] * len(more)))
        values = parts @ x[:r]
        excess = np.abs(values) - x[r:, None]
        # a row that is already there is violated by the solver's rounding only
        excess[np.where(values > 0.0, above, below)] = 0.0
        worst = np.argsort(-excess, axis=1)[:, :_JOIN]
        joining = np.take_along_axis(excess, worst, axis=1) > _VIOLATED * float(np.abs(values).max())
        if not joining.any():
            xi = np.zeros((d, n))
            np.add.at(xi, (at_part, at_row), sides * np.maximum(multipliers[: at_part.size], 0.0))
            return x, xi, multipliers[at_part.size :], rounds, int(at_part.size)
        which, column = np.nonzero(joining)
        rows = worst[which, column]
        positive = values[which, rows] > 0.0
        above[which[positive], rows[positive]] = True
        below[which[~positive], rows[~positive]] = True
    raise SolverError(f"rows were still joining after {_ROUNDS} rounds; use solver='cvxpy', or a larger cutoff")


def _piqp(H: Array, c: Array, G: Array, h: Array) -> tuple[Array, Array]:
    import piqp

    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-10
    solver.settings.max_iter = 250
    solver.settings.verbose = False
    size = c.size
    solver.setup(H, c, np.zeros((0, size)), np.zeros(0), G, None, h, None, None)
    status = solver.solve()
    if status not in (piqp.PIQP_SOLVED, piqp.PIQP_MAX_ITER_REACHED):
        raise SolverError(f"PIQP ended with {status}; use solver='cvxpy', or a larger cutoff")
    return np.array(solver.result.x), np.array(solver.result.z_u)


def _solution(
    coordinates: ComponentCoordinates, y: Array, rho: float, point: VariationPoint, rounds: int, rows: int, exact: bool
) -> VariationSolution:
    v = solve_triangular(coordinates.metric, point.u)
    values = coordinates.parts @ v
    t = np.abs(values).max(axis=1)
    if exact:
        t[t <= max(1e-9 * float(t.max()), 1e-12 * float(np.abs(y).max()))] = 0.0
    net = point.xi
    # The multipliers of a component sum to rho; what the net ones leave belongs to both sides at once, which costs
    # nothing where t = 0; elsewhere it is the solver's rounding, and the products show what it costs.
    rest = np.maximum(rho - np.abs(net).sum(axis=1), 0.0) / (2.0 * net.shape[1])
    minus, plus = np.maximum(-net, 0.0), np.maximum(net, 0.0)
    return VariationSolution(v, t, minus + rest[:, None], plus + rest[:, None], rounds, rows, exact)


def rho_bound(coordinates: ComponentCoordinates, y: Array) -> float:
    """A cheap upper bound of :func:`rho_max`."""
    return float(np.abs(centred(y, coordinates.bias)).sum())


def rho_max(coordinates: ComponentCoordinates, y: Array) -> float:
    """The smallest rho at which every component vanishes: a linear program in v and t, by the same rows."""
    target = coordinates.targets(y)
    unit = float(np.linalg.norm(target))
    return unit * _least_rho_of_zero(coordinates, target / unit)[0] if unit > 1e-14 * float(np.linalg.norm(y)) else 0.0


def _least_rho_of_zero(coordinates: ComponentCoordinates, target: Array) -> tuple[float, Array]:
    """rho_max and the net multipliers that go with it."""
    parts, R = coordinates.parts, coordinates.metric
    d, _, r = parts.shape
    _, xi, multiplier, _, _ = _generated(
        parts,
        np.zeros((r + d, r + d)),
        np.append(-(R.T @ target), np.zeros(d)),
        parts @ solve_triangular(R, target),
        np.append(np.zeros(r), np.ones(d)),
        1.0,
    )
    return float(multiplier[0]), xi
