r"""A function of a reproducing kernel Hilbert space as numbers: values, derivatives, norms and their rounding.

.. math:: f = \sum_j c_j \, D_j k(z_j, \cdot) + b , \qquad \|w\|^2 = \sum_{jk} c_j c_k \, D_j D_k k(z_j, z_k) .

The inner products are formulas of the kernel, so that nothing is left out of the norm, as coordinates would; what
rounding changes is bounded by the sum of the sizes of the terms. In ball arithmetic the same numbers come from the
formula of the kernel, whose derivatives are formed by the rules of differentiation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from substrate.arrays import Array, strips
from substrate.balls import Balls, above
from substrate.composition.derivative_bounds import bound_derivative
from substrate.composition.linear_operators import (
    VALUE,
    Functional,
    LinearOperator,
    add_lengths,
    evaluation_points,
    inner_product_matrix,
)
from substrate.composition.result import Further
from substrate.kernels import Kernel, Restricted, Scaled
from substrate.kernels.distances import to_dense
from substrate.numbers import at_most, relative_rounding
from substrate.proof.least_squares import ball_derivatives

__all__ = [
    "BallTerms",
    "EvaluatedTerms",
    "ExpandedFunction",
    "bound_sizes",
    "inner_product_sum",
    "plain_orders",
    "square_rounding",
]

#: As in :mod:`substrate.composition.linear_operators`: what inner products of derivatives lose, twice for every order.
DERIVATIVES = 8.0
#: Entries of a matrix of kernel values that is made at once.
_BLOCK = 200_000


@dataclass(frozen=True, slots=True, eq=False)
class ExpandedFunction:
    """One substrate's function as numbers: its expansion and its bias."""

    substrate: Any
    terms: tuple[Further, ...]
    bias: float

    @classmethod
    def of(cls, expansion: Any) -> "ExpandedFunction":
        """Return one substrate's part of a solution as numbers."""
        s = expansion.substrate
        first = Further(to_dense(s.X if s.basis is None else s.basis), np.asarray(expansion.coefficients))
        further = [replace(term, points=to_dense(term.points)) for term in expansion.further]
        return cls(s, (first, *further), float(np.asarray(expansion.b)))

    def squared_norm(self) -> float:
        """Return w'w, rounded up; for functions with terms of components, the sum over the components."""
        s, total = self.substrate, 0.0
        whole = all(term.part is None for term in self.terms)
        for part, kernel in [(None, s.kernel)] if whole else enumerate(s.components):
            terms = [term for term in self.terms if term.part in (None, part)]
            total += max(inner_product_sum(kernel, terms), 0.0) + square_rounding(kernel, terms)
        return total


def bound_sizes(kernel: Kernel, terms: Sequence[Further]) -> tuple[float, float, int]:
    """Return the sum of the sizes of an expansion, the rounding of its inner products, and how many coefficients."""
    sizes, rounding, order = 0.0, 0.0, 0
    for term in terms:
        at = term.points if term.operator is None else evaluation_points(term.operator, term.points)
        rounding = max(rounding, float(kernel.rounding(at)))
        if term.operator is None:
            lengths = np.sqrt(np.maximum(np.asarray(kernel.diag(term.points)), 0.0))
        else:
            lengths = add_lengths(kernel, term.operator, term.points)
            order = max(order, term.operator.largest_order)
        sizes += float(np.abs(term.coefficients) @ lengths)
    derivatives = any(term.operator is not None for term in terms)
    loss = rounding * (DERIVATIVES * 2.0 ** max(order, 1) if derivatives else 1.0)
    return at_most(sizes), loss, sum(term.coefficients.size for term in terms)


def square_rounding(kernel: Kernel, terms: Sequence[Further]) -> float:
    """Bound what rounding may change in a'Ka of an expansion."""
    sizes, loss, count = bound_sizes(kernel, terms)
    return at_most((loss + relative_rounding(2.0 * count + 16.0)) * sizes) * sizes


def inner_product_sum(kernel: Kernel, terms: Sequence[Further]) -> float:
    """Return the computed a'Ka of an expansion."""
    square = 0.0
    for i, left in enumerate(terms):
        for j, right in enumerate(terms[: i + 1]):
            if left.operator is None and right.operator is None:
                G = np.asarray(kernel(left.points, right.points))
            else:
                G = inner_product_matrix(
                    kernel, left.operator or VALUE, left.points, right.operator or VALUE, right.points
                )
            square += (1.0 if i == j else 2.0) * float(left.coefficients @ (G @ right.coefficients))
    return square


