r"""The squared terms of an LS-SVM's objective, and their conditions for stationarity.

.. math:: \tfrac12 w^T w, \qquad w = \sum_i \alpha_i \varphi(x_i); \qquad
          \tfrac{\gamma}{2} \sum_i v_i e_i^2, \qquad \alpha_i = \gamma v_i e_i

[Pelckmans2005]_ eq. (1), [Suykens2002]_ eq. (4) and, with weights v, (10). The norm is in factor coordinates: with
:math:`K = R R^T` the rows of R are finite-dimensional features of the training points, so :math:`f = R w + b 1` and
:math:`w = R^T \alpha`. A quadratic form in K itself is never passed to a solver: solvers fail on its negative
eigenvalues of rounding size.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row

__all__ = ["SquaredErrors", "SquaredNorm", "error_row", "norm_row", "squared_errors", "squared_norm"]


@dataclass(frozen=True, slots=True)
class SquaredNorm:
    """The convex term for a vector expression: w itself, or R' alpha."""

    term: Any
    w: Any
    factor: Array

    def row(self, coefficients: Array, tolerance: float, data: Array | None = None) -> Row:
        """Return stationarity in w at the solver's point; ``data`` are coefficients gamma v y of the point w = 0."""
        return norm_row(np.asarray(self.w.value), self.factor, coefficients, tolerance, data)


def squared_norm(w: Any, factor: Array) -> SquaredNorm:
    """Build 1/2 w'w."""
    import cvxpy as cp

    return SquaredNorm(0.5 * cp.sum_squares(w), w, factor)


def norm_row(w: Array, factor: Array, coefficients: Array, tolerance: float, data: Array | None = None) -> Row:
    """Compare ||w - R' a|| with the sizes of its terms and of those at the point w = 0."""
    size = float(np.linalg.norm(w) + np.linalg.norm(factor.T @ coefficients))
    size += 0.0 if data is None else float(np.linalg.norm(factor) * np.linalg.norm(data))
    value = float(np.linalg.norm(w - factor.T @ coefficients))
    return Row(
        name="stationarity in w", value=value, scale=size, tolerance=tolerance, formula="||w - sum alpha phi(x)||"
    )


@dataclass(frozen=True, slots=True)
class SquaredErrors:
    """The convex term, affine in its parameter gamma."""

    term: Any
    gamma: Any
    weights: Array
    e: Any

    def row(self, support_values: Array, y: Array, tolerance: float) -> Row:
        """Return stationarity in e at the solver's point."""
        gamma_v = float(self.gamma.value) * self.weights
        return error_row(support_values, gamma_v, np.asarray(self.e.value), tolerance, y)


def squared_errors(e: Any, gamma: Any, weights: Array) -> SquaredErrors:
    """Build gamma/2 sum v e^2 with the weights inside the square, which keeps it DPP in gamma.

    :equation [Suykens2002]_ (11): the error term of the weighted Lagrangian, stationary at alpha = gamma v e
    """
    import cvxpy as cp

    return SquaredErrors(0.5 * gamma * cp.sum_squares(cp.multiply(np.sqrt(weights), e)), gamma, weights, e)


def error_row(support_values: Array, gamma_v: Array, e: Array, tolerance: float, y: Array) -> Row:
    """Return ||alpha/(gamma v) - e||, in units of y so that a large gamma does not magnify rounding."""
    implied = support_values / gamma_v
    size = float(np.linalg.norm(implied) + np.linalg.norm(e) + np.linalg.norm(y))
    return Row(
        name="stationarity in e",
        value=float(np.linalg.norm(implied - e)),
        scale=size,
        tolerance=tolerance,
        formula="||alpha/(gamma v) - e||",
    )
