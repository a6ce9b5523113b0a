r"""Numbers with a radius in double precision, and the rounding of plain double precision: where EPS is written.

An :class:`Enclosed` array states for each of its entries x that

.. math:: |x - m| \le \varrho

with a midpoint m that was computed and a radius that bounds all that computing and reading it may have lost. The sum,
the product or the norm of such numbers is one again. A formula over them therefore bounds its own rounding; nothing
is left to be added by hand. The unit roundoff is u, half the distance from one to the next number, EPS = 2 u.

.. math::

    x + y: \quad & \varrho_x + \varrho_y + u\, |m_x \oplus m_y| , \\
    x\, y: \quad & |m_x| \varrho_y + \varrho_x |m_y| + \varrho_x \varrho_y + u\, |m_x \otimes m_y| , \\
    x / y: \quad & \frac{\varrho_x + |m_x \oslash m_y|\, \varrho_y}{|m_y| - \varrho_y} + u\, |m_x \oslash m_y| , \\
    A x: \quad & |A|\, \varrho_x + \varrho_A\, (|x| + \varrho_x) + k\, u\, |A|\, |x| \quad\text{for sums of k terms.}

Two arithmetics have the same verbs:

:class:`Double`
    Midpoints in double precision: every certificate, a few vector operations.
:class:`~substrate.balls.Balls`
    Ball arithmetic in as many bits as the result needs: a proof is the formula of the certificate in balls.

Radii are sums, products and quotients of numbers that are not negative, so that their own rounding is a relative one:
a thousand times the number of terms times u at most, and :meth:`Double.upper` allows for a hundredth.

Bounds and thresholds that are not formulas over such numbers have the functions before the classes. k operations in a
row return the exact result times :math:`1 + \theta_k`,

.. math:: |\theta_k| \le \gamma_k = \frac{k u}{1 - k u} \le 2 k u \quad\text{for } k u \le \tfrac12

([Higham2002]_ lemma 3.1). A sum of k products, in whatever order it is formed, is right to :math:`\gamma_k` times the
sum of their sizes ([Higham2002]_ section 3.1), whatever cancels. Every function states its share of what it is
multiplied by, and takes the counts that its theory needs: operations, terms, the size of a matrix.
"""

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "EPS",
    "LEAST",
    "ROUNDED_ONCE",
    "UNIT",
    "Array",
    "Double",
    "Enclosed",
    "GramFactor",
    "Operators",
    "at_most",
    "block_length",
    "exponential_rounding",
    "multiply_in_blocks",
    "random_rounding",
    "relative_rounding",
    "root_mean_square",
    "subtract_below",
    "sum_rounding",
]

Array = NDArray[np.float64]

#: Distance from one to the next number in double precision.
EPS = float(np.finfo(np.float64).eps)
#: The unit roundoff u.
UNIT = EPS / 2.0
_Number = TypeVar("_Number", float, Array)

#: An upper bound on t exp(-t), whose largest value is 1/e.
_LARGEST_DAMPED = 0.37
#: Terms that are always added up at once where sums are formed in blocks: shorter products cost more (measured).
_SHORT = 256
#: Margin for the rounding of the bounds themselves, and for products of shares that are left out.
_ROOM = 1.01


def at_most(bound: float) -> float:
    """Return a number that is not below the exact value of a bound, computed from numbers that are not negative.

    Nothing cancels there, so that k operations change a share of 2 k u: a hundredth is more than 1e13 operations
    change.
    """
    return _ROOM * bound


def relative_rounding(operations: float) -> float:
    """Return the share that so many operations in a row may change: k u / (1 - k u), at most 2 k u below k u = 1/2.

    A sum of k products is such a row of k operations, formed in any order, on the sum of their sizes.
    """
    return operations * EPS


#: The share of a number that is right up to one operation, or a few of which none can add to it.
ROUNDED_ONCE = relative_rounding(1.0)


