r"""Feature vector selection, the greedy basis of Baudat and Anouar, and backward elimination of Cawley and Talbot.

.. math:: J(S) = \frac1m \sum_{i=1}^m \frac{k_{Si}^T K_{SS}^{-1} k_{Si}}{k_{ii}}

is maximised one vector at a time ([Baudat2001]_, [Cawley2004]_ eq. (4)-(5)). With :math:`R` the remainder of the kernel
between candidates and scoring rows after projection on the chosen vectors, candidate c adds
:math:`\frac1m \sum_i R_{ci}^2 / (R_{cc} k_{ii})`. R changes by one rank-one term per step, so a step costs one product
with the kernel block instead of a new inverse. With all rows as candidates and scoring rows this is the published rule
exactly.

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

from substrate.arrays import EPS, Array, check_memory
from substrate.closed_form.saddle_system import target_unit
from substrate.namespaces import to_numpy
from substrate.reduced.candidates import Candidates, Chosen
from substrate.reduced.features import eigen_features
from substrate.reduced.moments import MomentsOfLeaf, origin_of
from substrate.reduced.rows import KernelRows, KernelValues
from substrate.streaming.passes import OpenPasses
from substrate.streaming.source import Source
from substrate.threads import blas_threads

__all__ = ["select_by_pruning", "select_feature_vectors"]

#: Gains this close, relatively, are equal: the earlier candidate then goes first.
_TIE = 1e-9
#: Remaining share of a gain below which its digits are not reliable.
_CANCELLED = 1e-8


def select_feature_vectors(candidates: Candidates, count: int, tolerance: float = 0.0) -> Chosen:
    """Choose up to ``count`` of the candidates; stop where the mean reconstruction error is at ``tolerance``.

    :equation [Cawley2004]_ (5): greedy selection by the mean reconstruction
    """
    rows, scoring = candidates.rows, candidates.scoring
    whole = candidates.diagonal(scoring)
    own = candidates.diagonal(rows)
    left = _Left(_scaled(candidates.block(rows, scoring), whole), count)
    # below this share of its size a candidate is the rounding of the terms subtracted from it
    floor = rows.size * EPS * float(own.max(initial=0.0))
    outside = own > floor
    chosen: list[int] = []
    error = float((whole > 0.0).mean())
    while len(chosen) < count:
        if error <= tolerance and tolerance > 0.0:  # at zero only a complete basis ends it
            return Chosen(rows[chosen], f"a mean reconstruction error of {max(error, 0.0):.2e}")
        if not outside.any():
            return Chosen(rows[chosen], "a complete basis")
        worth = np.where(outside, left.gains / np.where(outside, own, 1.0), -np.inf)
        best = int(np.flatnonzero(worth >= worth.max() * (1.0 - _TIE))[0])
        column = left.take(best, candidates.block(rows, rows[[best]])[:, 0], float(own[best]))
        own = own - column**2
        own[best] = 0.0
        outside &= own > floor
        error -= float(worth[best]) / scoring.size
        chosen.append(best)
    return Chosen(rows[chosen], f"{count} vectors")


def _scaled(K: Array, whole: Array) -> Array:
    """Kernel values over the root of k_ii, one column per scoring row; a zero feature vector gives zeros."""
    K /= np.sqrt(np.where(whole > 0.0, whole, np.inf))
    return K


class _Left:
    """The remainder R of the kernel, as the kernel itself and the rank-one terms subtracted from it.

    R itself is never formed: one product with the kernel per step is half the traffic of an update of R.
    """

    def __init__(self, K: Array, count: int) -> None:
        self.K = K
        self.columns, self.rows = np.zeros((count, K.shape[0])), np.zeros((count, K.shape[1]))
        self.gains = np.einsum("ij,ij->i", K, K)
        self.known = self.gains.copy()  # their values when last computed from R
        self.size = 0

    def _row(self, i: Any) -> Array:
        k = self.size
        return np.asarray(self.K[i] - self.columns[:k, i].T @ self.rows[:k])

    def take(self, best: int, kernel_column: Array, own: float) -> Array:
        """Subtract the candidate ``best``; returns the column of R, over its root."""
        k = self.size
        column = (kernel_column - self.columns[:k].T @ self.columns[:k, best]) / np.sqrt(own)
        row = self._row(best) / np.sqrt(own)
        product = self.K @ row - self.columns[:k].T @ (self.rows[:k] @ row)
        self.gains += column * (column * float(row @ row) - 2.0 * product)
        self.columns[k], self.rows[k] = column, row
        self.size = k + 1
        (poor,) = np.nonzero(self.gains < _CANCELLED * self.known)  # too much has cancelled: these are recomputed
        if poor.size:
            self.gains[poor] = self.known[poor] = np.square(self._row(poor)).sum(axis=1)
        return np.asarray(column)


#: Share of the vectors dropped at a time, at least one.
STEP = 0.05


def select_by_pruning(candidates: Candidates, source: Source, passes: OpenPasses, count: int, lam: float) -> Chosen:
    """Drop candidates until ``count`` are left; the source has all rows and their targets, one column per output.

    :place [Cawley2002]_ section 2, backward elimination: the basis by the size of beta
    """
    rows = candidates.rows
    n = rows.size
    check_memory(56.0 * n * n, f"the sums over {n} candidates", "take fewer candidates, by n_candidates.")
    K = candidates.block(rows, rows)
    K = (K + K.T) / 2.0
    points = rows if candidates.kernel is None else source.beside(candidates.X[rows])
    every = KernelRows(KernelValues(candidates.kernel, points), source, passes.shared(source, n))
    known = every.target_summary()
    origin = origin_of(source.beside(K), known, target_unit(known.extremes))
    total, _ = every.sums(MomentsOfLeaf(every.values, origin), "sums over the candidates").moments()
    centred = total.about(total.first / total.mass, total.targets / total.mass)
    second, cross = to_numpy(centred.second), to_numpy(centred.cross)
    kept, steps = np.arange(n), 0
    with blas_threads(n):
        while kept.size > count:
            here = np.ix_(kept, kept)
            T = eigen_features(K[here]).transform
            inner = T.T @ second[here] @ T
            inner[np.diag_indices(inner.shape[0])] += lam
            beta = T @ np.linalg.solve(inner, T.T @ cross[kept])
            leaving = min(max(1, int(STEP * kept.size)), kept.size - count)
            sizes = np.linalg.norm(beta, axis=1)
            kept = np.delete(kept, np.argsort(sizes, kind="stable")[:leaving])
            steps += 1
    return Chosen(rows[kept], f"{n} candidates down to {count} in {steps} steps")
