r"""Weights of a stack of machines: least squares over the simplex, with a lower bound of the optimum.

With the left-out errors :math:`R = y 1^T - P` of M machines, one column each, and weights that sum to one,
:math:`y - P u = R u`: the weights of a stack ([Wolpert1992]_, [Breiman1996]_) minimise

.. math:: \| R u \|_v \quad \text{subject to} \quad u \ge 0, \; 1^T u = 1, \qquad
          \|z\|_v^2 = \frac{\sum_i v_i z_i^2}{\sum_i v_i} ,

the distance of the origin from the convex hull of the columns of R ([Wolfe1976]_). For every :math:`t > 0` the same u
minimises :math:`t^2 \|R u\|_v^2 + (t - 1)^2`, so that :math:`x = t u` solves a problem of non-negative least squares in
M numbers, whose active sets end after finitely many steps ([Lawson1995]_ chapter 23).

Whatever u is, and however it was found, a vector r separates the hull from the origin: all its points z have
:math:`\langle z, r \rangle_v \ge \min_m \langle R_m, r \rangle_v`, and therefore

.. math:: \min_u \| R u \|_v \; \ge \; \frac{\min_m \langle R_m, r \rangle_v}{\| r \|_v} .

At r = R u, u optimal, that is an equality. The bound holds for the rounded r itself; what rounding of the products may
have added is subtracted.
"""

from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array, target_unit
from substrate.certificate import ACCURATE, Row
from substrate.numbers import relative_rounding

__all__ = ["StackGap", "bound_stack", "weigh_machines"]


@dataclass(frozen=True, slots=True)
class StackGap:
    """Upper and lower bound of a stack's root mean square left-out error, in units of y.

    ``error`` is the error of the given weights, rounding included, ``lower_bound`` is below the error of all weights,
    and ``floor`` is what rounding y itself may change.
    """

    error: float
    lower_bound: float
    floor: float

    @property
    def row(self) -> Row:
        """The row of a certificate: how much of the error other weights could take off."""
        return Row(
            name="gap of the weights",
            value=self.error - self.lower_bound,
            scale=max(self.error, self.floor / ACCURATE),
            tolerance=ACCURATE,
            formula="||R u|| - min_m <R_m, R u> / ||R u|| + rounding",
        )


def weigh_machines(errors: Array, weights: Array) -> Array:
    """Return the u of machines, one column of left-out errors each, by the weights of the rows; equal if all vanish.

    :place [Breiman1996]_ stacked regressions: non-negative weights from left-out predictions
    """
    scaled, _ = _scale(errors, weights)
    if not scaled.any():
        return np.full(errors.shape[1], 1.0 / errors.shape[1])
    return _on_simplex(np.asarray(np.linalg.qr(scaled, mode="r")))


def bound_stack(errors: Array, weights: Array, u: Array, largest: float) -> StackGap:
    """Bound the error of given weights, which sum to one, and of all weights from below; ``largest`` is max|y|."""
    n, M = errors.shape
    scaled, unit = _scale(errors, weights)
    r = scaled @ u
    norm, sizes = float(np.linalg.norm(r)), np.abs(scaled)
    # the root of a weight, its product with an error, and the weight's share have three roundings besides the sums
    missing = relative_rounding(M + 4) * float(np.linalg.norm(sizes @ np.abs(u)))
    error = norm * (1.0 + relative_rounding(n + 4)) + missing
    lower = 0.0
    if norm > 0.0:
        inner = scaled.T @ r - relative_rounding(n + 4) * (sizes.T @ np.abs(r))
        lower = max(float(inner.min()), 0.0) / (norm * (1.0 + relative_rounding(n + 4)))
    return StackGap(unit * error, unit * lower, relative_rounding(n) * largest)


def _scale(errors: Array, weights: Array) -> tuple[Array, float]:
    """Return errors whose squares sum to weighted means, near one, and the unit that they are in."""
    unit = target_unit(errors)
    scaled = np.sqrt(weights / weights.sum())[:, None] * (errors / unit)
    size = float(np.abs(scaled).max(initial=0.0))
    if size > 0.0:
        power = float(2.0 ** np.floor(np.log2(size)))
        scaled, unit = scaled / power, unit * power
    return scaled, unit


def _on_simplex(factor: Array) -> Array:
    """Minimise the norm of a small factor times u over the simplex."""
    from scipy.optimize import nnls

    # a size near one balances both parts of the least squares; the minimiser does not depend on it
    size = float(np.sqrt(np.square(factor).sum(axis=0).min()))
    tall = np.vstack([factor / (size if size > 0.0 else 1.0), np.ones((1, factor.shape[1]))])
    try:
        x, _ = nnls(tall, np.append(np.zeros(factor.shape[0]), 1.0))
    except RuntimeError:  # active sets that return by rounding: the best machine alone, and the gap says how far it is
        x = np.zeros(factor.shape[1])
    if not x.sum() > 0.0:
        x[int(np.square(factor).sum(axis=0).argmin())] = 1.0
    return np.asarray(x / x.sum())
