r"""Rules that choose the vectors of a reduced basis among candidate rows.

*Feature vectors*, the greedy basis of Baudat and Anouar:

.. math:: J(S) = \frac1m \sum_{i=1}^m \frac{k_{Si}^T K_{SS}^{-1} k_{Si}}{k_{ii}}

is maximised one vector at a time ([Baudat2001]_, [Cawley2004]_ eq. (4)-(5)). With :math:`R` the remainder of the kernel
between candidates and scoring rows after projection on the chosen vectors, candidate c adds
:math:`\frac1m \sum_i R_{ci}^2 / (R_{cc} k_{ii})`. R changes by one rank-one term per step, so a step costs one product
with the kernel block instead of a new inverse. It ends at the given number, at a mean reconstruction error
:math:`1 - J`, or where no candidate is left outside the span of the chosen ones.

*Backward elimination* is the improved pruning of Cawley and Talbot ([Cawley2002]_ section 2): fit on S with the errors
of all rows, drop the smallest :math:`|\beta_j|`, fit again. The sums over all rows are computed once, for all
candidates, in one pass; a smaller basis needs only a part of them.

*k-means++ seeding* in feature space: points are drawn in proportion to their squared distance from the chosen ones,

.. math:: \|\varphi(x) - \varphi(z)\|^2 = k(x, x) - 2 k(x, z) + k(z, z)

([Arthur2007]_.) A step needs one column of kernel values over all candidates, and memory for two numbers per candidate.

*Quadratic Renyi entropy*, as in fixed-size LS-SVMs:

.. math:: H(S) = -\log \frac{1}{n^2} \sum_{i, j \in S} k(x_i, x_j)

A first set is drawn at random; then one of its vectors and one candidate are exchanged whenever that raises H
([Suykens2002b]_ chapter 6, [DeBrabanter2010]_). One trial costs two columns of n kernel values.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array, check_memory, to_numpy
from substrate.least_squares.saddle_system import target_unit
from substrate.numbers import rank_cutoff, relative_rounding
from substrate.operators import KernelOperator
from substrate.reduced.features import basis_features
from substrate.reduced.moments import origin_of, sum_moments
from substrate.reduced.rows import KernelRows
from substrate.threads import blas_threads

__all__ = [
    "Candidates",
    "Chosen",
    "select_by_entropy",
    "select_by_pruning",
    "select_feature_vectors",
    "select_spread",
]

#: Gains this close, relatively, are equal: the earlier candidate then goes first.
_TIE = 1e-9
#: Remaining share of a gain below which its digits are not reliable.
_CANCELLED = 1e-8

Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Rows in the order of choice, and the reason why the choice ended."""

    rows: Rows
    ended: str


@dataclass(frozen=True, slots=True)
class Candidates:
    """Rows to choose from and rows to score by, of a kernel matrix that may be in memory or computed where needed."""

    matrix: KernelOperator
    rows: Rows
    scoring: Rows

    def block(self, left: Any, right: Any) -> Array:
        """Return the kernel values between two sets of rows, refused before allocation when they cannot fit."""
        check_memory(
            8.0 * len(left) * len(right),
            f"a {len(left)} x {len(right)} block of kernel values",
            "take a more reduced set of candidates and scoring rows, by n_candidates and n_scoring.",
        )
        return self.matrix.block(left, right)

    def columns(self) -> Callable[[int], Array]:
        """Return the kernel values of all candidates with one of them, as a function of its place among them."""
        return self.matrix.columns(self.rows)

    def diagonal(self, rows: Any) -> Array:
        """Return the values k(x, x)."""
        return self.matrix.diagonal[rows]  # type: ignore[no-any-return]


def select_spread(candidates: Candidates, count: int, generator: Any) -> Chosen:
    """Choose up to ``count``; fewer where all others coincide with chosen ones."""
    rows = candidates.rows
    diagonal = candidates.diagonal(rows)
    chosen = [int(generator.choice(rows.size))]
    distances = np.full(rows.size, np.inf)
    column_of = candidates.columns()
    while len(chosen) < count:
        last = chosen[-1]
        column = column_of(last)
        np.minimum(distances, np.maximum(diagonal - 2.0 * column + diagonal[last], 0.0), out=distances)
        distances[last] = 0.0
        distances[distances <= relative_rounding(16.0) * diagonal[last]] = 0.0  # a chosen point, up to rounding
        sums = np.cumsum(distances)
        if not sums[-1] > 0.0:
            return Chosen(rows[chosen], "every candidate on a chosen point")
        chosen.append(int(np.searchsorted(sums, generator.random() * sums[-1], side="right")))
    return Chosen(rows[chosen], f"{count} vectors")


#: Trials per vector of the basis; the entropy changes little after that.
TRIALS = 10
#: Number of trials whose kernel values are computed together.
_AT_ONCE = 64


