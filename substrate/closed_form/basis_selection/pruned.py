r"""Backward elimination: the improved pruning of Cawley and Talbot.

.. math:: \text{fit on S with the errors of all rows, drop the smallest } |\beta_j|, \text{ fit again}

([Cawley2002]_ section 2.) The sums over all rows are taken once, for all candidates; a smaller basis needs a part of
them only, so going from c to n vectors in steps of 5 % costs :math:`O(l c^2 + c^3)` in all, not
:math:`O(l^4)`. Where inputs tie beta is not unique; the one of least norm in the features is ranked.
"""

from typing import Any

import numpy as np

from substrate.arrays import Array, check_memory
from substrate.closed_form.basis_selection.candidates import Candidates, Chosen
from substrate.closed_form.eigen_features import eigen_features
from substrate.threads import blas_threads

__all__ = ["select_by_pruning"]

#: Share of the vectors that leaves at a time, at least one.
STEP = 0.05
_BLOCK = 512


def select_by_pruning(candidates: Candidates, Y: Array, all_rows: Any, count: int, lam: float) -> Chosen:
    """Drop candidates until ``count`` are left; ``Y`` are the targets of all rows, a column an output.

    :place [Cawley2002]_ section 2, backward elimination: the basis by the size of beta
    """
    rows = candidates.rows
    n = rows.size
    check_memory(32.0 * n * n, f"the sums over {n} candidates", "take fewer candidates, by n_candidates.")
    K = candidates.block(rows, rows)
    K = (K + K.T) / 2.0
    centre, mean = K.mean(axis=0), Y.mean(axis=0)
    second, first, cross = np.zeros((n, n)), np.zeros(n), np.zeros((n, Y.shape[1]))
    with blas_threads(n):
        for start in range(0, len(all_rows), _BLOCK):
            some = all_rows[start : start + _BLOCK]
            block = candidates.block(some, rows) - centre
            second += block.T @ block
            first += block.sum(axis=0)
            cross += block.T @ (Y[some] - mean)
        second -= np.outer(first, first) / len(all_rows)
        kept, steps = np.arange(n), 0
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
