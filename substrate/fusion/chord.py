r"""A lower bound on squared validation errors over a simplex of weights, where squares determine the predictions.

Let :math:`\theta(t) = \sum_i t_i \theta_i` run through a simplex, and let :math:`x(t)`, multipliers :math:`z(t)` and
slacks :math:`s(t) = A x(t) + b` be the same combinations of feasible points and multipliers at its vertices. x(t) is
feasible, z(t) is in the dual of the cones, and subtracting the conditions of the optimum :math:`x^\star` at
:math:`\theta(t)` gives, with the residuals :math:`r_i` of stationarity and :math:`d = x^\star - x(t)`,

.. math::

    \|d\|_P^2 \le z(t)^T s(t) - \sum_i t_i r_i^T d + \sum_{i<j} t_i t_j \, \big( (P_i - P_j) (x_i - x_j) \big)^T d ,
    \qquad z(t)^T s(t) = t^T Q t , \quad Q_{ij} = \tfrac12 (z_i^T s_j + z_j^T s_i) ,

where P is the smallest quadratic term on the simplex. With :math:`|c^T d| \le \|c\|_{P^{-1}} \|d\|_P`,

.. math:: \|d\|_P \le \sqrt{t^T Q t} + a + \rho(t), \qquad \rho(t) = \tfrac12 t^T R t, \quad
          R_{ij} = \|(P_i - P_j)(x_i - x_j)\|_{P^{-1}} ,

.. math:: (\sqrt{t^T Q t} + \rho)^2 \le (1 + \omega) \, t^T Q t + (1 + 1/\omega) \, \bar\rho \, \rho(t)

for :math:`\bar\rho \ge \max \rho` and any :math:`\omega > 0`: one quadratic form F. For every u with
:math:`\|u\| \le 1`, with the validation errors :math:`e_i` at the vertices,

.. math:: \|e(x^\star)\| \ge \sum_i t_i u^T e_i - \sigma \big( \sqrt{t^T F t} + a \big) , \qquad
          \sigma = \|M^T u\|_{P^{-1}} .

The direction u points along the smallest error among the combinations of the :math:`e_i`. The right-hand side is at
least :math:`\beta` if :math:`(a_i - \beta)(a_j - \beta) \ge \sigma^2 \frac{n-1}{n} F_{ij}` for all i, j of the n
vertices, since a symmetric matrix with ones on its diagonal and no entry below :math:`-1/(n - 1)` has a form that is
not negative for t >= 0; the diagonal of F, of rounding size, is subtracted. For an interval this is exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.declare.program import Conditions, Point, Program
from substrate.fusion.search import Cut, Family, Limits, SpentError, Theta, geometric_share
from substrate.numbers import relative_rounding

__all__ = ["NOT_KNOWN", "Chord", "ChordKnot"]

#: Why a search by chords ends where even the bound at a vertex alone is below the target.
NOT_KNOWN = "the points are not known well enough for chords"
#: Factors of the balanced omega that are tried.
_OMEGAS = (1.0, 0.4, 2.5)
#: Quadratic terms whose factors are kept.
_KEPT = 64
#: Share of the gap of an error that may be lost where squares do not determine a prediction.
_UNTIED = 0.1
#: Share of the loss of a bound that a radius may have where a simplex is cut at its smallest error instead.
_FLAT, _INNER = 0.25, 0.05
#: The effect of rounding in the few operations of a bound.
_BELOW = 1.0 - 1e-10


@dataclass(frozen=True, slots=True)
class ChordKnot:
    """A solved vertex: a feasible point, ``shown``, multipliers, the slacks of the point and what they may be off by.

    ``residual`` is a bound on the sizes of the residual of stationarity, ``errors`` the validation errors and
    ``radius`` how far they may be from the errors of the exactly feasible point.
    """

    weights: Array
    shown: Array
    dual: Point
    slack: Array
    slack_radius: Array
    residual: Array
    errors: Array
    radius: float

    @property
    def error(self) -> float:
        """Return the sum of squares."""
        return float(self.errors @ self.errors)


class Chord(Family):
    """A program of squares and weights, and the squares M x - v by which it is validated."""

    def __init__(self, base: Program, M: Any, v: Array, highest: Theta) -> None:
        super().__init__(base, highest)
        self.M, self._v = M, v
        self._conditions: dict[tuple[float, ...], Conditions] = {}
        self._curved = [i for i, P in enumerate(base.P) if i > 0 and abs(P).sum() > 0.0]

    def knot(self, theta: Theta, point: Point) -> ChordKnot:
        """Return what is known at a vertex by any point and multipliers near its optimum."""
        weights, base = np.append(1.0, theta), self.base
        base.remember(point.x)
        x, radius = base.feasible(point.x, weights)
        z = base.nearest_dual(weights, x, point.z)
        r, error = base.residual(weights, x, z)
        sizes = np.abs(weights) @ np.abs(base.q) + abs(base.matrix(weights)) @ np.abs(x)
        slivers = relative_rounding(64.0) * sizes  # the corners of simplices that were cut are rounded
        residual = np.abs(r) + error + slivers + abs(base.matrix(weights)) @ radius
        slack, rounding = base.slack(x, weights @ base.b)
        slack_radius = rounding + abs(base.A) @ radius
        slack[base.equal], slack_radius[base.equal] = 0.0, 0.0  # they hold exactly
        products = abs(self.M) @ (relative_rounding(self.M.shape[1] + 4.0) * np.abs(x) + radius)
        each = products + relative_rounding(2.0) * np.abs(self._v)
        errors = self._v - self.M @ x
        return ChordKnot(
            weights, x, Point(x, z), slack, slack_radius, residual, errors, 1.001 * float(np.linalg.norm(each))
        )

    def determines(self, theta: Theta, weakest: Theta, gap: float) -> bool:
        """Return whether squares determine the validation errors, by the point at a vertex and the weakest squares."""
        self.evaluate(theta)
        try:
            _, E = self._norm(np.append(1.0, weakest)).represent(self.M.T.toarray())
        except RuntimeError:  # singular
            return False
        lost = float(np.linalg.norm(E.T @ self.base.radius()))
        return lost <= _UNTIED * gap * float(np.linalg.norm(self.knots[theta].errors))

    def _norm(self, weights: Array) -> Conditions:
        key = tuple(float(weights[i]) for i in self._curved)
        if key not in self._conditions:
            if len(self._conditions) >= _KEPT:
                self._conditions.pop(next(iter(self._conditions)))
            self._conditions[key] = self.base.conditions(weights)
        return self._conditions[key]

    def bound(self, corners: Sequence[Theta], target: float, patience: int, limits: Limits) -> float:
        """Return the bound on a simplex; nothing is solved."""
        return self._study(corners)[0]

    def cut(self, corners: Sequence[Theta], target: float) -> Cut:
        """Return where a simplex is cut: at its smallest error where only that is too small, or where it is widest."""
        bound, flat, place, F = self._study(corners)
        if min(self._study([corner])[0] for corner in corners) < target:
            raise SpentError(NOT_KNOWN)
        i, j = max(combinations(range(len(corners)), 2), key=lambda edge: F[edge])
        if flat < target and flat - bound <= _FLAT * (target - bound):
            i, j = sorted(np.argsort(place)[-2:])
            share = float(place[j] / (place[i] + place[j]))
            if _INNER < share < 1.0 - _INNER:
                return Cut(int(i), int(j), share)
        return Cut(i, j, geometric_share(corners[i], corners[j]))

    def _study(self, corners: Sequence[Theta]) -> tuple[float, float, Array, Array]:
        """Return the bound, the smallest error without a radius, the combination that has it, and the radii."""
        knots = [self.knots[theta] for theta in corners]
        E, n = np.array([knot.errors for knot in knots]), len(knots)
        place = _nearest_combination(E)
        nearest = place @ E
        length = float(np.linalg.norm(nearest))
        norm = self._norm(np.min([knot.weights for knot in knots], axis=0))
        radius = self.base.radius()
        Q, R, lost = np.zeros((n, n)), np.zeros((n, n)), 0.0
        for i, j in combinations(range(n), 2):
            Q[i, j] = Q[j, i] = _product(knots[i], knots[j])
            change = (knots[i].weights - knots[j].weights) * np.isin(np.arange(knots[i].weights.size), self._curved)
            if change.any():
                difference = knots[i].shown - knots[j].shown
                (size,), remainder = norm.represent((self.base.matrix(change) @ difference)[:, None])
                rounding = relative_rounding(64.0) * (abs(self.base.matrix(np.abs(change))) @ np.abs(difference))
                R[i, j] = R[j, i] = size
                lost = max(lost, float((remainder[:, 0] + rounding) @ radius))
        if length == 0.0:
            return 0.0, 0.0, place, Q + R
        u = nearest / (length * (1.0 + 1e-14))  # of length one, or less by rounding
        (sigma,), remainder = norm.represent((self.M.T @ u)[:, None])
        remainder = remainder[:, 0] + relative_rounding(u.size + 4.0) * (abs(self.M).T @ np.abs(u))
        away = np.array([knot.radius for knot in knots]) + relative_rounding(u.size) * np.linalg.norm(E, axis=1)
        heights = E @ u - away - float(remainder @ radius)
        # residuals, in the coordinates that squares determine and in the others, and the gaps at the vertices
        alone = self.base.alone(self.base.matrix(np.min([knot.weights for knot in knots], axis=0)))
        residual = np.max([knot.residual for knot in knots], axis=0)
        tied = np.where(alone > 0.0, residual / np.sqrt(np.where(alone > 0.0, alone, 1.0)), 0.0)
        untied = lost + float(residual[alone == 0.0] @ radius[alone == 0.0])
        gap = untied + max(_product(knot, knot) for knot in knots)
        if n == 1:
            return max(float(heights[0] - sigma * (np.sqrt(gap) + np.linalg.norm(tied))), 0.0) ** 2, length**2, place, Q
        best, radii = -np.inf, Q
        for factor in _OMEGAS if R.any() else _OMEGAS[:1]:
            top = 0.5 * float(R.max()) * (1.0 - 1.0 / n)
            omega = factor * top / max(float(np.sqrt(Q.max())), 1e-12 * top) if top > 0.0 else 0.0
            F = (1.0 + omega) * Q + ((1.0 + 1.0 / omega) * 0.5 * top * R if omega > 0.0 else 0.0)
            constant = np.sqrt((1.0 + omega) * gap) + float(np.linalg.norm(tied))
            beta = _least_difference(heights - 1.001 * sigma * constant, sigma**2 * F)
            if beta > best:
                best, radii = beta, F
        return _BELOW * max(best, 0.0) ** 2, length**2, place, radii


def _product(knot: ChordKnot, other: ChordKnot) -> float:
    """Return Q_ij, rounded up: the mean of the products of the multipliers of each with the slacks of the other."""
    total = 0.0
    for first, second in ((knot, other), (other, knot)):
        z, s = first.dual.z, second.slack
        total += float(z @ s) + float(np.abs(z) @ (second.slack_radius + relative_rounding(z.size) * np.abs(s)))
    return max(0.5 * total, 0.0)


def _least_difference(a: Array, F: Array) -> float:
    """Return a lower bound of a't less the root of t'Ft over the unit simplex, F without its diagonal."""
    n = a.size
    pairs = list(combinations(range(n), 2))
    scaled = {pair: 4.0 * (n - 1) / n * float(F[pair]) * (1.0 + relative_rounding(16.0)) for pair in pairs}
    lows = [0.5 * (a[i] + a[j] - float(np.sqrt((a[i] - a[j]) ** 2 + scaled[i, j]))) for i, j in pairs]
    low = min([*lows, float(a.min())])
    return float(low - relative_rounding(16.0) * (abs(low) + float(np.abs(a).max())))


def _nearest_combination(E: Array) -> Array:
    """Return the combination (weights at least zero, of sum one) of a few rows that has the smallest norm, nearly."""
    K = E @ E.T
    n = K.shape[0]
    K = K + 1e-15 * max(float(np.trace(K)), 1e-300) * np.eye(n)
    best, least = np.full(n, 1.0 / n), np.inf
    for size in range(n, 0, -1):
        for chosen in combinations(range(n), size):
            at = np.array(chosen)
            w = np.linalg.solve(K[np.ix_(at, at)], np.ones(size))
            total = float(w.sum())
            if total > 0.0 and (w >= 0.0).all() and 1.0 / total < least:
                least, best = 1.0 / total, np.zeros(n)
                best[at] = w / total
    return best
