r"""The bounds on the components, :math:`-t_l 1 \le f^l \le t_l 1`, with t the maximal variations.

Their multipliers are :math:`\xi^{-l}` (lower) and :math:`\xi^{+l}` (upper), non-negative. With
:math:`\sum_l \rho_l t_l` in the objective, stationarity in t reads :math:`1^T(\xi^{-l} + \xi^{+l}) = \rho_l` for each
l (:math:`\rho_l = \rho` in the paper), and complementary slackness :math:`\xi^{-l}_i (t_l + f^l_i) = 0`,
 :math:`\xi^{+l}_i (t_l - f^l_i) = 0`: [Pelckmans2005]_ eq. (13), (24)-(27).

Erratum: (27b) is printed as one equation for all components; it holds for each of them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.ingredients.component_weights import Weights, penalty

__all__ = ["ComponentBounds", "component_bounds", "slackness_products", "variation_rows"]


@dataclass(frozen=True, slots=True)
class ComponentBounds:
    """The labelled constraints on values stacked component by component, and the reading of their duals."""

    lower: Any
    upper: Any
    t: Any

    @property
    def constraints(self) -> list[Any]:
        """Return both constraints."""
        return [self.lower, self.upper]

    @property
    def multipliers(self) -> tuple[Array, Array]:
        """xi^- and xi^+, one row per component."""
        shape = (self.t.size, -1)
        return self.lower.dual_value.reshape(shape), self.upper.dual_value.reshape(shape)


def component_bounds(values: Any, t: Any) -> ComponentBounds:
    """Build -t_l <= values <= t_l for the stacked values of as many components as t has entries.

    :equation [Pelckmans2005]_ (26): the Lagrangian of the bounds, its multipliers in the paper's sign
    """
    spread = np.kron(np.eye(t.size), np.ones((values.size // t.size, 1)))
    lower, upper = values + spread @ t >= 0, values - spread @ t <= 0
    lower.set_label("components above -t")
    upper.set_label("components below t")
    return ComponentBounds(lower, upper, t)


def slackness_products(values: Array, t: Array, xi_minus: Array, xi_plus: Array) -> tuple[Array, Array]:
    """Return all products (27e) and (27f), one row per component."""
    return xi_minus * (t[:, None] + values), xi_plus * (t[:, None] - values)


def variation_rows(
    values: Array, t: Array, xi_minus: Array, xi_plus: Array, rho: Weights, cost: float, unit: float, tolerance: float
) -> tuple[Row, ...]:
    """Return (27b) to (27f) from plain numbers: values (d x N), t (d), multipliers (d x N each).

    ``cost`` is what the trivial machine costs and ``unit`` the size of the targets: the scales of products and values.

    :equation [Pelckmans2005]_ (27b)-(27f): the other optimality conditions, (27b) corrected
    """
    sums = np.abs((xi_minus + xi_plus).sum(axis=1) - rho)
    negative = max(0.0, -float(xi_minus.min()), -float(xi_plus.min()))
    excess = float(np.max(np.abs(values) - t[:, None], initial=0.0))
    lower, upper = slackness_products(values, t, xi_minus, xi_plus)
    # a target of zeros costs nothing; the scale is then a millionth of a unit
    largest, trifle = float(np.max(rho)), 1e-6 * unit
    size = cost + penalty(rho, np.abs(t)) + largest * trifle
    return (
        Row(
            name="(27b) sums of multipliers",
            value=float(sums.max()),
            scale=largest,
            tolerance=tolerance,
            formula="max_l |1'(xi- + xi+) - rho|",
        ),
        Row(name="(27c) multipliers >= 0", value=negative, scale=largest, tolerance=tolerance, formula="max (-xi)"),
        Row(name="(27d) bounds", value=excess, scale=unit, tolerance=tolerance, formula="max (|f^l| - t_l)"),
        Row(
            name="(27e) lower slackness",
            value=float(np.abs(lower).max()),
            scale=size,
            tolerance=tolerance,
            formula="max |xi- (t + f^l)|",
        ),
        Row(
            name="(27f) upper slackness",
            value=float(np.abs(upper).max()),
            scale=size,
            tolerance=tolerance,
            formula="max |xi+ (t - f^l)|",
        ),
        Row(
            name="sum of all products",
            value=float(np.abs(lower).sum() + np.abs(upper).sum()),
            scale=size,
            tolerance=tolerance,
            formula="sum (27e,f)",
        ),
    )
