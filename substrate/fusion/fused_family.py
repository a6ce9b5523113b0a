r"""A parametric problem and its fused one: what :mod:`substrate.fusion.universal_bound` needs at a vertex.

At a vertex theta the problem is solved; a feasible point next to the solver's gives the parts of the objective (rounded
up), and

.. math:: h(s) = s \left( \min_{x \in S} \; \varphi_\theta(x) + \tfrac1s v(x) \; - p \right)

is one more solve of the same problem with the validation error beside it, bounded from below by its dual. s is a power
of two.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import cvxpy as cp
import numpy as np

from substrate.arrays import EPS, Array
from substrate.errors import DeclarationError, SolverError
from substrate.fusion.conic_family import ConicFamily, parameters_at

__all__ = ["FusedFamily", "FusedKnot", "excesses"]

#: Excess of the objective over its smallest value, relative, up to which a point counts as one more optimum.
_OPTIMAL = 1e-10
#: Share of the validation error that an optimum must gain to be looked at, and violation that counts as none.
_WORTH, _FEASIBLE = 1e-3, 1e-8
#: Share of v - h(s) that is left at twice the s where several optima are suspected.
_FLAT = 0.9
#: How many times larger or smaller than a known s another one may be for a prediction.
_BEYOND = 64.0


@dataclass(slots=True)
class FusedKnot:
    """A vertex: its parameters, the solved point, the parts of the objective there, and what is known of h.

    ``weights`` are those of the parts, ``terms`` and ``errors`` the parts at a feasible point with their bounds,
    ``epsilon`` how far that point may be above the smallest objective, ``fused`` the pairs s and h(s).
    """

    theta: tuple[float, ...]
    weights: Array
    x: Array
    terms: Array
    errors: Array
    lowest: float
    epsilon: float
    validation: float
    fused: dict[float, float] = field(default_factory=dict)
    #: Whether x is a point of the fused problem that is an optimum of the problem too.
    adopted: bool = False
    #: Whether another optimum was looked for.
    examined: bool = False
    #: The point behind ``terms``; x is another one where it is adopted.
    feasible: Array = field(default_factory=lambda: np.zeros(0))
    #: For each s how far the dual bound behind h(s) is below the value at the solver's point.
    blurs: dict[float, float] = field(default_factory=dict)

    @property
    def blur(self) -> float:
        """The largest of the known inaccuracies of the objective here."""
        return max(self.epsilon, *self.blurs.values()) if self.blurs else self.epsilon

    @property
    def value(self) -> float:
        """p: the objective at the point of the vertex."""
        return float(self.weights @ self.terms)

    @property
    def allowed(self) -> float:
        """How far the objective of another optimum may seem to be above the smallest one."""
        return 2.0 * self.epsilon + _OPTIMAL * abs(self.lowest)

    def loss(self, s: float) -> float:
        """Predict v - h(s): between known values on a line in logarithms, a little beyond them like 1/s, else NaN."""
        known = sorted(
            (one, self.validation - h - one * self.blurs.get(one, 0.0))
            for one, h in self.fused.items()
            if np.isfinite(h)
        )
        if not known:
            return math.nan
        lows = [pair for pair in known if pair[0] <= s]
        highs = [pair for pair in known if pair[0] >= s]
        (low, above), (high, below) = (lows or highs)[-1 if lows else 0], (highs or lows)[0 if highs else -1]
        if low == high and not 1.0 / _BEYOND <= s / low <= _BEYOND:
            return math.nan
        if low == high:
            return max(above, 0.0) * low / s
        if above <= 0.0 or below <= 0.0:
            return max(above, below, 0.0)
        share = math.log(s / low) / math.log(high / low)
        return float(above ** (1.0 - share) * below**share)


def excesses(knots: Sequence[FusedKnot]) -> Array:
    """D_jk, rounded up."""
    D = np.zeros((len(knots), len(knots)))
    for j, one in enumerate(knots):
        for k, other in enumerate(knots):
            sizes = float(np.abs(other.weights) @ (np.abs(one.terms) + np.abs(other.terms)))
            rounded = float(np.abs(other.weights) @ one.errors) + 8.0 * EPS * sizes
            D[j, k] = float(other.weights @ (one.terms - other.terms)) + rounded
    return D


class FusedFamily:
    """A cvxpy problem, its parameters and a validation error that is convex in its variables.

    ``unit`` is a size of the variables that matters, where it is smaller than the numbers in the constraints.
    """

    def __init__(self, problem: Any, parameters: Sequence[Any], validation: Any, unit: float = np.inf) -> None:
        self.validation = _checked(problem, parameters, validation)
        sign = -1.0 if isinstance(problem.objective, cp.Maximize) else 1.0
        objective = sign * problem.objective.expr
        self.base = ConicFamily(cp.Problem(cp.Minimize(objective), problem.constraints), parameters, unit)
        weight = cp.Parameter(nonneg=True, name="weight of the validation error")
        both = cp.Problem(cp.Minimize(objective + weight * self.validation), problem.constraints)
        self.both = ConicFamily(both, [*parameters, weight], unit)
        self.solves = 0

    def solve(self, theta: tuple[float, ...]) -> FusedKnot:
        """Return the vertex at theta; raise where it cannot be solved or no feasible point is near."""
        base = self.base
        point = base.solve(theta)
        self.solves += 1
        base.remember(point.x)
        found = base.feasible(point.x)
        if found is None:
            raise SolverError(f"no feasible point was found next to the solver's at {theta}; nothing can be proved")
        terms, errors = base.terms(*found)
        weights = base.coefficients(theta)
        lowest = base.lower_bound(theta, point)
        epsilon = float(weights @ terms) + float(np.abs(weights) @ errors) - lowest
        epsilon += 8.0 * EPS * (float(np.abs(weights) @ np.abs(terms)) + abs(lowest))
        validation = self.validation_at(found[0])
        knot = FusedKnot(theta, weights, found[0], terms, errors, lowest, max(epsilon, 0.0), validation)
        knot.feasible = found[0]
        return knot

    def validation_at(self, x: Array) -> float:
        """The validation error at a point of the problem; its variables are left there."""
        self.base.assign(x)
        return float(np.asarray(self.validation.value).item())

    def fuse(self, knot: FusedKnot, s: float) -> float:
        """Return h(s) at a vertex, a lower value of it, and keep it; -inf where the solver fails."""
        if s not in knot.fused:
            knot.fused[s] = self._fused(knot, s)
            self._look_for_others(knot, s)
        return knot.fused[s]

    def _look_for_others(self, knot: FusedKnot, s: float) -> None:
        """Look for an optimum that validates better where v - h(s) does not fall as s grows: once, at a large s."""
        lost = knot.validation - knot.fused[s]
        before = max((known for known in knot.fused if known <= 0.5 * s), default=None)
        if knot.examined or before is None or not lost > _WORTH * abs(knot.validation):
            return
        if lost > _FLAT * (knot.validation - knot.fused[before]):
            knot.examined = True
            large = 2.0 ** math.ceil(math.log2(lost / knot.allowed))
            if large > s:
                knot.fused[large] = self._fused(knot, large)

    def _fused(self, knot: FusedKnot, s: float) -> float:
        theta = (*knot.theta, 1.0 / s)
        self.solves += 1
        try:
            point = self.both.solve(theta)
        except SolverError:
            return -np.inf
        self.both.remember(point.x)
        lowest = self.both.lower_bound(theta, point)
        values, _ = self.both.terms(point.x, np.zeros_like(point.x))
        knot.blurs[s] = max(float(self.both.coefficients(theta) @ values) - lowest, 0.0)
        sizes = abs(lowest) + float(np.abs(knot.weights) @ np.abs(knot.terms))
        h = s * (lowest - knot.value - 8.0 * EPS * sizes)
        self._adopt(knot, point.x, knot.validation - h, s)
        return h

    def _adopt(self, knot: FusedKnot, x: Array, lost: float, s: float) -> None:
        """Take a fused point as that of the vertex where it is an optimum too, and validates better.

        ``lost`` is v - h(s); the point's objective exceeds the smallest one by at most lost / s.
        """
        allowed = knot.allowed
        if not lost > _WORTH * abs(knot.validation) or lost / s > allowed:
            return
        self.both.assign(x)
        validation = float(np.asarray(self.validation.value).item())
        with parameters_at(self.base.parameters, knot.theta):
            above = float(np.asarray(self.base.problem.objective.expr.value).item()) - knot.lowest
        violation = max((float(np.max(c.violation())) for c in self.base.problem.constraints), default=0.0)
        size = float(np.abs(x).max(initial=0.0))
        if validation < knot.validation and above <= allowed and violation <= _FEASIBLE * size:
            knot.x, knot.adopted, knot.validation = x, True, validation

    def assign(self, knot: FusedKnot) -> None:
        """Give the variables of the problem the values at a vertex."""
        (self.both if knot.adopted else self.base).assign(knot.x)


def _checked(problem: Any, parameters: Sequence[Any], validation: Any) -> Any:
    """Return the validation error as one number of cvxpy, or raise where it does not fit the problem."""
    if not isinstance(problem, cp.Problem) or not problem.is_dcp():
        raise DeclarationError("a convex cvxpy.Problem is fused, with an objective that follows cvxpy's rules (is_dcp)")
    if not problem.is_dcp(dpp=True):
        raise DeclarationError(
            "the problem must be affine in its parameters (is_dcp(dpp=True)): no products of two parameters, no "
            "functions of a parameter but its multiples"
        )
    if problem.is_mixed_integer():
        raise DeclarationError("the problem has integer variables; a proof needs a convex problem")
    expression = cp.Expression.cast_to_const(validation) if not isinstance(validation, cp.Expression) else validation
    if not expression.is_scalar() or not expression.is_convex():
        raise DeclarationError("validation must be one number, convex in the variables, as cp.sum_squares(V @ x - u)")
    if expression.parameters():
        raise DeclarationError("validation must not depend on parameters; use numbers, as parameter.value")
    strange = {variable.id for variable in expression.variables()} - {variable.id for variable in problem.variables()}
    if strange:
        raise DeclarationError("validation has variables that are not in the problem")
    if not expression.variables():
        raise DeclarationError("validation has no variables, so that no parameter can change it")
    return cp.reshape(expression, (), order="F") if expression.shape else expression
