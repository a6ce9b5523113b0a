r"""Leave-one-out on a reduced basis, exact, in one pass over the rows.

.. math:: h_{ii} = v_i \Big( \frac1m + \| R\, k_S(x_i) - r \|^2 \Big), \qquad m = \sum_j v_j, \qquad
          t_i - f^{(-i)}(x_i) = \frac{e_i}{1 - h_{ii}}

([Cawley2004]_ section 2.6, where all :math:`v_i = 1` and m = l) with R and r from the spectrum of
:mod:`~substrate.reduced.spectrum`, made triangular, which halves the work of every row. A row is left out whole,
whatever its weight: with its weight goes its share of the hat matrix of the rows times :math:`v_i^{1/2}`.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from substrate.arrays import (
    Array,
    namespace_of,
    own_copy,
    paired_sums,
    zeros_beside,
)
from substrate.errors import SolverError
from substrate.reduced.rows import KernelRows, KernelValues, RowValues
from substrate.reduced.spectrum import ReducedSpectrum
from substrate.streaming.rows import Block
from substrate.threads import blas_threads

__all__ = [
    "LeftOutRows",
    "LeverageFactor",
    "errors_of_block",
    "left_out_rows",
    "leverage_factor",
    "outputs_of_block",
]


@dataclass(frozen=True, slots=True)
class LeverageFactor:
    """R and r with :math:`h(x) = v (1/m + \\|R k_S(x) - r\\|^2)`; R is upper triangular.

    ``mass`` is m, the weight of all rows: their number where they have none.
    """

    matrix: Array
    offset: Array
    mass: float

    def in_unit(self, unit: float) -> "LeverageFactor":
        """Return the factor of the same leverages where weights are given as multiples of ``unit`` of those here."""
        if unit == 1.0:
            return self
        root = math.sqrt(unit)
        return LeverageFactor(self.matrix / root, self.offset / root, unit * self.mass)

    def coordinates(self, values: Array) -> Array:
        """Return R k - r of rows of kernel values k."""
        coordinates: Array = values @ self.matrix.T
        coordinates -= self.offset
        return coordinates

    def leverages(self, coordinates: Array, weights: Array | None = None) -> Array:
        """Return h of rows from their coordinates."""
        leverages: Array = 1.0 / self.mass + paired_sums(coordinates, coordinates, 1)
        return leverages if weights is None else weights * leverages


def leverage_factor(spectrum: ReducedSpectrum, lam: float) -> LeverageFactor:
    """Return the factor of the leverages at one lambda; a QR factorisation halves the work of every row."""
    xp = namespace_of(spectrum.values)
    scale = 1.0 / xp.sqrt(spectrum.curvatures(lam))
    W = (spectrum.directions * scale).T
    offset = scale * (spectrum.rotation.T @ spectrum.full_mean)
    with blas_threads(W.shape[1]):
        Q, R = xp.linalg.qr(W)
    return LeverageFactor(own_copy(R), Q.T @ offset, spectrum.mass)


@dataclass(frozen=True, slots=True)
class LeftOutRows:
    """Consecutive rows: the number of the first, targets, fitted values, leverages, and weights (None: all one).

    ``coordinates`` are computed by :meth:`LeverageFactor.coordinates`, None if they are not kept.
    """

    start: int
    Y: Array
    fitted: Array
    leverages: Array
    weights: Array | None = None
    coordinates: Array | None = None

    @classmethod
    def joined(cls, parts: Iterable["LeftOutRows"]) -> Self:
        """Return all rows as one part."""
        kept = list(parts)
        xp = namespace_of(kept[0].Y)

        def column(name: str) -> Any:
            values = [getattr(part, name) for part in kept]
            return None if values[0] is None else xp.concat(values, axis=0)

        return cls(0, *(column(name) for name in ("Y", "fitted", "leverages", "weights", "coordinates")))

    @property
    def residuals(self) -> Array:
        """e_i/(1 - h_ii)."""
        with np.errstate(divide="ignore", invalid="ignore"):  # a row that determines its own fit is refused by name
            residuals: Array = (self.Y - self.fitted) / (1.0 - self.leverages)[:, None]
        return residuals

    def refuse_undetermined(self) -> None:
        """Raise if leaving some row out leaves no machine, and name the row."""
        xp = namespace_of(self.leverages)
        if not bool(xp.all(self.leverages < 1.0)):
            worst = int(xp.argmax(self.leverages))
            raise SolverError(
                f"without row {self.start + worst} the machine is not determined: its leverage is "
                f"{float(self.leverages[worst]):.6g} where it must be below 1; use more rows, fewer basis vectors or a "
                "smaller gamma"
            )


def leave_out_of_block(
    values: KernelValues, coefficients: Array, bias: Array, factor: LeverageFactor, is_kept: bool, block: Block
) -> LeftOutRows:
    """Return fitted values, leverages and targets of a block, one row per row of data, and their coordinates if they
    are to be kept.
    """
    n = block.Y.shape[0]
    fitted, leverages = zeros_beside(bias, block.Y.shape), zeros_beside(bias, n)
    kept = zeros_beside(bias, (n, factor.offset.shape[0])) if is_kept else None
    for rows, tile in values.tiles(block.X):
        coordinates = factor.coordinates(tile)
        fitted[rows, :] = tile @ coefficients + bias
        leverages[rows] = factor.leverages(coordinates, None if block.weights is None else block.weights[rows])
        if kept is not None:
            kept[rows, :] = coordinates
    return LeftOutRows(block.start, block.Y, fitted, leverages, block.weights, kept)


def left_out_rows(
    rows: KernelRows, coefficients: Array, bias: Array, factor: LeverageFactor, is_kept: bool = False
) -> Iterator[LeftOutRows]:
    """Return fitted values, leverages and leave-one-out residuals of all rows in order, in one pass.

    :place [Cawley2004]_ section 2.6: e/(1 - h) in one pass, for a reduced basis
    """
    return rows.each(leave_out_of_block, coefficients, bias, factor, is_kept)


def outputs_of_block(values: RowValues, coefficients: Array, bias: Array, block: Block) -> Array:
    """Return the outputs of the rows of a block, one column per machine."""
    return values.product(block.X, coefficients) + bias


def errors_of_block(values: RowValues, coefficients: Array, bias: Array, block: Block) -> Array:
    """Return the targets of the rows of a block less the outputs."""
    errors: Array = block.Y - outputs_of_block(values, coefficients, bias, block)
    return errors
