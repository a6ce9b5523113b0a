r"""The LS-SVM on a reduced basis on a device: sums over its rows, the solution, and the pass that certifies it.

The statistic of :mod:`~substrate.reduced.solution` and the solution of
:mod:`~substrate.reduced.solution` ([Cawley2004]_ eq. (2)-(3)), in functions of the array API, a block of rows
at a time. Each row costs one evaluation of its kernel values and a share of one matrix product for the statistic, and
one more evaluation for the certificate. The errors e are then refined only where a check asks for it: on a device the
second and third pass that :func:`~substrate.reduced.solution.solve_reduced` spends on digits beyond the
checks would cost as much as a third of the statistic.

The origin is taken off before anything is squared only where that keeps digits: where the squares of the kernel values
are mostly those of their means. Otherwise it is taken off the sums. Sums over folds are those of their rows, block by
block.
"""

import math
from typing import Any

import numpy as np

from substrate.arrays import EPS
from substrate.certificates.rows import ACCURATE
from substrate.closed_form.saddle_certificate import worst_rows
from substrate.namespaces import namespace_of, on_device_of, take_rows, to_numpy
from substrate.reduced.answer import AnswerJudge
from substrate.reduced.certificate import Residuals, reduced_rows
from substrate.reduced.device_rows import DeviceRows
from substrate.reduced.features import EigenFeatures
from substrate.reduced.folds import Folds
from substrate.reduced.moments import Moments, Origin
from substrate.reduced.solution import LARGEST_ERROR, ReducedSolution, Statistic
from substrate.reduced.spectrum import ReducedSpectrum
from substrate.streaming.survey import TargetSummary

__all__ = ["accumulate_on_device", "residuals_on_device", "solve_on_device"]

_MOST_REFINEMENTS = 3
#: Share of the squares of kernel values, left once the origin is taken off, below which it is taken off first.
_MOSTLY_MEAN = 1.0 / 16.0
_SAMPLED_ROWS = 4096


