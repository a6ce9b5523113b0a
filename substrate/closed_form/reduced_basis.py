r"""The LS-SVM on a reduced basis, from sums over its rows.

.. math::

    \min_{\beta, b} \; \tfrac12 \beta^T K_{SS} \beta
        + \tfrac{\gamma}{2} \sum_{i=1}^l \Big( t_i - \sum_{j \in S} \beta_j k(x_i, z_j) - b \Big)^2

([Cawley2004]_ eq. (2)-(3), [Cawley2002]_ section 2, with our gamma.) Solved in the eigen-features of
:math:`K_{SS}`, where it is ridge regression with a free bias, by :mod:`~substrate.closed_form.reduced_spectrum`. A
second pass over the rows computes the errors of the machine as it will predict, from beta, and with them the gradient;
where that is not down to rounding, one Newton step from the sums at hand mends it, as iterative refinement does.

Where rows have weights :math:`v_i`, every row, its target and the 1 that multiplies its bias stand for themselves times
:math:`v_i^{1/2}`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.accuracy import ACCURATE
from substrate.closed_form.kernel_rows import KernelRows, KernelValues
from substrate.closed_form.moment_sums import RowWeights
from substrate.closed_form.reduced_answer import AnswerJudge
from substrate.closed_form.reduced_certificate import Residuals, reduced_rows
from substrate.closed_form.reduced_spectrum import ReducedSpectrum
from substrate.closed_form.saddle_certificate import worst_rows
from substrate.streaming.source import Block
from substrate.streaming.target_summary import TargetSummary

__all__ = ["ReducedSolution", "ResidualsOfLeaf", "residual_pass", "solve_reduced"]

_MOST_REFINEMENTS = 3
#: Relative error of what the sums say up to which nothing is refined without need.
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
    """The errors e = t - f of the rows of a leaf, in sums: with kernel values, alone, and squared."""

    values: KernelValues
    unit: float
    coefficients: Array
    bias: Array
    weights: RowWeights | None = None
    centre: Array | None = None

    def __call__(self, blocks: Iterable[Block]) -> Residuals:
        """Over the micro-blocks of a leaf."""
        slope, total = np.zeros(self.coefficients.shape), np.zeros(self.bias.size)
        squares, targets, norm, count = np.zeros(self.bias.size), np.zeros(self.bias.size), 0.0, 0
        shifts, spreads, mass, diagonal, rounding = np.zeros(self.bias.size), np.zeros(self.bias.size), 0.0, 0.0, 0.0
        centre = np.zeros(self.bias.size) if self.centre is None else self.centre
        buffer = self.values.buffer()
        for block in blocks:
            count += int(block.X.shape[0])
            lengths, rounding = self.values.diagonal(block), max(rounding, self.values.rounding(block.X))
            for rows, tile in self.values.tiles(block, buffer):
                known = block.Y[rows] / self.unit
                errors = known - (tile @ self.coefficients + self.bias)
                ones, about = np.ones(known.shape[0]), known - centre
                if self.weights is not None:
                    ones = np.sqrt(self.weights(tile, known))
                    tile *= ones[:, None]
                    errors, known = errors * ones[:, None], known * ones[:, None]
                    about = about * ones[:, None]
                squared = np.square(ones)
                shifts += ones @ about
                spreads += np.square(about).sum(axis=0)
                mass += float(squared.sum())
                diagonal += float(squared @ np.maximum(lengths[rows], 0.0))
                slope += tile.T @ errors
                total += ones @ errors
                squares += np.square(errors).sum(axis=0)
                targets += np.square(known).sum(axis=0)
                norm += float(np.vdot(tile, tile))
        return Residuals(count, slope, total, squares, targets, norm, shifts, spreads, mass, diagonal, rounding)


def residual_pass(
    rows: KernelRows,
    unit: float,
    coefficients: Array,
    bias: Array,
    weights: RowWeights | None = None,
    centre: Array | None = None,
) -> Residuals:
    """The errors of all rows, in sums; ``centre`` is what the targets are near, in their unit."""
    function = ResidualsOfLeaf(rows.values, unit, coefficients, bias, weights, centre)
    sums: Residuals = rows.sums(function, "errors of all rows")
    return sums


def solve_reduced(
    rows: KernelRows,
    spectrum: ReducedSpectrum,
    lam: float,
    K_basis: Array,
    most: int = _MOST_REFINEMENTS,
    weights_of_rows: RowWeights | None = None,
    targets: TargetSummary | None = None,
    tolerance: float = ACCURATE,
) -> ReducedSolution:
    """Solve at one lambda = 1/gamma for every column of the targets, refine while it helps, and certify.

    ``weights_of_rows`` are those that the sums were made with; ``targets`` is what is known of the targets;
    ``tolerance`` the share of their spread that the accuracy may be.

    :equation [Cawley2002]_ (beta): the system in beta and b, errors of all rows
    :equation [Cawley2004]_ (3), (A.3): the normal equations of the sparse LS-SVM, solved in eigen-features
    """
    features, unit = spectrum.features, spectrum.origin.unit
    known = rows.target_summary() if targets is None else targets
    judge = AnswerJudge(rows, spectrum.curvature(K_basis, rows.terms), lam, unit, known, weights_of_rows, tolerance)
    weights = spectrum.weights(lam)
    bias, refinements = spectrum.bias(weights), 0
    # where sums know the machine to fewer digits than its rows do, it is refined although every check passes
    least = min(2, most) if spectrum.decomposition_error(lam) > _KNOWN else 0
    while True:
        beta = features.coefficients(weights)
        residuals = residual_pass(rows, unit, beta, bias, weights_of_rows, judge.centre)
        checks = reduced_rows(residuals, features, K_basis, beta, weights, bias, lam)
        answer = judge.of(residuals, beta, bias)
        passes = all(row.passes for output in checks for row in output)
        wanted = passes and (answer.passes or not answer.helped)
        if refinements >= (least if wanted else most):
            break
        slope = features.transform.T @ residuals.slope - lam * weights
        change, shift = spectrum.correction(slope, residuals.total, lam)
        weights, bias, refinements = weights + change, bias + shift, refinements + 1
    facts = answer.facts
    if not answer.passes and passes:
        # the same once more, with errors in doubled precision: they may show that all is well, or how to mend it
        answer, beta, bias, steps = judge.carefully(answer, spectrum, beta, bias, weights)
        facts, refinements = answer.facts, refinements + steps
    return ReducedSolution(unit * beta, unit * bias, (answer.row, *worst_rows(checks)), refinements, facts)
