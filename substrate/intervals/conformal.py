r"""Prediction intervals from scores of rows that a machine has not seen: jackknife+, CV+, conformal, split, Gaussian.

**Ranks.** Among n scores and the one to come, the score that bounds a share c of them has the rank

.. math:: k = \lceil c \, (n + 1) \rceil

([Vovk2005]_). In floating point 0.9 times 10 may be 9.000000000000002, whose ceiling is 10: the rank would be wrong at
the levels that are used most. So the level is read as the fraction of the decimal that prints it, 9/10, and the rank is
exact. A rank of n + 1 is an infinite end.

**Jackknife+ and CV+** ([Barber2021]_), without a refit. With the left-out residuals :math:`r_i` and machines
:math:`f^{(-i)}` of :mod:`~substrate.left_out.influence`, and :math:`q_k\{\cdot\}` the k-th smallest,

.. math:: \big[\, q_{n+1-k}\{ f^{(-i)}(x) - |r_i| \},\; q_k\{ f^{(-i)}(x) + |r_i| \} \,\big] .

For exchangeable rows and a machine fixed in advance jackknife+ covers a new target with probability at least
:math:`2c - 1`, and about c in practice. CV+ is the same with machines without a fold in the place of those without a
row.

**Conformal.** Add the row (x, z) with the weight of the other rows. With c and p of
:mod:`~substrate.left_out.influence`, B the lower block of the
inverse of the bordered matrix, :math:`S = p + 1/\gamma` and :math:`t = z - f(x)`, the enlarged system has

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

**Gaussian error bars.** A least-squares machine is the posterior mean of a process with covariance
:math:`\gamma s^2 k`, noise of variance :math:`s^2 / v_i` and a flat prior on the bias ([Rasmussen2006]_ section 2.7).
With p of :mod:`~substrate.left_out.influence` a new target of weight one has the variance
:math:`s^2 (\gamma\, p(x) + 1)`, and the evidence of y, the bias integrated out, is largest at

.. math:: s^2 = \frac{y^T \alpha}{\gamma (n - 1)},

or with n - m in the place of n - 1 where m columns are not penalised (:mod:`~substrate.operators.border`).
"""

import math
import numbers
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from substrate.arrays import (
    Array,
    blocks_beside,
    namespace_of,
    partition,
    to_numpy,
    zeros_beside,
)
from substrate.errors import DataError, DeclarationError
from substrate.left_out.influence import Influence

__all__ = [
    "LeftOutMachines",
    "conformal_ends",
    "cv_plus",
    "exact_level",
    "gaussian_ends",
    "jackknife_plus",
    "kth_smallest",
    "predict_copies",
    "rank",
    "split_ends",
]


@dataclass(frozen=True, slots=True)
class LeftOutMachines:
    """One output: the influence of the rows, their support values and left-out residuals, and 1/(gamma v) of each."""

    influence: Influence
    support_values: Array
    residuals: Array
    ridge: Array

    @property
    def n(self) -> int:
        """Return the number of machines, one without each row."""
        return int(self.residuals.shape[0])

    def blocks(self, X: Any, diagonal: Array) -> Iterator[tuple[slice, Array, Array]]:
        """Yield the new points block by block, with c, which is the caller's to overwrite, and p."""
        for block in blocks_beside(self.residuals, int(X.shape[0]), self.n):
            yield block, *self.influence.at(self.influence.represent(X[block, :]), diagonal[block])

    def lines(self, X: Any) -> Array:
        """Return the influence of every row on f(x), the derivative in its target, one line per new point."""
        n = int(X.shape[0])
        lines: Array = zeros_beside(self.residuals, (n, self.n))
        for block, c, _ in self.blocks(X, zeros_beside(self.residuals, n)):  # k(x, x) is for p(x) alone
            lines[block, :] = c
        return lines

    def spread(self, X: Any, diagonal: Array) -> Array:
        """Return p(x) of all new points."""
        spread: Array = namespace_of(self.residuals).concat([p for _, _, p in self.blocks(X, diagonal)])
        return spread


def predict_copies(machines: Sequence[LeftOutMachines], which: Any, points: Any, fitted: Array) -> Array:
    """Return the outputs at changed copies ``points`` of the rows ``which``, by the machines without them, in numpy.

    ``fitted`` are the outputs of the whole machines there, one column each. Machines that share an influence share its
    entries.
    """
    outputs, entries = np.array(to_numpy(fitted)), dict[int, Array]()
    for column, machine in enumerate(machines):
        influence = machine.influence
        if id(influence) not in entries:
            entries[id(influence)] = to_numpy(influence.own(which, influence.represent(points)))
        outputs[:, column] -= entries[id(influence)] * to_numpy(machine.residuals)[which]
    return outputs


