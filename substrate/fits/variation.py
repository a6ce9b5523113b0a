r"""Maximal variation solved in conditioned coordinates, by generation of rows.

.. math::

    \min_v \; \tfrac12 \|R v - \tilde y\|^2 + \sum_{l=1}^d \rho_l \|C^l v\|_\infty

(:mod:`substrate.fits.coordinates` defines v, R and C; all :math:`\rho_l` are :math:`\rho` in
the paper). As a quadratic program it has two rows :math:`\pm C^l_i v \le t_l` for every point and component, of which
few are active. The program is solved by PIQP's dense interior-point method with a subset of the rows; rows that the
solution violates are added, until there are none. The last point is polished (:func:`polish`): active rows and
vanishing components are identified, and the optimum among them is linear algebra, so that zeros are exact.

From :math:`\rho_{max}` on, v = 0. It is the value of two dual linear programs

.. math:: \rho_{max} = \min_\xi \Big\{ \max_l \|\xi^l\|_1 : \sum_l C^{lT} \xi^l = R^T \tilde y \Big\}
          = \max_v \Big\{ \tilde y^T R v : \sum_l \|C^l v\|_\infty \le 1 \Big\},

and :math:`\xi^l = y - \bar y 1` (y without bias) is feasible for the first, so that :math:`\|y - \bar y 1\|_1` bounds
it from above. [Pelckmans2005]_ eq. (13)-(14), (24)-(25). With weights :math:`\rho_l = \kappa\, r_l` it is the smallest
:math:`\kappa`, and the programs have :math:`\|\xi^l\|_1 / r_l` and :math:`\sum_l r_l \|C^l v\|_\infty`.

The interior-point method solves the second program up to its tolerance. Its multipliers are made feasible for the first
one by least squares, and their value there is the number returned: an upper bound, with its proof. Zero is taken as the
solution from :math:`(1 - \delta) \rho_{max}` on, :math:`\delta = 10^{-8}`, so that no rounding of :math:`\rho_{max}`,
of the units or of the matrices turns it into a small number. The multipliers, times :math:`1 - \delta`, bound the
effect: the duality gap of zero there is at most :math:`\tfrac{\delta^2}{2} \|\tilde y\|^2`, less than the rounding of
the objective, and the fitted values are within :math:`\delta \|\tilde y\|` of the optimum.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import qr, solve_triangular

from substrate.arrays import Array
from substrate.certificate import Row
from substrate.errors import SolverError
from substrate.fits.coordinates import ComponentCoordinates, center
from substrate.ingredients import Weights, variation_rows

__all__ = [
    "BALL",
    "TrainedPoint",
    "VariationPoint",
    "VariationSolution",
    "condition_rows",
    "divide_from_right",
    "gap_of",
    "polish",
    "sides_of",
    "solution_rows",
    "solve_maximal_variation",
    "trivial_cost",
    "variation_unit",
]

#: Number of initial rows of a component at either end, and of rows added to it in one round: the worst one, and every
#: third after it, since rows of points near each other are violated together and one of them bounds the others.
_FIRST, _JOIN, _APART = 4, 8, 3
_ROUNDS = 200
#: A row counts as violated beyond this share of the largest component value.
_VIOLATED = 1e-9
#: Where u is this short in the unit of the target, zero is tried. From (1 - delta) rho_max on u is no longer
#: than delta, and a point with a duality gap of 1e-10 is within 1.5e-5 of it.
_NEARLY_ZERO = 1e-4
#: Tolerance of the interior-point method. At a knot of the path in rho, rounding decides whether a row is active, and
#: the active set may not settle: then the point itself, with an error of the root of its gap, is refined.
_TOLERANCE, _REFINED = 1e-10, 1e-13
#: Share of rho above which a multiplier makes its row active, and the largest share by which a multiplier may be
#: negative and a row exceed its bound. The accuracy is about the square root of rho times that.
_ACTIVE, _EXACT = 1e-6, 1e-12
#: Sets of active rows that are tried, each without those whose multipliers were negative.
_TRIES = 3
#: Relative size of directions in which active rows depend on each other.
_DEPENDENT = 1e-11
#: Components below these shares of the largest and of the target are set to zero tentatively.
_SMALL, _NOUGHT = 1e-6, 1e-8
#: A bound on the rounding by which a multiplier of a vanishing component may leave its ball, and the same where other
#: components remain: the correction then removes the error of a solver, and not only rounding.
BALL, _LEFT = 1e-8, 1e-7


@dataclass(frozen=True, slots=True)
class TrainedPoint:
    """A point of the optimality conditions: rho, v, b, t, the multipliers (d x m each), and nu."""

    rho: Weights
    v: Array
    b: float
    t: Array
    xi_minus: Array
    xi_plus: Array
    nu: float = 0.0


class VariationPoint(NamedTuple):
    """A primal and dual point: u, and the net multipliers xi^+ - xi^- of the rows (d x N)."""

    u: Array
    xi: Array


@dataclass(frozen=True, slots=True)
class VariationSolution:
    """v, the maximal variations t, the multipliers xi^-, xi^+ (d x N each) and a record of the computation."""

    v: Array
    maximal_variation: Array
    xi_minus: Array
    xi_plus: Array
    rounds: int
    rows: int
    polished: bool

    @classmethod
    def of(
        cls,
        coordinates: ComponentCoordinates,
        y: Array,
        rho: Array,
        point: VariationPoint,
        rounds: int = 0,
        rows: int = 0,
        polished: bool = True,
    ) -> "VariationSolution":
        """Return the solution at a point; of a polished one, maximal variations that are rounding are zero."""
        v = solve_triangular(coordinates.metric, point.u)
        t = np.abs(coordinates.parts @ v).max(axis=1)
        if polished:
            t[t <= max(1e-9 * float(t.max()), 1e-12 * float(np.abs(y).max()))] = 0.0
        return cls(v, t, *sides_of(point.xi, rho), rounds, rows, polished)


def solve_maximal_variation(coordinates: ComponentCoordinates, y: Array, rho: Weights) -> VariationSolution:
    """Solve for one rho, or for one weight per component.

    :equation [Pelckmans2005]_ (25): structure detection with e and c eliminated
    """
    R, components, target = coordinates.metric, coordinates.parts, coordinates.targets(y)
    rho = np.broadcast_to(np.asarray(rho, dtype=np.float64), components.shape[:1])
    unit, nothing = float(np.linalg.norm(target)), np.zeros_like(target)
    sizes = (np.linalg.norm(center(y, bias, coordinates.mass)) for bias in (coordinates.bias, False))
    if unit <= 1e-14 * float(max(sizes)):  # nothing to fit
        return VariationSolution.of(coordinates, y, rho, VariationPoint(nothing, np.zeros(components.shape[:2])))
    if rho.min() >= rho_bound(coordinates, y):
        xi = np.tile(_pulls(coordinates, y), (components.shape[0], 1))
        return VariationSolution.of(coordinates, y, rho, VariationPoint(nothing, xi))
    B, goal, weights = divide_from_right(components, R), target / unit, rho / unit
    H, c = np.zeros((target.size + weights.size,) * 2), np.append(-(R.T @ goal), weights)
    H[: target.size, : target.size] = R.T @ R
    minimum = _generate_rows(components, H, c, components @ solve_triangular(R, target))
    point = VariationPoint(R @ minimum.x[: target.size], minimum.multipliers)
    exact = polish(B, goal, weights, point)
    if exact is None:
        with suppress(SolverError):  # where the solver cannot reach this tolerance, its point is kept
            minimum = _generate_rows(components, H, c, components @ minimum.x[: target.size], tolerance=_REFINED)
            point = VariationPoint(R @ minimum.x[: target.size], minimum.multipliers)
            exact = polish(B, goal, weights, point)
    if exact is None or exact.u.any():
        exact = _zero_if_optimal(components, R, goal, weights, point, exact) or exact
    u, xi = point if exact is None else exact
    chosen = VariationPoint(unit * u, unit * xi)
    return VariationSolution.of(coordinates, y, rho, chosen, minimum.rounds, minimum.n_rows, exact is not None)


def _pulls(coordinates: ComponentCoordinates, y: Array) -> Array:
    """Return the errors of the machine without components, times the weights of the rows."""
    bias = np.average(y, weights=coordinates.mass) if coordinates.bias else 0.0
    return coordinates.weighted(y - bias)


def gap_of(B: Array, target: Array, rho: Array, point: VariationPoint) -> float:
    """Return the duality gap of the dual point, with the primal point that it implies."""
    values = B @ (target - np.tensordot(point.xi, B, 2))
    return float(rho @ np.abs(values).max(axis=1) - np.sum(point.xi * values))


def polish(B: Array, target: Array, rho: Array, point: VariationPoint) -> VariationPoint | None:
    r"""Return the exact point of the same active rows and vanishing components; None if they differ from the optimum's,
    or if its gap is larger by more than rounding.

    With one of its active rows as reference for every component, the optimum is the projection of
    :math:`\tilde y - \sum_l \rho_l s_{ref} B^l_{ref}` on the null space of the differences
    :math:`s_i B^l_i - s_{ref} B^l_{ref}` and of the vanishing components, and the multipliers are the coordinates of
    what is removed, those nearest to the given ones. They must not be negative, and no row may exceed its bound.
    """
    values = B @ point.u
    t = np.abs(values).max(axis=1)
    vanishing = t <= max(_SMALL * float(t.max()), _NOUGHT * float(np.linalg.norm(target)))
    u, xi, N = np.zeros_like(target), point.xi.copy(), _null_space(B[vanishing]) if vanishing.any() else None
    if vanishing.all() and N is not None:  # zero, unless the rows are so few that some directions are unbounded
        u = N @ (N.T @ target)
    elif not vanishing.all():
        inner, goal = (B, target) if N is None else (B[~vanishing] @ N, N.T @ target)
        settled = _project(inner, goal, rho[~vanishing], xi[~vanishing]) if goal.size else None
        if settled is None:
            return None
        u, xi[~vanishing] = settled.u if N is None else N @ settled.u, settled.xi
    if vanishing.any():  # multipliers of vanishing components that imply u
        missing = target - u - np.tensordot(xi, B, 2)
        change, *_ = np.linalg.lstsq(B[vanishing].reshape(-1, target.size).T, missing, rcond=1e-12)
        xi[vanishing] += change.reshape(-1, xi.shape[1])
        room = BALL if vanishing.all() else _LEFT
        if (np.abs(xi[vanishing]).sum(axis=1) > rho[vanishing] * (1.0 + room)).any():
            return None
    exact = VariationPoint(u, xi)
    return exact if gap_of(B, target, rho, exact) <= max(gap_of(B, target, rho, point), 1e-12) else None


def _null_space(B: Array) -> Array:
    """Return an orthonormal basis of {u: B u = 0}."""
    _, s, Vt = np.linalg.svd(np.linalg.qr(B.reshape(-1, B.shape[2]), mode="r"))
    rank = int((s > 1e-10 * s[0]).sum()) if s.size and s[0] > 0.0 else 0
    return np.ascontiguousarray(Vt[rank:].T)


def _project(B: Array, target: Array, rho: Array, xi: Array) -> VariationPoint | None:
    """Return the exact point where no component vanishes and the rows with multipliers are active."""
    numbers = np.arange(len(B))
    for _ in range(_TRIES):
        active, signs = np.abs(xi) > _ACTIVE * rho[:, None], np.sign(xi)
        if not active.any(axis=1).all():
            return None
        reference = np.abs(xi).argmax(axis=1)
        anchor = signs[numbers, reference][:, None] * B[numbers, reference]
        active[numbers, reference] = False
        at_part, at_row = np.nonzero(active)
        weights = np.abs(xi[at_part, at_row])
        differences = signs[at_part, at_row][:, None] * B[at_part, at_row] - anchor[at_part]
        differences[np.abs(differences) <= _DEPENDENT * np.abs(anchor).max()] = 0.0  # of rows that are equal
        u = target - rho @ anchor - weights @ differences
        for _ in range(2 if weights.size else 0):  # the second time removes the rounding
            change = np.linalg.lstsq(differences.T, u, rcond=_DEPENDENT)[0]
            weights, u = weights + change, u - change @ differences
        xi = np.zeros_like(xi)
        xi[at_part, at_row] = signs[at_part, at_row] * weights
        xi[numbers, reference] = signs[numbers, reference] * (rho - np.bincount(at_part, weights, len(B)))
        sizes, shares = np.abs(B @ u), signs * xi / rho[:, None]
        excess = float((sizes - np.sum(anchor * u, axis=1)[:, None]).max())
        scale = max(float(sizes.max()), 1e-3 * float(np.linalg.norm(target)))
        if max(-float(shares.min()), excess / scale) <= _EXACT:
            return VariationPoint(u, xi)
        xi[shares < 0.0] = 0.0  # at a knot of the path a row is active whose multiplier is zero
    return None


def _zero_if_optimal(
    components: Array, R: Array, goal: Array, rho: Array, point: VariationPoint, exact: VariationPoint | None
) -> VariationPoint | None:
    """Return u = 0 and multipliers that prove it optimal, where u is so short that zero may be the solution."""
    lengths = [float(np.linalg.norm(each.u)) for each in (point, exact) if each is not None]
    if min(lengths) > _NEARLY_ZERO:
        return None
    top = float(rho.max())
    try:
        largest, at_zero = _least_rho_of_zero(components, R, goal, rho / top)
    except SolverError:
        if exact is None:
            raise
        return None
    return VariationPoint(np.zeros_like(goal), at_zero) if top >= largest * (1.0 - BALL) else None


def divide_from_right(components: Array, R: Array) -> Array:
    """Return B^l = C^l R^{-1}."""
    d, n, r = components.shape
    return np.asarray(solve_triangular(R, components.reshape(d * n, r).T, trans="T").T.reshape(d, n, r))


class _MinimumOnRows(NamedTuple):
    """x = (v, t), the net multipliers of the bounds, the rounds taken, and the number of rows in the last one."""

    x: Array
    multipliers: Array
    rounds: int
    n_rows: int


def _generate_rows(
    components: Array,
    H: Array,
    c: Array,
    guess: Array,
    extra: Array | None = None,
    limit: float = 0.0,
    tolerance: float = _TOLERANCE,
) -> _MinimumOnRows:
    """Minimise x'Hx/2 + c'x over x = (v, t) with |C^l v| <= t_l 1, and extra'x <= limit if given.

    ``guess`` holds component values whose largest and smallest entries give the first rows.
    """
    d, n, r = components.shape
    above, below = _extreme_rows(guess)
    if extra is not None:  # without a quadratic term the first rows must bound v, or there is no solution
        order = qr(components.reshape(d * n, r).T, mode="r", pivoting=True)[1][:r]
        above[order // n, order % n] = below[order // n, order % n] = True
    more = np.zeros((0, r + d)) if extra is None else extra[None, :]
    for rounds in range(1, _ROUNDS + 1):
        at_part, at_row = np.nonzero(np.concatenate([above, below]))
        sides = np.where(at_part < d, 1.0, -1.0)
        at_part = at_part % d
        G = np.zeros((at_part.size, r + d))
        G[:, :r] = sides[:, None] * components[at_part, at_row]
        G[np.arange(at_part.size), r + at_part] = -1.0
        right = np.append(np.zeros(at_part.size), [limit] * len(more))
        x, multipliers = _piqp(H, c, np.vstack([G, more]), right, tolerance)
        values = components @ x[:r]
        excess = np.abs(values) - x[r:, None]
        # a row that is already included is violated by the solver's rounding only
        excess[np.where(values > 0.0, above, below)] = 0.0
        worst = np.argsort(-excess, axis=1)[:, : _JOIN * _APART : _APART]
        joining = np.take_along_axis(excess, worst, axis=1) > _VIOLATED * float(np.abs(values).max())
        if not joining.any():
            xi = np.zeros((d, n))
            np.add.at(xi, (at_part, at_row), sides * np.maximum(multipliers[: at_part.size], 0.0))
            return _MinimumOnRows(x=x, multipliers=xi, rounds=rounds, n_rows=int(above.sum() + below.sum()))
        which, column = np.nonzero(joining)
        rows = worst[which, column]
        positive = values[which, rows] > 0.0
        above[which[positive], rows[positive]] = True
        below[which[~positive], rows[~positive]] = True
    raise SolverError(f"rows were still being added after {_ROUNDS} rounds; use a larger cutoff, or a ridge")


def _extreme_rows(values: Array) -> tuple[Array, Array]:
    """Return which rows have the largest values of a component, and which the smallest."""
    order = np.argsort(values, axis=1)
    above, below = np.zeros(values.shape, dtype=bool), np.zeros(values.shape, dtype=bool)
    np.put_along_axis(above, order[:, -_FIRST:], True, axis=1)
    np.put_along_axis(below, order[:, :_FIRST], True, axis=1)
    return above, below


def _piqp(H: Array, c: Array, G: Array, h: Array, tolerance: float) -> tuple[Array, Array]:
    import piqp

    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = tolerance
    solver.settings.max_iter = 250
    solver.settings.verbose = False
    size = c.size
    solver.setup(H, c, np.zeros((0, size)), np.zeros(0), G, None, h, None, None)
    status = solver.solve()
    if status not in (piqp.PIQP_SOLVED, piqp.PIQP_MAX_ITER_REACHED):
        raise SolverError(f"PIQP ended with {status}; use a larger cutoff, or a ridge")
    return np.array(solver.result.x), np.array(solver.result.z_u)


def sides_of(net: Array, rho: Weights) -> tuple[Array, Array]:
    """Return xi^- and xi^+ from net multipliers (d x N): the multipliers of a component sum to its weight.

    Multipliers that a solver's rounding takes beyond the weight are shrunk to it. What is left of the weight is divided
    between both sides, which costs nothing where t = 0; elsewhere it is rounding too, and the products show its cost.
    """
    sums = np.abs(net).sum(axis=1)
    net = net * np.where(sums > rho, rho / np.where(sums > 0.0, sums, 1.0), 1.0)[:, None]
    spare = (np.maximum(rho - sums, 0.0) / (2.0 * net.shape[1]))[:, None]
    return np.maximum(-net, 0.0) + spare, np.maximum(net, 0.0) + spare


def rho_bound(coordinates: ComponentCoordinates, y: Array) -> float:
    """Return a cheap upper bound of :func:`rho_max`."""
    return float(np.abs(_pulls(coordinates, y)).sum())


def rho_max(coordinates: ComponentCoordinates, y: Array, ratios: Array | None = None) -> float:
    """Return the smallest rho at which every component vanishes, from above: a linear program in v and t, by the same
    rows.

    With ``ratios``, one for each component, the smallest common factor of these weights.
    """
    target = coordinates.targets(y)
    unit = float(np.linalg.norm(target))
    if unit <= 1e-14 * float(np.linalg.norm(y)):
        return 0.0
    d = coordinates.parts.shape[0]
    top = 1.0 if ratios is None else float(np.max(ratios))
    relative = np.ones(d) if ratios is None else ratios / top
    return unit * _least_rho_of_zero(coordinates.parts, coordinates.metric, target / unit, relative)[0] / top


def _least_rho_of_zero(components: Array, R: Array, target: Array, ratios: Array) -> tuple[float, Array]:
    """Return rho_max, from above, and the net multipliers that prove that zero is optimal there; the largest ratio is
    one.
    """
    d, n, r = components.shape
    xi = _generate_rows(
        components,
        np.zeros((r + d, r + d)),
        np.append(-(R.T @ target), np.zeros(d)),
        components @ solve_triangular(R, target),
        np.append(np.zeros(r), ratios),
        1.0,
    ).multipliers
    B = divide_from_right(components, R).reshape(d * n, r)
    for _ in range(2):  # the residuals of the solver, then of the factorisation
        missing = target - B.T @ xi.ravel()
        xi = xi + np.linalg.lstsq(B.T, missing, rcond=1e-12)[0].reshape(d, n)
    return float((np.abs(xi).sum(axis=1) / ratios).max()), xi


def trivial_cost(y: Array, bias: bool, mass: Array | None = None) -> float:
    """Return half the squared errors of the machine without components, or a millionth of half the squared targets."""
    return 0.5 * float(np.sum(center(y, bias, mass) ** 2)) + 0.5e-6 * float(np.sum(center(y, False, mass) ** 2))


def variation_unit(y: Array) -> float:
    """Return the size of the targets about their mean, or, where they are constant, of the targets."""
    deviation, largest = float(np.abs(y - y.mean()).max()), float(np.abs(y).max())
    return deviation if deviation > 1e-6 * largest else (largest or 1.0)


def condition_rows(
    features: Array,
    components: Array,
    y: Array,
    point: TrainedPoint,
    errors: Array,
    tolerance: float,
    *,
    cost: float,
    unit: float,
    pull: Array | float = 0.0,
) -> tuple[Row, ...]:
    """Return (27a) to (27f) for fitted values F v and components C^l v, from the errors times the weights of the rows.

    ``pull`` is the gradient of further terms of the objective, ``cost`` what the trivial machine costs, and ``unit``
    the size of the targets.

    :equation [Pelckmans2005]_ (27a): stationarity in alpha, corrected
    """
    bounded = np.tensordot(point.xi_minus - point.xi_plus, components, 2)
    scale = float(np.linalg.norm(features.T @ y) + np.linalg.norm(bounded) + np.linalg.norm(pull))
    # where nothing is fitted, a millionth of the largest possible correlation of features and targets
    scale += 1e-6 * float(np.linalg.norm(features) * np.linalg.norm(y))
    stationarity = Row(
        name="(27a) stationarity",
        value=float(np.linalg.norm(pull - features.T @ errors + point.nu - bounded)),
        scale=scale,
        tolerance=tolerance,
        formula="||F'(f - y) + nu - sum_l C^l'(xi- - xi+)||",
    )
    values, multipliers = components @ point.v, (point.xi_minus, point.xi_plus)
    return stationarity, *variation_rows(values, point.t, *multipliers, point.rho, cost, unit, tolerance)


def solution_rows(
    coordinates: ComponentCoordinates, y: Array, rho: Weights, solved: VariationSolution, tolerance: float
) -> tuple[Row, ...]:
    """Return all conditions for a point of the fast path."""
    b, v, F = coordinates.bias_of(y, solved.v), solved.v, coordinates.parts.sum(axis=0)
    return condition_rows(
        F,
        coordinates.parts,
        coordinates.weighted(y),
        TrainedPoint(rho, v, b, solved.maximal_variation, solved.xi_minus, solved.xi_plus),
        coordinates.weighted(y - F @ v - b),
        tolerance,
        cost=trivial_cost(y, coordinates.bias, coordinates.mass),
        unit=variation_unit(y),
        pull=coordinates.ridge_gradient(v),
    )
