r"""The norm :math:`\frac12 w^T w` in factor coordinates, and its stationarity :math:`w = \sum_i \alpha_i \varphi(x_i)`.

With :math:`K = R R^T` the rows of R are finite-dimensional features of the training points, so :math:`f = R w + b 1`
and :math:`w = R^T \alpha`: [Suykens2002]_ eq. (4). A quadratic form in K itself is never passed to a solver: solvers
fail on its negative eigenvalues of rounding size.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row

__all__ = ["SquaredNorm", "norm_row", "squared_norm"]


@dataclass(frozen=True, slots=True)
class SquaredNorm:
    """The convex term for a vector expression: w itself, or R' alpha."""

    term: Any
    w: Any
    factor: Array

    def row(self, coefficients: Array, tolerance: float, data: Array | None = None) -> Row:
        """Stationarity in w at the solver's point; ``data`` are the coefficients gamma v y of the point w = 0."""
        return norm_row(np.asarray(self.w.value), self.factor, coefficients, tolerance, data)


def squared_norm(w: Any, factor: Array) -> SquaredNorm:
    """Build 1/2 w'w."""
    import cvxpy as cp

    return SquaredNorm(0.5 * cp.sum_squares(w), w, factor)


def norm_row(w: Array, factor: Array, coefficients: Array, tolerance: float, data: Array | None = None) -> Row:
    """||w - R' a|| against the sizes of its terms and of those at the point w = 0."""
    size = float(np.linalg.norm(w) + np.linalg.norm(factor.T @ coefficients))
    size += 0.0 if data is None else float(np.linalg.norm(factor) * np.linalg.norm(data))
    value = float(np.linalg.norm(w - factor.T @ coefficients))
    return Row("stationarity in w", value, size, tolerance, "||w - sum alpha phi(x)||")
