r"""Certificate rows of the LS-SVM saddle system, recomputed from data and solution.

The KKT conditions ([Suykens2002]_ eq. (4)) with w eliminated: the fit equalities with :math:`e = \alpha/(\gamma v)`
inserted, stationarity in e with :math:`e = y - f` inserted, :math:`1^T \alpha = 0`, the duality gap of

.. math:: P = \tfrac12 \alpha^T K \alpha + \tfrac12 \sum_i \gamma v_i (y_i - f_i)^2, \qquad
          D = y^T \alpha - \tfrac12 \alpha^T K \alpha - \tfrac12 \sum_i \frac{\alpha_i^2}{\gamma v_i},

and the normwise backward error of the bordered system (2).
"""

import math
from dataclasses import replace

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Accuracy, Row, accuracy_of_outputs, gap_row, roundoff
from substrate.ingredients import error_row, fit_row, zero_sum_row
from substrate.least_squares.border import ONES, Border
from substrate.least_squares.saddle_system import target_unit
from substrate.numbers import relative_rounding

__all__ = ["saddle_rows", "worst_rows"]


@np.errstate(over="ignore", invalid="ignore")  # overflow is not finite, and its row fails
def saddle_rows(
    products: Array,
    diagonal: Array,
    y: Array,
    ridge: Array,
    support_values: Array,
    bias: float,
    *,
    tolerance: float | None = None,
    border: Border = ONES,
    slopes: Array | None = None,
) -> tuple[Row, ...]:
    """Return rows for one output, in units of :func:`~substrate.least_squares.saddle_system.target_unit`.

    :equation [Suykens2002]_ (4): the conditions for optimality, with w eliminated

    Parameters
    ----------
    products
        K alpha, computed from the alpha that is certified.
    diagonal
        The diagonal of K.
    y, ridge
        Target and the diagonal 1/(gamma v).
    support_values, bias
        The solution.
    tolerance
        LAPACK's threshold for a direct method unless given; an iterative method states its own.
    border, slopes
        The columns that are not penalised, and the coefficients of those beside the constant.
    """
    unit = target_unit(y)
    p, t, alpha, b = products / unit, y / unit, support_values / unit, float(bias) / unit
    tolerance = roundoff(y.size) if tolerance is None else tolerance
    # Without the mean of y, which the bias absorbs: an offset must not make the check easier or less accurate.
    root, center = float(np.sqrt(y.size)), float(np.mean(t))
    linear = border.slope_values(slopes) / unit
    rounded = relative_rounding(4.0) * float((np.abs(t) + border.slope_sizes(slopes) / unit).max())
    # what the linear part fits is taken off the targets: the bias and the kernel fit the rest
    t, b = t - linear - center, b - center
    f = p + b
    e = t - f
    implied = ridge * alpha
    norm_alpha = float(np.linalg.norm(alpha))
    # A lower bound of ||K|| (its action on alpha, its diagonal): the scale is never too large.
    norm_k = max(float(np.linalg.norm(p)) / norm_alpha if norm_alpha > 0.0 else 0.0, float(diagonal.max()))
    # The border of ones is part of the matrix, so the scale includes its norm times alpha, and the rounding of y.
    scale = norm_k * norm_alpha + float(np.linalg.norm(implied)) + root * (abs(b) + norm_alpha)
    scale += float(np.linalg.norm(t)) + root * rounded / tolerance
    norm_squared, total = float(alpha @ p), math.fsum(alpha.tolist())
    gap = gap_row(
        primal=(0.5 * norm_squared, 0.5 * float(e @ (e / ridge))),
        dual=(float(t @ alpha) + center * total, -0.5 * norm_squared, -0.5 * float(alpha @ implied)),
        tolerance=tolerance,
    )
    residual = float(np.linalg.norm(np.append(t - f - implied, alpha.sum())))
    return (
        fit_row(t, f, implied, tolerance, scale),
        error_row(alpha, 1.0 / ridge, e, tolerance, t, scale),
        zero_sum_row(alpha, tolerance),
        *border.row(alpha, tolerance),
        # alpha'K alpha may be far smaller than ||K|| ||alpha||^2, which determines its rounding; errors are known to
        # the rounding of y, whose square is in the objective
        replace(gap, scale=gap.scale + scale * norm_alpha + float(np.sum(1.0 / ridge)) * rounded**2 / tolerance),
        Row(
            name="backward error",
            value=residual,
            scale=scale,
            tolerance=tolerance,
            formula="||rhs - M x|| / (||M|| ||x|| + ||rhs||)",
        ),
    )


def worst_rows(outputs: list[tuple[Row, ...]]) -> tuple[Row, ...]:
    """Return, of several outputs' rows of the same name, the one that comes closest to failing; the accuracy of every
    output.

    Where one output has no bound on its answer, there is none for all.
    """
    if len(outputs) == 1:
        return outputs[0]
    answers = [row for rows in outputs for row in rows if isinstance(row, Accuracy)]
    named: dict[str, list[Row]] = {}
    for rows in outputs:
        for row in rows:
            if not isinstance(row, Accuracy):
                named.setdefault(row.name, []).append(row)
    bounded = (accuracy_of_outputs(answers),) if outputs and len(answers) == len(outputs) else ()
    return bounded + tuple(
        replace(
            max(rows, key=lambda row: row.relative / row.tolerance),
            formula=f"{rows[0].formula}, worst of {len(rows)} outputs" if len(rows) > 1 else rows[0].formula,
        )
        for rows in named.values()
    )
