r"""A function of a reproducing kernel Hilbert space as numbers: values, derivatives, norms and their rounding.

.. math:: f = \sum_j c_j \, D_j k(z_j, \cdot) + b , \qquad \|w\|^2 = \sum_{jk} c_j c_k \, D_j D_k k(z_j, z_k) .

The inner products are formulas of the kernel, so that nothing is left out of the norm, as coordinates would; what
rounding changes is bounded by the sum of the sizes of the terms. In ball arithmetic the same numbers come from the
formula of the kernel, whose derivatives are formed by the rules of differentiation.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from substrate.arrays import Array, strips
from substrate.balls import Balls, above
from substrate.composition.derivative_bounds import bound_derivative
from substrate.composition.linear_operators import (
    DERIVATIVES,
    VALUE,
    LinearOperator,
    add_lengths,
    bound_rounding,
    inner_product_matrix,
)
from substrate.composition.result import Further
from substrate.kernels import Kernel
from substrate.kernels.distances import to_dense
from substrate.numbers import Double, at_most, relative_rounding
from substrate.proof.least_squares import ball_derivatives

__all__ = ["BallTerms", "EvaluatedTerms", "ExpandedFunction"]

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

    def terms_in(self, part: int) -> list[Further]:
        """Return the terms that a component has a share of."""
        several = len(self.substrate.components) > 1
        return [term for term in self.terms if term.part is None or not several or term.part == part]

    def squared_norm(self) -> float:
        """Return w'w, rounded up; for functions with terms of components, the sum over the components."""
        s = self.substrate
        if all(term.part is None for term in self.terms):
            return EvaluatedTerms(s.kernel, self.terms).square
        return sum(EvaluatedTerms(kernel, self.terms_in(part)).square for part, kernel in enumerate(s.components))


class EvaluatedTerms:
    """An expansion in one kernel in double precision: its norm, rounded up, and derivatives with their rounding."""

    numbers: Any = Double

    def __init__(self, kernel: Kernel, terms: Sequence[Further]) -> None:
        self.kernel, self.terms = kernel, terms
        self.coefficients = self.numbers.exact(np.concatenate([term.coefficients for term in terms]))
        self._prepare([(term.operator or VALUE, term.points) for term in terms])
        total = (self.coefficients * self.multiply(self.coefficients)).total()
        #: w'w and its root, rounded up.
        self.square = max(float(total.upper_ends().midpoint), 0.0)
        self.norm = total.bound_root().upper()

    def _prepare(self, readings: Sequence[tuple[Any, Array]]) -> None:
        """Compute the inner products of all terms, and their rounding."""
        self._matrix: Any = np.block(
            [[inner_product_matrix(self.kernel, *left, *right) for right in readings] for left in readings]
        )
        self._lengths = np.concatenate([add_lengths(self.kernel, *reading) for reading in readings])
        self._rounding = bound_rounding(self.kernel, readings)

    def multiply(self, c: Any) -> Any:
        """Return the readings of the terms of the expansion with other coefficients."""
        relative = self._rounding + relative_rounding(self._lengths.size + 4.0)
        sizes = relative * float(self._lengths @ c.sizes)
        sizes += float(self._lengths @ np.broadcast_to(c.radius, self._lengths.shape))
        return Double(self._matrix @ c.middle, self._lengths * sizes)

    def evaluate(self, points: Array, every: Sequence[dict[int, int]]) -> list[tuple[Array, Array]]:
        """Return derivatives of these orders at points, and what rounding may change in them."""
        size, found = at_most(float(self._lengths @ self.coefficients.sizes)), []
        for orders in every:
            operator, total = LinearOperator.derivative(orders), np.zeros(points.shape[0])
            for rows in strips(points.shape[0], max(1, _BLOCK // max(self._lengths.size, 1))):
                for term in self.terms:
                    reading = (term.operator or VALUE, term.points)
                    total[rows] += (
                        inner_product_matrix(self.kernel, operator, points[rows], *reading) @ term.coefficients
                    )
            # what the readings of the terms lose is in the rounding of each value, too
            loss = self._rounding * (DERIVATIVES * 2.0 ** sum(orders.values()) if orders else 1.0)
            share = loss + relative_rounding(self._lengths.size + len(self.terms) + 4.0)
            found.append((total, at_most(share * size) * bound_derivative(self.kernel, orders, points, points)))
        return found


class BallTerms(EvaluatedTerms):
    """The same in ball arithmetic of the present precision."""

    numbers = Balls

    def _prepare(self, readings: Sequence[tuple[Any, Array]]) -> None:
        rows = [self._against(points, _orders_of(operator)).values for operator, points in readings]
        self._matrix = Balls(np.vstack(rows))

    def multiply(self, c: Any) -> Any:
        """Return the readings of the terms of the expansion with other coefficients."""
        return self._matrix @ c

    def _against(self, points: Array, orders: dict[int, int]) -> Balls:
        parts = [
            ball_derivatives(self.kernel, points, term.points, orders, _orders_of(term.operator)).values
            for term in self.terms
        ]
        return Balls(np.hstack(parts))

    def evaluate(self, points: Array, every: Sequence[dict[int, int]]) -> list[tuple[Array, Array]]:
        """Return derivatives of these orders at points, and how far the exact ones may be."""
        sums = [self._against(points, orders) @ self.coefficients for orders in every]
        away = [abs(total - total.midpoint) for total in sums]
        return [
            (total.midpoint, np.array(list(map(above, difference.values))))
            for total, difference in zip(sums, away, strict=True)
        ]


def _orders_of(operator: Any) -> dict[int, int]:
    """Return the orders of an operator that is one derivative at the point itself."""
    return dict(operator.terms[0].orders) if isinstance(operator, LinearOperator) else {}
