r"""Features of components on a reduced basis: one expansion each in the basis vectors, their features side by side.

.. math:: f^l(x) = \sum_{j \in S} \beta^l_j k^l(x, z_j) = u^{lT} z^l(x), \qquad
          K^l_{SS} = V^l \operatorname{diag}(s^l) V^{lT}, \quad z^l(x) = \operatorname{diag}(s^l)^{-1/2} V^{lT} k^l_S(x)

with :math:`\beta^l = V^l (s^l)^{-1/2} u^l` and :math:`w_l^T w_l = u^{lT} u^l`; directions below a share of the largest
are left out, as in :mod:`~substrate.fits.coordinates`. [Pelckmans2005]_ eq. (6)-(8) with the
expansion of [Cawley2004]_ eq. (2).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from substrate.arrays import Array
from substrate.certificates.enclosed import Double
from substrate.kernels import Kernel
from substrate.reduced.rows import KernelValues, RowValues
from substrate.streaming.passes import Tally
from substrate.streaming.rows import Block
from substrate.threads import blas_threads

__all__ = ["ComponentFeatures", "VariationOfBlock", "component_functions"]


@dataclass(frozen=True, slots=True)
class ComponentFeatures(RowValues):
    """Kernel values of every component, each times a matrix of its own (n x r_l), side by side."""

    components: tuple[KernelValues, ...]
    transforms: tuple[Array, ...]

    @classmethod
    def of(cls, components: Sequence[KernelValues], matrices: Sequence[Array], cutoff: float) -> Self:
        """Return features of the components' kernel matrices at the basis."""
        transforms = []
        for matrix in matrices:
            with blas_threads(matrix.shape[0]):
                values, vectors = np.linalg.eigh(matrix)
            keep = values > cutoff * max(float(values[-1]), 0.0)
            transforms.append(np.ascontiguousarray(vectors[:, keep] / np.sqrt(values[keep])))
        if not any(transform.shape[1] for transform in transforms):  # zero kernels: one feature, always 0
            transforms[0] = np.zeros((matrices[0].shape[0], 1))
        return cls(tuple(components), tuple(transforms))

    @property
    def ranks(self) -> tuple[int, ...]:
        """Directions kept, one number per component."""
        return tuple(int(transform.shape[1]) for transform in self.transforms)

    @property
    def n_basis(self) -> int:
        """The number of features of a row."""
        return sum(self.ranks)

    @property
    def complete(self) -> bool:
        """Whether every component keeps all directions of the basis that its kernel has."""
        return all(kept >= values.most_directions for kept, values in zip(self.ranks, self.components, strict=True))

    @property
    def slices(self) -> tuple[slice, ...]:
        """The columns of each component's features."""
        ends = np.cumsum(self.ranks)
        return tuple(slice(int(end) - rank, int(end)) for end, rank in zip(ends, self.ranks, strict=True))

    def __call__(self, X: Any) -> Array:
        """Return the features of rows, component by component."""
        pairs = zip(self.components, self.transforms, strict=True)
        return np.concatenate([values.matrix(X) @ transform for values, transform in pairs], axis=1)

    def split(self, features: Array) -> Array:
        """Return rows of features as matrices C^l, d x N x r, zero outside the component's own columns."""
        components = np.zeros((len(self.ranks), *features.shape))
        for component, place in zip(components, self.slices, strict=True):
            component[:, place] = features[:, place]
        return components

    def weights(self, beta: Array) -> tuple[Array, list[Array]]:
        """Return stacked u^l near stored expansions, one column each, and the sizes of beta^l - T^l u^l, rounded up."""
        stacked, remainders = [], []
        for T, a in zip(self.transforms, beta.T, strict=True):
            squares = np.square(T).sum(axis=0)
            u = np.where(squares > 0.0, (T.T @ a) / np.where(squares > 0.0, squares, 1.0), 0.0)
            stacked.append(u)
            remainders.append((Double(T) @ u - a).sizes)
        return np.concatenate(stacked), remainders

    def coefficients(self, v: Array) -> Array:
        """Return beta^l of stacked u^l, one column per component."""
        expanded = [T @ v[place] for T, place in zip(self.transforms, self.slices, strict=True)]
        return np.ascontiguousarray(np.column_stack(expanded))


def component_functions(kernels: Sequence[Kernel], points: Any, coefficients: Array) -> ComponentFeatures:
    """Return f^l as the only feature of rows; ``coefficients`` has one column per component, or one entry per basis
    vector.
    """
    columns = coefficients.T if coefficients.ndim == 2 else [coefficients] * len(kernels)
    components = tuple(KernelValues(kernel, points) for kernel in kernels)
    return ComponentFeatures(components, tuple(np.ascontiguousarray(column)[:, None] for column in columns))


@dataclass(frozen=True, slots=True)
class LargestValues(Tally):
    """max |f^l| over rows."""

    combine: ClassVar[Mapping[str, Callable[[Any, Any], Any]]] = {"largest": np.maximum}

    largest: Array


@dataclass(frozen=True, slots=True)
class VariationOfBlock:
    """The maximal variation of component functions over the rows of a block."""

    functions: ComponentFeatures

    def __call__(self, block: Block) -> LargestValues:
        """Take the largest tile by tile."""
        largest = np.zeros(self.functions.n_basis)
        for _, tile in self.functions.tiles(block.X):
            np.maximum(largest, np.abs(tile).max(axis=0), out=largest)
        return LargestValues(largest)
