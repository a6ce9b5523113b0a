r"""Criteria of model selection on a reduced basis, as analytic functions of :math:`t = \log\lambda`.

A reduced basis is a dense LS-SVM with the kernel matrix :math:`Z Z^T`, of low rank: its spectrum is that of
:mod:`~substrate.reduced.spectrum` and otherwise zero, so generalised cross-validation and the evidence are those of
:mod:`~substrate.least_squares.evidence`, by the sums of :mod:`~substrate.least_squares.coordinates`, and the bounds of
:mod:`~substrate.least_squares.criteria` apply. Leave-one-out (:mod:`~substrate.reduced.left_out`) needs one pass over
the rows for all points of a call; generalised cross-validation and folds need none, since the sums of a fold are
subtracted; with features d of a fold's row, Cauchy's inequality bounds :math:`(\sum_k d_k c_k g_k)^2 \le \sum_k d_k^2
g_k \sum_k c_k^2 g_k`. Sums and decompositions of a device are copied to the host once, and searched there.

Kernel values, features, sums and the decomposition are rounded. With :math:`H = A + \lambda`, features
:math:`Z^\star = Z + \Delta`, :math:`E = T^T K_{SS} T - I` and :math:`\delta = \|\Delta H^{-1/2}\|`, one number q bounds
the relative change of H,

.. math:: (1 - q) H \preceq H^\star \preceq (1 + q) H, \qquad
          q = 2 \delta + \delta^2 + \|E\| + \eta\, \|H^{-1/2} \sigma\|^2 + \|\Delta A\| / \lambda .

Most of it is in directions that hardly matter. The entries of the penalty and of the sums are off by
:math:`D_{jk}`, at most :math:`\lambda \rho\, w_j w_k + \eta\, \sigma_j \sigma_k` with :math:`w = |Q^T| |T^T| s` for the
roots s of k(z, z), and since an inverse is convex, :math:`(H + D)^{-1} \succeq H^{-1} - H^{-1} D H^{-1}`, they lower a
leverage :math:`z^T H^{-1} z` by no more than

.. math:: z^T H^{-1} D H^{-1} z \le (1 + q) \sum_k (\lambda \rho\, w_k^2 + \eta\, \sigma_k^2)\,
          \frac{a_k + q' \lambda}{(a_k + \lambda)^2} ,

by Cauchy's inequality and :math:`z z^T \preceq Z^T Z \preceq A + q' H`, q' the part of q that sums and decomposition
have; features change it by at most twice their part of q over 1 - q. The gradient of the exact machine at the computed
weights u consists of roundings alone, so that the errors of the rows change by at most

.. math:: \|e^\star - e\| \le \frac{1 + \delta}{1 - q} \big( \delta \|e\| + 2 \|\Delta u\| + \|H^{-1/2} D u\| + \ldots
          \big) , \qquad \|H^{-1/2} D u\| \le \lambda \rho\, \|H^{-1/2} w\|\, w^T |u| + \ldots

The root of a criterion keeps a share of itself less a number (:class:`substrate.least_squares.criteria.Samples`).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Self, TypeVar

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import at_most, eigenvalue_rounding, sum_rounding
from substrate.least_squares.coordinates import LeastSquares
from substrate.least_squares.criteria import Criterion, OfMachine, Samples, following
from substrate.least_squares.evidence import Evidence, GeneralizedCrossValidation, ceiling_of_remainder
from substrate.namespaces import namespace_of
from substrate.reduced.moments import Moments
from substrate.reduced.rows import BasisValues, KernelRows
from substrate.reduced.solution import Penalty
from substrate.reduced.spectrum import ReducedSpectrum
from substrate.streaming.source import Block
from substrate.streaming.tally import Tally
from substrate.threads import blas_threads

__all__ = [
    "ReducedEvidence",
    "ReducedFold",
    "ReducedGcv",
    "RowSizes",
    "SpectrumRadius",
    "criterion_of_sums",
    "less_rounding",
    "sizes_of_rows",
]

#: A criterion of a machine on a reduced basis.
Criterion_ = TypeVar("Criterion_", "ReducedGcv", "ReducedEvidence")


@dataclass(frozen=True, slots=True)
class RowSizes(Tally):
    """The sum of v k(x, x) over rows, and the largest relative error of a kernel value."""

    diagonal: float
    rounding: Annotated[float, max]


@dataclass(frozen=True, slots=True)
class RowSizesOfLeaf:
    """The sizes of the rows of a leaf; no kernel value is computed."""

    values: BasisValues

    def __call__(self, blocks: Iterable[Block]) -> RowSizes:
        """Accumulate over its micro-blocks."""
        total = RowSizes(0.0, 0.0)
        for block in blocks:
            diagonal = self.values.diagonal(block)
            xp = namespace_of(diagonal)
            diagonal = xp.clip(diagonal, min=0.0)
            weighted = diagonal if block.weights is None else block.weights * diagonal
            total = total + RowSizes(float(xp.sum(weighted)), self.values.rounding(block.X))
        return total


def sizes_of_rows(rows: KernelRows) -> RowSizes:
    """Return the sizes of all rows, in one inexpensive pass."""
    sizes: RowSizes = rows.sums(RowSizesOfLeaf(rows.values))
    return sizes


@dataclass(frozen=True, slots=True)
class Shares:
    """The rounding of a spectrum at some points, which are the columns of ``inverses``, 1/(a + lambda).

    ``relative`` is q, ``features`` is delta, ``decomposed`` the part of q that comes from the decomposition,
    ``products`` the share that the products with the targets lose; ``fitted`` is the norm of Delta u, ``pull`` that of
    H^{-1/2} D u and ``bent`` bounds u'D u, one column per output. From every point to the end of its interval; ``lift``
    bounds what D takes from a leverage anywhere in the interval, ``traced`` what it takes from log |H| beside the
    determinant of the penalty.
    """

    relative: Array
    features: Array
    decomposed: Array
    products: Array
    fitted: Array
    pull: Array
    bent: Array
    lift: Array
    traced: Array


@dataclass(frozen=True, slots=True)
class SpectrumRadius:
    r"""Bounds on the rounding of a spectrum.

    ``features`` times the ``sizes`` :math:`|Q^T T^T| k^{1/2}` bounds the lengths of the columns of :math:`\Delta` in
    eigen-coordinates, ``deviation`` the norm of :math:`E = T^T K_{SS} T - I`, ``penalty`` is :math:`\rho` and
    ``reach`` w, ``sums`` is :math:`\eta`, ``lengths`` are :math:`|Q^T| \sigma`, and ``decomposed`` bounds the error of
    the decomposition, and ``trace`` is the sum of the eigenvalues.
    """

    features: float
    sizes: Array
    deviation: float
    penalty: float
    reach: Array
    sums: float
    lengths: Array
    decomposed: float
    trace: float

    @classmethod
    def of(cls, spectrum: ReducedSpectrum, rows: KernelRows, penalty: Penalty, sizes: RowSizes) -> Self:
        """Bound the rounding of a spectrum of all rows, or of some, on the host."""
        T, Q = spectrum.features.transform, spectrum.rotation
        (n, r), spread, reach = T.shape, math.sqrt(sizes.diagonal), penalty.sizes @ np.abs(T)
        return cls(
            features=at_most(1.0) * (sizes.rounding + sum_rounding(n + 4)) * spread,
            sizes=penalty.sizes @ np.abs(T @ Q),
            deviation=penalty.deviation,
            penalty=at_most(1.0) * penalty.share,
            reach=reach @ np.abs(Q),
            sums=at_most(1.0) * sum_rounding(3 * rows.terms + r + 8),
            lengths=spectrum.lengths @ np.abs(Q),
            decomposed=eigenvalue_rounding(r) * float(spectrum.values.max(initial=0.0)),
            trace=float(np.maximum(spectrum.values, 0.0).sum()),
        )

    @property
    def of_matrix(self) -> float:
        """The same as a relative error of the entries of Z Z', whose trace is the sum of the eigenvalues."""
        length = min(float(np.linalg.norm(self.lengths)), math.sqrt(self.trace))
        share = self.features * float(np.linalg.norm(self.sizes)) / length if length > 0.0 else 0.0
        return at_most(2.0 * share + share**2 + self.deviation)

    def shares(self, g: Array, cross: Array, t: Array) -> Shares:
        """Return the rounding at points t, with the inverses g and the products with the targets."""
        lambdas, w, s = np.exp(t), np.square(self.reach), np.square(self.lengths)
        first, damped = g.reshape(-1, *t.shape)[:, :, 0], g.reshape(-1, *t.shape) * lambdas
        last = damped[:, :, -1]  # rises with lambda; a/(a + lambda) falls
        explained = np.maximum(1.0 - damped[:, :, 0], 0.0) + sum_rounding(4)
        moved = (self.features * np.sqrt(np.square(self.sizes) @ g)).reshape(t.shape)
        summed, decomposed = (self.sums * (s @ g)).reshape(t.shape), self.decomposed / lambdas
        q = at_most(1.0) * (2.0 * moved + moved**2 + summed + self.deviation + decomposed)
        weights = [np.abs(g * column[:, None]) for column in cross.T]
        fitted, of_penalty, of_sums = (
            np.stack([(sizes @ each).reshape(t.shape) for each in weights], axis=2)
            for sizes in (self.features * self.sizes, self.reach, self.lengths)
        )
        roots = np.sqrt(summed * self.sums)
        steepest = self.penalty * np.sqrt(following(lambdas * np.tensordot(w, damped, 1), t))
        within = explained + (summed + decomposed)[:, :1].T * last
        lift = self.penalty * (w @ (last * within)) + self.sums * (s @ (first * within))
        with np.errstate(divide="ignore", invalid="ignore"):
            second = self.deviation**2 / np.maximum(1.0 - q[:, 0], 0.5)
        return Shares(
            relative=q,
            features=moved,
            decomposed=decomposed,
            products=roots,
            fitted=fitted,
            pull=steepest[:, :, None] * of_penalty + roots[:, :, None] * of_sums,
            bent=self.penalty * lambdas[:, -1:, None] * of_penalty**2 + self.sums * of_sums**2,
            lift=at_most(1.0) * (1.0 + q[:, 0]) * lift,
            traced=self.penalty * (w @ explained) + second + 2.0 * summed[:, 0],
        )


