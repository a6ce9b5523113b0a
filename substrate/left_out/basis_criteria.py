r"""Criteria of model selection on a reduced basis, as analytic functions of :math:`t = \log\lambda`.

A reduced basis is a dense LS-SVM with the kernel matrix :math:`Z Z^T`, of low rank: its spectrum is given by
:mod:`~substrate.operators.basis_spectrum` and otherwise zero, so generalised cross-validation and the evidence are as
in :mod:`~substrate.left_out.criteria`, by the sums of :mod:`~substrate.operators.spectrum`, and all bounds apply.
Leave-one-out needs one pass over the rows for all points of a call,

.. math:: \frac1l \sum_i v_i \Big( \frac{e_i(\lambda)}{1 - h_{ii}(\lambda)} \Big)^2, \qquad
    1 - h_{ii} = 1 - v_i \Big( \frac1m + \sum_k \frac{g_{ik}^2}{a_k + \lambda} \Big)

([Cawley2004]_ section 2.6; weights of mean one, m = l) with the features g of
:mod:`~substrate.operators.basis_spectrum`; folds need none, since the sums of a fold are subtracted. Sums and
decompositions of a device are copied to the host once, and searched there; rows on a device are processed there, and a
call sends :math:`1/(a_k + \lambda)` to it and receives sums.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from substrate.arrays import (
    Array,
    blas_threads,
    move_to_host,
    namespace_of,
    on_device_of,
    paired_sums,
    to_numpy,
    zeros_beside,
)
from substrate.fits.basis_solution import Penalty
from substrate.left_out.criteria import Criterion, LeftOutCriterion, Samples, ceilings_of_remainder, following
from substrate.numbers import at_most, relative_rounding, sum_rounding
from substrate.operators.basis_spectrum import ReducedSpectrum, SpectrumRadius
from substrate.operators.features import Moments, Statistic
from substrate.operators.kernel_rows import KernelRows, RowValues
from substrate.operators.passes import Tally, sum_blocks
from substrate.operators.sources import ArraySource, Block, Source

__all__ = ["ReducedFold", "ReducedLeaveOneOut", "with_radius"]


def with_radius(spectrum: ReducedSpectrum, statistic: Statistic, penalty: Penalty, terms: int) -> ReducedSpectrum:
    """Return a spectrum of all rows, or of some, on the host, with bounds on its rounding; a sum over the rows has so
    many terms.
    """
    T, Q = spectrum.features.transform, spectrum.rotation
    (n, r), spread = T.shape, math.sqrt(statistic.diagonal)
    strict = max(1.0 - penalty.deviation, np.finfo(np.float64).tiny)
    radius = SpectrumRadius(
        features=at_most(1.0) * (statistic.rounding + sum_rounding(n + 4)) * spread,
        sizes=penalty.sizes @ np.abs(T @ Q),
        deviation=at_most(1.0) * penalty.deviation / strict,
        penalty=at_most(1.0) * penalty.share / strict,
        reach=penalty.sizes @ np.abs(T) @ np.abs(Q),
        sums=at_most(1.0) * sum_rounding(3 * terms + r + 8),
        lengths=spectrum.lengths @ np.abs(Q),
        decomposed=relative_rounding(4.0 * r) * float(spectrum.values.max(initial=0.0)),
    )
    return replace(spectrum, radius=radius)


#: Least 1 - h_ii of a weighted row: of one that outweighs all others it is rounding, and its residual must stay finite.
_OUTWEIGHED = 1e-30
#: Most features that are stored, all rows together: 512 MiB.
_MOST_STORED = 1 << 26


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
    """The mean square of e_i/(1 - h_ii), with weights of mean one; ``row_spectrum`` is the spectrum where the rows are.

    Features of rows in memory are stored where they fit: a search needs them at a hundred gammas.
    """

    spectrum: ReducedSpectrum
    row_spectrum: ReducedSpectrum
    features: RowValues
    source: Source

    @classmethod
    def of_rows(
        cls, spectrum: ReducedSpectrum, row_spectrum: ReducedSpectrum, rows: KernelRows, *, pooled: bool
    ) -> Self:
        """Return the criterion on the rows of the statistic and their targets, with the spectrum on the host."""
        features: RowValues = row_spectrum.feature_values(rows.values)
        source = rows.source
        block = None if rows.on_device else source.block_in_memory
        if block is not None and block.n_rows * features.n_basis <= _MOST_STORED:
            source = ArraySource(features.matrix(block.X), block.Y, block.weights)
            features = StoredValues(features.n_basis, features.step)
        return cls(spectrum, spectrum.targets(), 0.0, pooled, row_spectrum, features, source)

    def _sum_left_out(self, g: Array, quadratic: Array, t: Array) -> tuple[Array, Array, Any, Any, Any]:
        """Sum in a pass over the rows."""
        of_block = partial(sum_left_out, self.features, self.row_spectrum, g)
        sums: ResidualSums = sum_blocks(self.source, of_block, self.features.n_basis)
        # the relative error of 1 - h_ii is the error of a sum of so many terms, divided by it
        terms = self.row_spectrum.values.shape[0] / (self.size + 16.0)
        with np.errstate(over="ignore"):  # of a row that is the machine nothing is known
            rounded = sums.squares / self.size * np.square(terms / sums.smallest)[:, None]
        lever = 1.0 / (math.sqrt(self.size) * sums.smallest.reshape(*t.shape, 1))
        # errors of all rows change by q / (1 - q) of the root of lambda Q, and 1 - h by as large a share
        nearer = np.square(4.0 * lever) * self._next_fitted(quadratic, t)
        return sums.squares, np.exp(t.ravel()) * sums.reciprocal, rounded, nearer, lever


@dataclass(frozen=True, slots=True)
class ReducedFold(Criterion):
    r"""The mean square error on the rows of a fold, of the machine on the others; both from sums.

    ``mass`` is the weight of its ``count`` rows, by which the mean is taken. ``scatter`` and ``cross`` are the scatter
    and the cross products of the fold's features about the others' mean, in the others' eigen-coordinates; ``squares``
    are the squares of its targets about the others' mean.

    The fold is a block left out of the machine on all rows, the ``whole``, whose q it has: with Q of the others and D
    the diagonal of the scatter, :math:`\sum_i (B_{SS}^{-1})_{ii} = \lambda (n + \sum_k D_k / (a_k + \lambda))`, n the
    rows of the fold and its share of the others' mean.
    """

    cone: ClassVar[int] = 2
    growth: ClassVar[float] = 2.0

    spectrum: ReducedSpectrum
    whole: ReducedSpectrum
    count: int
    mass: float
    scatter: Array
    cross: Array
    squares: Array

    @classmethod
    def of_fold(cls, spectrum: ReducedSpectrum, whole: ReducedSpectrum, fold: Moments, *, pooled: bool) -> Self:
        """Build the fold from the spectra of the other rows and of all rows, on the host, and its moments about the
        same origin.
        """
        held_out = move_to_host(fold).shift_to(spectrum.mean, spectrum.target_mean).transform(spectrum.rotation)
        return cls(
            spectrum=spectrum,
            targets=spectrum.targets(),
            lift=0.0,
            pooled=pooled,
            whole=whole,
            count=held_out.count,
            mass=held_out.mass,
            scatter=held_out.second,
            cross=held_out.cross,
            squares=held_out.squares,
        )

    def sample(self, t: Array) -> Samples:
        """Compute quadratic forms of the fold's sums; what is in the ceilings falls along an interval."""
        c, g, lambdas = self.targets.coordinates, self._inverses(t), np.exp(t.ravel())
        outputs = c.shape[1]
        values, ceilings = np.empty((t.size, outputs)), np.empty((t.size, outputs))
        spread = np.maximum(self.scatter.diagonal(), 0.0) @ g
        with blas_threads(c.shape[0]):
            for k in range(outputs):
                weights = g * c[:, [k]]
                product = np.einsum("ij,ij->j", weights, self.scatter @ weights) - 2.0 * (self.cross[:, k] @ weights)
                values[:, k] = np.maximum(self.squares[k] + product, 0.0) / self.mass
                ceilings[:, k] = 2.0 * (self.squares[k] + (c[:, k] ** 2 @ g) * spread) / self.mass
        shaped, whole = self._shape(values, t), self._shape(np.broadcast_to(self.squares / self.mass, values.shape), t)
        top = np.maximum(self._shape(ceilings, t), ceilings_of_remainder(shaped, whole, self.size))
        quadratic = following(self._shape(lambdas[:, None] * self.machine.quadratic(g, lambdas), t), t)
        rows = (self.count + self.mass / self.spectrum.mass + spread).reshape(*t.shape, 1)
        return Samples(
            shaped, top, self._lost(t, quadratic * rows / self.mass, np.sqrt((rows - self.count) / self.mass))
        )

    def _unknown(self, t: Array) -> Array:
        """Return q of the machine on all rows."""
        return np.asarray(self.whole.decomposition_error(np.exp(t)))[:, :, None]
