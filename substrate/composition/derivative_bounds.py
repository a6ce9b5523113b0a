r"""How large the derivatives of a function of given norm can be in a cell.

With the features :math:`\varphi` of a kernel, :math:`D^a f(x) = \langle w, D^a \varphi(x) \rangle`, so that

.. math:: |D^a f(x)| \le \|w\| \, \|D^a \varphi(x)\| , \qquad
          \|D^a \varphi(x)\|^2 = D_x^a D_z^a k(x, z) |_{z = x} ,

a constant for a kernel of the difference x - z. The features of linear and polynomial kernels are monomials with
factors >= 0, whose derivatives are largest where every :math:`|x_c|` is. A product of kernels has the products of
features, and by the rule of Leibniz

.. math:: \|D^a (\varphi \otimes \psi)\| \le \sum_{b \le a} \binom{a}{b} \|D^b \varphi\| \, \|D^{a-b} \psi\| .
"""

import math
from collections.abc import Iterator, Mapping
from functools import cache

import numpy as np

from substrate.arrays import Array
from substrate.errors import DeclarationError
from substrate.kernels import (
    Componentwise,
    Kernel,
    Linear,
    Polynomial,
    Product,
    Restricted,
    Scaled,
    Sum,
    Symmetric,
)
from substrate.kernels.derivatives import Orders, split_orders
from substrate.kernels.of_distance import KernelOfDistance
from substrate.numbers import at_most

__all__ = [
    "Summand",
    "add_orders",
    "bound_derivative",
    "list_summands",
    "multi_indices",
]


def multi_indices(columns: tuple[int, ...], order: int) -> Iterator[dict[int, int]]:
    """Yield all orders in these columns that add up to ``order``."""
    if not columns:
        if not order:
            yield {}
        return
    for first in range(order, -1, -1):
        for others in multi_indices(columns[1:], order - first):
            yield ({columns[0]: first} if first else {}) | others


class Summand:
    """A kernel of a sum, on the columns that it reads, and the component that it belongs to."""

    __slots__ = ("columns", "kernel", "part")

    def __init__(self, kernel: Kernel, columns: tuple[int, ...], part: int) -> None:
        self.kernel, self.columns, self.part = kernel, columns, part


def list_summands(components: tuple[Kernel, ...], n_features: int) -> list[Summand]:
    """Return the kernels whose sum the components are, each with the columns that it reads."""
    return [
        Summand(kernel, _columns(kernel, n_features), part)
        for part, component in enumerate(components)
        for kernel in _summands(component, n_features)
    ]


def _summands(kernel: Kernel, n_features: int) -> list[Kernel]:
    if isinstance(kernel, Sum):
        return [*_summands(kernel.left, n_features), *_summands(kernel.right, n_features)]
    if isinstance(kernel, Componentwise):
        return [inner for component in kernel.components(n_features) for inner in _summands(component, n_features)]
    if isinstance(kernel, Scaled):
        return [Scaled(kernel.factor, inner) for inner in _summands(kernel.kernel, n_features)]
    if isinstance(kernel, Restricted):
        inside = _summands(kernel.kernel, len(kernel.columns))
        # a column of a column is one of the whole input
        return [
            Restricted(inner.kernel, tuple(kernel.columns[c] for c in inner.columns))
            if isinstance(inner, Restricted)
            else Restricted(inner, kernel.columns)
            for inner in inside
        ]
    return [kernel]


def _columns(kernel: Kernel, n_features: int) -> tuple[int, ...]:
    """Return the columns that a kernel reads."""
    if isinstance(kernel, Restricted):
        return tuple(sorted(kernel.columns[c] for c in _columns(kernel.kernel, len(kernel.columns))))
    if isinstance(kernel, Scaled):
        return _columns(kernel.kernel, n_features)
    if isinstance(kernel, Product):
        return tuple(sorted({*_columns(kernel.left, n_features), *_columns(kernel.right, n_features)}))
    return tuple(range(n_features))


def bound_derivative(kernel: Kernel, orders: Orders, lower: Array, upper: Array) -> Array:
    """Return bounds on the norm of the feature's derivative of these orders, one for each cell [lower, upper]."""
    if isinstance(kernel, Sum):
        sides = [bound_derivative(side, orders, lower, upper) for side in (kernel.left, kernel.right)]
        return np.asarray(at_most(1.0) * np.hypot(*sides))
    if isinstance(kernel, Scaled):
        return np.asarray(at_most(math.sqrt(kernel.factor)) * bound_derivative(kernel.kernel, orders, lower, upper))
    if isinstance(kernel, Restricted):
        if not set(orders) <= set(kernel.columns):
            return np.zeros(lower.shape[0])
        columns = list(kernel.columns)
        inside = {columns.index(c): order for c, order in orders.items()}
        return bound_derivative(kernel.kernel, inside, lower[:, columns], upper[:, columns])
    if isinstance(kernel, Product):
        total = np.zeros(lower.shape[0])
        for times, first, second in split_orders(orders):
            left = bound_derivative(kernel.left, first, lower, upper)
            total += times * left * bound_derivative(kernel.right, second, lower, upper)
        return np.asarray(at_most(1.0) * total)
    if isinstance(kernel, KernelOfDistance):
        return np.full(lower.shape[0], _constant(kernel, tuple(sorted(orders.items())), lower.shape[1]))
    if isinstance(kernel, Symmetric):
        # its features are half the sum or the difference of those at x and at -x
        both = [(lower, upper), (-upper, -lower)]
        return np.asarray(at_most(0.5) * sum(bound_derivative(kernel.kernel, orders, *cell) for cell in both))
    if isinstance(kernel, (Linear, Polynomial)):
        return _at_corners(kernel, orders, np.maximum(np.abs(lower), np.abs(upper)))
    raise DeclarationError(
        f"how far functions of {kernel!r} can change in a cell is not known, so that nothing can be proved everywhere; "
        "take RBF, Matern, Laplacian, Linear, Polynomial, and sums, products, multiples and Componentwise of these"
    )


@cache
def _constant(kernel: KernelOfDistance, orders: tuple[tuple[int, int], ...], n_features: int) -> float:
    """Return the norm for a kernel of the difference, which is the same at every point."""
    origin = np.zeros((1, n_features))
    square = kernel.derivative(origin, origin, dict(orders), dict(orders)) if orders else kernel(origin, origin)
    return at_most(math.sqrt(max(float(square[0, 0]), 0.0)))


def _at_corners(kernel: Kernel, orders: Orders, corners: Array) -> Array:
    """Return the norms at the corners that are farthest from zero, where derivatives of monomials are largest."""
    values = np.empty(corners.shape[0])
    distinct, which = np.unique(corners, axis=0, return_inverse=True)
    squares = np.empty(distinct.shape[0])
    for start in range(0, distinct.shape[0], 64):
        block = distinct[start : start + 64]
        matrix = kernel.derivative(block, block, orders, orders) if orders else kernel(block, block)
        squares[start : start + 64] = np.diagonal(matrix)
    values[:] = np.sqrt(np.maximum(squares, 0.0))[np.ravel(which)]
    return np.asarray(at_most(1.0) * values)


def add_orders(orders: Orders, more: Mapping[int, int]) -> dict[int, int]:
    """Add orders column by column."""
    return {c: orders.get(c, 0) + more.get(c, 0) for c in sorted({*orders, *more})}
