r"""Componentwise kernels: one component per input, or per group of inputs.

.. math:: k(x, z) = \sum_{l} k^l(x^l, z^l), \qquad \Omega = \sum_l \Omega^l

[Pelckmans2005]_ eq. (6)-(8). With ``order=2`` every pair of components is a component too, the product of both, which
is the ANOVA kernel of main effects and interactions ([Stitson1999]_):

.. math:: k(x, z) = \sum_l k^l(x^l, z^l) + \sum_{l < m} k^l(x^l, z^l)\, k^m(x^m, z^m),

d + d(d-1)/2 components of d inputs, and so on for a larger order. Their sum needs d kernels only: with the elementary
symmetric sums :math:`e_1, e_2, \dots` it is :math:`e_m \leftarrow e_m + k^l e_{m-1}` for one input after another.
Each input has one kernel, and one width, in its main effect and in all its interactions.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations
from typing import Any, Self

import numpy as np

from substrate.arrays import Array, check_memory, namespace_of, whole_number
from substrate.errors import DataError, DeclarationError
from substrate.kernels.kernel import (
    Kernel,
    Polynomials,
    Product,
    Restricted,
    add_values,
    column_tuple,
    may_enlarge,
)
from substrate.numbers import add_roundings, relative_rounding

__all__ = ["Componentwise"]


@dataclass(frozen=True, repr=False)
class Componentwise(Polynomials):
    """A sum of kernels on columns.

    ``Componentwise(RBF(1.0))`` has one component per input; ``Componentwise([RBF(1.0), Linear()])`` names a kernel
    for each column in turn; ``Componentwise({0: RBF(1.0), (1, 2): RBF(2.0)})`` names columns and groups.
    ``Componentwise(RBF(1.0), order=2)`` has one component per input and one per pair of inputs, the product of both; of
    named kernels, which must not share a column, the pairs are products of those.
    """

    kernel: Any
    order: int = 1

    def __post_init__(self) -> None:
        kernels = self.kernel
        object.__setattr__(self, "order", whole_number(self.order, "order", 1))
        if isinstance(kernels, Kernel):
            if kernels.pairwise:
                raise DeclarationError("a precomputed matrix has no inputs to be taken one at a time")
            return
        if isinstance(kernels, Mapping):
            components = tuple(Restricted(kernel, column_tuple(columns)) for columns, kernel in kernels.items())
        elif isinstance(kernels, Sequence) and all(isinstance(component, Restricted) for component in kernels):
            components = tuple(kernels)
        elif isinstance(kernels, Sequence) and not isinstance(kernels, str):
            components = tuple(Restricted(kernel, (column,)) for column, kernel in enumerate(kernels))
        else:
            raise DeclarationError(
                f"Componentwise takes a kernel, a list of kernels or a mapping of columns to kernels, not {kernels!r}"
            )
        if not components:
            raise DeclarationError("Componentwise needs at least one component")
        object.__setattr__(self, "kernel", components)
        self._check_counts(len(components), "components", DeclarationError)
        columns = [column for component in components for column in component.columns]
        if self.order > 1 and len(set(columns)) < len(columns):
            raise DeclarationError(
                f"the products of order={self.order} are of components on different columns, and {kernels!r} has a "
                "column twice; name each column once, or name the products with order=1"
            )

    def _check_counts(self, count: int, of: str, error: type[DeclarationError | DataError]) -> None:
        if self.order > count:
            raise error(
                f"order={self.order} is the largest number of {of} in a product, and there are {count}; use "
                f"order={count} or less"
            )

    def parts(self, n_features: int) -> tuple[Restricted, ...]:
        """Return the kernels k^l, each on its own columns, without their products."""
        if isinstance(self.kernel, Kernel):
            self._check_counts(n_features, "columns", DataError)
            return tuple(Restricted(self.kernel, (column,)) for column in range(n_features))
        if all(len(component.columns) == 1 for component in self.kernel) and len(self.kernel) > n_features:
            raise DataError(f"{self!r} names {len(self.kernel)} columns, the points have {n_features}")
        kernels: tuple[Restricted, ...] = self.kernel
        return kernels

    def components(self, n_features: int) -> tuple[Restricted, ...]:
        """Return the kernels of the sum, each on its own columns: kernels of single inputs first, then their
        products.
        """
        kernels = self.parts(n_features)
        if self.order == 1:
            return kernels
        count = sum(math.comb(len(kernels), size) for size in range(1, self.order + 1))
        check_memory(1024.0 * count, f"a list of {count} components", "Use a smaller order or fewer columns.")
        return tuple(_multiply(group) for size in range(1, self.order + 1) for group in combinations(kernels, size))

    def combine(self, values: Iterator[Any]) -> Any:
        """Return the sum of all values, and of all products of up to ``order`` of them."""
        return add_values(values if self.order == 1 else iter(_symmetric_sums(values, self.order)))

    def terms(self, n_features: int) -> Sequence[Kernel]:
        """Return the components."""
        return self.components(n_features)

    def rounding(self, X: Any, by_differences: bool = False) -> float:
        """Return the largest rounding of a product of ``order`` kernels, plus the rounding of the operations.

        No bound is known where a value that underflows is enlarged by what it is multiplied with.
        """
        parts = self.parts(X.shape[1])
        with np.errstate(over="ignore"):
            diagonals = namespace_of(X).stack([part.diag(X) for part in parts])
            if may_enlarge(diagonals, diagonals ** (self.order - 1)):
                return math.inf
        shares = sorted(part.rounding(X, by_differences) for part in parts)
        return reduce(add_roundings, shares[-self.order :]) + relative_rounding(len(parts) + self.order)

    def compared_columns(self, n_features: int) -> tuple[tuple[int, ...], ...]:
        """Return all columns where one number is the width for every column; else what each component compares."""
        if isinstance(self.kernel, Kernel) and "median" in self.kernel.get_params().values():
            return ()
        return super().compared_columns(n_features)

    def _resolve(self, X: Any) -> Self:
        kernels = self.parts(X.shape[1])
        fixed = tuple(kernel.resolved(X) for kernel in kernels)
        return self if fixed == kernels else replace(self, kernel=fixed)

    def largest_order(self, columns: Collection[int]) -> float:
        """Return the order of the roughest component that depends on one of these inputs."""
        return self.kernel.largest_order([0]) if isinstance(self.kernel, Kernel) else super().largest_order(columns)

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return the derivatives of all kernels, each weighted by what it is multiplied with (of one for every
        column, their sum).
        """
        kernels = self.parts(X.shape[1])
        multipliers: Iterable[Any] = [1.0] * len(kernels)
        if self.order > 1:
            values = [component(X, Z) for component in kernels]
            sums = _symmetric_sums(iter(values), self.order - 1)
            multipliers = (_sums_without(value, sums) for value in values)
        gradients = [
            component._scale_gradient(X, Z, weights * by) for component, by in zip(kernels, multipliers, strict=True)
        ]
        return np.asarray(sum(gradients)) if isinstance(self.kernel, Kernel) else np.concatenate(gradients)

    def __repr__(self) -> str:
        order = f", order={self.order}" if self.order > 1 else ""
        return f"Componentwise({self._inside()}{order})"

    def _inside(self) -> str:
        if isinstance(self.kernel, Kernel):
            return repr(self.kernel)
        columns = [component.columns for component in self.kernel]
        if len(set(columns)) < len(columns) or any(
            isinstance(component.kernel, Restricted) for component in self.kernel
        ):
            return f"[{', '.join(map(repr, self.kernel))}]"
        if columns == [(column,) for column in range(len(columns))]:
            return f"[{', '.join(repr(component.kernel) for component in self.kernel)}]"
        keys = [str(own[0]) if len(own) == 1 else repr(own) for own in columns]
        named = (f"{key}: {component.kernel!r}" for key, component in zip(keys, self.kernel, strict=True))
        return f"{{{', '.join(named)}}}"


def _multiply(kernels: Sequence[Restricted]) -> Restricted:
    """Return the product of kernels on different columns, as one kernel on all of them."""
    if len(kernels) == 1:
        return kernels[0]
    columns = [column for component in kernels for column in component.columns]
    inside: list[Kernel] = [
        Restricted(component.kernel, tuple(map(columns.index, component.columns))) for component in kernels
    ]
    return Restricted(reduce(Product, inside), tuple(columns))


def _symmetric_sums(values: Iterator[Any], order: int) -> list[Any]:
    """Return e_1, e_2, ..., up to the order."""
    sums = [next(values)]
    for value in values:
        for size in range(min(len(sums), order - 1), 0, -1):
            product = sums[size - 1] * value
            if size < len(sums):
                sums[size] = sums[size] + product
            else:
                sums.append(product)
        sums[0] = sums[0] + value
    return sums


def _sums_without(value: Array, sums: Sequence[Array]) -> Array:
    """Return one, and the symmetric sums of the other values, e_m(others) = e_m - v e_{m-1}(others)."""
    sums_of_others = total = np.ones(value.shape)
    for products in sums:
        sums_of_others = products - value * sums_of_others
        total = total + sums_of_others
    return total
