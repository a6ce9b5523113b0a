r"""Arrays of numbers with twice the digits of double precision, for formulas in any arithmetic.

A number is an unevaluated sum of two doubles ([Dekker1971]_, :mod:`~substrate.certificates.doubled_precision`). Sums,
products, quotients and roots are right to ten units of :math:`2^{-104}`. The exponential is found by

.. math:: e^x = 2^k \big( e^r \big)^{2^9}, \qquad x = k \log 2 + 2^9 r, \quad |r| \le \tfrac{\log 2}{2^{10}} ,

with the series of :math:`e^r - 1` and :math:`(1 + p)^2 - 1 = 2 p + p^2`, so that nothing is lost in the squares: right
to about :math:`2^{-97}` of its value. Where a number overflows it is not finite, and so is what follows from it.
"""

import math
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.doubled_precision import Pair, add, minus, multiply

__all__ = ["DoubledNumbers"]

#: log 2 as a sum of three doubles, of which the first has few enough digits that its multiples are exact.
_LOG_2 = (0.6931471803691238, 1.9082149292705877e-10, 1.1612227229362532e-26)
_SQUARES = 9
_FACTORIALS = tuple(math.factorial(k) for k in range(2, 12))


class DoubledNumbers:
    """An array of pairs; operations take plain numbers and arrays as well, which are exact."""

    __slots__ = ("pair",)
    __array_ufunc__ = None  # numpy leaves its operators to this class

    def __init__(self, high: Any, low: Any = None) -> None:
        top = np.asarray(high, dtype=np.float64)
        self.pair: Pair = (top, np.zeros_like(top) if low is None else np.asarray(low, dtype=np.float64))

    @classmethod
    def _of(cls, pair: Pair) -> "DoubledNumbers":
        return cls(*pair)

    def __getitem__(self, place: Any) -> "DoubledNumbers":
        return DoubledNumbers(self.pair[0][place], self.pair[1][place])

    def __setitem__(self, place: Any, value: "DoubledNumbers") -> None:
        for half, new in zip(self.pair, value.pair, strict=True):
            half[place] = new

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the array."""
        return self.pair[0].shape

    def sum(self, axis: int = 0) -> "DoubledNumbers":
        """Return the sum over an axis, in pairs, then pairs of pairs."""
        high, low = (np.moveaxis(half, axis, 0) for half in self.pair)
        while high.shape[0] > 1:
            if high.shape[0] % 2:
                high, low = (np.concatenate([half, np.zeros_like(half[:1])]) for half in (high, low))
            high, low = add((high[::2], low[::2]), (high[1::2], low[1::2]))
        return DoubledNumbers(high.sum(axis=0), low.sum(axis=0))  # of one term, or of none

    def __add__(self, other: Any) -> "DoubledNumbers":
        return DoubledNumbers._of(add(self.pair, _pair(other)))

    __radd__ = __add__

    def __neg__(self) -> "DoubledNumbers":
        return DoubledNumbers._of(minus(self.pair))

    def __sub__(self, other: Any) -> "DoubledNumbers":
        return DoubledNumbers._of(add(self.pair, minus(_pair(other))))

    def __rsub__(self, other: Any) -> "DoubledNumbers":
        return DoubledNumbers._of(add(_pair(other), minus(self.pair)))

    def __mul__(self, other: Any) -> "DoubledNumbers":
        return DoubledNumbers._of(_product(self.pair, _pair(other)))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> "DoubledNumbers":
        return DoubledNumbers._of(_quotient(self.pair, _pair(other)))

    def __rtruediv__(self, other: Any) -> "DoubledNumbers":
        return DoubledNumbers._of(_quotient(_pair(other), self.pair))

    def __pow__(self, exponent: int) -> "DoubledNumbers":
        result, square, remaining = DoubledNumbers(1.0), self, int(exponent)
        if remaining != exponent or remaining < 0:
            raise TypeError(f"powers are whole numbers, received {exponent!r}")
        while remaining:
            if remaining & 1:
                result = result * square
            remaining >>= 1
            if remaining:
                square = square * square
        return result

    def __eq__(self, other: object) -> bool:
        """Refuse: a formula that asks whether numbers are equal has an answer for each of them, and not one."""
        raise TypeError("arrays of doubled numbers have no truth value")

    __hash__ = None  # type: ignore[assignment]

    def __abs__(self) -> "DoubledNumbers":
        negative = (self.pair[0] < 0.0) | ((self.pair[0] == 0.0) & (self.pair[1] < 0.0))
        sign = np.where(negative, -1.0, 1.0)
        return DoubledNumbers(sign * self.pair[0], sign * self.pair[1])

    def sqrt(self) -> "DoubledNumbers":
        """Return the root; of zero it is zero."""
        high, low = self.pair
        root = np.sqrt(np.maximum(high, 0.0))
        square = multiply(root, root)
        remainder = add((high, low), minus(square))
        safe = np.where(root > 0.0, root, 1.0)
        return DoubledNumbers._of(add((root, np.zeros_like(root)), (remainder[0] / (2.0 * safe), np.zeros_like(root))))

    def exp(self) -> "DoubledNumbers":
        """Return the exponential; zero below -700, where it leaves the range of doubled precision."""
        high, low = self.pair
        with np.errstate(invalid="ignore"):
            inside = high > -700.0
        x = DoubledNumbers(np.where(inside, high, 0.0), np.where(inside, low, 0.0))
        k = np.rint(x.pair[0] / math.log(2.0))
        remainder = x - DoubledNumbers(k * _LOG_2[0]) - DoubledNumbers(k) * _LOG_2[1] - DoubledNumbers(k) * _LOG_2[2]
        scale = 2.0**-_SQUARES
        r = DoubledNumbers(scale * remainder.pair[0], scale * remainder.pair[1])
        total, power = r, r
        for factorial in _FACTORIALS:
            power = power * r
            total = total + power / float(factorial)
        for _ in range(_SQUARES):
            total = 2.0 * total + total * total
        total = total + 1.0
        factor = np.ldexp(1.0, np.where(np.isfinite(k), k, 0.0).astype(np.int64))
        halves = [np.where(inside, half * factor, np.where(np.isnan(high), np.nan, 0.0)) for half in total.pair]
        return DoubledNumbers(halves[0], halves[1])


def _pair(value: Any) -> Pair:
    if isinstance(value, DoubledNumbers):
        return value.pair
    top: Array = np.asarray(value, dtype=np.float64)
    return top, np.zeros_like(top)


def _product(left: Pair, right: Pair) -> Pair:
    high, low = multiply(left[0], right[0])
    return _sum_of(high, low + (left[0] * right[1] + left[1] * right[0]))


def _quotient(left: Pair, right: Pair) -> Pair:
    first = left[0] / right[0]
    remainder = add(left, minus(_product((first, np.zeros_like(first)), right)))
    second = remainder[0] / right[0]
    remainder = add(remainder, minus(_product((second, np.zeros_like(second)), right)))
    return add(_sum_of(first, second), (remainder[0] / right[0], np.zeros_like(first)))


def _sum_of(high: Array, low: Array) -> Pair:
    total = high + low
    return total, low - (total - high)
