r"""Prediction intervals from scores of rows that a machine has not seen: jackknife+, CV+, conformal, split, Gaussian.

**Ranks.** Among n scores and the one to come, the score that bounds a share c of them has the rank

.. math:: k = \lceil c \, (n + 1) \rceil

([Vovk2005]_). In floating point 0.9 times 10 may be 9.000000000000002, whose ceiling is 10: the rank would be wrong at
the levels that are used most. So the level is read as the fraction of the decimal that prints it, 9/10, and the rank is
exact. A rank of n + 1 is an infinite end.

**Jackknife+ and CV+** ([Barber2021]_), without a refit. With the left-out residuals :math:`r_i` and machines
:math:`f^{(-i)}` below, and :math:`q_k\{\cdot\}` the k-th smallest,

.. math:: \big[\, q_{n+1-k}\{ f^{(-i)}(x) - |r_i| \},\; q_k\{ f^{(-i)}(x) + |r_i| \} \,\big] .

For exchangeable rows and a machine fixed in advance jackknife+ covers a new target with probability at least
:math:`2c - 1`, and about c in practice. CV+ is the same with machines without a fold in the place of those without a
row.

**Conformal.** Add the row (x, z) with the weight of the other rows. With c and p below, B the lower block of the
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
With p below a new target of weight one has the variance :math:`s^2 (\gamma\, p(x) + 1)`, and the evidence of y, the
bias integrated out, is largest at

.. math:: s^2 = \frac{y^T \alpha}{\gamma (n - 1)},

or with n - m in the place of n - 1 where m columns are not penalised (:mod:`~substrate.operators.border`).

**Influence.** How every training row moves the prediction at a new point, and with it all machines without one row,
is one matrix product. With the bordered matrix M of [Suykens2002]_ eq. (5),
:math:`D = \operatorname{diag}(1/(\gamma v))` on its diagonal, a new point x and :math:`q = (1, k(x_1, x), \dots, k(x_N,
x))`,

.. math:: M = \begin{bmatrix} 0 & 1^T \\ 1 & K + D \end{bmatrix}, \qquad c = M^{-1} q, \qquad
          f^{(-i)}(x) = f(x) - c_i r_i, \qquad r_i = \frac{\alpha_i}{(M^{-1})_{ii}},

where :math:`r_i` is the left-out residual (:mod:`substrate.left_out.leave_one_out`) and :math:`f^{(-i)}` the
machine without row i, bias included. :math:`c_i = \partial f(x) / \partial y_i` is the influence of the row. The number

.. math:: p(x) = k(x, x) - q^T c \ge 0

measures how far x is from the rows: :math:`p + 1/\gamma` is what an added row (x, z) of weight one leaves on the
diagonal of the factor, and :math:`\gamma s^2 p` is the variance of a Gaussian process at x.

Where further columns z are not penalised (:mod:`substrate.operators.border`), :math:`Z = [1, Q]` is in the place of
1 and :math:`q = (Z(x), k)`; a new point is then represented by its kernel values and, after them, z less its center.

In features :math:`\varphi` centred at their weighted mean, with :math:`P = \operatorname{diag}(\gamma v)` and
:math:`A = I + \Phi^T P \Phi`, the same numbers are

.. math:: c_i = P_{ii} \Big( \frac{1}{\operatorname{tr} P} + \varphi_i^T A^{-1} \varphi(x) \Big), \qquad
          p(x) = \frac{1}{\operatorname{tr} P} + \varphi(x)^T A^{-1} \varphi(x), \qquad
          (M^{-1})_{ii} = P_{ii} (1 - c_i(x_i)),

which is how machines on a reduced basis are computed.

A copy :math:`\tilde x_i` of row i, changed in some input, is predicted by the machine without row i with a single entry
of c, :math:`f(\tilde x_i) - c_i(\tilde x_i) r_i`, by a row of the inverse or by features: N changed rows cost N^2
operations where all entries would cost N^3.
"""

import math
import numbers
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from substrate.arrays import (
    Array,
    blas_threads,
    blocks_beside,
    namespace_of,
    on_device_of,
    paired_sums,
    partition,
    take_rows,
    to_numpy,
    zeros_beside,
)
from substrate.errors import DataError, DeclarationError
from substrate.operators.border import ONES, Border
from substrate.operators.gram import Gram

__all__ = [
    "FeatureInfluence",
    "Influence",
    "KernelInfluence",
    "LeftOutMachines",
    "conformal_ends",
    "cv_plus",
    "exact_level",
    "gaussian_ends",
    "jackknife_plus",
    "kernel_influence",
    "kth_smallest",
    "predict_copies",
    "rank",
    "split_ends",
]


