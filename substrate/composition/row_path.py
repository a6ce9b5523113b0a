r"""The way from the solution of one machine with row losses to that of another one, of other weights.

Losses that are straight between their kinks, at places :math:`\tau_i` and with slopes :math:`\sigma_i` (over 2 p), are
changed to others of the same form in proportion to :math:`\theta` from zero to one. While no row changes its piece,

.. math:: a_i = -\sigma_i(\theta) \ \text{ off the kinks}, \qquad K_{EE}\, a_E + b 1 = \tau_E(\theta) - K_{EN}\, a_N
    \ \text{ on them}, \qquad 1^T a = 0 ,

so that a, b and the values f are linear in :math:`\theta`, as in the paths of support vector machines [Hastie2004]_.
Where a value meets a kink its row joins E, where a coefficient meets a slope beside its kink its row leaves it, and the
way goes on. A small change of a weight passes a few such events, each the price of a factor of :math:`K_{EE}`. Where
many are ahead, by those that were passed, the way is given up; and where they are a large part of the rows at kinks,
the old point is no better a start than none.

Nothing is proved here: the end of the way is where :mod:`substrate.composition.row_solution` begins.
"""

import time
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrs

from substrate.arrays import Array
from substrate.composition.cone_program import IntegerArray
from substrate.composition.definite_factor import factor_definite
from substrate.composition.row_losses import RowLosses
from substrate.composition.row_solution import RowPoint

__all__ = ["FollowedWay", "follow_rows"]

#: Events of a way that is worth it, events after which their number is estimated, and what part of the rows at kinks
#: makes a point far away (measured: a Newton method from there takes longer than without it).
_MOST_EVENTS, _ESTIMATED, _FAR = 60, 6, 0.3
#: Lengths of the way that count as none, and so many in a row that are a cycle.
_NONE, _MOST_STANDING = 1e-12, 8
#: How near to a slope, as a share of the largest, a coefficient is on the piece of this slope.
_ON_PIECE = 1e-9


