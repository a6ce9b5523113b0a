r"""A parametric problem and its fused one: what :mod:`substrate.fusion.universal_bound` needs at a vertex.

At a vertex theta the problem is solved; a feasible point next to the solver's gives the parts of the objective (rounded
up), and

.. math:: h(s) = s \left( \min_{x \in S} \; \varphi_\theta(x) + \tfrac1s v(x) \; - p \right)

is one more solve of the same problem with the validation error beside it, bounded from below by its dual. s is a power
of two. Where parameters are in constraints, a vertex is one of the weights beside a simplex of those parameters
(:class:`FusedColumn`), and they are variables of the fused problem.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import cvxpy as cp
import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.errors import DeclarationError, SolverError
from substrate.fusion.conic_family import ConicFamily, ConicPoint
from substrate.fusion.conic_numbers import ProgramNumbers, shared_columns
from substrate.fusion.polish import polish
from substrate.fusion.program_numbers import parameters_at

__all__ = ["FusedColumn", "FusedFamily", "FusedKnot", "FusedVertex", "excesses"]

#: Excess of the objective over its smallest value, relative, up to which a point counts as one more optimum.
_OPTIMAL = 1e-10
#: Share of the validation error that an optimum must gain to be looked at, and violation that counts as none.
_WORTH, _FEASIBLE = 1e-3, 1e-8
#: Multiple of the excess that is allowed of an optimum up to which a point is looked at.
_NEARLY = 4.0
#: Share of v - h(s) that is left at twice the s where several optima are suspected.
_FLAT = 0.9
#: How many times larger or smaller than a known s another one may be for a prediction.
_BEYOND = 64.0


class FusedVertex(ABC):
    """What is known of h at a vertex: of a simplex of weights, and a place or a simplex of the other parameters."""

    __slots__ = ()

    #: The values of the weights, and those of the parts.
    theta: tuple[float, ...]
    weights: Array
    #: The smallest validation error here, and how far a point may be above the smallest objective.
    validation: float
    epsilon: float
    #: p, or the largest of its sizes.
    value: float
    #: The pairs s and h(s); how far the dual bound behind h(s) is below the value at the solver's point; and by how
    #: much the objective there is below p.
    fused: dict[float, float]
    radii: dict[float, float]
    drops: dict[float, float]

    @property
    @abstractmethod
    def points(self) -> "tuple[FusedKnot, ...]":
        """Return the knots at the corners of the parameters in constraints."""

    @property
    def steep(self) -> float:
        """Return how far the optimal value may be below p, an affine function of the parameters in constraints."""
        return 0.0

    @property
    def objective_radius(self) -> float:
        """Return how inexact the objective is here, by the problem itself and by the largest s: that is next to it.

        At a small s the validation error outweighs the objective, and so does what its dual point is off.
        """
        return max(self.epsilon, self.radii[max(self.radii)]) if self.radii else self.epsilon

    @property
    def is_known(self) -> bool:
        """Return whether h is known for some s."""
        return any(map(np.isfinite, self.fused.values()))

    def loss(self, s: float) -> float:
        """Predict v - h(s): between known values on a line in logarithms, a little beyond them like 1/s, else NaN."""
        losses = sorted(
            (
                multiplier,
                self.validation - h - multiplier * (self.radii.get(multiplier, 0.0) + self.drops.get(multiplier, 0.0)),
            )
            for multiplier, h in self.fused.items()
            if np.isfinite(h)
        )
        if not losses:
            return math.nan
        lows = [pair for pair in losses if pair[0] <= s]
        highs = [pair for pair in losses if pair[0] >= s]
        (low, above), (high, below) = (lows or highs)[-1 if lows else 0], (highs or lows)[0 if highs else -1]
        if low == high and not 1.0 / _BEYOND <= s / low <= _BEYOND:
            return math.nan
        if low == high:
            return max(above, 0.0) * low / s
        if above <= 0.0 or below <= 0.0:
            return max(above, below, 0.0)
        share = math.log(s / low) / math.log(high / low)
        return float(above ** (1.0 - share) * below**share)


@dataclass(slots=True)
class FusedKnot(FusedVertex):
    """A solved vertex: its parameters, the point, the parts of the objective there, and what is known of h.

    ``theta`` are the values of the weights, ``place`` those of the parameters in constraints; ``weights`` are those of
    the parts, ``terms`` and ``errors`` the parts at a feasible point with their bounds, ``epsilon`` how far that point
    may be above the smallest objective, ``fused`` the pairs s and h(s).
    """

    theta: tuple[float, ...]
    place: tuple[float, ...]
    weights: Array
    x: Array
    terms: Array
    errors: Array
    lowest: float
    epsilon: float
    validation: float
    #: The slopes of the optimal value in the parameters of constraints.
    slopes: Array
    fused: dict[float, float] = field(default_factory=dict)
    radii: dict[float, float] = field(default_factory=dict)
    drops: dict[float, float] = field(default_factory=dict)
    #: Whether x is a point of the fused problem that is an optimum of the problem too.
    adopted: bool = False
    #: Whether another optimum was looked for.
    examined: bool = False
    #: Whether its dual point is corrected as far as rounding allows.
    sharp: bool = False
    #: The point behind ``terms``; x is another one where it is adopted.
    feasible: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def points(self) -> "tuple[FusedKnot, ...]":
        """Return the knot itself."""
        return (self,)

    @property
    def value(self) -> float:  # type: ignore[override]
        """p: the objective at the point of the vertex."""
        return float(self.weights @ self.terms)

    @property
    def allowance(self) -> float:
        """Return how far the objective of another optimum may seem to be above the smallest one."""
        return 2.0 * self.epsilon + _OPTIMAL * abs(self.lowest)


@dataclass(slots=True)
class FusedColumn(FusedVertex):
    """The knots at one vertex of the weights and at all corners of a simplex of parameters in constraints."""

    knots: tuple[FusedKnot, ...]
    fused: dict[float, float] = field(default_factory=dict)
    radii: dict[float, float] = field(default_factory=dict)
    drops: dict[float, float] = field(default_factory=dict)

    @property
    def theta(self) -> tuple[float, ...]:  # type: ignore[override]
        """Return the values of the weights."""
        return self.knots[0].theta

    @property
    def weights(self) -> Array:  # type: ignore[override]
        """Return the weights of the parts."""
        return self.knots[0].weights

    @property
    def points(self) -> tuple[FusedKnot, ...]:
        """Return the knots."""
        return self.knots

    @property
    def validation(self) -> float:  # type: ignore[override]
        """Return the smallest validation error at a knot."""
        return min(knot.validation for knot in self.knots)

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        """Return the largest of the knots' distances from an optimum."""
        return max(knot.epsilon for knot in self.knots)

    @property
    def value(self) -> float:  # type: ignore[override]
        """Return the largest p in absolute value."""
        return max(abs(knot.value) for knot in self.knots)

    @property
    def steep(self) -> float:
        """Return the largest distance of the optimal value from its chord, by its slopes at both ends of an edge."""
        return max(self.bend(i, j) for i, j in combinations(range(len(self.knots)), 2))

    def bend(self, i: int, j: int) -> float:
        """Return the distance between the chord of the optimal value and its tangents along an edge."""
        knot, other_knot = self.knots[i], self.knots[j]
        way = np.array(other_knot.place) - np.array(knot.place)
        first, last, chord = float(knot.slopes @ way), float(other_knot.slopes @ way), other_knot.value - knot.value
        if not first < chord < last:
            return 0.0
        return (chord - first) * (last - chord) / (last - first)


