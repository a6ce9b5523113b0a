r"""Criteria of model selection as analytic functions of :math:`t = \log\lambda`: values and bounds.

With :math:`g_k = 1/(s_k + \lambda)`, :math:`z = U^T y` and the notation of :mod:`~substrate.least_squares.spectrum`,

- leave-one-out, :math:`F = \frac1N \sum_i (\alpha_i / B_{ii})^2`. By Cauchy's inequality
  :math:`\alpha_i^2 \le B_{ii} Q` with :math:`Q = \sum_k z_k^2 g_k`, so :math:`F \le Q \cdot \frac1N \sum_i 1/B_{ii}`: a
  falling times a rising function of t.
- generalised cross-validation [Golub1979]_, :math:`F = N \sum_k z_k^2 g_k^2 / (\sum_k m_k g_k)^2`, in O(N), with
  :math:`m_k = \sum_i v_i u_{ik}^2` for weights v of mean one, and one without weights:
  :math:`\lambda \sum_k m_k g_k = \sum_i v_i (1 - H_{ii})`. Leverages are averaged by weight, as squared errors are, so
  a row whose weight tends to zero counts as an absent one. (Counted by number, it would have a whole degree of freedom,
  and a machine that interpolates the other rows a criterion near zero.)
- validation, :math:`F = \frac1n \sum_j (y^v_j - \bar y - \sum_k c_{jk} z_k g_k)^2` with
  :math:`c_j = U^T (k(x_j) - \bar k)`; bounded by the mean of :math:`(|y^v_j - \bar y| + \sqrt{\kappa_j Q})^2`,
  :math:`\kappa_j = \sum_k c_{jk}^2 g_k`.
- folds: a weighted sum of validation criteria, each with a spectrum of its own.

The relative error q of the decomposition (:mod:`~substrate.least_squares.spectrum_error`) moves the root of a criterion
from r to at least :math:`\phi\, r - w` (``shrink`` and ``shifts`` of :class:`Samples`). With B the computed inverse and
:math:`B^\star` the exact one, :math:`B^\star - B = B^\star E B`, :math:`q = \|E\| \|B\|` and :math:`\|B^\star x\| \le
\|B x\| / (1 - q)`:

- leave-one-out: :math:`|B^\star_{ii} / B_{ii} - 1| \le \theta_i = \|E\| \|B e_i\|^2 / ((1-q) B_{ii}) \le q/(1-q)` and
  :math:`|\alpha^\star_i - \alpha_i| \le \|E\| \|B e_i\| \|\alpha\| / (1-q)`, so
  :math:`\phi = 1 / (1 + \max_i \theta_i)` and
  :math:`w^2 = (\|E\| \|\alpha\| / (1 - 2q))^2 \cdot \frac1N \sum_i \|B e_i\|^2 / B_{ii}^2`;
- generalised cross-validation: :math:`\|\alpha^\star\| \ge \|\alpha\| / (1 + q)` and, since
  :math:`B^\star \preceq B / (1 - q)`, :math:`\sum_i v_i B^\star_{ii} \le \sum_i v_i B_{ii} / (1 - q)`, so
  :math:`\phi = (1 - q)/(1 + q)`, :math:`w = 0`;
- validation: :math:`\phi = 1` and, c_j the centred kernel row of a point,
  :math:`w^2 = (\|E\| \|\alpha\| / (1 - q))^2 \cdot \frac1n \sum_j \|B c_j\|^2`, and the rounding of those rows.

All factors fall in lambda but :math:`1/B_{ii}`, which rises, and :math:`\|B e_i\|^2 / B_{ii}` falls too, so between two
points the left one bounds the former and the right one the latter.

Cauchy's bound holds term by term for complex lambda too (:mod:`~substrate.search.polynomial_minimum`), with
:math:`\cos(\theta/2)^{-4}` for ratios and :math:`\cos(\theta/2)^{-2}` without.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import at_most, relative_rounding
from substrate.kernels.base import blocks_beside
from substrate.least_squares.coordinates import LeastSquares
from substrate.least_squares.kernel_slope import Response, Slope, left_out_response
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.spectrum import Spectrum, Targets
from substrate.namespaces import is_device_array, namespace_of, on_device_of, paired_sums, to_numpy, zeros_beside
from substrate.threads import blas_threads

__all__ = [
    "Criterion",
    "LeaveOneOut",
    "LeftOutCriterion",
    "OfMachine",
    "Samples",
    "Spectral",
    "between",
    "following",
    "unknown_at",
]


@dataclass(frozen=True, slots=True)
class Samples:
    """Values of shape (intervals, points, outputs), and a ceiling of shape (intervals, outputs).

    On an interval the exact criterion's root is at least ``shrink``, of the shape of the ceiling, times that of the
    values, less ``shifts``, of the shape of the values, each of which holds from its point to the next. None where
    nothing is subtracted.

    For errors that are still to be subtracted, leave-one-out on a reduced basis also states ``spare``, the smallest
    1 - h_ii at every point, of the shape of the points, and ``levered``, the root mean square of left-out residuals
    over 1 - h_ii, and of those times the root of h_ii, both of the shape of the values.
    """

    values: Array
    ceiling: Array
    shrink: Array | None = None
    shifts: Array | None = None
    spare: Array | None = None
    levered: tuple[Array, ...] | None = None


class Spectral(Protocol):
    """The interface of a spectrum, dense or on a reduced basis, for criteria and the range of a search."""

    @property
    def n(self) -> int:
        """Number of points."""

    @property
    def values(self) -> Array:
        """Eigenvalues, none negative."""

    @property
    def lift(self) -> float:
        """The number that was added to make them non-negative."""

    @property
    def trace(self) -> float:
        """Their sum, from the matrix."""

    @property
    def norm(self) -> float:
        """The size of the matrix whose rounding they carry."""

    @property
    def mass(self) -> float:
        """The weight of all rows."""

    @property
    def skew(self) -> float:
        """How far eigenvectors are from orthonormal; zero where errors are bounded from the rows."""

    def decomposition_error(self, lam: float) -> float:
        """Return the relative error of what is computed at this lambda."""

    def perturbations(self, lambdas: Array) -> tuple[Array, Array]:
        """Return the norm of E, and q, at some lambdas; zero where errors are bounded from the rows instead."""

    def targets(self, Y: Any) -> Targets:
        """Return targets in the coordinates of the spectrum; those of its sums, where it has them."""

    def machine(self, targets: Targets, weighted: bool = False) -> LeastSquares:
        """Return the machine on these targets in the coordinates of the spectrum, with traces by weight where asked."""


@dataclass(frozen=True, slots=True)
class Criterion(ABC):
    """A criterion on one spectrum; ``pooled`` averages outputs that share one gamma.

    ``cone`` is the power of 1/cos(theta/2) in the bound on an ellipse, ``growth`` the power of e^x by which the ceiling
    may grow at distance x outside an interval. lambda is counted from ``lift`` on, zero for a positive semi-definite
    matrix: :math:`\\lambda = e^t + \\text{lift}`.
    """

    cone: ClassVar[int] = 4
    growth: ClassVar[float] = 1.0

    spectrum: Spectral
    targets: Targets
    lift: float
    pooled: bool

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

    def with_lift(self, lift: float) -> Self:
        """Return the same with lambda counted from a common point on, not below its own."""
        return replace(self, lift=max(lift, self.lift))

    @abstractmethod
    def sample(self, t: Array) -> Samples:
        """Evaluate at points t of shape (intervals, points), ascending in each interval."""

    def slopes(self, t: Array, shares: Array) -> tuple[Slope, ...]:
        """Return the derivative of the sum of ``shares`` times the criteria in the kernel values, at one t for each of
        them.

        In the units of the values; one slope, or one for each part of a sum. Host arrays only.
        """
        z, slopes = self.targets.coordinates, []
        with blas_threads(self.spectrum.n):
            for number, (share, g) in enumerate(zip(shares, self._inverses(t).T, strict=True)):
                columns = slice(None) if self.pooled else slice(number, number + 1)
                slopes.append(self._slope(g, z[:, columns], columns).scale(float(share)))
        return (sum(slopes[1:], slopes[0]),)

    def _slope(self, g: Array, z: Array, columns: slice) -> Slope:
        """Return the slope of the mean criterion of the columns of z, which are these of all."""
        raise TypeError(f"{type(self).__name__} has no derivative in the kernel values")

    def _shrink_and_shift(self, q: Array, share: Array, sizes: Array, shrink: Array) -> tuple[Array, Array]:
        """Shrink per interval and shifts from each point on, from their two factors; no bound is left from q = 1/2 on.

        ``q`` and ``share`` have the shape of the points, ``sizes`` one axis more, the outputs.
        """
        lost = q[:, 0] >= 0.5
        shifts = at_most(1.0) * share[:, :, None] * sizes
        if self.pooled:
            with np.errstate(over="ignore"):  # infinite where nothing is known
                shifts = np.sqrt(np.mean(shifts**2, axis=2, keepdims=True))
        shifts = np.where(lost[:, None, None], 0.0, shifts) * np.ones((*q.shape, self.outputs))
        return np.where(lost, 0.0, shrink)[:, None] * np.ones((len(q), self.outputs)), shifts

    def _inverses(self, t: Array) -> Array:
        values = self.spectrum.values + (self.lift - self.spectrum.lift)
        inverses: Array = 1.0 / (values[:, None] + on_device_of(values, np.exp(t.ravel())))
        return inverses

    def _shape(self, values: Array, t: Array) -> Array:
        """Reshape (points, outputs) to (intervals, points, outputs), outputs averaged where they share a gamma."""
        values = values.mean(axis=1, keepdims=True) if self.pooled else values
        return values.reshape(*t.shape, -1)


def unknown_at(spectrum: Spectral, t: Array) -> tuple[Array, Array]:
    """Return the norm of E, and q, at the points; lambda is counted from some lift on, which only makes B smaller."""
    norms, q = spectrum.perturbations(Regularization.from_log_lambda(t, spectrum.lift).lam.ravel())
    return norms.reshape(t.shape), q.reshape(t.shape)


def between(falling: Array, rising: Array) -> Array:
    """Return the largest of (falling at a point) x (rising at the next one): above their product in between."""
    if falling.shape[1] == 1:
        return np.asarray((falling * rising)[:, 0])
    return np.asarray((falling[:, :-1] * rising[:, 1:]).max(axis=1))


@dataclass(frozen=True, slots=True)
class OfMachine(Criterion):
    """A criterion of a machine in the coordinates of its spectrum, dense or on a reduced basis.

    ``weighted`` states that the traces of the machine are by the weights of the rows.
    """

    weighted: ClassVar[bool] = False

    machine: LeastSquares

    @classmethod
    def of(cls, spectrum: Spectral, Y: Any = None, *, pooled: bool = False) -> Self:
        """Return the criterion on the targets Y, one column per output; on those of its sums, for the spectrum of a
        reduced basis.
        """
        targets = spectrum.targets(Y)
        return cls(
            spectrum=spectrum,
            targets=targets,
            lift=spectrum.lift,
            pooled=pooled,
            machine=spectrum.machine(targets, cls.weighted),
        )

    def _at(self, t: Array) -> tuple[Array, Array]:
        """Return 1/(s + lambda) at all points, one column each, and lambda less the lift."""
        return self._inverses(t), np.exp(t.ravel())

    def _slope(self, g: Array, z: Array, columns: slice) -> Slope:
        spectrum = self.spectrum
        if not isinstance(spectrum, Spectrum):
            raise TypeError("derivatives in all kernel values are those of a dense spectrum")
        alpha = spectrum.basis @ (g[:, None] * z)
        slope = self._response(spectrum, g, z, alpha).spectral_slope(spectrum.basis, g, alpha)
        return slope.with_weights(spectrum.root)

    def _response(self, spectrum: Spectrum, g: Array, z: Array, alpha: Array) -> Response:
        """Return the response of the mean criterion of outputs with the coordinates z and these support values."""
        raise TypeError(f"{type(self).__name__} has no derivative in the kernel values")


@dataclass(frozen=True, slots=True)
class LeftOutCriterion(OfMachine):
    """The mean square leave-one-out residual, from sums over the rows."""

    @abstractmethod
    def _sample_left_out(self, g: Array, t: Array) -> tuple[Samples, Array]:
        """Return the mean squares at the points, as samples without a ceiling but for rounding, and the sums of
        1/B_ii.
        """

    def sample(self, t: Array) -> Samples:
        """Sum over the rows, under the ceiling of Cauchy's inequality."""
        g, lambdas = self._at(t)
        samples, reciprocal = self._sample_left_out(g, t)
        falling = self._shape(self.machine.quadratic(g, lambdas), t)
        rising = reciprocal.reshape(*t.shape, 1) / self.spectrum.n
        return replace(samples, ceiling=np.maximum(between(falling, rising), samples.ceiling))


