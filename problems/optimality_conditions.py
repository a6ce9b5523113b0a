r"""The optimality conditions of a penalised fit as cvxpy constraints, all but the products.

.. math::

    F^T (F v + b 1 - y) + \nu 1 = \sum_l C^{lT} (\xi^{-l} - \xi^{+l}), \qquad 1^T (\xi^{-l} + \xi^{+l}) = \rho
    \;\; \forall l, \qquad \xi \ge 0, \qquad |C^l v| \le t_l 1

with :math:`1^T (F v + b 1 - y) = 0` where there is a bias and :math:`1^T v = 0` where v are support values:
[Pelckmans2005]_ eq. (27a)-(27d), corrected. They are linear in all variables together, :math:`\rho` among them. What
they leave out, the products (27e) and (27f), is measured: their sum is the convex quadratic

.. math:: \|P F v\|^2 - y^T P F v + \rho \sum_l t_l

for fixed :math:`\rho`, and never negative; with :math:`\rho` a variable, :math:`\rho \sum_l t_l` is bilinear.
"""

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np

from substrate.arrays import Array
from substrate.closed_form.penalized_fit import PenalizedFit, TrainedPoint
from substrate.ingredients import ComplementarySlackness, component_bounds, zero_sum

__all__ = ["OptimalityConditions", "optimality_conditions"]


@dataclass(frozen=True, slots=True)
class OptimalityConditions:
    """The variables, the labelled constraints (27a) to (27d), and the products (27e,f) as something to measure."""

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
        """The sum of all products under the constraints: convex where rho is a number or a parameter."""
        P_F, P_y = self.fit.centred_features, self.fit.centred_target
        return cp.sum_squares(_factor(self.fit) @ self.v) - (P_y @ P_F) @ self.v + self.rho * cp.sum(self.t)

    def point(self) -> TrainedPoint:
        """The current values as plain numbers."""
        numbers = [np.asarray(part.value, dtype=np.float64) for part in (self.v, self.t, self.xi_minus, self.xi_plus)]
        v, t, minus, plus = numbers
        shape = self.fit.parts.shape[:2]
        scalars = (float(part.value) for part in (self.rho, self.b, self.nu))
        rho, b, nu = scalars
        return TrainedPoint(rho, v, b, t, minus.reshape(shape), plus.reshape(shape), nu)

    def complementary_slackness(self, tolerance: float = 1e-6) -> ComplementarySlackness:
        """The report on all products at the current values."""
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
    return OptimalityConditions(fit, weight, v, b, t, minus, plus, nu, listed)


def _factor(fit: PenalizedFit) -> Array:
    """R with ||R v|| = ||P F v||, sparse where the coordinates are orthonormal."""
    R = np.linalg.qr(fit.centred_features, mode="r")
    return np.where(np.abs(R) > 1e-14 * float(np.abs(R).max(initial=0.0)), R, 0.0)
