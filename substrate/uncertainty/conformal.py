r"""Conformal intervals: the exact full conformal set of a kernel least-squares machine, and split conformal ends.

Add the row (x, z) with the weight of the other rows. With c and p of :mod:`~substrate.uncertainty.influence`, B the
lower block of the inverse of the bordered matrix, :math:`S = p + 1/\gamma` and :math:`t = z - f(x)`, the enlarged
system has

.. math:: \alpha_i(z) = \alpha_i - \frac{c_i}{S} t, \qquad \alpha_{new}(z) = \frac{t}{S}, \qquad
          \text{diagonal} \; B_{ii} + \frac{c_i^2}{S} \; \text{and} \; \frac1S .

The nonconformity score is the studentised residual :math:`|\alpha_i| / \sqrt{B_{ii}}` ([Vovk2005]_ section 2.3): for
the Gaussian process of the machine a support value has the variance :math:`\gamma s^2 B_{ii}`, so that scores have one
scale at all rows, and intervals widen where rows are sparse. With :math:`P_i = B_{ii} S + c_i^2` the signed scores of
row i and of the new row are

.. math:: \frac{\alpha_i S - c_i t}{\sqrt{S P_i}}, \qquad \frac{t}{\sqrt S} .

Since :math:`\sqrt{P_i} > |c_i|`, the second less the first rises in t: they meet once. So row i conforms no better, by
absolute values, on one interval about f(x), with :math:`d_i = \operatorname{sign}(\alpha_i)\, c_i`,

.. math:: - \frac{|\alpha_i| S}{\sqrt{P_i} - d_i} \le t \le \frac{|\alpha_i| S}{\sqrt{P_i} + d_i} ,

and the conformal set of level c is one interval: its ends are the :math:`k = \lceil c (n + 1) \rceil`-th smallest of
these. Of a difference, :math:`\sqrt{P_i} - |c_i| = B_{ii} S / (\sqrt{P_i} + |c_i|)`. Rows of unequal weight are not
exchangeable with a new one, and are refused.
"""

from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.errors import DataError
from substrate.least_squares.regularization import Regularization
from substrate.namespaces import namespace_of, to_numpy, zeros_beside
from substrate.uncertainty.influence import LeftOutMachines
from substrate.uncertainty.levels import kth_smallest, rank

__all__ = ["conformal_ends", "split_ends"]


def conformal_ends(machines: LeftOutMachines, fitted: Array | None, X: Any, diagonal: Array, coverage: Any) -> Array:
    """Return the ends of the conformal set, one line per new point: the whole set.

    ``fitted`` are the predictions there, if the machines have no bias.

    :place [Vovk2005]_ section 2.3: the set of targets by studentised residuals is one interval
    """
    ridge, k = _common_ridge(machines), rank(coverage, machines.n)
    ends: Array = zeros_beside(machines.residuals, (X.shape[0], 2))
    for block, f, c, p in machines.blocks(X, diagonal, fitted):
        S = p + ridge
        below, above = _both_sides(machines.support_values, machines.diagonal, c, S, k)
        ends[block, 0], ends[block, 1] = f - S * below, f + S * above
    return ends


def split_ends(scores: Array, fitted: Array, coverage: Any) -> Array:
    """Return f(x) plus and minus the k-th smallest absolute error of rows that the machine has not seen; ascending
    scores.
    """
    k = rank(coverage, int(scores.shape[0]))
    reach = float("inf") if k > scores.shape[0] else float(scores[k - 1])
    return namespace_of(fitted).stack([fitted - reach, fitted + reach], axis=-1)  # type: ignore[no-any-return]


def _common_ridge(machines: LeftOutMachines) -> float:
    """Return 1/(gamma v) of the rows, which is also that of the new one; refuse weights that differ."""
    if machines.ridge is None:
        return Regularization(machines.gamma).lam
    ridge = to_numpy(machines.ridge)
    if (ridge != ridge[0]).any():
        raise DataError(
            "method='conformal' needs rows of equal weight: rows of unequal weight are not exchangeable with a new "
            "one; use method='jackknife+', which is then approximate, or calibrate(X, y) and method='split'"
        )
    return float(ridge[0])


def _both_sides(alpha: Array, diagonal: Array, c: Array, S: Array, k: int) -> tuple[Array, Array]:
    """Return how far the set reaches below and above f(x), in units of S."""
    if k > int(alpha.shape[0]):
        return (zeros_beside(S, int(S.shape[0])) + np.inf,) * 2
    xp = namespace_of(c)
    plus, minus = _slopes(c, diagonal * S[:, None])
    size, is_above = xp.abs(alpha), alpha > 0.0
    below = _quotient(size, xp.where(is_above, minus, plus))
    above = _quotient(size, xp.where(is_above, plus, minus))
    return kth_smallest(below, k), kth_smallest(above, k)


def _slopes(c: Array, BS: Array) -> tuple[Array, Array]:
    r"""Return :math:`\sqrt{P} + c` and :math:`\sqrt{P} - c`, each to rounding: the smaller by the product of both."""
    xp = namespace_of(c)
    size = xp.abs(c)
    far = xp.sqrt(size * size + BS) + size
    near = BS / xp.where(far > 0.0, far, 1.0)
    return xp.where(c >= 0.0, far, near), xp.where(c >= 0.0, near, far)


def _quotient(size: Array, slopes: Array) -> Array:
    """Return sizes over the slopes: zero for a row without error, infinite for one that never leaves."""
    xp = namespace_of(slopes)
    is_positive = slopes > 0.0
    values = size / xp.where(is_positive, slopes, 1.0)
    never = xp.where(size > 0.0, xp.full_like(size, np.inf), xp.zeros_like(size))
    return xp.where(is_positive, values, never)  # type: ignore[no-any-return]