def sum_rounding(terms: float) -> float:
    r"""Return the share k u of the sum of sizes that a sum of so many products may lose, in any order.

    This is the first order of :math:`\gamma_k`, and a bound by itself for sums and inner products [Jeannerod2013]_; of
    other rows of operations :func:`at_most` covers the rest.
    """
    return terms * UNIT


def block_length(terms: int) -> int:
    """Return how many of so many terms are added up at a time where a sum is formed in blocks."""
    return max(_SHORT, math.isqrt(terms) + 1)


def multiply_in_blocks(A: Array, B: Array) -> tuple[Array, int]:
    """Return A B, its entries summed in blocks of terms, and how many operations one of them rounds in."""
    n = int(A.shape[1])
    step = min(block_length(n), n)
    product: Array = A[:, :step] @ B[:step, :]
    for start in range(step, n, step):
        stop = min(start + step, n)
        product = product + A[:, start:stop] @ B[start:stop, :]
    return product, step + n // max(step, 1) + 1


def exponential_rounding(operations: float, after: float) -> float:
    r"""Return the share of one that exp(-t) may be off by, t > 0 being right to so many operations.

    .. math:: |e^{-t (1 + \theta)} - e^{-t}| \le |\theta|\, t\, e^{-t} \le |\theta| / e ,

    and ``after`` counts the roundings of the exponential itself, which is right to less than two units of the last
    place, and of what follows.
    """
    return sum_rounding(_LARGEST_DAMPED * operations + after)


def random_rounding(count: float) -> float:
    r"""Return the share that so many roundings of random sign add up to, but for chance: :math:`4 \sqrt k\, \epsilon`.

    An estimate by which a cheaper formula is preferred, never a bound: independent errors of at most u have a sum of
    deviation :math:`\sqrt{k/3}\, u`, and this is fourteen of them.
    """
    return 4.0 * math.sqrt(count) * EPS


def subtract_below(value: _Number, loss: _Number) -> _Number:
    """Return a number not above value - loss, if each is correct to one rounding, products included."""
    return value - loss - relative_rounding(4.0) * (abs(value) + abs(loss))


