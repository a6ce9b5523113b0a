"""The certificate of a machine on a reduced basis, from what ``predict`` uses and the training rows."""

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Certificate
from substrate.closed_form.eigen_features import eigen_features
from substrate.closed_form.kernel_rows import KernelRows
from substrate.closed_form.moment_sums import RowWeights
from substrate.closed_form.moments import origin_of
from substrate.closed_form.reduced_answer import AnswerJudge
from substrate.closed_form.reduced_certificate import reduced_rows
from substrate.closed_form.reduced_spectrum import reduced_spectrum
from substrate.closed_form.rows_anywhere import Rows, residuals_of, statistic_of
from substrate.closed_form.saddle_certificate import worst_rows
from substrate.closed_form.saddle_system import target_unit
from substrate.namespaces import to_numpy

__all__ = ["certified_again"]


@np.errstate(over="ignore", invalid="ignore")  # what overflows is not finite, and its rows fail
def certified_again(
    rows: Rows,
    K: Array,
    coefficients: Array,
    bias: Array,
    gamma: float,
    title: str,
    kernel: str,
    weights: RowWeights | None = None,
    facts: tuple[tuple[str, str], ...] = (),
    *,
    tolerance: float,
) -> Certificate:
    """Everything from the rows, the kernel matrix of the basis and the coefficients, one column per output.

    ``tolerance`` is the share of the spread of y that the accuracy may be.
    """
    features, lam = eigen_features(K), 1.0 / gamma
    known = rows.target_summary()
    unit = target_unit(known.extremes)
    beta, shift = coefficients / unit, bias / unit
    statistic = statistic_of(rows, features, origin_of(K, known, unit), lam, weights=weights)
    spectrum = reduced_spectrum(features, statistic.origin, statistic.total, statistic.error)
    host = rows if isinstance(rows, KernelRows) else None
    judge = AnswerJudge(host, spectrum.curvature(K, rows.terms), lam, unit, known, weights, tolerance)
    residuals = residuals_of(rows, unit, beta, shift, judge.centre, weights)
    checks = reduced_rows(residuals, features, K, beta, features.weights(beta), to_numpy(shift), lam)
    answer = judge.of(residuals, beta, shift)
    if not answer.passes and host is not None:
        answer = judge.once_more(beta, shift)
    told = (("kernel", kernel), *facts, *answer.facts)
    return Certificate(title, (answer.row, *worst_rows(checks)), told)
