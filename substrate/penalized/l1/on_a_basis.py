r"""The L1 substrate on a reduced basis and its path in zeta, from sums over the rows alone.

.. math:: \min_{\beta, b} \; \tfrac12 \Big\| t - \hat K \beta - b 1 \Big\|_v^2 + \zeta \|\beta\|_1,
          \qquad \hat K = [k(x_i, z_j)], \quad l \times n, \qquad \|e\|_v^2 = \sum_i v_i e_i^2

([Pelckmans2005]_ eq. (16) with the expansion of [Cawley2004]_ eq. (2).) The coefficients are not multipliers of a
constraint with a bias, so they need not sum to zero, and the problem is a lasso. The weights v are one unless rows have
others; every row, its target and the 1 of its bias are then multiplied by :math:`v_i^{1/2}`, and means are weighted.
With P the centring projection, it depends on the rows only by :math:`G = \hat K^T P \hat K`, :math:`c = \hat K^T P t`,
and means: n columns of n entries

.. math:: B = U \operatorname{diag}(g)^{1/2}, \quad \tilde t = \operatorname{diag}(g)^{-1/2} U^T c, \qquad
          G = U \operatorname{diag}(g) U^T

have the same products as those of l entries, and hence the same solution for every :math:`\zeta`. At
:math:`\zeta \ge \zeta_{max} = \max_j |c_j|` it is zero.

A pass over the rows computes the errors of the machine as it predicts. The rows of the certificate are the
subgradient condition, with :math:`\hat c = \hat K^T (e - \bar e 1)`,

.. math:: \hat c_j = \zeta \operatorname{sign} \beta_j \;\; (\beta_j \ne 0), \qquad |\hat c_j| \le \zeta,

and the duality gap at :math:`\theta = \min(1, \zeta / \max_j |\hat c_j|) (e - \bar e 1)`; where they are above
rounding, a Newton step among the nonzero coefficients corrects them.

The path in zeta is exact:

.. math:: \beta(\zeta) = \arg\min_{\beta} \min_b \; \tfrac12 \big\| t - \hat K \beta - b 1 \big\|^2 + \zeta \|\beta\|_1

is affine between knots. The n columns of n entries replace those of all rows, and
:mod:`substrate.penalized.homotopy.homotopies` follows them, both signs in one block, which is the path of the lasso
([Efron2004]_). scikit-learn's ``lars_path_gram`` follows it too, but drops a column permanently when its pivot is
small, and columns of kernel values are usually nearly dependent; here a column that depends on those in use is only
postponed.
"""

from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.rounding import rank_cutoff, relative_rounding
from substrate.certificates.rows import ACCURATE
from substrate.errors import SolverError
from substrate.penalized.homotopy.homotopies import CentredColumns, path_of_columns
from substrate.penalized.homotopy.knots import Path, Point
from substrate.penalized.l1.accuracy import SummedColumns, l1_accuracy_of_sums
from substrate.reduced.answer import careful_pass
from substrate.reduced.certificate import Residuals, rounded_errors
from substrate.reduced.moments import MomentsOfLeaf, Origin
from substrate.reduced.rows import KernelRows
from substrate.reduced.solution import residual_pass
from substrate.streaming.survey import TargetSummary
from substrate.threads import blas_threads

__all__ = ["L1Check", "L1Sums", "MendedL1", "coefficients_at", "l1_sums", "mend", "point_at", "reduced_l1_paths"]

_TOLERANCE = 1e-9
_MOST_STEPS = 4


@dataclass(frozen=True, slots=True)
class L1Sums:
    """G, c (one column per output), the means of the columns and of the targets, and t'Pt; targets in their unit.

    ``offsets`` are the means of the columns about the origin of the sums; ``mass`` is the weight of all rows.
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

    @property
    def zeta_max(self) -> Array:
        """The smallest zeta at which only the bias is left, one per output."""
        return np.asarray(np.abs(self.cross).max(axis=0, initial=0.0))

    def columns(self) -> tuple[Array, Array]:
        """Return B, one row per column, and the targets' coordinates, one column per output, above rounding."""
        with blas_threads(self.gram.shape[0]):
            g, U = np.linalg.eigh(self.gram)
        kept = g > rank_cutoff(1) * max(float(g[-1]), 0.0)  # a small eigenvalue does no harm; one left out is missing
        root = np.sqrt(g[kept])
        return np.ascontiguousarray(U[:, kept] * root), np.asarray((U[:, kept] / root).T @ self.cross)

    def noise(self) -> Array:
        """Bound correlations that may be rounding, one per output."""
        largest = float(np.sqrt(self.mass) * np.abs(self.means).max() + np.sqrt(self.gram.diagonal().max()))
        return np.asarray(relative_rounding(np.sqrt(self.count)) * largest * np.sqrt(self.squares))


