r"""A function of a reproducing kernel Hilbert space as numbers: values, norms and their rounding.

.. math:: f = \sum_j c_j \, D_j k(z_j, \cdot) + b , \qquad \|w\|^2 = \sum_{jk} c_j c_k \, D_j D_k k(z_j, z_k) .

The inner products are formulas of the kernel, so that nothing is left out of the norm, as coordinates would; what
rounding changes is bounded by the sum of the sizes of the terms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import at_most, relative_rounding
from substrate.composition.linear_operators import (
    VALUE,
    Functional,
    add_lengths,
    evaluation_points,
    inner_product_matrix,
)
from substrate.kernels import Kernel

__all__ = [
    "ExpandedFunction",
    "ExpansionTerm",
    "bound_sizes",
    "inner_product_sum",
    "merge_terms",
    "square_rounding",
]

#: As in :mod:`substrate.composition.linear_operators`: what inner products of derivatives lose, twice for every order.
DERIVATIVES = 8.0


@dataclass(frozen=True, slots=True, eq=False)
class ExpansionTerm:
    """Points, the coefficients there, and what they belong to: f, its component ``part``, or an operator on it."""

    points: Array
    coefficients: Array
    part: int | None = None
    operator: Functional | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ExpandedFunction:
    """One substrate's function as numbers: its expansion and its bias."""

    substrate: Any
    terms: tuple[ExpansionTerm, ...]
    bias: float

    def mix(self, other: "ExpandedFunction", share: float) -> "ExpandedFunction":
        """Return (1 - share) times this function plus share times the other."""
        terms = [_scaled(term, 1.0 - share) for term in self.terms] + [_scaled(term, share) for term in other.terms]
        bias = (1.0 - share) * self.bias + share * other.bias
        return ExpandedFunction(self.substrate, tuple(terms), bias)


def _scaled(term: ExpansionTerm, factor: float) -> ExpansionTerm:
    return ExpansionTerm(term.points, factor * term.coefficients, term.part, term.operator)


def bound_sizes(kernel: Kernel, terms: Sequence[ExpansionTerm]) -> tuple[float, float, int]:
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


def square_rounding(kernel: Kernel, terms: Sequence[ExpansionTerm]) -> float:
    """What rounding may change in a'Ka of an expansion."""
    sizes, loss, count = bound_sizes(kernel, terms)
    return at_most((loss + relative_rounding(2.0 * count + 16.0)) * sizes) * sizes


def inner_product_sum(kernel: Kernel, terms: Sequence[ExpansionTerm]) -> float:
    """Return a'Ka of an expansion, as it is computed."""
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


def merge_terms(terms: list[ExpansionTerm]) -> list[ExpansionTerm]:
    """Return terms of one kind together, the coefficients of equal points added up."""
    kinds: dict[Any, list[ExpansionTerm]] = {}
    for term in terms:
        kinds.setdefault((term.part, term.operator), []).append(term)
    merged = []
    for (part, operator), members in kinds.items():
        points, inverse = np.unique(np.vstack([t.points for t in members]), axis=0, return_inverse=True)
        coefficients = np.zeros(points.shape[0])
        np.add.at(coefficients, np.ravel(inverse), np.concatenate([t.coefficients for t in members]))
        merged.append(ExpansionTerm(points, coefficients, part, operator))
    return merged
