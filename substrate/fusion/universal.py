r"""A lower bound on the validation error of every parametric problem over a simplex of its parameters.

Let :math:`\varphi_\theta = \varphi_0 + \sum_i \theta_i \varphi_i` be minimised over a set S that does not depend on
theta, v any function (the validation error), :math:`\theta_k` the vertices of a simplex,
:math:`\varphi_k = \varphi_{\theta_k}`, :math:`x_j` any points of S, :math:`p_k` any numbers and

.. math::

    h_k(s) = \min_{x \in S} \; v(x) + s \, (\varphi_k(x) - p_k), \qquad D_{jk} = \varphi_k(x_j) - p_k .

For all :math:`s_k > 0`, all weights :math:`\lambda` (at least zero, of sum one) and
:math:`\psi = \sum_k \lambda_k s_k \varphi_k`, every minimiser :math:`x^\star` of :math:`\psi` over S has for every j

.. math::

    v(x^\star) \;\ge\; \sum_k \lambda_k \left( h_k(s_k) - s_k D_{jk} \right) .

*Proof.* Every x in S has :math:`v(x) + \sum_k \lambda_k s_k (\varphi_k(x) - p_k) \ge \sum_k \lambda_k h_k(s_k)`. Put
:math:`x = x^\star`. It minimises :math:`\psi`, so :math:`\psi(x^\star) \le \psi(x_j)`, and
:math:`\sum_k \lambda_k s_k (\varphi_k(x^\star) - p_k) \le \sum_k \lambda_k s_k D_{jk}`. Subtract.

:math:`\psi` is a multiple of :math:`\varphi_\theta` with :math:`\theta = \sum_k \lambda_k s_k \theta_k / \sum_k
\lambda_k s_k`, and as lambda varies theta is everywhere in the simplex. No convexity is used but to find the minima,
and nothing need be unique: where a problem has several optima, the bound holds for that which validates best. Over the
simplex it is the value of a matrix game: every mu (at least zero, of sum one) proves

.. math:: v(x^\star) \ge \min_k \sum_j \mu_j M_{jk}, \qquad M_{jk} = h_k(s_k) - s_k D_{jk} .

**Parameters in constraints.** Where S depends on theta too, and :math:`\{(x, \theta) : x \in S(\theta)\}` is convex,
put :math:`E_{jk} = \varphi_k(x_j)` with :math:`x_j \in S(\theta_j)`. For every s > 0

.. math::

    v(x^\star) \ge \min_k h_k, \qquad h_k = \min_{\mu, \; x \in S(\sum_j \mu_j \theta_j)} \;
    v(x) + s \Big( \varphi_k(x) - \sum_j \mu_j E_{jk} \Big) .

*Proof.* At :math:`\theta = \sum_k \lambda_k \theta_k` take :math:`\mu = \lambda` and :math:`x = x^\star`, and add up
with the weights lambda:

.. math:: v(x^\star) + s \Big( \varphi_\theta(x^\star) - \sum_{jk} \lambda_j \lambda_k E_{jk} \Big)
          \ge \sum_k \lambda_k h_k .

The point :math:`\sum_j \lambda_j x_j` is in :math:`S(\theta)`, so that :math:`\varphi_\theta(x^\star) \le \sum_j
\lambda_j \varphi_\theta(x_j) = \sum_{jk} \lambda_j \lambda_k E_{jk}`.

In both, s balances what the validation error loses next to a vertex, about :math:`c / s`, and what the objective gains
across the simplex, about :math:`s D / 2`: if a bound reaches its target with any s, it does with s = room / D, where
the room is the distance of the error from the target.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

import numpy as np

from substrate.arrays import Array
from substrate.declare.program import Point, Program
from substrate.errors import SolverError
from substrate.fusion.search import Cut, Family, Limits, Theta, geometric_share, width
from substrate.numbers import relative_rounding, subtract_below

__all__ = ["Knot", "Universal", "bound_game"]

#: Share of its room that a simplex may be predicted to need, and how often it is cut without a solve.
_HOPEFUL, _BLIND = 1.2, 4
#: Excess of the objective over its smallest value, relative, up to which a point counts as one more optimum, and the
#: share of the validation error that it must gain.
_OPTIMAL, _WORTH = 1e-10, 1e-3
#: Share of v - h(s) that is left at twice the s where several optima are suspected.
_FLAT = 0.9
#: The smallest s, and one over the largest.
_FINEST = 2.0**-60
#: Smallest change of the objective over a simplex, as a share of its size, that a first solve allows for.
_SMALL = 1e-6
#: Share of its room that the residual of a dual point may take off.
_RESOLUTION = 1e-3


class Fused(NamedTuple):
    """A lower value of h(s), the point behind it, and how far the objective at the solver's point is above it."""

    value: float
    point: Point
    inexact: float = 0.0


