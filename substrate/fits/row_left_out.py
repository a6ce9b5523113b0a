r"""Machines with one loss per row, without one of their rows.

At the optimum every row is on a straight piece of its loss, where its coefficient is known; on a curved piece with
curvature :math:`D_i`; or at a kink, where its value is known. Let F be the rows of the last two kinds, with
:math:`D_i^{-1} = 0` at a kink, and

.. math:: M = \begin{bmatrix} K_{FF} + \lambda D_F^{-1} & Z_F \\ Z_F^T & 0 \end{bmatrix}^{-1}, \qquad
          R = [K_{\cdot F}, Z]\, M .

While all other rows stay on their pieces, the machine without row i has

.. math::

    a_F - M_{F i} \frac{a_i}{M_{ii}}, \quad f - R_{\cdot i} \frac{a_i}{M_{ii}} \quad (i \in F), \qquad
    a_F + R_{i F}^T a_i, \quad f - \big(K_{\cdot i} - R\, [K_{i F}, Z_i]^T\big) a_i \quad (i \notin F) ,

which is the formula of [Cawley2004]_ section 4. Where another row would change its piece, and for losses whose
curvature is nowhere constant, the machine is fitted again. A row with a slope of zero is left out without a change.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.certificates import roundoff
from substrate.fits.row_newton import GramRows, RowPoint, solve_rows
from substrate.losses import PieceLoss, RowLoss

__all__ = ["RowsLeftOut", "leave_rows_out"]

#: Share of the sizes of slopes within which a slope is strictly between both of a kink.
_INSIDE = 1e-9

Indices = NDArray[np.intp]


class RowsLeftOut(NamedTuple):
    """The value of every row in the machine without it, and the rows that took a fit.

    ``difference`` is the largest between the value of ``row`` and a fit without it.
    """

    values: Array
    fitted_again: Indices
    row: int
    difference: float


def leave_rows_out(space: GramRows, losses: RowLoss, point: RowPoint, spread: float) -> RowsLeftOut:
    """Leave every row out of a solved machine.

    :place [Cawley2004]_ section 4: leave-one-out of the 2-norm SVM, while its support holds
    """
    values, used = point.f.copy(), np.flatnonzero(point.u)
    settled = _on_same_pieces(space, losses, point, used) if isinstance(losses, PieceLoss) else {}
    fitted_again = np.array([row for row in used.tolist() if row not in settled], dtype=np.intp)
    for row in used.tolist():
        values[row] = settled[row] if row in settled else _fit_without(space, losses, point, row, spread)
    among = np.array(list(settled), dtype=np.intp) if settled else np.arange(losses.n)
    row = int(among[np.argmax(np.abs(values - point.f)[among])])
    difference = abs(float(values[row]) - _fit_without(space, losses, point, row, spread))
    return RowsLeftOut(values, fitted_again, row, difference)


def _on_same_pieces(space: GramRows, losses: PieceLoss, point: RowPoint, rows: Indices) -> dict[int, float]:
    """Return the values of rows without which all others stay on their pieces, by their numbers."""
    pieces, a = _Pieces.of(losses, space.lam, point), point.u
    free, m = np.flatnonzero(pieces.is_free), int(pieces.is_free.sum())
    border = np.zeros((space.Z.shape[1],) * 2)
    inside = space.K[np.ix_(free, free)] + np.diag(pieces.ridge[free])
    response = np.concatenate([space.K[:, free], space.Z], axis=1)
    try:
        M = np.linalg.inv(np.block([[inside, space.Z[free]], [space.Z[free].T, border]]))
    except np.linalg.LinAlgError:
        return {}
    R, place, settled = response @ M, np.cumsum(pieces.is_free) - 1, dict[int, float]()
    for row in rows.tolist():
        others, k = a.copy(), place[row]
        if pieces.is_free[row]:
            force = a[row] / M[k, k]
            f, others[free] = point.f - force * R[:, k], a[free] - force * M[:m, k]
        else:
            f = point.f - a[row] * (space.K[:, row] - R @ response[row])
            others[free] += a[row] * R[row, :m]
        others[row] = 0.0
        if np.isfinite(f).all() and pieces.hold(f, others, row):
            settled[row] = float(f[row])
    return settled


@dataclass(frozen=True)
class _Pieces:
    """Where every row is: the number of its kink, -1 for none, and of its piece."""

    losses: PieceLoss
    lam: float
    kink: Indices
    k: Indices

    @classmethod
    def of(cls, losses: PieceLoss, lam: float, point: RowPoint) -> Self:
        """Read it off the slopes and the values."""
        g, rows = point.g, np.arange(losses.n)
        unit = _INSIDE * float(np.abs(g).max())
        at = np.abs(losses.places - point.f[:, None]).argmin(axis=1)
        below, above = losses.below[rows, at], losses.above[rows, at]
        is_kink = (g > below + unit) & (g < above - unit)
        k = (losses.places < point.f[:, None]).sum(axis=1)
        # at the place itself the slope says on which side the row is
        close = np.abs(point.f - losses.places[rows, at]) <= losses.width + roundoff(1) * np.abs(point.f)
        k = np.where(close & ~is_kink, np.where(g <= below, at, at + 1), k)
        return cls(losses, lam, np.where(is_kink, at, -1), k)

    @property
    def _curvature(self) -> Array:
        return np.where(self.kink >= 0, 0.0, self.losses.curvature[np.arange(self.losses.n), self.k])

    @property
    def is_free(self) -> NDArray[np.bool_]:
        """Which rows have coefficients that their values determine."""
        return (self.kink >= 0) | (self._curvature > 0.0)

    @property
    def ridge(self) -> Array:
        """lambda/D, zero at a kink."""
        D = self._curvature
        return np.where(D > 0.0, self.lam / np.where(D > 0.0, D, 1.0), 0.0)

    def hold(self, f: Array, a: Array, absent: int) -> bool:
        """Return whether all rows but one are still on their pieces, by slopes at a kink and by values elsewhere."""
        losses, rows, last = self.losses, np.arange(self.losses.n), self.losses.places.shape[1] - 1
        room = losses.width + roundoff(losses.n) * (1.0 + float(np.abs(f).max()))
        unit, g = _INSIDE * float(np.abs(a).max()) * self.lam, -self.lam * a
        is_kink, at = self.kink >= 0, np.maximum(self.kink, 0)
        falls = is_kink & (g < losses.below[rows, at] - unit)
        rises = is_kink & (g > losses.above[rows, at] + unit)
        left, right = np.maximum(self.k - 1, 0), np.minimum(self.k, last)
        under = ~is_kink & (self.k > 0) & (f < losses.places[rows, left] - room)
        over = ~is_kink & (self.k <= last) & (f > losses.places[rows, right] + room)
        changed = falls | rises | under | over
        changed[absent] = False
        return not changed.any()


def _fit_without(space: GramRows, losses: RowLoss, point: RowPoint, row: int, spread: float) -> float:
    """Return the value of a row in the machine fitted without it."""
    kept = np.flatnonzero(np.arange(losses.n) != row)
    inside = GramRows(space.K[np.ix_(kept, kept)], space.lam, space.Z[kept])
    start = RowPoint(point.u[kept], point.c, point.g[kept], point.f[kept], 0)
    solved = solve_rows(inside, losses.take(kept), spread, start=start)
    return float(space.K[row, kept] @ solved.u + space.Z[row] @ solved.c)
