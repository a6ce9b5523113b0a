r"""The rows of a machine on a reduced basis in the coordinates of its leverages: all that leaving them out needs.

With the factor of :mod:`substrate.reduced.left_out`, :math:`h(x, z) = v (1/m + (R k_S(x) - r)^T (R k_S(z) - r))`, so

.. math:: \psi(x) = \sqrt{1/\gamma}\, (R\, k_S(x) - r)

are the features of :class:`~substrate.uncertainty.influence.FeatureInfluence`. They are computed in one pass over the
rows, wherever these are, and kept: as many numbers per row as the basis has directions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from substrate.arrays import Array
from substrate.errors import DataError
from substrate.namespaces import namespace_of, on_device_of, room_on_device, to_numpy, zeros_beside
from substrate.reduced.features import Features
from substrate.reduced.left_out import LeftOutRows, LeverageFactor
from substrate.reduced.rows import KernelRows, KernelValues
from substrate.streaming.rows import Block
from substrate.uncertainty.influence import FeatureInfluence, LeftOutMachines

__all__ = ["LeverageCoordinates", "ProjectedSpread", "machines_without_rows"]

#: Relative difference of the trace of the hat matrix up to which rows are those of the fit.
_SAME = 1e-6


@dataclass(frozen=True, slots=True)
class LeverageCoordinates:
    """psi of points, at one gamma."""

    values: KernelValues
    factor: LeverageFactor
    gamma: float

    def __call__(self, X: Any) -> Array:
        """Return one line per point."""
        return self.of_values(self.values.matrix(X))

    def of_values(self, tile: Array) -> Array:
        """Compute them from kernel values with the basis."""
        product: Array = tile @ self.factor.matrix.T
        product -= self.factor.offset
        product /= self.gamma**0.5
        return product


def _coordinates_of_block(
    values: KernelValues, coordinates: LeverageCoordinates, coefficients: Array, bias: Array, block: Block
) -> tuple[Array, Array]:
    """Return psi and the errors of the rows of a block."""
    psi = zeros_beside(bias, (block.Y.shape[0], coordinates.factor.matrix.shape[0]))
    errors = zeros_beside(bias, block.Y.shape)
    for rows, tile in values.tiles(block.X):
        psi[rows, :] = coordinates.of_values(tile)
        errors[rows, :] = block.Y[rows, :] - tile @ coefficients - bias
    return psi, errors


@dataclass(frozen=True, slots=True)
class ProjectedSpread:
    """p(x) of the process whose mean is the reduced machine; no row is needed.

    To that of the features z(x) is added k(x, x) - ||z(x)||^2, what the basis does not span: without it the error bars
    would vanish far from the basis ([Rasmussen2006]_ section 8.3.3).
    """

    coordinates: LeverageCoordinates
    features: Features
    total: float

    @property
    def diagonal(self) -> Array:
        """Return an empty diagonal: there are no rows."""
        raise TypeError("p(x) alone")

    @property
    def represent(self) -> Callable[[Any], Array]:
        """Return kernel values with the basis."""
        return self.coordinates.values.matrix

    def at(self, rows: Array, diagonal: Array) -> tuple[Array, Array]:
        """Refuse: it needs rows."""
        raise TypeError("p(x) alone")

    def own(self, which: Any, rows: Array) -> Array:
        """Refuse: it needs rows."""
        raise TypeError("p(x) alone")

    def spread(self, rows: Array, diagonal: Array) -> Array:
        """Return p(x)."""
        kernel_values = rows[:, : self.features.n_basis]
        z, psi = kernel_values @ self.features.transform, self.coordinates.of_values(rows)
        xp = namespace_of(z)
        missing = xp.clip(diagonal - xp.sum(z * z, axis=1), min=0.0)
        spread: Array = 1.0 / self.total + xp.sum(psi * psi, axis=1) + missing
        return spread


def machines_without_rows(
    rows: KernelRows, coefficients: Array, bias: Array, factor: LeverageFactor, gamma: float, freedom: float
) -> tuple[LeftOutMachines, ...]:
    """Return all machines without one row, for every output, from one pass over the rows and their targets.

    ``freedom`` is the trace of the hat matrix of the fit, by which rows of another fit are recognised.
    """
    n, r = rows.n_rows, int(factor.matrix.shape[0])
    advice = "keep some rows for calibrate(X, y), and use method='split'."
    room_on_device(bias, 16.0 * n * (r + 1), f"the {n} x {r} coordinates of the rows", advice)
    coordinates = LeverageCoordinates(rows.values, factor, gamma)
    blocks = list(rows.each(_coordinates_of_block, coordinates, coefficients, bias))
    xp = namespace_of(bias)
    psi, errors = (xp.concat(arrays, axis=0) for arrays in zip(*blocks, strict=True))
    ones = xp.ones_like(errors[:, 0])
    pulls = gamma * (ones if rows.weights is None else on_device_of(bias, to_numpy(rows.weights)))
    influence = FeatureInfluence(coordinates, psi, pulls)
    spare = influence.spare
    trace = float(xp.sum(1.0 - spare))
    if not abs(trace - freedom) <= _SAME * freedom:
        raise DataError(
            f"these are not the rows of the fit: their leverages sum to {trace:.6g}, and the model has {freedom:.6g} "
            "degrees of freedom; give the rows that it was fitted to, with their sample_weight"
        )
    LeftOutRows(0, errors, errors, 1.0 - spare).refuse_undetermined()
    return tuple(
        LeftOutMachines(
            influence=influence,
            support_values=pulls * errors[:, k],
            residuals=errors[:, k] / spare,
            diagonal=influence.diagonal,
            gamma=gamma,
            ridge=None if rows.weights is None else 1.0 / pulls,
        )
        for k in range(int(errors.shape[1]))
    )
