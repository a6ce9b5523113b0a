r"""A lower bound on the validation error between two weights of a machine whose shape holds everywhere.

With weights c and g that are affine in the parameter theta, S the functions with :math:`D f \ge d` at all points of
a box, and f with its bias,

.. math:: f_\theta = \arg\min_{f \in S} \; J_\theta(f) , \qquad
          J_\theta(f) = \tfrac{c}{2} \|w\|^2 + \tfrac12 \sum_i g_i \, (y_i - f(x_i))^2 .

S is convex, closed and the same for every theta. At both ends a and b a function of S is known, proved at all points
of the box, and multipliers: :math:`\alpha`, and :math:`\mu \ge 0` at finitely many points, with
:math:`\sum \alpha + \sum \mu D 1 = 0`. With :math:`u = \sum_i \alpha_i k(x_i, \cdot) + \sum_j \mu_j D_j k`, the
Lagrangian of the problem with *all* points, at the measure that has these points alone, is minimised by
:math:`w = u/c`, and every f of S has

.. math:: J_\theta(f) - \min_S J_\theta \;\le\; G = \frac{\|c w - u\|^2}{2 c} + \sum_i \frac{(g_i e_i - \alpha_i)^2}{2
          g_i} + \sum_j \mu_j \, (D_j f(x_j) - d) .

Between the ends both points are mixed: :math:`f_t = (1 - t) f_a + t f_b` is in S, the multipliers stay at least zero,
and c, g are mixed too, so that

.. math:: g e_t - \alpha_t = (1 - t) \rho_a + t \rho_b - t (1 - t) \, (g_b - g_a)(e_b - e_a) , \qquad
          \rho = g e - \alpha ,

and c w - u likewise: what the ends leave is small, and the other term is of the second order in the length of the
cell, of which G has the square. J is strongly convex in

.. math:: N(f)^2 = c \|w\|^2 + \sum_i g_i f(x_i)^2 , \qquad N(f_t - f_\theta)^2 \le 2 G ,

and the validation error v is convex: with its errors q at :math:`f_t`, weighted, and any :math:`\beta` of the sum of q,

.. math:: v(f_\theta) \ge v(f_t) - 2 \sum_j q_j (f_\theta - f_t)(z_j)
          \ge v(f_t) - 2 L N , \qquad
          L^2 = \tfrac1c \Big\| \sum_j q_j k(z_j, \cdot) - \sum_i \beta_i k(x_i, \cdot) \Big\|^2 + \sum_i
          \frac{\beta_i^2}{g_i} .

No coordinates are left out anywhere: functions are expansions, and their norms those of the whole space. Rounding is in
every term; what it leaves of a sum that is to be zero acts on the difference of two biases, which N bounds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.linalg

from substrate.arrays import Array
from substrate.certificates.rounding import at_most, relative_rounding
from substrate.composition.cut_least_squares import DualPoint, SquaredWeights
from substrate.composition.expanded_function import (
    ExpandedFunction,
    ExpansionTerm,
    bound_difference_norm,
    evaluate_function,
)
from substrate.composition.shape_oracle import ShapePlan
from substrate.composition.shaped_machine import (
    ShapeMultipliers,
    multiply_slacks,
    pull_of_bias,
    representers,
)
from substrate.fusion.validation import ValidationSet

__all__ = ["ShapedKnot", "ShapedKnots", "bound_chord", "multiply_all"]

#: Parts of the range of t, on each of which the terms of the bound are taken at their worst.
_PARTS = 8


@dataclass(frozen=True, slots=True, eq=False)
class ShapedKnot:
    """What is known at one value of the parameter: a function that holds everywhere, and multipliers.

    ``errors`` are those of the validation rows times the roots of their weights, ``error_radius`` the norm of their
    rounding; ``beta`` and ``pull`` are the numbers of L: the latter is the norm of its function, and ``sum_left`` what
    the sums differ by. ``q_radius`` is what rounding may change in q, added up, ``q_length`` the largest length of a
    feature there.
    """

    theta: float
    multipliers: tuple[ShapeMultipliers, ...]
    point: DualPoint
    errors: Array
    error_radius: float
    beta: Array
    pull: float
    sum_left: float
    q_radius: float
    q_length: float

    @classmethod
    def of(
        cls,
        theta: float,
        weights: SquaredWeights,
        function: ExpandedFunction,
        multipliers: Sequence[ShapeMultipliers],
        plans: Sequence[ShapePlan],
        rows: ValidationSet,
    ) -> "ShapedKnot":
        """Return the knot of a function that holds everywhere, and of multipliers that are not negative."""
        s, X, Z = function.substrate, function.terms[0].points, np.asarray(rows.X)
        pairs = [(plan.constraint, carried) for plan, carried in zip(plans, multipliers, strict=True)]
        pulling = [term for pair in pairs for term in representers(*pair)]
        point = DualPoint.of(weights, function, pulling, [number for pair in pairs for number in pull_of_bias(*pair)])
        predicted, predicted_radius = evaluate_function(function, Z)
        targets = rows.stacked_targets
        errors = rows.roots * (targets - predicted)
        lost = predicted_radius + relative_rounding(4.0) * (np.abs(targets) + np.abs(predicted))
        q = rows.roots * errors
        beta = _balance(s, X, Z, q, weights.c / weights.g)
        pull = bound_difference_norm(s.kernel, [(1.0, ExpansionTerm(Z, q))], [ExpansionTerm(X, beta)])
        return cls(
            theta=theta,
            multipliers=tuple(multipliers),
            point=point,
            errors=errors,
            error_radius=at_most(float(np.linalg.norm(rows.roots * lost))),
            beta=beta,
            pull=pull,
            sum_left=abs(math.fsum([*q, *(-beta)])) if s.bias else 0.0,
            q_radius=at_most(float(rows.every_weight @ lost)) + relative_rounding(4.0) * float(np.abs(q).sum()),
            q_length=_length(s.kernel, Z),
        )

    @property
    def validation(self) -> float:
        """The sum of the squared validation errors."""
        return float(self.errors @ self.errors)

    def dual_norm(self, c: float, g: Array, reach: float) -> float:
        """Return L with these weights; ``reach`` bounds a bias in units of N."""
        square = self.pull**2 / c + float((np.square(self.beta) / g).sum())
        slope = self.q_radius * (self.q_length / math.sqrt(c) + reach)
        return at_most(math.sqrt(square)) + at_most(self.sum_left * reach + slope)


def _length(kernel: Any, points: Array) -> float:
    """The largest length of a feature."""
    return at_most(math.sqrt(max(float(np.asarray(kernel.diag(points)).max(initial=0.0)), 0.0)))


def _balance(s: Any, X: Array, Z: Array, q: Array, ridge: Array) -> Array:
    """The coefficients beta for which L is nearly smallest; any others would do."""
    K, pull = np.asarray(s.kernel(X)), np.asarray(s.kernel(X, Z)) @ q
    try:
        factor = scipy.linalg.cho_factor(K + np.diag(ridge))
        beta = scipy.linalg.cho_solve(factor, pull)
        ones = scipy.linalg.cho_solve(factor, np.ones(X.shape[0]))
    except np.linalg.LinAlgError:
        beta, ones = np.zeros(X.shape[0]), 1.0 / ridge
    if not s.bias:
        return np.asarray(beta)
    beta = beta + (float(q.sum()) - float(beta.sum())) / float(ones.sum()) * ones
    return np.asarray(beta + (math.fsum(q) - math.fsum(beta)) / beta.size)


def multiply_all(multiplying: ShapedKnot, other: ShapedKnot, plans: Sequence[ShapePlan]) -> float:
    r"""Bound :math:`\sum_j \mu_j (D_j f(x_j) - d)`, the multipliers of one knot with the function of another."""
    pairs = zip(plans, multiplying.multipliers, strict=True)
    return max(math.fsum(multiply_slacks(plan, carried, other.point.function) for plan, carried in pairs), 0.0)


class ShapedKnots:
    """The knots of one machine, its shapes, and its validation rows."""

    def __init__(self, plans: Sequence[ShapePlan], rows: ValidationSet) -> None:
        self.plans, self.rows = plans, rows
        self.knots: dict[float, ShapedKnot] = {}
        #: The multipliers of each knot times its slacks.
        self.own: dict[float, float] = {}

    def keep(
        self,
        theta: float,
        weights: SquaredWeights,
        function: ExpandedFunction,
        multipliers: Sequence[ShapeMultipliers],
    ) -> ShapedKnot:
        """Keep the knot of a function, in the place of an earlier one at the same weight."""
        knot = ShapedKnot.of(theta, weights, function, multipliers, self.plans, self.rows)
        self.knots[theta], self.own[theta] = knot, multiply_all(knot, knot, self.plans)
        return knot

    def bound(self, low: float, high: float) -> tuple[float, float]:
        """Return the bound between two knots, and what their brackets lose."""
        first, second = self.knots[low], self.knots[high]
        crossed = multiply_all(first, second, self.plans) + multiply_all(second, first, self.plans)
        return bound_chord(first, second, crossed, (self.own[low], self.own[high]))


def bound_chord(first: ShapedKnot, second: ShapedKnot, crossed: float, own: tuple[float, float]) -> tuple[float, float]:
    """Bound the validation error at all values between two knots.

    ``own`` are the multipliers of each knot times its own slacks, ``crossed`` both times those of the other. Returns
    the bound, and what it would lose if the cell were as short as can be.
    """
    weights = first.point.weights, second.point.weights
    c, g = min(each.c for each in weights), np.minimum(weights[0].g, weights[1].g)
    reach = first.point.reach_of_bias(c, g)
    left = max(first.point.root_left(c, g), second.point.root_left(c, g))
    bend = _bend(first.point, second.point, c, g)
    L = first.dual_norm(c, g, reach), second.dual_norm(c, g, reach)
    shift = 2.0 * max(first.point.unbalanced, second.point.unbalanced) * reach
    lost = max(first.error_radius, second.error_radius)
    best, limit = math.inf, 0.0
    for low, high in pairwise(np.linspace(0.0, 1.0, _PARTS + 1)):
        middle = 0.25 if low < 0.5 < high else max(low * (1.0 - low), high * (1.0 - high))
        ends = (1.0 - low) ** 2 * own[0] + high**2 * own[1]
        G = (left + middle * bend) ** 2 + ends + middle * crossed
        N = at_most(math.sqrt(2.0 * G)) + shift
        steep = max((1.0 - t) * L[0] + t * L[1] for t in (low, high))
        norm = max(_least_norm(first.errors, second.errors, low, high) - lost, 0.0)
        best = min(best, norm**2 * (1.0 - relative_rounding(8.0)) - 2.0 * at_most(steep * N))
        limit = max(limit, 2.0 * at_most(steep * (math.sqrt(2.0 * (left**2 + ends)) + shift)))
    return max(best, 0.0), limit


def _bend(first: DualPoint, second: DualPoint, c: float, g: Array) -> float:
    """The root of G that the product of both differences leaves, times t (1 - t)."""
    rise, change = second.weights.g - first.weights.g, second.e - first.e
    change = np.abs(change) + first.radius + second.radius
    square = 0.5 * float((np.square(rise * change) / g).sum())
    steeper = abs(second.weights.c - first.weights.c)
    if steeper > 0.0:
        pair = [(1.0, term) for term in second.function.terms], first.function.terms
        square += (steeper * bound_difference_norm(first.function.substrate.kernel, *pair)) ** 2 / (2.0 * c)
    return at_most(math.sqrt(square))


def _least_norm(first: Array, second: Array, low: float, high: float) -> float:
    """The smallest norm of (1 - t) first + t second for t in a part of its range, rounded down."""
    step = second - first
    square = float(step @ step)
    at = -float(first @ step) / square if square > 0.0 else low
    t = min(max(at, low), high)
    nearest = float(np.linalg.norm(first + t * step))
    # t is rounded: the norm is convex, and near its minimum flat
    sizes = float(np.linalg.norm(first) + np.linalg.norm(step))
    return max(nearest - relative_rounding(first.size + 16.0) * sizes, 0.0)
