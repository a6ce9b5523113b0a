r"""Criteria of model selection on a reduced basis, as analytic functions of :math:`t = \log\lambda`.

A reduced basis is a dense LS-SVM with the kernel matrix :math:`Z Z^T`, of low rank: its spectrum is given by
:mod:`~substrate.reduced.spectrum` and otherwise zero, so generalised cross-validation and the evidence follow from
:mod:`~substrate.least_squares.evidence`, by the sums of :mod:`~substrate.least_squares.coordinates`, and the bounds of
:mod:`~substrate.least_squares.criteria` apply. Leave-one-out (:mod:`~substrate.reduced.left_out`) needs one pass over
the rows for all points of a call; generalised cross-validation and folds need none, since the sums of a fold are
subtracted. Sums and decompositions of a device are copied to the host once, and searched there.

**Rounding.** Features :math:`Z^\star = Z + \Delta` and the penalty :math:`P^\star = T^T K_{SS} T = I + E` of the exact
machine differ from those that were computed. With :math:`A = \lambda I + Z Z^T`, :math:`\|\Delta_k\| \le \phi s_k` for
every column, :math:`|E_{jk}| \le \rho w_j w_k` and :math:`\sigma_k = a_k / (a_k + \lambda)`, Cauchy's inequality in the
eigenvectors of :math:`Z Z^T` gives

.. math:: (1 - q) A \preceq \lambda I + Z^\star P^{\star -1} Z^{\star T} \preceq (1 + q) A, \qquad
          q = \frac{2 \phi}{\sqrt\lambda} \Big( \sum_k s_k^2 \sigma_k \Big)^{1/2} + \frac{\phi^2}{\lambda} \sum_k s_k^2
          + \frac{\rho}{1 - \|E\|} \Big( \Big( \sum_k w_k^2 \sigma_k \Big)^{1/2}
          + \frac{\phi}{\sqrt\lambda} \sum_k w_k s_k \Big)^2 .

So :math:`\lambda B_{ii} = 1 - h_{ii}` changes by a share of q, and with :math:`Q = y^T A^{-1} y` the errors
:math:`e = \lambda A^{-1} y` change by at most :math:`(\lambda Q)^{1/2}\, q / (1 - q)`. Sums and the decomposition
belong to :math:`H = Z^T Z + \lambda I` up to a share p of H,

.. math:: p = \eta \sum_k \frac{\ell_k^2}{a_k + \lambda} + \frac{d}{\lambda},

for sums right to :math:`\eta \ell_j \ell_k` and a decomposition right to d; they change a leverage by at most
:math:`p / (1 - p)` and the errors by :math:`(\lambda Q)^{1/2} d / \lambda` and, with the weights u of the machine,
:math:`\eta (\sum_k \ell_k^2 / (a_k + \lambda))^{1/2} (\|y\| + \sum_k \ell_k |u_k|)`, over :math:`1 - p`.
All of this is what the root of a criterion loses
(:class:`substrate.least_squares.criteria.Samples`).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np

from substrate.arrays import Array, namespace_of
from substrate.least_squares.criteria import Criterion, OfMachine, Samples, following
from substrate.least_squares.evidence import Evidence, GeneralizedCrossValidation, ceilings_of_remainder, log_rounding
from substrate.numbers import at_most, eigenvalue_rounding, sum_rounding
from substrate.reduced.moments import Moments
from substrate.reduced.rows import KernelRows, KernelValues
from substrate.reduced.solution import Penalty
from substrate.reduced.spectrum import ReducedSpectrum
from substrate.streaming.passes import Tally
from substrate.streaming.rows import Block
from substrate.threads import blas_threads

__all__ = [
    "ReducedEvidence",
    "ReducedFold",
    "ReducedGcv",
    "RowSizes",
    "SpectrumRadius",
    "criterion_of_sums",
    "lost_to_rounding",
    "sizes_of_rows",
]

#: A criterion of a machine on a reduced basis.
Criterion_ = TypeVar("Criterion_", "ReducedGcv", "ReducedEvidence")


@dataclass(frozen=True, slots=True)
class RowSizes(Tally):
    """The sum of v k(x, x) over rows, and the largest relative error of a kernel value."""

    combine: ClassVar[Mapping[str, Callable[[Any, Any], Any]]] = {"rounding": max}

    diagonal: float
    rounding: float


def sizes_of_block(values: KernelValues, block: Block) -> RowSizes:
    """Return the sizes of the rows of a block; no kernel value is computed."""
    diagonal = values.diagonal(block)
    xp = namespace_of(diagonal)
    return RowSizes(float(block.row_weights() @ xp.clip(diagonal, min=0.0)), values.rounding(block.X))


def sizes_of_rows(rows: KernelRows) -> RowSizes:
    """Return the sizes of all rows, in one inexpensive pass."""
    sizes: RowSizes = rows.sums(sizes_of_block)
    return sizes


class Shares(NamedTuple):
    """q and p at some points; by output, the sizes of the targets and of their products with the features; and from
    every point to the next the root of lambda Q, and what sums and decomposition change in the errors.
    """

    matrix: Array
    sums: Array
    sizes: Array
    roots: Array
    summed: Array


@dataclass(frozen=True, slots=True)
class SpectrumRadius:
    r"""Bounds on the rounding of a spectrum, in its eigen-coordinates.

    ``features`` is :math:`\phi` and ``sizes`` s, ``penalty`` :math:`\rho`, ``reach`` w and ``deviation`` bounds
    :math:`\|E\|`; ``sums`` is :math:`\eta`, ``lengths`` are :math:`\ell`, and ``decomposed`` is d.
    """

    features: float
    sizes: Array
    deviation: float
    penalty: float
    reach: Array
    sums: float
    lengths: Array
    decomposed: float

    @classmethod
    def of(cls, spectrum: ReducedSpectrum, rows: KernelRows, penalty: Penalty, sizes: RowSizes) -> Self:
        """Bound the rounding of a spectrum of all rows, or of some, on the host."""
        T, Q = spectrum.features.transform, spectrum.rotation
        (n, r), spread = T.shape, math.sqrt(sizes.diagonal)
        return cls(
            features=at_most(1.0) * (sizes.rounding + sum_rounding(n + 4)) * spread,
            sizes=penalty.sizes @ np.abs(T @ Q),
            deviation=penalty.deviation,
            penalty=at_most(1.0) * penalty.share,
            reach=penalty.sizes @ np.abs(T) @ np.abs(Q),
            sums=at_most(1.0) * sum_rounding(3 * rows.terms + r + 8),
            lengths=spectrum.lengths @ np.abs(Q),
            decomposed=eigenvalue_rounding(r) * float(spectrum.values.max(initial=0.0)),
        )

    def shares(self, criterion: Criterion, machine: Any, t: Array) -> Shares:
        """Return the rounding of a criterion at points t, a machine in the coordinates of its spectrum."""
        g, lambdas = criterion._inverses(t), np.exp(t.ravel())
        reached, moved = self.reached(criterion.spectrum.values[:, None] * g, lambdas)
        strict = max(1.0 - self.deviation, np.finfo(np.float64).tiny)
        q = 2.0 * moved + self.features**2 * float(self.sizes @ self.sizes) / lambdas
        q = at_most(1.0) * (q + self.penalty * reached**2 / strict)
        each, decomposed = np.square(self.lengths) @ g, self.decomposed / lambdas
        p = at_most(1.0) * (self.sums * each + decomposed)
        quadratic = lambdas[:, None] * machine.quadratic(g, lambdas)  # rises with lambda
        roots = np.sqrt(following(quadratic, t))
        products = [self.lengths @ np.abs(g * column[:, None]) for column in criterion.targets.coordinates.T]
        sizes = np.sqrt(criterion.targets.squares) + np.stack(products, axis=1)
        summed = (self.sums * np.sqrt(each))[:, None] * sizes + decomposed[:, None] * roots.reshape(sizes.shape)
        summed /= np.maximum(1.0 - p, 0.5)[:, None]
        shape = (*t.shape, -1)
        return Shares(q.reshape(t.shape), p.reshape(t.shape), sizes.reshape(shape), roots, summed.reshape(shape))

    def reached(self, explained: Array, lambdas: Array) -> tuple[Array, Array]:
        """Return the roots of sums over the shares that directions explain: of w, and of s times phi over the root of
        lambda.
        """
        across = self.features * float(self.reach @ self.sizes) / np.sqrt(lambdas)
        moved = self.features * np.sqrt(np.square(self.sizes) @ explained / lambdas)
        return np.sqrt(np.square(self.reach) @ explained) + across, moved


def lost_to_rounding(criterion: OfMachine, radius: SpectrumRadius, t: Array, spare: Array) -> Array:
    r"""Return what rounding takes from the root of a criterion of left-out errors.

    ``spare`` is the least 1 - h of all rows, or its mean where a criterion replaces all of them by that. The errors e
    are of the norm :math:`(\lambda Q)^{1/2}` at most, and change by a share q of that, which 1 - h does as well.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        shares = radius.shares(criterion, criterion.machine, t)
        q, p = shares.matrix, shares.sums
        share = at_most(2.0) * (2.0 * q + p / spare)[:, :, None]
        lost = criterion._pool(at_most(1.0) * (share * shares.roots + shares.summed) / spare[:, :, None])
        is_known = (np.maximum(q, p) < 0.5)[:, :, None]
        return np.asarray(np.where(is_known, lost / math.sqrt(criterion.spectrum.n), np.inf))


