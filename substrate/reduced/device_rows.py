r"""The rows of :math:`\hat K = [k(x_i, z_j)]` on a device, as :mod:`~substrate.reduced.rows` has numpy's."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from substrate.kernels import Kernel
from substrate.namespaces import device_blocks, namespace_of, on_device_of, take_rows, to_numpy
from substrate.streaming.survey import TargetSummary, near_largest

__all__ = ["DeviceRows"]


@dataclass(frozen=True, slots=True)
class DeviceRows:
    """A kernel between rows X, with their targets Y (one column per output), and basis points, all on one device."""

    kernel: Kernel
    X: Any
    Y: Any
    points: Any

    @property
    def n_rows(self) -> int:
        """l."""
        return int(self.X.shape[0])

    @property
    def n_basis(self) -> int:
        """n."""
        return int(self.points.shape[0])

    @property
    def terms(self) -> int:
        """How many numbers a sum over all rows adds up one after the other, at most: a block, and the blocks."""
        blocks = list(device_blocks(self.n_rows, self.n_basis))
        return max((rows.stop - rows.start for rows in blocks), default=0) + len(blocks)

    def blocks(self) -> Iterator[tuple[slice, Any, Any]]:
        """Which rows, their kernel values and their targets, a block at a time; the values may be overwritten."""
        xp = namespace_of(self.X)
        for rows in device_blocks(self.n_rows, self.n_basis):
            yield rows, self.kernel.evaluate(self.X[rows, :], self.points, xp.float64), self.Y[rows, :]

    def taken(self, rows: Any) -> Any:
        """The kernel values of some rows, by their numbers on the host."""
        xp = namespace_of(self.X)
        return self.kernel.evaluate(take_rows(self.X, rows), self.points, xp.float64)

    def without(self, row: int) -> "DeviceRows":
        """All rows but one."""
        xp = namespace_of(self.X)
        X, Y = (xp.concat([part[:row, :], part[row + 1 :, :]], axis=0) for part in (self.X, self.Y))
        return DeviceRows(self.kernel, X, Y, self.points)

    def target_summary(self) -> TargetSummary:
        """Means and extremes of the targets, on the host."""
        xp = namespace_of(self.Y)
        low, high = to_numpy(xp.min(self.Y, axis=0)), to_numpy(xp.max(self.Y, axis=0))
        unit = near_largest(low, high)
        mean = to_numpy(xp.mean(self.Y / on_device_of(self.Y, unit), axis=0)) * unit
        return TargetSummary(self.n_rows, mean, low, high)
