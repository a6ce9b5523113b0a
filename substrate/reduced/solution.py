r"""The LS-SVM on a reduced basis, from sums over its rows.

.. math::

    \min_{\beta, b} \; \tfrac12 \beta^T K_{SS} \beta
        + \tfrac{\gamma}{2} \sum_{i=1}^l \Big( t_i - \sum_{j \in S} \beta_j k(x_i, z_j) - b \Big)^2

([Cawley2004]_ eq. (2)-(3), [Cawley2002]_ section 2, with our gamma.) It is solved in the eigen-features of
:math:`K_{SS}`, where it is ridge regression with a free bias, by :mod:`~substrate.reduced.spectrum`. A
second pass over the rows computes the errors of the machine as it predicts, from beta, and with them the gradient;
where that is above rounding, one Newton step from the same sums corrects it, as in iterative refinement. On a device no
pass is made for digits beyond the checks: it would cost as much as a third of the sums. With weights :math:`v_i` of
the rows, every row, its target and the 1 that multiplies its bias are multiplied by :math:`v_i^{1/2}`.

The fit depends on the rows only by sums whose size does not depend on l,

.. math:: l, \qquad \sum_i z_i, \qquad \sum_i z_i z_i^T, \qquad \sum_i t_i, \qquad \sum_i z_i t_i, \qquad \sum_i t_i^2

about a common centre, with the features :math:`z_i` of :mod:`~substrate.reduced.features`. Sums add and
subtract, so the rows of a fold are left out by subtraction.

There are two methods. *Accumulated*: sums of :math:`k_S(x_i) k_S(x_i)^T`, transformed by :math:`T = V s^{-1/2}` once at
the end; a third of the work, but rounding of the sums is magnified by :math:`1/s`. *Row-wise*: every block of rows is
transformed to features first. The first is used where the magnified rounding, relative to the :math:`a_j + \lambda` it
is added to, is estimated below 1e-8 in every direction; the record states the method. Where :math:`K_{SS}` is well
conditioned the triangular factor of T is applied to the rows, for half the work, and the remaining rotation once.

The origin is subtracted from every tile before squaring. On a device, where that is one more pass through memory, it is
subtracted from the sums instead, unless the squares of the kernel values are mostly those of their means.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from substrate.arrays import EPS, Array
from substrate.certificates import Row
from substrate.certificates.rows import ACCURATE
from substrate.closed_form.saddle_certificate import worst_rows
from substrate.namespaces import is_device_array, namespace_of, on_device_of, paired_sums, to_numpy, zeros_beside
from substrate.reduced.answer import AnswerJudge
from substrate.reduced.certificate import Residuals, reduced_rows
from substrate.reduced.features import EigenFeatures
from substrate.reduced.folds import Folds
from substrate.reduced.moments import Moments, MomentsOfLeaf, Origin, RowWeights
from substrate.reduced.rows import KernelRows, KernelValues
from substrate.reduced.spectrum import ReducedSpectrum
from substrate.streaming.source import Block
from substrate.streaming.survey import TargetSummary
from substrate.threads import blas_threads

__all__ = [
    "LARGEST_ERROR",
    "ReducedSolution",
    "ResidualsOfLeaf",
    "Statistic",
    "accumulate",
    "residual_pass",
    "solve_reduced",
    "spread_rows",
]


_MOST_REFINEMENTS = 3
#: Relative error of the sums up to which the solution is refined only if a check fails.
_KNOWN = 1e-8


@dataclass(frozen=True, slots=True)
class ReducedSolution:
    """Beta and b, one column per output, in the units of y; certificate rows; passes of refinement."""

    coefficients: Array
    bias: Array
    rows: tuple[Row, ...]
    refinements: int
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ResidualsOfLeaf:
    """The errors e = t - f of the rows of a leaf, as sums: with kernel values, alone, and squared.

    ``squared`` states that the squares of kernel values are summed too.
    """

    values: KernelValues
    unit: float
    coefficients: Array
    bias: Array
    weights: RowWeights | None = None
    centre: Array | None = None
    squared: bool = True

    def __call__(self, blocks: Iterable[Block]) -> Residuals:
        """Over the micro-blocks of a leaf."""
        xp, bias = namespace_of(self.bias), self.bias
        slope = zeros_beside(bias, self.coefficients.shape)
        total, squares, targets, shifts, spreads = (xp.zeros_like(bias) for _ in range(5))
        norm, mass, diagonal = (zeros_beside(bias, ()) for _ in range(3))  # on a device until the end
        centre = xp.zeros_like(bias) if self.centre is None else on_device_of(bias, self.centre)
        buffer, rounding, count = self.values.buffer(), 0.0, 0
        for block in blocks:
            count += int(block.X.shape[0])
            lengths, rounding = self.values.diagonal(block), max(rounding, self.values.rounding(block.X))
            for rows, tile in self.values.tiles(block, buffer):
                known = block.Y[rows, :] / self.unit
                errors = known - (tile @ self.coefficients + bias)
                ones, about = xp.ones_like(known[:, 0]), known - centre
                if self.weights is not None:
                    ones = xp.sqrt(self.weights(tile, known))
                    tile *= ones[:, None]
                    errors, known = errors * ones[:, None], known * ones[:, None]
                    about = about * ones[:, None]
                squared = ones * ones
                shifts += ones @ about
                spreads += xp.sum(about * about, axis=0)
                mass += xp.sum(squared)
                diagonal += squared @ xp.clip(lengths[rows], min=0.0)
                slope += tile.T @ errors
                total += ones @ errors
                squares += xp.sum(errors * errors, axis=0)
                targets += xp.sum(known * known, axis=0)
                if self.squared:
                    norm += xp.sum(tile * tile) if is_device_array(tile) else np.vdot(tile, tile)
        e, ee, tt, t, centred = (to_numpy(part) for part in (total, squares, targets, shifts, spreads))
        return Residuals(count, slope, e, ee, tt, float(norm), t, centred, float(mass), float(diagonal), rounding)


def residual_pass(
    rows: KernelRows,
    unit: float,
    coefficients: Array,
    bias: Array,
    weights: RowWeights | None = None,
    centre: Array | None = None,
    kernel_squares: float | None = None,
) -> Residuals:
    """Sums over the errors of all rows; ``centre`` is a centre of the targets, in their unit.

    ``kernel_squares`` are those of all kernel values, where they are known.
    """
    function = ResidualsOfLeaf(rows.values, unit, coefficients, bias, weights, centre, kernel_squares is None)
    sums: Residuals = rows.sums(function, "errors of all rows")
    return sums if kernel_squares is None else replace(sums, kernel_squares=kernel_squares)


def solve_reduced(
    rows: KernelRows,
    spectrum: ReducedSpectrum,
    lam: float,
    K_basis: Array,
    most: int = _MOST_REFINEMENTS,
    weights_of_rows: RowWeights | None = None,
    targets: TargetSummary | None = None,
    tolerance: float = ACCURATE,
    kernel_squares: float | None = None,
) -> ReducedSolution:
    """Solve at one lambda = 1/gamma for every column of the targets, refine while it helps, and certify.

    ``weights_of_rows`` are those of the sums; ``targets`` summarises the targets; ``tolerance`` is the accuracy
    required, as a share of their spread; ``kernel_squares`` those of all kernel values, if the sums include them.

    :equation [Cawley2002]_ (beta): the system in beta and b, errors of all rows
    :equation [Cawley2004]_ (3), (A.3): the normal equations of the sparse LS-SVM, solved in eigen-features
    """
    features, unit = spectrum.features, spectrum.origin.unit
    known = rows.target_summary() if targets is None else targets
    judge = AnswerJudge(
        rows, spectrum.curvature(K_basis, rows.product_terms), lam, unit, known, weights_of_rows, tolerance
    )
    weights = spectrum.weights(lam)
    bias, refinements = spectrum.bias(weights), 0
    # where the sums determine fewer digits than the rows do, it is refined although every check passes
    least = min(2, most) if not rows.on_device and spectrum.decomposition_error(lam) > _KNOWN else 0
    while True:
        beta = features.coefficients(weights)
        residuals = residual_pass(rows, unit, beta, bias, weights_of_rows, judge.centre, kernel_squares)
        kernel_squares = residuals.kernel_squares  # independent of the coefficients
        checks = reduced_rows(residuals, features, K_basis, beta, weights, to_numpy(bias), lam)
        answer = judge.of(residuals, beta, bias)
        passes = all(row.passes for output in checks for row in output)
        wanted = passes and (answer.passes or not answer.helped)
        if refinements >= (least if wanted else most):
            break
        slope = features.transform.T @ residuals.slope - lam * weights
        change, shift = spectrum.correction(slope, on_device_of(bias, residuals.total), lam)
        weights, bias, refinements = weights + change, bias + shift, refinements + 1
    facts = answer.facts
    if not answer.passes and passes and not rows.on_device:
        # once more with errors in doubled precision: they may pass, or show how to correct the answer
        answer, beta, bias, steps = judge.carefully(answer, spectrum, beta, bias, weights)
        facts, refinements = answer.facts, refinements + steps
    return ReducedSolution(unit * beta, unit * bias, (answer.row, *worst_rows(checks)), refinements, facts)


#: Estimated relative error up to which the sums of kernel values are transformed afterwards.
LARGEST_ERROR = 1e-8
#: Number of rows for the estimate.
_SPREAD = 2048
#: Remaining share of the squares of kernel values about the origin, below which it is subtracted first.
_MOSTLY_MEAN = 1.0 / 16.0


@dataclass(frozen=True, slots=True)
class Statistic:
    """The moments of all rows and of every fold in feature coordinates, and how they were obtained."""

    features: EigenFeatures
    origin: Origin
    total: Moments
    folds: tuple[Moments, ...]
    method: str
    error: float
    #: Of all rows, where the pass that certifies would have to read its tiles again for them.
    kernel_squares: float | None = None


def accumulate(
    rows: KernelRows,
    features: EigenFeatures,
    origin: Origin,
    lam: float,
    folds: Folds | None = None,
    method: str = "auto",
    some: Any = None,
    weights: RowWeights | None = None,
) -> Statistic:
    """One pass over all rows; ``lam`` is the smallest 1/gamma for which the statistic is used.

    ``method`` is ``"auto"``, ``"accumulated"`` or ``"row-wise"``; ``some`` are the :func:`spread_rows`, if available.
    With ``weights`` all sums are weighted.

    :equation [Cawley2004]_ (A.2): the sums over all rows that make up the system
    """
    first = True
    if method == "auto" or (method == "accumulated" and rows.on_device):
        first, expected = _expected(rows, features, origin, lam, some)
    if method == "auto":
        method = "accumulated" if expected <= LARGEST_ERROR else "row-wise"
        if method == "accumulated":
            fast = _accumulated(rows, features, origin, lam, folds, weights, first)
            if fast.error <= LARGEST_ERROR:
                return fast
            method = "row-wise"  # the estimate from some rows was too optimistic
    if method == "accumulated":
        return _accumulated(rows, features, origin, lam, folds, weights, first)
    return _row_wise(rows, features, origin, folds, weights)


def _row_wise(
    rows: KernelRows, features: EigenFeatures, origin: Origin, folds: Folds | None, weights: RowWeights | None
) -> Statistic:
    if rows.on_device or not features.well_conditioned:
        function = MomentsOfLeaf(rows.values, origin, features.transform, folds=folds, weights=weights)
        total, parts = rows.sums(function, "sums of features").moments()
        return Statistic(features, origin, total, parts, "row-wise", EPS)
    with blas_threads(features.n_basis):
        Q, R = np.linalg.qr(features.transform.T)
    function = MomentsOfLeaf(rows.values, origin, np.asfortranarray(R.T), triangular=True, folds=folds, weights=weights)
    total, parts = rows.sums(function, "sums of features").moments()
    with blas_threads(features.n_basis):
        done = tuple(part.transformed(Q.T) for part in parts)
        return Statistic(features, origin, total.transformed(Q.T), done, "row-wise", EPS)


def _accumulated(
    rows: KernelRows,
    features: EigenFeatures,
    origin: Origin,
    lam: float,
    folds: Folds | None,
    weights: RowWeights | None,
    first: bool,
) -> Statistic:
    function = MomentsOfLeaf(rows.values, origin, folds=folds, weights=weights, about=first)
    total, parts = rows.sums(function, "sums of kernel values").moments()
    T, o = features.transform, origin.kernel_values
    squares = _kernel_squares(total, o if first else 0.0 * o) if rows.on_device else None
    with blas_threads(features.n_basis):
        error = _error(total.second, features, lam)
        if not first:
            total, *parts = (part.about(o, 0.0 * origin.targets) for part in (total, *parts))
        done = tuple(part.transformed(T) for part in parts)
        return Statistic(features, origin, total.transformed(T), done, "accumulated", error, squares)


def _kernel_squares(total: Moments, origin: Array) -> float:
    """The squares of all kernel values from their sums about an origin."""
    xp = namespace_of(origin)
    shifted = 2.0 * xp.sum(origin * total.first) + total.mass * xp.sum(origin * origin)
    return max(float(xp.linalg.trace(total.second) + shifted), 0.0)


def spread_rows(n: int) -> Any:
    """Numbers of rows spread over all of them, by which the method of summation is chosen."""
    return np.linspace(0, n - 1, min(n, _SPREAD)).astype(np.intp)


def _expected(rows: KernelRows, features: EigenFeatures, origin: Origin, lam: float, some: Any) -> tuple[bool, float]:
    """Whether the origin is subtracted first, and the error of the sums then, from rows spread over all of them."""
    X = rows.source.taken(spread_rows(rows.n_rows)) if some is None else some
    with blas_threads(features.n_basis):
        values = rows.values.matrix(X)
        block = values - origin.kernel_values
        first = not rows.on_device or _squares(block) < _MOSTLY_MEAN * _squares(values)
        block = block if first else values
        return first, _error(rows.n_rows / block.shape[0] * (block.T @ block), features, lam)


def _squares(values: Array) -> float:
    return float(namespace_of(values).sum(values * values))


def _error(second: Array, features: EigenFeatures, lam: float) -> float:
    """Rounding of the entries of the sum, as a random matrix, in the units of a_j + lambda."""
    if features.rank == 0:
        return EPS
    xp, T = namespace_of(second), features.transform
    scatter = xp.clip(paired_sums(T, second @ T, 0), min=0.0)
    largest = float(xp.max(xp.abs(second))) or 1.0  # whose square may overflow
    scaled = second / largest
    entry = largest * math.sqrt(float(xp.mean(scaled * scaled)))
    return EPS * math.sqrt(features.n_basis) * entry / float(xp.min(features.values * (scatter + lam)))
