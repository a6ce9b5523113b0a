r"""Losses that are sums over the rows of a machine, read from their cvxpy expression.

For every training row the part of the objective that depends on the value f there is a convex function of one number,
quadratic by pieces, or the exponential or :math:`\log(1 + e^x)` of an affine function and a slope. Functions that are
linear by pieces have maxima and squares, and sums and multiples of either are quadratic by pieces:

.. math:: \max(g, h) = h + (g - h)_+ , \qquad |g| = g_+ + (-g)_+ , \qquad
          \operatorname{huber}_M(g) = g^2 - (|g| - M)_+^2 .

Each piece is known from its own point, the root of what was squared, so that nothing cancels next to it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce
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
from substrate.losses import Exponential, LogisticRows, PieceLoss, RowLoss, SmoothLoss
from substrate.numbers import relative_rounding

__all__ = ["ReadLosses", "read_row_losses"]


#: Rounded operations by which the slopes on both sides of a breakpoint may differ where there is no kink.
_SLOPE = 16.0


class _UnreadableError(Exception):
    """The expression is not a sum over rows of functions of their values that are known here."""


@dataclass(frozen=True)
class _Entries:
    """Functions of single values, as the entries of an expression; ``rows`` says of which.

    Between ``places``, in ascending order, each is ``value + slope (f - anchor) + curvature (f - anchor)^2 / 2``;
    ``pieces`` has anchors, values, slopes and curvatures, one column more than places. ``smooth`` functions are added,
    and ``size`` has the sizes of the numbers that places were computed from.
    """

    rows: NDArray[np.intp]
    places: Array
    pieces: Array
    smooth: tuple[SmoothLoss, ...] = ()
    size: Any = 0.0

    @classmethod
    def identity(cls, n: int) -> "_Entries":
        """Return the values themselves."""
        return cls(np.arange(n), np.zeros((n, 0)), np.tile(np.array([0.0, 0.0, 1.0, 0.0])[:, None, None], (1, n, 1)))

    def scale(self, factor: Any) -> "_Entries":
        """Return a multiple."""
        size = np.broadcast_to(np.asarray(factor, dtype=np.float64), self.rows.shape)
        pieces = np.concatenate([self.pieces[:1], size[:, None] * self.pieces[1:]])
        return replace(
            self, pieces=pieces, smooth=tuple(replace(each, weight=each.weight * size) for each in self.smooth)
        )

    def shift(self, constant: Any) -> "_Entries":
        """Return the sum with numbers."""
        pieces = self.pieces.copy()
        pieces[1] += np.broadcast_to(constant, self.rows.shape)[:, None]
        return replace(self, pieces=pieces)

    def add(self, other: "_Entries") -> "_Entries":
        """Return a sum."""
        if not np.array_equal(self.rows, other.rows):
            raise _UnreadableError
        places = np.sort(np.hstack([self.places, other.places]), axis=1)
        first, second = self._refine(places), other._refine(places)
        total = np.zeros_like(first)
        total[0] = np.where(_is_flat(first), second[0], first[0])
        for anchor, value, slope, curvature in (first, second):
            step = total[0] - anchor
            total[1:] += value + step * (slope + 0.5 * curvature * step), slope + curvature * step, curvature
        size = np.maximum(self.size, other.size)
        return _Entries(self.rows, places, total, self.smooth + other.smooth, size)._join()

    def _refine(self, places: Array) -> Array:
        """Return the pieces between more places."""
        left = np.hstack([np.full((len(places), 1), -np.inf), places])
        number = (self.places[:, None, :] <= left[:, :, None]).sum(axis=2)
        return np.take_along_axis(self.pieces, number[None], axis=2)

    def _join(self) -> "_Entries":
        """Return the functions without places at which none of them changes, and without repeated ones."""
        same = self.pieces[:, :, 1:] == self.pieces[:, :, :-1]
        is_flat = _is_flat(self.pieces)
        same[0] |= is_flat[:, 1:] & is_flat[:, :-1]
        entries = self._keep(~same.all(axis=(0, 1)))
        return entries._keep((np.diff(entries.places, axis=1, prepend=-np.inf) > 0.0).any(axis=0))

    def _keep(self, kept: Any) -> "_Entries":
        """Return the functions without some places, and without the pieces before these."""
        return replace(self, places=self.places[:, kept], pieces=self.pieces[:, :, np.append(kept, True)])

    def _roots(self) -> Array:
        """Return where the straight lines of all pieces are zero; minus infinity where they are constant."""
        anchor, value, slope, curvature = self.pieces
        if self.smooth or curvature.any():
            raise _UnreadableError
        return np.where(slope == 0.0, -np.inf, anchor - value / np.where(slope == 0.0, 1.0, slope))

    def positive_part(self) -> "_Entries":
        """Return max(0, .) of functions that are linear by pieces."""
        ends, anchor = np.full((self.rows.size, 1), np.inf), self.pieces[0]
        left, right, roots = np.hstack([-ends, self.places]), np.hstack([self.places, ends]), self._roots()
        sizes = np.where((left < roots) & (roots < right), np.abs(anchor) + np.abs(roots - anchor), 0.0)
        roots = np.clip(roots, left, right)
        for other in (left, right, anchor):  # constant pieces without an end
            roots = np.where(np.isfinite(roots), roots, other)
        places = np.sort(np.hstack([self.places, roots]), axis=1)
        pieces, first, last = self._refine(places), places[:, :1], places[:, -1:]
        middles = 0.5 * (places[:, 1:] + places[:, :-1])
        inside = np.hstack([first - 1.0 - np.abs(first), middles, last + 1.0 + np.abs(last)])
        pieces[1:] *= pieces[1] + pieces[2] * (inside - pieces[0]) > 0.0
        return replace(self, places=places, pieces=pieces, size=self.size + sizes.max(axis=1))._join()

    def absolute_value(self) -> "_Entries":
        """Return the size of functions that are linear by pieces."""
        return self.positive_part().add(self.scale(-1.0).positive_part())

    def squared(self) -> "_Entries":
        """Return the square of functions that are linear by pieces."""
        roots, (anchor, value, slope, zero) = self._roots(), self.pieces
        is_flat = slope == 0.0
        parts = np.where(is_flat, anchor, roots), np.where(is_flat, value**2, 0.0), zero, 2.0 * slope**2
        size = np.where(is_flat, 0.0, np.abs(anchor) + np.abs(roots - anchor)).max(axis=1)
        return replace(self, pieces=np.array(parts), size=self.size + size)

    def huber(self, bound: float) -> "_Entries":
        """Return the Huber function: x^2 up to a bound, 2 M |x| - M^2 beyond."""
        beyond = self.absolute_value().shift(-bound).positive_part().squared()
        return self.squared().add(beyond.scale(-1.0))

    def larger(self, other: "_Entries") -> "_Entries":
        """Return the larger of two, entry by entry."""
        return self.add(other.scale(-1.0)).positive_part().add(other)

    def function(self, kind: type[SmoothLoss]) -> "_Entries":
        """Return a function with a derivative of affine functions."""
        self._roots()
        slope, constant = self._affine()
        if (slope == 0.0).any():
            raise _UnreadableError
        zero = np.zeros_like(slope)
        return replace(self.scale(0.0), smooth=(kind(zero + 1.0, slope, constant, zero),))

    def _affine(self) -> tuple[Array, Array]:
        """Return the slopes and constants of affine functions."""
        if self.places.size or self.pieces[3].any():
            raise _UnreadableError
        anchor, value, slope, _ = self.pieces[:, :, 0]
        return slope, value - slope * anchor

    def take(self, chosen: NDArray[np.intp]) -> "_Entries":
        """Return some of the entries."""
        if self.smooth:
            raise _UnreadableError
        size = np.broadcast_to(self.size, self.rows.shape)[chosen]
        return _Entries(self.rows[chosen], self.places[chosen], self.pieces[:, chosen], size=size)

    def spread(self, n: int) -> "_Entries":
        """Return the functions of all rows, zero elsewhere."""
        if np.array_equal(self.rows, np.arange(n)):
            return self
        if self.smooth or np.unique(self.rows).size != self.rows.size:
            raise _UnreadableError
        k = self.places.shape[1]
        places, pieces, size = np.full((n, k), -np.inf), np.zeros((4, n, k + 1)), np.zeros(n)
        places[self.rows], pieces[:, self.rows], size[self.rows] = self.places, self.pieces, self.size
        return _Entries(np.arange(n), places, pieces, size=size)

    def loss(self) -> tuple[RowLoss, float]:
        """Return the losses of the rows, and the sum of constants that they leave out."""
        if self.smooth:
            (part, *others), (slope, constant) = self.smooth, self._affine()
            if others or not (part.weight > 0.0).all():
                raise _UnreadableError
            return replace(part, slope=slope), float(constant.sum())
        places, pieces = self.places, self.pieces
        if not places.size:
            places, pieces = pieces[0], np.repeat(pieces, 2, axis=2)
        # a row that has fewer places than others has its first one several times
        first = np.where(np.isfinite(places), places, np.inf).min(axis=1)
        first = np.where(np.isfinite(first), first, pieces[0, :, -1])
        places = np.where(np.isfinite(places), places, first[:, None])
        left, right = pieces[:, :, :-1], pieces[:, :, 1:]
        below, above = (slope + curvature * (places - anchor) for anchor, _, slope, curvature in (left, right))
        sizes = np.abs(left[2]) + np.abs(right[2]) + np.abs(below) + np.abs(above)
        below = np.where(np.abs(above - below) <= relative_rounding(_SLOPE) * sizes, above, below)
        step = (places - left[0])[:, 0]
        level = left[1][:, 0] + step * (left[2][:, 0] + 0.5 * left[3][:, 0] * step)
        if not all(np.isfinite(part).all() for part in (places, below, above, pieces)):
            raise _UnreadableError
        return PieceLoss.of(places, below, above, pieces[3], level, self.size), 0.0


def _is_flat(pieces: Array) -> NDArray[np.bool_]:
    """Return which pieces are constant."""
    return np.asarray((pieces[2] == 0.0) & (pieces[3] == 0.0))


def _entries(expression: Any, leaf: Any) -> _Entries:
    """Return the entries of an elementwise function of single values."""
    arguments = expression.args
    if expression is leaf:
        return _Entries.identity(leaf.size)
    if expression.ndim > 1 or expression.is_constant():
        raise _UnreadableError
    if isinstance(expression, AddExpression):
        total = reduce(_Entries.add, [_entries(each, leaf) for each in arguments if not each.is_constant()])
        return reduce(_Entries.shift, [np.ravel(each.value) for each in arguments if each.is_constant()], total)
    if isinstance(expression, (cp.multiply, DivExpression)):
        return _multiple(expression, leaf)
    if isinstance(expression, cp.maximum):
        varying = [_entries(each, leaf) for each in arguments if not each.is_constant()]
        numbers = [varying[0].scale(0.0).shift(np.ravel(each.value)) for each in arguments if each.is_constant()]
        return reduce(_Entries.larger, [*varying, *numbers])
    if isinstance(expression, (index, special_index)):
        inner = _entries(arguments[0], leaf)
        return inner.take(np.atleast_1d(expression.numeric([np.arange(inner.rows.size)])).astype(np.intp))
    if _is_square(expression):
        return _entries(arguments[0], leaf).squared()
    functions: dict[type, Callable[[_Entries], _Entries]] = {
        NegExpression: lambda entries: entries.scale(-1.0),
        cp.abs: _Entries.absolute_value,
        cp.huber: lambda entries: entries.huber(float(expression.M.value)),
        cp.exp: lambda entries: entries.function(Exponential),
        cp.logistic: lambda entries: entries.function(LogisticRows),
    }
    if type(expression) not in functions:
        raise _UnreadableError
    return functions[type(expression)](_entries(arguments[0], leaf))


def _multiple(expression: Any, leaf: Any) -> _Entries:
    first, second = expression.args
    is_quotient = isinstance(expression, DivExpression)
    constant, operand = (second, first) if is_quotient or second.is_constant() else (first, second)
    if not constant.is_constant() or operand.size != expression.size:
        raise _UnreadableError
    factor = np.asarray(constant.value, dtype=np.float64).ravel()
    inner = operand.args[0] if isinstance(operand, Promote) else operand
    return _entries(inner, leaf).scale(1.0 / factor if is_quotient else factor)


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


def _collect(term: Any, weight: float, leaf: Any, norm: Any, total: _Sum) -> None:
    """Add a scalar term to the sum."""
    if weight == 0.0:  # as a loss whose parameter is zero: nothing
        return
    if term.is_constant():
        total.constant += weight * float(term.value)
    elif term is norm:
        total.norm += weight
    elif isinstance(term, AddExpression):
        for argument in term.args:
            _collect(argument, weight, leaf, norm, total)
    elif isinstance(term, NegExpression):
        _collect(term.args[0], -weight, leaf, norm, total)
    elif isinstance(term, (cp.multiply, MulExpression, DivExpression)) and all(a.is_scalar() for a in term.args):
        is_quotient = isinstance(term, DivExpression)
        constant, operand = term.args if term.args[0].is_constant() and not is_quotient else term.args[::-1]
        if not constant.is_constant():
            raise _UnreadableError
        factor = 1.0 / float(constant.value) if is_quotient else float(constant.value)
        _collect(operand, weight * factor, leaf, norm, total)
    else:
        total.terms.append(_summed(term, leaf).scale(weight))


def _summed(term: Any, leaf: Any) -> _Entries:
    """Return the entries whose sum a scalar term is."""
    first = term.args[0] if term.args else None
    if isinstance(term, Sum) and term.axis is None:
        return _entries(first, leaf)
    if isinstance(term, cp.norm1) and term.axis is None:
        return _entries(first, leaf).absolute_value()
    if isinstance(term, cp.quad_over_lin) and term.axis is None and term.args[1].is_constant():
        return _entries(first, leaf).squared().scale(1.0 / float(term.args[1].value))
    if isinstance(term, MulExpression) and all(argument.ndim == 1 for argument in term.args):
        constant, operand = term.args if term.args[0].is_constant() else term.args[::-1]
        if constant.is_constant():
            return _entries(operand, leaf).scale(np.asarray(constant.value, dtype=np.float64))
    raise _UnreadableError


class ReadLosses(NamedTuple):
    """The weight of w'w, the losses of the rows, and the constant of the objective."""

    norm: float
    losses: RowLoss
    constant: float


def read_row_losses(objective: Any, leaf: Any, norm: Any) -> ReadLosses | None:
    """Return the weight of w'w and the losses of the rows; None if the objective has anything else in it.

    ``leaf`` is the variable of the fitted values, ``norm`` the variable of w'w.
    """
    total, zero = _Sum(), _Entries.identity(leaf.size).scale(0.0)
    try:
        with np.errstate(all="ignore"):
            _collect(objective, 1.0, leaf, norm, total)
            losses, constant = reduce(_Entries.add, [term.spread(leaf.size) for term in total.terms], zero).loss()
    except _UnreadableError:
        return None
    return ReadLosses(total.norm, losses, total.constant + constant) if total.norm > 0.0 else None