@dataclass(frozen=True, slots=True)
class LeaveOneOut(LeftOutCriterion):
    """The mean square leave-one-out residual of a dense machine."""

    spectrum: Spectrum

    def _sample_left_out(self, g: Array, t: Array) -> tuple[Samples, Array]:
        """Sample by three matrix products, with the basis and with its squares, block by block."""
        n, lambdas = self.spectrum.n, np.exp(t.ravel())
        sums = _leave_one_out_sums(self.spectrum.basis, g, self.targets.coordinates, t)
        squares, reciprocal, spread, steepest = sums
        unknown, q = unknown_at(self.spectrum, t)
        alpha = np.sqrt(self.machine.support_squares(g, lambdas)).reshape(*t.shape, -1)
        share = following(unknown, t) * np.sqrt(spread / n) / np.maximum(1.0 - 2.0 * q, 1e-300)
        shrink = 1.0 / (1.0 + at_most(1.0) * unknown[:, 0] * steepest[:, 0] / np.maximum(1.0 - q[:, 0], 0.5))
        shifts = self._shrink_and_shift(q, share, alpha, shrink)
        return Samples(self._shape(squares / n, t), np.zeros((t.shape[0], self.outputs)), *shifts), reciprocal

    def _response(self, spectrum: Spectrum, g: Array, z: Array, alpha: Array) -> Response:
        return left_out_response(np.square(spectrum.basis) @ g, alpha, spectrum.n)


