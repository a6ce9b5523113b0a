r"""How far the fitted values of the L1 substrate on a reduced basis are from those of its exact optimum.

With :math:`\hat e = e - \bar e` and :math:`c = \hat K^T V \hat e`, the point :math:`\theta = \tau \hat e` is dual
feasible for a :math:`\tau \le 1` with :math:`\tau \max_j |c_j| \le \zeta`, and the duality gap there is a sum of
non-negative terms,

.. math:: \tfrac12 \|f - f^\star\|_v^2 \le P - D = \tfrac12 (1 - \tau)^2 \|\hat e\|_v^2
          + \sum_j \big( \zeta |\beta_j| - \tau \beta_j c_j \big) ,

since the objective is strongly convex in the fitted values. The rounding of c is included in tau, and once
more for every coefficient. That is the root of a rounding error; where few coefficients are nonzero, a second dual
point is nearer: the errors minus :math:`K_A G_A^{-1} (c_A - \zeta \operatorname{sign} \beta_A)`, over the columns A in
use, have the right correlations with these, and a gap of half the squared norm of the difference, as long as no
other column's correlation exceeds zeta.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding, target_rounding
from substrate.certificates.rows import ACCURATE, Accuracy, accuracy_row
from substrate.reduced.certificate import ErrorsRounded, Residuals
from substrate.reduced.curvature import Curvature, Reach
from substrate.reduced.features import EigenFeatures
from substrate.streaming.survey import TargetSummary

__all__ = ["FORMULA", "L1Columns", "l1_accuracy"]

FORMULA = "sqrt(2 (primal - dual objective)) + |1'e| / sqrt(1'v) + rounding"


@dataclass(frozen=True, slots=True)
class L1Columns:
    """G, the means of the columns and those about the origin of the sums, the roots of k(z_j, z_j), terms of a sum."""

    gram: Array
    means: Array
    offsets: Array
    sizes: Array
    terms: int

    def reach(self, used: Any, mass: float, rounding: float, spread: float) -> Reach:
        """The effect of a change of the correlations of the columns in use on the fitted values."""
        m = self.sizes.size
        chosen = EigenFeatures(np.eye(m)[:, used], np.ones(used.size))
        curvature = Curvature(
            chosen,
            self.gram[np.ix_(used, used)],
            self.means[used],
            self.offsets[used],
            mass,
            self.sizes,
            self.terms,
            accumulated=False,
        )
        return curvature.at(0.0, rounding, spread)


def l1_accuracy(
    residuals: Residuals,
    rounded: ErrorsRounded,
    columns: L1Columns,
    zeta: float,
    coefficients: Array,
    unit: float,
    targets: TargetSummary,
    *,
    tolerance: float = ACCURATE,
) -> list[Accuracy]:
    """The row of every output in units of y."""
    spread, root = math.sqrt(residuals.diagonal), math.sqrt(residuals.mass)
    sizes, means = columns.sizes, columns.means
    made = []
    for k in range(coefficients.shape[1]):
        beta, total = coefficients[:, k], float(residuals.total[k])
        length = math.sqrt(float(residuals.squares[k])) + float(rounded.errors[k])
        c = residuals.slope[:, k] - means * total
        relative = 1.01 * (rounded.kernel + rounded.slopes + relative_rounding(2.0)) * (length + abs(total) / root)
        off = sizes * spread * (relative + 1.01 * float(rounded.errors[k]))
        off += relative_rounding(1.0) * (np.abs(residuals.slope[:, k]) + np.abs(means * total))
        gap = _scaled(beta, c, off, zeta, length)
        (used,) = np.nonzero(beta)
        if used.size:
            reach = columns.reach(used, residuals.mass, rounded.kernel, spread)
            left = c[used] - zeta * np.sign(beta[used])
            moved = float(reach.of_gradient(left[:, None])[0]) + reach.of_slopes(relative * spread)
            unsure = relative_rounding(1.0) * (np.abs(left) + zeta) / np.maximum(sizes[used], np.finfo(np.float64).tiny)
            moved += float(rounded.errors[k]) + reach.of_slopes(float(unsure.max()))
            gap = min(gap, _stepped(beta, c, off, zeta, length, used, sizes * spread, moved))
        total_moved = math.sqrt(2.0 * gap) + abs(total) / root + rounded.slopes * length + float(rounded.apart[k])
        bound = 1.01 * unit * total_moved / root
        shift = float(residuals.shifts[k]) / residuals.mass
        about = unit * math.sqrt(max(float(residuals.spreads[k]) / residuals.mass - shift**2, 0.0))
        rounding = target_rounding(residuals.count, float(np.abs(targets.extremes[:, k]).max()))
        bound = bound if math.isfinite(bound) else math.inf
        made.append(accuracy_row(bound, about, FORMULA, tolerance=tolerance, rounding=rounding))
    return made


def _scaled(beta: Array, c: Array, off: Array, zeta: float, length: float) -> float:
    """The gap at a multiple of the errors."""
    top = float((np.abs(c) + off).max(initial=0.0))
    share = 1.0 if top <= zeta else zeta / top
    terms = zeta * np.abs(beta) - share * beta * c
    gap = 0.5 * ((1.0 - share) * length) ** 2 + float(np.maximum(terms, 0.0).sum())
    return gap + float(np.abs(beta) @ (off + relative_rounding(4.0) * zeta))


def _stepped(
    beta: Array, c: Array, off: Array, zeta: float, length: float, used: Any, lengths: Array, moved: float
) -> float:
    """The gap at the errors minus a part in the span of the columns in use, of norm at most ``moved``.

    It brings their correlations to zeta exactly; the others must stay below, or the point is scaled down.
    """
    if not moved < 1e150:  # its square overflows
        return math.inf
    idle = np.ones(beta.size, dtype=bool)
    idle[used] = False
    top = float((np.abs(c) + off + lengths * moved)[idle].max(initial=0.0))
    share = 1.0 if top <= zeta else zeta / top
    lost = 1.0 - share
    size = zeta * float(np.abs(beta).sum())
    return (
        0.5 * moved**2
        + lost * (size + length * moved)
        + 0.5 * (lost * (length + moved)) ** 2
        + relative_rounding(1.0) * lost * size
    )
