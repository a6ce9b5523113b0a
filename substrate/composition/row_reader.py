r"""Losses that are sums over the rows of a machine, read from their cvxpy expression.

For every training row the part of the objective that depends on the value f there is a convex function of one number,

.. math::

    \ell(f) = \beta + \alpha f + \tfrac q2 f^2 + \sum_k \delta_k (f - \tau_k)_+
    + \sum_k r_k \int_{m_k}^f (\min(\max(s, l_k), u_k) - m_k)\, ds + \sum_k w_k \varphi_k(a_k f + c_k) ,

with kinks of height :math:`\delta_k \ge 0` at :math:`\tau_k`, ramps of its slope between :math:`l_k` and :math:`u_k`,
and :math:`\varphi` the exponential or :math:`\log(1 + e^x)` (:mod:`substrate.losses`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression
from cvxpy.atoms.affine.index import index, special_index
from cvxpy.atoms.affine.promote import Promote
from cvxpy.atoms.affine.sum import Sum
from cvxpy.atoms.affine.unary_operators import NegExpression
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.losses import Exponential, LogisticRows, PieceLoss, RowLoss

__all__ = ["ReadLosses", "read_row_losses"]


@dataclass(frozen=True, slots=True)
class _Ramp:
    """The slope rises by ``rate`` between two ends, and is zero at the anchor."""

    rate: Array
    low: Array
    high: Array
    anchor: Array


@dataclass(frozen=True, slots=True)
class _Smooth:
    """``weight`` times exp, or log(1 + exp), of ``factor`` f + ``constant``."""

    is_logistic: bool
    weight: Array
    factor: Array
    constant: Array


@dataclass(frozen=True)
class _Entries:
    """Functions of single values, as the entries of an expression; ``rows`` says of which.

    ``width`` is the size of the numbers that breakpoints are made of; ``vanishes`` that the function is zero between
    its first and its last kink and positive elsewhere.
    """

    rows: NDArray[np.intp]
    constant: Array
    slope: Array
    square: Array | None = None
    kinks: tuple[tuple[Array, Array], ...] = ()
    ramps: tuple[_Ramp, ...] = ()
    smooth: tuple[_Smooth, ...] = ()
    width: Array = field(default_factory=lambda: np.zeros(1))
    vanishes: bool = False

    @property
    def is_affine(self) -> bool:
        """Return whether there is nothing but a constant and a slope."""
        return self.is_linear_by_pieces and not self.kinks

    @property
    def is_linear_by_pieces(self) -> bool:
        """Return whether there is no curvature."""
        return self.square is None and not self.ramps and not self.smooth

    def scale(self, factor: Any) -> "_Entries | None":
        """Return a multiple; None where that is not convex."""
        factor = np.asarray(factor, dtype=np.float64)
        if not self.is_affine and (factor < 0.0).any():
            return None
        size = np.broadcast_to(factor, self.rows.shape)
        return replace(
            self,
            constant=self.constant * size,
            slope=self.slope * size,
            square=None if self.square is None else self.square * size,
            kinks=tuple((place, jump * size) for place, jump in self.kinks),
            ramps=tuple(replace(ramp, rate=ramp.rate * size) for ramp in self.ramps),
            smooth=tuple(replace(part, weight=part.weight * size) for part in self.smooth),
            vanishes=False,
        )

    def add(self, other: "_Entries") -> "_Entries | None":
        """Return a sum; None where the entries are of different rows."""
        if not np.array_equal(self.rows, other.rows):
            return None
        squares = [entries.square for entries in (self, other) if entries.square is not None]
        return _Entries(
            rows=self.rows,
            constant=self.constant + other.constant,
            slope=self.slope + other.slope,
            square=sum(squares[1:], squares[0]) if squares else None,
            kinks=self.kinks + other.kinks,
            ramps=self.ramps + other.ramps,
            smooth=self.smooth + other.smooth,
            width=np.maximum(self.width, other.width),
        )

    def positive_part(self) -> "_Entries | None":
        """Return max(0, .) of a function that is linear by pieces, with one kink at most."""
        if not self.is_linear_by_pieces or len(self.kinks) > 1:
            return None
        if not self.kinks:
            return self._positive_part_of_affine()
        ((place, jump),) = self.kinks
        lowest = self.slope * place + self.constant
        last = self.slope + jump
        if not ((self.slope < 0.0) & (last > 0.0)).all():
            return None
        if (lowest >= 0.0).all():
            return self
        if (lowest >= 0.0).any():
            return None
        left, right = place - lowest / self.slope, place - lowest / last
        return _Entries(
            rows=self.rows,
            constant=-self.slope * left,
            slope=self.slope,
            kinks=((left, -self.slope), (right, last)),
            width=self.width + np.abs(place) + np.abs(lowest) / np.minimum(-self.slope, last),
            vanishes=True,
        )

    def _positive_part_of_affine(self) -> "_Entries":
        flat = self.slope == 0.0
        place = np.where(flat, 0.0, -self.constant / np.where(flat, 1.0, self.slope))
        falls = self.slope < 0.0
        constant = np.where(falls, self.constant, np.where(flat, np.maximum(self.constant, 0.0), 0.0))
        return _Entries(
            rows=self.rows,
            constant=constant,
            slope=np.where(falls, self.slope, 0.0),
            kinks=((place, np.abs(self.slope)),),
            width=self.width + np.abs(place),
            vanishes=not flat.any(),
        )

    def absolute_value(self) -> "_Entries | None":
        """Return the size of an affine function."""
        if not self.is_affine:
            return self if self.vanishes else None
        part = self._positive_part_of_affine()
        ((place, jump),) = part.kinks
        return replace(
            part,
            constant=2.0 * part.constant - self.constant,
            slope=2.0 * part.slope - self.slope,
            kinks=((place, 2.0 * jump),),
        )

    def squared(self) -> "_Entries | None":
        """Return the square of an affine function, or of one that vanishes between its kinks."""
        if self.is_affine:
            return replace(
                self,
                constant=self.constant**2,
                slope=2.0 * self.slope * self.constant,
                square=2.0 * self.slope**2,
                width=self.width + np.abs(self.constant),
            )
        if not self.is_linear_by_pieces or not self.vanishes:
            return None
        first, last = self.kinks[0][0], self.kinks[-1][0]
        rise = self.slope + sum(jump for _, jump in self.kinks)
        zero, far = np.zeros_like(self.slope), np.full_like(self.slope, np.inf)
        return _Entries(
            rows=self.rows,
            constant=zero,
            slope=zero,
            ramps=(
                _Ramp(2.0 * self.slope**2, -far, first, first),
                _Ramp(2.0 * rise**2, last, far, last),
            ),
            width=self.width,
        )

    def huber(self, bound: float) -> "_Entries | None":
        """Return the Huber function of an affine function: x^2 up to a bound, 2 M |x| - M^2 beyond."""
        if not self.is_affine or (self.slope == 0.0).any():
            return None
        anchor, half = -self.constant / self.slope, bound / np.abs(self.slope)
        zero = np.zeros_like(self.slope)
        return _Entries(
            rows=self.rows,
            constant=zero,
            slope=zero,
            ramps=(_Ramp(2.0 * self.slope**2, anchor - half, anchor + half, anchor),),
            width=self.width + np.abs(anchor) + half,
        )

    def function(self, is_logistic: bool) -> "_Entries | None":
        """Return the exponential of an affine function, or log(1 + exp)."""
        if not self.is_affine or (self.slope == 0.0).any():
            return None
        part = _Smooth(is_logistic, np.ones_like(self.slope), self.slope, self.constant)
        zero = np.zeros_like(self.slope)
        return _Entries(rows=self.rows, constant=zero, slope=zero, smooth=(part,))


def _affine(expression: Any, leaf: Any) -> _Entries | None:
    if expression is leaf:
        n = leaf.size
        return _Entries(rows=np.arange(n), constant=np.zeros(n), slope=np.ones(n))
    return None


def _maximum(arguments: list[Any], leaf: Any) -> _Entries | None:
    """Return the largest of several: all but one affine or constant."""
    parts = [_constant_or_entries(argument, leaf) for argument in arguments]
    entries = [part for part in parts if isinstance(part, _Entries)]
    if not entries or any(part is None for part in parts):
        return None
    whole: _Entries | None = None
    ordered = sorted(parts, key=lambda part: isinstance(part, _Entries) and bool(part.kinks), reverse=True)
    for part in ordered:
        if not isinstance(part, _Entries):  # a constant
            n = entries[0].rows.size
            part = replace(
                entries[0],
                constant=np.broadcast_to(part, (n,)).astype(np.float64),
                slope=np.zeros(n),
                square=None,
                kinks=(),
                ramps=(),
                smooth=(),
                vanishes=False,
            )
        if whole is None:
            whole = part
            continue
        if not part.is_affine:
            return None
        is_nought = not part.slope.any() and not part.constant.any()
        negative = part.scale(-1.0)
        difference = whole if is_nought or negative is None else whole.add(negative)
        over = None if difference is None else difference.positive_part()
        whole = over if is_nought or over is None else over.add(part)
        if whole is None:
            return None
    return whole


def _constant_or_entries(expression: Any, leaf: Any) -> Any:
    return np.asarray(expression.value).ravel() if expression.is_constant() else _entries(expression, leaf)


def _entries(expression: Any, leaf: Any) -> _Entries | None:
    """Return the entries of an elementwise convex function of single values; None where it is something else."""
    if expression is leaf:
        return _affine(expression, leaf)
    if expression.ndim > 1:
        return None
    arguments = expression.args
    if isinstance(expression, AddExpression):
        parts = [_constant_or_entries(argument, leaf) for argument in arguments]
        whole: _Entries | None = None
        constant: Any = 0.0
        for part in parts:
            if part is None:
                return None
            if not isinstance(part, _Entries):
                constant = constant + part
            else:
                whole = part if whole is None else whole.add(part)
                if whole is None:
                    return None
        if whole is None:
            return None
        plain = isinstance(constant, float)
        return whole if plain else replace(whole, constant=whole.constant + constant, vanishes=False)
    if isinstance(expression, NegExpression):
        negated = _entries(arguments[0], leaf)
        return None if negated is None else negated.scale(-1.0)
    if isinstance(expression, (cp.multiply, DivExpression)):
        return _multiple(expression, leaf)
    if isinstance(expression, (index, special_index)):
        return _select(expression, leaf)
    if isinstance(expression, cp.maximum):
        return _maximum(arguments, leaf)
    return _function(expression, leaf)


def _multiple(expression: Any, leaf: Any) -> _Entries | None:
    left, right = expression.args
    if isinstance(expression, DivExpression):
        entries = _entries(left, leaf) if right.is_constant() else None
        return None if entries is None else entries.scale(1.0 / np.asarray(right.value, dtype=np.float64).ravel())
    constant, other = (left, right) if left.is_constant() else (right, left)
    if not constant.is_constant() or other.size != expression.size:
        return None
    entries = _entries(other.args[0] if isinstance(other, Promote) else other, leaf)
    return None if entries is None else entries.scale(np.asarray(constant.value, dtype=np.float64).ravel())


def _select(expression: Any, leaf: Any) -> _Entries | None:
    entries = _entries(expression.args[0], leaf)
    if entries is None or not entries.is_affine:
        return None
    return replace(
        entries,
        rows=np.atleast_1d(expression.numeric([entries.rows])).astype(np.intp),
        constant=np.atleast_1d(expression.numeric([entries.constant])),
        slope=np.atleast_1d(expression.numeric([entries.slope])),
        width=np.atleast_1d(expression.numeric([np.broadcast_to(entries.width, entries.rows.shape)])),
    )


def _function(expression: Any, leaf: Any) -> _Entries | None:
    kinds: list[tuple[type, Callable[[_Entries], _Entries | None]]] = [
        (cp.abs, _Entries.absolute_value),
        (cp.huber, lambda part: part.huber(float(expression.M.value))),
        (cp.exp, lambda part: part.function(is_logistic=False)),
        (cp.logistic, lambda part: part.function(is_logistic=True)),
    ]
    if _is_square(expression):
        kinds.append((type(expression), _Entries.squared))
    for kind, change in kinds:
        if isinstance(expression, kind):
            entries = _entries(expression.args[0], leaf)  # type: ignore[attr-defined]
            return None if entries is None else change(entries)
    return None


def _is_square(expression: Any) -> bool:
    # later releases of cvxpy have a function of this name that returns one of several classes
    is_power = any(kind.__name__.lower() == "power" for kind in type(expression).__mro__)
    return is_power and getattr(expression.p, "value", expression.p) == 2


@dataclass
class _Sum:
    """The weight of w'w, a constant, and the terms that were read."""

    norm: float = 0.0
    constant: float = 0.0
    terms: list[_Entries] = field(default_factory=list)


