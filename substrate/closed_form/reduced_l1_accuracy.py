r"""How far the fitted values of the L1 substrate on a reduced basis are from those of its exact optimum.

With :math:`\hat e = e - \bar e` and :math:`c = \hat K^T \hat e`, the point :math:`\theta = \tau \hat e` is dual feasible
for a :math:`\tau \le 1` with :math:`\tau \max_j |c_j| \le \zeta`, and the duality gap there is a sum of terms none of
which is negative,

.. math:: \tfrac12 \|f - f^\star\|^2 \le P - D = \tfrac12 (1 - \tau)^2 \|\hat e\|^2
          + \sum_j \big( \zeta |\beta_j| - \tau \beta_j c_j \big) ,

since the objective is strongly convex in the fitted values. What rounding may change of c is counted in tau, and once
more beside every coefficient.
"""

import math

import numpy as np

from substrate.arrays import EPS, Array
from substrate.certificates.accuracy import ACCURATE, Accuracy, accuracy_row
from substrate.closed_form.reduced_accuracy import ErrorsRounded
from substrate.closed_form.reduced_certificate import Residuals
from substrate.streaming.target_summary import TargetSummary

__all__ = ["FORMULA", "l1_accuracy"]

FORMULA = "sqrt(2 (primal - dual objective)) + |1'e| / sqrt(n) + rounding"


def l1_accuracy(
    residuals: Residuals,
    rounded: ErrorsRounded,
    means: Array,
    sizes: Array,
    zeta: float,
    coefficients: Array,
    unit: float,
    targets: TargetSummary,
    *,
    tolerance: float = ACCURATE,
) -> list[Accuracy]:
    """The row of every output in units of y; ``means`` are of the columns, ``sizes`` the roots of k(z_j, z_j)."""
    spread, root = math.sqrt(residuals.diagonal), math.sqrt(residuals.count)
    made = []
    for k in range(coefficients.shape[1]):
        beta, total = coefficients[:, k], float(residuals.total[k])
        length = math.sqrt(float(residuals.squares[k])) + float(rounded.errors[k])
        c = residuals.slope[:, k] - means * total
        relative = rounded.kernel + rounded.slopes
        off = sizes * spread * (relative * (length + abs(total) / root) + float(rounded.errors[k]))
        off = 1.01 * off + EPS * (np.abs(residuals.slope[:, k]) + np.abs(means * total))
        top = float((np.abs(c) + off).max(initial=0.0))
        share = 1.0 if top <= zeta else zeta / top
        terms = zeta * np.abs(beta) - share * beta * c
        gap = 0.5 * ((1.0 - share) * length) ** 2 + float(np.maximum(terms, 0.0).sum())
        gap += float(np.abs(beta) @ (off + 4.0 * EPS * zeta))
        moved = math.sqrt(2.0 * gap) + abs(total) / root + rounded.slopes * length + float(rounded.apart[k])
        bound = 1.01 * unit * moved / root
        shift = float(residuals.shifts[k]) / residuals.mass
        about = unit * math.sqrt(max(float(residuals.spreads[k]) / residuals.mass - shift**2, 0.0))
        rounding = residuals.count * EPS * float(np.abs(targets.extremes[:, k]).max())
        made.append(
            accuracy_row(
                bound if math.isfinite(bound) else math.inf, about, FORMULA, tolerance=tolerance, rounding=rounding
            )
        )
    return made