class EvaluatedTerms:
    """An expansion in one kernel in double precision: its norm, rounded up, and derivatives with their rounding."""

    def __init__(self, kernel: Kernel, terms: Sequence[Further]) -> None:
        self.kernel, self.terms = kernel, terms
        # what the readings of the terms lose is in the rounding of each later value, too
        self.sizes, self.rounding, self.count = bound_sizes(kernel, terms)
        square = max(inner_product_sum(kernel, terms), 0.0) + square_rounding(kernel, terms)
        self.norm = at_most(math.sqrt(square))

    def evaluate(self, points: Array, every: Sequence[dict[int, int]]) -> list[tuple[Array, Array]]:
        """Return derivatives of these orders at points, and what rounding may change in them."""
        totals = [np.zeros(points.shape[0]) for _ in every]
        for rows in strips(points.shape[0], max(1, _BLOCK // max(self.count, 1))):
            for term in self.terms:
                sums = _sum_derivatives(self.kernel, points[rows], every, term)
                for total, values in zip(totals, sums, strict=True):
                    total[rows] += values
        return [(total, self._radius(points, orders)) for total, orders in zip(totals, every, strict=True)]

    def _radius(self, points: Array, orders: dict[int, int]) -> Array:
        length = bound_derivative(self.kernel, orders, points, points)
        loss = self.rounding * (1.0 if not orders else DERIVATIVES * 2.0 ** sum(orders.values()))
        share = loss + relative_rounding(self.count + len(self.terms) + 4.0)
        return np.asarray(at_most(share * self.sizes) * length)


class BallTerms:
    """The same in ball arithmetic of the present precision."""

    def __init__(self, kernel: Kernel, terms: Sequence[Further]) -> None:
        self.kernel, self.terms = kernel, terms
        self.coefficients = Balls.exact(np.concatenate([term.coefficients for term in terms]))
        self.norm = (self.coefficients * (self.matrix() @ self.coefficients)).total().bound_root().upper()

    def matrix(self) -> Balls:
        """Return the inner products of all terms."""
        return Balls(np.vstack([self._against(term.points, plain_orders(term.operator)).values for term in self.terms]))

    def _against(self, points: Array, orders: dict[int, int]) -> Balls:
        parts = [
            ball_derivatives(self.kernel, points, term.points, orders, plain_orders(term.operator)).values
            for term in self.terms
        ]
        return Balls(np.hstack(parts))

    def evaluate(self, points: Array, every: Sequence[dict[int, int]]) -> list[tuple[Array, Array]]:
        """Return derivatives of these orders at points, and how far the exact ones may be."""
        sums = [self._against(points, orders) @ self.coefficients for orders in every]
        away = (Balls(total.values - Balls.exact(total.midpoint).values) for total in sums)
        return [
            (total.midpoint, np.array([above(abs(value)) for value in difference.values]))
            for total, difference in zip(sums, away, strict=True)
        ]


def plain_orders(operator: Functional | None) -> dict[int, int]:
    """Return the orders of an operator that is one derivative at the point itself."""
    return dict(operator.terms[0].orders) if isinstance(operator, LinearOperator) else {}


def _is_plain(operator: Functional | None) -> bool:
    if operator is None:
        return True
    if not isinstance(operator, LinearOperator) or len(operator.terms) != 1:
        return False
    only = operator.terms[0]
    return only.at is None and not any(callable(c) or c != 1.0 for c in only.coefficients)


def _sum_derivatives(kernel: Kernel, points: Array, every: Sequence[dict[int, int]], term: Further) -> list[Array]:
    """Return derivatives of a term at points."""
    if _is_plain(term.operator):
        return _sum_by_columns(kernel, points, every, term, plain_orders(term.operator))
    return [
        inner_product_matrix(kernel, LinearOperator.derivative(orders), points, term.operator or VALUE, term.points)
        @ term.coefficients
        for orders in every
    ]


def _sum_by_columns(
    kernel: Kernel, points: Array, every: Sequence[dict[int, int]], term: Further, right: dict[int, int]
) -> list[Array]:
    """Return derivatives of a term; a kernel on some columns is evaluated on these columns."""
    factor = 1.0
    columns = tuple(range(points.shape[1]))
    while isinstance(kernel, (Scaled, Restricted)):
        if isinstance(kernel, Scaled):
            factor, kernel = factor * kernel.factor, kernel.kernel
        else:
            columns, kernel = tuple(columns[c] for c in kernel.columns), kernel.kernel
    zero = np.zeros(points.shape[0])
    if not set(right) <= set(columns):
        return [zero for _ in every]
    place = {c: k for k, c in enumerate(columns)}
    inside = [{place[c]: n for c, n in left.items() if n} for left in every if set(left) <= set(columns)]
    X, Z = (np.ascontiguousarray(at[:, list(columns)]) for at in (points, term.points))
    own = {place[c]: n for c, n in right.items() if n}
    values = (kernel.derivative(X, Z, left, own) if left or own else kernel(X, Z) for left in inside)
    sums = iter([matrix @ (factor * term.coefficients) for matrix in values])
    return [next(sums) if set(left) <= set(columns) else zero for left in every]
