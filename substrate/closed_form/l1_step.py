r"""A dual point of the L1 substrate that is nearer than a multiple of the errors: one step in the columns in use.

Rounding of the correlations costs the gap at :math:`\theta = e` a number of its own size, and the bound on the answer
the root of it. Let A be the columns in use, and those whose correlations are at their limit, with signs s;
:math:`C = [k_j - \bar k_j]_{j \in A}`. The point

.. math:: \theta = e - C x, \qquad C^T C\, x = \delta, \qquad \delta = K_A^T e - \nu 1 - \zeta s

has the correlations :math:`\nu + \zeta s` on A exactly, so all that is left of the gap is half of

.. math:: \|e - \theta\|^2 = \delta^T (C^T C)^{-1} \delta ,

rounding squared, as long as no other column exceeds its limit; :math:`\theta` is shrunk by what one does. The point is
not computed, only its distance is bounded: with C known up to a matrix of norm :math:`\eta` and of smallest singular
value :math:`\sigma`, the form above is off by no more than a factor :math:`(1 - \eta / \sigma)^{-2}`.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import EPS, Array
from substrate.closed_form.kernel_products import PlainProducts

__all__ = ["Correlations", "stepped_gap"]

#: Columns this near their limit, relatively, are taken for columns at it.
_NEAR = 1e-6


@dataclass(frozen=True, slots=True)
class Correlations:
    """K theta of the errors, how far rounding may have moved it, the norm of the errors, and how far these are known.

    ``moved`` bounds the distance of the errors from those of the feasible point.
    """

    g: Array
    doubt: Array
    length: float
    moved: float


def stepped_gap(plain: PlainProducts, a: Array, zeta: float, known: Correlations) -> float:
    """The smaller of the gaps with and without the columns at their limit; infinite where no step is known."""
    used = a != 0.0
    if not used.any() or not np.isfinite(known.g).all():
        return math.inf
    at = known.g[used] - zeta * np.sign(a[used])
    near = np.abs(np.abs(known.g - float(at.mean())) - zeta) <= _NEAR * zeta
    choices = [used] if not (near & ~used).any() else [used, used | near]
    return min(_gap(plain, a, zeta, known, np.flatnonzero(some)) for some in choices)


def _gap(plain: PlainProducts, a: Array, zeta: float, known: Correlations, at_limit: Any) -> float:
    n = plain.matrix.shape[0]
    center = float((known.g - zeta * np.sign(a))[a != 0.0].mean())
    signs = np.where(a == 0.0, np.sign(known.g - center), np.sign(a))[at_limit]
    # of points that are equal so are the correlations: one speaks for all
    groups = plain.groups(at_limit)
    if any(np.ptp(signs[groups == group]) > 0.0 for group in np.unique(groups)):
        return math.inf
    first = np.unique(groups, return_index=True)[1]
    some, signs = at_limit[first], signs[first]
    if some.size >= n:
        return math.inf
    columns = plain.matrix - plain.matrix.mean(axis=0)
    roots = np.sqrt(np.maximum(np.diagonal(plain.matrix), 0.0))
    # kernel values are within p s_i s_j of the true ones; taking the mean off rounds a sum of n and a difference
    off = plain.rounding * roots * float(np.linalg.norm(roots)) + n * EPS * np.linalg.norm(plain.matrix, axis=0)
    try:
        _, values, across = np.linalg.svd(columns[:, some], full_matrices=False)
    except np.linalg.LinAlgError:
        return math.inf
    eta = float(np.linalg.norm(off[some])) + 8.0 * n * EPS * float(values[0])
    smallest = float(values[-1])
    if not smallest > 2.0 * eta:
        return math.inf
    pulls = (across @ np.column_stack([known.g[some] - zeta * signs, np.ones(some.size)])) / values[:, None]
    nu = float(pulls[:, 0] @ pulls[:, 1]) / float(pulls[:, 1] @ pulls[:, 1])
    delta = known.g[some] - nu - zeta * signs
    unsure = known.doubt[some] + 8.0 * EPS * (np.abs(known.g[some]) + abs(nu) + zeta)
    step = float(np.linalg.norm((across @ delta) / values)) + 2.0 * float(np.linalg.norm(unsure)) / smallest
    step /= 1.0 - eta / smallest
    others = np.ones(n, dtype=bool)
    others[at_limit] = False
    lengths = np.linalg.norm(columns, axis=0) + off
    reached = np.abs(known.g - nu) + known.doubt + lengths * step + 8.0 * EPS * (np.abs(known.g) + abs(nu))
    top = float(reached[others].max(initial=0.0))
    lost = 0.0 if top <= zeta else 1.0 - zeta / top + 2.0 * EPS
    apart = known.moved + step + lost * (known.length + step)
    size = zeta * float(np.abs(a).sum()) * (1.0 + n * EPS)
    return float(0.5 * apart * apart + lost * size)
