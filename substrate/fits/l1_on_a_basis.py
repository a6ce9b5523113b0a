r"""The L1 substrate on a reduced basis, from sums over the rows.

.. math:: \min_{\beta, b} \; \tfrac12 \Big\| y - \hat K \beta - b 1 \Big\|_v^2 + \zeta \|\beta\|_1,
          \qquad \hat K = [k(x_i, z_j)], \quad l \times n, \qquad \|e\|_v^2 = \sum_i v_i e_i^2

([Pelckmans2005]_ eq. (16) with the expansion of [Cawley2004]_ eq. (2).) The coefficients are not multipliers of a
constraint with a bias, so they need not sum to zero, and the problem is a lasso. With P the centring projection it
depends on the rows only by :math:`G = \hat K^T P \hat K`, :math:`c = \hat K^T P y`, and means: n columns of n entries

.. math:: B = U \operatorname{diag}(g)^{1/2}, \quad \tilde y = \operatorname{diag}(g)^{-1/2} U^T c, \qquad
          G = U \operatorname{diag}(g) U^T

have the same products as columns of l entries, and hence the same path in :math:`\zeta`. A ridge
:math:`\tfrac{\tau}{2} \beta^T K_{SS} \beta` adds :math:`\tau K_{SS}` to G.

A pass over the rows computes the errors of the machine as it predicts, and their products with the columns, from which
:func:`substrate.penalties.bound_by_duality` bounds the answer.
"""

import math
from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.enclosed import Double, at_most, sum_rounding
from substrate.certificates.rounding import rank_cutoff, relative_rounding
from substrate.fits.l1 import L1Solution, solve_columns, subgradient_rows
from substrate.penalties import FORMULA, DoubleColumns, OneNorm, bound_by_duality
from substrate.reduced.moments import MomentsOfLeaf, Origin
from substrate.reduced.rows import KernelRows
from substrate.reduced.solution import errors_rounding, residual_pass
from substrate.streaming.survey import TargetSummary
from substrate.threads import blas_threads

__all__ = ["L1Sums", "certify_sums", "l1_sums"]

_TOLERANCE = 1e-8


@dataclass(frozen=True, slots=True)
class L1Sums:
    """G and c (one column per output) with what a ridge adds, means of columns and targets; targets in their unit.

    ``offsets`` are the means of the columns about the origin of the sums, ``mass`` is the weight of all rows, and
    ``kernel`` the kernel matrix of the basis.
    """

    count: int
    mass: float
    gram: Array
    cross: Array
    means: Array
    target_means: Array
    squares: Array
    unit: float
    offsets: Array
    kernel: Array
    ridge: float

    @property
    def zeta_max(self) -> Array:
        """The smallest zeta at which only the bias is left, one per output."""
        return np.asarray(np.abs(self.cross).max(axis=0, initial=0.0))

    def columns(self) -> Array:
        """Return B, one row per column, without directions that are rounding."""
        with blas_threads(len(self.gram)):
            g, U = np.linalg.eigh(self.gram + self.ridge * self.kernel)
        kept = g > rank_cutoff(1) * max(float(g[-1]), 0.0)  # a small eigenvalue does no harm; one left out is missing
        return np.ascontiguousarray(U[:, kept] * np.sqrt(g[kept])) if kept.any() else np.zeros((g.size, 1))

    def solve(self, zeta: float) -> list[L1Solution]:
        """Return the solution of every output at zeta, with its path."""
        B, solutions = self.columns(), []
        lengths = np.square(B).sum(axis=0)
        targets = (B.T @ self.cross) / np.where(lengths > 0.0, lengths, 1.0)[:, None]
        largest = float(np.sqrt(self.mass) * np.abs(self.means).max() + np.sqrt(self.gram.diagonal().max()))
        noise = relative_rounding(np.sqrt(self.count)) * largest * np.sqrt(self.squares)
        # the effect of rounding and of directions left out on the correlations: below it they count as zero
        noise = np.maximum(noise, np.abs(B @ targets - self.cross).max(axis=0, initial=0.0))
        for k, mean in enumerate(self.target_means):
            means = (self.means, float(mean))
            solutions.append(solve_columns(B, targets[:, k], means, float(noise[k]), zeta, zero_sum=False))
        return solutions


