r"""Feature vector selection: the greedy basis of Baudat and Anouar.

.. math:: J(S) = \frac1m \sum_{i=1}^m \frac{k_{Si}^T K_{SS}^{-1} k_{Si}}{k_{ii}}

is maximised one vector at a time ([Baudat2001]_, [Cawley2004]_ eq. (4)-(5)). With :math:`R` what the vectors chosen so
far leave of the kernel between candidates and scoring rows, candidate c adds
:math:`\frac1m \sum_i R_{ci}^2 / (R_{cc} k_{ii})`, and R is brought up to date by one rank-one step, so a step costs one
pass over R instead of a new inverse. With all rows as candidates and scoring rows this is the published rule exactly.

It ends at the number asked for, at a mean reconstruction error :math:`1 - J`, or where no candidate is left outside the
span of the chosen ones, when the basis is complete.
"""

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rows import EPS
from substrate.closed_form.basis_selection.candidates import Candidates, Chosen

__all__ = ["select_feature_vectors"]

#: Gains this close, relatively, are equal: the earlier candidate then goes first.
_TIE = 1e-9


def select_feature_vectors(candidates: Candidates, count: int, tolerance: float = 0.0) -> Chosen:
    """Choose up to ``count`` of the candidates; stop where the mean reconstruction error is at ``tolerance``."""
    rows, scoring = candidates.rows, candidates.scoring
    R = candidates.block(rows, scoring)
    own = candidates.diagonal(rows)
    whole = candidates.diagonal(scoring)
    R /= np.sqrt(np.where(whole > 0.0, whole, 1.0))
    R[:, whole <= 0.0] = 0.0
    size = scoring.size
    # beneath this share of itself a candidate is rounding of what has been taken off it
    floor = rows.size * EPS * float(own.max(initial=0.0))
    gains = np.einsum("ij,ij->i", R, R)
    factor = np.zeros((count, rows.size))
    chosen: list[int] = []
    error = float((whole > 0.0).mean())
    open_ = own > floor
    while len(chosen) < count:
        if error <= tolerance:
            return Chosen(rows[chosen], f"a mean reconstruction error of {max(error, 0.0):.2e}")
        if not open_.any():
            return Chosen(rows[chosen], "a complete basis")
        worth = np.where(open_, gains / np.where(open_, own, 1.0), -np.inf)
        best = int(np.flatnonzero(worth >= worth.max() * (1.0 - _TIE))[0])
        k = len(chosen)
        column = candidates.block(rows, rows[[best]])[:, 0] - factor[:k].T @ factor[:k, best]
        column /= np.sqrt(own[best])
        factor[k] = column
        _take_off(R, gains, column, best)
        own = own - column**2
        own[best] = 0.0
        open_ = open_ & (own > floor)
        error -= float(worth[best]) / size
        chosen.append(best)
    return Chosen(rows[chosen], f"{count} vectors")


def _take_off(R: Array, gains: Array, column: Array, best: int) -> None:
    """One rank-one step of R, and of its squared row norms; those that cancelled are computed anew."""
    from scipy.linalg.blas import dger

    row = R[best] / (column[best] if column[best] != 0.0 else 1.0)
    before = gains.copy()
    gains += column * (column * float(row @ row) - 2.0 * (R @ row))
    dger(-1.0, row, column, a=R.T, overwrite_a=1)
    (poor,) = np.nonzero(gains < 1e-6 * before)
    gains[poor] = np.einsum("ij,ij->i", R[poor], R[poor])