def following(sums: Array, t: Array) -> Array:
    """Return sums at the next point of the interval; the last one has none."""
    sums = sums.reshape(t.shape)
    return np.asarray(np.concatenate([sums[:, 1:], sums[:, -1:]], axis=1))


def _leave_one_out_sums(basis: Array, g: Array, z: Array, t: Array) -> tuple[Array, ...]:
    r"""Return sums over the rows, on the host: squared residuals, 1/B_ii, and ||B e_i||^2/B_ii here times 1/B_ii at the
    next point; at the end the largest ||B e_i||^2/B_ii.

    :math:`\|B e_i\|^2 = -dB_{ii}/d\lambda`, and :math:`B_{ii}` is convex: at a point that is not the first of its
    interval the slope of the chord from the one before it is a bound, and takes no product. On a device these two are
    bounded without.
    """
    n, is_on_device, xp = int(basis.shape[0]), is_device_array(basis), namespace_of(basis)
    weighted = [g * z[:, k][:, None] for k in range(z.shape[1])]
    squares, reciprocal = zeros_beside(g, (g.shape[1], z.shape[1])), zeros_beside(g, g.shape[1])
    spread, steepest, after = np.zeros(g.shape[1]), np.zeros(g.shape[1]), np.arange(g.shape[1]) + 1
    after[t.shape[1] - 1 :: t.shape[1]] -= 1
    firsts = slice(None, None, t.shape[1])
    steps = np.diff(np.exp(t), axis=1, prepend=0.0).ravel()  # that of a first point is not used
    (stuck,) = np.nonzero(steps <= 0.0)  # points that agree have no chord; the first is a bound for all, which fall
    rounded = relative_rounding(n + 16.0)  # of B_ii, relative, as a sum of positive terms
    with blas_threads(n), np.errstate(divide="ignore", invalid="ignore"):  # without a chord
        first_squared = g[:, firsts] ** 2
        for rows in blocks_beside(g, n, n):
            block = basis[rows, :]
            squared = block * block
            diagonal = squared @ g
            inverse = 1.0 / diagonal
            reciprocal += xp.sum(inverse, axis=0)
            if not is_on_device:
                lengths = np.empty_like(diagonal)
                lengths[:, 1:] = ((1.0 + rounded) * diagonal[:, :-1] - (1.0 - rounded) * diagonal[:, 1:]) / steps[1:]
                lengths[:, firsts] = squared @ first_squared
                if stuck.size:
                    lengths[:, stuck] = lengths[:, stuck - stuck % t.shape[1]]
                lengths *= inverse
                np.maximum(steepest, lengths.max(axis=0), out=steepest)
                spread += np.einsum("ij,ij->j", lengths, inverse[:, after])
            for k, columns in enumerate(weighted):
                residuals = block @ columns
                residuals *= inverse
                squares[:, k] += paired_sums(residuals, residuals, 0)
    squares, reciprocal = to_numpy(squares), to_numpy(reciprocal)
    if is_on_device:  # ||B e_i||^2 <= B_ii / lambda
        steepest = 1.0 / np.exp(t)
        return squares, reciprocal, following(reciprocal, t) * steepest, steepest
    return squares, reciprocal, spread.reshape(t.shape), steepest.reshape(t.shape)
