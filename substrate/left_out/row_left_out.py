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

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.fits.row_newton import GramRows, RowPoint, solve_rows
from substrate.losses import PieceLoss, RowLoss

__all__ = ["RowsLeftOut", "leave_rows_out"]

#: Share of the sizes of slopes within which a slope is strictly between both of a kink.
_INSIDE = 1e-9
#: Share of slopes, or of values, by which conditions of optimality may be missed.
_SETTLED = 1e-8

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
    settled = _on_same_pieces(space, losses, point, used, spread) if isinstance(losses, PieceLoss) else {}
    fitted_again = np.array([row for row in used.tolist() if row not in settled], dtype=np.intp)
    for row in used.tolist():
        values[row] = settled[row] if row in settled else _fit_without(space, losses, point, row, spread)
    among = np.array(list(settled), dtype=np.intp) if settled else np.arange(losses.n)
    row = int(among[np.argmax(np.abs(values - point.f)[among])])
    difference = abs(float(values[row]) - _fit_without(space, losses, point, row, spread))
    return RowsLeftOut(values, fitted_again, row, difference)


def _on_same_pieces(
    space: GramRows, losses: PieceLoss, point: RowPoint, rows: Indices, spread: float
) -> dict[int, float]:
    """Return the values of rows without which all others stay on their pieces, by their numbers."""
    a, g, every = point.u, point.g, np.arange(losses.n)
    unit = _INSIDE * float(np.abs(g).max())
    at = np.abs(losses.places - point.f[:, None]).argmin(axis=1)
    is_kink = (g > losses.below[every, at] + unit) & (g < losses.above[every, at] - unit)
    D = np.where(is_kink, np.inf, losses.curvatures(point.f))
    (free,), place = np.nonzero(D > 0.0), np.cumsum(D > 0.0) - 1
    border = np.zeros((space.Z.shape[1],) * 2)
    inside = space.K[np.ix_(free, free)] + np.diag(space.lam / D[free])
    response = np.concatenate([space.K[:, free], space.Z], axis=1)
    try:
        M = np.linalg.inv(np.block([[inside, space.Z[free]], [space.Z[free].T, border]]))
    except np.linalg.LinAlgError:
        return {}
    R, settled = response @ M, dict[int, float]()
    for row in rows.tolist():
        coefficients, kept, k = a.copy(), np.delete(every, row), place[row]
        if D[row] > 0.0:
            force = a[row] / M[k, k]
            f, coefficients[free] = point.f - force * R[:, k], a[free] - force * M[: free.size, k]
        else:
            f = point.f - a[row] * (space.K[:, row] - R @ response[row])
            coefficients[free] += a[row] * R[row, : free.size]
        # the slopes that belong to the coefficients are those at the values, so that this is the optimum
        tension = losses.take(kept).tension(f[kept], -space.lam * coefficients[kept], spread)
        if np.isfinite(f).all() and tension <= _SETTLED:
            settled[row] = float(f[row])
    return settled


def _fit_without(space: GramRows, losses: RowLoss, point: RowPoint, row: int, spread: float) -> float:
    """Return the value of a row in the machine fitted without it."""
    kept = np.flatnonzero(np.arange(losses.n) != row)
    inside = GramRows(space.K[np.ix_(kept, kept)], space.lam, space.Z[kept])
    start = RowPoint(point.u[kept], point.c, point.g[kept], point.f[kept], 0)
    solved = solve_rows(inside, losses.take(kept), spread, start=start)
    return float(space.K[row, kept] @ solved.u + space.Z[row] @ solved.c)