def l1_sums(rows: KernelRows, origin: Origin) -> L1Sums:
    """Make one pass over all rows."""
    total, _ = rows.sums(MomentsOfLeaf(rows.values, origin), "sums of kernel values").moments()
    mean, target = total.first / total.mass, total.targets / total.mass
    centred = total.shift_to(mean, target)
    # a constant target minus its mean is rounding: it has no correlations
    rounding = (relative_rounding(total.count)) ** 2 * (total.mass / total.count)
    cross = np.where(centred.squares > rounding, centred.cross, 0.0)
    return L1Sums(
        count=total.count,
        mass=total.mass,
        gram=centred.second,
        cross=cross,
        means=mean + origin.kernel_values,
        target_means=target + origin.targets,
        squares=centred.squares,
        unit=origin.unit,
        offsets=mean,
    )


@dataclass(frozen=True, slots=True)
class MendedL1:
    """Beta and b of every output in units of the targets, certificate rows per output, and the steps taken."""

    coefficients: Array
    bias: Array
    checks: tuple[tuple[Row, ...], ...]
    steps: int


def mend(
    rows: KernelRows,
    sums: L1Sums,
    zeta: float,
    coefficients: Array,
    sizes: Array | None = None,
    targets: TargetSummary | None = None,
    most: int = _MOST_STEPS,
    share: float = ACCURATE,
) -> MendedL1:
    """Check coefficients on all rows, and step among the nonzero ones while the check fails and steps help.

    ``sizes`` are the roots of k(z_j, z_j), known for a kernel; ``targets`` summarises the targets, and ``share`` is
    what is permitted relative to their spread. Where every check but that of the answer passes, accurate passes follow.
    """
    beta = coefficients
    bias = sums.target_means - sums.means @ beta
    sizes = rows.values.basis_sizes() if sizes is None else sizes
    check = L1Check(
        rows=rows,
        sums=sums,
        zeta=zeta,
        sizes=sizes,
        targets=rows.target_summary() if targets is None else targets,
        share=share,
    )
    best: MendedL1 | None = None
    careful = False
    for step in range(most + 1):
        residuals, checks = check(beta, bias, careful)
        if best is None or _worst(checks) < _worst(best.checks):
            best = MendedL1(beta, bias, checks, step)
        if all(row.passes for output in checks for row in output):
            break
        if not careful and all(row.passes for output in checks for row in output[1:]):
            careful = True  # the same coefficients once more: perhaps only the rounding of the check fails
            continue
        beta, bias = _step(residuals, sums, zeta, beta, bias)
    if best is None:
        raise TypeError("no step was allowed, not even the first check")
    return best


@dataclass(frozen=True, slots=True)
class L1Check:
    """The rows of a certificate, that of the answer first, for coefficients and bias in units of the targets.

    ``share`` is what is permitted relative to the spread of the user's y, which every pass sums over its rows.
    """

    rows: KernelRows
    sums: L1Sums
    zeta: float
    sizes: Array
    targets: TargetSummary
    share: float = ACCURATE

    def __call__(self, beta: Array, bias: Array, careful: bool) -> tuple[Residuals, tuple[tuple[Row, ...], ...]]:
        """Return the check in one pass over the rows, plain or accurate."""
        unit, centre = self.sums.unit, self.targets.means_in(self.sums.unit)
        if careful:
            residuals, rounded = careful_pass(self.rows, unit, beta, bias, self.sizes, centre)
        else:
            residuals = residual_pass(self.rows, unit, beta, bias, centre=centre)
            rounded = rounded_errors(residuals, self.sizes, beta, bias, self.rows.terms)
        sums = self.sums
        column_sums = (sums.gram, sums.means, sums.offsets, self.sizes, self.rows.terms)
        spread = float(np.sqrt(residuals.diagonal))
        columns = SummedColumns(*column_sums, residuals.mass, rounded.kernel, spread)
        tolerances = residuals.tolerances(unit, self.targets, self.share)
        answers = l1_accuracy_of_sums(residuals, rounded, columns, self.zeta, beta, unit, tolerances)
        further_rows = reduced_l1_rows(residuals, self.sums, self.zeta, beta, bias)
        return residuals, tuple(
            (answer, *rows_of_output) for answer, rows_of_output in zip(answers, further_rows, strict=True)
        )


def _worst(checks: tuple[tuple[Row, ...], ...]) -> float:
    return max(row.relative / row.tolerance for output in checks for row in output)


