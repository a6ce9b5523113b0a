r"""What both fusions share: the validation error, and the penalty on the products, over the conditions (27a)-(27d).

.. math:: \min \; \|y^v - M v - b 1\|^2 + \omega \Big( \|P F v\|^2 - y^T P F v + \rho \sum_l t_l \Big)
          \quad \text{s.t. (27a)-(27d)}

For a fixed :math:`\rho` this is a convex quadratic program, [Pelckmans2005]_ eq. (29) at that :math:`\rho`; with
:math:`\rho` among the variables its last term is bilinear, and it is not.
"""

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np

from problems.optimality_conditions import OptimalityConditions, optimality_conditions
from substrate.arrays import Array
from substrate.certificates import Row
from substrate.closed_form.penalized_fit import PenalizedFit
from substrate.closed_form.variation_certificate import trivial_cost, variation_unit
from substrate.composition.lagrangian import constraint_rows, stationarity_row
from substrate.declaration import Declared

__all__ = ["FusedConditions", "fused_conditions"]

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
        """y^v - M v - b."""
        return np.asarray(self.errors.value, dtype=np.float64)

    def rows(self, tolerance: float) -> tuple[Row, ...]:
        """Feasibility, signs and slackness of all constraints, the Lagrangian, and what was declared, in plain numbers.

        There is no closed form to compare with: the conditions (27a)-(27d), the validation errors and the cost are
        computed anew from the data, so that a slip in the declaration does not certify itself.
        """
        fit, point = self.level.fit, self.level.point()
        weight = float(self.weight.value)
        cost = float(self.y_val @ self.y_val) + weight * trivial_cost(fit.target, fit.bias)
        constraints = self.problem.constraints
        names = [constraint.label for constraint in constraints]
        unit = variation_unit(fit.target)
        stationary = stationarity_row(self.problem.objective, constraints, self.problem.variables(), cost, tolerance)
        e = self.y_val - self.M @ point.v - point.b
        apart = float(np.abs(self.validation_errors() - e).max(initial=0.0))
        stated = float(e @ e) + weight * fit.slackness(point).sum
        differs = abs(float(self.problem.objective.value) - stated)
        return (
            *constraint_rows(constraints, names, cost, unit, tolerance),
            stationary,
            *fit.rows(point, tolerance, slackness=False),
            Row(
                "validation errors",
                apart,
                unit + float(np.abs(e).max(initial=0.0)),
                tolerance,
                "|e^v - (y^v - Mv - b)|",
            ),
            Row("cost (29)", differs, cost, tolerance, "|objective - ||e^v||^2 - weight * products|"),
        )

    def rescaled(self) -> tuple[Any, float]:
        """The same problem in the unit of y in which the trivial machine costs about 1."""
        fit = self.level.fit
        unit = variation_unit(fit.target) * float(np.sqrt(fit.target.size))
        rho = float(self.level.rho.value) / unit
        twin = fused_conditions(fit.scaled(unit), rho, self.M, self.y_val / unit, float(self.weight.value))
        return twin.problem, unit

    def declared(self, title: str, task: str, record: tuple[tuple[str, str], ...]) -> Declared:
        """The declared problem; its multipliers are those of the conditions, not of (25)."""
        fit, level = self.level.fit, self.level
        signs = fit.target if task == "classification" else np.ones(fit.target.size)
        values = {
            "support_values": lambda: signs * (fit.coefficients @ level.v.value),
            "bias": lambda: level.b.value,
            "errors": lambda: signs * fit.errors(level.point()),
            "validation_errors": self.validation_errors,
            "complementarity": lambda: level.complementary_slackness().sum,
        }

        def facts() -> tuple[tuple[str, str], ...]:
            said = "convex for this rho only; with rho free (29) is bilinear"
            return (*record, ("rho", f"{level.rho.value:g}, fixed: {said}"), ("products", self.verdict()))

        parameters = {"weight": self.weight}
        return Declared(
            title, self.problem, parameters, values, self.rows, facts, self.units, self.rescaled, _UNBOUNDED
        )

    def verdict(self) -> str:
        """The products in words."""
        return self.level.complementary_slackness().verdict

    def units(self) -> dict[str, float]:
        """How large each quantity is where nothing is fitted."""
        fit = self.level.fit
        y = float(np.abs(fit.target).max())
        sizes = dict.fromkeys(("bias", "errors", "validation_errors"), y)
        atoms = float(np.abs(fit.features).max()) or 1.0
        return {**sizes, "support_values": y / atoms, "complementarity": y**2 * fit.target.size}


def fused_conditions(fit: PenalizedFit, rho: float, M: Array, y_val: Array, weight: float) -> FusedConditions:
    """Build (29) at one rho with the penalty weight as its parameter."""
    level = optimality_conditions(fit, rho)
    parameter = cp.Parameter(nonneg=True, name="weight", value=weight)
    errors = cp.Variable(y_val.size, name="e_val")
    stated = y_val - M @ level.v - level.b - errors == 0
    stated.set_label("validation equalities")
    objective = cp.sum_squares(errors) + parameter * level.products
    problem = cp.Problem(cp.Minimize(objective), [stated, *level.constraints])
    return FusedConditions(problem, parameter, level, errors, M, y_val)
