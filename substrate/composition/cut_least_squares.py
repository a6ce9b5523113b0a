r"""Least squares with linear inequalities at points, by their multipliers alone.

.. math:: \min_{w, b} \; J = \tfrac{c}{2} \|w\|^2 + \tfrac12 \sum_i g_i \, (y_i - f(x_i))^2 \quad\text{s.t.}\quad
          D_j f \ge l_j , \quad j = 1, \dots, m .

With multipliers :math:`\mu \ge 0`, :math:`\alpha_i = g_i e_i` and the representers :math:`r_j` of the functionals,
:math:`c\, w = \sum_i \alpha_i \varphi(x_i) + \sum_j \mu_j r_j`. Write E for the functionals of :math:`k(x_i, \cdot)`,
G for the inner products of the representers, :math:`\beta_j = D_j 1` and :math:`A = (K + c\, \mathrm{diag}(1/g))^{-1}`.
Then :math:`\alpha` and b are affine in :math:`\mu`, and so are the constrained numbers,

.. math:: D f = d_0 + Q \mu , \qquad Q = \tfrac1c \Big( G - E A E^T + \frac{p\, p^T}{1^T A 1} \Big) , \qquad
          p = \beta - E A 1 ,

so that the machine is a quadratic program in m numbers that are not negative,

.. math:: \min_{\mu \ge 0} \; \tfrac12 \mu^T Q \mu - \mu^T (l - d_0) ,

solved by a predictor-corrector method ([Boyd2004]_ section 11.7); K is factored once for all cuts. What is returned is
proved by its gap, whatever the accuracy of that method: for every f, :math:`\mu \ge 0` and :math:`\alpha` with
:math:`\sum \alpha + \beta^T \mu = 0`, with :math:`u = \sum_i \alpha_i \varphi(x_i) + \sum_j \mu_j r_j`,

.. math:: J(f) - \min J \le J(f) - D(\alpha, \mu) = \frac{\|c w - u\|^2}{2 c} + \sum_i \frac{(g_i e_i - \alpha_i)^2}{2
          g_i} + \sum_j \mu_j \, (D_j f - l_j) .
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.linalg

from substrate.arrays import Array, is_sparse
from substrate.certificates import Accuracy, Certificate, Row
from substrate.certificates.rounding import at_most, relative_rounding
from substrate.certificates.rows import accuracy_row, spread_of
from substrate.composition.expanded_function import (
    ExpandedFunction,
    ExpansionTerm,
    bound_difference_norm,
    evaluate_function,
    inner_product_sum,
    square_rounding,
)
from substrate.composition.linear_operators import VALUE, inner_product_matrix
from substrate.composition.squares import SquaredRows, collect_squares
from substrate.errors import DeclarationError, SolverError
from substrate.solvers import Attempt, SolverRecord

__all__ = ["Cut", "CutLeastSquares", "CutSolution", "DualPoint", "LeastSquaresValue", "SquaredWeights", "read_weights"]

#: Rows up to which the matrix is factored here.
_MOST_ROWS = 4000
#: Iterations of the method, the share of the complementarity that ends it, and the step to the boundary.
_ITERATIONS, _DONE, _STEP = 80, 1e-15, 0.995
#: Complementarity that is good enough where rounding ends the method, and growth of multipliers that tells that there
#: is no solution.
_ACCEPTED, _INFEASIBLE = 1e-7, 1e12
#: What rounding leaves of Q, as a share of its diagonal, is added to it.
_LIFT = 1e-14
NAME = "MULTIPLIERS"
_FORMULA = "sqrt(2 (v - p)/sum g), v the value of a feasible machine, p a dual value; with rounding"


@dataclass(frozen=True, slots=True, eq=False)
class SquaredWeights:
    """c, the weight of ||w||^2/2, and g, those of the halves of the squared errors."""

    c: float
    g: Array


def read_weights(substrate: Any, objective: Any, values: Mapping[str, Any]) -> SquaredWeights:
    """Return the weights of an objective at values of its parameters; refuse one that is not of squared errors."""
    rows = SquaredRows.of(substrate, objective, values, False)
    plain = len(rows.readings) == 1 and rows.readings[0].points is None and rows.count == rows.ridge.size
    if not plain or rows.readings[0].operator is not None or substrate.observed is not None:
        raise DeclarationError("the objective has squares of something else than the errors")
    fixed = {id(p): cp.Constant(values[p.name()]) for p in objective.parameters()}
    squares = collect_squares(objective.tree_copy(fixed), substrate)
    assert squares is not None
    return SquaredWeights(2.0 * squares.norm, 2.0 * squares.norm / rows.ridge)


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """Inequalities of one shape: the terms of its representers without multipliers, what 1 has there, and levels.

    The terms are of f, not of one of its components.
    """

    terms: Sequence[ExpansionTerm]
    ones: Array
    levels: Array


@dataclass(frozen=True, slots=True, eq=False)
class CutSolution:
    """A function, the multipliers of every cut, its value, the value of the dual, and what the method took."""

    function: ExpandedFunction
    multipliers: list[Array]
    gap: float
    attempt: Attempt


@dataclass(frozen=True, slots=True, eq=False)
class DualPoint:
    """A function beside multipliers of the rows and of cuts: errors, and what is left of the conditions.

    ``radius`` is the rounding of the errors, ``residual`` bounds the norm of c w - u, ``unbalanced`` the sum that is to
    be zero, and ``lengths`` are those of the features of the rows.
    """

    weights: SquaredWeights
    function: ExpandedFunction
    e: Array
    radius: Array
    alpha: Array
    residual: float
    unbalanced: float
    lengths: Array

    @classmethod
    def of(
        cls,
        weights: SquaredWeights,
        function: ExpandedFunction,
        pulling: Sequence[ExpansionTerm],
        pulls_of_bias: Sequence[float],
    ) -> "DualPoint":
        """Return the point; ``pulling`` are the representers of the cuts times their multipliers."""
        s, c, g = function.substrate, weights.c, weights.g
        X, y = function.terms[0].points, np.asarray(s.y, dtype=np.float64)
        f, radius = evaluate_function(function, X)
        e = y - f
        radius = radius + relative_rounding(2.0) * (np.abs(y) + np.abs(f))
        alpha, unbalanced = g * e, 0.0
        if s.bias:
            alpha = alpha - math.fsum([*alpha, *pulls_of_bias]) * g / float(g.sum())
            unbalanced = abs(math.fsum([*alpha, *pulls_of_bias]))
            unbalanced += relative_rounding(2.0) * math.fsum(map(abs, pulls_of_bias))
        residual = bound_difference_norm(
            s.kernel, [(c, term) for term in function.terms], [ExpansionTerm(X, alpha), *pulling]
        )
        return cls(
            weights=weights,
            function=function,
            e=e,
            radius=radius,
            alpha=alpha,
            residual=residual,
            unbalanced=unbalanced,
            lengths=np.sqrt(np.maximum(np.asarray(s.kernel.diag(X)), 0.0)),
        )

    def root_left(self, c: float, g: Array) -> float:
        """Return the root of what the residuals leave in the gap, with weights that are not larger."""
        own = self.weights.g
        rho = np.abs(own * self.e - self.alpha) + own * self.radius
        rho = rho + relative_rounding(4.0) * (np.abs(own * self.e) + np.abs(self.alpha))
        return at_most(math.sqrt(self.residual**2 / (2.0 * c) + 0.5 * float((np.square(rho) / g).sum())))

    def reach_of_bias(self, c: float, g: Array) -> float:
        """Return a bound on the change of b in units of N, at the row of the largest weight; 0 without a bias."""
        if not self.function.substrate.bias:
            return 0.0
        i = int(g.argmax())
        return at_most(1.0 / math.sqrt(g[i]) + self.lengths[i] / math.sqrt(c))

    def values(self) -> tuple[float, float]:
        """Return J of the function, rounded down and up."""
        c, g = self.weights.c, self.weights.g
        kernel, terms = self.function.substrate.kernel, self.function.terms
        square, rounding = max(inner_product_sum(kernel, terms), 0.0), square_rounding(kernel, terms)
        ends = []
        for sign in (-1.0, 1.0):
            loss = 0.5 * float(g @ np.square(np.maximum(np.abs(self.e) + sign * self.radius, 0.0)))
            total = 0.5 * c * max(square + sign * rounding, 0.0) + loss
            ends.append(total * (1.0 + sign * relative_rounding(self.e.size + 16.0)))
        return ends[0], ends[1]

    def lower_value(self, complementarity: float) -> float:
        r"""Return a lower bound on the smallest J, from :math:`\\sum_j \\mu_j (D_j f - l_j)` rounded up.

        Where the smallest J is below twice that of this function, N of their difference is at most
        :math:`(1 + \\sqrt 2) \\sqrt{2 J}`, which bounds what a sum that is not quite zero does by the bias.
        """
        c, g = self.weights.c, self.weights.g
        low, high = self.values()
        slip = 3.5 * self.unbalanced * self.reach_of_bias(c, g) * math.sqrt(high)
        return low - self.root_left(c, g) ** 2 - complementarity - at_most(slip)


class LeastSquaresValue:
    """A lower bound on the optimal value, over all w, and how near functions of nearly that value are."""

    everywhere = True

    def __init__(self, lower: float, y: Array, weights: SquaredWeights) -> None:
        self.lower, self._y, self._weights = lower, y, weights

    def accuracy(self, excess: float, tolerance: float) -> Accuracy:
        """The row of a feasible function whose value is at most ``excess`` above the optimal one."""
        g = self._weights.g
        spread, rounding = spread_of(self._y, g)
        bound = at_most(math.sqrt(2.0 * max(excess, 0.0) / float(g.sum())))
        return accuracy_row(bound, spread, _FORMULA, tolerance=tolerance, rounding=rounding)


class CutLeastSquares:
    """A least-squares machine of one substrate, factored, to which cuts are added."""

    def __init__(self, substrate: Any, weights: SquaredWeights) -> None:
        self.substrate, self.weights = substrate, weights
        X = substrate.X
        self.X = np.asarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)
        self.y = np.asarray(substrate.y, dtype=np.float64)
        K = np.asarray(substrate.kernel(self.X))
        self._factor = scipy.linalg.cho_factor(K + np.diag(weights.c / weights.g), lower=True)
        self._ones = self._solve(np.ones(self.y.size)) if substrate.bias else np.zeros(self.y.size)
        self._scaled = self._solve(weights.c * self.y)

    @classmethod
    def of(cls, machine: Any) -> "CutLeastSquares | None":
        """Return the method where it applies to a machine at the present values of its parameters."""
        substrates = machine.substrates
        if len(substrates) != 1 or machine._given or machine.own_variables():
            return None
        s = substrates[0]
        if s.task != "regression" or s.columns or s.basis is not None or s.kernel.pairwise or s.n > _MOST_ROWS:
            return None
        if s.cutoff is not None:
            return None
        values = {p.name(): p.value for p in machine._objective.parameters()}
        try:
            weights = read_weights(s, machine._objective, values)
            return cls(s, weights)
        except (DeclarationError, np.linalg.LinAlgError):
            return None

    def _solve(self, right: Array) -> Array:
        return np.asarray(scipy.linalg.cho_solve(self._factor, right))

    def solve(self, cuts: Sequence[Cut]) -> CutSolution:
        """Return the machine with the inequalities; raise where the method finds none."""
        began = time.perf_counter()
        s, c = self.substrate, self.weights.c
        E = np.vstack([np.zeros((0, self.y.size)), *(self._functionals(cut) for cut in cuts)])
        m = E.shape[0]
        ones = np.concatenate([np.zeros(0), *(cut.ones for cut in cuts)]) if s.bias else np.zeros(m)
        levels = np.concatenate([np.zeros(0), *(cut.levels for cut in cuts)])
        total = float(self._ones.sum()) if s.bias else 1.0
        V = self._solve(E.T)
        p = ones - E @ self._ones if s.bias else np.zeros(m)
        b = float(self._scaled.sum()) / (c * total) if s.bias else 0.0
        start = (E @ self._scaled) / c + p * b
        Q = (self._inner_products(cuts, m) - E @ V + np.outer(p, p) / total) / c
        mu, steps = _minimise(0.5 * (Q + Q.T), levels - start)
        if s.bias:
            b = (float(self._scaled.sum()) - float((V @ mu).sum()) + float(ones @ mu)) / (c * total)
        alpha = self._scaled - V @ mu - c * b * self._ones
        edges = np.cumsum([0, *(cut.levels.size for cut in cuts)])
        multipliers = [mu[low:high] for low, high in pairwise(edges)]
        terms = [ExpansionTerm(self.X, alpha / c)]
        for cut, own in zip(cuts, multipliers, strict=True):
            on = np.flatnonzero(own)
            if on.size:
                terms += [
                    ExpansionTerm(t.points[on], t.coefficients[on] * own[on] / c, t.part, t.operator) for t in cut.terms
                ]
        slack = start + Q @ mu - levels
        gap = max(float(mu @ slack), 0.0)
        seconds = time.perf_counter() - began
        attempt = Attempt(
            solver=NAME, status=f"optimal, {steps} steps", unit=1.0, worst=0.0, accepted=True, seconds=seconds
        )
        return CutSolution(ExpandedFunction(s, tuple(terms), b), multipliers, gap, attempt)

    def _functionals(self, cut: Cut) -> Array:
        total = np.zeros((cut.levels.size, self.y.size))
        for term in cut.terms:
            matrix = inner_product_matrix(self.substrate.kernel, term.operator or VALUE, term.points, VALUE, self.X)
            total += term.coefficients[:, None] * matrix
        return total

    def _inner_products(self, cuts: Sequence[Cut], m: int) -> Array:
        G, kernel = np.zeros((m, m)), self.substrate.kernel
        edges = np.cumsum([0, *(cut.levels.size for cut in cuts)])
        for i, first in enumerate(cuts):
            for j, second in enumerate(cuts[: i + 1]):
                block = np.zeros((first.levels.size, second.levels.size))
                for left in first.terms:
                    for right in second.terms:
                        operators = left.operator or VALUE, right.operator or VALUE
                        matrix = inner_product_matrix(kernel, operators[0], left.points, operators[1], right.points)
                        block += left.coefficients[:, None] * matrix * right.coefficients[None, :]
                G[edges[i] : edges[i + 1], edges[j] : edges[j + 1]] = block
                G[edges[j] : edges[j + 1], edges[i] : edges[i + 1]] = block.T
        return G

    def certificate(self, solution: CutSolution, value: float) -> Certificate:
        """Report how the machine with the cuts was solved."""
        row = Row(
            name="complementarity at the points",
            value=solution.gap,
            scale=abs(value) + 0.5 * float(self.weights.g @ np.square(self.y)),
            tolerance=_ACCEPTED,
            formula="sum of multipliers times slacks",
        )
        return Certificate("Machine", (row,), SolverRecord((solution.attempt,)).facts())


def _minimise(Q: Array, pull: Array) -> tuple[Array, int]:
    """Minimise mu'Q mu/2 - mu'pull over mu >= 0, Q positive semi-definite; return mu and the number of steps."""
    m = pull.size
    if not m or not (pull > 0.0).any():
        return np.zeros(m), 0
    unit = np.sqrt(np.maximum(np.diagonal(Q), 0.0))
    unit = np.where(unit > 0.0, unit, 1.0)
    Q, pull = Q / np.outer(unit, unit), pull / unit
    size = float(np.abs(pull).max())
    pull = pull / size
    Q = Q + _LIFT * np.eye(m)
    mu, slack = np.ones(m), np.maximum(Q @ np.ones(m) - pull, 1.0)
    best, gap, steps = mu, math.inf, 0
    for steps in range(1, _ITERATIONS + 1):  # noqa: B007
        residual = Q @ mu - pull - slack
        average = float(mu @ slack) / m
        worst = max(average, float(np.abs(residual).max()))
        if worst < gap:
            best, gap = mu, worst
        if worst <= _DONE * max(1.0, float(mu.max())):
            break
        if not np.isfinite(mu).all() or mu.max() > _INFEASIBLE:
            raise SolverError("the inequalities at the points contradict each other: their multipliers have no bound")
        try:
            factor = scipy.linalg.cho_factor(Q + np.diag(slack / mu))
        except (np.linalg.LinAlgError, ValueError):
            break
        step = scipy.linalg.cho_solve(factor, -residual - slack)
        rise = -slack - slack / mu * step
        length = min(_to_boundary(mu, step), _to_boundary(slack, rise))
        predicted = float((mu + length * step) @ (slack + length * rise)) / m
        target = average * (predicted / average) ** 3
        right = (target - step * rise) / mu - slack
        step = scipy.linalg.cho_solve(factor, -residual + right)
        rise = right - slack / mu * step
        ways = _STEP * _to_boundary(mu, step), _STEP * _to_boundary(slack, rise)
        length = min(1.0, *ways)
        mu, slack = mu + length * step, slack + length * rise
    if gap > _ACCEPTED * max(1.0, float(best.max())):
        raise SolverError(f"the multipliers of the inequalities at the points are known to {gap:.1e} only")
    # a multiplier that is nothing beside its slack is none
    kept = np.where(best > np.maximum(Q @ best - pull, 0.0), best, 0.0)
    return np.asarray(kept * size / unit), steps


def _to_boundary(x: Array, step: Array) -> float:
    """The largest share of a step that keeps x at least zero, at most one."""
    falling = step < 0.0
    return min(1.0, float((-x[falling] / step[falling]).min())) if falling.any() else 1.0