def excesses(vertices: Sequence[FusedVertex]) -> Array:
    """Return D_jk, rounded up: the largest over the corners of the parameters in constraints."""
    D = np.zeros((len(vertices), len(vertices)))
    for j, first in enumerate(vertices):
        for k, second in enumerate(vertices):
            D[j, k] = max(_excess(*pair, second.weights) for pair in zip(first.points, second.points, strict=True))
    return D


def _excess(first: FusedKnot, second: FusedKnot, weights: Array) -> float:
    sizes = float(np.abs(weights) @ (np.abs(first.terms) + np.abs(second.terms)))
    rounded = float(np.abs(weights) @ first.errors) + relative_rounding(8.0) * sizes
    return float(weights @ (first.terms - second.terms)) + rounded


def _distance_to_optimum(weights: Array, terms: Array, errors: Array, lowest: float) -> float:
    """Return how far the objective at a point may be above its smallest value, rounded up."""
    sizes = np.abs(weights)
    rounding = relative_rounding(8.0) * (float(sizes @ np.abs(terms)) + abs(lowest))
    return max(float(weights @ terms) + float(sizes @ errors) - lowest + rounding, 0.0)


class FusedFamily:
    """A cvxpy problem, its parameters and a validation error that is convex in its variables.

    ``unit`` is a size of the variables that matters, where it is smaller than the numbers in the constraints.
    """

    def __init__(self, problem: Any, parameters: Sequence[Any], validation: Any, unit: float = np.inf) -> None:
        self.validation = _check_validation(problem, parameters, validation)
        sign = -1.0 if isinstance(problem.objective, cp.Maximize) else 1.0
        objective = sign * problem.objective.expr
        self.base = ConicFamily(cp.Problem(cp.Minimize(objective), problem.constraints), parameters, unit)
        weight = cp.Parameter(nonneg=True, name="weight of the validation error")
        weighted_sum = cp.Problem(cp.Minimize(objective + weight * self.validation), problem.constraints)
        self.both = ConicFamily(weighted_sum, [*parameters, weight], unit)
        self.solves = 0
        #: The validation error that counts as none in h, which a search sets, and the largest s so far.
        self.resolution = 0.0
        self.largest = 0.0

    def solve(self, theta: tuple[float, ...]) -> FusedKnot:
        """Return the vertex at theta; raise where it cannot be solved or no feasible point is near."""
        own_theta, place = self.base.split(theta)
        base = self.base.at(place)
        point = base.solve(own_theta)
        self.solves += 1
        base.remember(point.x)
        point_found = base.feasible(point.x)
        if point_found is None:
            raise SolverError(f"no feasible point was found next to the solver's at {theta}; nothing can be proved")
        terms, errors = base.terms(*point_found)
        weights = base.coefficients(own_theta)
        # what s times the residual takes off need be small in the cells only
        lowest = base.lower_bound(own_theta, point, self.resolution / self.largest if self.largest else 0.0)
        epsilon = _distance_to_optimum(weights, terms, errors, lowest)
        validation, slopes = self.validation_at(point_found[0]), self.base.slopes(point)
        knot = FusedKnot(
            theta=own_theta,
            place=place,
            weights=weights,
            x=point_found[0],
            terms=terms,
            errors=errors,
            lowest=lowest,
            epsilon=epsilon,
            validation=validation,
            slopes=slopes,
        )
        knot.feasible = point_found[0]
        return knot

    def sharpen(self, knot: FusedKnot) -> None:
        """Correct the dual point of a vertex as far as rounding allows, where several optima are looked for."""
        if knot.sharp:
            return
        knot.sharp = True
        base = self.base.at(knot.place)
        knot.lowest = max(knot.lowest, base.lower_bound(knot.theta, base.witnesses[knot.theta]))
        knot.epsilon = min(knot.epsilon, _distance_to_optimum(knot.weights, knot.terms, knot.errors, knot.lowest))

    def validation_at(self, x: Array) -> float:
        """Return the validation error at a point of the problem; its variables are left there."""
        self.base.assign(x)
        return float(np.asarray(self.validation.value).item())

    def fuse(self, vertex: FusedVertex, s: float) -> float:
        """Return h(s) at a vertex, a lower value of it, and keep it; -inf where the solver fails.

        Another optimum that validates better is adopted where there is one.
        """
        if s not in vertex.fused:
            if isinstance(vertex, FusedKnot):
                vertex.fused[s] = self._fuse(vertex, s)
                self._look_for_others(vertex, s)
            elif isinstance(vertex, FusedColumn):
                vertex.fused[s] = self._fused_column(vertex, s)
        return vertex.fused[s]

    def _fused_column(self, column: FusedColumn, s: float) -> float:
        """Return h(s) with the parameters in constraints free in their simplex."""
        values = np.array([knot.value for knot in column.knots])
        # p at a corner is any number, the same here and in D: what rounding makes of it is p
        family = self.both.over_simplex([knot.place for knot in column.knots], values)
        theta = (*column.theta, 1.0 / s)
        self.solves += 1
        try:
            point = family.solve(theta)
        except SolverError:
            return -np.inf
        family.remember(point.x)
        self.both.remember(point.x[: self.both.q.shape[1]])
        lowest = family.lower_bound(theta, point, self.resolution / s)
        terms, _ = family.terms(point.x, np.zeros_like(point.x))
        weighted_terms = family.coefficients(theta) * terms
        column.radii[s] = max(float(weighted_terms.sum()) - lowest, 0.0)
        column.drops[s] = max(-float(weighted_terms.sum() - weighted_terms[-2]), 0.0)
        sizes = abs(lowest) + max(float(np.abs(knot.weights) @ np.abs(knot.terms)) for knot in column.knots)
        return s * (lowest - relative_rounding(16.0) * sizes)

    def _look_for_others(self, knot: FusedKnot, s: float) -> None:
        """Look for an optimum that validates better where v - h(s) does not fall as s grows: once, at a large s."""
        lost = knot.validation - knot.fused[s]
        before = max((multiplier for multiplier in knot.fused if multiplier <= 0.5 * s), default=None)
        if knot.examined or before is None or not lost > _WORTH * abs(knot.validation):
            return
        if lost > _FLAT * (knot.validation - knot.fused[before]):
            knot.examined = True
            self.sharpen(knot)
            large = 2.0 ** math.ceil(math.log2(lost / knot.allowance))
            if large > s:
                knot.fused[large] = self._fuse(knot, large)

    def _fuse(self, knot: FusedKnot, s: float) -> float:
        theta, family_of_sum = (*knot.theta, 1.0 / s), self.both.at(knot.place)
        self.solves += 1
        self.largest = max(self.largest, s)
        try:
            point = family_of_sum.solve(theta)
        except SolverError:
            return -np.inf
        family_of_sum.remember(point.x)
        lowest = family_of_sum.lower_bound(theta, point, self.resolution / s)
        values, _ = family_of_sum.terms(point.x, np.zeros_like(point.x))
        coefficients = family_of_sum.coefficients(theta)
        knot.radii[s] = max(float(coefficients @ values) - lowest, 0.0)
        sizes = abs(lowest) + float(np.abs(knot.weights) @ np.abs(knot.terms))
        h = s * (lowest - knot.value - relative_rounding(8.0) * sizes)
        self._adopt(knot, point.x, knot.validation - h, float(coefficients[:-1] @ values[:-1]))
        return h

    def _adopt(self, knot: FusedKnot, x: Array, lost: float, value: float) -> None:
        """Take a fused point as that of the vertex where it is an optimum too, and validates better.

        ``lost`` is v - h(s), ``value`` the objective of the problem at the solver's point, nearly.
        """
        if not lost > _WORTH * abs(knot.validation) or value - knot.lowest > _NEARLY * knot.allowance:
            return
        self.sharpen(knot)
        allowed = knot.allowance
        self.both.assign(x)
        validation = float(np.asarray(self.validation.value).item())
        with parameters_at(self.base.parameters, self.base.join(knot.theta, knot.place)):
            above = float(np.asarray(self.base.problem.objective.expr.value).item()) - knot.lowest
        violation = max((float(np.max(c.violation())) for c in self.base.problem.constraints), default=0.0)
        size = float(np.abs(x).max(initial=0.0))
        if validation < knot.validation and above <= allowed and violation <= _FEASIBLE * size:
            knot.x, knot.adopted, knot.validation = x, True, validation

    @cached_property
    def _shared_columns(self) -> Any:
        """Which variables of the fused problem are those of the problem; None where that is not known."""
        if not self.base.program.quadratic or not self.both.program.quadratic or self.base.placed:
            return None
        return shared_columns(ProgramNumbers.of(self.base), ProgramNumbers.of(self.both))

    def adopted_optimum(self, knot: FusedKnot) -> ConicPoint | None:
        """Return the point of a vertex that is another optimum than the solver's, and multipliers; None elsewhere.

        It was found by a fused problem, whose validation error moves it a little: that is polished away.
        """
        if not knot.adopted or self._shared_columns is None:
            return None
        program = replace(self.base.program, P=self.base.matrix(knot.weights), q=knot.weights @ self.base.q)
        x, z = polish(program, knot.x[self._shared_columns], self.base.witnesses[knot.theta].z)
        return ConicPoint(x, z)

    def assign(self, knot: FusedKnot) -> None:
        """Give the variables of the problem the values at a vertex."""
        (self.both if knot.adopted else self.base).assign(knot.x)


def _check_validation(problem: Any, parameters: Sequence[Any], validation: Any) -> Any:
    """Return the validation error as one number of cvxpy, or raise where it does not fit the problem."""
    if not isinstance(problem, cp.Problem) or not problem.is_dcp():
        raise DeclarationError("fuse needs a convex cvxpy.Problem, whose objective follows cvxpy's rules (is_dcp)")
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
