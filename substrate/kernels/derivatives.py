r"""Derivatives of kernels in their inputs, for machines that read derivatives of f.

With the features :math:`\varphi` of a kernel, the features of a derivative are :math:`D^a \varphi(x)`, :math:`a` the
order in each input, and

.. math::

    \langle D^a \varphi(x), D^b \varphi(z) \rangle = D_x^a D_z^b \, k(x, z)

([Solak2003]_ section 2, for first orders). They exist where k has the derivative with a = b, also at x = z. A kernel of
the scaled distance, :math:`k(x, z) = g(\|v\|^2)` with :math:`v_c = (x_c - z_c)/u_c`, has, with
:math:`n = a + b` and a sum over all :math:`0 \le 2 m \le n`,

.. math::

    D_x^a D_z^b \, k = (-1)^{|b|} \prod_c u_c^{-n_c} \sum_m \Big(\prod_c \frac{n_c!}{m_c!\,(n_c - 2 m_c)!}
    (2 v_c)^{n_c - 2 m_c}\Big)\, g^{(|n| - |m|)}(\|v\|^2) ,

since :math:`\frac{d^n}{dv^n} g(v^2) = \sum_m \frac{n!}{m!(n-2m)!} (2v)^{n-2m} g^{(n-m)}(v^2)`, one input after another.
One of the inner product, :math:`k = p(x^T z)`, has, with a sum over :math:`m \le \min(a, b)`,

.. math::

    D_x^a D_z^b \, k = \sum_m \Big(\prod_c \binom{a_c}{m_c} \binom{b_c}{m_c} m_c!\; z_c^{a_c - m_c} x_c^{b_c - m_c}\Big)
    \, p^{(|a| + |b| - |m|)}(x^T z) .
"""

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from substrate.errors import DeclarationError
from substrate.numbers import Array

__all__ = [
    "Dual",
    "Orders",
    "checked_column",
    "checked_orders",
    "differentiate_distance",
    "differentiate_formula",
    "differentiate_inner_product",
    "split_orders",
]

#: The order of a derivative in every input that has one.
Orders = Mapping[int, int]


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
        if isinstance(order, bool) or not hasattr(order, "__index__") or operator.index(order) < 0:
            raise DeclarationError(f"the order in column {column!r} must be an integer >= 0, received {order!r}")
        if operator.index(order):
            by_column[checked_column(column, n_features)] = operator.index(order)
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


def differentiate_distance(
    directions: Mapping[int, Array], orders: Orders, profile: Callable[[int, int], Array]
) -> Array:
    r"""Return the sum above without its units and its sign, for a kernel of the distance.

    Parameters
    ----------
    directions
        :math:`v_c / r` for every input with an order, r the distance; zero where r is.
    orders
        n, at least one.
    profile
        :math:`r^p g^{(j)}(r^2)` as a function of j and p: a derivative of g may be infinite at zero, where its
        product with the differences is not.
    """
    total: Any = 0.0
    for halves in product(*(range(order // 2 + 1) for order in orders.values())):
        factor, power, along = 1.0, 0, None
        for (column, order), m in zip(orders.items(), halves, strict=True):
            p = order - 2 * m
            factor *= math.factorial(order) / (math.factorial(m) * math.factorial(p)) * 2.0**p
            power += p
            if p:
                piece = directions[column] ** p
                along = piece if along is None else along * piece
        values = factor * profile(sum(orders.values()) - sum(halves), power)
        total = total + (values if along is None else along * values)
    return np.asarray(total)


def differentiate_inner_product(
    X: Array, Z: Array, left: Orders, right: Orders, profile: Callable[[int], Array | float]
) -> Array:
    """Return the sum above for a kernel of the inner product; ``profile`` is the j-th derivative of p, by j."""
    columns = sorted({*left, *right})
    total = np.zeros((X.shape[0], Z.shape[0]))
    for shared in product(*(range(min(left.get(c, 0), right.get(c, 0)) + 1) for c in columns)):
        factor, over_x, over_z = 1.0, np.ones(X.shape[0]), np.ones(Z.shape[0])
        for c, m in zip(columns, shared, strict=True):
            a, b = left.get(c, 0), right.get(c, 0)
            factor *= math.comb(a, m) * math.comb(b, m) * math.factorial(m)
            over_z, over_x = over_z * Z[:, c] ** (a - m), over_x * X[:, c] ** (b - m)
        order = sum(left.values()) + sum(right.values()) - sum(shared)
        total += factor * (over_x[:, None] * over_z[None, :]) * profile(order)
    return total


class Dual:
    """A number of any arithmetic with its derivative in one quantity; the value may be such a number itself."""

    __slots__ = ("slope", "value")

    def __init__(self, value: Any, slope: Any) -> None:
        self.value, self.slope = value, slope

    def __add__(self, other: Any) -> "Dual":
        if not isinstance(other, Dual):
            return Dual(self.value + other, self.slope)
        return Dual(self.value + other.value, self.slope + other.slope)

    __radd__ = __add__

    def __neg__(self) -> "Dual":
        return Dual(-self.value, -self.slope)

    def __sub__(self, other: Any) -> Any:
        return self + (-other)

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> "Dual":
        if not isinstance(other, Dual):
            return Dual(self.value * other, self.slope * other)
        return Dual(self.value * other.value, self.value * other.slope + self.slope * other.value)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self * (1 / other)

    def __rtruediv__(self, other: Any) -> Any:
        inverse = 1 / self.value
        return Dual(inverse, -(inverse * inverse * self.slope)) * other

    def __pow__(self, power: int) -> "Dual":
        if not isinstance(power, int) or power < 1:
            return NotImplemented
        lower = self.value ** (power - 1) * power if power > 1 else 1
        return Dual(self.value**power, lower * self.slope)

    def __ne__(self, other: Any) -> Any:
        return self.value != (other.value if isinstance(other, Dual) else other)

    __hash__ = None  # type: ignore[assignment]

    def exp(self) -> "Dual":
        """Return the exponential."""
        value = self.value.exp()
        return Dual(value, value * self.slope)


def differentiate_formula(
    formula: Callable[[Sequence[Any], Sequence[Any]], Any],
    x: Sequence[Any],
    z: Sequence[Any],
    left: Iterable[int],
    right: Iterable[int],
) -> Any:
    """Return the derivative of a formula of two points, once in each of these columns of either, in any arithmetic.

    The formula is made of sums, products, quotients, whole powers and exponentials; a root or an absolute value has no
    derivative where two points meet, and is refused by a TypeError or an AttributeError.
    """
    points = [*x, *z]
    places = [*left, *(len(x) + column for column in right)]
    for place in places:
        points = [Dual(value, value * 0 + int(number == place)) for number, value in enumerate(points)]
    value = formula(points[: len(x)], points[len(x) :])
    for _ in places:
        value = value.slope if isinstance(value, Dual) else 0
    return value
