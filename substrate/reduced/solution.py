r"""The LS-SVM on a reduced basis, from sums over its rows.

.. math::

    \min_{\beta, b} \; \tfrac12 \beta^T K_{SS} \beta
        + \tfrac{\gamma}{2} \sum_{i=1}^l \Big( t_i - \sum_{j \in S} \beta_j k(x_i, z_j) - b \Big)^2

([Cawley2004]_ eq. (2)-(3), [Cawley2002]_ section 2, with our gamma.) It is solved in the eigen-features of
:math:`K_{SS}`, where it is ridge regression with a free bias, by :mod:`~substrate.reduced.spectrum`. The
errors of the machine, and with them the gradient, follow from the sums as well, see
:mod:`~substrate.reduced.summed_errors`, where rounding leaves the accuracy that is required. Elsewhere a second pass
over the rows computes them as the machine predicts, from beta; where the gradient is above rounding, one Newton step
from the same sums corrects it, as in iterative refinement. On a device no pass is made for digits beyond the checks: it
would cost as much as a third of the sums. With weights :math:`v_i` of
the rows, every row, its target and the 1 that multiplies its bias are multiplied by :math:`v_i^{1/2}`. Given weights
come with the rows of a source, as targets do.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.rows import ACCURATE
from substrate.least_squares.saddle_certificate import worst_rows
from substrate.namespaces import namespace_of, on_device_of, sum_squares, to_numpy, zeros_beside
from substrate.reduced.answer import AnswerBound, ReducedAnswer
from substrate.reduced.basis_matrix import BasisMatrix
from substrate.reduced.certificate import Residuals, reduced_rows
from substrate.reduced.moments import RowWeights, weights_of_tile
from substrate.reduced.row_products import sum_products
from substrate.reduced.rows import BasisValues, KernelRows
from substrate.reduced.spectrum import ReducedSpectrum
from substrate.reduced.summed_errors import KernelSums
from substrate.streaming.source import Block
from substrate.streaming.survey import TargetSummary

__all__ = ["ReducedSolution", "ResidualsOfLeaf", "residual_pass", "solve_reduced"]

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

    values: BasisValues
    unit: float
    coefficients: Array
    bias: Array
    weights: RowWeights | None = None
    centre: Array | None = None
    squared: bool = True

    def __call__(self, blocks: Iterable[Block]) -> Residuals:
        """Accumulate over the micro-blocks of a leaf."""
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
                scaled_targets = block.Y[rows, :] / self.unit
                errors = scaled_targets - (tile @ self.coefficients + bias)
                ones, about = xp.ones_like(scaled_targets[:, 0]), scaled_targets - centre
                weights = weights_of_tile(block, rows, tile, scaled_targets, self.weights)
                if weights is not None:
                    ones = xp.sqrt(weights)
                    tile *= ones[:, None]
                    errors, scaled_targets = errors * ones[:, None], scaled_targets * ones[:, None]
                    about = about * ones[:, None]
                squared = ones * ones
                shifts += ones @ about
                spreads += xp.sum(about * about, axis=0)
                mass += xp.sum(squared)
                diagonal += squared @ xp.clip(lengths[rows], min=0.0)
                slope += sum_products(tile, errors)
                total += sum_products(ones, errors)
                squares += xp.sum(errors * errors, axis=0)
                targets += xp.sum(scaled_targets * scaled_targets, axis=0)
                if self.squared:
                    norm += sum_squares(tile)
        e, ee, tt, t, centred = (to_numpy(array) for array in (total, squares, targets, shifts, spreads))
        return Residuals(
            count=count,
            slope=slope,
            total=e,
            squares=ee,
            targets=tt,
            kernel_squares=float(norm),
            shifts=t,
            spreads=centred,
            mass=float(mass),
            diagonal=float(diagonal),
            rounding=rounding,
        )


def residual_pass(
    rows: KernelRows,
    unit: float,
    coefficients: Array,
    bias: Array,
    weights: RowWeights | None = None,
    centre: Array | None = None,
    kernel_squares: float | None = None,
) -> Residuals:
    """Return sums over the errors of all rows; ``centre`` is a centre of the targets, in their unit.

    ``kernel_squares`` are those of all kernel values, where they are known.
    """
    function = ResidualsOfLeaf(
        values=rows.values,
        unit=unit,
        coefficients=coefficients,
        bias=bias,
        weights=weights,
        centre=centre,
        squared=kernel_squares is None,
    )
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
    share: float = ACCURATE,
    kernel_squares: float | None = None,
    sums: KernelSums | None = None,
    columns: Array | None = None,
) -> ReducedSolution:
    """Solve at one lambda = 1/gamma for every column of the targets, refine while it helps, and certify.

    ``weights_of_rows`` are those of the sums; ``targets`` summarises the targets; ``share`` is the accuracy
    required, relative to their spread; ``kernel_squares`` those of all kernel values, if the sums include them;
    ``sums`` are those of kernel values that the spectrum was computed from, by which no pass may be needed; ``columns``
    the norms of the kernel values of every basis vector, where those were summed.

    :equation [Cawley2002]_ (beta): the system in beta and b, errors of all rows
    :equation [Cawley2004]_ (3), (A.3): the normal equations of the sparse LS-SVM, solved in eigen-features
    """
    features, unit = spectrum.features, spectrum.origin.unit
    summary = rows.target_summary() if targets is None else targets
    columns, terms = (columns, rows.product_terms) if sums is None else (sums.lengths, sums.terms)
    basis = BasisMatrix(rows.values.of_kernel, K_basis, features.of_kernel)
    judge = AnswerBound(
        rows=rows,
        curvature=spectrum.curvature(basis, terms, columns),
        lam=lam,
        unit=unit,
        targets=summary,
        weights=weights_of_rows,
        share=share,
    )
    weights = spectrum.weights(lam)
    bias, refinements = spectrum.bias(weights), 0
    solution: ReducedSolution | tuple[Array, Array] | None = None
    if sums is not None and sums.agree:
        solution = _from_sums(sums, judge, spectrum, K_basis, weights, bias)
        if isinstance(solution, ReducedSolution):
            return solution
        weights, bias = solution
    # where the sums determine fewer digits than the rows do, it is refined although every check passes
    least = min(2, most) if not rows.on_device and spectrum.decomposition_error(lam) > _KNOWN else 0
    least = 0 if solution is not None else least  # what the decomposition lost was corrected
    while True:
        beta = features.coefficients(weights)
        residuals = residual_pass(rows, unit, beta, bias, weights_of_rows, judge.centre, kernel_squares)
        kernel_squares = residuals.kernel_squares  # independent of the coefficients
        answer = judge.of(residuals, beta, bias)
        checks = reduced_rows(residuals, features, K_basis, beta, weights, to_numpy(bias), lam, answer.pull)
        passes = all(row.passes for output in checks for row in output)
        wanted = passes and (answer.passes or not answer.helped)
        if refinements >= (least if wanted else most):
            break
        slope = answer.downhill(features, features.pull(weights, lam))
        change, shift = spectrum.correction(slope, on_device_of(bias, residuals.total), lam)
        weights, bias, refinements = weights + change, bias + shift, refinements + 1
    facts = answer.facts
    if not (answer.passes or answer.lost) and passes and not rows.on_device:
        # once more with errors in doubled precision: they may pass, or show how to correct the answer
        corrected = judge.carefully(answer, spectrum, beta, bias, weights)
        answer, beta, bias = corrected.answer, corrected.coefficients, corrected.bias
        facts, refinements = answer.facts, refinements + corrected.steps
    return ReducedSolution(
        coefficients=unit * beta,
        bias=unit * bias,
        rows=(answer.row, *worst_rows(checks)),
        refinements=refinements,
        facts=facts,
    )


def _from_sums(
    sums: KernelSums, judge: AnswerBound, spectrum: ReducedSpectrum, K_basis: Array, weights: Array, bias: Array
) -> ReducedSolution | tuple[Array, Array]:
    """Return the solution, refined and certified by the sums alone; weights and bias where their rounding is too large.

    A solution whose rows fail is returned where a pass over the errors, too, could not certify it with these sums.
    """
    features, lam, unit, refinements = spectrum.features, judge.lam, judge.unit, 0
    sliced, sizes = sums.slice_sums(), judge.curvature.sizes
    # a step costs no more than a product: it is made where the decomposition determines fewer digits than the sums do
    least = 2 if spectrum.decomposition_error(lam) > _KNOWN else 0
    answer: ReducedAnswer | None = None
    while True:
        beta = features.coefficients(weights)
        residuals, rounded = sums.residuals(beta, bias, sizes, sliced)
        if refinements >= least:
            answer = judge.bound_from_sums(residuals, rounded, beta, bias)
            checks = reduced_rows(residuals, features, K_basis, beta, weights, bias, lam, answer.pull)
            passes = answer.passes and all(row.passes for output in checks for row in output)
            if not (passes or answer.helped) or refinements >= _MOST_REFINEMENTS:
                # with few digits in the sums, other sums are better than a pass that these cannot make use of
                hopeless = spectrum.error > _KNOWN and not judge.of(residuals, beta, bias).passes
                if not hopeless:
                    return weights, bias
            if passes or not answer.helped or refinements >= _MOST_REFINEMENTS:
                rows = (answer.row, *worst_rows(checks))
                return ReducedSolution(
                    coefficients=unit * beta, bias=unit * bias, rows=rows, refinements=refinements, facts=answer.facts
                )
        if answer is None:
            slope = features.transform.T @ residuals.slope - features.pull(weights, lam)
        else:
            slope = answer.downhill(features, features.pull(weights, lam))
        change, shift = spectrum.correction(slope, residuals.total, lam)
        weights, bias, refinements = weights + change, bias + shift, refinements + 1
