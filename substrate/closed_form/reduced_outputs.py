r"""The outputs :math:`f(x_i) = \sum_j \beta_j k(x_i, z_j) + b` of rows, a block at a time."""

from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.closed_form.kernel_rows import RowValues
from substrate.streaming.source import Block

__all__ = ["OutputsOfBlock"]


@dataclass(frozen=True, slots=True)
class OutputsOfBlock:
    """Outputs of a micro-block, one column per machine."""

    values: RowValues
    coefficients: Array
    bias: Array

    def __call__(self, block: Block) -> Array:
        """Tile by tile."""
        made = np.empty((block.X.shape[0], self.bias.size))
        for rows, tile in self.values.tiles(block, self.values.buffer()):
            made[rows] = tile @ self.coefficients + self.bias
        return made
