r"""The LS-SVM on a reduced basis, from sums over its rows.

.. math::

    \min_{\beta, b} \; \tfrac12 \beta^T K_{SS} \beta
        + \tfrac{\gamma}{2} \sum_{i=1}^l \Big( t_i - \sum_{j \in S} \beta_j k(x_i, z_j) - b \Big)^2

([Cawley2004]_ eq. (2)-(3), [Cawley2002]_ section 2, with our gamma.) It is solved in the eigen-features of
:math:`K_{SS}`, where it is ridge regression with a free bias, by :mod:`~substrate.reduced.spectrum`. A
second pass over the rows computes the errors of the machine as it predicts, from beta, and with them the gradient;
where that is above rounding, one Newton step from the same sums corrects it, as in iterative refinement. On a device no
pass is made for digits beyond the checks: it would cost as much as a third of the sums. With weights :math:`v_i` of
the rows, every row, its target and the 1 that multiplies its bias are multiplied by :math:`v_i^{1/2}`. Given weights
come with the rows of a source, as targets do.

The weights of robust reweighting are not stored, since any pass can recompute them:

.. math::

    \min_{\beta, b} \; \tfrac12 \beta^T K_{SS} \beta
        + \tfrac{\gamma}{2} \sum_{i=1}^l v_i \Big( t_i - \sum_{j \in S} \beta_j k(x_i, z_j) - b \Big)^2,
    \qquad v_i = v(e_i^0 / \hat s)

([Suykens2002]_ eq. (10), (14)-(15) and Algorithm 1 with the expansion of [Cawley2004]_ eq. (2).) The errors :math:`e^0`
of the previous fit are a function of a row and of that fit's :math:`\beta^0, b^0`, and so are the weights: a round
consists of passes for the scale (:mod:`substrate.streaming.survey`, exact), one for the weighted sums, and one that
checks the weighted normal equations on all rows.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.rows import ACCURATE
from substrate.closed_form.robust_weights import quantile_ranks, robust_scale, robust_weights, scale_from
from substrate.closed_form.saddle_certificate import worst_rows
from substrate.namespaces import is_device_array, namespace_of, on_device_of, to_numpy, zeros_beside
from substrate.reduced.answer import AnswerJudge
from substrate.reduced.certificate import Residuals, reduced_rows
from substrate.reduced.moments import RowWeights, weights_of_tile
from substrate.reduced.rows import KernelRows, KernelValues
from substrate.reduced.spectrum import ReducedSpectrum
from substrate.streaming.source import Block
from substrate.streaming.survey import TargetSummary, order_statistics

__all__ = [
    "ErrorsOfRows",
    "ReducedSolution",
    "ResidualsOfLeaf",
    "Reweighted",
    "WeightsOfRows",
    "residual_pass",
    "reweighted",
    "scale_of_errors",
    "solve_reduced",
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
                weights = weights_of_tile(block, rows, tile, known, self.weights)
                if weights is not None:
                    ones = xp.sqrt(weights)
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


@dataclass(frozen=True, slots=True)
class ErrorsOfRows:
    """t - f in units of the targets for the rows of a micro-block; with a centre, the distances from it."""

    values: KernelValues
    unit: float
    coefficients: Array
    bias: float
    centre: float | None = None

    def __call__(self, block: Block) -> Array:
        """One error per row."""
        errors = np.empty(int(block.X.shape[0]))
        for rows, tile in self.values.tiles(block, self.values.buffer()):
            errors[rows] = block.Y[rows, 0] / self.unit - (tile @ self.coefficients + self.bias)
        return errors if self.centre is None else np.abs(errors - self.centre)


@dataclass(frozen=True, slots=True)
class WeightsOfRows:
    """v from the errors of an earlier fit, whose beta, b and scale are in units of the targets."""

    coefficients: Array
    bias: float
    scale: float
    weighting: str

    def __call__(self, tile: Array, targets: Array) -> Array:
        """Weights of rows with these kernel values."""
        return robust_weights(targets[:, 0] - (tile @ self.coefficients + self.bias), self.scale, self.weighting)


@dataclass(frozen=True, slots=True)
class Reweighted:
    """One fit of the sequence in the units of y: its solution, its weights (None: all one), and the change of w.

    ``scale`` is the robust scale of the weights (0 for the first fit); ``mass`` is their sum.
    """

    solution: ReducedSolution
    weights: WeightsOfRows | None
    scale: float
    mass: float
    change: float


def scale_of_errors(rows: KernelRows, unit: float, coefficients: Array, bias: float, scale: str) -> float:
    """The exact robust scale of the errors of all rows, by counting passes; in units of the targets.

    Where rows have weights, of which one number per row is in memory already, so are the errors: quantiles are then
    those of the weights, in which a row of weight 2 counts as two rows.
    """
    if rows.weights is not None:
        parts = list(rows.each(ErrorsOfRows(rows.values, unit, coefficients, bias), "scale of the errors"))
        return robust_scale(np.concatenate(parts), scale, rows.weights)
    largest = 0.0

    def quantiles(levels: tuple[float, ...], centre: float | None) -> list[float]:
        nonlocal largest
        values = ErrorsOfRows(rows.values, unit, coefficients, bias, centre)
        ends = [quantile_ranks(level, rows.n_rows) for level in levels]
        wanted = [rank for pair in ends for rank in pair]
        found, size = order_statistics(lambda f: rows.sums(f, "scale of the errors"), values, rows.n_rows, wanted)
        largest = size if centre is None else largest
        return [0.5 * found[first] + 0.5 * found[last] for first, last in ends]

    return scale_from(quantiles, lambda: largest, scale)


#: Solves with the given weights (None: all one); returns the solution, in the units of y, and the sum of the weights.
Solve = Callable[[WeightsOfRows | None], tuple[ReducedSolution, float]]


def reweighted(
    rows: KernelRows, K_basis: Array, unit: float, solve: Solve, weighting: str, scale: str, most: int, tolerance: float
) -> Iterable[Reweighted]:
    """The plain fit and up to ``most`` weighted ones, until w changes by at most ``tolerance`` of its norm."""
    solution, mass = solve(None)
    last = Reweighted(solution, None, 0.0, mass, np.inf)
    yield last
    for _ in range(most):
        beta, bias = last.solution.coefficients[:, 0] / unit, float(last.solution.bias[0]) / unit
        spread = scale_of_errors(rows, unit, beta, bias, scale)
        weights = WeightsOfRows(beta, bias, spread, weighting)
        solution, mass = solve(weights)
        after = solution.coefficients[:, 0] / unit
        size = _norm(K_basis, after)
        change = _norm(K_basis, after - beta) / size if size > 0.0 else 0.0
        last = Reweighted(solution, weights, unit * spread, mass, change)
        yield last
        if last.change <= tolerance:
            return


def _norm(K_basis: Array, beta: Array) -> float:
    """The norm of w."""
    return math.sqrt(max(float(beta @ K_basis @ beta), 0.0))