def criterion_of_sums(
    kind: type[Criterion_], spectrum: ReducedSpectrum, radius: SpectrumRadius, pooled: bool
) -> Criterion_:
    """Return a criterion on the targets of the sums, from a spectrum on the host."""
    targets = spectrum.targets()
    machine = spectrum.machine(targets, kind.weighted)
    return kind(spectrum=spectrum, targets=targets, lift=0.0, pooled=pooled, machine=machine, radius=radius)


@dataclass(frozen=True, slots=True)
class ReducedGcv(GeneralizedCrossValidation):
    """Generalised cross-validation on a reduced basis."""

    radius: SpectrumRadius

    def _lost(self, t: Array, ceilings: Array) -> Array:
        """Return what the rounding of features and sums takes from the root."""
        return lost_to_rounding(self, self.radius, t, self.spare(t))


@dataclass(frozen=True, slots=True)
class ReducedEvidence(Evidence):
    """The evidence on a reduced basis."""

    radius: SpectrumRadius

    def _unknown(self, t: Array) -> Array:
        """Return q with half of what sums, decomposition and logarithms change in F: all fall along an interval."""
        machine, squares, lambdas = self.machine, self.targets.squares, np.exp(t.ravel())
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            shares = self.radius.shares(self, machine, t)
            least = lambdas[:, None] * machine.quadratic(machine.inverses(lambdas), lambdas)
            rounded = self.radius.sums * np.square(shares.sizes).reshape(least.shape)
            summed = np.where(squares > 0.0, rounded / least, 0.0).max(axis=1) + self.radius.decomposed / lambdas
            powers = max(self.spectrum.values.size / machine.free, 1.0) * shares.sums
            logs = log_rounding(self.size, machine.mean_log_stretch(lambdas))
            unknown = shares.matrix + 0.5 * ((summed + logs).reshape(t.shape) + powers)
        return np.asarray(np.where(np.isnan(unknown), np.inf, unknown))


