r"""Candidate rows, the rows by which they are scored, and the rules of selection that need one column at a time.

*Pivoted Cholesky*: at each step the pivot is the point farthest from the span of the chosen ones. The largest remaining
diagonal entry is the largest squared reconstruction error, so this is the greedy rule for the worst point, as
:mod:`~substrate.reduced.feature_vectors` is the one for the mean ([Harbrecht2012]_).

*k-means++ seeding* in feature space: points are drawn in proportion to their squared distance from the chosen ones,

.. math:: \|\varphi(x) - \varphi(z)\|^2 = k(x, x) - 2 k(x, z) + k(z, z)

([Arthur2007]_.) A step needs one column of kernel values over all candidates, and memory for two numbers per candidate.

*Quadratic Renyi entropy*, as in fixed-size LS-SVMs:

.. math:: H(S) = -\log \frac{1}{n^2} \sum_{i, j \in S} k(x_i, x_j)

A first set is drawn at random; then one of its vectors and one candidate are exchanged whenever that raises H
([Suykens2002b]_ chapter 6, [DeBrabanter2010]_). One trial costs two columns of n kernel values.

*Random candidates*: the greedy rule of :mod:`~substrate.reduced.feature_vectors` examines every candidate at
every step; here it examines ``DRAWN`` of them, drawn at random at every step: with 59 the best of the draw is, with a
probability of 95 %, among the best twentieth of all ([Smola2000]_; [Cawley2002b]_ for this use). Memory and work do not
depend on the number of candidates.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array, check_memory
from substrate.certificates.rounding import rank_cutoff, relative_rounding
from substrate.namespaces import HOST, to_numpy
from substrate.operators import SymmetricOperator
from substrate.streaming.source import Source

__all__ = [
    "DRAWN",
    "Candidates",
    "Chosen",
    "SampledRows",
    "sample_of",
    "select_by_entropy",
    "select_pivots",
    "select_spread",
    "select_stochastically",
]

Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Rows in the order of choice, and the reason why the choice ended."""

    rows: Rows
    ended: str


@dataclass(frozen=True, slots=True)
class Candidates:
    """Rows to choose from and rows to score by, of a kernel matrix that may be in memory or computed where needed."""

    matrix: SymmetricOperator
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
        return self.matrix.diagonal_at(rows)


def select_pivots(candidates: Candidates, count: int, tolerance: float = 0.0) -> Chosen:
    """Choose up to ``count``; stop where the mean relative diagonal left is at ``tolerance``, or nothing is left."""
    rows = candidates.rows
    diagonal = candidates.diagonal(rows)
    whole = np.where(diagonal > 0.0, diagonal, 1.0)
    floor = rank_cutoff(max(rows.size, 1)) * float(diagonal.max(initial=0.0))
    L = np.zeros((count, rows.size))
    column_of = candidates.columns()
    chosen: list[int] = []
    remaining = diagonal.copy()
    while len(chosen) < count:
        k, pivot = len(chosen), int(remaining.argmax())
        if remaining[pivot] <= floor:
            return Chosen(rows[chosen], "a complete basis")
        error = float(np.mean(remaining / whole))
        if error <= tolerance and tolerance > 0.0:  # at zero only a complete basis ends it
            return Chosen(rows[chosen], f"a mean reconstruction error of {error:.2e}")
        column = column_of(pivot) - L[:k].T @ L[:k, pivot]
        L[k] = column / np.sqrt(remaining[pivot])
        remaining = np.maximum(remaining - L[k] ** 2, 0.0)
        remaining[pivot] = 0.0
        chosen.append(pivot)
    return Chosen(rows[chosen], f"{count} vectors")


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
            # the change of the sum of all entries when row and column ``out`` become those of the candidate
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


DRAWN = 59


def select_stochastically(candidates: Candidates, count: int, generator: Any, tolerance: float = 0.0) -> Chosen:
    """Choose up to ``count``; three consecutive draws without a vector outside the span end the choice."""
    rows, scoring = candidates.rows, candidates.scoring
    whole = candidates.diagonal(scoring)
    scale = 1.0 / np.sqrt(np.where(whole > 0.0, whole, np.inf))
    remaining = rows.copy()
    chosen: list[int] = []
    L = np.zeros((count, count))  # Cholesky factor of the kernel matrix of the chosen ones
    Z = np.zeros((count, scoring.size))  # features of the scoring rows
    error, in_vain = float((whole > 0.0).mean()), 0
    while len(chosen) < count and remaining.size and in_vain < 3:
        if error <= tolerance and tolerance > 0.0:  # at zero only a complete basis ends it
            return Chosen(np.array(chosen, dtype=np.intp), f"a mean reconstruction error of {max(error, 0.0):.2e}")
        k = len(chosen)
        drawn = generator.choice(remaining.size, size=min(DRAWN, remaining.size), replace=False)
        trial = remaining[drawn]
        features = _features(candidates, trial, chosen, L[:k, :k])
        diagonal = candidates.diagonal(trial)
        residual_diagonal = diagonal - np.square(features).sum(axis=1)
        outside = residual_diagonal > rank_cutoff(rows.size) * diagonal.max(initial=0.0)
        if not outside.any():
            in_vain += 1
            continue
        in_vain = 0
        R = (candidates.block(trial, scoring) - features @ Z[:k]) * scale
        gains = np.where(outside, np.square(R).sum(axis=1) / np.where(outside, residual_diagonal, 1.0), -np.inf)
        best = int(gains.argmax())
        L[k, :k], L[k, k] = features[best], np.sqrt(residual_diagonal[best])
        Z[k] = R[best] / scale.clip(np.finfo(float).tiny) / L[k, k]
        chosen.append(int(trial[best]))
        remaining = np.delete(remaining, drawn[best])
        error -= float(gains[best]) / scoring.size
    ended = f"{count} vectors" if len(chosen) == count else "draws without a vector outside the span"
    return Chosen(np.array(chosen, dtype=np.intp), ended)


def _features(candidates: Candidates, trial: Any, chosen: list[int], L: Any) -> Any:
    from scipy.linalg import solve_triangular

    if not chosen:
        return np.zeros((len(trial), 0))
    return solve_triangular(L, candidates.block(np.array(chosen), trial), lower=True, check_finite=False).T


@dataclass(frozen=True, slots=True)
class SampledRows:
    """Rows in ascending order of their numbers; indexing takes the numbers they have in the source."""

    numbers: Any
    X: Any

    def __getitem__(self, rows: Any) -> Any:
        places = np.searchsorted(self.numbers, rows)
        if not np.array_equal(self.numbers[np.minimum(places, self.numbers.size - 1)], rows):
            raise KeyError("a row that is not in the sample")
        return self.X[places]


def sample_of(source: Source, *numbers: Any) -> Any:
    """Return rows on the host, available by the given numbers; numpy's rows, which need no reading, by any."""
    if source.block_in_memory is not None and source.home == HOST:
        return source.block_in_memory.X
    wanted = np.unique(np.concatenate(numbers))
    return SampledRows(wanted, to_numpy(source.take_rows(wanted)))