#: What is known where a solver failed.
_FAILED = Fused(-np.inf, Point(np.zeros(0), np.zeros(0)))


@dataclass(slots=True, eq=False)
class Knot:
    """A solved vertex: its parameters, the parts of the objective at a feasible point, and a bound on the optimum.

    ``terms`` and ``errors`` are the parts and what they may be off by, ``dual`` the point behind the bound ``lowest``;
    ``fused`` has what is known of h at each s. ``shown`` is the point that is validated.
    """

    weights: Array
    point: Array
    terms: Array
    errors: Array
    dual: Point
    lowest: float
    error: float
    shown: Array
    fused: dict[float, Fused] = field(default_factory=dict)
    examined: bool = False
    adopted: bool = False

    @property
    def value(self) -> float:
        """Return p: the objective at the feasible point."""
        return float(self.weights @ self.terms)

    @property
    def size(self) -> float:
        """Return the sum of the sizes of the terms of the objective."""
        return float(np.abs(self.weights) @ np.abs(self.terms)) + abs(self.lowest)

    @property
    def excess(self) -> float:
        """Return how far the objective may be above its smallest value, rounded up."""
        rounding = relative_rounding(8.0) * self.size + float(np.abs(self.weights) @ self.errors)
        return max(self.value - self.lowest + rounding, 0.0)


