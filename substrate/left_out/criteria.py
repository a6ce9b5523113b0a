r"""Criteria of model selection as analytic functions of :math:`t = \log\lambda`: values and bounds.

With B the inverse that maps y to :math:`\alpha`, :math:`Q = y^T B y` and the sums of
:mod:`~substrate.operators.spectrum`, for dense machines and those on a reduced basis alike,

- leaving blocks of rows S out (:mod:`~substrate.left_out.leave_one_out`; leave-one-out is blocks of one row),
  :math:`F = \frac1N \sum_i r_i^2` with :math:`r_S = B_{SS}^{-1} \alpha_S`, i among the rows of S that count. By
  Cauchy's inequality :math:`r_i^2 \le (B_{SS}^{-1})_{ii}\, Q`, so
  :math:`F \le Q \cdot \frac1N \sum_i (B_{SS}^{-1})_{ii}`: a falling times a rising function of t. For one row
  :math:`(B_{SS}^{-1})_{ii} = 1/B_{ii}`.
- generalised cross-validation [Golub1979]_, :math:`F = N \|\alpha\|^2 / (\operatorname{tr} V B)^2`, with weights v of
  mean one: :math:`\lambda \operatorname{tr} V B = \sum_i v_i (1 - H_{ii})`. Leverages are averaged by weight, as
  squared errors are, so a row whose weight tends to zero counts as an absent one. (Counted by number, it would have a
  whole degree of freedom, and a machine that interpolates the other rows a criterion near zero.)
- the evidence. A least-squares machine is the mean of a Gaussian process of covariance :math:`\gamma s^2 k` with noise
  :math:`s^2` and a flat prior on the m columns that are not penalised, a bias alone by default. The variance of the
  noise with the largest evidence is :math:`s^2 = \lambda Q / (N - m)`, and then

  .. math:: -2 \log p(y \mid \gamma, k) = (N - m) \big( \log (2 \pi F) + 1 \big), \qquad
            F = \frac{Q}{N - m} \prod_k (s_k + \lambda)^{1/(N-m)}

  (the restricted likelihood, [Rasmussen2006]_ section 5.4.1 with the bias integrated out; of weighted rows, up to a
  constant). So the largest evidence is the smallest F, which has the units of :math:`y^2`, like the other criteria: it
  is the variance of y for large :math:`\lambda`. Outputs that share one gamma share :math:`s^2`, and F is their mean.
- validation, :math:`F = \frac1n \sum_j (y^v_j - \bar y - \sum_k c_{jk} z_k g_k)^2` with :math:`z = U^T y`,
  :math:`g_k = 1/(s_k + \lambda)` and :math:`c_j = U^T (k(x_j) - \bar k)`; bounded by the mean of
  :math:`(|y^v_j - \bar y| + \sqrt{\kappa_j Q})^2`, :math:`\kappa_j = \sum_k c_{jk}^2 g_k`.
- folds: a weighted sum of validation criteria, each with its own spectrum.

**What errors take from a criterion.** The computed machine belongs to a matrix near the exact one. With A the centred
matrix plus :math:`\lambda`, of which B is the inverse, and :math:`A^\star` the exact one, let

.. math:: (1 - q) A \preceq A^\star \preceq (1 + q) A, \qquad \text{so that} \qquad B^\star - B = -B^\star E B, \quad
          |x^T E z| \le q\, \|A^{1/2} x\|\, \|A^{1/2} z\| .

Blocks left out: with :math:`P_i = B_{\cdot S} B_{SS}^{-1} e_i`, of which :math:`P_i^T A P_i = (B_{SS}^{-1})_{ii}`, and
the machine without the block, :math:`\alpha^{(-S)} = \alpha - B_{\cdot S}\, r_S`, whose
:math:`\alpha^{(-S) T} A \alpha^{(-S)} = Q - \alpha_S^T r_S \le Q`,

.. math:: |r_i^\star - r_i| = |P_i^{\star T} E\, \alpha^{(-S)}|
          \le q \sqrt{\tfrac{1 + q}{1 - q}} \sqrt{(B_{SS}^{-1})_{ii}\, Q} .

In the root mean square that is at most :math:`q / (1 - q)` times the root of the ceiling. On dense rows
:math:`q = \|E\| \|B\|`, and with :math:`\|P_i\|^2 \le \|B\| / B_{ii}` and
:math:`\|\alpha^{(-i)}\| \le \|\alpha\| + (\|B\| B_{ii})^{1/2} |r_i|` it is, for single rows, also at most that share of
the root of :math:`2 \|\alpha\|^2 / \|B\| \cdot \frac1N \sum_i 1/B_{ii} + 2 F`. Where the least
:math:`1 - H_{ii}` is known, it is also at most four times that share of
:math:`(\lambda Q / N)^{1/2} / \min_i (1 - H_{ii})`: the errors of all rows change by no more than
:math:`\frac{q}{1-q} (\lambda Q)^{1/2}`, and :math:`1 - H_{ii}` by a share of q. For validation, on dense rows,
it is :math:`\|E\| \|\alpha\| / (1 - q)` times the root of
:math:`\frac1n \sum_j \|B c_j\|^2`, and the rounding of the rows :math:`c_j`; for generalised cross-validation twice the
share, on a basis with :math:`Q / \lambda` in the place of :math:`\|\alpha\|^2`, which it is not below, since
:math:`\|\alpha^\star - \alpha\| \le \frac{q}{1-q} \sqrt{Q / \lambda}` and
:math:`\operatorname{tr} V B^\star \le \operatorname{tr} V B / (1 - q)`; and for the evidence, of which
:math:`F^\star \ge F (1 - q) / (1 + q)`. There the product of the eigenvalues is rounded too. A falling
factor at the left end of an interval and a rising one at its right end bound all of it.

Cauchy's bound holds term by term for complex lambda too (:mod:`~substrate.select.polynomial_minimum`), with
:math:`\cos(\theta/2)^{-4}` for ratios, :math:`\cos(\theta/2)^{-2}` without, and one power of it for the evidence. For
blocks: turned by half of its angle, :math:`B_{SS}(z)` has a real part H of at least
:math:`\cos(\theta/2)\, B_{SS}(|z|)`, and with :math:`D = \operatorname{diag}(e^{i\theta/2} g)`,
:math:`A = U_S (\operatorname{Re} D)^{1/2}`, :math:`D = (\operatorname{Re} D)^{1/2} (I + i T) (\operatorname{Re}
D)^{1/2}`,

.. math:: r = (A (I + i T) A^T)^{-1} A (I + i T) w, \qquad |r_i|^2 \le (H^{-1})_{ii}\, \|(I + i T) w\|^2
          \le \cos(\theta/2)^{-3}\, (B_{SS}^{-1})_{ii}(|z|)\, Q(|z|),

since :math:`A = H^{1/2} V^T`, V with orthonormal columns, and :math:`I + i V^T T V` shortens no vector.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from substrate.arrays import Array, blas_threads, on_device_of
from substrate.errors import DataError
from substrate.left_out.leave_one_out import LeftOutBlocks, sum_blocks, sum_single_rows
from substrate.numbers import at_most, relative_rounding
from substrate.operators.basis_spectrum import ReducedSpectrum
from substrate.operators.spectrum import LeastSquares, Spectrum, Targets

__all__ = [
    "OF_SPECTRUM",
    "Criterion",
    "CriterionSum",
    "Evidence",
    "GeneralizedCrossValidation",
    "LeaveOneOut",
    "LeftOutCriterion",
    "Samples",
    "Spectral",
    "ValidationCriterion",
    "ceilings_of_remainder",
    "following",
    "log_evidence",
]


class Samples(NamedTuple):
    """Values, ceilings and losses of shape (intervals, points, outputs).

    A ceiling, and what errors take from the root of the exact criterion at most, hold from a point to the next.
    """

    values: Array
    ceilings: Array
    lost: Array


#: A spectrum, dense or on a reduced basis, for criteria and the range of a search.
Spectral = Spectrum | ReducedSpectrum


@dataclass(frozen=True, slots=True)
class Criterion(ABC):
    """A criterion on one spectrum; ``pooled`` averages outputs that share one gamma.

    ``cone`` is the power of 1/cos(theta/2) in the bound on an ellipse, ``growth`` the power of e^x by which the ceiling
    may grow at distance x outside an interval. lambda is counted from ``lift`` on, zero for a positive semi-definite
    matrix: :math:`\\lambda = e^t + \\text{lift}`. ``weighted`` states that traces are by the weights of the rows.
    """

    cone: ClassVar[int] = 4
    growth: ClassVar[float] = 1.0
    weighted: ClassVar[bool] = False

    spectrum: Spectral
    targets: Targets
    lift: float
    pooled: bool

    @classmethod
    def of(cls, spectrum: Spectral, Y: Any = None, *, pooled: bool = False) -> Self:
        """Return the criterion on the targets Y, one column per output; the spectrum of a reduced basis has its own."""
        return cls(spectrum, spectrum.targets(Y), spectrum.lift, pooled)

    @property
    def spectra(self) -> tuple[Spectral, ...]:
        """The spectrum, as a sum of criteria has several."""
        return (self.spectrum,)

    @property
    def size(self) -> int:
        """Terms in a sum, for its rounding error."""
        return self.spectrum.n

    @property
    def outputs(self) -> int:
        """The number of criteria, one per gamma to choose."""
        return 1 if self.pooled else self.targets.outputs

    @property
    def unit(self) -> float:
        """The unit of y; values are in its square."""
        return self.targets.unit

    @property
    def spread(self) -> Array:
        """The mean square of the centred targets, in the unit's square, one number per criterion."""
        squares = self.targets.squares / self.spectrum.mass
        return np.asarray(squares.mean(keepdims=True) if self.pooled else squares)

    @property
    def machine(self) -> LeastSquares:
        """The machine in the coordinates of its spectrum."""
        return self.spectrum.machine(self.targets, self.weighted)

    @abstractmethod
    def sample(self, t: Array) -> Samples:
        """Evaluate at points t of shape (intervals, points), ascending in each interval."""

    def _unknown(self, t: Array) -> Array:
        """Return the relative error q at the points; a lift beyond the lift of the spectrum only makes B smaller."""
        return np.asarray(self.spectrum.decomposition_error(np.exp(t) + self.spectrum.lift))[:, :, None]

    def _lost(self, t: Array, ceilings: Array, lever: Any = 0.0, fitted: Any = 0.0) -> Array:
        """Return what errors take from the root from each point on: q / (1 - q) of the root of ``ceilings``, what the
        rounding of sums takes, and all of it from q = 1/2 on.

        ``lever`` is by how much a change of the errors of all rows changes the root, and ``fitted`` bounds the square
        of their norm, where leverages count.
        """
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # infinite where nothing is known
            q, sums = self._unknown(t), self.spectrum.sums_error(np.exp(t.ravel()))
            lost = at_most(1.0) * q / (1.0 - q) * np.sqrt(ceilings)
            if sums is not None:
                share = sums[0].reshape(*t.shape, 1)
                change = np.sqrt(self._shape(np.square(sums[1]), t))
                lost = lost + at_most(2.0) * lever * (change + share * lever * np.sqrt(self.size * fitted))
                q = np.maximum(q, share)
            return np.asarray(np.where(q < 0.5, lost, np.inf))

    def _inverses(self, t: Array) -> Array:
        values = self.spectrum.values + (self.lift - self.spectrum.lift)
        inverses: Array = 1.0 / (values[:, None] + on_device_of(values, np.exp(t.ravel())))
        return inverses

    def _shape(self, values: Array, t: Array) -> Array:
        """Reshape (points, outputs) to (intervals, points, outputs), outputs averaged where they share a gamma."""
        values = values.mean(axis=1, keepdims=True) if self.pooled else values
        return values.reshape(*t.shape, -1)