def _collect(term: Any, weight: float, leaf: Any, norm: Any, total: _Sum) -> bool:
    """Add a scalar term to the sum; return whether it was understood."""
    if weight == 0.0:  # as a loss whose parameter is zero: nothing
        return True
    if term.is_constant():
        total.constant += weight * float(term.value)
        return True
    if term is norm:
        total.norm += weight
        return True
    if isinstance(term, AddExpression):
        return all(_collect(argument, weight, leaf, norm, total) for argument in term.args)
    if isinstance(term, NegExpression):
        return _collect(term.args[0], -weight, leaf, norm, total)
    if isinstance(term, (cp.multiply, MulExpression, DivExpression)) and all(a.is_scalar() for a in term.args):
        left, right = term.args
        if isinstance(term, DivExpression):
            return right.is_constant() and _collect(left, weight / float(right.value), leaf, norm, total)
        constant, other = (left, right) if left.is_constant() else (right, left)
        return constant.is_constant() and _collect(other, weight * float(constant.value), leaf, norm, total)
    entries = _sum_of_entries(term, leaf)
    entries = None if entries is None else entries.scale(weight)
    if entries is not None:
        total.terms.append(entries)
    return entries is not None


def _sum_of_entries(term: Any, leaf: Any) -> _Entries | None:
    """Return the entries whose sum a scalar term is."""
    first = term.args[0] if term.args else None
    if isinstance(term, Sum) and term.axis is None:
        return _entries(first, leaf)
    if isinstance(term, cp.norm1) and term.axis is None:
        entries = _entries(first, leaf)
        return None if entries is None else entries.absolute_value()
    if isinstance(term, cp.quad_over_lin) and term.axis is None and term.args[1].is_constant():
        entries = _entries(first, leaf)
        entries = None if entries is None else entries.squared()
        return None if entries is None else entries.scale(1.0 / float(term.args[1].value))
    if isinstance(term, MulExpression) and all(argument.ndim == 1 for argument in term.args):
        left, right = term.args
        constant, other = (left, right) if left.is_constant() else (right, left)
        entries = _entries(other, leaf) if constant.is_constant() else None
        return None if entries is None else entries.scale(np.asarray(constant.value, dtype=np.float64))
    return None