class Universal(Family):
    """A program, the same with the validation error as one more part, and the validation error of its points."""

    def __init__(
        self, base: Program, fused: Program, validate: Callable[[Array], float], highest: Theta, floor: float
    ) -> None:
        super().__init__(base, highest)
        self.both, self._validate, self._floor = fused, validate, floor
        self.placed = bool(base.b[1:].any())
        #: What is known of h at each s, for every simplex and vertex where constraints vary.
        self.joint: dict[tuple[tuple[Theta, ...], int], dict[float, Fused]] = {}
        self._enough, self._largest = 0.0, 1.0

    def knot(self, theta: Theta, point: Point) -> Knot:
        """Return what is known at a vertex by any point and multipliers near its optimum."""
        weights = np.append(1.0, theta)
        self.base.remember(point.x)
        x, radius = self.base.feasible(point.x, weights)
        terms, errors = self.base.terms(x, radius)
        lowest, dual = self.base.lower_value(weights, point, self._enough / self._largest)
        return Knot(weights, x, terms, errors, dual, lowest, self._validate(x), x)

    def bound(self, corners: Sequence[Theta], target: float, patience: int, limits: Limits) -> float:
        """Return a lower bound on a simplex, after solves where these are likely to reach the target."""
        knots = [self.knots[theta] for theta in corners]
        if self.placed:
            return self._bound_jointly(tuple(corners), knots, target, limits)
        D = _excesses(knots)
        proved = self._game(knots, D)
        if proved >= target or target == -np.inf:
            return proved
        wanted = [self._multiplier(knot, D[:, k], target) for k, knot in enumerate(knots)]
        if patience < _BLIND and not self._is_hopeful(knots, D, wanted, target):
            return proved
        for k in np.argsort([bool(knot.fused) for knot in knots], kind="stable"):
            if wanted[k] not in knots[k].fused and proved < target:
                limits.check(self.solves)
                self._enough = _RESOLUTION * (knots[k].error - target)
                self._fuse(knots[k], wanted[k])
                proved = max(proved, self._game(knots, D))
        return proved

    def cut(self, corners: Sequence[Theta], target: float) -> Cut:
        """Return the edge along which the objective changes most, or the longest where constraints vary."""
        knots = [self.knots[theta] for theta in corners]
        D = _excesses(knots)
        s = [1.0 if self.placed else self._multiplier(knot, D[:, k], target) for k, knot in enumerate(knots)]
        lengths = {
            (i, j): width(corners[i], corners[j])
            if self.placed
            else s[j] * max(D[i, j], 0.0) + s[i] * max(D[j, i], 0.0)
            for i, j in combinations(range(len(knots)), 2)
        }
        i, j = max(lengths, key=lambda edge: (lengths[edge], width(corners[edge[0]], corners[edge[1]])))
        return Cut(i, j, geometric_share(corners[i], corners[j]))

    def _multiplier(self, knot: Knot, excesses: Array, target: float) -> float:
        """Return the s at which the loss of a simplex next to a vertex is least, a power of two."""
        room = max(knot.error - target, np.finfo(float).tiny)
        steep = max(float(excesses.max()), 0.0) + 2.0 * knot.excess + relative_rounding(8.0) * knot.size
        nearest = self._nearest(knot)
        if nearest is not None:
            steep += 2.0 * nearest.fused[max(nearest.fused)].inexact
        highest = room / max(steep, np.finfo(float).tiny)
        if nearest is not None:
            loss, s = self._loss(nearest, highest)
            highest = min(highest, math.sqrt(2.0 * max(loss, room / 16.0) * s / steep))
        return 2.0 ** round(math.log2(min(max(highest, _FINEST), 1.0 / _FINEST)))

    def _nearest(self, knot: Knot) -> Knot | None:
        """Return the vertex itself, or the nearest one where h is known; None if it is known nowhere."""
        solved = [other for other in self.knots.values() if other.fused]
        return knot if knot.fused else min(solved, key=lambda other: _distance(knot, other), default=None)

    def _loss(self, knot: Knot, s: float) -> tuple[float, float]:
        """Return v - h at the known multiplier nearest to s, but for what is inexact, and that multiplier."""
        at = min(knot.fused, key=lambda other: abs(math.log(other / s)))
        return max(knot.error - knot.fused[at].value - at * knot.fused[at].inexact, 0.0), at

    def _is_hopeful(self, knots: Sequence[Knot], D: Array, wanted: Sequence[float], target: float) -> bool:
        """Return whether the bound would reach its target, by the losses that are known at the nearest vertices."""
        for k, knot in enumerate(knots):
            nearest = self._nearest(knot)
            if nearest is not None:
                loss, s = self._loss(nearest, wanted[k])
                needed = loss * s / wanted[k] + 0.5 * wanted[k] * max(float(D[:, k].max()), 0.0)
                if needed > _HOPEFUL * (knot.error - target):
                    return False
        return True

    def _game(self, knots: Sequence[Knot], D: Array) -> float:
        """Return the universal bound by what is known at the vertices."""
        if not all(knot.fused for knot in knots):
            return -np.inf
        steep = np.maximum(D.max(axis=0), 0.0)
        chosen = [
            max(((bound.value, s) for s, bound in knot.fused.items()), key=lambda pair: pair[0] - 0.5 * pair[1] * d)
            for knot, d in zip(knots, steep, strict=True)
        ]
        h, s = np.array(chosen).T
        return bound_game(subtract_below(h, s * D))

    def _fuse(self, knot: Knot, s: float) -> None:
        """Find h(s) at a vertex; look for another optimum where the loss does not fall as s grows."""
        self.solves += 1
        self._largest = max(self._largest, s)
        weights = np.append(knot.weights, 1.0 / s)
        try:
            point = self.both.solve(weights)
        except SolverError:
            knot.fused[s] = _FAILED
            return
        self.keep(knot, s, point)
        self._adopt(knot, point.x)
        lost = knot.error - knot.fused[s].value
        before = [knot.error - bound.value for other, bound in knot.fused.items() if other <= 0.5 * s]
        if not knot.examined and lost > _WORTH * abs(knot.error) and before and lost > _FLAT * min(before):
            knot.examined = True
            self._enough = 0.0
            sharper = self.base.lower_value(knot.weights, knot.dual)
            knot.lowest, knot.dual = max((knot.lowest, knot.dual), sharper, key=lambda pair: pair[0])
            large = 2.0 ** math.ceil(math.log2(lost / (2.0 * knot.excess + _OPTIMAL * knot.size)))
            if large > s:
                self._fuse(knot, large)

    def keep(self, knot: Knot, s: float, point: Point) -> None:
        """Keep h(s) at a vertex, by any point of the fused problem and its multipliers."""
        self.both.remember(point.x)
        weights = np.append(knot.weights, 1.0 / s)
        lowest, dual = self.both.lower_value(weights, point, self._enough / s)
        constant = 0.0 if self.both.squares is not None else float(self.both.d[-1])
        size = abs(lowest) + knot.size
        h = s * (lowest - knot.value - relative_rounding(16.0) * size) + constant
        value = float(weights @ self.both.terms(point.x, np.zeros_like(point.x))[0])
        value += weights[-1] * (float(self.both.d[-1]) - constant)
        inexact = max(value - lowest, 0.0) if np.isfinite(lowest) else 0.0
        knot.fused[s] = Fused(max(h, self._floor - s * knot.excess), dual, inexact)

    def _adopt(self, knot: Knot, x: Array) -> None:
        """Validate a fused point in place of a vertex where it is an optimum too, and validates better."""
        x = x[: knot.point.size]
        error = self._validate(x)
        above = float(knot.weights @ self.base.terms(x, np.zeros_like(x))[0]) - knot.lowest
        if error < (1.0 - _WORTH) * knot.error and above <= 2.0 * knot.excess + _OPTIMAL * knot.size:
            knot.shown, knot.error, knot.adopted = x, error, True

    # --- parameters in constraints ------------------------------------------------------------------------------------

    def _bound_jointly(self, corners: tuple[Theta, ...], knots: Sequence[Knot], target: float, limits: Limits) -> float:
        least = np.inf
        for k, knot in enumerate(knots):
            if any(self._weighs_alike(knot, knots[j]) for j in range(k)):
                continue
            tried = self.joint.setdefault((corners, k), {})
            levels = _levels(knot, knots)
            room = min(each.error for each in knots) - target
            steep = max(self._bend(knots, levels), _SMALL * knot.size)
            for _ in range(2 if target > -np.inf else 0):
                proved = max((bound.value for bound in tried.values()), default=-np.inf)
                s = 2.0 ** round(math.log2(room / steep))
                if proved >= target or s in tried:
                    break
                limits.check(self.solves)
                self.solves += 1
                program = self._over(knots, k)
                try:
                    point = program.solve(np.array([1.0, 1.0 / s]))
                except SolverError:
                    tried[s] = _FAILED
                    break
                self.keep_jointly(corners, k, s, point)
                drop = -float(program.terms(point.x, np.zeros_like(point.x))[0][0])
                steep = 2.0 * max(drop, max(each.excess for each in knots))
            least = min(least, max((bound.value for bound in tried.values()), default=-np.inf))
        return least

    def keep_jointly(self, corners: tuple[Theta, ...], k: int, s: float, point: Point) -> None:
        """Keep the bound of a simplex by the weights of a vertex, by any point and multipliers."""
        knots = [self.knots[theta] for theta in corners]
        program = self._over(knots, k)
        program.remember(point.x)
        lowest, dual = program.lower_value(np.array([1.0, 1.0 / s]), point)
        constant = float(self.both.d[-1])
        size = abs(lowest) + max(knot.size for knot in knots)
        value = s * (lowest - relative_rounding(16.0) * size) + constant
        self.joint.setdefault((corners, k), {})[s] = Fused(value, dual)

    def _over(self, knots: Sequence[Knot], k: int) -> Program:
        thetas = np.array([knot.weights for knot in knots])
        return self.both.over(thetas, knots[k].weights, _levels(knots[k], knots))

    def _weighs_alike(self, knot: Knot, other: Knot) -> bool:
        changed = np.flatnonzero(knot.weights != other.weights)
        return not any(self.base.q[i].any() or abs(self.base.P[i]).sum() > 0.0 for i in changed)

    def _bend(self, knots: Sequence[Knot], levels: Array) -> float:
        """Return the largest distance between a chord of the optimal value and its tangents, by the multipliers."""
        largest = 0.0
        for i, j in combinations(range(len(knots)), 2):
            way = knots[j].weights - knots[i].weights
            first, last = (-float(way @ (self.base.b @ knots[k].dual.z)) for k in (i, j))
            chord = float(levels[j] - levels[i])
            if first < chord < last:
                largest = max(largest, (chord - first) * (last - chord) / (last - first))
        return largest


