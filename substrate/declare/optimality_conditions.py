r"""The optimality conditions of a penalised fit as cvxpy constraints, all but the products, and fusions built on them.

.. math::

    F^T (F v + b 1 - y) + \nu 1 = \sum_l C^{lT} (\xi^{-l} - \xi^{+l}), \qquad 1^T (\xi^{-l} + \xi^{+l}) = \rho
    \;\; \forall l, \qquad \xi \ge 0, \qquad |C^l v| \le t_l 1

with :math:`1^T (F v + b 1 - y) = 0` where there is a bias and :math:`1^T v = 0` where v are support values:
[Pelckmans2005]_ eq. (27a)-(27d), corrected. They are linear in all variables together, :math:`\rho` among them. The
products (27e) and (27f), which are left out, are measured: their sum is the convex quadratic

.. math:: \|P F v\|^2 - y^T P F v + \rho \sum_l t_l

for fixed :math:`\rho`, and never negative; with :math:`\rho` a variable, :math:`\rho \sum_l t_l` is bilinear.

Both fusions minimise the validation error with a penalty on the products under the conditions (27a)-(27d),

.. math:: \min \; \|y^v - M v - b 1\|^2 + \omega \Big( \|P F v\|^2 - y^T P F v + \rho \sum_l t_l \Big)
          \quad \text{s.t. (27a)-(27d)}

For a fixed :math:`\rho` this is a convex quadratic program, [Pelckmans2005]_ eq. (29) at that :math:`\rho`; with
:math:`\rho` among the variables its last term is bilinear, and the program is not convex.

The fit is least squares with a weighted sum of maxima, the training problem of both fusions,

.. math:: \min_{v, b} \; \tfrac12 \|y - F v - b 1\|^2 + \rho \sum_{l=1}^d \max_i |C^l_i v|

Structure detection has :math:`F = \sum_l C^l` with :math:`C^l = \Omega^l` in the coordinates v; the sparse substrate
has :math:`F = \Omega`, :math:`v = \alpha`, and for every atom a part of one row, :math:`C^l = e_l^T`, so that the sum
of maxima is :math:`\|\alpha\|_1`. Their optimality conditions are [Pelckmans2005]_ eq. (27),

.. math::

    F^T (F v + b 1 - y) + \nu 1 = \sum_l C^{lT} (\xi^{-l} - \xi^{+l}), \qquad 1^T (\xi^{-l} + \xi^{+l}) = \rho, \\
    \xi \ge 0, \qquad |C^l v| \le t_l 1, \qquad 1^T (F v + b 1 - y) = 0, \qquad 1^T v = 0,

the last one and :math:`\nu` only where v = :math:`\alpha`, and slackness of every bound. With P the projection off 1
(the identity without bias), inserting the equations into the sum of the products gives the duality gap

.. math:: \|P F v\|^2 - y^T P F v + \rho \sum_l t_l .
"""

from dataclasses import dataclass, replace
from typing import Any

import cvxpy as cp
import numpy as np
from scipy.linalg import solve_triangular

from substrate.arrays import Array
from substrate.certificate import Row
from substrate.declare.declared import Declared
from substrate.declare.expansion import signs_of
from substrate.fits.coordinates import ComponentCoordinates, center
from substrate.fits.variation import TrainedPoint, condition_rows, trivial_cost, variation_unit
from substrate.ingredients import (
    ComplementarySlackness,
    complementary_slackness,
    component_bounds,
    penalty,
    zero_sum,
    zero_sum_row,
)

__all__ = [
    "FusedConditions",
    "OptimalityConditions",
    "PenalizedFit",
    "fused_conditions",
    "optimality_conditions",
    "sparse_fit",
    "variation_fit",
]