def root_mean_square(values: Array, weights: Array) -> float:
    """Return sqrt(sum v z^2 / sum v) of numbers z with weights v, with no overflow on the way."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    shares = weights / weights.max()
    return largest * math.sqrt(float(shares @ np.square(values / largest)) / float(shares.sum()))


#: Below this a product may have lost digits to underflow, of at most this size.
_SMALL, LEAST = 1e-290, 1e-318
#: Not below what a number that is no longer normal may have lost.
_TINY = 1e-307

#: Terms of a product with a matrix that are added up at a time.
_TERMS = 16
#: The largest share of a matrix that its inverse may be off by.
_MOST_SHARE = 0.5

#: The other operand of an enclosed number: one of the same kind, or numbers that are exact.
Operand = Any


class Operators:
    """The operators of an arithmetic that follow from its sum, its product and its negative."""

    __slots__ = ()
    # numpy leaves operations with such a right operand to it
    __array_ufunc__ = None

    def __radd__(self, other: Operand) -> Self:
        return self + other  # type: ignore[no-any-return]

    def __sub__(self, other: Operand) -> Self:
        return self + (-other)  # type: ignore[no-any-return]

    def __rsub__(self, other: Operand) -> Self:
        return (-self) + other  # type: ignore[operator, no-any-return]

    def __rmul__(self, other: Operand) -> Self:
        return self * other  # type: ignore[no-any-return]


class Enclosed(Operators, ABC):
    """An array of numbers, each within a radius of its midpoint: what both arithmetics say of operators.

    Operands of ``+ - * / @`` are of one kind, or plain numbers and arrays, which count as exact. An arithmetic defines
    ``+``, ``*``, ``/``, ``@``, the negative, and every verb of :class:`Double`.
    """

    __slots__ = ()

    def __rtruediv__(self: Any, other: Operand) -> Any:
        return self.exact(other) / self

    @abstractmethod
    def apply(self, function: Callable[..., Any], *others: Operand) -> Self:
        """Return these numbers, and others, brought into another order by a function of arrays."""

    @property
    def T(self) -> Self:  # noqa: N802
        """The transposed matrix."""
        return self.apply(np.transpose)

    def take(self, rows: Any) -> Self:
        """Return some entries."""
        return self.apply(lambda values: values[rows])

    def place(self, rows: Any, n: int) -> Self:
        """Return a vector of n zeros but for these entries, in the given rows."""
        order = np.full(n, -1)
        order[rows] = np.arange(order[rows].size)
        return self.apply(lambda values, zero: np.append(values, zero)[order], np.zeros(1))

    def after(self, first: Operand) -> Self:
        """Return a vector that begins with one more number."""
        return self.apply(lambda values, start: np.append(start, values), first)

    def beside(self, other: Operand) -> Self:
        """Return both matrices, side by side."""
        return self.apply(lambda left, right: np.concatenate([left, right], axis=1), other)

    def select(self, mask: Any, other: Operand) -> Self:
        """Return the numbers where the mask holds, and the others elsewhere."""
        return self.apply(lambda values, further: np.where(mask, values, further), other)

    def __pow__(self, exponent: int) -> Self:
        return reduce(operator.mul, [self] * exponent)


class Double(Enclosed):
    """Midpoints and radii in double precision; a radius of all entries may be one number."""

    __slots__ = ("middle", "radius")

    def __init__(self, middle: Any, radius: Any = 0.0) -> None:
        self.middle = middle
        self.radius = radius

    @classmethod
    def exact(cls, values: Any) -> Self:
        """Return the doubles with radius zero."""
        return cls(values)

    @classmethod
    def about(cls, middle: Any, radius: Any) -> Self:
        """Return numbers within a radius of doubles."""
        return cls(middle, radius)

    def apply(self, function: Callable[..., Any], *others: Operand) -> "Double":
        """Return these numbers, and others, brought into another order by a function of arrays."""
        every = [self, *map(_double, others)]
        radius: Any = 0.0
        if not all(_is_zero(each.radius) for each in every):
            radius = function(*(np.broadcast_to(each.radius, np.shape(each.middle)) for each in every))
        return Double(function(*(each.middle for each in every)), radius)

    @property
    def midpoint(self) -> Array:
        """The computed numbers, without their radii."""
        return np.asarray(self.middle)

    @property
    def sizes(self) -> Array:
        """Upper ends of the sizes of all entries."""
        return np.asarray(np.abs(self.middle) + self.radius)

    def __add__(self, other: Operand) -> "Double":
        other = _double(other)
        middle = self.middle + other.middle
        return Double(middle, UNIT * np.abs(middle) + self.radius + other.radius)

    def __neg__(self) -> "Double":
        return Double(-self.middle, self.radius)

    def __mul__(self, other: Operand) -> "Double":
        other = _double(other)
        x, y = self.middle, other.middle
        middle = x * y
        sizes = np.abs(middle)
        radius = UNIT * sizes
        if not _is_zero(other.radius):
            radius = radius + (np.abs(x) + self.radius) * other.radius
        if not _is_zero(self.radius):
            radius = radius + self.radius * np.abs(y)
        return Double(middle, _with_underflow(radius, sizes, self, other))

    def __truediv__(self, other: Operand) -> "Double":
        other = _double(other)
        middle = self.middle / other.middle
        sizes = np.abs(middle)
        radius = UNIT * sizes
        if not (_is_zero(self.radius) and _is_zero(other.radius)):
            least, off = np.abs(other.middle) - other.radius, self.radius + sizes * other.radius
            # infinite where the lower end of the divisor is not positive
            radius = radius + (off / least if np.all(least > 0.0) else np.where(least > 0.0, off / least, np.inf))
        return Double(middle, _with_underflow(radius, sizes, self))

    def __matmul__(self, other: Operand) -> "Double":
        other = _double(other)
        x, y = np.abs(self.middle), np.abs(other.middle)
        middle, roundings = _multiply(self.middle, other.middle)
        radius = sum_rounding(roundings) * (x @ y)
        if not _is_zero(other.radius):
            radius = radius + x @ np.broadcast_to(other.radius, y.shape)
        if not _is_zero(self.radius):
            radius = radius + np.broadcast_to(self.radius, x.shape) @ (y + other.radius)
        lost = LEAST if other.sizes.any() and (x.any() or not _is_zero(self.radius)) else 0.0
        return Double(middle, radius + lost)

    def total(self) -> "Double":
        """Return the sum, rounded once."""
        try:
            total = math.fsum(self.middle.tolist())
        except (OverflowError, ValueError):  # not finite, or no longer on the way
            total = math.nan
        radius = 0.0 if _is_zero(self.radius) else float(np.broadcast_to(self.radius, self.middle.shape).sum())
        return Double(total, UNIT * abs(total) + radius)

    def largest(self) -> "Double":
        """Return the largest entry: the largest midpoint, with the largest radius."""
        return Double(float(self.middle.max()), float(np.max(self.radius)))

    def bound_norm(self, weights: Array) -> "Double":
        """Return a number that sqrt(sum v x^2 / sum v) does not exceed, for exact weights v."""
        value = root_mean_square(self.sizes, weights)
        return Double(value, (sum_rounding(weights.size) + 8.0 * UNIT) * value)

    def absorb(self, correction: "Double") -> "Double":
        """Return the difference to a small correction: the same midpoints, with the correction in the radius.

        Products of a matrix with the midpoints remain usable.
        """
        return Double(self.middle, self.radius + correction.sizes)

    def without_radius(self) -> "Double":
        """Return the midpoints as exact numbers, which differ from these numbers by :meth:`error`."""
        return Double(self.middle)

    def sqrt(self) -> "Double":
        """Return the roots; where a number may be zero, its root is at most the root of its upper end."""
        middle = np.sqrt(self.middle)
        radius = UNIT * middle
        if not _is_zero(self.radius):
            with np.errstate(divide="ignore", invalid="ignore"):
                slope = np.where(middle > 0.0, self.radius / middle, np.inf)
            radius = radius + np.minimum(slope, np.sqrt(self.radius))
        return Double(middle, radius)

    def exp(self) -> "Double":
        r"""Return exponentials, :math:`|e^{m \pm r} - e^m| \le e^m (e^r - 1)`, right to two units of the last place.

        Up to r = 1 :math:`e^r - 1 \le r + r^2`.
        """
        middle, radius = np.exp(self.middle), at_most(1.0) * np.asarray(self.radius)
        small = np.minimum(radius, 1.0)
        away = middle * (small * (1.0 + small))
        if not (radius <= 1.0).all():
            away = np.where(radius <= 1.0, away, np.exp(self.middle + radius))
        return Double(middle, at_most(1.0) * (away + 4.0 * UNIT * middle) + _TINY)

    def add_up(self) -> "Double":
        """Return the sums along the last axis, by halves and their halves, so that cancellation loses little."""
        middle, radius = self.middle, np.broadcast_to(self.radius, np.shape(self.middle))
        total = Double(middle, radius) if middle.shape[-1] else Double(*np.zeros((2, *middle.shape[:-1], 1)))
        while (n := total.middle.shape[-1]) > 1:
            half = n // 2
            low, high = (total.take((..., slice(start, start + half))) for start in (0, half))
            left_over = total.take((..., slice(2 * half, n)))
            total = low + high
            total = Double(
                np.concatenate([total.middle, left_over.middle], axis=-1),
                np.concatenate([total.radius, left_over.radius], axis=-1),
            )
        return total.take((..., 0))

    def log(self) -> "Double":
        """Return the logarithms, without a finite radius where a number may not be positive."""
        middle = np.log(self.middle)
        radius = np.where(self.radius < self.middle, -np.log1p(-self.radius / self.middle), np.inf)
        return Double(middle, at_most(1.0) * radius + 8.0 * UNIT * (1.0 + np.abs(middle)))

    def error(self) -> "Double":
        """Return the distance from the midpoints: zeros with the same radius."""
        return Double(np.zeros_like(self.middle), self.radius)

    def solve(self, right: "Double") -> "Double":
        r"""Return the computed solution x and a radius by an approximate inverse R.

        .. math:: |x^\star - x|_\infty \le \frac{|R\,(b - A x)|_\infty}{1 - \|I - R A\|_\infty}
        """
        try:
            inverse = Double(np.linalg.inv(self.middle))
        except np.linalg.LinAlgError:
            return Double(np.zeros_like(right.middle), np.full_like(right.middle, np.inf))
        x = Double(inverse.middle @ right.middle)
        share = float((Double(np.eye(len(self.middle))) - inverse @ self).sizes.sum(axis=1).max(initial=0.0))
        remainder = float((inverse @ (right - self @ x)).sizes.max(initial=0.0))
        return Double(x.middle, np.full_like(x.middle, remainder / (1.0 - share) if share < 1.0 else np.inf))

    def __abs__(self) -> "Double":
        return Double(np.abs(self.middle), self.radius)

    def positive_part(self) -> "Double":
        """Return it with the same radius, or with the upper end as the radius where the midpoint is negative."""
        if _is_zero(self.radius):
            return Double(np.maximum(self.middle, 0.0))
        # the room for the rounding of the radius exceeds the rounding of this sum, whose midpoint is no larger
        ends = np.maximum(np.asarray(self.middle) + at_most(1.0) * np.asarray(self.radius), 0.0)
        radius = np.where(np.asarray(self.middle) < 0.0, ends, self.radius)
        return Double(np.maximum(self.middle, 0.0), radius)

    def upper_ends(self) -> "Double":
        """Return numbers that these do not exceed, without radius."""
        ends = self.middle + at_most(1.0) * self.radius
        return Double(ends + EPS * np.abs(ends))

    def bound_root(self) -> "Double":
        """Return numbers that the roots do not exceed, of numbers that are not negative."""
        return Double(np.sqrt(np.maximum(self.middle, 0.0) + self.radius))

    def bound_inverse(self, g: "Double", added: Any = None) -> tuple["Double", "Double"]:
        r"""Return numbers that :math:`\sqrt{g^T (A^T A + E)^{-1} g}` and the norm of :math:`(A^T A + E)^{-1} A^T` do
        not exceed, for a tall matrix A and a positive semi-definite E, if it is given.
        """
        if added is None:
            factor = GramFactor.of(self)
        else:
            values, vectors = np.linalg.eigh(added.middle)
            root = Double(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)
            factor = GramFactor.of(self.T.beside(root.T).T)
            factor = None if factor is None else factor.plus(added - root.T @ root)
        if factor is None:
            return Double(math.inf), Double(math.inf)
        reach = at_most(float(np.linalg.norm(factor.T, 2))) / factor.least
        return Double(float(np.linalg.norm((Double(factor.T.T) @ g).sizes)) / factor.least), Double(reach)

    def upper(self) -> float:
        """Return a double that the size of a single number does not exceed; infinity where nothing is known."""
        size = at_most(float(self.sizes))
        return size if math.isfinite(size) else math.inf


class GramFactor(NamedTuple):
    r"""A matrix T, nearly the inverse of R in A = QR for a tall matrix A that is known up to a radius.

    For any T with :math:`\eta = \|I - (A T)^T A T\| < 1`, measured in the norm of Frobenius with its rounding,
    :math:`(1 - \eta) \|z\|^2 \le \|A T z\|^2`. Of a matrix A + E with :math:`|E|` at most the radius of A,
    :math:`\|E T z\| \le \sigma \|z\|` with :math:`\sigma` the norm of :math:`|E|\,|T|`, and therefore, with
    :math:`H = (A + E)^T (A + E)` and ``least`` :math:`= \sqrt{1 - \eta} - \sigma`,

    .. math:: \text{least}^2\, T^{-T} T^{-1} \le H
              \quad\Longrightarrow\quad \sqrt{g^T H^{-1} g} \le \|T^T g\| / \text{least} .
    """

    T: Array
    least: float

    @classmethod
    def of(cls, matrix: Double) -> "GramFactor | None":
        """Return the factor, with columns scaled to one size; None if they are dependent to rounding."""
        if not np.isfinite(matrix.middle).all():
            return None
        largest = np.abs(matrix.middle).max(axis=0, initial=LEAST)
        sizes = largest * np.linalg.norm(matrix.middle / largest, axis=0)
        scale = np.ldexp(1.0, np.clip(-np.frexp(sizes)[1], -1000, 1000))
        A = matrix * scale
        try:
            T = Double(np.triu(np.linalg.inv(np.linalg.qr(A.middle, mode="r"))))
        except np.linalg.LinAlgError:
            return None
        if T.middle.shape[0] != T.middle.shape[1]:  # more columns than rows
            return None
        B, sizes = A.middle @ T.middle, np.abs(T.middle)
        # of B as a product and of B'B as another, in the norm of Frobenius
        off = sum_rounding(len(sizes)) * float(np.linalg.norm(np.abs(A.middle) @ sizes))
        norm = float(np.linalg.norm(B))
        eta = float(np.linalg.norm(B.T @ B - np.eye(len(sizes)))) + sum_rounding(len(B) + 1) * norm**2
        eta = at_most(eta + 2.0 * norm * off + off**2)
        sigma = 0.0 if _is_zero(A.radius) else at_most(float(np.linalg.norm(A.radius @ sizes)))
        if not (eta <= _MOST_SHARE and sigma <= _MOST_SHARE):
            return None
        return cls(scale[:, None] * T.middle, math.sqrt(1.0 - eta) - sigma)

    def plus(self, deviation: Double) -> "GramFactor | None":
        r"""Return the factor of H + D for a symmetric matrix D, where D is small relative to H.

        With :math:`\tau` the norm of :math:`|T|^T |D|\, |T|`, the bound moves by it:
        :math:`(\text{least}^2 - \tau)\, T^{-T} T^{-1} \le H + D`.
        """
        sizes = np.abs(self.T)
        off = at_most(float(np.linalg.norm(sizes.T @ deviation.sizes @ sizes)))
        if not off <= _MOST_SHARE * self.least**2:
            return None
        return GramFactor(self.T, math.sqrt(self.least**2 - off))


def _double(value: Operand) -> Double:
    return value if type(value) is Double else Double(value)


def _multiply(A: Any, x: Any) -> tuple[Any, int]:
    """Return A x, and how many roundings a sum has: of a matrix times a vector a few terms are added up at a time, and
    these sums by pairs.
    """
    n = int(A.shape[-1])
    if A.ndim != 2 or x.ndim != 1 or n <= _TERMS:
        return A @ x, n
    sums = np.column_stack([A[:, k : k + _TERMS] @ x[k : k + _TERMS] for k in range(0, n, _TERMS)])
    levels = 0
    while sums.shape[1] > 1:
        odd = sums[:, -1:] if sums.shape[1] % 2 else sums[:, :0]
        sums = np.concatenate([sums[:, 0:-1:2] + sums[:, 1::2], odd], axis=1)
        levels += 1
    return sums[:, 0], _TERMS + levels


def _is_zero(radius: Any) -> bool:
    """Return whether numbers are exact: the radius was never an array."""
    return isinstance(radius, float) and radius == 0.0


def _with_underflow(radius: Any, sizes: Any, *factors: Double) -> Any:
    """Return the radius plus the underflow of products and quotients: nothing where a factor is zero."""
    smallest = sizes.min(initial=np.inf) if isinstance(sizes, np.ndarray) else sizes
    if smallest >= _SMALL:
        return radius
    lost: Any = LEAST
    for factor in factors:
        lost = np.where(factor.sizes > 0.0, lost, 0.0)
    return radius + lost
