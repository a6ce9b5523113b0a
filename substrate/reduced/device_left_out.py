r"""Leave-one-out on a reduced basis on a device: row by row at one gamma, in sums over rows at many.

As :mod:`~substrate.reduced.left_out`, which explains the leverages, in functions of the array API.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.namespaces import namespace_of, on_device_of, to_numpy
from substrate.reduced.device_rows import DeviceRows
from substrate.reduced.left_out import LeftOutRows, LeverageFactor
from substrate.reduced.spectrum import ReducedSpectrum

__all__ = ["left_out_on_device", "left_out_sums_on_device"]


def left_out_on_device(rows: DeviceRows, coefficients: Any, bias: Any, factor: LeverageFactor) -> Iterator[LeftOutRows]:
    """Fitted values, leverages and leave-one-out residuals of all rows in order, in one pass."""
    xp = namespace_of(rows.X)
    for where, block, known in rows.blocks():
        product = block @ factor.matrix.T
        product -= factor.offset
        leverages = 1.0 / factor.n + xp.sum(product * product, axis=1)
        yield LeftOutRows(where.start, known, block @ coefficients + bias, leverages)


def left_out_sums_on_device(rows: DeviceRows, spectrum: ReducedSpectrum, g: Array) -> tuple[Array, Array, Array]:
    """On the host, a row a column of g = 1/(a + lambda): squared residuals, an output a column; 1/(1 - h_ii), summed;
    and the smallest 1 - h_ii."""
    xp, n, c = namespace_of(rows.X), spectrum.n, spectrum.cross
    g = on_device_of(rows.X, g)
    mean, directions = spectrum.mean @ spectrum.rotation, spectrum.directions
    centre = spectrum.origin.targets + spectrum.target_mean
    squares = xp.zeros((g.shape[1], c.shape[1]), dtype=xp.float64, device=rows.X.device)
    reciprocal, smallest = xp.zeros_like(g[0, :]), xp.ones_like(g[0, :])
    tiny = float(np.finfo(np.float64).tiny)
    for _, block, known in rows.blocks():
        block -= spectrum.origin.kernel_values
        features = block @ directions - mean
        spare = xp.clip((1.0 - 1.0 / n) - (features * features) @ g, min=tiny)
        reciprocal += xp.sum(1.0 / spare, axis=0)
        smallest = xp.minimum(smallest, xp.min(spare, axis=0))
        t = known / spectrum.origin.unit - centre
        for k in range(c.shape[1]):
            residuals = (t[:, k][:, None] - features @ (g * c[:, k][:, None])) / spare
            squares[:, k] += xp.sum(residuals * residuals, axis=0)
    return to_numpy(squares), to_numpy(reciprocal), to_numpy(smallest)
