r"""Components on a reduced basis: an expansion each in the basis vectors, and their features side by side.

.. math:: f^l(x) = \sum_{j \in S} \beta^l_j k^l(x, z_j) = u^{lT} z^l(x), \qquad
          K^l_{SS} = V^l \operatorname{diag}(s^l) V^{lT}, \quad z^l(x) = \operatorname{diag}(s^l)^{-1/2} V^{lT} k^l_S(x)

with :math:`\beta^l = V^l (s^l)^{-1/2} u^l` and :math:`w_l^T w_l = u^{lT} u^l`; directions below a share of the largest
are left out, as in :mod:`~substrate.closed_form.component_coordinates`. [Pelckmans2005]_ eq. (6)-(8) with the expansion
of [Cawley2004]_ eq. (2).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from substrate.arrays import Array
from substrate.closed_form.kernel_rows import KernelValues, RowValues
from substrate.kernels import Kernel
from substrate.streaming.source import Block
from substrate.threads import blas_threads

__all__ = ["ComponentFeatures", "VariationOfLeaf", "component_functions"]


@dataclass(frozen=True, slots=True)
class ComponentFeatures(RowValues):
    """Kernel values of every component, each times a matrix of its own (n x r_l), side by side."""

    components: tuple[KernelValues, ...]
    transforms: tuple[Array, ...]

    @classmethod
    def of(cls, components: Sequence[KernelValues], matrices: Sequence[Array], cutoff: float) -> Self:
        """Features of the components' kernel matrices at the basis."""
        transforms = []
        for matrix in matrices:
            with blas_threads(matrix.shape[0]):
                values, vectors = np.linalg.eigh(matrix)
            keep = values > cutoff * max(float(values[-1]), 0.0)
            transforms.append(np.ascontiguousarray(vectors[:, keep] / np.sqrt(values[keep])))
        if not any(transform.shape[1] for transform in transforms):  # kernels that see nothing: one feature, always 0
            transforms[0] = np.zeros((matrices[0].shape[0], 1))
        return cls(tuple(components), tuple(transforms))

    @property
    def ranks(self) -> tuple[int, ...]:
        """Directions kept, one number per component."""
        return tuple(int(transform.shape[1]) for transform in self.transforms)

    @property
    def n_basis(self) -> int:
        """How many features a row has."""
        return sum(self.ranks)

    @property
    def slices(self) -> tuple[slice, ...]:
        """Where the features of each component stand."""
        ends = np.cumsum(self.ranks)
        return tuple(slice(int(end) - rank, int(end)) for end, rank in zip(ends, self.ranks, strict=True))

    def fill(self, X: Any, out: Array) -> None:
        """Component by component."""
        for values, transform, place in zip(self.components, self.transforms, self.slices, strict=True):
            out[:, place] = values.matrix(X) @ transform

    def split(self, features: Array) -> Array:
        """Rows of features as matrices C^l, d x N x r, zero outside the component's own columns."""
        parts = np.zeros((len(self.ranks), *features.shape))
        for part, place in zip(parts, self.slices, strict=True):
            part[:, place] = features[:, place]
        return parts

    def coefficients(self, v: Array) -> Array:
        """beta^l of stacked u^l, one column per component."""
        expanded = [T @ v[place] for T, place in zip(self.transforms, self.slices, strict=True)]
        return np.ascontiguousarray(np.column_stack(expanded))


def component_functions(kernels: Sequence[Kernel], points: Any, coefficients: Array) -> ComponentFeatures:
    """f^l of rows as their only feature; ``coefficients`` has one column per component, or one entry a basis vector."""
    columns = coefficients.T if coefficients.ndim == 2 else [coefficients] * len(kernels)
    components = tuple(KernelValues(kernel, points) for kernel in kernels)
    return ComponentFeatures(components, tuple(np.ascontiguousarray(column)[:, None] for column in columns))


@dataclass(frozen=True, slots=True)
class Variation:
    """max |f^l| over rows."""

    largest: Array

    def __add__(self, other: "Variation") -> "Variation":
        return Variation(np.maximum(self.largest, other.largest))


@dataclass(frozen=True, slots=True)
class VariationOfLeaf:
    """The maximal variation of component functions over the rows of a leaf."""

    functions: ComponentFeatures

    def __call__(self, blocks: Iterable[Block]) -> Variation:
        """Over its micro-blocks."""
        largest, buffer = np.zeros(self.functions.n_basis), self.functions.buffer()
        for block in blocks:
            for _, tile in self.functions.tiles(block, buffer):
                np.maximum(largest, np.abs(tile).max(axis=0), out=largest)
        return Variation(largest)