def _levels(knot: Knot, knots: Sequence[Knot]) -> Array:
    """Return the objective of a vertex at the points of all, rounded up."""
    terms, sizes = np.array([other.terms for other in knots]), np.abs(knot.weights)
    rounded = np.array([other.errors for other in knots]) @ sizes + relative_rounding(8.0) * (np.abs(terms) @ sizes)
    return np.asarray(terms @ knot.weights + rounded)


def _excesses(knots: Sequence[Knot]) -> Array:
    """Return D_jk, rounded up."""
    D = np.array([_levels(knot, knots) - knot.value for knot in knots]).T
    return np.asarray(D + relative_rounding(1.0) * np.abs(D))


def _distance(knot: Knot, other: Knot) -> float:
    return float(np.abs(np.log(np.abs(knot.weights) + 1e-9) - np.log(np.abs(other.weights) + 1e-9)).sum())


def bound_game(M: Array) -> float:
    """Bound :math:`\\min_\\lambda \\max_j \\sum_k M_{jk} \\lambda_k` over the simplex from below, rounding included."""
    if not np.isfinite(M).all():
        return -np.inf
    strategies = [*np.eye(M.shape[0]), _strategy(M)]
    rounding = relative_rounding(4.0 * M.shape[0])
    return max(float((mu @ M - rounding * (np.abs(mu) @ np.abs(M))).min()) for mu in strategies)


def _strategy(M: Array) -> Array:
    """Return weights mu that are optimal up to rounding."""
    n = M.shape[0]
    if n == 2:
        rise = M[0] - M[1]  # mu M = M[1] + mu_0 rise, equal in both columns
        slope = float(rise[0] - rise[1])
        share = float(np.clip((M[1, 1] - M[1, 0]) / slope, 0.0, 1.0)) if slope else 0.5
        return np.array([share, 1.0 - share])
    from scipy.optimize import linprog

    size = float(np.abs(M).max()) or 1.0
    rows, equal = np.hstack([-M.T / size, np.ones((n, 1))]), np.append(np.ones(n), 0.0)[None, :]
    bounds = [(0.0, None)] * n + [(None, None)]
    optimum = linprog(np.append(np.zeros(n), -1.0), rows, np.zeros(n), equal, [1.0], bounds, method="highs")
    mu = np.maximum(optimum.x[:n], 0.0) if optimum.status == 0 else np.ones(n)
    return np.asarray(mu / mu.sum())
