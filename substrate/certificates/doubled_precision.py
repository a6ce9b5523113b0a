r"""Residuals in twice the working precision, by products that make no rounding error.

A number is cut into slices of :math:`\beta` bits. With :math:`2\beta + \log_2 n \le 53` the products of slices, and
their sums over n terms, are exact in double precision in whatever order a BLAS adds them up [Ozaki2012]_. Four slices
of the matrix times four of the vector give :math:`K a` with an error below :math:`8 n\, 2^{-4\beta}` of the largest
entry of a row times that of a: :math:`2^{-70}` for two thousand columns, :math:`2^{-60}` for ten thousand. They are
added up as unevaluated sums of two numbers [Dekker1971]_. The result is the same on every processor, and no wider type
is needed. Where numbers overflow (the largest above 1e290) entries are not finite, and the callers give no bound.
"""

import math

import numpy as np

from substrate.arrays import Array

__all__ = ["SlicedMatrix", "add", "minus", "multiply"]

#: An unevaluated sum of two arrays, the second smaller than the rounding of the first.
Pair = tuple[Array, Array]

_SLICES = 4
_SPLITTER = 2.0**27 + 1.0


def add(left: Pair, right: Pair) -> Pair:
    """Return the sum of two pairs, correct to twice the precision where it does not cancel below it."""
    high, low = _two_sum(left[0], right[0])
    return _fast_two_sum(high, low + (left[1] + right[1]))


def minus(pair: Pair) -> Pair:
    """Return the pair with the other sign."""
    return -pair[0], -pair[1]


def multiply(left: Array, right: Array) -> Pair:
    """Return the exact products of the entries: an error of 2^-1070 where they underflow, not finite where they
    overflow.
    """
    product = left * right
    high, low = _split(left)
    other_high, other_low = _split(right)
    error = ((high * other_high - product) + high * other_low + low * other_high) + low * other_low
    return product, error


class SlicedMatrix:
    """A matrix cut into slices once, for several products."""

    def __init__(self, matrix: Array) -> None:
        self.height, self.width = matrix.shape
        if not self.width:
            return
        self._bits = _bits_of(self.width)
        rows = np.maximum(matrix.max(axis=1, initial=0.0), -matrix.min(axis=1, initial=0.0))
        self._exponents = _exponents(rows)
        remainder = matrix.copy()
        places = [self._exponents[:, None] - number * self._bits for number in range(_SLICES)]
        self._slices = [_sliced_once(remainder, place, self._bits) for place in places]

    def times(self, vector: Array) -> tuple[Pair, Array]:
        """Return the product with a vector, or with the columns of a matrix, as a pair, and a bound on the error of
        every entry.
        """
        zero = np.zeros((self.height, *vector.shape[1:]))
        if not self.width:
            return (zero, zero), zero
        n, bits = self.width, self._bits
        columns = vector.reshape(n, -1)
        top = _exponents(np.abs(columns).max(axis=0))
        slices = np.concatenate(_slice(columns, top, bits), axis=1)
        total: Pair = (zero, zero)
        for matrix_slice in self._slices:
            products = matrix_slice @ slices  # exact, whatever the order of the sums
            for start in range(0, products.shape[1], columns.shape[1]):
                part = products[:, start : start + columns.shape[1]]
                total = add(total, (part.reshape(zero.shape), zero))
        left_out = 2.0 ** (1 - _SLICES * bits)  # of the matrix, of the vector, and the rounding of the pairs
        underflow = 64.0 * n * 2.0**-1074 if vector.any() else 0.0
        radius = np.ldexp(4.0 * n * (left_out + 2.0**-100), self._exponents[:, None] + top)
        return total, radius.reshape(zero.shape) + underflow


def _bits_of(n: int) -> int:
    """Return the bits of slices whose products, and sums of n of them, are exact."""
    return (53 - math.ceil(math.log2(n + 1))) // 2


def _exponents(largest: Array) -> Array:
    """Return e with every entry at most 2^e; for zeros the smallest exponent."""
    return np.where(largest > 0.0, np.frexp(largest)[1], -1100).astype(np.int64)


def _slice(values: Array, exponents: Array, bits: int) -> list[Array]:
    remainder = values.copy()
    return [_sliced_once(remainder, exponents - number * bits, bits) for number in range(_SLICES)]


def _sliced_once(remainder: Array, exponents: Array, bits: int) -> Array:
    """Return the leading bits of the values, which are subtracted from them in place."""
    anchor = np.ldexp(0.75, exponents + (54 - bits))
    leading = remainder + anchor
    leading -= anchor
    remainder -= leading
    return leading


def _two_sum(a: Array, b: Array) -> Pair:
    total = a + b
    second = total - a
    return total, (a - (total - second)) + (b - second)


def _fast_two_sum(a: Array, b: Array) -> Pair:
    total = a + b
    return total, b - (total - a)


def _split(values: Array) -> Pair:
    scaled = _SPLITTER * values
    high = scaled - (scaled - values)
    return high, values - high
