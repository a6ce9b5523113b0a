r"""Feature vector selection, the greedy basis of Baudat and Anouar, and backward elimination of Cawley and Talbot.

.. math:: J(S) = \frac1m \sum_{i=1}^m \frac{k_{Si}^T K_{SS}^{-1} k_{Si}}{k_{ii}}

is maximised one vector at a time ([Baudat2001]_, [Cawley2004]_ eq. (4)-(5)). With :math:`R` the remainder of the kernel
between candidates and scoring rows after projection on the chosen vectors, candidate c adds
:math:`\frac1m \sum_i R_{ci}^2 / (R_{cc} k_{ii})`. R changes by one rank-one term per step, so a step costs one product
with the kernel block, or with the few rows of it that count, instead of a new inverse. With all rows as candidates and
scoring rows this is the published rule exactly.

It ends at the given number, at a mean reconstruction error :math:`1 - J`, or where no candidate is left outside the
span of the chosen ones, when the basis is complete.

Backward elimination is the improved pruning of Cawley and Talbot:

.. math:: \text{fit on S with the errors of all rows, drop the smallest } |\beta_j|, \text{ fit again}

([Cawley2002]_ section 2.) The sums over all rows are computed once, for all candidates, in one pass over the source; a
smaller basis needs only a part of them, so going from c to n vectors in steps of 5 % costs :math:`O(l c^2 + c^3)` in
all, not :math:`O(l^4)`. Where inputs tie beta is not unique; the one of least norm in the features is ranked.
"""

from typing import Any

import numpy as np

from substrate.arrays import Array, check_memory
from substrate.certificates.rounding import rank_cutoff
from substrate.least_squares.saddle_system import target_unit
from substrate.namespaces import to_numpy
from substrate.reduced.candidates import Candidates, Chosen
from substrate.reduced.features import eigen_features
from substrate.reduced.moments import MomentsOfLeaf, origin_of
from substrate.reduced.rows import KernelRows
from substrate.threads import blas_threads

__all__ = ["select_by_pruning", "select_feature_vectors"]

#: Gains this close, relatively, are equal: the earlier candidate then goes first.
_TIE = 1e-9
#: Remaining share of a gain below which its digits are not reliable.
_CANCELLED = 1e-8
#: Relative size of an error that is that of rounding.
_EXACT = 1e-12
#: Entries below this share of the root mean square are left out of a product, where few are left.
_FAINT = 1e-3
#: One in so many: scoring rows that are few, and candidates.
_FEW = 8
#: Number of candidates whose gains are computed again at first, those of the largest bounds.
_AT_ONCE = 4


def select_feature_vectors(candidates: Candidates, count: int, tolerance: float = 0.0) -> Chosen:
    """Choose up to ``count`` of the candidates; stop where the mean reconstruction error is at ``tolerance``.

    :equation [Cawley2004]_ (5): greedy selection by the mean reconstruction
    """
    rows, scoring = candidates.rows, candidates.scoring
    whole = candidates.diagonal(scoring)
    diagonal = candidates.diagonal(rows)
    column_of = candidates.columns()
    remaining = _RemainingVectors(_gap_at_multiple(candidates.block(scoring, rows), whole), count)
    # below this share of its size a candidate is the rounding of the terms subtracted from it
    floor = rank_cutoff(rows.size) * float(diagonal.max(initial=0.0))
    outside = diagonal > floor
    chosen: list[int] = []
    error = float((whole > 0.0).mean())
    while len(chosen) < count:
        if error <= tolerance and tolerance > 0.0:  # at zero only a complete basis ends it
            return Chosen(rows[chosen], f"a mean reconstruction error of {max(error, 0.0):.2e}")
        if not outside.any():
            return Chosen(rows[chosen], "a complete basis")
        best, gain = remaining.best(np.where(outside, diagonal, np.inf))
        column = remaining.take(best, column_of(best), float(diagonal[best]))
        diagonal = diagonal - column**2
        diagonal[best] = 0.0
        outside &= diagonal > floor
        error -= gain / scoring.size
        chosen.append(best)
    return Chosen(rows[chosen], f"{count} vectors")


def _gap_at_multiple(K: Array, whole: Array) -> Array:
    """Return kernel values over the root of k_ii, one row per scoring row; a zero feature vector gives zeros."""
    if (whole != 1.0).any():
        K /= np.sqrt(np.where(whole > 0.0, whole, np.inf))[:, None]
    return K


def _squares(matrix: Array) -> Array:
    """Return the squared lengths of columns."""
    return np.asarray(np.einsum("ij,ij->j", matrix, matrix))


