r"""Certificate rows of the LS-SVM saddle system, recomputed from data and solution.

The KKT conditions ([Suykens2002]_ eq. (4)) with w eliminated: the fit equalities with :math:`e = \alpha/(\gamma v)`
put in, stationarity in e with :math:`e = y - f` put in, :math:`1^T \alpha = 0`, the duality gap of

.. math:: P = \tfrac12 \alpha^T K \alpha + \tfrac12 \sum_i \gamma v_i (y_i - f_i)^2, \qquad
          D = y^T \alpha - \tfrac12 \alpha^T K \alpha - \tfrac12 \sum_i \frac{\alpha_i^2}{\gamma v_i},

and the normwise backward error of the bordered system (2).
"""

import math
from dataclasses import replace

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.duality import gap_row
from substrate.certificates.rows import EPS, roundoff
from substrate.closed_form.saddle_system import target_unit
from substrate.ingredients import error_row, fit_row, zero_sum_row

__all__ = ["saddle_rows", "worst_rows"]


@np.errstate(over="ignore", invalid="ignore")  # what overflows is not finite, and its row fails
def saddle_rows(
    products: Array,
    diagonal: Array,
    y: Array,
    ridge: Array,
    support_values: Array,
    bias: float,
    *,
    tolerance: float | None = None,
) -> tuple[Row, ...]:
    """Rows for one output, in units of :func:`~substrate.closed_form.saddle_system.target_unit`.

    :equation [Suykens2002]_ (4): the conditions for optimality, with w eliminated

    Parameters
    ----------
    products
        K alpha, computed from the same alpha that is certified.
    diagonal
        The diagonal of K.
    y, ridge
        Target and the diagonal 1/(gamma v).
    support_values, bias
        The solution.
    tolerance
        LAPACK's threshold for a direct method unless given; an iterative method states its own.
    """
    unit = target_unit(y)
    p, t, alpha, b = products / unit, y / unit, support_values / unit, float(bias) / unit
    tolerance = roundoff(y.size) if tolerance is None else tolerance
    # Without the mean of y, which the bias takes up: an offset must not make the check easier, nor blur it.
    root, center = float(np.sqrt(y.size)), float(np.mean(t))
    rounded = 4.0 * EPS * float(np.abs(t).max())
    t, b = t - center, b - center
    f = p + b
    e = t - f
    implied = ridge * alpha
    norm_alpha = float(np.linalg.norm(alpha))
    # ||K|| from below (its action on alpha, its diagonal): the scale is never larger than it deserves.
    norm_k = max(float(np.linalg.norm(p)) / norm_alpha if norm_alpha > 0.0 else 0.0, float(diagonal.max()))
    # The border of ones belongs to the matrix, so its norm times alpha does to the scale; so does the rounding of y.
    scale = norm_k * norm_alpha + float(np.linalg.norm(implied)) + root * (abs(b) + norm_alpha)
    scale += float(np.linalg.norm(t)) + root * rounded / tolerance
    norm_squared = float(alpha @ p)
    gap = gap_row(
        primal=(0.5 * norm_squared, 0.5 * float(e @ (e / ridge))),
        dual=(float(t @ alpha) + center * math.fsum(alpha), -0.5 * norm_squared, -0.5 * float(alpha @ implied)),
        tolerance=tolerance,
    )
    residual = float(np.linalg.norm(np.append(t - f - implied, alpha.sum())))
    return (
        fit_row(t, f, implied, tolerance, scale),
        error_row(alpha, 1.0 / ridge, e, tolerance, t, scale),
        zero_sum_row(alpha, tolerance),
        # alpha'K alpha may be far smaller than ||K|| ||alpha||^2, to which its rounding belongs; errors are known to
        # the rounding of y, whose square is in the objective
        replace(gap, scale=gap.scale + scale * norm_alpha + float(np.sum(1.0 / ridge)) * rounded**2 / tolerance),
        Row("backward error", residual, scale, tolerance, "||rhs - M x|| / (||M|| ||x|| + ||rhs||)"),
    )


def worst_rows(outputs: list[tuple[Row, ...]]) -> tuple[Row, ...]:
    """Of several outputs' rows of the same name, the one that comes closest to failing."""
    if len(outputs) == 1:
        return outputs[0]
    named: dict[str, list[Row]] = {}
    for rows in outputs:
        for row in rows:
            named.setdefault(row.name, []).append(row)
    return tuple(
        replace(
            max(rows, key=lambda row: row.relative / row.tolerance),
            formula=f"{rows[0].formula}, worst of {len(rows)} outputs" if len(rows) > 1 else rows[0].formula,
        )
        for rows in named.values()
    )
