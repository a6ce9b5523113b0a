r"""A lower bound between two weights of a machine whose squares determine all of it but one number, the bias.

The machine is, up to a factor, :math:`\psi_C(x) = \tfrac12 \|w\|_P^2 + q_w^T w + C \, \ell(w, b)`, C the weight of the
losses or one over that of the squares, with losses that are sums of maxima of affine functions (tube, hinge, pinball,
absolute errors). At the ends of an interval there are feasible points :math:`x_k` and points :math:`w_k` with

.. math:: \psi_k(x) \ge L_k + \tfrac{1 - \eta}2 \|x - w_k\|_P^2 \quad \text{for all feasible x},

which a dual point proves (:mod:`substrate.fusion.conic_family`; :math:`\eta` pays for its residual). For
:math:`C = (1 - t) C_a + t C_b` let x(t), w(t) be the same combinations, and :math:`x^\star` the minimiser. x(t) is
feasible and :math:`\psi_C` strongly convex in w, so

.. math::

    \psi_C(x(t)) \ge \psi_C(x^\star) + \tfrac12 \|x^\star - x(t)\|_P^2 , \qquad
    \psi_C(x^\star) \ge (1 - t) L_a + t L_b + \tfrac{1 - \eta}2 \left( \|x^\star - w(t)\|_P^2
    + t (1 - t) \|w_a - w_b\|_P^2 \right) .

Their sum, with :math:`m(t) = \tfrac12 (x(t) + w(t))` and what :math:`\psi_C(x(t))` is on the chord, is

.. math::

    (1 - \eta) \|x^\star - m(t)\|_P^2 \le (1 - t)^2 G_{aa} + 2 t (1 - t) G_{ab} + t^2 G_{bb} = (1 - \eta) \, r(t)^2 ,

.. math::

    G_{kk} = \psi_k(x_k) - L_k , \qquad 2 G_{ab} = \psi_b(x_a) - L_b + \psi_a(x_b) - L_a
    - \tfrac12 \|x_a - x_b\|_P^2 - \tfrac{1 - \eta}2 \|w_a - w_b\|_P^2 .

**The bias.** :math:`b^\star` minimises :math:`F(b) = \sum_i \max_k (\beta_{ik} b + a_{ik}^T w^\star + c_{ik})`,
whatever C is. With slopes :math:`\beta_{i1} < \beta_{i2} < \dots` of a row its derivative on the right is at least
:math:`\beta_{ij}` from

.. math:: \tau_{ij} = \min_{k \ge j} \max_{l < j} \tau_{ilk}, \qquad
    \tau_{ilk} = \frac{c_{il} - c_{ik} + (a_{il} - a_{ik})^T w^\star}{\beta_{ik} - \beta_{il}}

on, so that the derivative of F is the sum of the smallest slopes and of the steps
:math:`\beta_{ij} - \beta_{i, j-1}` with :math:`\tau_{ij} \le b`: the minimisers lie between the place where it stops
being negative and the place where it becomes positive. Both increase with every :math:`\tau_{ilk}`, which differs from
its value at m(t) by at most :math:`r(t) \|a_{il} - a_{ik}\|_{P^{-1}} / (\beta_{ik} - \beta_{il})`; so b is within an
interval about that of m(t). Where several biases are optimal this is an interval at r = 0 too, and the bound is for the
one that validates best. With both, every u of length one gives

.. math:: \|e(x^\star)\| \ge u^T e(m(t)) + \min_\beta \beta \, u^T e_b - r(t) \, \|E_w^T u\|_{P^{-1}} ,

e being affine in w and b. The interval is cut into a few pieces, on each of which the largest r, the widest interval of
the bias and the ends of the chord are taken.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from substrate.arrays import Array
from substrate.certificates.rounding import at_most, relative_rounding
from substrate.fusion.conic_numbers import ProgramNumbers

__all__ = ["KEPT", "BiasChord", "ChordEnd", "squared_errors"]

#: 1 - eta: the share of the squares that a strong lower bound keeps.
KEPT = 1.0 - 1e-3
#: Parts of an interval that are bounded one by one.
_PARTS = 8
#: Largest number of affine functions in a maximum.
_MOST = 8
#: Difference of two slopes, as a share of their sizes, that is not rounding.
_ALIKE = 1e-6


@dataclass(frozen=True, slots=True)
class ChordEnd:
    """What a chord needs at one of its ends.

    ``x`` is feasible, ``w`` the point of the strong lower bound; ``weights`` are those of the parts of the objective,
    ``lowest`` is L_k in the units of the objective, rounded down.
    """

    weights: Array
    x: Array
    w: Array
    lowest: float


class _Located:
    """The middle point of an end and what is affine in it: validation errors, places of steps, and their rounding."""

    __slots__ = ("errors", "errors_radius", "length", "middle", "steps", "steps_radius")

    def __init__(self, chord: "BiasChord", end: ChordEnd) -> None:
        self.middle = 0.5 * (end.x + end.w)
        at = self.middle
        self.errors = chord.slope @ at + chord.offset
        terms = relative_rounding(at.size + 8.0)
        self.errors_radius = at_most(
            float(np.linalg.norm(terms * (np.abs(chord.slope) @ np.abs(at) + np.abs(chord.offset))))
        )
        self.steps = chord.step_slope @ at[chord.determined] + chord.step_offset
        self.steps_radius = terms * (chord.step_sizes @ np.abs(at[chord.determined]) + chord.step_offset_sizes)
        self.length = chord.length(at)


class BiasChord:
    """The errors of validation and the places of the steps as functions of w and b, and the bound of an interval."""

    def __init__(self, base: ProgramNumbers, slope: Array, offset: Array, squares: Array, weight_number: int) -> None:
        #: The diagonal of P, zero where it determines nothing; which part of the objective it belongs to.
        self.squares, self.part = squares, weight_number
        self._known = squares > 0.0
        self.determined = np.flatnonzero(self._known)
        #: Validation errors are slope x + offset; the bias is the one column that P does not determine.
        self.slope, self.offset = slope, offset
        free = np.flatnonzero(~self._known & slope.any(axis=0))
        self.bias = int(free[0]) if free.size else -1
        #: Where two functions of a maximum cross, slope w + offset, and the sizes of what is added up there.
        self.step_slope = self.step_sizes = np.zeros((0, self.determined.size))
        self.step_offset = self.step_offset_sizes = np.zeros(0)
        #: Which part of the objective weighs the losses; -1 without a bias.
        self.loss_part = -1
        self._reaches = np.zeros(0)
        self._ends: dict[int, tuple[ChordEnd, _Located]] = {}

    @classmethod
    def of(cls, base: ProgramNumbers, fused: ProgramNumbers) -> "BiasChord | None":
        """Read a problem and the one with squared validation errors beside it; None where there is no such chord."""
        if len(base.P) != 2 or any(base.rows("Zero")):
            return None
        squares = [P.diagonal() for P in base.P]
        diagonal = all(abs(P - sp.diags_array(d)).sum() == 0.0 for P, d in zip(base.P, squares, strict=True))
        used = [k for k, d in enumerate(squares) if d.any()]
        if not diagonal or len(used) != 1 or min(d.min() for d in squares) < 0.0:
            return None
        errors = squared_errors(base, fused)
        if errors is None:
            return None
        chord = cls(base, errors.slope, errors.offset, squares[used[0]], used[0])
        free = np.flatnonzero(~chord._known & chord.slope.any(axis=0))
        if free.size > 1 or (free.size and not chord._read_losses(base)):
            return None
        return chord

    def _read_losses(self, base: ProgramNumbers) -> bool:
        """Read the maxima whose sum the bias minimises; whether they are such."""
        other_columns = ~self._known
        other_columns[self.bias] = False
        weighed = [k for k, q in enumerate(base.q) if q[~self._known].any()]
        if len(weighed) != 1 or base.q[weighed[0]][self.bias] != 0.0:
            return False
        self.loss_part = weighed[0]
        pieces = _maxima(base, self.bias, other_columns, base.q[self.loss_part])
        if pieces is None:
            return False
        return self._arrange_steps(pieces)

    def _arrange_steps(self, maxima: "list[_Maximum]") -> bool:
        """Prepare the steps of the derivative of F, and the pairs of functions that cross; whether none are alike."""
        pairs: list[_Crossing] = []
        steps: list[tuple[float, list[list[int]]]] = []
        first = size = 0.0
        for maximum in maxima:
            order = np.argsort(maximum.rises, kind="stable")
            rises = maximum.rises[order]
            first += float(rises[0])
            size += float(np.abs(rises).max())
            for j in np.flatnonzero(np.diff(rises) > 0.0) + 1:
                members = []
                for k in range(j, rises.size):
                    for low in range(j):
                        crossing = maximum.crossing(order[low], order[k])
                        if crossing is None:
                            return False
                        pairs.append(crossing)
                    members.append(list(range(len(pairs) - j, len(pairs))))
                steps.append((float(rises[j] - rises[j - 1]), members))
        if not steps:
            return False
        self.first, self._jumps = first, np.array([jump for jump, _ in steps])
        #: What the sums of slopes may be off.
        self._slope_radius = relative_rounding(4.0 * len(maxima) * _MOST) * (size + float(np.abs(self._jumps).sum()))
        self.step_slope = np.array([pair.slope for pair in pairs])[:, self.determined]
        self.step_offset = np.array([pair.offset for pair in pairs])
        self.step_sizes = np.array([pair.slope_sizes for pair in pairs])[:, self.determined]
        self.step_offset_sizes = np.array([pair.offset_size for pair in pairs])
        scaled = self.step_slope / np.sqrt(self.squares[self.determined])
        self._reaches = at_most(1.0) * np.linalg.norm(scaled, axis=1)
        high = max(len(members) for _, members in steps)
        wide = max(len(row) for _, members in steps for row in members)
        # padded by members that are there already, so that a minimum of maxima is one of an array
        self._table = np.zeros((len(steps), high, wide), dtype=np.intp)
        for number, (_, members) in enumerate(steps):
            for k in range(high):
                row = members[min(k, len(members) - 1)]
                self._table[number, k] = [row[min(low, len(row) - 1)] for low in range(wide)]
        return True

    def length(self, x: Array) -> float:
        """Return the length of a vector in the norm of P."""
        return float(np.sqrt(float(self.squares @ (x * x))))

    @cached_property
    def _wide(self) -> float:
        return relative_rounding(self.squares.size + 16.0)

    def bound(self, ends: Sequence[ChordEnd], values: Array) -> float:
        """Bound the sum of squared validation errors between two ends; -inf where nothing is known.

        ``values[j, k]`` is the objective at the point of end j with the weights of end k, rounded up.
        """
        first_end, last_end = ends
        scales = [1.0 / float(end.weights[self.part]) if end.weights[self.part] > 0.0 else np.inf for end in ends]
        losses = [float(end.weights[self.loss_part]) if self.loss_part >= 0 else 1.0 for end in ends]
        if not np.isfinite([*scales, *values.ravel(), first_end.lowest, last_end.lowest]).all() or min(losses) <= 0.0:
            return -np.inf
        lows = [scale * end.lowest for scale, end in zip(scales, ends, strict=True)]
        size = max(float(np.abs(values @ np.diag(scales)).max()), *map(abs, lows))
        rounding = relative_rounding(32.0) * size
        G = np.array([[scales[k] * float(values[j, k]) - lows[k] for k in range(2)] for j in range(2)])
        distances = 0.0
        for first, last, share in ((first_end.x, last_end.x, 0.5), (first_end.w, last_end.w, 0.5 * KEPT)):
            length_rounding = self._wide * (self.length(first) + self.length(last))
            distances += share * max(self.length(first - last) - length_rounding, 0.0) ** 2 * (1.0 - 2.0 * self._wide)
        cross = G[0, 1] + G[1, 0] - distances
        forms = [max(one_form + 2.0 * rounding, 0.0) / KEPT for one_form in (G[0, 0], cross, G[1, 1])]
        start, end = (self._locate(each) for each in ends)
        worst = np.inf
        for k in range(_PARTS):
            low, high = k / _PARTS, (k + 1) / _PARTS
            worst = min(worst, self._part(start, end, low, high, _largest_radius(forms, low, high)))
            if worst <= 0.0:
                return 0.0 if np.isfinite(worst) else -np.inf
        return worst**2 * (1.0 - relative_rounding(8.0))

    def _locate(self, end: ChordEnd) -> _Located:
        stored = self._ends.get(id(end))
        if stored is None or stored[0] is not end:
            stored = end, _Located(self, end)
            self._ends[id(end)] = stored
        return stored[1]

    def _part(self, start: _Located, end: _Located, low: float, high: float, radius: float) -> float:
        """Return the bound of the length of the errors on a part of the chord."""
        radius = at_most(1e-3 * radius) + 0.999 * radius if radius > 0.0 else 0.0
        radius += relative_rounding(8.0) * max(start.length, end.length)
        places = (low, high)
        errors = [(1.0 - t) * start.errors + t * end.errors for t in places]
        errors_radius = max(start.errors_radius, end.errors_radius) + relative_rounding(8.0) * max(
            float(np.linalg.norm(e)) for e in errors
        )
        least = most = 0.0
        along = np.zeros_like(errors[0])
        if self.bias >= 0:
            along = self.slope[:, self.bias]
            bias_range = self._bias_between(start, end, places, radius)
            if bias_range is None:
                return -np.inf
            least, most = bias_range
        middle = 0.5 * (errors[0] + errors[1])
        steep = float(along @ along)
        shift = float(np.clip(-float(along @ middle) / steep, least, most)) if steep > 0.0 else 0.0
        u = middle + shift * along
        length = float(np.linalg.norm(u))
        if length == 0.0:
            return 0.0
        u = u / (length * (1.0 + relative_rounding(u.size + 8.0)))
        pulled = self.slope.T @ u
        rounded = np.abs(self.slope).T @ np.abs(u) * relative_rounding(u.size + 4.0)
        determined = self._known
        spread = np.linalg.norm((np.abs(pulled) + rounded)[determined] / np.sqrt(self.squares[determined]))
        reach = float(spread) * (1.0 + relative_rounding(u.size + 16.0 + determined.size))
        least_change = 0.0
        if self.bias >= 0:
            rise, rise_radius = float(pulled[self.bias]), float(rounded[self.bias])
            least_change = min(rise * least, rise * most) - (rise_radius + relative_rounding(4.0) * abs(rise)) * max(
                abs(least), abs(most)
            )
        lengths = max(float(np.linalg.norm(e)) for e in errors)
        flat = min(float(u @ e) for e in errors) - errors_radius - relative_rounding(u.size + 8.0) * lengths
        return (
            flat
            + least_change
            - reach * radius
            - relative_rounding(8.0) * (abs(flat) + abs(least_change) + reach * radius)
        )

    def _bias_between(
        self, start: _Located, end: _Located, places: tuple[float, float], radius: float
    ) -> tuple[float, float] | None:
        """Return how far the bias may be below and above that of m(t) on a part of the chord; None where it has no
        end.
        """
        ends = []
        for t in places:
            bias = (1.0 - t) * start.middle[self.bias] + t * end.middle[self.bias]
            ends.append((1.0 - t) * start.steps + t * end.steps - bias)
        size = abs(float(start.middle[self.bias])) + abs(float(end.middle[self.bias]))
        steps_radius = np.maximum(start.steps_radius, end.steps_radius) + relative_rounding(8.0) * (
            size + np.abs(start.steps) + np.abs(end.steps)
        )
        steps_radius = steps_radius + radius * self._reaches
        below, above = np.minimum(*ends) - steps_radius, np.maximum(*ends) + steps_radius
        least = self._turn(below, -self._slope_radius)
        most = self._turn(above, self._slope_radius, strict=True)
        return None if least is None or most is None else (least, most)

    def _turn(self, crossings: Array, level: float, strict: bool = False) -> float | None:
        """Return where the derivative of F reaches a level, or exceeds it."""
        steps = crossings[self._table].max(axis=2).min(axis=1)
        order = np.argsort(steps, kind="stable")
        slopes = self.first + np.cumsum(self._jumps[order])
        reached = slopes > level if strict else slopes >= level
        if (self.first > level if strict else self.first >= level) or not reached.any():
            return None
        return float(steps[order[int(np.argmax(reached))]])


def _largest_radius(forms: Sequence[float], low: float, high: float) -> float:
    """Return the root of the largest (1-t)^2 A + t (1-t) B + t^2 C between two places, rounded up."""
    A, B, C = forms

    def at(t: float) -> float:
        return (1.0 - t) ** 2 * A + t * (1.0 - t) * B + t**2 * C

    bend = A - B + C
    places = [low, high]
    if bend < 0.0:
        places.append(float(np.clip((A - 0.5 * B) / bend, low, high)))
    return float(np.sqrt(max(at(t) for t in places) * (1.0 + 1e-9)))


# --- reading the programs -------------------------------------------------------------------------------------------


class SquaredErrors(NamedTuple):
    """E and e_0 with v(x) = ||E x + e_0||^2, and which variables of the second program are those of the first."""

    slope: Array
    offset: Array
    columns: Any


def squared_errors(base: ProgramNumbers, fused: ProgramNumbers) -> SquaredErrors | None:
    """Find the validation errors in the variables of the problem; None where v is something else than their squares.

    The second program must be the first with new variables, each of them one squared error that an equality defines.
    """
    P = fused.P[-1]
    diagonal = P.diagonal()
    new = np.flatnonzero(diagonal)
    if fused.q[-1].any() or fused.d[-1] != 0.0 or (diagonal < 0.0).any() or abs(P - sp.diags_array(diagonal)).sum():
        return None
    columns = sp.csc_array(fused.A)[:, new]
    equal = np.concatenate([np.zeros(0, int), *(np.arange(rows.start, rows.stop) for rows in fused.rows("Zero"))])
    counts = np.diff(columns.indptr)
    defining = columns.indices
    if not (counts == 1).all() or np.unique(defining).size != new.size or not np.isin(defining, equal).all():
        return None
    kept_columns = np.setdiff1d(np.arange(diagonal.size), new)
    kept_rows = np.setdiff1d(np.arange(fused.b.size), defining)
    if not _is_same(base, fused, kept_rows, kept_columns):
        return None
    scale = -np.sqrt(0.5 * diagonal[new]) / columns.data
    rows = sp.csr_array(fused.A)[defining][:, kept_columns].toarray()
    return SquaredErrors(scale[:, None] * rows, scale * fused.b[defining], kept_columns)


def _is_same(base: ProgramNumbers, fused: ProgramNumbers, rows: Any, columns: Any) -> bool:
    """Return whether rows and columns of one program are another one, with the same parts of the objective."""
    if rows.size != base.b.size or columns.size != base.q.shape[1] or len(fused.P) != len(base.P) + 1:
        return False
    A = sp.csr_array(fused.A)[rows][:, columns]
    is_equal = abs(A - base.A).sum() == 0.0 and np.array_equal(fused.b[rows], base.b)
    is_equal = is_equal and np.array_equal(fused.q[:-1][:, columns], base.q) and np.array_equal(fused.d[:-1], base.d)
    pairs = zip(fused.P[:-1], base.P, strict=True)
    is_equal = is_equal and all(abs(sp.csr_array(P)[columns][:, columns] - Q).sum() == 0.0 for P, Q in pairs)
    kinds = [np.full(program.b.size, "", dtype=object) for program in (base, fused)]
    for program, kind in zip((base, fused), kinds, strict=True):
        for name, start, sizes in program.cones:
            for number, size in enumerate(sizes):
                kind[start : start + size] = name if name in ("Zero", "NonNeg") else f"{name} {number}"
                start += size
    return bool(is_equal and (kinds[0] == kinds[1][rows]).all())


class _Crossing(NamedTuple):
    """Where two functions of the bias are equal, slope w + offset, and the sizes that rounding is a share of."""

    slope: Array
    offset: float
    slope_sizes: Array
    offset_size: float


@dataclass(frozen=True, slots=True)
class _Maximum:
    """One loss: the largest of rises b + rows w + offsets, with the sizes of what was added up for them."""

    rises: Array
    rows: Array
    offsets: Array
    row_sizes: Array
    offset_sizes: Array

    def crossing(self, behind: int, ahead: int) -> "_Crossing | None":
        """Return where two functions are equal.

        None where their rises are so alike that rounding may exchange them.
        """
        gap = float(self.rises[ahead] - self.rises[behind])
        size = abs(float(self.rises[ahead])) + abs(float(self.rises[behind]))
        if gap < _ALIKE * size:
            return None
        slope = (self.rows[behind] - self.rows[ahead]) / gap
        offset = float(self.offsets[behind] - self.offsets[ahead]) / gap
        share = size / gap**2
        return _Crossing(
            slope=slope,
            offset=offset,
            slope_sizes=share * (self.row_sizes[behind] + self.row_sizes[ahead]),
            offset_size=share * float(self.offset_sizes[behind] + self.offset_sizes[ahead]),
        )


def _maxima(base: ProgramNumbers, bias: int, other_rows: Any, weights: Array) -> list[_Maximum] | None:
    """Return the losses whose sum the bias minimises, one for every variable that bounds one; None where there are
    others.

    Rows of linear inequalities hold all variables that P does not determine, and those that are connected by rows are
    reduced to one with a weight: a variable without one only hands bounds on, and is eliminated.
    """
    A = sp.csr_array(base.A)
    free = other_rows.copy()
    free[bias] = True
    linear = np.zeros(base.b.size, dtype=bool)
    for rows in base.rows("NonNeg"):
        linear[rows] = True
    groups: dict[int, list[int]] = {}
    touching: dict[int, list[int]] = {}
    for row in range(base.b.size):
        columns = A.indices[A.indptr[row] : A.indptr[row + 1]][A.data[A.indptr[row] : A.indptr[row + 1]] != 0.0]
        inside = columns[free[columns]]
        if not inside.size:
            continue
        bounding = inside[inside != bias]
        if not linear[row] or not bounding.size:
            return None
        groups[row] = bounding.tolist()
        for column in groups[row]:
            touching.setdefault(column, []).append(row)
    if set(touching) != set(np.flatnonzero(other_rows).tolist()):
        return None
    maxima = []
    remaining = set(touching)
    while remaining:
        queue = deque([remaining.pop()])
        members, rows_of = {queue[0]}, set()
        while queue:
            for row in touching[queue.popleft()]:
                rows_of.add(row)
                for column in groups[row]:
                    if column not in members:
                        members.add(column)
                        remaining.discard(column)
                        queue.append(column)
        maximum = _eliminate_maximum(A, base.b, sorted(rows_of), sorted(members), bias, weights)
        if maximum is None:
            return None
        maxima.append(maximum)
    return maxima


def _eliminate_maximum(
    A: Any, b: Array, rows: list[int], members: list[int], bias: int, weights: Array
) -> _Maximum | None:
    """Return the maximum that the one variable with a weight is, after those without one are eliminated."""
    weighed = [column for column in members if weights[column] != 0.0]
    if len(weighed) != 1 or weights[weighed[0]] < 0.0 or len(rows) > _MOST:
        return None
    full, right = A[rows].toarray(), b[rows]
    sizes, heights = np.abs(full), np.abs(right)
    for column in members:
        if column == weighed[0]:
            continue
        under, over, out = full[:, column] > 0.0, full[:, column] < 0.0, full[:, column] == 0.0
        if not (np.abs(full[under | over, column]) == 1.0).all():  # then rows are added as they are
            return None
        pairs = [(i, j) for i in np.flatnonzero(under) for j in np.flatnonzero(over)]
        if len(pairs) > _MOST:
            return None
        full, sizes = (np.vstack([M[out], *(M[i] + M[j] for i, j in pairs)]) for M in (full, sizes))
        right, heights = (np.concatenate([v[out], *([v[i] + v[j]] for i, j in pairs)]) for v in (right, heights))
    height = full[:, weighed[0]]
    if not height.size or (height <= 0.0).any():
        return None
    scale = -weights[weighed[0]] / height
    full = scale[:, None] * full
    return _Maximum(
        rises=full[:, bias],
        rows=full,
        offsets=scale * right,
        row_sizes=np.abs(scale)[:, None] * sizes,
        offset_sizes=np.abs(scale) * heights,
    )
