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
from typing import Any

import numpy as np
import scipy.linalg

from substrate.arrays import Array
from substrate.certificates.rounding import at_most, relative_rounding
from substrate.composition.reading import Reading, inner_products
from substrate.composition.shape_oracle import (
    ExpandedFunction,
    ExpansionTerm,
    ShapePlan,
    bound_sizes,
    inner_product_sum,
    square_rounding,
)
from substrate.composition.shaped_machine import (
    ShapedResult,
    expanded_function,
    merge_terms,
    pull_of_bias,
    representers,
)
from substrate.fusion.validation import ValidationSet

__all__ = ["ShapedKnot", "SquaredWeights", "bound_chord", "multiply_slacks"]

#: Parts of the range of t, on each of which the terms of the bound are taken at their worst.
_PARTS = 8


@dataclass(frozen=True, slots=True, eq=False)
class SquaredWeights:
    """c, the weight of ||w||^2/2, and g, those of the squared errors, at one value of the parameter."""

    c: float
    g: Array


@dataclass(frozen=True, slots=True, eq=False)
class ShapedKnot:
    """What is known at one value of the parameter: a function that holds everywhere, and multipliers.

    ``residual`` bounds the norm of c w - u, ``unbalanced`` the sum that is to be zero. ``errors`` are those of the
    validation rows times the roots of their weights, ``beta`` and ``pull`` the numbers of L: the latter is the norm of
    its function, and ``sum_left`` what the sums differ by.
    """

    theta: float
    weights: SquaredWeights
    result: ShapedResult
    function: ExpandedFunction
    e: Array
    radius: Array
    alpha: Array
    residual: float
    unbalanced: float
    errors: Array
    error_radius: float
    beta: Array
    pull: float
    sum_left: float
    #: What rounding may change in q, added up, times the largest length of a feature there; those of the rows of the fit.
    q_radius: float
    q_reach: float
    reach: Array

    @classmethod
    def of(
        cls, theta: float, weights: SquaredWeights, result: ShapedResult, plans: Sequence[ShapePlan], rows: ValidationSet
    ) -> "ShapedKnot":
        """Return the knot of a solution."""
        function = expanded_function(result.expansions[0])
        s, c, g = function.substrate, weights.c, weights.g
        X, y = function.terms[0].points, np.asarray(s.y, dtype=np.float64)
        f, radius = _values(function, X)
        e = y - f
        radius = radius + relative_rounding(2.0) * (np.abs(y) + np.abs(f))
        constraints = [plan.constraint for plan in plans]
        pairs = list(zip(constraints, result.multipliers, strict=True))
        alpha, unbalanced = g * e, 0.0
        if s.bias:
            pulls = [number for pair in pairs for number in pull_of_bias(*pair)]
            alpha = alpha - math.fsum([*alpha, *pulls]) * g / float(g.sum())
            unbalanced = abs(math.fsum([*alpha, *pulls])) + relative_rounding(2.0) * math.fsum(map(abs, pulls))
        dual = [ExpansionTerm(X, alpha), *(term for pair in pairs for term in representers(*pair))]
        residual = _norm_of_difference(s.kernel, [(c, term) for term in function.terms], dual)
        predicted, predicted_radius = _values(function, rows.X)
        targets = rows.stacked_targets
        errors = rows.roots * (targets - predicted)
        lost = predicted_radius + relative_rounding(4.0) * (np.abs(targets) + np.abs(predicted))
        q = rows.roots * errors
        beta = _balance(s, X, rows.X, q, c / g)
        pull = _norm_of_difference(
            s.kernel, [(1.0, ExpansionTerm(np.asarray(rows.X), q))], [ExpansionTerm(X, beta)]
        )
        sum_left = abs(math.fsum([*q, *(-beta)])) if s.bias else 0.0
        return cls(
            theta=theta,
            weights=weights,
            result=result,
            function=function,
            e=e,
            radius=radius,
            alpha=alpha,
            residual=residual,
            unbalanced=unbalanced,
            errors=errors,
            error_radius=at_most(float(np.linalg.norm(rows.roots * lost))),
            beta=beta,
            pull=pull,
            # the errors behind q are rounded, too
            sum_left=sum_left + relative_rounding(4.0) * float(np.abs(q).sum()),
            q_radius=at_most(float(rows.every_weight @ lost)),
            q_reach=_length(s.kernel, rows.X),
            reach=np.sqrt(np.maximum(np.asarray(s.kernel.diag(X)), 0.0)),
        )

    @property
    def validation(self) -> float:
        """The sum of the squared validation errors."""
        return float(self.errors @ self.errors)

    def dual_norm(self, c: float, g: Array, reach: float) -> float:
        """Return L with these weights; ``reach`` bounds a bias in units of N."""
        square = self.pull**2 / c + float((np.square(self.beta) / g).sum())
        slope = self.q_radius * (self.q_reach / math.sqrt(c) + reach)
        return at_most(math.sqrt(square)) + self.sum_left * reach + at_most(slope)

    def left(self, c: float, g: Array) -> float:
        """Return the root of what the residuals of this end leave in G."""
        rho = np.abs(self.weights.g * self.e - self.alpha) + self.weights.g * self.radius
        rho = rho + relative_rounding(4.0) * (np.abs(self.weights.g * self.e) + np.abs(self.alpha))
        return at_most(math.sqrt(self.residual**2 / (2.0 * c) + 0.5 * float((np.square(rho) / g).sum())))


