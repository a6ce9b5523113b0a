"""The criterion of a machine on a reduced basis as a function of gamma, by name, and the same of the fitted machine."""

import numpy as np

from problems.estimators.chosen.candidates import EvaluatedKernel
from problems.estimators.reduced.fit import PreparedRows, ReducedFit
from substrate.arrays import namespace_of, to_numpy
from substrate.certificates import Row
from substrate.least_squares.criteria import Criterion
from substrate.least_squares.validation import CriterionSum
from substrate.numbers import relative_rounding
from substrate.reduced.criteria import (
    ReducedEvidence,
    ReducedFold,
    ReducedGcv,
    SpectrumRadius,
    criterion_of_sums,
    sizes_of_rows,
)
from substrate.reduced.left_out import ReducedLeaveOneOut, left_out_rows
from substrate.reduced.moments import Statistic
from substrate.reduced.solution import Penalty
from substrate.reduced.spectrum import ReducedSpectrum, reduced_spectrum

__all__ = ["criterion_on", "refitted_row"]


def criterion_on(
    which: str, prepared: PreparedRows, statistic: Statistic, spectrum: ReducedSpectrum, pooled: bool
) -> Criterion | CriterionSum:
    """Return the criterion of one of the names of ``cv``, from the statistic of all rows."""
    rows, host = prepared.rows, spectrum.on_host()
    rounding = rows, Penalty.of(rows.values, to_numpy(prepared.K), host.features), sizes_of_rows(rows)
    radius = SpectrumRadius.of(host, *rounding)
    if which == "loo":
        return ReducedLeaveOneOut.of_rows(spectrum, rows, radius, pooled=pooled)
    if which == "gcv":
        return criterion_of_sums(ReducedGcv, spectrum.with_squared_weights(rows).on_host(), radius, pooled)
    if which == "evidence":
        return criterion_of_sums(ReducedEvidence, host, radius, pooled)
    criteria = []
    for fold in statistic.folds:
        others = reduced_spectrum(statistic, statistic.total - fold).on_host()
        criteria.append(ReducedFold.of(others, fold, SpectrumRadius.of(others, *rounding), pooled=pooled))
    return CriterionSum.of(criteria, [1.0 / len(criteria)] * len(criteria))


def refitted_row(fit: ReducedFit, best: EvaluatedKernel) -> Row:
    """Return the root of the leave-one-out criterion from the fitted machine and its factor instead of the spectrum."""
    unit, prepared = best.search.unit, fit.prepared
    squares, spare, outputs = 0.0, 1.0, int(fit.bias.shape[0])
    for block in left_out_rows(prepared.rows, fit.coefficients, fit.bias, fit.factor):
        squares_of_block = (block.residuals / unit) ** 2
        spare = min(spare, float(namespace_of(squares_of_block).min(1.0 - block.leverages)))
        squares += float(
            namespace_of(squares_of_block).sum(
                squares_of_block if block.weights is None else block.weights[:, None] * squares_of_block
            )
        )
    refitted_error = float(np.sqrt(squares / (prepared.rows.n_rows * outputs)))
    value = float(np.sqrt(best.search.values[0]))
    # a leverage near one is known to the rounding of its sum, and what it leaves of one to less
    tolerance = 1e-8 + 10.0 * best.error + relative_rounding(1e2 * prepared.rows.n_basis) / max(spare, 1e-300)
    scale = max(value, refitted_error) + 1e-6 * float(np.abs(prepared.targets.extremes / unit).max())
    return Row(
        name="criterion refitted",
        value=value - refitted_error,
        scale=scale,
        tolerance=tolerance,
        formula="root, by spectrum - by the fitted machine",
    )