@dataclass(frozen=True)
class KernelInfluence:
    r"""By the inverse of K + D and its border Z: with :math:`H = (K + D)^{-1} Z` and :math:`S = Z^T H`,

    .. math:: b = S^{-1} (H^T k - Z(x)), \qquad c = (K + D)^{-1} (k - Z b), \qquad
              p = k(x, x) - (k - Z b)^T c - 2 Z(x)^T b .

    ``represent`` computes kernel values k of points with the rows, and the columns of the border after them; ``root``
    is W with :math:`(K + D)^{-1} = W^T W`, by which p keeps its digits, or the inverse itself where K + D is not
    positive definite; ``share`` is :math:`H S^{-1}`, ``columns`` Z and ``inverse`` :math:`S^{-1}`. ``kept`` are the
    rows that may be left out, None: all.
    """

    represent: Callable[[Any], Array]
    root: Array
    triangular: bool
    share: Array
    diagonal: Array
    border: Border
    columns: Array
    inverse: Array
    kept: Any = None

    def restrict(self, rows: Any) -> "KernelInfluence":
        """Return the influence of some of the rows, those that may be left out."""
        return replace(self, diagonal=self.diagonal[rows], kept=rows)

    def at(self, rows: Array, diagonal: Array) -> tuple[Array, Array]:
        """Return one triangular product for p, another for c, in the memory of the kernel values."""
        rows, b = self._shift(rows)
        if not self.triangular:
            c = rows @ self.root
            squares = paired_sums(rows, c, 1)
        else:
            with blas_threads(self.share.shape[0]):
                half = rows @ self.root.T
                c, squares = half @ self.root, paired_sums(half, half, 1)
        p = namespace_of(c).clip(diagonal - squares - 2.0 * b, min=0.0)  # it is not negative, up to rounding
        return c if self.kept is None else take_rows(c.T, self.kept).T, p

    def own(self, which: Any, rows: Array) -> Array:
        """Return products of rows of the inverse, as many operations as kernel values."""
        shifted, _ = self._shift(rows)
        c: Array = paired_sums(take_rows(self._inverse, which), shifted, 1)
        return c

    @cached_property
    def _inverse(self) -> Array:
        """The inverse itself, of which single entries of c need a row each."""
        if not self.triangular:
            return self.root
        with blas_threads(self.share.shape[0]):
            inverse: Array = self.root.T @ self.root
        return inverse

    def _shift(self, rows: Array) -> tuple[Array, Array]:
        """Return k - Z b, and Z(x)'b."""
        n = int(self.columns.shape[0])
        k = namespace_of(rows).asarray(rows[:, :n], copy=True)
        border_rows = self.border.line(rows[:, n:])
        b = k @ self.share - border_rows @ self.inverse
        k -= b @ self.columns.T
        return k, paired_sums(b, border_rows, 1)


@dataclass(frozen=True, slots=True)
class FeatureInfluence:
    """``rows`` are psi_i with psi(x)'psi(z) = phi(x)'A^{-1} phi(z), which ``represent`` computes; ``pulls`` gamma v."""

    represent: Callable[[Any], Array]
    rows: Array
    pulls: Array

    @property
    def constant(self) -> float:
        """Return one over the sum of the pulls."""
        return 1.0 / float(namespace_of(self.pulls).sum(self.pulls))

    @property
    def leverages(self) -> Array:
        """Return c_i at every row itself."""
        leverages: Array = self.pulls * (self.constant + paired_sums(self.rows, self.rows, 1))
        return leverages

    @property
    def diagonal(self) -> Array:
        """Return P_ii (1 - h_i)."""
        diagonal: Array = self.pulls * (1.0 - self.leverages)
        return diagonal

    def at(self, rows: Array, diagonal: Array) -> tuple[Array, Array]:
        """Return p and c from psi of the new points; k(x, x) is not needed."""
        with blas_threads(self.rows.shape[0]):
            c = rows @ self.rows.T
        c += self.constant
        c *= self.pulls
        return c, self.constant + paired_sums(rows, rows, 1)

    def own(self, which: Any, rows: Array) -> Array:
        """Return the influence of the copies on themselves, from their psi."""
        c: Array = self.constant + paired_sums(take_rows(self.rows, which), rows, 1)
        return take_rows(self.pulls, which) * c  # type: ignore[no-any-return]


#: The inverse of a machine's system, as far as predictions at new points need it.
Influence = KernelInfluence | FeatureInfluence


def kernel_influence(
    gram: Gram, ridge: Array, represent: Callable[[Any], Array], border: Border = ONES
) -> KernelInfluence:
    """Compute the influence from a Gram matrix, which is factored, and the diagonal 1/(gamma v)."""
    gram.factorize(ridge)
    Z = border.matrix(ridge[:, None])
    eliminated = border.eliminate(gram.solve(Z))
    factor = gram.inverse_factor()
    root, triangular = (gram.inverse(), False) if factor is None else (factor, True)
    inverse_diagonal = paired_sums(root, root, 0) if triangular else namespace_of(root).linalg.diagonal(root)
    return KernelInfluence(
        represent=represent,
        root=root,
        triangular=triangular,
        share=eliminated.share,
        diagonal=border.without_rows(inverse_diagonal - eliminated.diagonal, ridge),
        border=border,
        columns=Z,
        inverse=on_device_of(Z, eliminated.inverse),
    )


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
