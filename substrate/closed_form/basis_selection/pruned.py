r"""Backward elimination: the improved pruning of Cawley and Talbot.

.. math:: \text{fit on S with the errors of all rows, drop the smallest } |\beta_j|, \text{ fit again}

([Cawley2002]_ section 2.) The sums over all rows are taken once, for all candidates, in a pass that reads them from
wherever they are; a smaller basis needs a part of them only, so going from c to n vectors in steps of 5 % costs
:math:`O(l c^2 + c^3)` in all, not :math:`O(l^4)`. Where inputs tie beta is not unique; the one of least norm in the
features is ranked.
"""

import numpy as np

from substrate.arrays import check_memory
from substrate.closed_form.basis_selection.candidates import Candidates, Chosen
from substrate.closed_form.eigen_features import eigen_features
from substrate.closed_form.kernel_rows import KernelRows, KernelValues
from substrate.closed_form.moment_sums import MomentsOfLeaf
from substrate.closed_form.moments import origin_of
from substrate.closed_form.saddle_system import target_unit
from substrate.streaming.passes import Passes
from substrate.streaming.source import Source
from substrate.threads import blas_threads

__all__ = ["select_by_pruning"]

#: Share of the vectors that leaves at a time, at least one.
STEP = 0.05


def select_by_pruning(candidates: Candidates, source: Source, passes: Passes, count: int, lam: float) -> Chosen:
    """Drop candidates until ``count`` are left; the source has all rows and their targets, a column each output.

    :place [Cawley2002]_ section 2, backward elimination: the basis by the size of beta
    """
    rows = candidates.rows
    n = rows.size
    check_memory(56.0 * n * n, f"the sums over {n} candidates", "take fewer candidates, by n_candidates.")
    K = candidates.block(rows, rows)
    K = (K + K.T) / 2.0
    points = rows if candidates.kernel is None else candidates.X[rows]
    every = KernelRows(KernelValues(candidates.kernel, points), source, passes.shared(source, n))
    known = every.target_summary()
    origin = origin_of(K, known, target_unit(known.extremes))
    total, _ = every.sums(MomentsOfLeaf(every.values, origin), "sums over the candidates").moments()
    centred = total.about(total.first / total.mass, total.targets / total.mass)
    kept, steps = np.arange(n), 0
    with blas_threads(n):
        while kept.size > count:
            here = np.ix_(kept, kept)
            T = eigen_features(K[here]).transform
            inner = T.T @ centred.second[here] @ T
            inner[np.diag_indices(inner.shape[0])] += lam
            beta = T @ np.linalg.solve(inner, T.T @ centred.cross[kept])
            leaving = min(max(1, int(STEP * kept.size)), kept.size - count)
            sizes = np.linalg.norm(beta, axis=1)
            kept = np.delete(kept, np.argsort(sizes, kind="stable")[:leaving])
            steps += 1
    return Chosen(rows[kept], f"{n} candidates down to {count} in {steps} steps")
