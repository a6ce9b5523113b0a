r"""The derivatives of a criterion on a reduced basis in the scales of its kernel, in one or two passes over the rows.

The machine on features :math:`Z = \Phi T`, with :math:`\Phi` the kernel values between rows and basis, and
:math:`T T^T = K_{SS}^{-1}` on the directions kept, depends on :math:`Z Z^T` alone. So with :math:`G = \partial F /
\partial Z`, one row for each row of the data,

.. math:: dF = (G T^T) : d\Phi - \tfrac12 (T Z^T G\, T^T) : dK_{SS},

for a basis that stays while the kernel changes. (A change of the directions that were left out as rounding is
neglected.) By the slope W of :mod:`substrate.least_squares.kernel_slope` in :math:`Z Z^T` it is :math:`G = 2 W Z`. With
:math:`\tilde z_i` the features about their mean, :math:`H = \sum_i v_i \tilde z_i \tilde z_i^T + \lambda I`, weights u,
errors e, and everything of rows times the roots of their weights, :math:`B Z = \tilde Z H^{-1}`, :math:`Z^T \alpha =
u`, :math:`\lambda \alpha = e`, :math:`\lambda B_{ii} = 1 - h_{ii}`. So with the response p, m, c of a criterion and
:math:`b = H^{-1} \tilde Z^T p`

.. math:: G = 2 B \operatorname{diag}(m) \tilde Z H^{-1} + 2 c \tilde Z H^{-1} - (B p)\, u^T - \alpha\, b^T, \qquad
          \lambda B x = x - \bar x - \tilde Z H^{-1} \tilde Z^T x .

- The evidence has p a multiple of y, so Bp and b are multiples of :math:`\alpha` and u.
- Generalised cross-validation has p a multiple of :math:`\alpha` and m one of the weights: :math:`B B Z = \tilde Z
  H^{-2}` without weights, and with them the first term needs the sums of :mod:`~substrate.reduced.squared_weights`.
- Leave-one-out has p and m of every row, and the sums over them need a pass of their own.
- A fold of weight m with errors :math:`\varepsilon` has :math:`b = H^{-1} \sum_j v_j \varepsilon_j \tilde z_j`:
  :math:`-\frac2m v_j \varepsilon_j u` for its rows, and :math:`\frac2m v_i \big( (\tilde z_i^T b) u - e_i b + \bar
  \varepsilon u \big)` for the others, :math:`\bar \varepsilon` the weighted sum of :math:`\varepsilon` over their
  weight.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from substrate.arrays import Array
from substrate.least_squares.kernel_slope import evidence_response, gcv_response, left_out_response
from substrate.reduced.features import LinearFeatures
from substrate.reduced.folds import GivenFolds
from substrate.reduced.moments import Moments, Origin
from substrate.reduced.rows import BasisValues, KernelRows
from substrate.reduced.spectrum import ReducedSpectrum
from substrate.streaming.source import Block
from substrate.streaming.tally import Tally
from substrate.threads import blas_threads

__all__ = ["RowSlopes", "evidence_rows", "fold_rows", "gcv_rows", "leave_one_out_rows", "scale_slopes"]

#: Least 1 - h_ii, as in :mod:`~substrate.reduced.left_out`.
_LEAST = 1e-30


@dataclass(frozen=True, slots=True)
class RowSlopes:
    r"""The rows of G of one machine: :math:`v_i (M \tilde z_i + A e_i + u\, (\tilde z_i^T B)^T + s)`.

    Rows of its fold have :math:`v_i\, C e_i` instead. ``left`` is :math:`H^{-1}` for leave-one-out, which has a term of
    every row's own leverage; ``squared`` adds :math:`v_i^2 S \tilde z_i`. Outputs are the columns of ``weights`` (u),
    ``errors`` (A), ``along`` (B), ``held`` (C).
    """

    spectrum: ReducedSpectrum
    weights: Array
    quadratic: Array
    errors: Array
    along: Array
    shift: Array
    held: Array | None = None
    left: Array | None = None
    squared: Array | None = None

    def parts(self, Z: Array, targets: Array) -> tuple[Array, Array]:
        """Return features about the mean, and errors, of rows with features about the origin, and targets in their
        unit.
        """
        centred = Z - self.spectrum.mean
        centre = self.spectrum.origin.targets + self.spectrum.target_mean
        return centred, (targets - centre) - centred @ self.weights

    def of(self, centred: Array, errors: Array, v: Array) -> Array:
        """Return the rows of G for rows of the fit."""
        slopes = (
            centred @ self.quadratic + errors @ self.errors.T + (centred @ self.along) @ self.weights.T + self.shift
        )
        if self.left is not None:
            pulled = centred @ self.left
            w, omega = _leave_rows_out(self.spectrum, centred, pulled, errors, v)
            return np.asarray(v[:, None] * slopes + 2.0 * omega[:, None] * pulled - w @ self.weights.T)
        if self.squared is not None:
            slopes += v[:, None] * (centred @ self.squared)
        return np.asarray(v[:, None] * slopes)

    def with_trace(self, rate: float) -> "RowSlopes":
        """Add ``rate`` times the slope of the trace of the scatter."""
        return replace(self, quadratic=self.quadratic + 2.0 * rate * np.eye(self.quadratic.shape[0]))


def _leave_rows_out(
    spectrum: ReducedSpectrum, centred: Array, pulled: Array, errors: Array, v: Array
) -> tuple[Array, Array]:
    """Return w, one column per output, and omega, summed over the outputs.

    They are the response of leave-one-out for rows times the roots of their weights, by lambda B_ii = 1 - h_ii and
    lambda alpha_i = e_i.
    """
    spare = np.maximum(1.0 - v * (1.0 / spectrum.mass + np.einsum("ij,ij->i", centred, pulled)), _LEAST)
    response = left_out_response(spare, np.sqrt(v)[:, None] * errors, spectrum.n)
    if response.diagonal is None:
        raise TypeError("leave-one-out responds to the diagonal")
    return np.sqrt(v)[:, None] * response.support, v * response.diagonal


def _inverse(spectrum: ReducedSpectrum, lam: float, power: int = 1) -> Array:
    """Return H^-1, or a power of it."""
    Q = spectrum.rotation
    return np.asarray((Q * (spectrum.values + lam) ** -float(power)) @ Q.T)


def evidence_rows(spectrum: ReducedSpectrum, lam: float) -> RowSlopes:
    """Return the slopes of the variance whose smallest value is at the largest evidence, the mean over the outputs."""
    u, machine, lambdas = spectrum.weights(lam), spectrum.machine(), np.array([lam])
    quadratic = float(machine.quadratic(machine.inverses(lambdas), lambdas).sum())
    stretch = lam * float(np.exp(machine.mean_log_stretch(lambdas)[0]))
    response = evidence_response(u, quadratic, stretch, machine.free)
    curved = 2.0 * response.volume * _inverse(spectrum, lam)
    return RowSlopes(
        spectrum=spectrum,
        weights=u,
        quadratic=curved,
        errors=-2.0 / lam * response.support,
        along=0.0 * u,
        shift=np.zeros(u.shape[0]),
    )


def gcv_rows(spectrum: ReducedSpectrum, lam: float) -> RowSlopes:
    """Return the slopes of generalised cross-validation, the mean over the outputs; rows have weights where the sums
    by squares are.
    """
    heavy, machine, lambdas = spectrum.heavy, spectrum.machine(weighted=True), np.array([lam])
    u, inverses = spectrum.weights(lam), machine.inverses(lambdas)
    squares = float(machine.support_squares(inverses, lambdas).sum())
    trace = float(machine.trace(inverses, lambdas)[0])
    response = gcv_response(u, squares, trace, machine.rows, np.ones(1))
    if response.diagonal is None:
        raise TypeError("generalised cross-validation responds to the diagonal")
    steep, shift, squared = 2.0 * float(response.diagonal[0]), np.zeros(u.shape[0]), None
    b = _inverse(spectrum, lam) @ response.support
    if heavy is None:  # B B Z is Z H^-2
        quadratic = steep * _inverse(spectrum, lam, 2)
    else:
        steep, Q, g = steep * machine.rows / (lam * spectrum.mass), spectrum.rotation, inverses[:, 0]
        quadratic = -steep * (Q * g) @ heavy.second @ (Q * g).T
        squared, shift = steep * _inverse(spectrum, lam), -steep / spectrum.mass * (Q @ (g * heavy.first))
    return RowSlopes(
        spectrum=spectrum,
        weights=u,
        quadratic=quadratic,
        errors=-(response.support / lam + b) / lam,
        along=b / lam,
        shift=shift,
        squared=squared,
    )


def fold_rows(spectrum: ReducedSpectrum, fold: Moments, lam: float, share: float) -> RowSlopes:
    """Return the slopes of ``share`` times the mean square error on a fold, the mean over the outputs; ``spectrum``
    is of the others.
    """
    u = spectrum.weights(lam)
    held_out = fold.shift_to(spectrum.mean, spectrum.target_mean)
    b = _inverse(spectrum, lam) @ (held_out.cross - held_out.second @ u)
    factor = 2.0 * share / (held_out.mass * u.shape[1])
    shift = factor / spectrum.mass * (u @ (held_out.targets - held_out.first @ u))
    return RowSlopes(
        spectrum=spectrum,
        weights=u,
        quadratic=np.zeros((u.shape[0],) * 2),
        errors=-factor * b,
        along=factor * b,
        shift=shift,
        held=-factor * u,
    )


def leave_one_out_rows(spectrum: ReducedSpectrum, lam: float, rows: KernelRows) -> RowSlopes:
    """Return the slopes of the mean square leave-one-out residual, the mean over the outputs; one pass."""
    u, inverse = spectrum.weights(lam), _inverse(spectrum, lam)
    zeros = 0.0 * u
    bare = RowSlopes(
        spectrum=spectrum, weights=u, quadratic=0.0 * inverse, errors=zeros, along=zeros, shift=np.zeros(u.shape[0])
    )
    function = LeftOutSumsOfLeaf(rows.values, spectrum.features.transform, bare, inverse)
    sums = rows.sums(function)
    b = inverse @ sums.cross
    total = 2.0 * inverse @ sums.first - u @ sums.total
    with blas_threads(u.shape[0]):
        quadratic = -2.0 * (inverse @ sums.second @ inverse)
    return RowSlopes(
        spectrum=spectrum,
        weights=u,
        quadratic=quadratic,
        errors=-b,
        along=b,
        shift=-total / spectrum.mass,
        left=inverse,
    )


@dataclass(frozen=True, slots=True)
class SlopeSums(Tally):
    """Sums over rows: of w; of w times features; of omega times features, and times their products."""

    total: Array
    cross: Array
    first: Array
    second: Array


@dataclass(frozen=True, slots=True)
class LeftOutSumsOfLeaf:
    """The sums of a leaf; ``inverse`` is H^-1."""

    values: BasisValues
    transform: Array
    machine: RowSlopes
    inverse: Array

    def __call__(self, blocks: Iterable[Block]) -> SlopeSums:
        """Accumulate over its micro-blocks."""
        r, outputs = self.machine.weights.shape
        sums = SlopeSums(np.zeros(outputs), np.zeros((r, outputs)), np.zeros(r), np.zeros((r, r)))
        for rows, Z, block in _features(self.values, self.transform, self.machine.spectrum.origin, blocks):
            targets, v = _read_targets(block, rows, self.machine.spectrum.origin)
            centred, errors = self.machine.parts(Z, targets)
            w, omega = _leave_rows_out(self.machine.spectrum, centred, centred @ self.inverse, errors, v)
            by_omega = centred * omega[:, None]
            sums = sums + SlopeSums(w.sum(axis=0), centred.T @ w, by_omega.sum(axis=0), by_omega.T @ centred)
        return sums


def _features(
    values: BasisValues, transform: Array, origin: Origin, blocks: Iterable[Block]
) -> Iterator[tuple[slice, Array, Block]]:
    """Yield tiles of features about the origin, and their rows in a block."""
    for block, rows, Z in LinearFeatures(values, origin.kernel_values, transform).walk(blocks):
        yield rows, Z, block


def _read_targets(block: Block, rows: slice, origin: Origin) -> tuple[Array, Array]:
    """Return the targets of rows in their unit, and their weights."""
    targets = block.Y[rows] / origin.unit
    return targets, np.ones(targets.shape[0]) if block.weights is None else block.weights[rows]


@dataclass(frozen=True, slots=True)
class ScaleSums(Tally):
    """The slopes in the scales through the kernel values of rows, and Z'G."""

    slopes: Array
    products: Array