def _values(function: ExpandedFunction, points: Array) -> tuple[Array, Array]:
    """f at points, and what rounding may change in it."""
    s = function.substrate
    total = np.full(points.shape[0], function.bias)
    for term in function.terms:
        reading = Reading(term.points, term.part, term.operator)
        total = total + inner_products(s, Reading(points), reading) @ term.coefficients
    sizes, loss, count = bound_sizes(s.kernel, function.terms)
    loss = max(loss, float(s.kernel.rounding(np.asarray(points))))
    lengths = np.sqrt(np.maximum(np.asarray(s.kernel.diag(points)), 0.0))
    radius = at_most((loss + relative_rounding(count + 8.0)) * sizes) * lengths
    return total, radius + relative_rounding(len(function.terms) + 2.0) * (np.abs(total) + abs(function.bias))


def _length(kernel: Any, points: Array) -> float:
    """The largest length of a feature."""
    return at_most(math.sqrt(max(float(np.asarray(kernel.diag(points)).max(initial=0.0)), 0.0)))


def _norm_of_difference(
    kernel: Any, first: Sequence[tuple[float, ExpansionTerm]], second: Sequence[ExpansionTerm]
) -> float:
    """Bound the norm of a sum of multiples of terms less others."""
    terms = [ExpansionTerm(t.points, factor * t.coefficients, t.part, t.operator) for factor, t in first]
    sizes = bound_sizes(kernel, terms)[0] + bound_sizes(kernel, second)[0]
    every = merge_terms([*terms, *(ExpansionTerm(t.points, -t.coefficients, t.part, t.operator) for t in second)])
    square = max(inner_product_sum(kernel, every), 0.0) + square_rounding(kernel, every)
    # products and sums of coefficients are rounded
    return at_most(math.sqrt(square)) + relative_rounding(8.0) * sizes


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


def multiply_slacks(multiplying: ShapedKnot, other: ShapedKnot, plans: Sequence[ShapePlan]) -> float:
    r"""Bound :math:`\sum_j \mu_j (D_j f(x_j) - d)`, the multipliers of one knot with the function of another."""
    total = 0.0
    for plan, carried in zip(plans, multiplying.result.multipliers, strict=True):
        weighing = carried.values > 0.0
        points, mu = carried.points[weighing], carried.values[weighing]
        if not mu.size:
            continue
        values, radius = plan.bind([other.function]).read(points, carried.directions[weighing])
        slack = np.maximum(values - plan.constraint.bound * carried.lengths(plan)[weighing] + radius, 0.0)
        total += float(mu @ slack) + relative_rounding(mu.size + 8.0) * float(mu @ (np.abs(values) + slack))
    return at_most(total)


def bound_chord(first: ShapedKnot, second: ShapedKnot, crossed: float, own: tuple[float, float]) -> tuple[float, float]:
    """Bound the validation error at all values between two knots.

    ``own`` are the multipliers of each knot times its own slacks, ``crossed`` both times those of the other. Returns
    the bound, and what it would lose if the cell were as short as can be.
    """
    c = min(first.weights.c, second.weights.c)
    g = np.minimum(first.weights.g, second.weights.g)
    heaviest = int(g.argmax())
    # |b - b'| <= |f - f'|(x) + |w - w'| |phi(x)|, at the row of the largest weight
    reach = at_most(1.0 / math.sqrt(g[heaviest]) + first.reach[heaviest] / math.sqrt(c))
    has_bias = bool(first.function.substrate.bias)
    reach = reach if has_bias else 0.0
    left = max(first.left(c, g), second.left(c, g))
    bend = _bend(first, second, c, g)
    L = first.dual_norm(c, g, reach), second.dual_norm(c, g, reach)
    shift = 2.0 * max(first.unbalanced, second.unbalanced) * reach
    lost = max(first.error_radius, second.error_radius)
    best, limit = math.inf, 0.0
    for low, high in zip(np.linspace(0.0, 1.0, _PARTS + 1)[:-1], np.linspace(0.0, 1.0, _PARTS + 1)[1:], strict=True):
        middle = 0.25 if low < 0.5 < high else max(low * (1.0 - low), high * (1.0 - high))
        ends = (1.0 - low) ** 2 * own[0] + high**2 * own[1]
        G = (left + middle * bend) ** 2 + ends + middle * crossed
        N = at_most(math.sqrt(2.0 * G)) + shift
        steep = max((1.0 - t) * L[0] + t * L[1] for t in (low, high))
        norm = max(_least_norm(first.errors, second.errors, low, high) - lost, 0.0)
        best = min(best, norm**2 * (1.0 - relative_rounding(8.0)) - 2.0 * at_most(steep * N))
        limit = max(limit, 2.0 * at_most(steep * (math.sqrt(2.0 * (left**2 + ends)) + shift)))
    return max(best, 0.0), limit


def _bend(first: ShapedKnot, second: ShapedKnot, c: float, g: Array) -> float:
    """The root of G that the product of both differences leaves, times t (1 - t)."""
    rise, change = second.weights.g - first.weights.g, second.e - first.e
    change = np.abs(change) + first.radius + second.radius
    square = 0.5 * float((np.square(rise * change) / g).sum())
    steeper = abs(second.weights.c - first.weights.c)
    if steeper > 0.0:
        pair = [(1.0, term) for term in second.function.terms], first.function.terms
        square += (steeper * _norm_of_difference(first.function.substrate.kernel, *pair)) ** 2 / (2.0 * c)
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
