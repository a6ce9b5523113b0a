r"""Leave-one-out on a reduced basis, exact, in one pass over the rows.

.. math:: h_{ii} = \frac1l + \| R\, k_S(x_i) - r \|^2, \qquad t_i - f^{(-i)}(x_i) = \frac{e_i}{1 - h_{ii}}

([Cawley2004]_ section 2.6) with R and r from the spectrum of :mod:`~substrate.closed_form.reduced_spectrum`, made
triangular, which halves the work of every row.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.closed_form.kernel_rows import KernelRows, KernelValues
from substrate.closed_form.reduced_spectrum import ReducedSpectrum
from substrate.errors import SolverError
from substrate.streaming.source import Block
from substrate.threads import blas_threads

__all__ = ["LeftOutRows", "LeverageFactor", "left_out_rows", "leverage_factor"]


@dataclass(frozen=True, slots=True)
class LeverageFactor:
    """R and r with :math:`h(x) = 1/l + \\|R k_S(x) - r\\|^2`; R is upper triangular where the rank is full."""

    matrix: Array
    offset: Array
    n: int

    def leverages(self, block: Array) -> Array:
        """h of rows of kernel values; the block is overwritten where that saves a copy."""
        from scipy.linalg.blas import dtrmm

        if self.matrix.shape[0] == self.matrix.shape[1] and self.offset.size:
            product = dtrmm(1.0, self.matrix.T, block.T, lower=1, trans_a=1, overwrite_b=1).T
        else:
            product = block @ self.matrix.T
        product -= self.offset
        return np.asarray(1.0 / self.n + np.einsum("ij,ij->i", product, product))


def leverage_factor(spectrum: ReducedSpectrum, lam: float) -> LeverageFactor:
    """The factor of the leverages at one lambda; a QR factorisation halves the work of every row to come."""
    scale = 1.0 / np.sqrt(spectrum.values + lam)
    W = (spectrum.directions * scale).T
    offset = scale * (spectrum.rotation.T @ spectrum.full_mean)
    with blas_threads(W.shape[1]):
        Q, R = np.linalg.qr(W)
    return LeverageFactor(np.ascontiguousarray(R), np.asarray(Q.T @ offset), spectrum.n)


@dataclass(frozen=True, slots=True)
class LeftOutRows:
    """Consecutive rows: the first one's number, targets, fitted values, and leverages."""

    start: int
    Y: Array
    fitted: Array
    leverages: Array

    @property
    def residuals(self) -> Array:
        """e_i/(1 - h_ii)."""
        return np.asarray((self.Y - self.fitted) / (1.0 - self.leverages)[:, None])

    def refuse_undetermined(self) -> None:
        """Name a row without which there is no machine."""
        if not (self.leverages < 1.0).all():
            worst = int(self.leverages.argmax())
            raise SolverError(
                f"without row {self.start + worst} the machine is not determined: its leverage is "
                f"{self.leverages[worst]:.6g} where it must be below 1; use more rows, fewer basis vectors or a "
                "smaller gamma"
            )


@dataclass(frozen=True, slots=True)
class LeftOutOfBlock:
    """Fitted values and leverages of a micro-block, and its targets, a row each."""

    values: KernelValues
    coefficients: Array
    bias: Array
    factor: LeverageFactor

    def __call__(self, block: Block) -> LeftOutRows:
        """Tile by tile."""
        fitted, leverages = np.empty(block.Y.shape), np.empty(block.Y.shape[0])
        for rows, tile in self.values.tiles(block, self.values.buffer()):
            fitted[rows] = tile @ self.coefficients + self.bias
            leverages[rows] = self.factor.leverages(tile)
        return LeftOutRows(block.start, block.Y, fitted, leverages)


def left_out_rows(rows: KernelRows, coefficients: Array, bias: Array, factor: LeverageFactor) -> Iterator[LeftOutRows]:
    """Fitted values, leverages and leave-one-out residuals of all rows in order, in one pass.

    :place [Cawley2004]_ section 2.6: e/(1 - h) in one pass, for a reduced basis
    """
    return rows.each(LeftOutOfBlock(rows.values, coefficients, bias, factor), "leave-one-out")