def following(sums: Array, t: Array) -> Array:
    """Return sums at the next point of the interval, of shape (intervals, points, outputs); the last one has none."""
    sums = sums.reshape(*t.shape, -1)
    return np.concatenate([sums[:, 1:], sums[:, -1:]], axis=1)


def ceilings_of_remainder(values: Array, whole: Array, size: int) -> Array:
    """Return ceilings for which the slack of a search covers the rounding of ``whole``, of which values are the
    remainder.
    """
    floor = np.finfo(np.float64).tiny
    with np.errstate(over="ignore"):  # of a value that vanishes nothing is known
        return np.asarray(np.square(whole / (size + 16.0)) / np.maximum(values, floor))


@dataclass(frozen=True, slots=True)
class LeftOutCriterion(Criterion):
    """The mean square left-out residual, from sums over the rows."""

    def sample(self, t: Array) -> Samples:
        """Sum over the rows, under the ceiling of Cauchy's inequality."""
        g = self._inverses(t)
        quadratic = self.machine.quadratic(g, np.exp(t.ravel()))
        squares, reciprocal, rounded, nearer, lever = self._sum_left_out(g, quadratic, t)
        ceilings = self._shape(quadratic, t) * following(reciprocal / self.size, t)
        lost = self._lost(t, np.fmin(ceilings, nearer), lever, self._next_fitted(quadratic, t))
        ceilings = np.maximum(ceilings, self._shape(rounded * np.ones_like(quadratic), t))
        return Samples(self._shape(squares / self.size, t), ceilings, lost)

    def _next_fitted(self, quadratic: Array, t: Array) -> Array:
        """Return lambda Q at the next point."""
        return following(self._shape(quadratic, t) * np.exp(t)[:, :, None], t)

    @abstractmethod
    def _sum_left_out(self, g: Array, quadratic: Array, t: Array) -> tuple[Array, Array, Any, Any, Any]:
        """Return sums over the rows that count, on the host, one row per point: of r_i^2, one column per output, and
        of (B_SS^-1)_ii; a ceiling for which the slack of a search covers the rounding of the values; a ceiling that
        may be nearer where the error of the matrix counts; and by how much a change of the errors of all rows changes
        the root.

        ``quadratic`` is Q, one column per output.
        """


