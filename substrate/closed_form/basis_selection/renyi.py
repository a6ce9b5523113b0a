r"""A basis of large quadratic Renyi entropy, as fixed-size LS-SVMs choose theirs.

.. math:: H(S) = -\log \frac{1}{n^2} \sum_{i, j \in S} k(x_i, x_j)

A first set is drawn by lot; then one of its vectors and one candidate change places whenever that raises H
([Suykens2002b]_ chapter 6, [DeBrabanter2010]_). One trial costs two columns of n kernel values.
"""

from typing import Any

from substrate.closed_form.basis_selection.candidates import Candidates, Chosen

__all__ = ["select_by_entropy"]

#: Trials a vector of the basis; entropy changes little after that.
TRIALS = 10
#: Trials whose kernel values are computed together.
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
        own = candidates.diagonal(outside[places])
        for place, column, k in zip(places, columns, own, strict=True):
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
            # later columns of this draw meet the newcomer too
            columns[:, out] = candidates.block(outside[places], inside[[out]])[:, 0]
            swaps += 1
    return Chosen(inside, f"{swaps} swaps in {trials} trials")