@dataclass(frozen=True, slots=True)
class PenalizedFit:
    """F (n x r), the parts C (d x m x r), the targets, whether there is a bias, and whether 1'v = 0 is required."""

    features: Array
    parts: Array
    target: Array
    bias: bool
    balanced: bool
    coefficients: Array

    @property
    def centred_features(self) -> Array:
        """P F."""
        return center(self.features, self.bias)

    @property
    def centred_target(self) -> Array:
        """P y."""
        return center(self.target, self.bias)

    @property
    def unit(self) -> float:
        """The size of the bounded values."""
        largest = float(np.abs(self.features).max()) or 1.0
        return variation_unit(self.target) / (largest if self.balanced else 1.0)

    def bias_of(self, v: Array) -> float:
        """Return the b for which the errors sum to zero."""
        return float(np.mean(self.target) - np.mean(self.features @ v)) if self.bias else 0.0

    def errors(self, point: TrainedPoint) -> Array:
        """Return y - F v - b."""
        return np.asarray(self.target - self.features @ point.v - point.b)

    def values(self, point: TrainedPoint) -> Array:
        """Return the bounded values, one row per part."""
        return np.asarray(self.parts @ point.v)

    def slackness(self, point: TrainedPoint, tolerance: float = 1e-6) -> ComplementarySlackness:
        """Return the report on all products, relative to the cost of the trivial machine and the penalty."""
        size = trivial_cost(self.target, self.bias) + penalty(point.rho, np.abs(point.t))
        return complementary_slackness(
            self.values(point), point.t, point.xi_minus, point.xi_plus, size or None, tolerance
        )

    def rows(self, point: TrainedPoint, tolerance: float, slackness: bool = True) -> tuple[Row, ...]:
        """Return the conditions (27) as rows; without the products where ``slackness`` is false."""
        e, y = self.errors(point), self.target
        cost = trivial_cost(y, self.bias)
        stationarity, *bounds = condition_rows(
            self.features, self.parts, y, point, e, tolerance, cost=cost, unit=self.unit
        )
        # at rho = 0 multipliers are compared with their size at other rho
        size = float(np.abs(self.features.T @ self.centred_target).max()) / (float(np.abs(self.parts).max()) or 1.0)
        rows = [stationarity, *(replace(row, scale=row.scale + size) for row in bounds[:2])]
        rows += bounds[2:] if slackness else bounds[2:3]
        if self.bias:
            rows.append(zero_sum_row(e, tolerance, np.full(y.size, variation_unit(y)), of="e"))
        if self.balanced:
            rows.append(zero_sum_row(point.v, tolerance, np.full(y.size, self.unit)))
        return tuple(rows)


def variation_fit(coordinates: ComponentCoordinates, y: Array) -> PenalizedFit:
    """Detect the structure; in orthonormal coordinates of the fitted values unless the coordinates are raw."""
    if not coordinates.is_balanced:
        components = coordinates.parts
        return PenalizedFit(
            features=components.sum(axis=0),
            parts=components,
            target=y,
            bias=coordinates.bias,
            balanced=coordinates.bias,
            coefficients=coordinates.coefficients,
        )
    d, n, r = coordinates.parts.shape
    stacked = np.vstack([coordinates.parts.reshape(d * n, r), coordinates.coefficients])
    divided = solve_triangular(coordinates.metric, stacked.T, trans="T").T
    components = divided[: d * n].reshape(d, n, r)
    return PenalizedFit(
        features=components.sum(axis=0),
        parts=components,
        target=y,
        bias=coordinates.bias,
        balanced=False,
        coefficients=divided[d * n :],
    )


def sparse_fit(omega: Array, y: Array) -> PenalizedFit:
    """Return the sparse substrate: every support value is a part of one row."""
    n = y.size
    return PenalizedFit(
        features=omega, parts=np.eye(n)[:, None, :], target=y, bias=True, balanced=True, coefficients=np.eye(n)
    )


@dataclass(frozen=True, slots=True)
class OptimalityConditions:
    """The variables, the labelled constraints (27a) to (27d), and the products (27e,f), which are measured."""

    fit: PenalizedFit
    rho: Any
    v: Any
    b: Any
    t: Any
    xi_minus: Any
    xi_plus: Any
    nu: Any
    constraints: list[Any]

    @property
    def products(self) -> Any:
        """Return the sum of all products under the constraints: convex where rho is a number or a parameter."""
        P_F, P_y = self.fit.centred_features, self.fit.centred_target
        return cp.sum_squares(_factor(self.fit) @ self.v) - (P_y @ P_F) @ self.v + self.rho * cp.sum(self.t)

    def point(self) -> TrainedPoint:
        """Return the current values as plain numbers."""
        numbers = [
            np.asarray(variable.value, dtype=np.float64) for variable in (self.v, self.t, self.xi_minus, self.xi_plus)
        ]
        v, t, minus, plus = numbers
        shape = self.fit.parts.shape[:2]
        scalars = (float(variable.value) for variable in (self.rho, self.b, self.nu))
        rho, b, nu = scalars
        return TrainedPoint(rho=rho, v=v, b=b, t=t, xi_minus=minus.reshape(shape), xi_plus=plus.reshape(shape), nu=nu)

    def complementary_slackness(self, tolerance: float = 1e-6) -> ComplementarySlackness:
        """Return the report on all products at the current values."""
        return self.fit.slackness(self.point(), tolerance)


