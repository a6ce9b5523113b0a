r"""Derivatives of kernels in their inputs, for machines that read derivatives of f.

With the features :math:`\varphi` of a kernel, the features of a derivative are :math:`D^a \varphi(x)`, :math:`a` the
order in each input, and

.. math::

    \langle D^a \varphi(x), D^b \varphi(z) \rangle = D_x^a D_z^b \, k(x, z)

([Solak2003]_ section 2, for first orders). They exist where k has the derivative with a = b, also at x = z.

They follow from the formula of the kernel, by the rules of differentiation: a :class:`Dual` has a value and a slope,
both numbers of the same arithmetic, which may be such numbers themselves, one for every order. Arrays, balls and nodes
of a graph are differentiated alike.
"""

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from substrate.arrays import exp, sqrt, whole_number
from substrate.errors import DeclarationError
from substrate.numbers import Operators

__all__ = [
    "Dual",
    "Orders",
    "Plain",
    "checked_column",
    "checked_orders",
    "differentiate_formula",
    "split_orders",
    "times",
]

#: The order of a derivative in every input that has one.
Orders = Mapping[int, int]
#: Quotients beyond which a square overflows.
_FAR = 1e150


def checked_column(column: Any, n_features: int) -> int:
    """Return the number of an input, or an error that names those there are."""
    if isinstance(column, bool) or not hasattr(column, "__index__") or not 0 <= operator.index(column) < n_features:
        raise DeclarationError(f"column must be an integer from 0 to {n_features - 1}, received {column!r}")
    return operator.index(column)


def checked_orders(orders: Any, n_features: int) -> dict[int, int]:
    """Return the order in every input that has one, from a mapping such as ``{0: 2, 1: 1}``."""
    if not isinstance(orders, Mapping):
        raise DeclarationError(f"orders must be a mapping from columns to orders, as {{0: 2}}; received {orders!r}")
    by_column: dict[int, int] = {}
    for column, order in orders.items():
        if times_differentiated := whole_number(order, f"the order in column {column!r}"):
            by_column[checked_column(column, n_features)] = times_differentiated
    return dict(sorted(by_column.items()))


def split_orders(orders: Orders) -> Iterator[tuple[int, dict[int, int], dict[int, int]]]:
    """Yield the terms of the rule of Leibniz: a multiplicity, and the orders of the first and of the second factor."""
    for components in product(*(range(order + 1) for order in orders.values())):
        first = {column: component for column, component in zip(orders, components, strict=True) if component}
        second = {
            column: order - component for (column, order), component in zip(orders.items(), components, strict=True)
        }
        multiplicity = math.prod(
            math.comb(order, component) for order, component in zip(orders.values(), components, strict=True)
        )
        yield multiplicity, first, {column: component for column, component in second.items() if component}


class Plain(np.ndarray):
    """Numbers in double precision; a quotient is cut off where its square would overflow, and a kernel of the distance
    is zero.
    """

    @classmethod
    def of(cls, values: Any) -> "Plain":
        """Return numbers, or one number."""
        return np.asarray(values, dtype=np.float64).view(cls)

    def __truediv__(self, other: Any) -> Any:
        return np.clip(np.true_divide(self, other), -_FAR, _FAR)


class Dual(Operators):
    """A number of any arithmetic with its derivative in one quantity; the value may be such a number itself.

    A slope that is the integer zero costs nothing.
    """

    __slots__ = ("slope", "value")

    def __init__(self, value: Any, slope: Any) -> None:
        self.value, self.slope = value, slope

    def __add__(self, other: Any) -> "Dual":
        if not isinstance(other, Dual):
            return Dual(self.value + other, self.slope)
        return Dual(self.value + other.value, plus(self.slope, other.slope))

    def __neg__(self) -> "Dual":
        return Dual(-self.value, -self.slope)

    def __mul__(self, other: Any) -> "Dual":
        if not isinstance(other, Dual):
            return Dual(self.value * other, times(other, self.slope))
        slope = plus(times(self.value, other.slope), times(other.value, self.slope))
        return Dual(self.value * other.value, slope)

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, Dual):
            return self * (1 / other)
        return Dual(self.value / other, times(1 / other, self.slope))

    def __rtruediv__(self, other: Any) -> Any:
        inverse = 1 / self.value
        return Dual(inverse, -times(inverse * inverse, self.slope)) * other

    def __pow__(self, power: float) -> "Dual":
        lower = self.value ** (power - 1) * power if power != 1 else 1
        return Dual(self.value**power, times(lower, self.slope))

    def __ne__(self, other: Any) -> Any:
        return self.value != (other.value if isinstance(other, Dual) else other)

    __hash__ = None  # type: ignore[assignment]

    def exp(self) -> "Dual":
        """Return the exponential."""
        value = exp(self.value)
        return Dual(value, times(value, self.slope))

    def sqrt(self) -> "Dual":
        """Return the root of a number above zero."""
        root = sqrt(self.value)
        return Dual(root, times(0.5 / root, self.slope))


def plus(first: Any, second: Any) -> Any:
    """Return the sum of slopes, of which one may be a dual number where the other is a number of another arithmetic."""
    return second + first if isinstance(second, Dual) else first + second


def times(number: Any, slope: Any) -> Any:
    """Return the product of a number and a slope, which costs nothing for zero and for one."""
    if isinstance(slope, int) and slope in (0, 1):
        return number if slope else 0
    return slope * number if isinstance(slope, Dual) else number * slope


def differentiate_formula(
    formula: Callable[[Sequence[Any], Sequence[Any]], Any],
    x: Sequence[Any],
    z: Sequence[Any],
    left: Orders,
    right: Orders,
) -> Any:
    """Return the derivative of a formula of two points, of these orders in the columns of either, in any arithmetic.

    The formula is made of sums, products, quotients, whole powers and exponentials. An absolute value has no derivative
    where two points meet, and is refused by a TypeError; a kernel whose formula has a root says so itself.
    """
    points, after = [*x, *z], {len(x) + column: order for column, order in right.items()}
    places = [place for orders in (left, after) for place, order in orders.items() for _ in range(order)]
    for place in places:
        points = [Dual(value, int(number == place)) for number, value in enumerate(points)]
    value = formula(points[: len(x)], points[len(x) :])
    for _ in places:
        value = value.slope if isinstance(value, Dual) else 0
    return value
