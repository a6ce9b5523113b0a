r"""The error term :math:`\frac{\gamma}{2} \sum_i v_i e_i^2` and its stationarity :math:`\alpha_i = \gamma v_i e_i`.

[Pelckmans2005]_ eq. (1), [Suykens2002]_ eq. (4) and, with weights v, (10).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row

__all__ = ["SquaredErrors", "error_row", "squared_errors"]


@dataclass(frozen=True, slots=True)
class SquaredErrors:
    """The convex term, affine in its parameter gamma."""

    term: Any
    gamma: Any
    weights: Array
    e: Any

    def row(self, support_values: Array, y: Array, tolerance: float) -> Row:
        """Stationarity in e at the solver's point."""
        gamma_v = float(self.gamma.value) * self.weights
        return error_row(support_values, gamma_v, np.asarray(self.e.value), tolerance, y)


def squared_errors(e: Any, gamma: Any, weights: Array) -> SquaredErrors:
    """Build gamma/2 sum v e^2 with the weights inside the square, which keeps it DPP in gamma.

    :equation [Suykens2002]_ (11): the error term of the weighted Lagrangian, stationary at alpha = gamma v e
    """
    import cvxpy as cp

    return SquaredErrors(0.5 * gamma * cp.sum_squares(cp.multiply(np.sqrt(weights), e)), gamma, weights, e)


def error_row(
    support_values: Array, gamma_v: Array, e: Array, tolerance: float, y: Array, scale: float | None = None
) -> Row:
    """||alpha/(gamma v) - e||, in the units of y so that a large gamma does not magnify rounding."""
    implied = support_values / gamma_v
    size = float(np.linalg.norm(implied) + np.linalg.norm(e) + np.linalg.norm(y)) if scale is None else scale
    return Row("stationarity in e", float(np.linalg.norm(implied - e)), size, tolerance, "||alpha/(gamma v) - e||")
