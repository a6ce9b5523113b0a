r"""Machines with one loss per row, without one of their rows, by exchanges of rows between pieces of their losses.

At the optimum every row is on a straight piece of its loss, where its coefficient is known; on a curved piece with
curvature :math:`D_i`, where :math:`f_i + \tfrac{\lambda}{D_i} a_i = t_i`; or at a kink, where :math:`f_i = t_i`. Let F
be the rows of the last two kinds and

.. math:: \begin{bmatrix} K_{FF} + \lambda D_F^{-1} & Z_F \\ Z_F^T & 0 \end{bmatrix}^{-1}
          = \begin{bmatrix} B & V \\ V^T & -S \end{bmatrix}, \qquad
          R = [K_{\cdot F}, Z] \begin{bmatrix} B \\ V^T \end{bmatrix}, \qquad
          C = K - [K_{\cdot F}, Z] \begin{bmatrix} B & V \\ V^T & -S \end{bmatrix} [K_{\cdot F}, Z]^T .

Where rows L leave F, or have another piece there, and rows E enter it, the machine needs one system of
:math:`|L| + |E|` unknowns: forces r on the targets of L and changes :math:`\delta` of the coefficients of E, by which

.. math:: a_F + B_{\cdot L} r - R_{E \cdot}^T \delta \qquad\text{and}\qquad f + R_{\cdot L} r + C_{\cdot E} \delta

are its coefficients and its values. Without row i it begins with :math:`a_i = 0`, which is the formula of
[Cawley2004]_ section 4, and rows change their piece until each is where its value or its slope says, which are the
conditions of optimality. Losses whose curvature is nowhere constant are fitted again. A row with a slope of zero can be
left out without a change.
"""

from dataclasses import dataclass, replace
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
#: Exchanges after which a row is given up, and its machine is fitted.
_MOST_EXCHANGES = 20

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
    exchange = _Exchange.of(space, losses, point) if isinstance(losses, PieceLoss) else None
    fitted_again = []
    for row in used.tolist():
        value = None if exchange is None else exchange.value_without(row)
        if value is None:
            fitted_again.append(row)
            value = _fit_without(space, losses, point, row, spread)
        values[row] = value
    settled = np.setdiff1d(used, fitted_again)
    among = settled if settled.size else np.arange(losses.n)
    row = int(among[np.argmax(np.abs(values - point.f)[among])])
    difference = abs(float(values[row]) - _fit_without(space, losses, point, row, spread))
    return RowsLeftOut(values, np.array(fitted_again, dtype=np.intp), row, difference)


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

    def states(self) -> tuple[NDArray[np.bool_], Array, Array, Array]:
        """Return which rows are in F, lam/D and t of these, and the coefficients of the others."""
        rows, before = np.arange(self.losses.n), np.maximum(self.k - 1, 0)
        curvature, is_kink = self.losses.curvature[rows, self.k], self.kink >= 0
        slope = np.where(self.k > 0, self.losses.above[rows, before], self.losses.below[rows, 0])
        place = self.losses.places[rows, np.where(is_kink, self.kink, before)]
        is_free, D = is_kink | (curvature > 0.0), np.where(curvature > 0.0, curvature, 1.0)
        ridge = np.where(is_kink, 0.0, self.lam / D)
        return is_free, ridge, np.where(is_kink, place, place - slope / D), -slope / self.lam

    def move(self, f: Array, a: Array, absent: int) -> "_Pieces | None":
        """Return the pieces on which values and slopes are, one step away at most; None where all are the same."""
        losses, rows = self.losses, np.arange(self.losses.n)
        room = losses.width + roundoff(losses.n) * (1.0 + float(np.abs(f).max()))
        unit, g, last = _INSIDE * float(np.abs(a).max()) * self.lam, -self.lam * a, losses.places.shape[1] - 1
        is_kink, at = self.kink >= 0, np.maximum(self.kink, 0)
        falls = is_kink & (g < losses.below[rows, at] - unit)
        rises = is_kink & (g > losses.above[rows, at] + unit)
        left, right = np.maximum(self.k - 1, 0), np.minimum(self.k, last)
        under = ~is_kink & (self.k > 0) & (f < losses.places[rows, left] - room)
        over = ~is_kink & (self.k <= last) & (f > losses.places[rows, right] + room)
        changed = falls | rises | under | over
        changed[absent] = False
        if not changed.any():
            return None
        falls, rises, under, over = (mask & changed for mask in (falls, rises, under, over))
        jumps = losses.above > losses.below
        k = np.where(
            falls, at, np.where(rises, at + 1, np.where(under, self.k - 1, np.where(over, self.k + 1, self.k)))
        )
        kink = np.where(falls | rises, -1, self.kink)
        kink = np.where(under & jumps[rows, left], left, np.where(over & jumps[rows, right], right, kink))
        return replace(self, kink=kink, k=k)


