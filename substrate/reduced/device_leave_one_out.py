r"""Leave-one-out on a reduced basis as a function of gamma, the rows on a device and the search on the host.

The criterion of :mod:`~substrate.reduced.left_out`; a call sends :math:`1/(a_k + \lambda)` to the device,
which goes over its rows once for all points of the call and hands back sums.
"""

from dataclasses import dataclass
from typing import Self

from substrate.arrays import Array
from substrate.reduced.device_left_out import left_out_sums_on_device
from substrate.reduced.device_rows import DeviceRows
from substrate.reduced.left_out import LeftOutSums, RowsLeftOut
from substrate.reduced.spectrum import ReducedSpectrum

__all__ = ["DeviceLeaveOneOut"]


@dataclass(frozen=True, slots=True)
class DeviceLeaveOneOut(RowsLeftOut):
    """The mean square of e_i/(1 - h_ii); ``there`` is the spectrum where the rows are."""

    there: ReducedSpectrum
    rows: DeviceRows

    @classmethod
    def of(cls, spectrum: ReducedSpectrum, rows: DeviceRows, *, pooled: bool = False) -> Self:
        """On the rows of the statistic and their targets."""
        known = spectrum.on_host()
        return cls(known, known.targets, 0.0, pooled, spectrum, rows)

    def sums(self, g: Array) -> LeftOutSums:
        """A pass over the rows."""
        return LeftOutSums(*left_out_sums_on_device(self.rows, self.there, g))