def select_by_entropy(candidates: Candidates, count: int, generator: Any) -> Chosen:
    """Choose ``count`` of the candidates."""
    rows = candidates.rows
    order = generator.permutation(rows.size)
    inside, outside = rows[order[:count]].copy(), rows[order[count:]].copy()
    if outside.size == 0:
        return Chosen(inside, "all candidates")
    K = candidates.block(inside, inside)
    sums = K.sum(axis=1)
    swaps, trials = 0, TRIALS * count
    for start in range(0, trials, _AT_ONCE):
        places = generator.choice(outside.size, size=min(_AT_ONCE, outside.size, trials - start), replace=False)
        columns = candidates.block(outside[places], inside)
        diagonal = candidates.diagonal(outside[places])
        for place, column, k in zip(places, columns, diagonal, strict=True):
            out = int(generator.choice(count))
            # the change of the sum of all entries when row and column ``out`` are replaced by the candidate's
            change = 2.0 * (column.sum() - column[out]) + k - (2.0 * (sums[out] - K[out, out]) + K[out, out])
            if change >= 0.0:
                continue
            fresh = column.copy()
            fresh[out] = k
            sums += fresh - K[out]
            K[out], K[:, out] = fresh, fresh
            sums[out] = fresh.sum()
            inside[out], outside[place] = outside[place], inside[out]
            # later columns of this draw include the new vector
            columns[:, out] = candidates.block(outside[places], inside[[out]])[:, 0]
            swaps += 1
    return Chosen(inside, f"{swaps} swaps in {trials} trials")


def select_feature_vectors(candidates: Candidates, count: int, tolerance: float = 0.0) -> Chosen:
    """Choose up to ``count`` of the candidates; stop where the mean reconstruction error is at ``tolerance``.

    :equation [Cawley2004]_ (5): greedy selection by the mean reconstruction
    """
    rows, scoring = candidates.rows, candidates.scoring
    whole, diagonal, column_of = candidates.diagonal(scoring), candidates.diagonal(rows), candidates.columns()
    K = candidates.block(scoring, rows)  # over the root of k_ii; a zero feature vector gives zeros
    K = K / np.sqrt(np.where(whole > 0.0, whole, np.inf))[:, None]
    # R is the kernel less rank-one terms; a gain that has lost its digits to them is computed again
    columns, lines = np.zeros((count, rows.size)), np.zeros((count, scoring.size))
    gains = np.square(K).sum(axis=0)
    sizes = gains.copy()
    # below this share of its size a candidate is the rounding of the terms subtracted from it
    floor = rank_cutoff(rows.size) * float(diagonal.max(initial=0.0))
    outside = diagonal > floor
    chosen: list[int] = []
    error = float((whole > 0.0).mean())
    while (k := len(chosen)) < count:
        if error <= tolerance and tolerance > 0.0:  # at zero only a complete basis ends it
            return Chosen(rows[chosen], f"a mean reconstruction error of {max(error, 0.0):.2e}")
        if not outside.any():
            return Chosen(rows[chosen], "a complete basis")
        worth = np.where(outside, gains / np.where(outside, diagonal, 1.0), -1.0)
        best, root = int(np.argmax(worth >= worth.max() * (1.0 - _TIE))), 0.0
        root = float(np.sqrt(diagonal[best]))
        columns[k] = (column_of(best) - columns[:k, best] @ columns[:k]) / root
        lines[k] = (K[:, best] - lines[:k].T @ columns[:k, best]) / root
        product = lines[k] @ K - (lines[:k] @ lines[k]) @ columns[:k]
        gains += columns[k] * (columns[k] * float(lines[k] @ lines[k]) - 2.0 * product)
        diagonal = diagonal - columns[k] ** 2
        outside &= diagonal > floor
        outside[best] = False
        error -= float(worth[best]) / scoring.size
        chosen.append(best)
        (poor,) = np.nonzero(outside & (gains < _CANCELLED * sizes))
        if poor.size:
            remainder = K[:, poor] - lines[: k + 1].T @ columns[: k + 1, poor]
            gains[poor] = sizes[poor] = np.square(remainder).sum(axis=0)
    return Chosen(rows[chosen], f"{count} vectors")


#: Share of the vectors dropped at a time, at least one.
_STEP = 0.05


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
    total, _ = every.sums(sum_moments, origin, None, None).moments()
    centred = total.shift_to(total.first / total.mass, total.targets / total.mass)
    second, cross = to_numpy(centred.second), to_numpy(centred.cross)
    kept, steps = np.arange(n), 0
    with blas_threads(n):
        while kept.size > count:
            block = np.ix_(kept, kept)
            T = basis_features(K[block]).transform
            inner = T.T @ second[block] @ T
            inner[np.diag_indices(inner.shape[0])] += lam
            beta = T @ np.linalg.solve(inner, T.T @ cross[kept])
            leaving = min(max(1, int(_STEP * kept.size)), kept.size - count)
            sizes = np.linalg.norm(beta, axis=1)
            kept = np.delete(kept, np.argsort(sizes, kind="stable")[:leaving])
            steps += 1
    return Chosen(rows[kept], f"{n} candidates down to {count} in {steps} steps")
