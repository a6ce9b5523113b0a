r"""Venn-Abers predictors: an interval of probabilities that is calibrated whatever the scores are.

For a new score s isotonic regression is fitted twice to the calibration scores and the new one, once as a row of the
class and once as another:

.. math:: p_1(s) = g_{(s, 1)}(s), \qquad p_0(s) = g_{(s, 0)}(s), \qquad p_0 \le p_1

One of the two is perfectly calibrated if rows are exchangeable ([Vovk2015]_, Theorem 1); as a single probability,
:math:`p_1 / (1 - p_0 + p_1)` has the smallest regret in log loss. With left-out scores of the training rows in place of
those of a calibration set, this is a cross Venn-Abers predictor, which is calibrated in practice and not by a theorem.

No regression is fitted again. With W and S the cumulated weights and those of the class, isotonic regression of the
first j scores ends with the block from ``left[j]`` to j and the one of the rest begins with the block from j to
``right[j]``; blocks before that one are those of ``left[left[j]]``, and so on. A new score is a block of its own
between the two, which absorbs its neighbours while their means are in the wrong order: the pooling of adjacent
violators, from the place where the new score is, in as many steps as blocks are absorbed.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.uncertainty.calibration import pool_scores

__all__ = ["MergedMap", "VennAbers", "merge_pairs"]


@dataclass(frozen=True)
class VennAbers:
    """The calibration scores, sorted and distinct, with the weight of all rows and of those of the class at each."""

    scores: Array
    weights: Array
    positive_weights: Array

    @classmethod
    def of(cls, scores: Array, positive: Any, weights: Array) -> "VennAbers":
        """Make the predictor from the scores of rows that are of the class, or not."""
        return cls(*pool_scores(scores, positive, weights))

    def __call__(self, scores: Array) -> Array:
        """Return the pairs (p0, p1), one row per score; the new row has weight one.

        :place [Vovk2015]_ Venn-Abers predictor: two isotonic regressions with the new row added
        """
        first = np.searchsorted(self.scores, scores, side="left")
        last = np.searchsorted(self.scores, scores, side="right")
        places, back = np.unique(np.column_stack([first, last]), axis=0, return_inverse=True)
        pairs = [[self._value(a, b, label) for label in (0.0, 1.0)] for a, b in places.tolist()]
        return np.array(pairs).reshape(-1, 2)[back.ravel()]

    @cached_property
    def _sums(self) -> tuple[list[float], list[float]]:
        """Return cumulated weights, of all rows and of those of the class."""
        W, S = (
            np.concatenate([[0.0], np.cumsum(amounts)]).tolist() for amounts in (self.weights, self.positive_weights)
        )
        return W, S

    @cached_property
    def _blocks(self) -> tuple[list[int], list[int]]:
        """Return where the last block of the first j scores begins, and where the first block of the others ends."""
        W, S = self._sums
        n = len(W) - 1
        before, after = list(range(-1, n)), list(range(1, n + 2))
        before[0], after[n] = 0, n
        for j in range(1, n + 1):
            a = j - 1
            while a > 0 and not _below(W, S, before[a], a, j):
                a = before[a]
            before[j] = a
        for j in range(n - 1, -1, -1):
            b = j + 1
            while b < n and not _below(W, S, j, b, after[b]):
                b = after[b]
            after[j] = b
        return before, after

    def _value(self, a: int, b: int, label: float) -> float:
        """Return the isotonic regression at a new row of this label, between the scores before a and from b on.

        From a to b are the scores that equal the new one, if there is one: they and the new row are one block.
        """
        (W, S), (before, after), n = self._sums, self._blocks, self.scores.size
        while True:
            weight, positive_weight = W[b] - W[a] + 1.0, S[b] - S[a] + label
            if a > 0 and (S[a] - S[before[a]]) * weight >= positive_weight * (W[a] - W[before[a]]):
                a = before[a]
            elif b < n and positive_weight * (W[after[b]] - W[b]) >= (S[after[b]] - S[b]) * weight:
                b = after[b]
            else:
                return min(max(positive_weight / weight, 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class MergedMap:
    """Scores to single probabilities, by the pairs of a Venn-Abers predictor."""

    pairs: VennAbers

    def __call__(self, scores: Array) -> Array:
        """Return the probability at each score."""
        return merge_pairs(self.pairs(scores))


def _below(W: list[float], S: list[float], a: int, b: int, c: int) -> bool:
    """Return whether the mean from a to b is below that from b to c."""
    return (S[b] - S[a]) * (W[c] - W[b]) < (S[c] - S[b]) * (W[b] - W[a])


def merge_pairs(pairs: Array) -> Array:
    """Return one probability for each pair: p1/(1 - p0 + p1)."""
    low, high = pairs[..., 0], pairs[..., 1]
    return np.asarray(high / (1.0 - low + high))