def _change_of_errors(machine: LeastSquares, squares: Array, shares: Shares, t: Array) -> Array:
    """Bound (1 - q) times the norm of the change of e, from every point to the next, one number per output."""
    lambdas = np.exp(t.ravel())
    quadratic = lambdas[:, None] * machine.quadratic(machine.inverses(lambdas), lambdas)  # rises with lambda
    grown = np.sqrt(np.stack([following(column, t) for column in quadratic.T], axis=2))
    change = (shares.features + shares.decomposed)[:, :, None] * grown + 2.0 * shares.fitted + shares.pull
    change += shares.products[:, :, None] * np.sqrt(squares)
    return np.asarray((1.0 + shares.features)[:, :, None] * change)


def less_rounding(
    criterion: OfMachine, radius: SpectrumRadius, samples: Samples, t: Array, spare: Array, lifted: float = 1.0
) -> Samples:
    """Return samples of a criterion of left-out errors less what rounding takes from its root.

    ``spare`` is the least 1 - h of all rows, or its mean where a criterion replaces all of them by that; ``lifted`` is
    the share of what the features change in a leverage that the mean of all may change.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        shares = radius.shares(criterion._inverses(t), criterion.targets.coordinates, t)
        q, moved = shares.relative, shares.features[:, 0]
        sizes = _change_of_errors(criterion.machine, criterion.targets.squares, shares, t)
        room = np.maximum(1.0 - q, 0.5)
        share = 1.0 / (room * spare * math.sqrt(criterion.spectrum.n))
        lift = shares.lift + 2.0 * lifted * (2.0 * moved + moved**2 + shares.decomposed[:, 0]) / room[:, 0]
        kept, shifts = criterion._shrink_and_shift(q, share, sizes, 1.0 / (1.0 + lift / spare.min(axis=1)))
    return replace(samples, shrink=kept, shifts=shifts)


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

    def sample(self, t: Array) -> Samples:
        """Sample by sums over the spectrum only, less their rounding."""
        samples = GeneralizedCrossValidation.sample(self, t)
        # the mean leverage of n rows without weights is off by q r/n, r the directions
        lifted = 1.0 if self.machine.masses is not None else self.spectrum.values.size / self.spectrum.n
        return less_rounding(self, self.radius, samples, t, self.spare(t), lifted)


@dataclass(frozen=True, slots=True)
class ReducedEvidence(Evidence):
    """The evidence on a reduced basis."""

    radius: SpectrumRadius

    def sample(self, t: Array) -> Samples:
        """Sample by sums over the spectrum only, less their rounding."""
        samples, first, squares = Evidence.sample(self, t), np.exp(t[:, 0]), self.targets.squares
        radius, machine, r = self.radius, self.machine, self.spectrum.values.size
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            shares = radius.shares(self._inverses(t), self.targets.coordinates, t)
            least = first[:, None] * machine.quadratic(machine.inverses(first), first)
            q, moved, decomposed, products, fitted = (
                part[:, 0]
                for part in (shares.relative, shares.features, shares.decomposed, shares.products, shares.fitted)
            )
            room = np.maximum(1.0 - q, 0.5)
            slope = 2.0 * fitted + shares.pull.max(axis=1) + products[:, None] * np.sqrt(squares)
            slope = (moved + decomposed)[:, None] + slope / np.sqrt(least)
            lost = (shares.bent.max(axis=1) + (radius.sums + 2.0 * products)[:, None] * squares) / least
            lost += 2.0 * fitted / np.sqrt(least) + decomposed[:, None] + slope**2 / room[:, None]
            lost = np.where(squares > 0.0, lost, 0.0).max(axis=1)
            features = np.log1p(-(2.0 * moved + moved**2 + decomposed) / room)
            kept = (1.0 - lost) * np.exp((r * features - shares.traced) / machine.free)
        share = np.sqrt(np.where((kept > 0.0) & (q < 0.5), kept, 0.0))
        return replace(samples, shrink=share[:, None] * samples.shrink)


@dataclass(frozen=True, slots=True)
class ReducedFold(Criterion):
    """The mean square error on the rows of a fold, of the machine on the others; both from sums.

    ``mass`` is the weight of its rows, by which the mean is taken. ``scatter`` and ``cross`` are those of the fold's
    features about the others' mean, in the others' eigen-coordinates; ``squares`` those of its targets about the
    others' mean.
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
        top = np.maximum(top, ceiling_of_remainder(shaped, whole / self.mass, self.size))
        with np.errstate(over="ignore", invalid="ignore"):
            shares = self.radius.shares(g, c, t)
            lever = 1.0 + np.sqrt(self.scatter.diagonal() @ g).reshape(t.shape)
            sizes = _change_of_errors(self.spectrum.machine(), self.targets.squares, shares, t)
            share = lever / (np.maximum(1.0 - shares.relative, 0.5) * math.sqrt(self.mass))
            return Samples(shaped, top, *self._shrink_and_shift(shares.relative, share, sizes, np.ones(t.shape[0])))