class _RemainingVectors:
    r"""The remainder R of the kernel, as the kernel itself and the rank-one terms subtracted from it.

    R itself is never formed. With :math:`a r^T` the new term, a over the candidates and r over the scoring rows, the
    gain :math:`\|R_c\|^2` of a candidate changes by :math:`a_c (a_c \|r\|^2 - 2 R_c^T r)`: one product with the kernel
    for all candidates. Where few entries of r count, since the kernel is local, the product is taken over those: with
    :math:`r'` the others, the gain is then known to :math:`2 |a_c| \|K_c\| \|r'\|`, the sum of which is kept, and it
    is computed again, from R, for the candidates that may be the best.
    """

    def __init__(self, K: Array, count: int) -> None:
        self.K = K  # one column per candidate
        self.columns, self.rows = np.zeros((count, K.shape[1])), np.zeros((count, K.shape[0]))
        self.gains = _squares(K)
        self.sizes = np.sqrt(self.gains)
        self.known = self.gains.copy()  # their values when last computed from R
        self.errors = np.zeros(K.shape[1])
        self.size, self.again = 0, 0

    def best(self, diagonal: Array) -> tuple[int, float]:
        """Return the candidate of the largest gain over ``own`` (infinite: none), the first of equal ones; and its
        worth.
        """
        exact = self.errors <= _EXACT * self.gains
        gains = np.where(exact, self.gains, 0.0) / diagonal
        most = np.where(exact, 0.0, self.gains + self.errors + _EXACT * self.known) / diagonal
        at_once, self.again = _AT_ONCE, 0
        while True:
            level = float(gains.max()) * (1.0 - _TIE)
            (open_still,) = np.nonzero(most >= level) if most.any() else (np.arange(0),)
            if open_still.size == 0:
                return int(np.flatnonzero((gains >= level) & (diagonal < np.inf))[0]), float(gains.max())
            if open_still.size > at_once:  # those of the largest bounds may settle it for the others
                open_still = open_still[np.argpartition(most[open_still], -at_once)[-at_once:]]
            self._compute(open_still)
            gains[open_still], most[open_still] = self.gains[open_still] / diagonal[open_still], 0.0
            self.again += open_still.size
            at_once *= 4

    def _compute(self, which: Any) -> None:
        """Compute the gains of some candidates from R."""
        self.gains[which] = self.known[which] = _squares(self._remainder(which))
        self.errors[which] = 0.0

    def _remainder(self, i: Any) -> Array:
        k = self.size
        return np.asarray(self.K[:, i] - self.rows[:k].T @ self.columns[:k, i])

    def take(self, best: int, kernel_column: Array, pivot: float) -> Array:
        """Subtract the candidate ``best``; returns the column of R, over its root."""
        k = self.size
        column = (kernel_column - self.columns[:k, best] @ self.columns[:k]) / np.sqrt(pivot)
        row = self._remainder(best) / np.sqrt(pivot)
        squared = float(row @ row)
        (large,) = np.nonzero(np.abs(row) > _FAINT * np.sqrt(squared / row.size))
        if max(large.size / row.size, self.again / column.size) * _FEW > 1.0:
            product = row @ self.K
        else:
            product, residual_row = row[large] @ self.K[large], row.copy()
            residual_row[large] = 0.0
            self.errors += 2.0 * float(np.linalg.norm(residual_row)) * self.sizes * np.abs(column)
        product -= (self.rows[:k] @ row) @ self.columns[:k]
        self.gains += column * (column * squared - 2.0 * product)
        self.columns[k], self.rows[k] = column, row
        self.size = k + 1
        self.gains[best], self.known[best] = 0.0, -1.0  # it is not computed again
        (poor,) = np.nonzero(self.gains < _CANCELLED * self.known)  # too much has cancelled: these are computed again
        if poor.size:
            self._compute(poor)
        return np.asarray(column)


#: Share of the vectors dropped at a time, at least one.
STEP = 0.05


def select_by_pruning(candidates: Candidates, every: KernelRows, count: int, lam: float) -> Chosen:
    """Drop candidates until ``count`` are left; ``every`` has all rows and their targets, with all candidates as basis.

    :place [Cawley2002]_ section 2, backward elimination: the basis by the size of beta
    """
    rows = candidates.rows
    n = rows.size
    check_memory(56.0 * n * n, f"the sums over {n} candidates", "take fewer candidates, by n_candidates.")
    K = candidates.block(rows, rows)
    K = (K + K.T) / 2.0
    summary = every.target_summary()
    origin = origin_of(every.source.beside(K), summary, target_unit(summary.extremes))
    total, _ = every.sums(MomentsOfLeaf(every.values, origin), "sums over the candidates").moments()
    centred = total.shift_to(total.first / total.mass, total.targets / total.mass)
    second, cross = to_numpy(centred.second), to_numpy(centred.cross)
    kept, steps = np.arange(n), 0
    with blas_threads(n):
        while kept.size > count:
            block = np.ix_(kept, kept)
            T = eigen_features(K[block]).transform
            inner = T.T @ second[block] @ T
            inner[np.diag_indices(inner.shape[0])] += lam
            beta = T @ np.linalg.solve(inner, T.T @ cross[kept])
            leaving = min(max(1, int(STEP * kept.size)), kept.size - count)
            sizes = np.linalg.norm(beta, axis=1)
            kept = np.delete(kept, np.argsort(sizes, kind="stable")[:leaving])
            steps += 1
    return Chosen(rows[kept], f"{n} candidates down to {count} in {steps} steps")
