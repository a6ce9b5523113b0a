r"""Losses of single rows: one convex function of each fitted value, all that fits and bounds need of it.

A machine minimises :math:`\tfrac\lambda2 \|w\|^2 + \sum_i \ell_i(f_i)`. A loss is named by a value, ``Huber(0.5)`` or
``Hinge()``, and becomes a :class:`RowLoss` on targets and weights of rows. What a row loss knows of itself is its
value, its slope, its curvature, and the interval :math:`[h_1, h_2]` of values to which a slope g belongs. With these
the inequality of Fenchel and Young ([Rockafellar1970]_ section 23) is a product of two small numbers, and never a
difference of large ones,

.. math:: 0 \le \ell(f) + \ell^*(g) - f g = \int_h^f (\ell'(s) - g)\, ds \le (f - h)\, (\ell'(f) - g) ,

with h the end of the interval that is nearest to f.

:class:`Squared`
    :math:`\tfrac12 e^2`, :math:`e = y - f`
:class:`Huber`
    :math:`\tfrac12 e^2` up to :math:`|e| = \delta`, and :math:`\delta |e| - \tfrac12 \delta^2` beyond
    [Huber1964]_
:class:`Pinball`
    :math:`\tau \max(e, 0) + (1 - \tau) \max(-e, 0)`, for quantiles [Koenker1978]_
:class:`Expectile`
    :math:`\tfrac12 |\tau - 1(e < 0)|\, e^2` [NeweyPowell1987]_
:class:`EpsilonInsensitive`
    :math:`\max(|e| - \epsilon, 0)` [Vapnik1998]_
:class:`Hinge`
    :math:`\max(0, 1 - y f)`, :math:`y = \pm 1`
:class:`SquaredHinge`
    :math:`\tfrac12 \max(0, 1 - y f)^2`
:class:`Logistic`
    :math:`\log(1 + e^{-y f})`
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array, exp, non_negative, positive
from substrate.errors import DeclarationError
from substrate.numbers import Double, at_most, relative_rounding
from substrate.robust_weights import robust_scale
from substrate.values import Value

__all__ = [
    "EpsilonInsensitive",
    "Expectile",
    "Exponential",
    "Hinge",
    "Huber",
    "Logistic",
    "LogisticRows",
    "Loss",
    "PieceLoss",
    "Pinball",
    "RowLoss",
    "SmoothLoss",
    "Squared",
    "SquaredHinge",
    "balance_bias",
    "rising_root",
]

#: A curvature below this is none: its inverse would overflow.
_STRAIGHT = 1e-200
#: Roundings of a slope, of a breakpoint, and of a function with a logarithm or an exponential in it.
_SLOPE, _BREAKPOINT, _FUNCTION = 8.0, 4.0, 16.0
#: The share of a robust deviation up to which Huber's loss is quadratic.
_EFFICIENT = 1.345
#: The smallest share of a slope that has a limit of zero.
_LEAST_SHARE = 1e-300
#: The search of what a gap permits: the factor of its strides, their number, and halvings of the last one.
_STRIDE, _STRIDES, _HALVINGS = 64.0, 16, 6
#: The farthest place of a zero, and how near it is found, in units of the spread.
_FARTHEST, _SETTLED = 1e18, 1e-15


class RowLoss(ABC):
    """One convex function of the fitted value of every row."""

    #: Whether a slope jumps somewhere, so that no Newton step on slopes alone finds the optimum.
    has_kinks: bool = False

    @property
    @abstractmethod
    def n(self) -> int:
        """Return the number of rows."""

    @property
    @abstractmethod
    def centre(self) -> Array:
        """Return a typical value of every row, from which a fit may begin."""

    @abstractmethod
    def values(self, f: Array) -> Array:
        """Return the loss of every row."""

    @abstractmethod
    def slopes(self, f: Array, right: bool = True) -> Array:
        """Return the slope of every row, at a kink the one on its right or on its left."""

    @abstractmethod
    def curvatures(self, f: Array) -> Array:
        """Return the second derivative of every row, away from kinks."""

    @abstractmethod
    def slope_range(self) -> tuple[Array, Array]:
        """Return the smallest and the largest slope of every row, infinite where unbounded."""

    @abstractmethod
    def limit_slopes(self, g: Array) -> Array:
        """Return slopes of the loss that are nearest to the given ones."""

    @abstractmethod
    def enclose_slopes(self, f: Any, right: bool) -> Any:
        """Return the slopes at exact numbers f as enclosed numbers."""

    @abstractmethod
    def enclose_values(self, g: Any) -> tuple[Any, Any, Array, Array]:
        """Return both ends of the values to which slopes g belong as enclosed numbers, and which of them are finite.

        The radius is infinite where g is no slope of the loss.
        """

    def take(self, rows: NDArray[np.intp]) -> Self:
        """Return the losses of some of the rows."""
        arrays = {field.name: getattr(self, field.name)[rows] for field in fields(self)}  # type: ignore[arg-type]
        return replace(self, **arrays)  # type: ignore[type-var]

    @abstractmethod
    def bound_modulus(self, f: Array, g: Array, reach: Array) -> Array:
        """Bound the curvature from below on all values within ``reach`` of f and of those to which g belongs."""

    def fenchel_young(self, f: Any, g: Any) -> Any:
        """Bound loss + conjugate - f g of every row, for enclosed values f and slopes g."""
        low, high, has_low, has_high = self.enclose_values(g)
        top, bottom = f.upper_ends(), -((-f).upper_ends())
        over = (top - high).positive_part() * (self.enclose_slopes(top, True) - g).positive_part()
        under = (low - bottom).positive_part() * (g - self.enclose_slopes(bottom, False)).positive_part()
        return over.select(has_high, 0.0) + under.select(has_low, 0.0)

    def distance_to_values(self, f: Any, g: Any) -> Array:
        """Bound the distance of f from the values to which g belongs."""
        low, high, has_low, has_high = self.enclose_values(g)
        over = (f - high).positive_part().select(has_high, 0.0)
        under = (low - f).positive_part().select(has_low, 0.0)
        return np.asarray((over + under).upper_ends().midpoint)

    def reach(self, g: Array, gap: float) -> Array:
        r"""Bound how far values with :math:`\ell(f) + \ell^*(g) - f g \le \text{gap}` are from those g belongs to.

        On the right of :math:`h_2` that is at least :math:`\tfrac t2 (\ell'(h_2 + \tfrac t2) - g)` at :math:`h_2 + t`,
        since the slope rises, and on the left likewise.
        """
        if not np.isfinite(gap):
            return np.full(self.n, np.inf)
        low, high, has_low, has_high = self.enclose_values(Double(g))
        ends = np.zeros(self.n)
        for end, is_finite, sign in ((high, has_high, 1.0), (low, has_low, -1.0)):
            start = np.where(is_finite, end.midpoint, 0.0)
            radius = np.broadcast_to(end.error().upper_ends().midpoint, start.shape)
            ends = np.maximum(ends, np.where(is_finite, self._reach_beyond(start, radius, g, gap, sign), np.inf))
        return ends

    @np.errstate(over="ignore", invalid="ignore")
    def _reach_beyond(self, start: Array, radius: Array, g: Array, gap: float, sign: float) -> Array:
        def is_beyond(t: Array) -> NDArray[np.bool_]:
            slopes = self.slopes(start + sign * (0.5 * t - radius), right=sign < 0.0)
            rise = sign * (slopes - g) - relative_rounding(_FUNCTION + _SLOPE) * (np.abs(slopes) + np.abs(g))
            return np.asarray(0.5 * t * rise > at_most(gap))

        t = 2.0 * radius + relative_rounding(1.0) * (float(np.abs(start).max(initial=0.0)) or 1.0)
        open_ended = ~is_beyond(t)
        for _ in range(_STRIDES):
            if not open_ended.any():
                break
            t = np.where(open_ended, _STRIDE * t, t)
            open_ended &= ~is_beyond(t)
        lower = t / _STRIDE
        for _ in range(_HALVINGS):
            middle = np.sqrt(lower * t)
            beyond = is_beyond(middle)
            lower, t = np.where(beyond, lower, middle), np.where(beyond, middle, t)
        return np.where(open_ended | ~np.isfinite(t), np.inf, t + radius)

    def tension(self, f: Array, g: Array, size: float) -> float:
        """Return how far g is from slopes at f, in slopes or in values, whichever is nearer, row by row.

        Values are compared with their size, which is not below the given one.
        """
        least, most = self.slope_range()
        low, high, has_low, has_high = self.enclose_values(Double(np.clip(g, least, most)))
        with np.errstate(all="ignore"):
            over = np.where(has_high, f - high.midpoint, 0.0)
            under = np.where(has_low, low.midpoint - f, 0.0)
            away = np.maximum(np.maximum(over, under), 0.0)
            below, above = self.slopes(f, right=False), self.slopes(f)
            steeper = np.maximum(np.maximum(below - g, g - above), 0.0)
            largest = max(float(np.abs(below).max()), float(np.abs(above).max()), float(np.abs(g).max()))
            outside = np.maximum(least - g, g - most)
            away = np.where(outside > relative_rounding(_SLOPE) * largest, np.inf, away)
            shares = np.fmin(away / (float(np.abs(f).max()) + size or 1.0), steeper / (largest or 1.0))
        tension = float(shares.max(initial=0.0))
        return tension if np.isfinite(tension) else np.inf


def balance_bias(losses: RowLoss, values: Array, spread: float) -> float:
    """Return the bias with which the slopes at given values of Phi w sum to zero, nearly."""

    def total(bias: float) -> float:
        return float(losses.slopes(values + bias).sum())

    return rising_root(total, float(np.median(losses.centre - values)), spread)


def rising_root(total: Callable[[float], float], centre: float, spread: float) -> float:
    """Return nearly where a rising function is zero, or changes its sign; a centre if it never does."""
    from scipy.optimize import bisect

    ends = []
    for sign in (-1.0, 1.0):
        length = spread
        while not sign * total(centre + sign * length) > 0.0:
            length *= 2.0
            if length > _FARTHEST * spread:
                return centre
        ends.append(centre + sign * length)
    return float(bisect(total, *ends, xtol=_SETTLED * spread, disp=False))


@dataclass(frozen=True)
class PieceLoss(RowLoss):
    """Losses whose slopes are linear by pieces, with jumps.

    Parameters
    ----------
    places : array of shape (n, k)
        Breakpoints in ascending order, at least one, each right to ``width``.
    below, above : arrays of shape (n, k)
        The slopes on both sides of each; these numbers define the loss.
    curvature : array of shape (n, k + 1)
        The second derivatives before, between and behind them.
    width : array of shape (n,)
    level : array of shape (n,)
        The loss at the first breakpoint.
    """

    places: Array
    below: Array
    above: Array
    curvature: Array
    width: Array
    level: Array

    @classmethod
    def of(
        cls, places: Array, below: Array, above: Array, curvature: Array, level: Array, sizes: Any = 0.0
    ) -> "PieceLoss":
        """Return the losses, with the width that rounding of breakpoints and slopes leaves.

        ``sizes`` has the sizes of the numbers that breakpoints were computed from, where they may have cancelled.

        A straight piece ends with the slope that it begins with; on a curved one, the breakpoint is where the slopes
        say, up to a mismatch that the width has room for.
        """
        below, width = below.copy(), relative_rounding(_BREAKPOINT) * (np.abs(places).max(axis=1) + sizes)
        for k in range(1, places.shape[1]):
            c = curvature[:, k]
            rise = c * (places[:, k] - places[:, k - 1])
            sizes = np.abs(above[:, k - 1]) + np.abs(below[:, k]) + rise
            off = np.abs(above[:, k - 1] + rise - below[:, k]) + relative_rounding(_SLOPE) * sizes
            width = width + np.where(c > 0.0, off / np.where(c > 0.0, c, 1.0), 0.0)
            below[:, k] = np.where(c > 0.0, below[:, k], above[:, k - 1])
        return cls(places, below, above, curvature, width, level)

    @property
    def n(self) -> int:
        """Return the number of rows."""
        return int(self.places.shape[0])

    @property
    def centre(self) -> Array:
        """Return the middle breakpoints."""
        return np.asarray(self.places[:, self.places.shape[1] // 2])

    @cached_property
    def has_kinks(self) -> bool:  # type: ignore[override]
        """Return whether the slope jumps somewhere."""
        return bool((self.above > self.below).any())

    @cached_property
    def _level_at(self) -> Array:
        """The losses at all breakpoints."""
        steps = np.diff(self.places, axis=1)
        rises = steps * (self.above[:, :-1] + 0.5 * self.curvature[:, 1:-1] * steps)
        return np.asarray(self.level[:, None] + np.concatenate([np.zeros((self.n, 1)), rises.cumsum(axis=1)], axis=1))

    def _piece(self, k: Array) -> tuple[Array, Array, Array]:
        """Return a place, the slope there and the curvature of the pieces with k breakpoints before them."""
        rows, before = np.arange(self.n), np.maximum(k - 1, 0)
        slope = np.where(k > 0, self.above[rows, before], self.below[rows, 0])
        return self.places[rows, before], slope, self.curvature[rows, k]

    def values(self, f: Array) -> Array:
        """Return the loss of every row."""
        k = (self.places < f[:, None]).sum(axis=1)
        (place, slope, curvature), level = self._piece(k), self._level_at[np.arange(self.n), np.maximum(k - 1, 0)]
        return np.asarray(level + (f - place) * (slope + 0.5 * curvature * (f - place)))

    def slopes(self, f: Array, right: bool = True) -> Array:
        """Return the slope of every row."""
        is_behind = self.places <= f[:, None] if right else self.places < f[:, None]
        place, slope, curvature = self._piece(is_behind.sum(axis=1))
        return np.asarray(slope + curvature * (f - place))

    def curvatures(self, f: Array) -> Array:
        """Return the second derivative of every row."""
        return np.asarray(self.curvature[np.arange(self.n), (self.places < f[:, None]).sum(axis=1)])

    def slope_range(self) -> tuple[Array, Array]:
        """Return the slopes before the first and behind the last breakpoint."""
        low = np.where(self.curvature[:, 0] > 0.0, -np.inf, self.below[:, 0])
        return low, np.where(self.curvature[:, -1] > 0.0, np.inf, self.above[:, -1])

    def limit_slopes(self, g: Array) -> Array:
        """Return slopes within their range; slopes within rounding of a limit are set to it.

        Where the slopes of all rows are at their limits, a sum of them is then zero or it is not.
        """
        low, high = self.slope_range()
        g = np.clip(g, low, high)
        near = relative_rounding(2.0 * self.n) * float(np.abs(g).max())
        return np.where(g - low <= near, low, np.where(high - g <= near, high, g))

    def enclose_slopes(self, f: Any, right: bool) -> Any:
        """Return slopes at exact numbers, where it is not sure on which side of a breakpoint the larger or smaller."""
        middle = np.asarray(f.midpoint)
        radius = 2.0 * self.width + relative_rounding(2.0) * np.abs(middle)
        at = middle + radius if right else middle - radius
        is_behind = self.places <= at[:, None] if right else self.places < at[:, None]
        place, slope, curvature = self._piece(is_behind.sum(axis=1))
        numbers = type(f)
        straight = numbers.exact(slope)
        curved = straight + (f - numbers.about(place, self.width)) * curvature
        return curved.select(curvature > 0.0, straight)

    def enclose_values(self, g: Any) -> tuple[Any, Any, Array, Array]:
        """Return the ends of the values; at a kink both are its place."""
        numbers, middle = type(g), np.asarray(g.midpoint)
        radius = np.broadcast_to(g.error().upper_ends().midpoint, middle.shape)
        radius = np.where(radius > 0.0, radius + relative_rounding(2.0) * np.abs(middle), 0.0)
        least, most = middle - radius, middle + radius
        low_slope, high_slope = self.slope_range()
        is_slope = (least >= low_slope) & (most <= high_slope)
        low = self._enclose_end(numbers, most, (self.above < most[:, None]).sum(axis=1), is_first=True)
        high = self._enclose_end(numbers, least, (self.below <= least[:, None]).sum(axis=1), is_first=False)
        nowhere = numbers.about(np.zeros(self.n), np.full(self.n, np.inf))
        has_low = ~(is_slope & (self.curvature[:, 0] == 0.0) & (most == self.below[:, 0]))
        has_high = ~(is_slope & (self.curvature[:, -1] == 0.0) & (least == self.above[:, -1]))
        return low.select(is_slope, nowhere), high.select(is_slope, nowhere), has_low, has_high

    def _enclose_end(self, numbers: Any, g: Array, k: Array, *, is_first: bool) -> Any:
        """Return the value at which the slope reaches g, or leaves it, k breakpoints being before it."""
        rows, last = np.arange(self.n), self.places.shape[1] - 1
        beside = np.minimum(k, last) if is_first else np.maximum(k - 1, 0)
        inside = k <= last if is_first else k > 0
        on_kink = inside & (self.below[rows, beside] <= g) & (self.above[rows, beside] >= g)
        at, slope, curvature = self._piece(k)
        is_curved, place = curvature > 0.0, numbers.about(at, self.width)
        step = (numbers.exact(g) - slope) / np.where(is_curved, curvature, 1.0)
        value = (place + step).select(is_curved, place)
        return numbers.about(self.places[rows, beside], self.width).select(on_kink, value)

    def bound_modulus(self, f: Array, g: Array, reach: Array) -> Array:
        """Return the curvature of the piece that holds all these values; the smallest of all where that is positive."""
        low, high, has_low, has_high = self.enclose_values(Double(g))
        with np.errstate(invalid="ignore"):
            margin = reach + self.width
            bottom = np.minimum(f, np.where(has_low, low.midpoint - low.radius, -np.inf)) - margin
            top = np.maximum(f, np.where(has_high, high.midpoint + high.radius, np.inf)) + margin
            k = (self.places < bottom[:, None]).sum(axis=1)
            is_inside = np.isfinite(bottom) & np.isfinite(top) & (k == (self.places <= top[:, None]).sum(axis=1))
        smallest = self.curvature.min(axis=1)
        return np.asarray(np.where(is_inside, self.curvature[np.arange(self.n), k], smallest))

    def nearest(self, f: Array, weight: float) -> tuple[Array, Array, Array]:
        """Return argmin of the loss plus (v - f)^2/(2 weight), the subgradient there, and the slope of the minimiser.

        The subgradient is exactly the slope of a straight piece where the minimiser lies on one.
        """
        rows, last = np.arange(self.n), self.places.shape[1] - 1
        k = (self.places + weight * self.above < f[:, None]).sum(axis=1)
        at = np.minimum(k, last)
        kink, (place, slope, curvature) = self.places[rows, at], self._piece(k)
        on_kink = (k <= last) & (kink + weight * self.below[rows, at] <= f)
        step = (f - place - weight * slope) / (1.0 + weight * curvature)
        v = np.where(on_kink, kink, place + step)
        g = np.where(on_kink, (f - kink) / weight, slope + curvature * step)
        return v, g, np.where(on_kink, 0.0, 1.0 / (1.0 + weight * curvature))


@dataclass(frozen=True)
class SmoothLoss(RowLoss):
    r"""The losses :math:`u_i \varphi(a_i f + c_i) + s_i f` of a function :math:`\varphi` with a derivative.

    A function is a subclass: its limits of the derivative, its values, and formulas of its derivative and of the
    inverse, which are evaluated in double precision, in numbers with a radius and in balls. Its second derivative rises
    and then falls, or does one of them: on an interval it is smallest at an end.
    """

    weight: Array
    factor: Array
    constant: Array
    slope: Array

    #: The infimum and the supremum of the derivative.
    limits: ClassVar[tuple[float, float]]

    @abstractmethod
    def value(self, x: Array) -> Array:
        """Return the function."""

    @abstractmethod
    def derivative(self, x: Any) -> Any:
        """Return its derivative, in any arithmetic."""

    @abstractmethod
    def second_derivative(self, x: Array) -> Array:
        """Return its second derivative."""

    @abstractmethod
    def inverse(self, s: Any) -> Any:
        """Return where the derivative is s, an enclosed number between the limits."""

    def bound_modulus(self, f: Array, g: Array, reach: Array) -> Array:
        """Return the smaller of the curvatures at both ends."""
        value, _, is_finite, _ = self.enclose_values(Double(g))
        near = np.where(is_finite, value.midpoint, f)
        margin = reach + np.broadcast_to(value.radius, reach.shape)
        ends = np.minimum(f, near) - margin, np.maximum(f, near) + margin
        with np.errstate(invalid="ignore"):
            smallest = np.minimum(self.curvatures(ends[0]), self.curvatures(ends[1]))
        return np.where(np.isfinite(smallest), (1.0 - relative_rounding(_FUNCTION * 64.0)) * smallest, 0.0)

    @property
    def n(self) -> int:
        """Return the number of rows."""
        return int(self.weight.size)

    @property
    def centre(self) -> Array:
        """Return where the argument is zero."""
        return np.asarray(-self.constant / self.factor)

    @np.errstate(over="ignore")
    def values(self, f: Array) -> Array:
        """Return the loss of every row."""
        return np.asarray(self.weight * self.value(self.factor * f + self.constant) + self.slope * f)

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def slopes(self, f: Any, right: bool = True) -> Any:
        """Return the slope of every row, in any arithmetic."""
        return self.derivative(f * self.factor + self.constant) * self.weight * self.factor + self.slope

    @np.errstate(over="ignore")
    def curvatures(self, f: Array) -> Array:
        """Return the second derivative of every row."""
        curvatures = self.weight * self.factor**2 * self.second_derivative(self.factor * f + self.constant)
        return np.where(curvatures > _STRAIGHT, curvatures, 0.0)

    def slope_range(self) -> tuple[Array, Array]:
        """Return the limits of the slopes."""
        ends = [self.weight * self.factor * limit + self.slope for limit in self.limits]
        return np.minimum(*ends), np.maximum(*ends)

    def limit_slopes(self, g: Array) -> Array:
        """Return slopes inside of their limits, which no value reaches."""
        reach, (low, high) = self.weight * self.factor, self.limits
        most = np.inf if np.isinf(high) else high - relative_rounding(_SLOPE) * (high - low)
        least = max(low + relative_rounding(_SLOPE) * abs(low), low + _LEAST_SHARE)
        return np.asarray(np.clip((g - self.slope) / reach, least, most) * reach + self.slope)

    enclose_slopes = slopes

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def enclose_values(self, g: Any) -> tuple[Any, Any, Array, Array]:
        """Return the single value to which a slope belongs, twice."""
        numbers = type(g)
        share = (g - self.slope) / (numbers.exact(self.weight) * self.factor)
        low, high = self.limits
        is_slope = (low - share).upper_ends().midpoint < 0.0
        if np.isfinite(high):
            is_slope &= (share - high).upper_ends().midpoint < 0.0
        inside = share.select(is_slope, low + 0.5 if np.isinf(high) else 0.5 * (low + high))
        value = (self.inverse(inside) - self.constant) / numbers.exact(self.factor)
        value = value.select(is_slope, numbers.about(np.zeros(self.n), np.full(self.n, np.inf)))
        is_finite = np.ones(self.n, dtype=bool)
        return value, value, is_finite, is_finite


class LogisticRows(SmoothLoss):
    """The function log(1 + e^x)."""

    limits = (0.0, 1.0)

    def value(self, x: Array) -> Array:
        """Return log(1 + e^x)."""
        return np.logaddexp(0.0, x)

    def derivative(self, x: Any) -> Any:
        """Return 1/(1 + e^-x)."""
        return 1.0 / (exp(-x) + 1.0)

    def second_derivative(self, x: Array) -> Array:
        """Return 1/((1 + e^x) (1 + e^-x))."""
        return np.asarray(np.exp(-np.logaddexp(0.0, x) - np.logaddexp(0.0, -x)))

    def inverse(self, s: Any) -> Any:
        """Return log(s/(1 - s))."""
        return s.log() - (1.0 - s).log()


class Exponential(SmoothLoss):
    """The function e^x."""

    limits = (0.0, np.inf)

    def value(self, x: Array) -> Array:
        """Return e^x."""
        return np.exp(x)

    def derivative(self, x: Any) -> Any:
        """Return e^x."""
        return exp(x)

    def second_derivative(self, x: Array) -> Array:
        """Return e^x."""
        return np.exp(x)

    def inverse(self, s: Any) -> Any:
        """Return log s."""
        return s.log()


class Loss(Value, ABC):
    """A loss of one row by its name and its parameters."""

    #: Whether the targets are labels -1 and +1.
    is_margin: ClassVar[bool] = False

    @abstractmethod
    def of_rows(self, y: Array, weights: Array) -> RowLoss:
        """Return the loss of every row, with a target and a weight each."""

    def resolve(self, errors: Callable[[], Array], weights: Array) -> "Loss":
        """Return the loss with numbers in place of choices that depend on the errors of the least-squares machine."""
        return self


@dataclass(frozen=True, repr=False)
class Squared(Loss):
    """Half of the squared error."""

    def of_rows(self, y: Array, weights: Array) -> PieceLoss:
        """Return the loss of every row."""
        return _pieces([y], [(0.0, 0.0)], [weights, weights])


@dataclass(frozen=True, repr=False)
class Huber(Loss):
    """Half of the squared error up to ``delta``, and straight lines beyond.

    ``"auto"`` is 1.345 robust deviations (MAD) of the errors of the machine with squared errors: 95 % as efficient as
    that one for Gaussian noise.
    """

    delta: Any = "auto"

    def __post_init__(self) -> None:
        if isinstance(self.delta, str) and self.delta != "auto":
            raise DeclarationError(f"delta must be a positive number or 'auto', received {self.delta!r}")
        if not isinstance(self.delta, str):
            object.__setattr__(self, "delta", positive(self.delta, "delta"))

    def resolve(self, errors: Callable[[], Array], weights: Array) -> "Huber":
        """Return the loss with a number; where the deviation is zero, one larger than any error."""
        if self.delta != "auto":
            return self
        e = errors()
        return Huber(_EFFICIENT * robust_scale(e, "mad", weights) or 2.0 * float(np.abs(e).max()) or 1.0)

    def of_rows(self, y: Array, weights: Array) -> PieceLoss:
        """Return the loss of every row."""
        limit, none = weights * self.delta, np.zeros(y.size)
        level = 0.5 * limit * self.delta
        return _pieces(
            [y - self.delta, y + self.delta], [(-limit, -limit), (limit, limit)], [none, weights, none], level
        )


@dataclass(frozen=True, repr=False)
class Pinball(Loss):
    """The loss whose best constant is the quantile of this level."""

    quantile: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "quantile", _level(self.quantile, "quantile"))

    def of_rows(self, y: Array, weights: Array) -> PieceLoss:
        """Return the loss of every row."""
        none = np.zeros(y.size)
        return _pieces([y], [(-self.quantile * weights, (1.0 - self.quantile) * weights)], [none, none])


@dataclass(frozen=True, repr=False)
class Expectile(Loss):
    """Half of the squared error, with the weight ``level`` above f and one less ``level`` below."""

    level: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "level", _level(self.level, "level"))

    def of_rows(self, y: Array, weights: Array) -> PieceLoss:
        """Return the loss of every row."""
        return _pieces([y], [(0.0, 0.0)], [self.level * weights, (1.0 - self.level) * weights])


@dataclass(frozen=True, repr=False)
class EpsilonInsensitive(Loss):
    """The size of the error beyond a tube of half the width ``epsilon``."""

    epsilon: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", non_negative(self.epsilon, "epsilon", "as the width of a tube"))

    def of_rows(self, y: Array, weights: Array) -> PieceLoss:
        """Return the loss of every row."""
        none = np.zeros(y.size)
        return _pieces([y - self.epsilon, y + self.epsilon], [(-weights, none), (none, weights)], [none, none, none])


@dataclass(frozen=True, repr=False)
class Hinge(Loss):
    """The amount by which a row misses the margin of one."""

    is_margin = True

    def of_rows(self, y: Array, weights: Array) -> PieceLoss:
        """Return the loss of every row."""
        none = np.zeros(y.size)
        return _pieces([y], [(np.minimum(-y * weights, 0.0), np.maximum(-y * weights, 0.0))], [none, none])


@dataclass(frozen=True, repr=False)
class SquaredHinge(Loss):
    """Half of the squared amount by which a row misses the margin of one."""

    is_margin = True

    def of_rows(self, y: Array, weights: Array) -> PieceLoss:
        """Return the loss of every row."""
        return _pieces([y], [(0.0, 0.0)], [np.where(y > 0.0, weights, 0.0), np.where(y < 0.0, weights, 0.0)])


@dataclass(frozen=True, repr=False)
class Logistic(Loss):
    """The negative log-likelihood of a class."""

    is_margin = True

    def of_rows(self, y: Array, weights: Array) -> LogisticRows:
        """Return the loss of every row."""
        return LogisticRows(weights, -y, np.zeros(y.size), np.zeros(y.size))


def _pieces(places: list[Array], slopes: list[tuple[Any, Any]], curvature: list[Array], level: Any = 0.0) -> PieceLoss:
    """Return losses from lists of breakpoints, of slopes on both sides of each, and of curvatures."""
    shape = places[0].shape
    below, above = (np.column_stack([np.broadcast_to(pair[side], shape) for pair in slopes]) for side in (0, 1))
    level = np.broadcast_to(np.asarray(level, dtype=np.float64), shape)
    return PieceLoss.of(np.column_stack(places), below, above, np.column_stack(curvature), level)


def _level(value: Any, name: str) -> float:
    level = positive(value, name)
    if not level < 1.0:
        raise DeclarationError(f"{name} must be above 0 and below 1, received {value!r}")
    return level