@dataclass(frozen=True, slots=True)
class ReducedFold(Criterion):
    r"""The mean square error on the rows of a fold, of the machine on the others; both from sums.

    ``mass`` is the weight of its rows, by which the mean is taken. ``scatter`` and ``cross`` are the scatter and the
    cross products of the fold's features about the others' mean, in the others' eigen-coordinates; ``squares`` are the
    squares of its targets about the others' mean.

    With features z of a row and the diagonal :math:`D_k` of the scatter, its error changes in the root mean square by

    .. math:: \frac{\sqrt Q}{1 - q} \Big( q \Big( \sum_k D_k \sigma_k \Big)^{1/2} + \rho \sum_k w_k D_k^{1/2}\, W
              + \frac{\phi}{\sqrt\lambda} \sum_k s_k D_k^{1/2} + \phi S \Big)

    and :math:`(\sum_k D_k / (a_k + \lambda))^{1/2}` times what sums and decomposition change, where :math:`W = (\sum_k
    w_k^2 \sigma_k)^{1/2}` and :math:`S = (\sum_k s_k^2 \sigma_k)^{1/2}` up to what features change in them.
    """

    cone: ClassVar[int] = 2
    growth: ClassVar[float] = 2.0

    spectrum: ReducedSpectrum
    radius: SpectrumRadius
    mass: float
    scatter: Array
    cross: Array
    squares: Array

    @classmethod
    def of(cls, spectrum: ReducedSpectrum, fold: Moments, radius: SpectrumRadius, *, pooled: bool = False) -> Self:
        """Build the fold from the spectrum of the other rows, on the host, and its moments about the same origin."""
        held_out = fold.on_host().shift_to(spectrum.mean, spectrum.target_mean).transform(spectrum.rotation)
        return cls(
            spectrum=spectrum,
            targets=spectrum.targets(),
            lift=0.0,
            pooled=pooled,
            radius=radius,
            mass=held_out.mass,
            scatter=held_out.second,
            cross=held_out.cross,
            squares=held_out.squares,
        )

    def sample(self, t: Array) -> Samples:
        """Compute quadratic forms of the fold's sums; what is in the ceilings falls along an interval."""
        c, g = self.targets.coordinates, self._inverses(t)
        outputs = c.shape[1]
        values, ceilings = np.empty((t.size, outputs)), np.empty((t.size, outputs))
        spread = self.scatter.diagonal() @ g
        with blas_threads(c.shape[0]):
            for k in range(outputs):
                weights = g * c[:, [k]]
                product = np.einsum("ij,ij->j", weights, self.scatter @ weights) - 2.0 * (self.cross[:, k] @ weights)
                values[:, k] = np.maximum(self.squares[k] + product, 0.0) / self.mass
                ceilings[:, k] = 2.0 * (self.squares[k] + (c[:, k] ** 2 @ g) * spread) / self.mass
        shaped, whole = self._shape(values, t), self._shape(np.broadcast_to(self.squares / self.mass, values.shape), t)
        top = np.maximum(self._shape(ceilings, t), ceilings_of_remainder(shaped, whole, self.size))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            shares = self.radius.shares(self, self.spectrum.machine(), t)
            lost = self._pool(at_most(1.0) * self._change(shares, g, t)) / math.sqrt(self.mass)
            is_known = (np.maximum(shares.matrix, shares.sums) < 0.5)[:, :, None]
            return Samples(shaped, top, np.where(is_known, lost, np.inf))

    def _change(self, shares: Shares, g: Array, t: Array) -> Array:
        """Bound the norm of the change of the errors on the fold, from every point to the next, by output."""
        radius, lambdas = self.radius, np.exp(t.ravel())
        diagonal = np.maximum(self.scatter.diagonal(), 0.0)
        explained, roots = self.spectrum.values[:, None] * g, np.sqrt(diagonal)
        reached, moved = radius.reached(explained, lambdas)
        strict = max(1.0 - radius.deviation, np.finfo(np.float64).tiny)
        direct = radius.penalty * float(radius.reach @ roots) * reached / strict / np.sqrt(lambdas) + moved
        direct += radius.features * float(radius.sizes @ roots) / lambdas
        direct += radius.features**2 * float(radius.sizes @ radius.sizes) / lambdas
        room = np.maximum(1.0 - shares.matrix, 0.5)
        moved_there = shares.matrix * np.sqrt(diagonal @ explained / lambdas).reshape(t.shape)
        direct = (direct.reshape(t.shape) + moved_there) / room
        lever = np.sqrt(diagonal @ g).reshape(t.shape)
        return np.asarray(lever[:, :, None] * shares.summed + direct[:, :, None] * shares.roots)