def l1_sums(rows: KernelRows, origin: Origin, kernel: Array, ridge: float = 0.0) -> L1Sums:
    """Make one pass over all rows; ``kernel`` is the kernel matrix of the basis."""
    total, _ = rows.sums(MomentsOfLeaf(rows.values, origin)).moments()
    mean, target = total.first / total.mass, total.targets / total.mass
    centred = total.shift_to(mean, target)
    # a constant target minus its mean is rounding: it has no correlations
    rounding = (relative_rounding(total.count)) ** 2 * (total.mass / total.count)
    return L1Sums(
        count=total.count,
        mass=total.mass,
        gram=centred.second,
        cross=np.where(centred.squares > rounding, centred.cross, 0.0),
        means=mean + origin.kernel_values,
        target_means=target + origin.targets,
        squares=centred.squares,
        unit=origin.unit,
        offsets=mean,
        kernel=kernel,
        ridge=ridge,
    )


def certify_sums(
    rows: KernelRows, sums: L1Sums, zeta: float, beta: Array, bias: Array, targets: TargetSummary, share: float
) -> list[tuple[Row, ...]]:
    r"""Return the rows of every output, that of the answer first, by a pass over the rows.

    The dual point is made of the errors :math:`\hat e` as they were computed, less their mean. Their sums
    :math:`\hat K^T V \hat e` are accurate to the rounding of kernel values and of sums, relative to the norms of the
    columns and of :math:`\hat e`, and so is G. ``share`` is what is permitted relative to the spread of the targets.
    """
    unit, sizes = sums.unit, np.sqrt(np.maximum(sums.kernel.diagonal(), 0.0))
    residuals = residual_pass(rows, unit, beta, bias, targets.means_in(unit))
    rounded, share_of_sums = errors_rounding(residuals, sizes, beta, bias), sum_rounding(rows.terms + 8)
    root, tolerances = math.sqrt(residuals.mass), residuals.tolerances(unit, targets, share)
    # what rounding of kernel values may change in a column, and of its sums beside
    off = residuals.rounding * math.sqrt(residuals.diagonal) * sizes
    lengths = np.sqrt(np.maximum(np.diagonal(sums.gram), 0.0))
    about = np.hypot(lengths, math.sqrt(sums.mass) * np.abs(sums.offsets))
    summed = sum_rounding(3 * rows.terms + 8) * np.outer(about, about) + np.outer(off, off)
    B, energy = sums.columns(), Double(sums.kernel, sum_rounding(8) * np.outer(sizes, sizes) + residuals.rounding)
    missing = Double(B) @ Double(B.T) - sums.gram - energy * sums.ridge
    deviation = at_most(1.0) * (missing.sizes + summed + np.outer(lengths, off) + np.outer(off, lengths))
    columns = DoubleColumns(Double(B.T), np.ones(B.shape[1]), bias=False, deviation=deviation)
    about = np.hypot(about, math.sqrt(sums.mass) * np.abs(sums.means)) + off
    checks: list[tuple[Row, ...]] = []
    for k, tolerance in enumerate(tolerances):
        total, length = float(residuals.total[k]), at_most(math.sqrt(float(residuals.squares[k])))
        radius = off * (length + 4.0 * abs(total) / root) + 4.0 * share_of_sums * about * length
        pull = energy @ Double(beta[:, k]) * sums.ridge
        g = Double(residuals.slope[:, k], radius) - Double(sums.means) * total - pull
        size = (Double(length) * length + (Double(beta[:, k]) * pull).sum()).bound_root()
        with np.errstate(over="ignore", invalid="ignore"):
            arguments = (Double(beta[:, k]), g, size, Double(float(rounded[k])))
            bound = bound_by_duality(columns, OneNorm(zeta, zero_sum=False), *arguments).upper()
        # predict has another mean, known to the rounding of its sum
        bound += at_most(abs(total) / root + share_of_sums * length + float(rounded[k]))
        scale = zeta + float(sums.zeta_max[k])
        error = Row(
            name="1'e = 0", value=total, scale=root * float(length + abs(bias[k])), tolerance=1e-6, formula="|1'e|"
        )
        conditions = subgradient_rows(g.middle, zeta, beta[:, k], scale, _TOLERANCE, zero_sum=False)
        checks.append((tolerance.row(unit * bound / root, FORMULA), *conditions, error))
    return checks