def read_row_losses(objective: Any, leaf: Any, norm: Any) -> "ReadLosses | None":
    """Return the weight of w'w and the losses of the rows; None where the objective has anything else in it.

    ``leaf`` is the variable of the fitted values, ``norm`` that of w'w.
    """
    total = _Sum()
    with np.errstate(all="ignore"):
        if not _collect(objective, 1.0, leaf, norm, total) or not total.norm > 0.0:
            return None
        losses = _Terms.of(leaf.size, total.terms)
    if losses is None:
        return None
    constant = total.constant + sum(float(term.constant.sum()) for term in total.terms)
    return ReadLosses(total.norm, losses.as_loss(), constant)


class ReadLosses(NamedTuple):
    """The weight of w'w, the losses of the rows, and what the objective has beside them."""

    norm: float
    losses: RowLoss
    constant: float


@dataclass(frozen=True)
class _Terms:
    """The sum of the terms of every row."""

    slope: Array
    square: Array
    kinks: tuple[tuple[Array, Array], ...]
    ramps: tuple[_Ramp, ...]
    smooth: _Smooth | None
    width: Array

    @classmethod
    def of(cls, n: int, terms: list[_Entries]) -> "_Terms | None":
        """Return the sum of terms; None where it is more than a row loss has."""
        slope, square, width = np.zeros(n), np.zeros(n), np.zeros(n)
        kinks, ramps, smooth = [], [], []
        for term in terms:
            if np.unique(term.rows).size != term.rows.size:
                return None
            slope[term.rows] += term.slope
            width[term.rows] += term.width
            if term.square is not None:
                square[term.rows] += term.square
            kinks += [(_spread(n, term.rows, t), _spread(n, term.rows, jump)) for t, jump in term.kinks]
            ramps += [
                _Ramp(*(_spread(n, term.rows, values) for values in (ramp.rate, ramp.low, ramp.high, ramp.anchor)))
                for ramp in term.ramps
            ]
            smooth += [(term.rows, part) for part in term.smooth]
        if smooth and (len(smooth) > 1 or kinks or ramps or square.any() or smooth[0][0].size != n):
            return None
        part = smooth[0][1] if smooth else None
        if part is not None and (not np.array_equal(smooth[0][0], np.arange(n)) or (part.weight <= 0.0).any()):
            return None
        numbers = [slope, square, width, *(jump for _, jump in kinks), *(ramp.rate for ramp in ramps)]
        if not all(np.isfinite(values).all() for values in numbers):
            return None
        return cls(slope, square, tuple(kinks), tuple(ramps), part, width)

    def as_loss(self) -> RowLoss:
        """Return the losses as functions with breakpoints, or as functions with a derivative."""
        if self.smooth is not None:
            kind = LogisticRows if self.smooth.is_logistic else Exponential
            return kind(self.smooth.weight, self.smooth.factor, self.smooth.constant, self.slope)
        columns = [place for place, _ in self.kinks]
        columns += [end for ramp in self.ramps for end in (ramp.low, ramp.high) if np.isfinite(end).all()]
        places = np.sort(np.column_stack(columns or [np.zeros(self.slope.size)]), axis=1)
        below = np.column_stack([self._slopes(column, right=False) for column in places.T])
        above = np.column_stack([self._slopes(column, right=True) for column in places.T])
        ends = np.column_stack([np.full(len(places), -np.inf), places, np.full(len(places), np.inf)])
        curvature = np.tile(self.square[:, None], (1, places.shape[1] + 1))
        for ramp in self.ramps:
            inside = (ends[:, :-1] >= ramp.low[:, None]) & (ends[:, 1:] <= ramp.high[:, None])
            curvature += np.where(inside, ramp.rate[:, None], 0.0)
        return PieceLoss.of(places, below, above, curvature, self._values(places[:, 0]), self.width)

    def _values(self, f: Array) -> Array:
        """Return the sum at values of the rows, without its constant."""
        total = (self.slope + 0.5 * self.square * f) * f
        for place, jump in self.kinks:
            total += jump * np.maximum(f - place, 0.0)
        for ramp in self.ramps:
            inside = np.clip(f, ramp.low, ramp.high)
            total += ramp.rate * (inside - ramp.anchor) * (0.5 * (inside - ramp.anchor) + (f - inside))
        return np.asarray(total)

    def _slopes(self, f: Array, right: bool) -> Array:
        """Return the slope of the sum, at a kink the one on its right or on its left."""
        total = self.slope + self.square * f
        for place, jump in self.kinks:
            total = total + np.where(f >= place if right else f > place, jump, 0.0)
        for ramp in self.ramps:
            total = total + ramp.rate * (np.clip(f, ramp.low, ramp.high) - ramp.anchor)
        return np.asarray(total)


def _spread(n: int, rows: NDArray[np.intp], values: Array) -> Array:
    """Return values of some rows as an array of all, zero elsewhere."""
    if rows.size == n and np.array_equal(rows, np.arange(n)):
        return np.broadcast_to(values, (n,))
    whole = np.zeros(n)
    whole[rows] = values
    return whole
