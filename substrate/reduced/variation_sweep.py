r"""One pass over all rows for a machine of components: sums of its errors, and the rows that exceed their bounds most.

Bounds :math:`|f^l(x_i)| \le t_l` hold at all rows when no row is found above them. For each component and each sign the
few rows furthest above are kept, with their features, so that they can be bounded next; among equal ones the first.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.reduced.features import ComponentFeatures
from substrate.streaming.source import Block

__all__ = ["Swept", "VariationSweep"]


@dataclass(frozen=True, slots=True)
class Swept:
    """Z'e, 1'e, e'e, t't and ``max |f^l|`` over rows; rows above their bounds: where, by how much, number, features.

    ``place`` is the component's number, plus the number of components where the value is negative; ``most`` rows per
    place.
    """

    count: int
    slope: Array
    total: float
    squares: float
    targets: float
    largest: Array
    place: NDArray[np.int64]
    excess: Array
    number: NDArray[np.int64]
    features: Array
    most: int

    def __add__(self, other: "Swept") -> "Swept":
        place, number = (np.concatenate([getattr(self, n), getattr(other, n)]) for n in ("place", "number"))
        excess, features = (np.concatenate([getattr(self, n), getattr(other, n)]) for n in ("excess", "features"))
        kept = _first_of_each(place, excess, number, self.most)
        return Swept(
            self.count + other.count,
            self.slope + other.slope,
            self.total + other.total,
            self.squares + other.squares,
            self.targets + other.targets,
            np.maximum(self.largest, other.largest),
            place[kept],
            excess[kept],
            number[kept],
            features[kept],
            self.most,
        )


def _first_of_each(place: NDArray[np.int64], excess: Array, number: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """The rows furthest above, at most ``most`` per place, in a fixed order."""
    order = np.lexsort((number, -excess, place))
    sorted_places = place[order]
    begins = np.searchsorted(sorted_places, sorted_places, side="left")
    return np.asarray(order[np.arange(order.size) - begins < most])


@dataclass(frozen=True, slots=True)
class VariationSweep:
    """The machine f = Z v + b and the bounds of the sweep, in units of the targets."""

    values: ComponentFeatures
    unit: float
    v: Array
    bias: float
    bounds: Array
    most: int

    def __call__(self, blocks: Iterable[Block]) -> Swept:
        """Over the micro-blocks of a leaf."""
        swept = self._nothing()
        buffer = self.values.buffer()
        for block in blocks:
            for rows, tile in self.values.tiles(block, buffer):
                swept = swept + self._of_tile(tile, block.Y[rows, 0] / self.unit, block.start + rows.start)
        return swept

    def _of_tile(self, tile: Array, known: Array, first: int) -> Swept:
        d = len(self.values.slices)
        values = np.column_stack([tile[:, place] @ self.v[place] for place in self.values.slices])
        errors = known - values.sum(axis=1) - self.bias
        above = np.concatenate([values - self.bounds, -values - self.bounds], axis=1)
        # only the rows furthest above per place: the others of this tile cannot be among the first
        step = max(above.shape[0] - self.most, 0)
        floor = np.partition(above, step, axis=0)[step] if step else np.full(2 * d, -np.inf)
        row, place = np.nonzero((above > 0.0) & (above >= floor))
        excess = above[row, place]
        kept = _first_of_each(place, excess, row, self.most)
        return Swept(
            known.size,
            tile.T @ errors,
            float(errors.sum()),
            float(errors @ errors),
            float(known @ known),
            np.abs(values).max(axis=0),
            place[kept].astype(np.int64),
            excess[kept],
            row[kept].astype(np.int64) + first,
            tile[row[kept]],
            self.most,
        )

    def _nothing(self) -> Swept:
        r, d = self.v.size, len(self.values.slices)
        none = np.zeros(0, dtype=np.int64)
        return Swept(
            0, np.zeros(r), 0.0, 0.0, 0.0, np.zeros(d), none, np.zeros(0), none, np.zeros((0, r)), self.most
        )  # fmt: skip