def _step(residuals: Residuals, sums: L1Sums, zeta: float, beta: Array, bias: Array) -> tuple[Array, Array]:
    """Return a Newton step of each output among its coefficients that are, or should be, nonzero; no sign changes."""
    after, shift = beta.copy(), np.zeros(bias.size)
    for k in range(bias.size):
        total = float(residuals.total[k])
        c = residuals.slope[:, k] - sums.means * total
        missed = np.abs(c) > zeta + _TOLERANCE * (zeta + float(sums.zeta_max[k]))
        signs = np.where(beta[:, k] != 0.0, np.sign(beta[:, k]), np.where(missed, np.sign(c), 0.0))
        (used,) = np.nonzero(signs)
        misfit = c[used] - zeta * signs[used]
        change, *_ = np.linalg.lstsq(sums.gram[np.ix_(used, used)], misfit, rcond=rank_cutoff(sums.gram.shape[0]))
        stepped = beta[used, k] + change
        after[used, k] = np.where(signs[used] * stepped > 0.0, stepped, 0.0)
        shift[k] = total / sums.mass - sums.means @ (after[:, k] - beta[:, k])
    return after, bias + shift


def reduced_l1_rows(
    residuals: Residuals, sums: L1Sums, zeta: float, coefficients: Array, bias: Array, tolerance: float = _TOLERANCE
) -> list[tuple[Row, ...]]:
    """Return the optimality conditions of every output on all rows; correlations are those of the centred errors."""
    checks: list[tuple[Row, ...]] = []
    for k in range(bias.size):
        beta, total = coefficients[:, k], float(residuals.total[k])
        mean = total / residuals.mass
        c = residuals.slope[:, k] - sums.means * total
        used = beta != 0.0
        scale = zeta + float(sums.zeta_max[k])
        on = float(np.abs(c[used] - zeta * np.sign(beta[used])).max(initial=0.0))
        excess = float(np.max(np.abs(c[~used]) - zeta, initial=0.0))
        size = float(np.abs(beta).sum())
        # of e - mean: its square, and its product with t
        squares = max(float(residuals.squares[k]) - mean * total, 0.0)
        along = float(beta @ c) + squares
        share = min(1.0, zeta / max(float(np.abs(c).max(initial=0.0)), zeta))
        gap = 0.5 * squares + zeta * size - share * along + 0.5 * share**2 * squares
        # the cost of beta = 0, or, for a constant target, a millionth of that of the zero machine
        cost = 0.5 * float(sums.squares[k]) + 0.5e-6 * float(residuals.targets[k]) + zeta * size
        lengths = np.sqrt(residuals.targets[k]) + np.sqrt(residuals.mass) * abs(float(bias[k]))
        terms = float(lengths) + residuals.norm * float(np.linalg.norm(beta))
        checks.append(
            (
                Row(
                    name="subgradient on the support",
                    value=on,
                    scale=scale,
                    tolerance=tolerance,
                    formula="max |c_j - zeta sign(beta_j)|",
                ),
                Row(
                    name="subgradient off the support",
                    value=excess,
                    scale=scale,
                    tolerance=tolerance,
                    formula="max (|c_j| - zeta)",
                ),
                Row(
                    name="1'e = 0",
                    value=total,
                    scale=float(np.sqrt(residuals.mass)) * terms,
                    tolerance=tolerance,
                    formula="|1'e|",
                ),
                Row(name="duality gap", value=gap, scale=cost, tolerance=tolerance, formula="primal - dual objective"),
            )
        )
    return checks


#: How often a path may be resumed.
_RESTARTS = 20
_ROUNDING = 1e-12


def reduced_l1_paths(sums: L1Sums, zeta_min: float | None) -> tuple[Path, ...]:
    """Return one path per output, down to ``zeta_min`` (None: a small share of its zeta_max), targets in their unit."""
    B, targets = sums.columns()
    # the effect of rounding and of directions left out on the correlations: below it they count as zero
    noise = np.maximum(sums.noise(), np.abs(B @ targets - sums.cross).max(axis=0, initial=0.0))
    if not B.shape[1]:  # no column has a direction: a kernel without values, or without differences
        B, targets = np.zeros((B.shape[0], 1)), np.zeros((1, targets.shape[1]))
    paths = []
    for k in range(targets.shape[1]):
        columns = CentredColumns(
            B=B, target=targets[:, k], means=sums.means, target_mean=float(sums.target_means[k]), noise=float(noise[k])
        )
        paths.append(path_of_columns(columns, zeta_min, zero_sum=False, restarts=_RESTARTS))
    return tuple(paths)


def point_at(path: Path, zeta: float) -> Point:
    """Return the solution at zeta; refused outside the path."""
    # the last knot is at the given zeta, up to rounding of correlations
    near = path.lowest - _ROUNDING * (zeta + float(path.values[-1]))
    zeta_there = path.lowest if near <= zeta < path.lowest else zeta
    if not path.covers(zeta_there):
        raise SolverError(
            f"zeta = {zeta:g} is not covered: the path was followed from {path.highest:g} to {path.lowest:g} only "
            f"({path.stop}); use a larger zeta, or fewer basis vectors"
        )
    return path.at(zeta_there)


def coefficients_at(paths: tuple[Path, ...], zeta: float) -> Array:
    """Return beta, one column per output."""
    return np.column_stack([point_at(path, zeta).primal for path in paths])
