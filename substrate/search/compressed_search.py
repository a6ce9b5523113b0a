r"""The search of width and gamma by evidence for thousands of rows: zones on as few directions as their bounds need.

A zone of half-length h loses about :math:`h^2` of :math:`\log F` to its curvature, so as much may be lost to the
directions that are left out (:mod:`~substrate.search.compressed_zone`): the determinant loses at most
:math:`\operatorname{tr} \Delta / (m \lambda)`, :math:`\Delta` what K is beside them. With the smallest
:math:`\lambda` that is still open in a zone this says how many directions it takes: few, but for narrow kernels with
little regularisation. There a long zone is bounded by its widest kernel (:mod:`~substrate.search.monotone_zone`), and
a short one on all directions.

The value in the middle of a cell is the upper one of its two bounds, so that the best value is one that is reached.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.search.compressed_zone import centre_targets, compress_zone, leading_directions, narrowest
from substrate.search.monotone_zone import MonotoneZone
from substrate.search.width_criteria import CellBounds, bounded_cells
from substrate.search.width_search import WidthZones

__all__ = ["CompressedZones"]

#: The share of log F, over the square of the half-length of a zone, that may be lost to directions left out.
_LOSS = 0.5
#: The share of the gap that may be lost in any case.
_SHARE = 0.05
#: Half-length up to which a zone is short; the shares of all directions that are few for a long and a short one: a long
#: one on many of them is bounded by its widest kernel for less, a short one on all directions for more.
_SHORT, _FEW_OF_LONG, _FEW_OF_SHORT = 0.031, 0.25, 0.45


@dataclass(slots=True)
class CompressedZones(WidthZones):
    """Zones of evidence on few directions, and how many were taken in all of them."""

    target_columns: Any = field(default=None)

    def _decompose(self, t: float, half: float, cells: Array) -> Callable[[Array], CellBounds]:
        """Compress the kernel matrix of a zone; return the function that bounds some of its intervals."""
        if self.target_columns is None:
            self.target_columns = centre_targets(self.Y, None if self.weights is None else np.sqrt(self.weights))[0]
        target, root = self.target_columns, None if self.weights is None else np.sqrt(self.weights)
        free = self.family.distances.shape[0] - 1
        loss = max(_LOSS * half**2, _SHARE * self.gap) * free * float(np.exp(cells[:, 0].min()))
        end, is_long = narrowest(self.family, t, half), half > _SHORT
        directions = leading_directions(end[1], root, target, loss, _FEW_OF_LONG if is_long else _FEW_OF_SHORT)
        if directions is None and is_long:
            long = MonotoneZone(self.family, t, half, target, self.weights)
            return lambda now: _of_bounds(long.lower_bounds(now))
        zone = compress_zone(self.family, t, end, target, directions, self.weights)
        targets = zone.targets
        self._set_floor(zone, targets)

        def bound(now: Array) -> CellBounds:
            found = bounded_cells(zone, targets, now, self.criterion, self.target())
            values, best = np.full(found.values.size, np.inf), int(found.values.argmin())
            values[best] = zone.bound_evidence(float(np.exp(now[best]).mean()))
            return replace(found, values=values)

        return bound


def _of_bounds(lower: Array) -> CellBounds:
    """Return bounds of cells that only a shorter zone improves, and no values."""
    nothing = np.full(lower.size, np.inf)
    return CellBounds(lower=lower, values=nothing, by_width=np.ones(lower.size), by_lambda=np.zeros(lower.size))
