r"""Losses that are sums over the rows of a machine, read from their cvxpy expression.

For every training row the part of the objective that depends on the value f there is a convex function of one number,

.. math::

    \ell(f) = \beta + \alpha f + \tfrac q2 f^2 + \sum_k \delta_k (f - \tau_k)_+
    + \sum_k r_k \int_{m_k}^f (\min(\max(s, l_k), u_k) - m_k)\, ds + \sum_k w_k \varphi_k(a_k f + c_k) ,

with kinks of height :math:`\delta_k \ge 0` at :math:`\tau_k`, ramps of its slope between :math:`l_k` and :math:`u_k`,
and :math:`\varphi` the exponential or :math:`\log(1 + e^x)`. Its slope is monotone, so that a subgradient g belongs to
an interval :math:`[h_1, h_2]` of values, and the inequality of Fenchel and Young ([Rockafellar1970]_ section 23) is

.. math:: 0 \le \ell(f) + \ell^*(g) - f g = \int_h^f (\ell'(s) - g)\, ds \le |f - h|\, |\ell'(f) - g| ,

a product of two numbers that are never a difference of large ones.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

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
from substrate.certificates.rounding import relative_rounding

__all__ = ["RAMP", "RowLosses", "affine_entries", "read_row_losses"]

#: Roundings of a breakpoint, in units of the numbers it is computed from.
_BREAKPOINT = 4.0
#: Roundings of the slope of a straight piece behind a ramp.
RAMP = 8.0
#: Roundings, for each row, within which a subgradient is at the end of its domain.
_END = 2.0
#: Roundings of a logarithm, an exponential and what is around them.
_FUNCTION = 16.0


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


def affine_entries(expression: Any, leaf: Any) -> tuple[Array, Array] | None:
    """Return the factor and the constant of every row, where an expression is affine in each value, in their order."""
    entries = _entries(expression, leaf)
    if entries is None or not entries.is_affine or not np.array_equal(entries.rows, np.arange(leaf.size)):
        return None
    return entries.slope, entries.constant


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


def read_row_losses(objective: Any, leaf: Any, norm: Any, ridge: float = 0.0) -> "tuple[float, RowLosses] | None":
    """Return the weight of w'w and the losses of the rows; None where the objective has anything else in it.

    ``leaf`` is the variable of the fitted values, ``norm`` that of w'w, to whose weight ``ridge`` is added.
    """
    total = _Sum(norm=ridge)
    with np.errstate(all="ignore"):
        if not _collect(objective, 1.0, leaf, norm, total) or not total.norm > 0.0:
            return None
        losses = RowLosses.of(leaf.size, total.terms, total.constant)
    return None if losses is None else (total.norm, losses)


@dataclass(frozen=True)
class RowLosses:
    """One convex function of each value; see the page of this module.

    ``places`` are the sorted breakpoints, ``below`` and ``above`` the slopes on both sides of each, ``curvature`` the
    rise of the slope before, between and behind them; ``width`` bounds the rounding of a breakpoint.
    """

    n: int
    constant: float
    slope: Array
    square: Array
    kinks: tuple[tuple[Array, Array], ...]
    ramps: tuple[_Ramp, ...]
    smooth: _Smooth | None
    width: Array
    places: Array
    below: Array
    above: Array
    curvature: Array

    @classmethod
    def of(cls, n: int, terms: list[_Entries], constant: float) -> "RowLosses | None":
        """Return the sum of terms; None where it is more than this form has."""
        slope, square, width = np.zeros(n), np.zeros(n), np.zeros(n)
        kinks, ramps, smooth = [], [], []
        for term in terms:
            if np.unique(term.rows).size != term.rows.size:
                return None
            constant += float(term.constant.sum())
            slope[term.rows] += term.slope
            width[term.rows] += term.width
            if term.square is not None:
                square[term.rows] += term.square
            kinks += [(_spread(n, term.rows, t, 0.0), _spread(n, term.rows, jump, 0.0)) for t, jump in term.kinks]
            ramps += [
                _Ramp(*(_spread(n, term.rows, values, 0.0) for values in (ramp.rate, ramp.low, ramp.high, ramp.anchor)))
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
        return cls._with_breakpoints(n, constant, slope, square, tuple(kinks), tuple(ramps), part, width)

    @classmethod
    def _with_breakpoints(
        cls, n: int, constant: float, slope: Array, square: Array, kinks: Any, ramps: Any, part: Any, width: Array
    ) -> "RowLosses":
        columns = [place for place, _ in kinks]
        columns += [end for ramp in ramps for end in (ramp.low, ramp.high) if np.isfinite(end).all()]
        places = np.sort(np.column_stack(columns), axis=1) if columns else np.zeros((n, 0))
        losses = cls(
            n=n,
            constant=constant,
            slope=slope,
            square=square,
            kinks=kinks,
            ramps=ramps,
            smooth=part,
            width=relative_rounding(_BREAKPOINT) * width,
            places=places,
            below=np.zeros((n, 0)),
            above=np.zeros((n, 0)),
            curvature=square[:, None],
        )
        below = [losses.slopes(column, right=False) for column in places.T]
        above = [losses.slopes(column, right=True) for column in places.T]
        ends = np.column_stack([np.full(n, -np.inf), places, np.full(n, np.inf)])
        curvature = np.tile(square[:, None], (1, places.shape[1] + 1))
        for ramp in ramps:
            inside = (ends[:, :-1] >= ramp.low[:, None]) & (ends[:, 1:] <= ramp.high[:, None])
            curvature += np.where(inside, ramp.rate[:, None], 0.0)
        shape = (n, places.shape[1])
        return replace(
            losses,
            below=np.array(below).T.reshape(shape),
            above=np.array(above).T.reshape(shape),
            curvature=curvature,
        )

    @property
    def is_nothing(self) -> bool:
        """Return whether no row has a loss, as where the weight of all is zero."""
        parts = (self.slope, self.square, *(jump for _, jump in self.kinks), *(ramp.rate for ramp in self.ramps))
        return self.smooth is None and not any(part.any() for part in parts)

    @property
    def has_kinks(self) -> bool:
        """Return whether the slope jumps somewhere."""
        return bool(self.kinks)

    def values(self, f: Array) -> Array:
        """Return the loss of every row, without the constant."""
        total = (self.slope + 0.5 * self.square * f) * f
        for place, jump in self.kinks:
            total += jump * np.maximum(f - place, 0.0)
        for ramp in self.ramps:
            inside = np.clip(f, ramp.low, ramp.high)
            total += ramp.rate * (inside - ramp.anchor) * (0.5 * (inside - ramp.anchor) + (f - inside))
        if self.smooth is not None:
            x = self.smooth.factor * f + self.smooth.constant
            total += self.smooth.weight * (np.logaddexp(0.0, x) if self.smooth.is_logistic else np.exp(x))
        return np.asarray(total)

    def slopes(self, f: Array, right: bool = True) -> Array:
        """Return the slope of every row, at a kink that of its right or of its left."""
        total = self.slope + self.square * f
        for place, jump in self.kinks:
            total = total + np.where(f >= place if right else f > place, jump, 0.0)
        for ramp in self.ramps:
            total = total + ramp.rate * (np.clip(f, ramp.low, ramp.high) - ramp.anchor)
        if self.smooth is not None:
            total = total + self.smooth.weight * self.smooth.factor * self._response(f)
        return np.asarray(total)

    def curvatures(self, f: Array) -> Array:
        """Return the rise of the slope of every row, away from kinks."""
        total = self.square.copy()
        for ramp in self.ramps:
            total += np.where((f > ramp.low) & (f < ramp.high), ramp.rate, 0.0)
        if self.smooth is not None:
            response = self._response(f)
            rise = response * (1.0 - response) if self.smooth.is_logistic else response
            total += self.smooth.weight * self.smooth.factor**2 * rise
        return total

    def _response(self, f: Array) -> Array:
        assert self.smooth is not None
        x = self.smooth.factor * f + self.smooth.constant
        if not self.smooth.is_logistic:
            return np.asarray(np.exp(x))
        return np.asarray(np.exp(-np.logaddexp(0.0, -x)))

    def nearest(self, f: Array, weight: float) -> tuple[Array, Array, Array]:
        """Return argmin of the loss plus (v - f)^2/(2 weight), the subgradient there, and the slope of the minimiser.

        The subgradient is exactly that of a straight piece where the minimiser lies on one.
        """
        count = self.places.shape[1]
        rows = np.arange(self.n)
        ahead = self.places + weight * self.above
        k = (ahead < f[:, None]).sum(axis=1)
        at, before = np.minimum(k, count - 1), np.maximum(k - 1, 0)
        place = self.places[rows, at]
        on_kink = (k < count) & (place + weight * self.below[rows, at] <= f)
        rise = self.curvature[rows, k]
        start, slope = self.places[rows, before], self.above[rows, before]
        start, slope = np.where(k > 0, start, place), np.where(k > 0, slope, self.below[rows, at])
        step = (f - start - weight * slope) / (1.0 + weight * rise)
        v = np.where(on_kink, place, start + step)
        g = np.where(on_kink, (f - place) / weight, slope + rise * step)
        return v, g, np.where(on_kink, 0.0, 1.0 / (1.0 + weight * rise))

    def ends_of_slopes(self) -> tuple[Array, Array]:
        """Return the smallest and the largest subgradient of every row."""
        low, high = np.full(self.n, -np.inf), np.full(self.n, np.inf)
        if self.smooth is not None:
            reach = self.smooth.weight * self.smooth.factor
            far = reach if self.smooth.is_logistic else np.copysign(np.inf, reach)
            return self.slope + np.minimum(far, 0.0), self.slope + np.maximum(far, 0.0)
        if not self.places.shape[1]:
            return np.where(self.square > 0.0, low, self.slope), np.where(self.square > 0.0, high, self.slope)
        low = np.where(self.curvature[:, 0] > 0.0, low, self.below[:, 0])
        return low, np.where(self.curvature[:, -1] > 0.0, high, self.above[:, -1])

    def values_of_slopes(self, g: Array) -> tuple[Array, Array, Array]:
        """Return the ends of the interval of values that g belongs to, and a bound on their rounding.

        Not a number where g belongs to none.
        """
        with np.errstate(all="ignore"):
            return self._values_of_slopes(g)

    def _values_of_slopes(self, g: Array) -> tuple[Array, Array, Array]:
        if self.smooth is not None:
            h, radius = self._inverse_response(g)
            return h, h, radius
        count, rows = self.places.shape[1], np.arange(self.n)
        if not count:
            h = (g - self.slope) / self.square
            radius = relative_rounding(4.0) * ((np.abs(g) + np.abs(self.slope)) / self.square + np.abs(h))
            flat = self.square == 0.0
            low, high = np.where(flat, -np.inf, h), np.where(flat, np.inf, h)
            radius = np.where(flat, np.where(g == self.slope, 0.0, np.nan), radius)
            return low, high, radius
        ends: list[Array] = []
        for k in ((self.above < g[:, None]).sum(axis=1), (self.below <= g[:, None]).sum(axis=1)):
            first = not ends
            beside = np.minimum(k, count - 1) if first else np.maximum(k - 1, 0)
            inside = k < count if first else k > 0
            on_kink = inside & (self.below[rows, beside] <= g) & (self.above[rows, beside] >= g)
            start = np.where(k > 0, self.places[rows, np.maximum(k - 1, 0)], self.places[rows, 0])
            slope = np.where(k > 0, self.above[rows, np.maximum(k - 1, 0)], self.below[rows, 0])
            rise = self.curvature[rows, k]
            h = np.where(on_kink, self.places[rows, beside], start + (g - slope) / np.where(rise > 0.0, rise, np.nan))
            ends.append(h)
        low, high = ends
        low = np.where((self.curvature[:, 0] == 0.0) & (g == self.below[:, 0]), -np.inf, low)
        high = np.where((self.curvature[:, -1] == 0.0) & (g == self.above[:, -1]), np.inf, high)
        least = np.where(self.curvature > 0.0, self.curvature, np.inf).min(axis=1)
        sizes = (np.abs(g) + np.abs(self.below).max(axis=1)) / least
        return low, high, relative_rounding(4.0) * sizes + self.width

    def _inverse_response(self, g: Array) -> tuple[Array, Array]:
        assert self.smooth is not None
        part = self.smooth
        reach = part.weight * part.factor
        share, rounding = (g - self.slope) / reach, (np.abs(g) + np.abs(self.slope)) / np.abs(reach)
        beside = 1.0 - share if part.is_logistic else np.ones_like(share)
        with np.errstate(all="ignore"):
            x = np.log(share) - (np.log(beside) if part.is_logistic else 0.0)
            relative = rounding / share + (rounding / beside if part.is_logistic else 0.0)
            x = np.where((share > 0.0) & (beside > 0.0), x, np.nan)
        radius = relative_rounding(_FUNCTION) * (relative + 1.0 + np.abs(x) + np.abs(part.constant))
        return (x - part.constant) / part.factor, radius / np.abs(part.factor)

    def young_gaps(self, f: Array, radius: Array, g: Array) -> Array:
        """Return bounds on loss + conjugate - f g of every row, for all f within a radius; infinite where unknown."""
        low, high, rounding = self.values_of_slopes(g)
        reach = radius + 2.0 * (rounding + self.width)
        top, bottom = f + reach, f - reach
        with np.errstate(all="ignore"):
            over = np.where(top > high, (top - high) * (self.slopes(top) - g), 0.0)
            under = np.where(bottom < low, (low - bottom) * (g - self.slopes(bottom, right=False)), 0.0)
            gaps = np.maximum(np.maximum(over, under), 0.0)
            if self.smooth is not None:  # what the slope itself is rounded by
                noise = relative_rounding(_FUNCTION) * (
                    np.abs(self.slope)
                    + np.abs(self.slopes(top) - self.slope)
                    + np.abs(self.slopes(bottom) - self.slope)
                )
                noise = noise * (1.0 + np.abs(self.smooth.factor * f) + np.abs(self.smooth.constant))
                gaps = gaps + (np.abs(f - low) + reach) * noise
        unknown = np.isnan(rounding) | np.isnan(low) | np.isnan(high) | np.isnan(gaps)
        return np.asarray(np.where(unknown, np.inf, gaps))

    def balance(self, g: Array, bias: bool) -> tuple[Array, float, int]:
        """Return g inside the domains of the conjugates, with a sum that is zero up to a remainder at one row.

        The remainder is infinite where no row has room for it. A sum of doubles is rounded once, by ``math.fsum``. The
        slope behind a ramp is a product that is rounded: g stands for the exact one there, and the remainder counts it.
        """
        low, high = self.ends_of_slopes()
        g = np.clip(g, low, high)
        if not bias:
            return g, 0.0, 0
        # within rounding of an end it is at the end: where all rows are, their sum is then zero or it is not
        with np.errstate(all="ignore"):
            near = relative_rounding(_END * self.n) * float(np.abs(g).max())
            g = np.where(g - low <= near, low, np.where(high - g <= near, high, g))
        room = np.minimum(g - low, high - g)
        row = int(np.argmax(room))
        total = math.fsum(g.tolist())
        noise = relative_rounding(RAMP) * float(np.abs(g).sum()) if self.ramps else 0.0
        if total == 0.0 and noise == 0.0:
            return g, 0.0, row
        if not room[row] > 2.0 * (abs(total) + noise):
            return g, math.inf, row
        g[row] -= total
        return g, abs(math.fsum(g.tolist())) + noise, row

    def reach(self, f: Array, radius: Array, g: Array, row: int) -> float:
        """Return how fast the gap of a row grows with an error of its g."""
        low, high, rounding = self.values_of_slopes(g)
        away = max(abs(float(f[row] - low[row])), abs(float(f[row] - high[row])))
        return away + 2.0 * float(radius[row] + rounding[row] + self.width[row])

    def tension(self, f: Array, g: Array, size: float) -> float:
        """Return how far g is from subgradients at f, in slopes or in values, whichever is nearer, row by row.

        Values are compared with their size, which is not below the given one.
        """
        least, most = self.ends_of_slopes()
        low, high, rounding = self.values_of_slopes(np.clip(g, least, most))
        with np.errstate(all="ignore"):
            away = np.maximum(np.maximum(low - f, f - high) - rounding, 0.0)
            below, above = self.slopes(f, right=False), self.slopes(f)
            steeper = np.maximum(np.maximum(below - g, g - above), 0.0)
            largest = max(float(np.abs(below).max()), float(np.abs(above).max()), float(np.abs(g).max()))
            outside = np.maximum(least - g, g - most)
            away = np.where(outside > relative_rounding(8.0) * largest, np.inf, away)
            shares = np.fmin(away / (float(np.abs(f).max()) + size or 1.0), steeper / (largest or 1.0))
        tension = float(shares.max(initial=0.0))
        return tension if math.isfinite(tension) else math.inf


def _spread(n: int, rows: NDArray[np.intp], values: Array, fill: float) -> Array:
    """Return values of some rows as an array of all."""
    if rows.size == n and np.array_equal(rows, np.arange(n)):
        return np.broadcast_to(values, (n,))
    whole = np.full(n, fill)
    whole[rows] = values
    return whole
