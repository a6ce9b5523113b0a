"""Ball arithmetic: enclosed numbers in any number of bits, by python-flint, which is imported when it is needed.

``pip install "lssvm-substrate[proof]"`` brings it. An array of balls has the verbs of
:class:`~substrate.numbers.Enclosed`, so that a proof is the formula of a certificate in other numbers.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any, Self

import numpy as np

from substrate.arrays import Array
from substrate.errors import DataError
from substrate.numbers import Enclosed, Operand

__all__ = ["Balls", "above", "ball", "balls", "below", "flint", "precision", "root_of"]


def flint() -> Any:
    """Return the library, or raise an error with the command that installs it."""
    try:
        import flint as library
    except ImportError as error:
        raise DataError('a proof needs python-flint: pip install "lssvm-substrate[proof]"') from error
    return library


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Set the precision in bits inside the block."""
    context = flint().ctx
    before = context.prec
    context.prec = bits
    try:
        yield
    finally:
        context.prec = before


def ball(value: float) -> Any:
    """Return a double as a ball without radius."""
    return flint().arb(float(value))


def balls(values: Any) -> list[Any]:
    """Return a vector of doubles as balls without radius."""
    arb = flint().arb
    return [arb(value) for value in values.tolist()]


def above(value: Any) -> float:
    """Return a double that is not below anything in the ball; infinity where the ball is not finite."""
    if not value.is_finite():
        return float("inf")
    if value == 0:
        return 0.0
    return float(np.nextafter(float(value.upper()), np.inf))


def below(value: Any) -> float:
    """Return a double that is not above anything in the ball."""
    return float(np.nextafter(float(value.lower()), -np.inf)) if value.is_finite() else float("-inf")


def root_of(value: Any) -> Any:
    """Return the root of a ball known to hold a number that is not negative."""
    if value > 0 or not value.is_finite():
        return value.sqrt()
    half = value.upper().max(ball(0.0)).sqrt().upper() / 2  # anything from zero to the root of its upper end
    return flint().arb(half, half)


class Balls(Enclosed):
    """An array of balls, each with its own radius, in the precision of the moment (:func:`precision`)."""

    __slots__ = ("values",)

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values, dtype=object)

    @classmethod
    def exact(cls, values: Any) -> Self:
        """Return the doubles as balls without radius."""
        return cls(np.frompyfunc(flint().arb, 1, 1)(np.asarray(values, dtype=np.float64)))

    @classmethod
    def about(cls, middle: Any, radius: Any) -> Self:
        """Return balls within a radius of doubles."""
        middle, radius = np.broadcast_arrays(middle, radius)
        return cls(np.frompyfunc(flint().arb, 2, 1)(middle, radius))

    def apply(self, function: Callable[..., Any], *others: Operand) -> "Balls":
        """Return these numbers, and others, brought into another order by a function of arrays."""
        return Balls(function(self.values, *(_balls(other).values for other in others)))

    @property
    def value(self) -> Any:
        """The ball of a single number."""
        return self.values.item()

    @property
    def midpoint(self) -> Array:
        """The midpoints, rounded to double precision."""
        return np.asarray(np.frompyfunc(float, 1, 1)(self.values), dtype=np.float64)

    def __add__(self, other: Operand) -> "Balls":
        return Balls(self.values + _balls(other).values)

    def __neg__(self) -> "Balls":
        return Balls(-self.values)

    def __mul__(self, other: Operand) -> "Balls":
        return Balls(self.values * _balls(other).values)

    def __truediv__(self, other: Operand) -> "Balls":
        return Balls(self.values / _balls(other).values)

    def __matmul__(self, other: Operand) -> "Balls":
        left, right = self.values, _balls(other).values
        if left.ndim < 2 or right.ndim < 2:
            return Balls(left @ right)
        product = _matrix(left) * _matrix(right)  # many times faster than numpy
        return Balls(np.array(product.entries(), dtype=object).reshape(left.shape[0], right.shape[1]))

    def total(self) -> "Balls":
        """Return the sum."""
        return Balls(sum(self.values.tolist(), ball(0.0)))

    def largest(self) -> "Balls":
        """Return the largest entry."""
        return Balls(reduce(lambda first, second: first.max(second), self.values.tolist()))

    def add_up(self) -> "Balls":
        """Return the sums along the last axis."""
        return Balls(self.values.sum(axis=-1))

    def bound_norm(self, weights: Array) -> "Balls":
        """Return the norm."""
        v = Balls.exact(weights)
        return Balls(root_of(((v * self * self).total() / v.total()).value))

    def absorb(self, correction: Any) -> "Balls":
        """Return the difference."""
        return Balls(self.values - _balls(correction).values)

    def without_radius(self) -> "Balls":
        """Return the midpoints."""
        return Balls(np.frompyfunc(lambda value: value.mid(), 1, 1)(self.values))

    def sqrt(self) -> "Balls":
        """Return the roots."""
        return Balls(np.frompyfunc(root_of, 1, 1)(self.values))

    def exp(self) -> "Balls":
        """Return the exponentials."""
        return Balls(np.frompyfunc(lambda value: value.exp(), 1, 1)(self.values))

    def log(self) -> "Balls":
        """Return the logarithms."""
        return Balls(np.frompyfunc(lambda value: value.log(), 1, 1)(self.values))

    def error(self) -> "Balls":
        """Return balls about zero with the same radius."""
        return Balls(np.frompyfunc(lambda value: value - value.mid(), 1, 1)(self.values))

    def solve(self, right: "Balls") -> "Balls":
        """Return the solution; python-flint raises ZeroDivisionError for a matrix that may be singular."""
        return Balls(_matrix(self.values).solve(_matrix(right.values[:, None])).entries())

    def __abs__(self) -> "Balls":
        return Balls(np.frompyfunc(abs, 1, 1)(self.values))

    def positive_part(self) -> "Balls":
        """Return them, from above where a ball holds zero."""
        return Balls(np.frompyfunc(_positive_part, 1, 1)(self.values))

    def upper_ends(self) -> "Balls":
        """Return the upper ends of the balls."""
        return Balls(np.frompyfunc(lambda value: value.upper(), 1, 1)(self.values))

    def bound_root(self) -> "Balls":
        """Return the roots."""
        return Balls(np.frompyfunc(root_of, 1, 1)(self.positive_part().values))

    def bound_inverse(self, g: "Balls", added: Any = None) -> tuple["Balls", "Balls"]:
        """Return the norm of g, and the root of the trace of the inverse; infinity if it may be singular."""
        H, column = self.T @ self, _matrix(g.values[:, None])
        try:
            inverse = _matrix((H if added is None else H + added).values).inv()
        except ZeroDivisionError:
            return Balls.exact(np.inf), Balls.exact(np.inf)
        trace = sum((inverse[i, i] for i in range(inverse.nrows())), ball(0.0))
        return Balls(root_of((column.transpose() * inverse * column)[0, 0])), Balls(root_of(trace))

    def upper(self) -> float:
        """Return a double not below the size of the number."""
        return above(abs(self.value))


def _matrix(values: Any) -> Any:
    return flint().arb_mat(*values.shape, values.ravel().tolist())


def _positive_part(value: Any) -> Any:
    if value > 0:
        return value
    return ball(0.0) if value < 0 else abs(value).upper()


def _balls(value: Operand) -> Balls:
    return value if isinstance(value, Balls) else Balls.exact(value)