def optimality_conditions(fit: PenalizedFit, rho: Any) -> OptimalityConditions:
    """Build the constraints; ``rho`` is a parameter, a non-negative variable or a number."""
    d, m, r = fit.parts.shape
    weight = rho if isinstance(rho, cp.Expression) else cp.Constant(float(rho))
    v, t = cp.Variable(r, name="alpha" if fit.balanced else "v"), cp.Variable(d, name="t")
    b = cp.Variable(name="b") if fit.bias else cp.Constant(0.0)
    nu = cp.Variable(name="nu") if fit.balanced else cp.Constant(0.0)
    minus, plus = cp.Variable(d * m, name="xi_minus"), cp.Variable(d * m, name="xi_plus")
    stacked = fit.parts.reshape(d * m, r)
    F, y = fit.features, fit.target
    if fit.balanced:
        gradient = (F.T @ F) @ v + F.sum(axis=0) * b - F.T @ y
    else:  # with b inserted from 1'e = 0; in orthonormal coordinates this is v - v of least squares
        gradient = _factor(fit).T @ (_factor(fit) @ v) - fit.centred_features.T @ fit.centred_target
    constraints = {
        "(27a) stationarity": gradient + nu * np.ones(r) - stacked.T @ (minus - plus) == 0,
        "(27b) sums of multipliers": np.kron(np.eye(d), np.ones(m)) @ (minus + plus) - weight * np.ones(d) == 0,
        "(27c) lower multipliers": minus >= 0,
        "(27c) upper multipliers": plus >= 0,
    }
    if fit.bias:
        constraints["1'e = 0"] = F.sum(axis=0) @ v + y.size * b - y.sum() == 0
    for label, constraint in constraints.items():
        constraint.set_label(label)
    listed = [*constraints.values(), *component_bounds(stacked @ v, t).constraints]
    if fit.balanced:
        listed.append(zero_sum(v).constraint)
    return OptimalityConditions(
        fit=fit, rho=weight, v=v, b=b, t=t, xi_minus=minus, xi_plus=plus, nu=nu, constraints=listed
    )


def _factor(fit: PenalizedFit) -> Array:
    """Return R with ||R v|| = ||P F v||, sparse where the coordinates are orthonormal."""
    R = np.linalg.qr(fit.centred_features, mode="r")
    return np.where(np.abs(R) > 1e-14 * float(np.abs(R).max(initial=0.0)), R, 0.0)


_UNBOUNDED = "the objective is a validation error with a penalty on products, not strongly convex in the fitted values"


@dataclass(frozen=True, slots=True)
class FusedConditions:
    """(29) at one rho: the problem, its parameter, and its optimality as certificate rows."""

    problem: Any
    weight: Any
    level: OptimalityConditions
    errors: Any
    M: Array
    y_val: Array

    def validation_errors(self) -> Array:
        """Return y^v - M v - b."""
        return np.asarray(self.errors.value, dtype=np.float64)

    def rows(self, tolerance: float) -> tuple[Row, ...]:
        """Return feasibility, signs and slackness of all constraints, the Lagrangian, and what was declared.

        There is no closed form to compare with: the conditions (27a)-(27d), the validation errors and the cost are
        computed again from the data, so that an error in the declaration does not certify itself.
        """
        fit, point = self.level.fit, self.level.point()
        weight = float(self.weight.value)
        cost = float(self.y_val @ self.y_val) + weight * trivial_cost(fit.target, fit.bias)
        unit = variation_unit(fit.target)
        e = self.y_val - self.M @ point.v - point.b
        distance = float(np.abs(self.validation_errors() - e).max(initial=0.0))
        stated = float(e @ e) + weight * fit.slackness(point).sum
        differs = abs(float(self.problem.objective.value) - stated)
        return (
            *_condition_rows(self.problem, cost, unit, tolerance),
            *fit.rows(point, tolerance, slackness=False),
            Row(
                name="validation errors",
                value=distance,
                scale=unit + float(np.abs(e).max(initial=0.0)),
                tolerance=tolerance,
                formula="|e^v - (y^v - Mv - b)|",
            ),
            Row(
                name="cost (29)",
                value=differs,
                scale=cost,
                tolerance=tolerance,
                formula="|objective - ||e^v||^2 - weight * products|",
            ),
        )

    def unit(self) -> float:
        """Return the unit of y in which the trivial machine costs about 1."""
        return variation_unit(self.level.fit.target) * float(np.sqrt(self.level.fit.target.size))

    def declare(self, title: str, task: str, record: tuple[tuple[str, str], ...]) -> Declared:
        """Return the declared problem; its multipliers belong to the conditions, not to (25)."""
        fit, level = self.level.fit, self.level
        signs = signs_of(fit.target, task)
        values = {
            "support_values": lambda: signs * (fit.coefficients @ level.v.value),
            "bias": lambda: level.b.value,
            "errors": lambda: signs * fit.errors(level.point()),
            "validation_errors": self.validation_errors,
            "complementarity": lambda: level.complementary_slackness().sum,
        }

        def facts() -> tuple[tuple[str, str], ...]:
            convexity = "convex for this rho only; with rho free (29) is bilinear"
            return (*record, ("rho", f"{level.rho.value:g}, fixed: {convexity}"), ("products", self.verdict()))

        parameters = {"weight": self.weight}
        return Declared(
            title=title,
            problem=self.problem,
            parameters=parameters,
            values=values,
            rows=self.rows,
            record=facts,
            units=self.units,
            unit=self.unit,
            accuracy=_UNBOUNDED,
        )

    def verdict(self) -> str:
        """Return the products in words."""
        return self.level.complementary_slackness().verdict

    def units(self) -> dict[str, float]:
        """Return the size of each quantity at the trivial point."""
        fit = self.level.fit
        y = float(np.abs(fit.target).max())
        sizes = dict.fromkeys(("bias", "errors", "validation_errors"), y)
        atoms = float(np.abs(fit.features).max()) or 1.0
        return {**sizes, "support_values": y / atoms, "complementarity": y**2 * fit.target.size}