@dataclass(frozen=True, slots=True)
class FollowedWay:
    """The point at the end of the way, None where it was given up; ``is_far`` if the beginning is no good start."""

    point: RowPoint | None
    is_far: bool = False


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Places of kinks, between infinite ends, and slopes of pieces over 2 p, one more than kinks, of every row."""

    places: Array
    slopes: Array

    @classmethod
    def of(cls, losses: RowLosses, p: float) -> "_Pieces | None":
        if losses.curvature.any() or losses.smooth is not None or not losses.places.shape[1] or not p > 0.0:
            return None
        ends = np.full((losses.n, 1), np.inf)
        slopes = np.column_stack([losses.below[:, :1], losses.above]) / (2.0 * p)
        return cls(np.column_stack([-ends, losses.places, ends]), slopes)


def follow_rows(
    K: Array,
    bias: bool,
    start: RowPoint,
    old: tuple[float, RowLosses],
    new: tuple[float, RowLosses],
    deadline: float | None = None,
) -> FollowedWay:
    """Follow the point of the old weight of w'w and losses to that of the new ones.

    ``bias`` states whether the coefficients sum to zero, ``deadline`` when the way is given up.
    """
    first, last = _Pieces.of(old[1], old[0]), _Pieces.of(new[1], new[0])
    if first is None or last is None or first.places.shape != last.places.shape:
        return FollowedWay(None)
    with np.errstate(all="ignore"):
        try:
            return _Way(K, bias, first, last, start).follow(new[0], deadline)
        except np.linalg.LinAlgError:
            return FollowedWay(None)


class _Way:
    """The state on the way: coefficients, bias, values, and where every row is."""

    def __init__(self, K: Array, bias: bool, first: _Pieces, last: _Pieces, start: RowPoint) -> None:
        self.K, self.bias, self.first = K, bias, first
        self.a, self.b, self.f = start.a.copy(), start.b, start.f.copy()
        self.rows, self.theta = np.arange(start.a.size), 0.0
        inner = first.places[:, 1:-1]
        with np.errstate(invalid="ignore"):
            # infinite ends have no change
            self.moves = np.where(np.isfinite(first.places), last.places - first.places, 0.0)
        self.turns = last.slopes - first.slopes
        tolerance = _ON_PIECE * float(np.abs(first.slopes).max(initial=0.0))
        # a row is on the piece whose slope it has, else at the kink between its neighbours
        apart = np.abs(first.slopes + self.a[:, None])
        self.piece = apart.argmin(axis=1)
        self.kink = np.where(
            apart[self.rows, self.piece] <= tolerance, -1, np.abs(inner - self.f[:, None]).argmin(axis=1)
        )

    def follow(self, p: float, deadline: float | None) -> FollowedWay:
        """Go to the end, p being the weight of w'w there, or as far as is worth it."""
        standing = 0
        for events in range(_MOST_EVENTS):
            on = np.flatnonzero(self.kink >= 0)
            if events >= _ESTIMATED and events > self.theta * _MOST_EVENTS:
                return FollowedWay(None, events > self.theta * _FAR * on.size)
            if (not on.size and self.bias) or (deadline is not None and time.monotonic() > deadline):
                break
            da, db, df = self._direction(on)
            length, event = self._first_event(on, da, df)
            length = min(length, 1.0 - self.theta)
            if not (np.isfinite(length) and np.isfinite(df).all()):
                break
            self.a, self.b, self.f = self.a + length * da, self.b + length * db, self.f + length * df
            self.theta += length
            if self.theta >= 1.0:
                return FollowedWay(RowPoint(a=self.a, b=self.b, g=-2.0 * p * self.a, f=self.f, steps=0))
            standing = standing + 1 if length <= _NONE else 0
            if standing > _MOST_STANDING:
                break
            row, self.piece[row], self.kink[row] = event
        return FollowedWay(None)

    def _direction(self, on: IntegerArray) -> tuple[Array, float, Array]:
        """Return the changes of coefficients, bias and values with theta."""
        da = -self.turns[self.rows, self.piece]
        db = 0.0
        if on.size:
            da[on] = 0.0
            part = self.K[on]
            factor = factor_definite(np.array(part[:, on], order="F"))
            right = self.moves[on, 1 + self.kink[on]] - part @ da
            solved, _ = dpotrs(factor, np.stack([right, np.ones(on.size)], axis=1), lower=1)
            if self.bias:
                db = float(solved[:, 0].sum() + da.sum()) / float(solved[:, 1].sum())
            da[on] = solved[:, 0] - db * solved[:, 1]
        return da, db, self.K @ da + db

    def _first_event(self, on: IntegerArray, da: Array, df: Array) -> tuple[float, tuple[int, int, int]]:
        """Return how far the first event is, with its row, its piece and its kink, -1 where the row leaves one."""
        best, event = np.inf, (-1, -1, -1)
        off = np.flatnonzero(self.kink < 0)
        for side in (0, 1):
            # a value meets the kink before its piece, or behind it
            ends = self.piece[off] + side
            gap = self._place(off, ends) - self.f[off]
            speed = df[off] - self.moves[off, ends]
            ahead = speed < 0.0 if side == 0 else speed > 0.0
            way = np.where(ahead, np.maximum(gap / speed, 0.0), np.inf)
            if way.size and way.min() < best:
                k = int(way.argmin())
                best, event = float(way[k]), (int(off[k]), int(self.piece[off[k]]), int(ends[k]) - 1)
            # a coefficient meets the slope before its kink, or behind it
            pieces = self.kink[on] + side
            gap = -self._slope(on, pieces) - self.a[on]
            speed = da[on] + self.turns[on, pieces]
            ahead = speed > 0.0 if side == 0 else speed < 0.0
            way = np.where(ahead, np.maximum(gap / speed, 0.0), np.inf)
            if way.size and way.min() < best:
                k = int(way.argmin())
                best, event = float(way[k]), (int(on[k]), int(pieces[k]), -1)
        return best, event

    def _place(self, rows: IntegerArray, ends: IntegerArray) -> Array:
        return np.asarray(self.first.places[rows, ends] + self.theta * self.moves[rows, ends])

    def _slope(self, rows: IntegerArray, pieces: IntegerArray) -> Array:
        return np.asarray(self.first.slopes[rows, pieces] + self.theta * self.turns[rows, pieces])
