r"""Jackknife+ and CV+ intervals of [Barber2021]_, without a refit.

With the left-out residuals :math:`r_i` and machines :math:`f^{(-i)}` of :mod:`~substrate.uncertainty.influence`,
:math:`k = \lceil c (n + 1) \rceil` (:mod:`~substrate.uncertainty.levels`) and :math:`q_k\{\cdot\}` the k-th smallest,

.. math:: \big[\, q_{n+1-k}\{ f^{(-i)}(x) - |r_i| \},\; q_k\{ f^{(-i)}(x) + |r_i| \} \,\big] .

For exchangeable rows and a machine fixed in advance jackknife+ covers a new target with probability at least
:math:`2c - 1`, and about c in practice. A rank of n + 1 is an infinite end. CV+
is the same with machines without a fold in the place of those without a row.
"""

from collections.abc import Iterable
from typing import Any

from substrate.arrays import Array
from substrate.namespaces import blocks_beside, namespace_of, zeros_beside
from substrate.uncertainty.influence import LeftOutMachines, ShiftBlock
from substrate.uncertainty.levels import kth_smallest, rank

__all__ = ["cv_plus", "jackknife_plus", "plus_ends"]


def jackknife_plus(machines: LeftOutMachines, fitted: Array | None, X: Any, diagonal: Array, coverage: Any) -> Array:
    """Lower and upper ends, one line per new point; ``fitted`` are the predictions there, if the machines have no bias.

    :place [Barber2021]_ jackknife+: the interval from left-out machines and residuals
    """
    return plus_ends(machines.shifts(X, diagonal, fitted), machines.residuals, int(X.shape[0]), coverage)


def plus_ends(blocks: Iterable[ShiftBlock], residuals: Array, n_points: int, coverage: Any) -> Array:
    """Return the ends of jackknife+ from predictions without each row, and the left-out residuals of the rows.

    Where the blocks have stretches, a score is the residual over the deviation that the machine without the row states
    there, and is multiplied by that at the new point: the theorem is about any score by which a machine orders targets
    ([Gupta2022]_).
    """
    n = int(residuals.shape[0])
    k, size = rank(coverage, n), namespace_of(residuals).abs(residuals)
    ends = zeros_beside(residuals, (n_points, 2))
    for block, f, shifts, stretches in blocks:
        reach = size if stretches is None else size * stretches
        ends[block, 0] = f + kth_smallest(shifts - reach, n + 1 - k)
        ends[block, 1] = f + kth_smallest(shifts + reach, k)
    return ends  # type: ignore[no-any-return]


def cv_plus(outputs: Array, folds: Any, scores: Array, coverage: Any, spreads: Array | None = None) -> Array:
    """Lower and upper ends, one line per new point, from what K machines predict there, one column each.

    ``folds`` has the number of the machine that has not seen each row, ``scores`` the absolute error of the row in it.
    With ``spreads`` of the machines at the new points, one column each, scores are errors over the spread of their
    machine, and are multiplied by it here: the theorem is about any score by which a machine without a fold orders
    targets ([Gupta2022]_).

    :place [Barber2021]_ CV+: the interval from machines without folds
    """
    n, k = int(scores.shape[0]), rank(coverage, int(scores.shape[0]))
    xp = namespace_of(outputs)
    ends = zeros_beside(outputs, (int(outputs.shape[0]), 2))
    for block in blocks_beside(outputs, int(outputs.shape[0]), n):
        centers = outputs[block, :][:, folds]
        reach = scores if spreads is None else scores * spreads[block, :][:, folds]
        ends[block, :] = xp.stack([kth_smallest(centers - reach, n + 1 - k), kth_smallest(centers + reach, k)], axis=-1)
    return ends  # type: ignore[no-any-return]
