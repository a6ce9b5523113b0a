r"""The sparsity term :math:`\zeta \|\alpha\|_1` and its optimality condition.

With :math:`c = \Phi^T e` the correlations of the errors with the atoms and :math:`\nu` the multiplier of
:math:`1^T a = 0`, optimality reads :math:`|c_i - \nu| \le \zeta` for every atom, with
:math:`\zeta |a_i| = a_i (c_i - \nu)`: [Pelckmans2005]_ eq. (16). As two rows: the largest excess over the bound, and
the sum of the products, each of which is non-negative where the bound holds.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row

__all__ = ["Sparsity", "sparsity", "sparsity_rows"]


@dataclass(frozen=True, slots=True)
class Sparsity:
    """The convex term, affine in its parameter."""

    term: Any
    weight: Any


def sparsity(coefficients: Any, weight: Any) -> Sparsity:
    """Build weight ||a||_1."""
    import cvxpy as cp

    return Sparsity(weight * cp.norm1(coefficients), weight)


def sparsity_rows(
    Phi: Array, y: Array, e: Array, a: Array, zeta: float, tolerance: float, balanced: bool = True, further: Any = 0.0
) -> tuple[Row, ...]:
    """Return the two rows, with the nu that leaves the smallest excess on the atoms in use (midway where none is).

    Unless ``balanced``, 1'a = 0 is not required and there is no nu. ``further`` is the gradient in a of other terms of
    the objective, such as a ridge, and is taken from the correlations.
    """
    c = Phi.T @ e - further
    weights = np.abs(a)
    total = float(weights.sum())
    nu = 0.0
    if balanced:
        nu = float((weights * (c - zeta * np.sign(a))).sum()) / total if total > 0.0 else float(c.max() + c.min()) / 2.0
    scale = zeta + float(np.abs(Phi.T @ (y - y.mean())).max(initial=0.0))
    excess = float(np.max(np.abs(c - nu) - zeta, initial=0.0))
    products = float(np.abs(zeta * weights - a * (c - nu)).sum())
    # the cost of a = 0, or, where that is zero (a constant target), the noise of a solver in the units of y
    size = zeta * total + 0.5 * float(np.sum((y - y.mean()) ** 2)) + 1e-6 * 0.5 * float(y @ y)
    return (
        Row(name="subgradient bound", value=excess, scale=scale, tolerance=tolerance, formula="max (|c - nu| - zeta)"),
        Row(
            name="subgradient slackness",
            value=products,
            scale=size,
            tolerance=tolerance,
            formula="sum |zeta |a| - a (c - nu)|",
        ),
    )
