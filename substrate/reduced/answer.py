r"""The answer of a fit on a reduced basis: a bound on its distance from the exact optimum, and refinement.

The sums of the pass that certifies a fit suffice for ordinary ones. Where rounding is too large for that, and the rows
are numpy's or read in passes, another pass is made: kernel values are computed accurately, :math:`\hat K \beta` and
:math:`\hat K^T e` are summed in doubled precision (:mod:`~substrate.certificates.doubled_precision`), and what
``predict`` returns for the same coefficients is compared with it instead of bounded. The coefficients are corrected by
its gradient as long as the bound falls. The sums over leaves add up as in any other pass, so the result does not depend
on who computes them. Where double precision does not suffice, the certificate states it, with a remedy.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from substrate.arrays import Array
from substrate.certificates.doubled_precision import SlicedMatrix
from substrate.certificates.enclosed import Doubled, at_most, sum_rounding
from substrate.certificates.rows import ACCURATE, Accuracy, accuracy_of_outputs
from substrate.namespaces import on_device_of, to_numpy
from substrate.reduced.basis_matrix import BasisMatrix, Deviation
from substrate.reduced.certificate import ErrorsRounded, Residuals, cut_fact, reduced_accuracy, rounded_errors
from substrate.reduced.curvature import Curvature
from substrate.reduced.features import EigenFeatures
from substrate.reduced.moments import RowWeights, weights_of_tile
from substrate.reduced.rows import BasisValues, KernelRows
from substrate.reduced.spectrum import ReducedSpectrum
from substrate.reduced.summed_errors import CHECKED
from substrate.streaming.source import Block
from substrate.streaming.summation import highest
from substrate.streaming.survey import TargetSummary
from substrate.streaming.tally import Tally

__all__ = ["UNKNOWN", "AnswerBound", "ReducedAnswer", "careful_pass"]

#: Number of rows whose kernel values are held at a time: slices of them need additional memory.
_ROWS = 512


@dataclass(frozen=True, slots=True)
class CarefulErrors(Tally):
    """Sums over rows, and squares of the error bounds and of the deviations of ``predict``.

    ``outside`` bounds the squared lengths of the rows outside the features, where those are given.
    """

    residuals: Residuals
    radius_squares: Array
    distance_squares: Array
    outside: float = 0.0


@dataclass(frozen=True, slots=True)
class CarefulErrorsOfLeaf:
    """The errors e = t - f of the rows of a leaf in doubled precision; coefficients in units of the targets."""

    values: BasisValues
    unit: float
    coefficients: Array
    bias: Array
    sizes: Array
    centre: Array
    weights: RowWeights | None = None
    #: T and E, where the lengths of rows outside the features are summed.
    features: tuple[Array, Deviation] | None = None

    def __call__(self, blocks: Iterable[Block]) -> CarefulErrors:
        """Accumulate over the micro-blocks of a leaf."""
        outputs, m = self.bias.size, self.values.n_basis
        slope = [Doubled.exact(np.zeros(m)) for _ in range(outputs)]
        total, squares, targets, shifts, spreads, radius_squares, distance_squares = (
            np.zeros(outputs) for _ in range(7)
        )
        norm = mass = diagonal = rounding = outside = 0.0
        count = 0
        for block in blocks:
            count += int(block.X.shape[0])
            p = self.values.careful_rounding(block.X)
            rounding = max(rounding, p)
            lengths = np.sqrt(np.maximum(self.values.diagonal(block), 0.0))
            predicted, v = self._predict(block)
            for first in range(0, block.X.shape[0], _ROWS):
                block_rows = slice(first, min(first + _ROWS, block.X.shape[0]))
                targets_of_rows, light = block.Y[block_rows] / self.unit, v[block_rows]
                tile = np.empty((targets_of_rows.shape[0], m))
                self.values.fill_carefully(block.X[block_rows], tile)
                adjoint = Doubled.exact(np.ascontiguousarray(tile.T))
                for k in range(outputs):
                    beta, zeros = self.coefficients[:, k], np.zeros(targets_of_rows.shape[0])
                    values = Doubled(
                        zeros + self.bias[k], None, p * lengths[block_rows] * float(self.sizes @ np.abs(beta))
                    )
                    f = Doubled.exact(tile) @ beta + values
                    errors = (Doubled.exact(targets_of_rows[:, k]) - f).round()
                    e, gone = errors.middle, (Doubled.exact(predicted[block_rows, k]) - f).midpoint
                    slope[k] = slope[k] + adjoint @ (light * e)
                    total[k] += float(light @ e)
                    squares[k] += float(light @ np.square(e))
                    radius_squares[k] += float(light @ np.square(errors.radius))
                    distance_squares[k] += float(light @ np.square(gone))
                targets += light @ np.square(targets_of_rows)
                shifts += light @ (targets_of_rows - self.centre)
                spreads += light @ np.square(targets_of_rows - self.centre)
                norm += float(light @ np.square(tile).sum(axis=1))
                mass += float(light.sum())
                diagonal += float(light @ np.square(lengths[block_rows]))
                if self.features is not None:
                    inner = np.ascontiguousarray(tile[:, : self.features[0].shape[0]])
                    outside += _outside(*self.features, inner, lengths[block_rows], light, p)
        slopes = np.column_stack([number.midpoint for number in slope])
        sums = Residuals(
            count=count,
            slope=slopes,
            total=total,
            squares=squares,
            targets=targets,
            kernel_squares=norm,
            shifts=shifts,
            spreads=spreads,
            mass=mass,
            diagonal=diagonal,
            rounding=rounding,
        )
        return CarefulErrors(sums, radius_squares, distance_squares, outside)

    def _predict(self, block: Block) -> tuple[Array, Array]:
        """Return what predict returns, in units of the targets, and the weights of the rows."""
        predicted = self.values.expand(block.X, self.coefficients, self.bias)
        if self.weights is None:
            return predicted, np.ones(block.X.shape[0]) if block.weights is None else block.weights
        ones = np.ones(block.X.shape[0])
        for _, rows, tile in self.values.walk([block]):
            ones[rows] = weights_of_tile(block, rows, tile, block.Y[rows] / self.unit, self.weights)
        return predicted, ones


def _outside(T: Array, deviation: Deviation, tile: Array, lengths: Array, light: Array, p: float) -> float:
    """Bound the sum of v (k(x, x) - z'M^-1 z) over rows, M = T'K_SS T: their squares beyond the features."""
    z, errors, sliced = np.empty((len(tile), T.shape[1])), np.empty((len(tile), T.shape[1])), SlicedMatrix(tile)
    for k in range(T.shape[1]):
        (high, low), check = sliced.times(np.ascontiguousarray(T[:, k]))
        z[:, k] = high + low
        errors[:, k] = check + p * lengths * deviation.lengths[k] + sum_rounding(2) * np.abs(z[:, k])
    outside_squares = np.square(lengths) - np.square(z).sum(axis=1) + _quadratic(deviation, z, errors)
    outside_squares += (2.0 * np.abs(z) * errors + np.square(errors)).sum(axis=1)
    outside_squares += sum_rounding(2 * (T.shape[1] + 4)) * np.square(lengths)
    return float(light @ np.maximum(outside_squares, 0.0))


def _quadratic(deviation: Deviation, z: Array, errors: Array) -> Array:
    """Bound z'E z, row by row."""
    sizes = np.abs(z) + errors
    form_bound = np.einsum("ij,ij->i", z @ deviation.matrix, z) + deviation.relative * np.square(
        sizes @ deviation.lengths
    )
    inexact = sum_rounding(2 * (z.shape[1] + 4)) * np.abs(deviation.matrix)
    inexact += 0.0 if deviation.errors is None else deviation.errors
    form_bound += np.einsum("ij,ij->i", sizes @ inexact, sizes)
    return np.asarray(form_bound + 2.0 * np.einsum("ij,ij->i", sizes @ np.abs(deviation.matrix), errors))


def careful_pass(
    rows: KernelRows,
    unit: float,
    coefficients: Array,
    bias: Array,
    sizes: Array,
    centre: Array,
    weights: RowWeights | None = None,
    basis: BasisMatrix | None = None,
) -> tuple[Residuals, ErrorsRounded]:
    """Return sums over the errors of all rows, and bounds on their rounding; of ``basis`` directions were cut, if
    given.
    """
    function = CarefulErrorsOfLeaf(
        values=rows.values, unit=unit, coefficients=coefficients, bias=bias, sizes=sizes, centre=centre, weights=weights
    )
    if basis is not None:
        deviation = basis.deviation(basis.best())
        if deviation is not None:
            function = replace(function, features=(basis.features.transform, deviation))
    sums: CarefulErrors = rows.sums(function, "errors of all rows, accurately")
    # a leaf's sums are exact up to their last rounding; leaves add up in a tree; v e was rounded once
    slopes = sum_rounding(highest(rows.n_rows) + 6)
    radius = at_most(1.0) * np.sqrt(sums.radius_squares)
    # blocks of another size may round differently, by a unit or two in the last place of the largest term
    place = sum_rounding(4) * (np.sqrt(sums.residuals.targets) + np.sqrt(sums.residuals.squares))
    distance = np.sqrt(sums.distance_squares) + radius + place
    outside = None if function.features is None else at_most(sums.outside)
    return sums.residuals, ErrorsRounded(
        errors=radius, distance=distance, kernel=sums.residuals.rounding, slopes=slopes, outside=outside
    )


UNKNOWN = (
    "rounding",
    "double precision cannot give the answer to this tolerance; use a narrower kernel or fewer basis vectors, penalise "
    "more (a lower gamma, a higher zeta), or scale the columns",
)
_MOST_STEPS = 2


def reason_of_failure(basis: BasisMatrix) -> tuple[str, str]:
    """Return why the answer is not within its tolerance, and what to do."""
    if not basis.n_cut:
        return UNKNOWN
    return (
        "rounding",
        f"{basis.n_cut} of the {basis.dimension} directions of the basis cannot be told apart in double precision, and "
        "may change the answer by more than this tolerance; leave out vectors that are close to each other or let a "
        "rule choose the basis, use a narrower kernel, penalise more (a lower gamma), or scale the columns",
    )


@dataclass(frozen=True, slots=True)
class ReducedAnswer:
    """The row of all outputs, its facts, and whether a step by the gradient could help.

    ``pull`` is lambda T'K_SS beta, where K_SS is known better than the features are; ``lost`` states that directions
    were cut that no pass can bring back.
    """

    row: Accuracy
    facts: tuple[tuple[str, str], ...]
    helped: bool
    slope: Array
    total: Array
    pull: Array | None = None
    lost: bool = False

    @property
    def passes(self) -> bool:
        """Whether the answer is within its tolerance."""
        return self.row.passes

    def downhill(self, features: EigenFeatures, pull: Array) -> Array:
        """Return the negative gradient in the features; ``pull`` is lambda u, for K_SS as the features have it."""
        T = features.transform
        slope: Array = T.T @ on_device_of(T, self.slope) - (pull if self.pull is None else on_device_of(T, self.pull))
        return slope


class CorrectedAnswer(NamedTuple):
    """The best answer of a few accurate passes, with its coefficients and biases, and the number of steps taken."""

    answer: ReducedAnswer
    coefficients: Array
    bias: Array
    steps: int


@dataclass(frozen=True, slots=True)
class AnswerBound:
    """The common data of the bounds of one machine.

    ``share`` is the permitted error relative to the spread of y, of which only a pass over the rows knows the size: the
    sums of every pass turn it into absolute errors.
    """

    rows: KernelRows
    curvature: Curvature
    lam: float
    unit: float
    targets: TargetSummary
    weights: RowWeights | None = None
    share: float = ACCURATE

    @property
    def centre(self) -> Array:
        """A centre of the targets, in their unit."""
        return self.targets.means_in(self.unit)

    def bound_from_sums(self, residuals: Residuals, rounded: ErrorsRounded, beta: Array, bias: Array) -> ReducedAnswer:
        """Return the answer from the sums of the fit, without a pass."""
        answer = self._answer(residuals, rounded, beta, bias)
        return replace(answer, facts=(*answer.facts, CHECKED))

    def of(self, residuals: Residuals, beta: Array, bias: Array, terms: int | None = None) -> ReducedAnswer:
        """Return the answer from the sums of a pass in working precision."""
        beta, bias = to_numpy(beta), to_numpy(bias)
        many = self.rows.terms if terms is None else terms
        rounded = rounded_errors(residuals, to_numpy(self.curvature.sizes), beta, bias, many)
        return self._answer(residuals, rounded, beta, bias)

    def carefully(
        self, before: ReducedAnswer, spectrum: ReducedSpectrum | None, beta: Array, bias: Array, weights: Array
    ) -> CorrectedAnswer:
        """Return the best answer of a few accurate passes."""
        best, taken = self.once_more(beta, bias), 0
        steps = (best, beta, bias)
        if best.row.relative > before.row.relative:
            best = replace(best, row=before.row)
        for step in range(_MOST_STEPS if spectrum is not None else 0):
            last, b, shift = steps
            if best.passes or spectrum is None:
                break
            slope = last.downhill(spectrum.features, spectrum.features.pull(weights, self.lam))
            change, change_of_bias = spectrum.correction(slope, last.total, self.lam)
            weights, shift = weights + change, shift + change_of_bias
            b = spectrum.features.coefficients(weights)
            steps = (self.once_more(b, shift), b, shift)
            if not steps[0].row.relative < 0.5 * best.row.relative:
                break
            (best, beta, bias), taken = steps, step + 1
        return CorrectedAnswer(answer=best, coefficients=beta, bias=bias, steps=taken)

    def once_more(self, beta: Array, bias: Array) -> ReducedAnswer:
        """Return the answer from an accurate pass."""
        sizes = to_numpy(self.curvature.sizes)
        basis = self.curvature.penalty_matrix
        cut = basis if basis.n_cut else None
        last = careful_pass(self.rows, self.unit, beta, bias, sizes, self.centre, self.weights, cut)
        answer = self._answer(*last, beta, bias)
        facts = (("check", "in doubled precision"),) if answer.passes else answer.facts[1:]
        return replace(answer, facts=(*answer.facts[:1], *facts))

    def _answer(self, residuals: Residuals, rounded: ErrorsRounded, beta: Array, bias: Array) -> ReducedAnswer:
        tolerances = residuals.tolerances(self.unit, self.targets, self.share)
        accuracy = reduced_accuracy(residuals, rounded, self.curvature, beta, bias, self.lam, self.unit, tolerances)
        row = accuracy_of_outputs(accuracy.rows)
        fact = cut_fact(self.curvature.penalty_matrix)
        gradient = to_numpy(residuals.slope)
        facts = (fact,) if row.passes else (fact, reason_of_failure(self.curvature.penalty_matrix))
        total = np.asarray(to_numpy(residuals.total))
        return ReducedAnswer(
            row=row,
            facts=facts,
            helped=accuracy.helped,
            slope=gradient,
            total=total,
            pull=accuracy.pull,
            lost=accuracy.lost,
        )