@dataclass(frozen=True, slots=True)
class LeaveOneOut(LeftOutCriterion):
    """The mean square left-out residual of a dense machine: every row alone, or with the rows of its ``blocks``."""

    spectrum: Spectrum
    blocks: LeftOutBlocks | None = None

    @classmethod
    def of_blocks(cls, spectrum: Spectrum, Y: Any, blocks: LeftOutBlocks, *, pooled: bool = False) -> Self:
        """Return the criterion with these blocks left out, on the targets Y, one column per output."""
        if blocks.n != spectrum.n:
            raise TypeError(f"blocks of {blocks.n} rows do not divide {spectrum.n} rows")
        single = cls.of(spectrum, Y, pooled=pooled)
        return single if blocks.largest == 1 else replace(single, blocks=blocks)

    def _sum_left_out(self, g: Array, quadratic: Array, t: Array) -> tuple[Array, Array, Any, Any, Any]:
        """Sum by products with the basis and with products of its rows, batch by batch."""
        basis, z = self.spectrum.basis, self.targets.coordinates
        if self.blocks is not None:
            squares, reciprocal, rounding = sum_blocks(basis, g, z, np.sqrt(quadratic), self.blocks)
            return squares, reciprocal, rounding / self.size, np.inf, 0.0
        squares, reciprocal = sum_single_rows(basis, g, z)
        size = (np.exp(t) + float(self.spectrum.values[0]))[:, :, None]
        grown, alpha = following(size, t) / size, self._shape(self.machine.support_squares(g, np.exp(t.ravel())), t)
        nearer = size * alpha * following(reciprocal / self.size, t) + grown * self._shape(squares / self.size, t)
        return squares, reciprocal, 0.0, 2.0 * grown**2 * nearer, 0.0


