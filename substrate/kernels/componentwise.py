r"""Componentwise kernels: one component per input, or per group of inputs.

.. math:: k(x, z) = \sum_{l} k^l(x^l, z^l), \qquad \Omega = \sum_l \Omega^l

[Pelckmans2005]_ eq. (6)-(8).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from substrate.arrays import Array
from substrate.errors import DataError, DeclarationError
from substrate.kernels.kernel import (
    Composite,
    Kernel,
    Restricted,
    column_tuple,
)

__all__ = ["Componentwise"]


@dataclass(frozen=True, repr=False)
class Componentwise(Composite):
    """A sum of kernels on columns.

    ``Componentwise(RBF(1.0))`` has one component per input; ``Componentwise([RBF(1.0), Linear()])`` names a kernel
    for each column in turn; ``Componentwise({0: RBF(1.0), (1, 2): RBF(2.0)})`` names columns and groups.
    """

    kernel: Any

    def __post_init__(self) -> None:
        kernels = self.kernel
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

    def components(self, n_features: int) -> tuple[Restricted, ...]:
        """Return the kernels k^l, each on its own columns."""
        if isinstance(self.kernel, Kernel):
            return tuple(Restricted(self.kernel, (column,)) for column in range(n_features))
        if all(len(component.columns) == 1 for component in self.kernel) and len(self.kernel) > n_features:
            raise DataError(f"{self!r} names {len(self.kernel)} columns, the points have {n_features}")
        kernels: tuple[Restricted, ...] = self.kernel
        return kernels

    parts = components

    def compared_columns(self, n_features: int) -> tuple[tuple[int, ...], ...]:
        """Return all columns where one number is the width for every column; else what each component compares."""
        if isinstance(self.kernel, Kernel) and "median" in self.kernel.get_params().values():
            return ()
        return super().compared_columns(n_features)

    def _resolve(self, X: Any) -> Self:
        kernels = self.components(X.shape[1])
        fixed = tuple(kernel.resolved(X) for kernel in kernels)
        return self if fixed == kernels else replace(self, kernel=fixed)

    def largest_order(self, columns: Collection[int]) -> float:
        """Return the order of the roughest component that depends on one of these inputs."""
        return self.kernel.largest_order([0]) if isinstance(self.kernel, Kernel) else super().largest_order(columns)

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return the derivatives of all kernels (of one for every column, their sum)."""
        gradients = super()._scale_gradient(X, Z, weights)
        return gradients.reshape(X.shape[1], -1).sum(axis=0) if isinstance(self.kernel, Kernel) else gradients

    def __repr__(self) -> str:
        inside = self.kernel if isinstance(self.kernel, Kernel) else list(self.kernel)
        return f"Componentwise({inside!r})"
