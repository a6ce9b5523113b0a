r"""Sums over rows by the squares of their weights, for generalised cross-validation of weighted rows.

.. math:: \sum_i v_i^2, \qquad \sum_i v_i^2 \tilde z_i, \qquad \sum_i v_i^2 \tilde z_i \tilde z_i^T
"""

from dataclasses import dataclass

from substrate.arrays import Array
from substrate.namespaces import to_numpy
from substrate.reduced.features import LinearFeatures
from substrate.reduced.moments import Origin
from substrate.reduced.rows import RowValues
from substrate.streaming.passes import Tally
from substrate.streaming.rows import Block

__all__ = ["SquaredWeights", "SquaredWeightsOfBlock"]


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
class SquaredWeightsOfBlock:
    """The sums of a block; features are kernel values about the origin times ``directions``, less ``mean``."""

    values: RowValues
    origin: Origin
    directions: Array
    mean: Array

    def __call__(self, block: Block) -> SquaredWeights:
        """Add up tile by tile."""
        sums = SquaredWeights(0.0, 0.0 * self.mean, 0.0 * self.mean[:, None] * self.mean)
        features = LinearFeatures(self.values, self.origin.kernel_values, self.directions, self.mean)
        for rows, z in features.tiles(block.X):
            v = block.weights[rows]
            heavy = v[:, None] * z
            sums = sums + SquaredWeights(float(v @ v), v @ heavy, heavy.T @ heavy)
        return sums