@dataclass(frozen=True, slots=True)
class GeneralizedCrossValidation(Criterion):
    """Generalised cross-validation: every leverage replaced by their mean, by weight."""

    growth: ClassVar[float] = 2.0
    weighted: ClassVar[bool] = True

    def sample(self, t: Array) -> Samples:
        """Sample by sums over the spectrum only."""
        g, lambdas, machine = self._inverses(t), np.exp(t.ravel()), self.machine
        trace, column = machine.trace(g, lambdas), lambdas[:, None]
        rising = (machine.rows / trace**2).reshape(*t.shape, 1)
        falling, whole = self._shape(machine.support_squares(g, lambdas), t), machine.whole / np.square(column)
        values, ahead = falling * rising, following(rising, t)
        ceilings = np.maximum(falling * ahead, ceilings_of_remainder(values, self._shape(whole, t) * rising, self.size))
        lam, quadratic = np.exp(t)[:, :, None], self._shape(machine.quadratic(g, lambdas), t)
        above = falling if machine.is_whole else quadratic / lam
        lost = self._lost(t, 4.0 * above * ahead, np.sqrt(rising) / lam, following(quadratic * lam, t))
        return Samples(values, ceilings, lost)


@dataclass(frozen=True, slots=True)
class Evidence(Criterion):
    """F, whose smallest value is at the largest evidence."""

    cone: ClassVar[int] = 1

    def sample(self, t: Array) -> Samples:
        """Sample by sums over the spectrum only."""
        g, lambdas, machine = self._inverses(t), np.exp(t.ravel()), self.machine
        rising = (lambdas * np.exp(machine.mean_log_stretch(lambdas))).reshape(*t.shape, 1)
        falling = self._shape(machine.quadratic(g, lambdas) / machine.free, t)
        values, whole = falling * rising, self._shape(machine.whole / lambdas[:, None] / machine.free, t) * rising
        ceilings = np.maximum(falling * following(rising, t), ceilings_of_remainder(values, whole, self.size))
        return Samples(values, ceilings, self._lost(t, ceilings))

    def _unknown(self, t: Array) -> Array:
        """Return q with half of what errors of the targets, and of the eigenvalues in their product, change in F: all
        fall along an interval.
        """
        machine, lambdas = self.machine, np.exp(t.ravel())
        count = max(self.spectrum.values.shape[0] / machine.free, 1.0)  # the product has a root of that many
        changed = relative_rounding(2.0 * (self.size + 16.0)) * (1.0 + machine.mean_log_stretch(lambdas))
        if (sums := self.spectrum.sums_error(lambdas)) is not None:
            least = lambdas[:, None] * machine.quadratic(machine.inverses(lambdas), lambdas)
            relative = np.where(self.targets.squares > 0.0, sums[2] / least, 0.0)
            changed = changed + count * sums[0] + relative.max(axis=1)
        q = super(Evidence, self)._unknown(t) * (1.0 + 0.5 * count) + 0.5 * changed.reshape(*t.shape, 1)
        return np.where(np.isnan(q), np.inf, q)