@dataclass(frozen=True, slots=True)
class ScaleSumsOfLeaf:
    """The sums of a leaf, over all machines."""

    values: BasisValues
    machines: tuple[RowSlopes, ...]
    folds: GivenFolds | None

    def __call__(self, blocks: Iterable[Block]) -> ScaleSums:
        """Accumulate over its micro-blocks."""
        kernel, spectrum = self.values.scaling_kernel(), self.machines[0].spectrum
        T, origin = spectrum.features.transform, spectrum.origin
        sums = ScaleSums(np.zeros(len(kernel.scales())), np.zeros((T.shape[1],) * 2))
        for rows, Z, block in _features(self.values, T, origin, blocks):
            targets, v = _read_targets(block, rows, origin)
            labels = None if self.folds is None else self.folds.labels[block.rows][rows]
            G = np.zeros(Z.shape)
            for number, machine in enumerate(self.machines):
                centred, errors = machine.parts(Z, targets)
                row_slopes = machine.of(centred, errors, v)
                if labels is not None and machine.held is not None:
                    members = np.flatnonzero(labels == number)
                    row_slopes[members] = v[members, None] * (errors[members] @ machine.held.T)
                G += row_slopes
            slopes = kernel.scale_gradient(block.X[rows], self.values.points, G @ T.T)
            sums = sums + ScaleSums(slopes, Z.T @ G)
        return sums


def scale_slopes(rows: KernelRows, machines: Sequence[RowSlopes], folds: GivenFolds | None = None) -> Array:
    """Return the derivatives in the logarithms of the scales of the kernel, of the sum over the machines; one pass."""
    sums = rows.sums(ScaleSumsOfLeaf(rows.values, tuple(machines), folds))
    T, points, kernel = machines[0].spectrum.features.transform, rows.values.points, rows.values.scaling_kernel()
    with blas_threads(T.shape[0]):
        inner = -0.25 * T @ (sums.products + sums.products.T) @ T.T
    return np.asarray(sums.slopes + kernel.scale_gradient(points, points, inner))
