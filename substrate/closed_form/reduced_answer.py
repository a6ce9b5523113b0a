"""The answer of a fit on a reduced basis: how near the exact optimum it is, and made better where that is not enough.

The sums of the pass that certifies a fit settle ordinary ones. Where rounding leaves room for doubt, and rows are in
numpy or read in passes, a pass with care is made (:mod:`~substrate.closed_form.careful_errors`) and the coefficients
are stepped by its gradient as long as the bound falls. What cannot be known in double precision is said, with the cure.
"""

from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.certificates.accuracy import ACCURATE, Accuracy
from substrate.closed_form.careful_errors import careful_pass
from substrate.closed_form.kernel_rows import KernelRows
from substrate.closed_form.moment_sums import RowWeights
from substrate.closed_form.reduced_accuracy import (
    ErrorsRounded,
    cut_fact,
    reduced_accuracy,
    rounded_errors,
    worst_accuracy,
)
from substrate.closed_form.reduced_certificate import Residuals
from substrate.closed_form.reduced_curvature import Curvature
from substrate.closed_form.reduced_spectrum import ReducedSpectrum
from substrate.namespaces import to_numpy
from substrate.streaming.target_summary import TargetSummary

__all__ = ["UNKNOWN", "AnswerJudge", "ReducedAnswer"]

UNKNOWN = (
    "rounding",
    "double precision cannot tell the answer to this tolerance; use a narrower kernel or fewer basis vectors, penalise "
    "more (a lower gamma, a higher zeta), or scale the columns",
)
_MOST_STEPS = 2


@dataclass(frozen=True, slots=True)
class ReducedAnswer:
    """The row of the worst output, the facts that go with it, and whether a step by the gradient could help."""

    row: Accuracy
    facts: tuple[tuple[str, str], ...]
    helped: bool
    slope: Array
    total: Array

    @property
    def passes(self) -> bool:
        """Whether the answer is near enough."""
        return self.row.passes


@dataclass(frozen=True, slots=True)
class AnswerJudge:
    """All that bounds of one machine have in common."""

    rows: KernelRows | None
    curvature: Curvature
    lam: float
    unit: float
    targets: TargetSummary
    weights: RowWeights | None = None
    tolerance: float = ACCURATE

    @property
    def centre(self) -> Array:
        """What the targets are near, in their unit."""
        return self.targets.about(self.unit)

    def of(self, residuals: Residuals, beta: Array, bias: Array, terms: int | None = None) -> ReducedAnswer:
        """From the sums of a pass in working precision."""
        beta, bias = to_numpy(beta), to_numpy(bias)
        many = self.curvature.terms if terms is None else terms
        rounded = rounded_errors(residuals, to_numpy(self.curvature.sizes), beta, bias, many)
        return self._answer(residuals, rounded, beta, bias)

    def carefully(
        self, before: ReducedAnswer, spectrum: ReducedSpectrum | None, beta: Array, bias: Array, weights: Array
    ) -> tuple[ReducedAnswer, Array, Array, int]:
        """The best answer of a few passes with care, its coefficients and bias, and the steps taken to it."""
        best, taken = self.once_more(beta, bias), 0
        steps = (best, beta, bias)
        if best.row.value > before.row.value:
            best = ReducedAnswer(before.row, best.facts, best.helped, best.slope, best.total)
        for step in range(_MOST_STEPS if spectrum is not None else 0):
            last, b, shift = steps
            if best.passes or spectrum is None:
                break
            slope = spectrum.features.transform.T @ last.slope - self.lam * weights
            change, moved = spectrum.correction(slope, last.total, self.lam)
            weights, shift = weights + change, shift + moved
            b = spectrum.features.coefficients(weights)
            steps = (self.once_more(b, shift), b, shift)
            if not steps[0].row.value < 0.5 * best.row.value:
                break
            (best, beta, bias), taken = steps, step + 1
        return best, beta, bias, taken

    def once_more(self, beta: Array, bias: Array) -> ReducedAnswer:
        """From a pass with care."""
        if self.rows is None:
            raise TypeError("rows on a device are not gone through with care")
        sizes = to_numpy(self.curvature.sizes)
        known = careful_pass(self.rows, self.unit, beta, bias, sizes, self.centre, self.weights)
        answer = self._answer(*known, beta, bias)
        told = (("check", "in doubled precision"),) if answer.passes else (UNKNOWN,)
        return ReducedAnswer(answer.row, (*answer.facts[:1], *told), answer.helped, answer.slope, answer.total)

    def _answer(self, residuals: Residuals, rounded: ErrorsRounded, beta: Array, bias: Array) -> ReducedAnswer:
        outputs, helped = reduced_accuracy(
            residuals, rounded, self.curvature, beta, bias, self.lam, self.unit, self.targets, tolerance=self.tolerance
        )
        row = worst_accuracy(outputs)
        fact = cut_fact(self.curvature.features)
        gradient = to_numpy(residuals.slope)
        facts = (fact,) if row.passes else (fact, UNKNOWN)
        return ReducedAnswer(row, facts, helped, gradient, np.asarray(to_numpy(residuals.total)))