def log_evidence(criterion: Array, n: int, unpenalised: int = 1) -> Array:
    """Return log p(y) of n equally weighted rows, from the criterion F; ``unpenalised`` columns, a bias alone by
    default.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(-0.5 * (n - unpenalised) * (np.log(2.0 * np.pi * np.asarray(criterion)) + 1.0))


#: The criteria of a dense spectrum, by name.
OF_SPECTRUM: Mapping[str, type[Criterion]] = {
    "loo": LeaveOneOut,
    "gcv": GeneralizedCrossValidation,
    "evidence": Evidence,
}


@dataclass(frozen=True, slots=True)
class ValidationCriterion(Criterion):
    """The mean square error on other points: ``directions`` are c, ``offsets`` are y^v - mean y in units of y.

    Both are multiplied by the roots of the weights of these points, if any.

    :equation [Pelckmans2005]_ (3): the validation error as a function of gamma
    """

    cone: ClassVar[int] = 2
    growth: ClassVar[float] = 2.0

    spectrum: Spectrum
    directions: Array
    offsets: Array
    rounding: float

    @classmethod
    def of_rows(
        cls,
        spectrum: Spectrum,
        Y: Array,
        rows: Array,
        Y_val: Array,
        *,
        pooled: bool = False,
        rounding: float = 0.0,
        weights: Array | None = None,
        linear: Array | None = None,
    ) -> Self:
        """Build the criterion from targets and the rows of kernel values of the validation points against the training
        points.

        ``rounding`` bounds, root mean square over the validation points, the error of a row, as a length; ``weights``
        are the weights of the validation points in the mean, ``linear`` their columns of a linear part, less their
        center.
        """
        if rows.shape[0] == 0:
            raise DataError("the validation set is empty; give at least one validation row")
        targets = spectrum.targets(Y)
        with blas_threads(spectrum.n):
            Z = spectrum.border.matrix(rows) if linear is None else spectrum.border.line(linear)
            centred = rows - Z @ spectrum.means
            directions = (centred if spectrum.root is None else centred * spectrum.root) @ spectrum.basis
        targets_val = Y_val[:, None] if Y_val.ndim == 1 else Y_val
        offsets = (targets_val / targets.unit - targets.mean) - Z @ targets.fit
        if weights is not None:  # a weighted mean of squares is a plain one of errors times the roots of the weights
            roots = np.sqrt(weights / weights.mean())
            directions, offsets = roots[:, None] * directions, roots[:, None] * offsets
        return cls(
            spectrum=spectrum,
            targets=targets,
            lift=spectrum.lift,
            pooled=pooled,
            directions=directions,
            offsets=offsets,
            rounding=rounding,
        )

    def sample(self, t: Array) -> Samples:
        """Compute three matrix products and one per output; what is in the ceilings falls along an interval."""
        z, g = self.targets.coordinates, self._inverses(t)
        values, ceilings = np.empty((t.size, z.shape[1])), np.empty((t.size, z.shape[1]))
        with blas_threads(self.spectrum.n):
            squared = np.square(self.directions)
            kappa, lengths = squared @ g, np.mean(squared @ np.square(g), axis=0)
            for k in range(z.shape[1]):
                errors = self.offsets[:, [k]] - self.directions @ (g * z[:, [k]])
                values[:, k] = np.mean(errors**2, axis=0)
                sizes = np.abs(self.offsets[:, [k]]) + np.sqrt(kappa * (z[:, k] ** 2 @ g))
                ceilings[:, k] = np.mean(sizes**2, axis=0)
        size, alpha = following(np.exp(t) + float(self.spectrum.values[0]), t), self._shape(np.square(g).T @ z**2, t)
        lost = self._lost(t, size**2 * lengths.reshape(*t.shape, 1) * alpha)
        lost = lost + at_most(2.0) * self.rounding * np.sqrt(alpha)  # 1/(1 - q) is two at most
        return Samples(self._shape(values, t), self._shape(ceilings, t), lost)


@dataclass(frozen=True, slots=True)
class CriterionSum:
    """A weighted sum of criteria with one common gamma per output: folds, or machines on different rows.

    Lambda is counted from the same point on in all parts, and values are in the square of the largest ``unit``.
    """

    criteria: tuple[Criterion, ...]
    weights: tuple[float, ...]
    spectra: tuple[Spectral, ...]
    size: int
    outputs: int
    lift: float
    cone: int
    growth: float
    unit: float
    spread: Array

    @classmethod
    def of(cls, criteria: Sequence[Criterion], weights: Sequence[float]) -> Self:
        """Add up criteria."""
        lift, unit = max(part.lift for part in criteria), max(part.unit for part in criteria)
        return cls(
            criteria=tuple(replace(part, lift=lift) for part in criteria),
            weights=tuple(weights),
            spectra=tuple(part.spectrum for part in criteria),
            size=max(part.size for part in criteria),
            outputs=criteria[0].outputs,
            lift=lift,
            cone=max(part.cone for part in criteria),
            growth=max(part.growth for part in criteria),
            unit=unit,
            spread=np.max([part.spread * (part.unit / unit) ** 2 for part in criteria], axis=0),
        )

    def sample(self, t: Array) -> Samples:
        """Return the sums of values, of ceilings, and of squares of what is lost: all errors are one vector."""
        values, ceilings, squares = (np.zeros((*t.shape, self.outputs)) for _ in range(3))
        for criterion, weight in zip(self.criteria, self.weights, strict=True):
            scale, samples = weight * (criterion.unit / self.unit) ** 2, criterion.sample(t)
            values += scale * samples.values
            ceilings += scale * samples.ceilings
            squares += scale * samples.lost**2
        return Samples(values, ceilings, np.sqrt(squares))
