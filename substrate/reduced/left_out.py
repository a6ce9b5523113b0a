r"""Leave-one-out on a reduced basis, exact, in one pass over the rows, and as a function of lambda.

.. math:: h_{ii} = v_i \Big( \frac1m + \| R\, k_S(x_i) - r \|^2 \Big), \qquad m = \sum_j v_j, \qquad
          t_i - f^{(-i)}(x_i) = \frac{e_i}{1 - h_{ii}}

([Cawley2004]_ section 2.6, where all :math:`v_i = 1` and m = l) with R and r from the spectrum of
:mod:`~substrate.reduced.spectrum`, made triangular, which halves the work of every row. A row is left out whole,
whatever its weight: with its weight goes its share of the hat matrix of the rows times :math:`v_i^{1/2}`.

As an analytic function of :math:`t = \log\lambda`, with one pass over the rows per call, it is

.. math:: \frac1l \sum_i v_i \Big( \frac{e_i(\lambda)}{1 - h_{ii}(\lambda)} \Big)^2, \qquad
    1 - h_{ii} = 1 - v_i \Big( \frac1m + \sum_k \frac{g_{ik}^2}{a_k + \lambda} \Big)

([Cawley2004]_ section 2.6; weights of mean one, m = l) with the features g of :mod:`~substrate.reduced.spectrum`. Its
bounds are proved in :mod:`~substrate.reduced.criteria`. The search is in numpy; rows on a device are processed there,
and a call sends :math:`1/(a_k + \lambda)` to it and receives sums.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from substrate.arrays import (
    Array,
    namespace_of,
    on_device_of,
    own_copy,
    paired_sums,
    to_numpy,
    zeros_beside,
)
from substrate.errors import SolverError
from substrate.least_squares.criteria import LeftOutCriterion, LeftOutSums
from substrate.reduced.criteria import SpectrumRadius, lost_to_rounding
from substrate.reduced.rows import KernelRows, KernelValues, RowValues
from substrate.reduced.spectrum import ReducedSpectrum
from substrate.streaming.passes import Tally, sum_blocks
from substrate.streaming.rows import ArraySource, Block, Source
from substrate.threads import blas_threads

__all__ = [
    "LeftOutRows",
    "LeverageFactor",
    "ReducedLeaveOneOut",
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


#: Least 1 - h_ii of a weighted row: of one that outweighs all others it is rounding, and its residual must stay finite.
_OUTWEIGHED = 1e-30
#: Most features that are stored, all rows together: 256 MiB.
_MOST_STORED = 1 << 25


@dataclass(frozen=True, slots=True)
class ResidualSums(Tally):
    """Sums over rows, one row per lambda: squared residuals (one column per output); 1/(1 - h_ii); min of 1 - h_ii."""

    combine: ClassVar[Mapping[str, Callable[[Any, Any], Any]]] = {"smallest": np.minimum}

    squares: Array
    reciprocal: Array
    smallest: Array


@dataclass(frozen=True, slots=True)
class StoredValues(RowValues):
    """Values that were computed before: the rows of their source, in tiles of ``step``."""

    n_basis: int
    step: int

    def __call__(self, X: Any) -> Array:
        """Return the rows."""
        return np.asarray(X)


def sum_left_out(features: RowValues, spectrum: ReducedSpectrum, inverses: Array, block: Block) -> ResidualSums:
    """Leave rows out at many lambdas: two matrix products per tile, with the weights and, squared, with
    1/(a + lambda), the ``inverses``.
    """
    c, xp = spectrum.cross, namespace_of(spectrum.cross)
    g, centre = on_device_of(c, inverses), spectrum.origin.targets + spectrum.target_mean
    squares, reciprocal = zeros_beside(c, (g.shape[1], c.shape[1])), zeros_beside(c, g.shape[1])
    smallest = xp.ones_like(reciprocal)
    for part, rows in features.of_block(block):
        weights = part.row_weights()
        spare = xp.clip(1.0 - weights[:, None] * (1.0 / spectrum.mass + (rows * rows) @ g), min=_OUTWEIGHED)
        targets_of_rows, roots = part.Y / spectrum.origin.unit - centre, xp.sqrt(weights)[:, None]
        with np.errstate(over="ignore", invalid="ignore"):  # of a row that is the machine nothing is known
            reciprocal += xp.sum(1.0 / spare, axis=0)
            for k in range(c.shape[1]):
                errors = targets_of_rows[:, k][:, None] - rows @ (g * c[:, k][:, None])
                residuals = errors * roots / spare
                squares[:, k] += paired_sums(residuals, residuals, 0)
        smallest = xp.minimum(smallest, xp.min(spare, axis=0))
    return ResidualSums(*(to_numpy(array) for array in (squares, reciprocal, smallest)))


@dataclass(frozen=True, slots=True)
class ReducedLeaveOneOut(LeftOutCriterion):
    """The mean square of e_i/(1 - h_ii), with weights of mean one; ``there`` is the spectrum where the rows are.

    Features of rows in memory are stored where they fit: a search needs them at a hundred gammas.
    """

    spectrum: ReducedSpectrum
    radius: SpectrumRadius
    there: ReducedSpectrum
    features: RowValues
    source: Source

    @classmethod
    def of_rows(
        cls, spectrum: ReducedSpectrum, rows: KernelRows, radius: SpectrumRadius, *, pooled: bool = False
    ) -> Self:
        """Return the criterion on the rows of the statistic and their targets."""
        host, source = spectrum.on_host(), rows.source
        features: RowValues = spectrum.feature_values(rows.values)
        block = None if rows.on_device else source.block_in_memory
        if block is not None and block.n_rows * features.n_basis <= _MOST_STORED:
            source = ArraySource(features.matrix(block.X), block.Y, block.weights)
            features = StoredValues(features.n_basis, features.step)
        return cls(
            spectrum=host,
            targets=host.targets(),
            lift=0.0,
            pooled=pooled,
            machine=host.machine(),
            radius=radius,
            there=spectrum,
            features=features,
            source=source,
        )

    def _sum_left_out(self, g: Array, roots: Array, t: Array) -> LeftOutSums:
        """Sum in a pass over the rows."""
        of_block = partial(sum_left_out, self.features, self.there, g)
        sums: ResidualSums = sum_blocks(self.source, of_block, self.features.n_basis)
        # the relative error of 1 - h_ii is the error of a sum of so many terms, divided by it
        terms = self.there.values.shape[0] / (self.size + 16.0)
        with np.errstate(over="ignore"):  # of a row that is the machine nothing is known
            rounded = sums.squares / self.spectrum.n * np.square(terms / sums.smallest)[:, None]
        lost = lost_to_rounding(self, self.radius, t, sums.smallest.reshape(t.shape))
        return LeftOutSums(sums.squares, np.exp(t.ravel()) * sums.reciprocal, rounded, lost)
