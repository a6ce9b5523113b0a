"""Component functions of machines on a reduced basis, and their maximal variation in a pass over rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from substrate.arrays import Array
from substrate.kernels import Kernel
from substrate.reduced.rows import KernelValues, RowValues
from substrate.streaming.passes import Tally
from substrate.streaming.rows import Block

__all__ = ["ComponentFeatures", "VariationOfBlock", "component_functions"]


@dataclass(frozen=True, slots=True)
class ComponentFeatures(RowValues):
    """Kernel values of every component, each times a matrix of its own (n x r_l), side by side."""

    components: tuple[KernelValues, ...]
    transforms: tuple[Array, ...]

    @property
    def n_basis(self) -> int:
        """The number of features of a row."""
        return sum(int(transform.shape[1]) for transform in self.transforms)

    def __call__(self, X: Any) -> Array:
        """Return the features of rows, component by component."""
        pairs = zip(self.components, self.transforms, strict=True)
        return np.concatenate([values.matrix(X) @ transform for values, transform in pairs], axis=1)


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
