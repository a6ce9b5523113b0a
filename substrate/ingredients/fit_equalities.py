r"""The fit equalities: :math:`y_i = f(x_i) + e_i` in regression, :math:`y_i f(x_i) = 1 - e_i` in classification.

Their multipliers are the support values :math:`\alpha`: [Pelckmans2005]_ eq. (1), [Suykens2002]_ eq. (1) and (3).
cvxpy reflects ``y == f + e`` when y is a numpy array and then returns minus alpha; written as ``y - f - e == 0`` the
Lagrangian is :math:`J + \lambda^T(y - f - e)`, whose stationarity in e reads :math:`\gamma v e = \lambda`: the paper's
sign, on every solver.

For classification, [Pelckmans2005]_ eq. (4), [Carvalho2006]_ eq. (2), the labels are :math:`y_i \in \{-1, +1\}`.
Because :math:`y_i^2 = 1`, these equalities are the ones of regression on y multiplied by :math:`y_i`, so

.. math:: \alpha^{\text{class}} = y \circ \alpha^{\text{reg}}, \qquad e^{\text{class}} = y \circ e^{\text{reg}},
          \qquad \Omega = y y^T \circ K .

A hinge is ``cp.pos(e)``: e = 1 - y f is the margin's shortfall.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, real_targets
from substrate.certificates import Row
from substrate.errors import DataError

__all__ = [
    "ClassificationFit",
    "RegressionFit",
    "classification_fit",
    "fit_row",
    "margin_row",
    "regression_fit",
    "signed_labels",
]

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
        """Return the support values alpha, in the paper's sign."""
        return np.asarray(self.constraint.dual_value, dtype=np.float64)

    def row(self, tolerance: float) -> Row:
        """Return how well the solver's point satisfies the equalities."""
        return fit_row(self.y, np.asarray(self.f.value), np.asarray(self.e.value), tolerance)


def regression_fit(y: Array, f: Any, e: Any) -> RegressionFit:
    """Build y - f - e = 0 from a target and two affine expressions.

    :equation [Suykens2002]_ (3): the Lagrangian of the equalities, its multipliers in the paper's sign
    """
    constraint = y - f - e == 0
    constraint.set_label(LABEL)
    return RegressionFit(constraint, y, f, e)


def fit_row(y: Array, f: Array, e: Array, tolerance: float) -> Row:
    """Compare ||y - f - e|| with the size of its terms."""
    size = float(np.linalg.norm(y) + np.linalg.norm(f) + np.linalg.norm(e))
    return Row(
        name=LABEL, value=float(np.linalg.norm(y - f - e)), scale=size, tolerance=tolerance, formula="||y - f - e||"
    )


class ClassificationFit(RegressionFit):
    """The labelled constraint 1 - y∘f - e = 0 and the reading of its dual."""

    __slots__ = ()

    def row(self, tolerance: float) -> Row:
        """Return how well the solver's point satisfies the equalities."""
        return margin_row(self.y, np.asarray(self.f.value), np.asarray(self.e.value), tolerance)


def classification_fit(y: Array, f: Any, e: Any) -> ClassificationFit:
    """Build 1 - y∘f - e = 0; stationarity in e of J + alpha'(1 - y∘f - e) is alpha = gamma v e."""
    import cvxpy as cp

    constraint = 1.0 - cp.multiply(y, f) - e == 0
    constraint.set_label(LABEL)
    return ClassificationFit(constraint, y, f, e)


def margin_row(y: Array, f: Array, e: Array, tolerance: float) -> Row:
    """Compare ||1 - y∘f - e|| with the size of its terms."""
    size = float(np.sqrt(y.size) + np.linalg.norm(f) + np.linalg.norm(e))
    return Row(
        name=LABEL,
        value=float(np.linalg.norm(1.0 - y * f - e)),
        scale=size,
        tolerance=tolerance,
        formula="||1 - y f - e||",
    )


def signed_labels(y: Any, n: int, name: str = "y") -> Array:
    """Return labels checked to be -1 or +1, both present, one for each row."""
    labels = real_targets(y, n, name)
    if not np.isin(labels, (-1.0, 1.0)).all():
        raise DataError(
            f"{name} must hold labels -1 and +1, received {np.unique(labels)[:5]}; map your classes to them first"
        )
    if np.unique(labels).size < 2:
        raise DataError(f"{name} holds one class only ({labels[0]:+.0f}); a classifier needs both")
    return labels
