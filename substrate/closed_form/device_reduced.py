r"""The LS-SVM on a reduced basis on a device: sums over its rows, the solution, and the pass that certifies it.

The statistic of :mod:`~substrate.closed_form.reduced_statistic` and the solution of
:mod:`~substrate.closed_form.reduced_basis` ([Cawley2004]_ eq. (2)-(3)), in functions of the array API, a block of rows
at a time. Each row costs one evaluation of its kernel values and a share of one matrix product for the statistic, and
one more evaluation for the certificate. The errors e are then refined only where a check asks for it: on a device the
second and third pass that :func:`~substrate.closed_form.reduced_basis.solve_reduced` spends on digits beyond the
checks would cost as much as a third of the statistic.

The origin is taken off before anything is squared only where that keeps digits: where the squares of the kernel values
are mostly those of their means. Otherwise it is taken off the sums.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from substrate.certificates.rows import EPS
from substrate.closed_form.eigen_features import EigenFeatures
from substrate.closed_form.reduced_basis import ReducedSolution
from substrate.closed_form.reduced_certificate import Residuals, reduced_rows
from substrate.closed_form.reduced_spectrum import ReducedSpectrum
from substrate.closed_form.reduced_statistic import LARGEST_ERROR, Moments, Origin, Statistic
from substrate.closed_form.saddle_certificate import worst_rows
from substrate.kernels import Kernel
from substrate.namespaces import device_blocks, namespace_of, on_device_of, take_rows, to_numpy

__all__ = ["DeviceRows", "accumulate_on_device", "residuals_on_device", "solve_on_device"]

_MOST_REFINEMENTS = 3
#: Share of the squares of kernel values, left once the origin is taken off, below which it is taken off first.
_MOSTLY_MEAN = 1.0 / 16.0
_SAMPLED_ROWS = 4096


@dataclass(frozen=True, slots=True)
class DeviceRows:
    """A kernel between rows X, with their targets Y (a column an output), and basis points, all on one device."""

    kernel: Kernel
    X: Any
    Y: Any
    points: Any

    @property
    def n_rows(self) -> int:
        """l."""
        return int(self.X.shape[0])

    @property
    def n_basis(self) -> int:
        """n."""
        return int(self.points.shape[0])

    def blocks(self) -> Iterator[tuple[Any, Any]]:
        """Kernel values and targets of all rows, a block at a time."""
        xp = namespace_of(self.X)
        for rows in device_blocks(self.n_rows, self.n_basis):
            yield self.kernel.evaluate(self.X[rows, :], self.points, xp.float64), self.Y[rows, :]

    def taken(self, rows: Any) -> Any:
        """The kernel values of some rows, by their numbers on the host."""
        xp = namespace_of(self.X)
        return self.kernel.evaluate(take_rows(self.X, rows), self.points, xp.float64)


def accumulate_on_device(
    rows: DeviceRows, features: EigenFeatures, origin: Origin, lam: float, method: str = "auto"
) -> tuple[Statistic, float]:
    """One pass over all rows, and the Frobenius norm of their kernel values; ``lam`` is the smallest 1/gamma to serve.

    ``method`` is ``"auto"``, ``"accumulated"`` or ``"row-wise"``, as for numpy.
    """
    xp = namespace_of(rows.X)
    step = max(rows.n_rows // _SAMPLED_ROWS, 1)
    sample = rows.taken(range(0, rows.n_rows, step))
    about = sample - origin.kernel_values
    raw, left = (float(xp.sum(part * part)) for part in (sample, about))
    first = left < _MOSTLY_MEAN * raw
    if method == "auto":
        block = about if first else sample
        second = (rows.n_rows / sample.shape[0]) * (block.T @ block)
        method = "accumulated" if _error(second, features, lam) <= LARGEST_ERROR else "row-wise"
        if method == "accumulated":
            done = _accumulated(rows, features, origin, lam, first)
            if done[0].error <= LARGEST_ERROR:
                return done
            method = "row-wise"  # the sampled rows were better behaved than all of them
    if method == "accumulated":
        return _accumulated(rows, features, origin, lam, first)
    total, norm = _sums(rows, features.transform, origin, True)
    return Statistic(features, origin, total, (), "row-wise", EPS), norm


def _accumulated(
    rows: DeviceRows, features: EigenFeatures, origin: Origin, lam: float, first: bool
) -> tuple[Statistic, float]:
    total, norm = _sums(rows, None, origin, first)
    error = _error(total.second, features, lam)
    if not first:
        total = total.about(origin.kernel_values, 0.0 * origin.targets)
    return Statistic(features, origin, total.transformed(features.transform), (), "accumulated", error), norm


def _sums(rows: DeviceRows, T: Any, origin: Origin, first: bool) -> tuple[Moments, float]:
    """Sums of kernel values, about the origin where it comes ``first``, or of features where a transform is given."""
    xp = namespace_of(rows.X)
    size, outputs = (rows.n_basis if T is None else T.shape[1]), rows.Y.shape[1]
    second = xp.zeros((size, size), dtype=xp.float64, device=rows.X.device)
    thin = xp.zeros((size, 1 + outputs), dtype=xp.float64, device=rows.X.device)
    targets = xp.zeros(outputs, dtype=xp.float64, device=rows.X.device)
    squares, norm = xp.zeros_like(targets), xp.zeros_like(targets[:1])
    for block, known in rows.blocks():
        if T is not None:
            norm += xp.sum(block * block)
        if first:
            block -= origin.kernel_values
        t = known / origin.unit - origin.targets
        values = block if T is None else block @ T
        second += values.T @ values
        thin += values.T @ xp.concat([xp.ones_like(t[:, :1]), t], axis=1)
        targets += xp.sum(t, axis=0)
        squares += xp.sum(t * t, axis=0)
    moments = Moments(rows.n_rows, thin[:, 0], second, targets, thin[:, 1:], squares)
    if T is not None:
        return moments, math.sqrt(float(norm[0]))
    whole = float(xp.linalg.trace(second))
    if first:
        o = origin.kernel_values
        whole += float(2.0 * xp.sum(o * moments.first) + rows.n_rows * xp.sum(o * o))
    return moments, math.sqrt(max(whole, 0.0))


def _error(second: Any, features: EigenFeatures, lam: float) -> float:
    """Rounding of the entries of the sum, as a random matrix, in the units of a_j + lambda."""
    xp = namespace_of(second)
    if features.rank == 0:
        return EPS
    T = features.transform
    scatter = xp.clip(xp.sum(T * (second @ T), axis=0), min=0.0)
    entry = float(xp.linalg.vector_norm(second)) / features.n_basis
    return EPS * math.sqrt(features.n_basis) * entry / float(xp.min(features.values * (scatter + lam)))


def residuals_on_device(rows: DeviceRows, unit: float, coefficients: Any, bias: Any, norm: float) -> Residuals:
    """The errors e = t - f of all rows, in sums: with kernel values, alone, and squared."""
    xp = namespace_of(rows.X)
    slope = xp.zeros_like(coefficients)
    total, squares, targets = (xp.zeros_like(bias) for _ in range(3))
    for block, given in rows.blocks():
        known = given / unit
        errors = known - (block @ coefficients + bias)
        slope += block.T @ errors
        total += xp.sum(errors, axis=0)
        squares += xp.sum(errors * errors, axis=0)
        targets += xp.sum(known * known, axis=0)
    return Residuals(rows.n_rows, slope, to_numpy(total), to_numpy(squares), to_numpy(targets), norm)


def solve_on_device(
    rows: DeviceRows, spectrum: ReducedSpectrum, lam: float, K_basis: Any, norm: float
) -> ReducedSolution:
    """Solve at one lambda = 1/gamma for every output, refine where a check asks for it, and certify."""
    features, unit = spectrum.features, spectrum.origin.unit
    weights = spectrum.weights(lam)
    bias, refinements = spectrum.bias(weights), 0
    while True:
        beta = features.coefficients(weights)
        residuals = residuals_on_device(rows, unit, beta, bias, norm)
        checks = reduced_rows(residuals, features, K_basis, beta, weights, to_numpy(bias), lam)
        passes = all(row.passes for output in checks for row in output)
        if passes or refinements >= _MOST_REFINEMENTS:
            return ReducedSolution(unit * beta, unit * bias, worst_rows(checks), refinements)
        slope = features.transform.T @ residuals.slope - lam * weights
        change, shift = spectrum.correction(slope, on_device_of(bias, residuals.total), lam)
        weights, bias, refinements = weights + change, bias + shift, refinements + 1