def _condition_rows(problem: Any, cost: float, unit: float, tolerance: float) -> tuple[Row, ...]:
    """Return feasibility, signs and slackness of affine constraints, and the slope of the Lagrangian.

    ``cost`` is the size of the objective, ``unit`` the size of the targets. A multiplier, and an entry of the slope,
    are measured by what they add to the objective.
    """
    rows = []
    slopes, sizes = _slopes(problem.objective.expr, np.ones(1))
    for constraint in problem.constraints:
        size = sum(float(np.abs(np.asarray(side.value)).max(initial=0.0)) for side in constraint.args) + unit
        dual, value = np.ravel(constraint.dual_value, order="F"), np.ravel(constraint.expr.value, order="F")
        checks = [("feasible", float(np.max(constraint.violation(), initial=0.0)), size, "largest violation")]
        if isinstance(constraint, cp.constraints.Inequality):
            largest = float(np.abs(dual).max(initial=0.0)) + cost / size
            checks.append(("sign", max(-float(dual.min(initial=0.0)), 0.0), largest, "excess over K*"))
            checks.append(("slackness", float(np.abs(dual * value).sum()), cost, "|lambda'g|"))
        for what, residual, scale, formula in checks:
            name = f"{constraint.label}: {what}"
            rows.append(Row(name=name, value=residual, scale=scale, tolerance=tolerance, formula=formula))
        more, more_sizes = _slopes(constraint.expr, dual)
        for variable in more:
            slopes[variable] = slopes.get(variable, 0.0) + more[variable]
            sizes[variable] = sizes.get(variable, 0.0) + more_sizes[variable]
    moved = {variable: float(np.abs(variable.value).max(initial=0.0)) or 1.0 for variable in slopes}
    descent = max(moved[variable] * float(np.abs(slope).max()) for variable, slope in slopes.items())
    scale = cost + max(moved[variable] * float(np.max(size)) for variable, size in sizes.items())
    formula = "largest entry of the slope of L times its variable"
    rows.append(Row(name="Lagrangian stationarity", value=descent, scale=scale, tolerance=tolerance, formula=formula))
    return tuple(rows)


def _slopes(expression: Any, dual: Array) -> tuple[dict[Any, Array], dict[Any, Array]]:
    """Return the slope of the product of an expression with a multiplier by variable, and the sums of its sizes."""
    # cvxpy's are sparse, or numbers
    slopes = {
        variable: (slope.toarray() if hasattr(slope, "toarray") else np.asarray(slope)).reshape(variable.size, -1)
        for variable, slope in expression.grad.items()
    }
    return (
        {variable: slope @ dual for variable, slope in slopes.items()},
        {variable: np.abs(slope) @ np.abs(dual) for variable, slope in slopes.items()},
    )


def fused_conditions(fit: PenalizedFit, rho: float, M: Array, y_val: Array, weight: float) -> FusedConditions:
    """Build (29) at one rho with the penalty weight as its parameter."""
    level = optimality_conditions(fit, rho)
    parameter = cp.Parameter(nonneg=True, name="weight", value=weight)
    errors = cp.Variable(y_val.size, name="e_val")
    stated = y_val - M @ level.v - level.b - errors == 0
    stated.set_label("validation equalities")
    objective = cp.sum_squares(errors) + parameter * level.products
    problem = cp.Problem(cp.Minimize(objective), [stated, *level.constraints])
    return FusedConditions(problem=problem, weight=parameter, level=level, errors=errors, M=M, y_val=y_val)
