r"""The search of width and gamma by evidence for thousands of rows: zones bounded from their ends, on few directions.

A zone of half-length h loses a multiple of :math:`h^2` of :math:`\log F` to its curvature
(:mod:`~substrate.search.compressed_zone`), so about as much may be lost to directions that are left out, and where the
criterion is far above its best value, more (:mod:`~substrate.search.zone_directions`). Where few directions are not
enough, for narrow kernels, and on a device, where a factor costs less than to choose directions, all are taken.

The value at the widest kernel of a zone is the upper one of its two bounds, so that the best value is one that is
reached. Zones in the middle of the range are first: the sooner a good value is known, the less others have to show.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.namespaces import is_device_array
from substrate.search.compressed_zone import compress_zone
from substrate.search.width_criteria import CellBounds
from substrate.search.width_search import WidthZones, ZoneCell
from substrate.search.zone_directions import AllDirections, Enough, centre_targets, leading_directions

__all__ = ["CompressedZones"]

#: The share of log F, over the square of the half-length of a zone, that may be lost to directions left out.
_LOSS = 0.5
#: The share of the gap that may be lost in any case.
_SHARE = 0.05
#: Values that are computed in the interval of lambda with the smallest bound.
_TRIED = 3


@dataclass(slots=True)
class CompressedZones(WidthZones):
    """Zones of evidence bounded from their ends; ``target_columns`` are the centred targets, made at first use."""

    first_length: ClassVar[float] = 2.0
    target_columns: Any = field(default=None)

    def cover(self) -> list[ZoneCell]:
        """Return the first zones, those near the width of the given kernel before others."""
        return sorted(self.start, key=lambda zone: abs(zone.t))

    def _decompose(self, t: float, half: float, cells: Array) -> Callable[[Array], CellBounds]:
        """Compress the kernel matrices of a zone; return the function that bounds some of its intervals."""
        root = None if self.weights is None else np.sqrt(self.weights)
        if self.target_columns is None:
            self.target_columns = centre_targets(self.Y, root)[0]
            spread = float(np.square(self.target_columns).sum()) / self.target_columns.shape[0]
            self.floor = relative_rounding(30.0 * self.target_columns.shape[0]) ** 2 * spread
        target, distances = self.target_columns, self.family.distances
        span: Any = None
        if not is_device_array(distances):
            enough = Enough(
                gammas=np.exp(-np.unique(cells)),
                loss=max(_LOSS * half**2, _SHARE * self.gap),
                wanted=self.target(),
                half=half,
            )
            span = leading_directions(self.family.derivatives(t - half)[0], root, target, enough)
        zone = compress_zone(
            self.family, t, half, target, AllDirections.of(root, distances.shape[0]) if span is None else span
        )

        def bound(now: Array) -> CellBounds:
            bounds = zone.bound_cells(now)
            start, stop = now[int(bounds.lower.argmin())]
            for lam in np.exp(np.linspace(start, stop, _TRIED + 2)[1:-1]):
                self._take(zone.t, float(lam), zone.bound_evidence(float(lam)))
            return bounds

        return bound
