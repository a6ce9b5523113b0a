r"""The fit equalities of regression, :math:`y_i = f(x_i) + e_i`.

Their multipliers are the support values :math:`\alpha`: [Pelckmans2005]_ eq. (1), [Suykens2002]_ eq. (1) and (3).

cvxpy reflects ``y == f + e`` when y is a numpy array and then returns minus alpha; written as
``y - f - e == 0`` the Lagrangian is :math:`J + \lambda^T(y - f - e)`, whose stationarity in e reads
:math:`\gamma v e = \lambda`: the paper's sign, on every solver.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row

__all__ = ["RegressionFit", "fit_row", "regression_fit"]

LABEL = "fit equalities"


@dataclass(frozen=True, slots=True)
class RegressionFit:
    """The labelled constraint y - f - e = 0 and the reading of its dual."""

    constraint: Any
    y: Array
    f: Any
    e: Any

    @property
    def multiplier(self) -> Array:
        """The support values alpha, in the paper's sign."""
        return np.asarray(self.constraint.dual_value, dtype=np.float64)

    def row(self, tolerance: float) -> Row:
        """How well the solver's point satisfies the equalities."""
        return fit_row(self.y, np.asarray(self.f.value), np.asarray(self.e.value), tolerance)


def regression_fit(y: Array, f: Any, e: Any) -> RegressionFit:
    """Build y - f - e = 0 from a target and two affine expressions.

    :equation [Suykens2002]_ (3): the Lagrangian of the equalities, its multipliers in the paper's sign
    """
    constraint = y - f - e == 0
    constraint.set_label(LABEL)
    return RegressionFit(constraint, y, f, e)


def fit_row(y: Array, f: Array, e: Array, tolerance: float, scale: float | None = None) -> Row:
    """||y - f - e|| against the size of its terms, or against the given scale of a backward error."""
    size = float(np.linalg.norm(y) + np.linalg.norm(f) + np.linalg.norm(e)) if scale is None else scale
    return Row(LABEL, float(np.linalg.norm(y - f - e)), size, tolerance, "||y - f - e||")
