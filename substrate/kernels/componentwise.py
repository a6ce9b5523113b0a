r"""Componentwise kernels: one component per input, or per group of inputs.

.. math:: k(x, z) = \sum_{l} k^l(x^l, z^l), \qquad \Omega = \sum_l \Omega^l

[Pelckmans2005]_ eq. (6)-(8). With ``order=2`` every pair of components is a component too, the product of both, which
is the ANOVA kernel of main effects and interactions ([Stitson1999]_):

.. math:: k(x, z) = \sum_l k^l(x^l, z^l) + \sum_{l < m} k^l(x^l, z^l)\, k^m(x^m, z^m),

d + d(d-1)/2 components of d inputs, and so on for a larger order. Their sum needs d kernels only: with the elementary
symmetric sums :math:`e_1, e_2, \dots` it is :math:`e_m \leftarrow e_m + k^l e_{m-1}` for one input after another.
Each input has one kernel, and one width, in its main effect and in all its interactions.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Self

import numpy as np

from substrate.arrays import Array, check_memory, whole_number
from substrate.certificates.rounding import add_roundings, relative_rounding
from substrate.errors import DataError, DeclarationError
from substrate.kernels.algebra import Kernel, Product
from substrate.kernels.base import Formula, Number
from substrate.kernels.derivatives import Orders
from substrate.kernels.interactions import count_of, groups_of, multipliers, sum_interactions
from substrate.kernels.nested import Restricted, column_tuple

__all__ = ["Componentwise"]


@dataclass(frozen=True, repr=False)
class Componentwise(Kernel):
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
        if self.order > 1:
            columns = [column for component in components for column in component.columns]
            if len(set(columns)) < len(columns):
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

    def _kernels(self, n_features: int) -> tuple[Restricted, ...]:
        """Return the kernels k^l, each on its own columns, without their products."""
        if isinstance(self.kernel, Kernel):
            self._check_counts(n_features, "columns", DataError)
            return tuple(Restricted(self.kernel, (column,)) for column in range(n_features))
        if all(len(component.columns) == 1 for component in self.kernel) and len(self.kernel) > n_features:
            raise DataError(f"{self!r} names {len(self.kernel)} columns, the points have {n_features}")
        kernels: tuple[Restricted, ...] = self.kernel
        return kernels

    def cost(self, n_features: int) -> int:
        """Return the sum of all kernels; a product of their values costs an eighth of one."""
        if isinstance(self.kernel, Kernel):
            count, single = n_features, n_features * self.kernel.cost(1)
        else:
            count, single = len(self.kernel), sum(component.cost(n_features) for component in self.kernel)
        return single + (self.order - 1) * count // 8

    def components(self, n_features: int) -> tuple[Kernel, ...]:
        """Return the kernels of the sum, each on its own columns: those of single inputs first, then their products."""
        kernels = self._kernels(n_features)
        if self.order == 1:
            return kernels
        count = count_of(len(kernels), self.order)
        check_memory(1024.0 * count, f"a list of {count} components", "Use a smaller order or fewer columns.")
        return tuple(_product([kernels[number] for number in group]) for group in groups_of(len(kernels), self.order))

    def terms(self, n_features: int) -> tuple[tuple[float, Any], ...]:
        """Return the terms of all components."""
        return tuple(term for component in self.components(n_features) for term in component.terms(n_features))

    def relevances(self, spreads: Array) -> Array:
        """Return the root mean square of all components, where the sum is a factor of a product."""
        squares = [np.square(component.relevances(spreads)) for component in self.components(spreads.size)]
        return np.asarray(np.sqrt(np.mean(squares, axis=0)))

    def compared_columns(self, n_features: int) -> tuple[tuple[int, ...], ...]:
        """Return all columns where one number is the width for every column; else what each component compares."""
        if isinstance(self.kernel, Kernel):
            own_width = "median" in self.kernel.get_params().values()
            return () if own_width else self.kernel.compared_columns(n_features)
        return tuple(group for component in self.kernel for group in component.compared_columns(n_features))

    @property
    def trusted(self) -> bool:
        """Whether every component is trusted."""
        return (
            self.kernel.trusted
            if isinstance(self.kernel, Kernel)
            else all(component.trusted for component in self.kernel)
        )

    @property
    def decays(self) -> bool:
        """Whether every component decays."""
        return (
            self.kernel.decays
            if isinstance(self.kernel, Kernel)
            else all(component.decays for component in self.kernel)
        )

    def _resolve(self, X: Any) -> Self:
        kernels = self._kernels(X.shape[1])
        fixed = tuple(kernel.resolved(X) for kernel in kernels)
        return self if fixed == kernels else replace(self, kernel=fixed)

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the sum over the components into ``out``."""
        self._fill(X, Z, out, careful=False)

    def _fill(self, X: Any, Z: Any, out: Array, careful: bool) -> None:
        kernels = self._kernels(X.shape[1])
        if self.order > 1:
            out[...] = sum_interactions((_values(component, X, Z, out, careful) for component in kernels), self.order)
            return
        term = np.empty_like(out)
        out[...] = 0.0
        for component in kernels:
            (component.fill_carefully if careful else component.fill)(X, Z, term)
            out += term

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return the sum over the components as a new array."""
        return sum_interactions(
            (component.evaluate(X, Z, dtype) for component in self._kernels(X.shape[1])), self.order
        )

    @property
    def not_smooth(self) -> str:
        """The reason of the first component that has no derivatives."""
        components = (self.kernel,) if isinstance(self.kernel, Kernel) else self.kernel
        return next((component.not_smooth for component in components if component.not_smooth), "")

    def largest_order(self, columns: Collection[int]) -> float:
        """Return that of the roughest component that depends on one of these inputs."""
        if isinstance(self.kernel, Kernel):
            return self.kernel.largest_order([0])
        return float(min(component.largest_order([column]) for component in self.kernel for column in columns))

    def _derivative(self, X: Array, Z: Array, left: Orders, right: Orders) -> Array:
        """Return the sum over the components."""
        return np.asarray(sum(component._derivative(X, Z, left, right) for component in self.components(X.shape[1])))

    @property
    def no_integral(self) -> str:
        """The reason of the first component that has no integrals."""
        components = (self.kernel,) if isinstance(self.kernel, Kernel) else self.kernel
        return next((component.no_integral for component in components if component.no_integral), "")

    @property
    def has_steady_decay(self) -> bool:
        """Whether all components have."""
        components = (self.kernel,) if isinstance(self.kernel, Kernel) else self.kernel
        return all(component.has_steady_decay for component in components)

    def _integral(self, X: Array, boxes: Array, orders: Orders) -> Array:
        """Return the sum over the components."""
        return np.asarray(sum(component._integral(X, boxes, orders) for component in self.components(X.shape[1])))

    def _double_integral(self, boxes: Array, others: Array) -> Array:
        """Return the sum over the components."""
        return np.asarray(
            sum(component._double_integral(boxes, others) for component in self.components(boxes.shape[1]))
        )

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return the derivatives of all kernels, each weighted by what it is multiplied with (of one for every
        column, their sum).
        """
        kernels = self._kernels(X.shape[1])
        if self.order == 1:
            gradients = [component._scale_gradient(X, Z, weights) for component in kernels]
            return np.asarray(sum(gradients)) if isinstance(self.kernel, Kernel) else np.concatenate(gradients)
        values = [component(X, Z) for component in kernels]
        beside = multipliers(values, self.order)
        gradients = [
            component._scale_gradient(X, Z, weights * by) for component, by in zip(kernels, beside, strict=True)
        ]
        return np.asarray(sum(gradients)) if isinstance(self.kernel, Kernel) else np.concatenate(gradients)

    def rank(self, n_features: int) -> int | None:
        """Count the features of all components."""
        ranks = [component.rank(n_features) for component in self.components(n_features)]
        return None if None in ranks else sum(rank for rank in ranks if rank is not None)

    def features(self, X: Any) -> Array:
        """Return the features of all components, side by side."""
        return np.concatenate([component.features(X) for component in self.components(X.shape[1])], axis=1)

    def feature_rounding(self) -> float:
        """Return the largest of the components'; relative errors of a product add up."""
        components = (self.kernel,) if isinstance(self.kernel, Kernel) else self.kernel
        largest = max(component.feature_rounding() for component in components)
        return reduce(lambda error, _: add_roundings(error, largest), range(1, self.order), largest)

    def rounding(self, X: Any) -> float:
        """Return the largest of the components', and the rounding of their sum."""
        components = self.components(X.shape[1])
        return max(component.rounding(X) for component in components) + relative_rounding(self._terms(len(components)))

    def _terms(self, count: int) -> int:
        """Count the roundings in the sum of so many components; those of products, in one input after another, are a
        few more.
        """
        return count if self.order == 1 else count + 2 * self.order + 1

    def fill_carefully(self, X: Any, Z: Any, out: Array) -> None:
        """Fill in the sum over the components, by the more accurate formulas."""
        self._fill(X, Z, out, careful=True)

    def careful_rounding(self, X: Any) -> float:
        """Return the same as :meth:`rounding`."""
        components = self.components(X.shape[1])
        return max(component.careful_rounding(X) for component in components) + relative_rounding(
            self._terms(len(components))
        )

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """Return the sum of the components' formulas."""
        formulas = [formula.exact_formula(number, n_features) for formula in self._kernels(n_features)]
        return lambda x, z: sum_interactions((formula(x, z) for formula in formulas), self.order)

    def exact_features(self, number: Number, x: Sequence[Any]) -> list[Any]:
        """Return the features of all components, side by side."""
        return [value for component in self.components(len(x)) for value in component.exact_features(number, x)]

    def diag(self, X: Any) -> Any:
        """Return the sum of the components' diagonals."""
        return sum_interactions((component.diag(X) for component in self._kernels(X.shape[1])), self.order)

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
        named = (f"{_key(component.columns)}: {component.kernel!r}" for component in self.kernel)
        return f"{{{', '.join(named)}}}"


def _key(columns: tuple[int, ...]) -> str:
    return str(columns[0]) if len(columns) == 1 else repr(columns)


def _values(component: Kernel, X: Any, Z: Any, like: Array, careful: bool) -> Array:
    term = np.empty_like(like)
    (component.fill_carefully if careful else component.fill)(X, Z, term)
    return term


def _product(kernels: Sequence[Restricted]) -> Restricted:
    """Return the product of kernels on different columns, as one kernel on all of them."""
    if len(kernels) == 1:
        return kernels[0]
    columns = [column for component in kernels for column in component.columns]
    inside: list[Kernel] = [
        Restricted(component.kernel, tuple(map(columns.index, component.columns))) for component in kernels
    ]
    return Restricted(reduce(Product, inside), tuple(columns))