@dataclass(frozen=True)
class _Exchange:
    """A solved machine, its pieces, and the matrices of the page; ``inverse`` is that of the system of ``free``."""

    pieces: _Pieces
    a: Array
    f: Array
    free: Indices
    inverse: Array
    R: Array
    C: Array

    @classmethod
    def of(cls, space: GramRows, losses: PieceLoss, point: RowPoint) -> "_Exchange | None":
        """Invert the system; None where it has no inverse."""
        pieces = _Pieces.of(losses, space.lam, point)
        is_free, ridge, _, _ = pieces.states()
        free, k = np.flatnonzero(is_free), space.Z.shape[1]
        m = free.size
        system = np.zeros((m + k, m + k))
        system[:m, :m] = space.K[np.ix_(free, free)] + np.diag(ridge[free])
        system[:m, m:], system[m:, :m] = space.Z[free], space.Z[free].T
        try:
            inverse = np.linalg.inv(system)
        except np.linalg.LinAlgError:
            return None
        response = np.concatenate([space.K[:, free], space.Z], axis=1)
        R = response @ inverse
        if not np.isfinite(R).all():
            return None
        return cls(pieces, point.u, point.f, free, inverse, R, space.K - R @ response.T)

    def value_without(self, row: int) -> float | None:
        """Return the value of a row in the machine without it; None where the pieces do not settle."""
        m, place = self.free.size, np.full(self.a.size, -1)
        place[self.free] = np.arange(m)
        was_free, ridge, target, _ = self.pieces.states()
        pieces = self.pieces
        for _ in range(_MOST_EXCHANGES):
            is_free, new_ridge, new_target, fixed = pieces.states()
            is_free[row], fixed[row] = False, 0.0
            L = np.flatnonzero(was_free & (~is_free | (new_ridge != ridge) | (new_target != target)))
            E = np.flatnonzero(is_free & ~was_free)
            moved = np.flatnonzero(~is_free & ~was_free & (fixed != self.a))  # from one straight piece to another
            base_f = self.f + self.C[:, moved] @ (fixed[moved] - self.a[moved])
            base_a = self.a.copy()
            base_a[self.free] -= self.R[moved, :m].T @ (fixed[moved] - self.a[moved])
            base_a[moved] = fixed[moved]
            solved = self._solve(place[L], L, E, is_free, new_ridge, new_target, fixed, ridge, target, base_a, base_f)
            if solved is None:
                return None
            r, delta = solved
            f = base_f + self.R[:, place[L]] @ r + self.C[:, E] @ delta
            a = base_a
            a[self.free] += self.inverse[:m, place[L]] @ r - self.R[E, :m].T @ delta
            a[E] += delta
            after = pieces.move(f, a, row)
            if after is None:
                return float(f[row])
            pieces = after
        return None

    def _solve(
        self,
        places: Indices,
        L: Indices,
        E: Indices,
        is_free: NDArray[np.bool_],
        new_ridge: Array,
        new_target: Array,
        fixed: Array,
        ridge: Array,
        target: Array,
        a: Array,
        f: Array,
    ) -> tuple[Array, Array] | None:
        """Return the forces on L and the changes of E."""
        across = self.R[np.ix_(E, places)]
        B = self.inverse[np.ix_(places, places)]
        # a row that leaves has a known coefficient; one that stays has another ridge and another target
        stays = is_free[L]
        step = np.where(stays, new_ridge[L] - ridge[L], 1.0)
        top = np.concatenate([step[:, None] * B + np.diag(stays.astype(float)), -step[:, None] * across.T], axis=1)
        bottom = np.concatenate([across, self.C[np.ix_(E, E)] + np.diag(new_ridge[E])], axis=1)
        wanted = np.where(stays, new_target[L] - target[L] - step * a[L], fixed[L] - a[L])
        right = np.concatenate([wanted, new_target[E] - f[E] - new_ridge[E] * a[E]])
        try:
            solved = np.linalg.solve(np.concatenate([top, bottom]), right)
        except np.linalg.LinAlgError:
            return None
        if not np.isfinite(solved).all():
            return None
        return solved[: L.size], solved[L.size :]


def _fit_without(space: GramRows, losses: RowLoss, point: RowPoint, row: int, spread: float) -> float:
    """Return the value of a row in the machine fitted without it."""
    kept = np.flatnonzero(np.arange(losses.n) != row)
    inside = GramRows(space.K[np.ix_(kept, kept)], space.lam, space.Z[kept])
    start = RowPoint(point.u[kept], point.c, point.g[kept], point.f[kept], 0)
    solved = solve_rows(inside, losses.take(kept), spread, start=start)
    return float(space.K[row, kept] @ solved.u + space.Z[row] @ solved.c)