def exact_level(coverage: Any, name: str = "coverage") -> Fraction:
    """Return a level strictly between zero and one as a fraction: the shortest decimal that is this number."""
    if isinstance(coverage, np.ndarray) and coverage.ndim == 0:
        coverage = coverage[()]
    if isinstance(coverage, (bool, np.bool_)) or not isinstance(coverage, numbers.Real):
        raise DeclarationError(f"{name} must be a number between 0 and 1, received {coverage!r}")
    if not 0.0 < float(coverage) < 1.0:
        raise DeclarationError(
            f"{name} must be above 0 and below 1, a share of the new rows such as 0.9, received {coverage!r}"
        )
    return Fraction(str(coverage))


def rank(coverage: Any, n: int) -> int:
    """Return ceil(coverage (n + 1)), exactly: from 1 to n + 1, where n + 1 says that n scores do not suffice."""
    return math.ceil(exact_level(coverage) * (n + 1))


def kth_smallest(values: Array, k: int) -> Array:
    """Return the k-th smallest of every line, from 1 on; minus infinity for 0, infinity for one more than there are."""
    n = int(values.shape[-1])
    if not 1 <= k <= n:
        edge = -np.inf if k < 1 else np.inf
        return namespace_of(values).full_like(values[..., 0], edge)  # type: ignore[no-any-return]
    return partition(values, k - 1)[..., k - 1]  # type: ignore[no-any-return]


def jackknife_plus(machines: LeftOutMachines, fitted: Array, X: Any, diagonal: Array, coverage: Any) -> Array:
    """Return lower and upper ends, one line per new point; ``fitted`` are the predictions there.

    :place [Barber2021]_ jackknife+: the interval from left-out machines and residuals
    """
    residuals, n = machines.residuals, machines.n
    k, size = rank(coverage, n), namespace_of(residuals).abs(residuals)
    ends = zeros_beside(residuals, (int(X.shape[0]), 2))
    for block, c, _ in machines.blocks(X, diagonal):
        c *= -residuals
        ends[block, 0] = fitted[block] + kth_smallest(c - size, n + 1 - k)
        ends[block, 1] = fitted[block] + kth_smallest(c + size, k)
    return ends  # type: ignore[no-any-return]


def cv_plus(outputs: Array, folds: Any, scores: Array, coverage: Any) -> Array:
    """Return lower and upper ends, one line per new point, from the predictions of K machines, one column each.

    ``folds`` has the number of the machine that has not seen each row, ``scores`` the absolute error of the row in it.

    :place [Barber2021]_ CV+: the interval from machines without folds
    """
    n, k = int(scores.shape[0]), rank(coverage, int(scores.shape[0]))
    xp = namespace_of(outputs)
    ends = zeros_beside(outputs, (int(outputs.shape[0]), 2))
    for block in blocks_beside(outputs, int(outputs.shape[0]), n):
        centers = outputs[block, :][:, folds]
        low, high = kth_smallest(centers - scores, n + 1 - k), kth_smallest(centers + scores, k)
        ends[block, :] = xp.stack([low, high], axis=-1)
    return ends  # type: ignore[no-any-return]


def conformal_ends(machines: LeftOutMachines, fitted: Array, X: Any, diagonal: Array, coverage: Any) -> Array:
    """Return the ends of the conformal set, one line per new point: the whole set.

    ``fitted`` are the predictions there.

    :place [Vovk2005]_ section 2.3: the set of targets by studentised residuals is one interval
    """
    ridge = to_numpy(machines.ridge)
    if (ridge != ridge[0]).any():
        raise DataError(
            "method='conformal' needs rows of equal weight: rows of unequal weight are not exchangeable with a new "
            "one; use method='jackknife+', which is then approximate, or calibrate(X, y) and method='split'"
        )
    k, B = rank(coverage, machines.n), machines.influence.diagonal
    ends: Array = zeros_beside(machines.residuals, (X.shape[0], 2))
    for block, c, p in machines.blocks(X, diagonal):
        S = p + float(ridge[0])  # the new row has the weight of the others
        below, above = _both_sides(machines.support_values, B, c, S, k)
        ends[block, 0], ends[block, 1] = fitted[block] - S * below, fitted[block] + S * above
    return ends


def split_ends(scores: Array, fitted: Array, coverage: Any) -> Array:
    """Return f(x) plus and minus the k-th smallest absolute error of rows that the machine has not seen; ascending
    scores.
    """
    k = rank(coverage, int(scores.shape[0]))
    reach = float("inf") if k > scores.shape[0] else float(scores[k - 1])
    return namespace_of(fitted).stack([fitted - reach, fitted + reach], axis=-1)  # type: ignore[no-any-return]


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


def gaussian_ends(fitted: Array, deviations: Array, coverage: Any) -> Array:
    """Return f(x) plus and minus a normal quantile times the deviation."""
    from scipy.special import ndtri

    reach = float(ndtri(float((1 + exact_level(coverage)) * Fraction(1, 2)))) * deviations
    return namespace_of(fitted).stack([fitted - reach, fitted + reach], axis=-1)  # type: ignore[no-any-return]
