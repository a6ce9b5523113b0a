r"""Criteria of model selection on a reduced basis, as analytic functions of :math:`t = \log\lambda`, and their errors.

A reduced basis is a dense LS-SVM with the kernel matrix :math:`Z Z^T`, of low rank: its spectrum is that of
:mod:`~substrate.reduced.spectrum` and otherwise zero, so generalised cross-validation and the evidence are those of
:mod:`~substrate.least_squares.evidence`, by the sums of :mod:`~substrate.least_squares.coordinates`, and the bounds of
:mod:`~substrate.least_squares.criteria` apply. This module has folds, and the errors of all criteria.

Leave-one-out (:mod:`~substrate.reduced.left_out`) needs one pass over the rows for all points of a call; generalised
cross-validation and folds need none, since the sums of a fold are subtracted; with features d of a fold's row, Cauchy's
inequality bounds :math:`(\sum_k d_k c_k g_k)^2 \le \sum_k d_k^2 g_k \sum_k c_k^2 g_k`. Rounding of the differences is
included in the ceilings, which determine the slack of the search. Sums and decompositions of a device are copied to the
host once, and searched there.

The errors of a criterion, at every lambda, are bounded as well. A criterion is computed from one decomposition of sums
over the rows, and all of these are rounded: kernel values, features, sums, eigenvalues and eigenvectors. With
:math:`\hat u(\lambda) = Q\, c/(a + \lambda)` the gradient of the exact machine at :math:`\hat u` consists of these
roundings alone, and :mod:`~substrate.reduced.spectrum` bounds its effect on the errors of the rows,

.. math:: \|\hat e - e\| \le \|Z H^{-1} T^T \delta\| \|\hat e\| + 3 p\, \|\sqrt{k}\|\, s^T |T \hat u|
          + \Big( c\, \epsilon\, \big\| |\hat H^{-1/2}| \sigma \big\| + \frac{r \epsilon \|A\|}{\sqrt\lambda} \Big)
            (\ldots) ,

and leverages :math:`z_i^T H^{-1} z_i` change by the same slopes. All grow as lambda falls. The root of a
criterion is a norm of errors over :math:`1 - h_{ii}`, so its error is at most that over the smallest of these,
plus its own share. A small eigenvalue of a smooth kernel makes this large long before the criterion itself is affected
visibly: nearly noise-free targets have a criterion far below the size of y, which determines the rounding.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import ROUNDED_ONCE, eigenvalue_rounding, relative_rounding, sum_rounding
from substrate.least_squares.criteria import Criterion, Samples
from substrate.least_squares.evidence import ceiling_of_remainder
from substrate.namespaces import namespace_of, to_numpy
from substrate.reduced.basis_matrix import BasisMatrix
from substrate.reduced.curvature import Reach
from substrate.reduced.moments import Moments
from substrate.reduced.rows import BasisValues, KernelRows, MatrixColumns
from substrate.reduced.spectrum import ReducedSpectrum
from substrate.streaming.source import Block
from substrate.streaming.tally import Tally
from substrate.threads import blas_threads

__all__ = ["CriterionRadius", "Lift", "ReducedFold", "RowSizes", "evidence_error", "mass_rounding", "sizes_of_rows"]


@dataclass(frozen=True, slots=True)
class ReducedFold(Criterion):
    """The mean square error on the rows of a fold, of the machine on the others; both from sums.

    ``count`` is the number of its rows and ``mass`` their weight, by which the mean is taken. ``scatter`` and ``cross``
    are those of the fold's features about the others' mean, in the others' eigen-coordinates; ``squares`` those of its
    targets about the others' mean.
    """

    cone: ClassVar[int] = 2
    growth: ClassVar[float] = 2.0

    spectrum: ReducedSpectrum
    count: int
    mass: float
    scatter: Array
    cross: Array
    squares: Array

    @classmethod
    def of(cls, spectrum: ReducedSpectrum, fold: Moments, *, pooled: bool = False) -> Self:
        """Build the fold from the spectrum of the other rows and the moments of the fold about the same origin."""
        held_out = fold.shift_to(spectrum.mean, spectrum.target_mean).transform(spectrum.rotation)
        host_spectrum = spectrum.on_host()
        return cls(
            spectrum=host_spectrum,
            targets=host_spectrum.targets(),
            lift=0.0,
            pooled=pooled,
            count=held_out.count,
            mass=held_out.mass,
            scatter=to_numpy(held_out.second),
            cross=to_numpy(held_out.cross),
            squares=to_numpy(held_out.squares),
        )

    def sample(self, t: Array) -> Samples:
        """Compute quadratic forms of the fold's sums, and the ceiling from each interval's lowest lambda."""
        c, g = self.targets.coordinates, self._inverses(t)
        lowest = np.ascontiguousarray(g.reshape(-1, *t.shape)[:, :, 0])
        outputs = c.shape[1]
        values, ceiling = np.empty((t.size, outputs)), np.empty((t.shape[0], outputs))
        spread = self.scatter.diagonal() @ lowest
        with blas_threads(c.shape[0]):
            for k in range(outputs):
                weights = g * c[:, [k]]
                product = np.einsum("ij,ij->j", weights, self.scatter @ weights) - 2.0 * (self.cross[:, k] @ weights)
                values[:, k] = np.maximum(self.squares[k] + product, 0.0) / self.mass
                ceiling[:, k] = 2.0 * (self.squares[k] + (c[:, k] ** 2 @ lowest) * spread) / self.mass
        shaped = self._shape(values, t)
        top = ceiling.mean(axis=1, keepdims=True) if self.pooled else ceiling
        whole = np.broadcast_to((self.squares.mean(keepdims=True) if self.pooled else self.squares), shaped.shape)
        return Samples(shaped, np.maximum(top, ceiling_of_remainder(shaped, whole / self.mass, self.size)))


#: Factor between two points of a search: errors are monotone in lambda term by term, and lambda changes little.
_BETWEEN = 2.0


@dataclass(frozen=True, slots=True)
class RowSizes(Tally):
    """The sum of v k(x, x) over rows, the largest of them, and the largest relative error of a kernel value."""

    diagonal: float
    largest: Annotated[float, max]
    rounding: Annotated[float, max]


@dataclass(frozen=True, slots=True)
class RowSizesOfLeaf:
    """The sizes of the rows of a leaf; no kernel value is computed."""

    values: BasisValues

    def __call__(self, blocks: Iterable[Block]) -> RowSizes:
        """Accumulate over its micro-blocks."""
        total = RowSizes(0.0, 0.0, 0.0)
        for block in blocks:
            diagonal = self.values.diagonal(block)
            xp, rounding = namespace_of(diagonal), self.values.rounding(block.X)
            diagonal = xp.clip(diagonal, min=0.0)
            if block.weights is not None:
                diagonal = block.weights * diagonal
            total = total + RowSizes(float(xp.sum(diagonal)), float(xp.max(diagonal)), rounding)
        return total


def sizes_of_rows(rows: KernelRows) -> RowSizes:
    """Return the sizes of all rows, in one inexpensive pass."""
    sizes: RowSizes = rows.sums(RowSizesOfLeaf(rows.values), "sizes of rows")
    return sizes


@dataclass(frozen=True, slots=True)
class Lift:
    r"""A bound on the error of leverages: that of row i is at most ``own`` + ``shared`` :math:`\sqrt{h_{ii}}`.

    Errors :math:`\delta_j` of the features change :math:`h_{ii} = z_i^T H^{-1} z_i` by
    :math:`2 z_i^T H^{-1} \delta_i`, which is that of one row, and by
    :math:`2 \sum_j h_{ij}\, z_i^T H^{-1} \delta_j \le 2 \|h_i\| (\sum_j (z_i^T H^{-1} \delta_j)^2)^{1/2}`, where
    :math:`\|h_i\|^2 \le h_{ii}`; a relative error of H changes it by that share of :math:`h_{ii} \le
    \sqrt{h_{ii}}`.
    """

    own: float
    shared: float

    @property
    def most(self) -> float:
        """That of any row."""
        return self.own + self.shared

    def mean(self, leverage: Array) -> Array:
        """Return that of the mean of leverages, from the mean of the leverages."""
        return np.asarray(self.own + self.shared * np.sqrt(np.clip(leverage, 0.0, 1.0)))


@dataclass(frozen=True, slots=True)
class CriterionRadius:
    """One spectrum and its rows; ``seen`` is the scatter of validation rows, if the criterion is theirs."""

    spectrum: ReducedSpectrum
    K_basis: Array
    sizes: RowSizes
    terms: int
    leverages: Array | None = None
    count: int = 0

    def errors(self, lam: float, upper: float | None = None) -> tuple["Lift", Array]:
        """Bound the error of a leverage, and the norm of the error of e, one number per output.

        They hold from lambda to ``upper``: slopes fall in lambda, and the errors of the rows rise.
        """
        most = lam if upper is None else upper
        s, sp = self.sizes, self.spectrum
        spread = math.sqrt(s.diagonal)
        columns = MatrixColumns(np.arange(self.K_basis.shape[0]))  # taken as it is
        curvature = sp.curvature(BasisMatrix(columns, self.K_basis, sp.features), self.terms)
        reach = curvature.at(lam, s.rounding, spread)
        r, c = sp.values.size, sp.cross
        decomposed = eigenvalue_rounding(r) * float(sp.values.max(initial=0.0)) / lam
        if not reach.is_known or decomposed >= 0.25:
            return Lift(1.0, 1.0), np.full(c.shape[1], math.inf)
        inverses = 1.0 / (sp.values + lam)
        weights = sp.rotation @ (c * inverses[:, None])
        above = 1.0 / (sp.values + most)
        unexplained = most**2 * sp.machine().support_squares(above[:, None], np.array([most]))[0]
        errors = np.sqrt(unexplained + relative_rounding(r) * sp.squares)
        lever = reach.lever(self.leverages)
        relative_radius = s.rounding + sum_rounding(curvature.features.n_basis + 8.0)
        slopes = reach.of_slopes(relative_radius * spread, self.leverages)
        radius = slopes * errors
        rows = spread if self.leverages is None else math.sqrt(max(self.count, 1) * s.largest)
        radius += (
            (2.0 * lever * spread + rows)
            * relative_radius
            * (np.sqrt(self._diagonal()) @ np.abs(sp.features.transform @ weights))
        )
        summed = sum_rounding(self.terms + r + 8.0)
        lengths = self._lengths(reach)
        pull = float(np.linalg.norm(np.abs(reach.root) @ lengths)) if r else 0.0
        radius += lever * 1.5 * summed * pull * (lengths @ np.abs(weights) + np.sqrt(sp.squares))
        radius += (
            lever
            * decomposed
            * (math.sqrt(most) * np.linalg.norm(weights, axis=0) + ROUNDED_ONCE * np.sqrt(sp.squares))
        )
        every = 2.0 * reach.eta**2 + 2.0 * decomposed + 2.0 * summed * pull**2
        if curvature.accumulated:
            every += 2.0 * sp.error
            radius += lever * sp.error * (np.sqrt(sp.squares) + np.sqrt(sp.mass) * np.abs(sp.target_mean))
        own_part = 2.0 * (slopes if self.leverages is None else 0.0)
        share = math.sqrt(s.largest) / spread if spread > 0.0 else 1.0
        return Lift(own_part * share, own_part + every), _BETWEEN * np.asarray(radius)

    def _diagonal(self) -> Array:
        return np.maximum(self.K_basis.diagonal(), 0.0)

    def _lengths(self, reach: Reach) -> Array:
        return np.asarray(reach.lengths)


def mass_rounding(spectrum: ReducedSpectrum, lam: float, terms: int) -> float:
    """Bound what rounding of the sums by squared weights changes in the mean leverage.

    The sums have no negative term; a coordinate of a row is a product of r terms, wrong by less than r times the
    rounding of the row's length. Quotients and differences of them round by as little again.
    """
    if spectrum.heavy is None:
        return 0.0
    r, lengths = spectrum.values.size, float(spectrum.heavy.second.trace()) / spectrum.mass
    turned = sum_rounding(r + 2.0) * math.sqrt(r * lengths / lam)
    return relative_rounding(terms + 2.0 * r + 16.0) + 2.0 * turned + turned**2


def evidence_error(spectrum: ReducedSpectrum, lam: float, lifted: float, errors: Array, pooled: bool) -> Array:
    r"""Bound the relative error of the evidence's F, one number per output.

    ``errors`` are those of e: of norm :math:`\epsilon` they change :math:`\lambda Q = t^T e` by at most
    :math:`\|t\| \epsilon`. Features that change every leverage by at most ``lifted`` :math:`\eta` change the logarithm
    of the product by :math:`\operatorname{tr}(H^{-1} dH)`, which over l - 1 is at most :math:`\eta\, l / (l - 1)`.
    """
    machine, lambdas = spectrum.machine(), np.array([lam])
    quadratic = lam * machine.quadratic(machine.inverses(lambdas), lambdas)[0]
    sizes = np.sqrt(spectrum.squares) * errors
    if pooled:
        quadratic, sizes = quadratic.sum(keepdims=True), sizes.sum(keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(sizes > 0.0, sizes / quadratic, 0.0)
    return np.asarray(share + lifted * machine.rows / machine.free)