def accumulate_on_device(
    rows: DeviceRows,
    features: EigenFeatures,
    origin: Origin,
    lam: float,
    folds: Folds | None = None,
    method: str = "auto",
) -> Statistic:
    """One pass over all rows; ``lam`` is the smallest 1/gamma to serve.

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
            done = _accumulated(rows, features, origin, lam, first, folds)
            if done.error <= LARGEST_ERROR:
                return done
            method = "row-wise"  # the sampled rows were better behaved than all of them
    if method == "accumulated":
        return _accumulated(rows, features, origin, lam, first, folds)
    parts, squares = _sums(rows, features.transform, origin, True, folds)
    return Statistic(features, origin, _total(parts), parts[1:], "row-wise", EPS, squares)


def _accumulated(
    rows: DeviceRows, features: EigenFeatures, origin: Origin, lam: float, first: bool, folds: Folds | None
) -> Statistic:
    parts, squares = _sums(rows, None, origin, first, folds)
    error = _error(_total(parts).second, features, lam)
    if not first:
        parts = tuple(part.about(origin.kernel_values, 0.0 * origin.targets) for part in parts)
    done = tuple(part.transformed(features.transform) for part in parts[1:])
    total = _total(parts).transformed(features.transform)
    return Statistic(features, origin, total, done, "accumulated", error, squares)


def _total(parts: tuple[Moments, ...]) -> Moments:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


class _Sums:
    """Moments in the making."""

    def __init__(self, like: Any, size: int, outputs: int) -> None:
        xp = namespace_of(like)
        self.count = 0
        self.second = xp.zeros((size, size), dtype=xp.float64, device=like.device)
        self.thin = xp.zeros((size, 1 + outputs), dtype=xp.float64, device=like.device)
        self.targets = xp.zeros(outputs, dtype=xp.float64, device=like.device)
        self.squares = xp.zeros_like(self.targets)

    def add(self, values: Any, t: Any) -> None:
        xp = namespace_of(values)
        self.count += int(values.shape[0])
        self.second += values.T @ values
        self.thin += values.T @ xp.concat([xp.ones_like(t[:, :1]), t], axis=1)
        self.targets += xp.sum(t, axis=0)
        self.squares += xp.sum(t * t, axis=0)

    def done(self) -> Moments:
        return Moments(
            self.count, self.thin[:, 0], self.second, self.targets, self.thin[:, 1:], self.squares, float(self.count)
        )


def _sums(
    rows: DeviceRows, T: Any, origin: Origin, first: bool, folds: Folds | None
) -> tuple[tuple[Moments, ...], float]:
    """Sums over the rows in no fold, then over those of each; and the squares of all kernel values.

    Of kernel values, about the origin where it comes ``first``, or of features where a transform is given.
    """
    xp = namespace_of(rows.X)
    size, outputs = (rows.n_basis if T is None else T.shape[1]), rows.Y.shape[1]
    sums = [_Sums(rows.X, size, outputs) for _ in range(1 + (0 if folds is None else folds.count))]
    norm = xp.zeros(1, dtype=xp.float64, device=rows.X.device)
    for where, block, known in rows.blocks():
        if T is not None:
            norm += xp.sum(block * block)
        if first:
            block -= origin.kernel_values
        t = known / origin.unit - origin.targets
        values = block if T is None else block @ T
        if folds is None:
            sums[0].add(values, t)
            continue
        labels = folds.labels(where)
        for number in np.unique(labels):
            members = np.flatnonzero(labels == number)
            sums[int(number) + 1].add(take_rows(values, members), take_rows(t, members))
    parts = tuple(one.done() for one in sums)
    if T is not None:
        return parts, float(norm[0])
    total = _total(parts)
    whole = float(xp.linalg.trace(total.second))
    if first:
        o = origin.kernel_values
        whole += float(2.0 * xp.sum(o * total.first) + rows.n_rows * xp.sum(o * o))
    return parts, max(whole, 0.0)


def _error(second: Any, features: EigenFeatures, lam: float) -> float:
    """Rounding of the entries of the sum, as a random matrix, in the units of a_j + lambda."""
    xp = namespace_of(second)
    if features.rank == 0:
        return EPS
    T = features.transform
    scatter = xp.clip(xp.sum(T * (second @ T), axis=0), min=0.0)
    entry = float(xp.linalg.vector_norm(second)) / features.n_basis
    return EPS * math.sqrt(features.n_basis) * entry / float(xp.min(features.values * (scatter + lam)))


def residuals_on_device(
    rows: DeviceRows,
    unit: float,
    coefficients: Any,
    bias: Any,
    kernel_squares: float | None = None,
    centre: Any = None,
) -> Residuals:
    """The errors e = t - f of all rows, in sums; squares of kernel values are added up unless they are known."""
    xp = namespace_of(rows.X)
    slope = xp.zeros_like(coefficients)
    total, squares, targets, shifts, spreads = (xp.zeros_like(bias) for _ in range(5))
    middle = xp.zeros_like(bias) if centre is None else on_device_of(bias, centre)
    norm = xp.zeros_like(bias[:1])
    for _, block, given in rows.blocks():
        if kernel_squares is None:
            norm += xp.sum(block * block)
        known = given / unit
        errors = known - (block @ coefficients + bias)
        slope += block.T @ errors
        total += xp.sum(errors, axis=0)
        squares += xp.sum(errors * errors, axis=0)
        targets += xp.sum(known * known, axis=0)
        about = known - middle
        shifts += xp.sum(about, axis=0)
        spreads += xp.sum(about * about, axis=0)
    whole = float(norm[0]) if kernel_squares is None else kernel_squares
    e, ee, tt, t, centred = (to_numpy(part) for part in (total, squares, targets, shifts, spreads))
    diagonal = float(xp.sum(xp.clip(rows.kernel.diag(rows.X), min=0.0)))
    rounding = rows.kernel.rounding(xp.concat([rows.X, rows.points], axis=0))
    return Residuals(rows.n_rows, slope, e, ee, tt, whole, t, centred, float(rows.n_rows), diagonal, rounding)


def solve_on_device(
    rows: DeviceRows,
    spectrum: ReducedSpectrum,
    lam: float,
    K_basis: Any,
    kernel_squares: float | None = None,
    known: TargetSummary | None = None,
    tolerance: float = ACCURATE,
) -> ReducedSolution:
    """Solve at one lambda = 1/gamma for every output, refine where a check asks for it, and certify."""
    features, unit = spectrum.features, spectrum.origin.unit
    summary = rows.target_summary() if known is None else known
    judge = AnswerJudge(None, spectrum.curvature(K_basis, rows.terms), lam, unit, summary, tolerance=tolerance)
    weights = spectrum.weights(lam)
    bias, refinements = spectrum.bias(weights), 0
    while True:
        beta = features.coefficients(weights)
        residuals = residuals_on_device(rows, unit, beta, bias, kernel_squares, judge.centre)
        checks = reduced_rows(residuals, features, K_basis, beta, weights, to_numpy(bias), lam)
        answer = judge.of(residuals, beta, bias)
        passes = all(row.passes for output in checks for row in output) and (answer.passes or not answer.helped)
        if passes or refinements >= _MOST_REFINEMENTS:
            rows_of_both = (answer.row, *worst_rows(checks))
            return ReducedSolution(unit * beta, unit * bias, rows_of_both, refinements, answer.facts)
        slope = features.transform.T @ residuals.slope - lam * weights
        change, shift = spectrum.correction(slope, on_device_of(bias, residuals.total), lam)
        weights, bias, refinements = weights + change, bias + shift, refinements + 1
