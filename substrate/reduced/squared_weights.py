r"""Sums over rows by the squares of their weights, for generalised cross-validation of weighted rows.

.. math:: \sum_i v_i^2, \qquad \sum_i v_i^2 \tilde z_i, \qquad \sum_i v_i^2 \tilde z_i \tilde z_i^T
"""

from collections.abc import Iterable
from dataclasses import dataclass

from substrate.arrays import Array
from substrate.namespaces import to_numpy
from substrate.reduced.features import LinearFeatures
from substrate.reduced.moments import Origin
from substrate.reduced.rows import RowValues
from substrate.streaming.source import Block
from substrate.streaming.tally import Tally

__all__ = ["SquaredWeights", "SquaredWeightsOfLeaf"]


@dataclass(frozen=True, slots=True)
class SquaredWeights(Tally):
    """Sums by the squares of the weights: their own, of features about a mean, and of the products of these."""

    total: float
    first: Array
    second: Array

    def on_host(self) -> "SquaredWeights":
        """Return the same in numpy."""
        return SquaredWeights(self.total, to_numpy(self.first), to_numpy(self.second))


@dataclass(frozen=True, slots=True)
class SquaredWeightsOfLeaf:
    """The sums of a leaf; features are kernel values about the origin times ``directions``, less ``mean``."""

    values: RowValues
    origin: Origin
    directions: Array
    mean: Array

    def __call__(self, blocks: Iterable[Block]) -> SquaredWeights:
        """Accumulate over its micro-blocks."""
        sums = SquaredWeights(0.0, 0.0 * self.mean, 0.0 * self.mean[:, None] * self.mean)
        features = LinearFeatures(self.values, self.origin.kernel_values, self.directions, self.mean)
        for block, rows, z in features.walk(blocks):
            if block.weights is None:
                raise TypeError("internal error: squares of weights need weights")
            v = block.weights[rows]
            heavy = v[:, None] * z
            sums = sums + SquaredWeights(float(v @ v), v @ heavy, heavy.T @ heavy)
        return sums
