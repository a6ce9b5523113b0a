r"""The certificate row of the LS-SVM saddle system, recomputed from data and solution.

The normwise backward error of the bordered system [Suykens2002]_ eq. (2), which are the conditions of optimality (4)
with w and :math:`e = \alpha/(\gamma v)` eliminated,

.. math:: \frac{\|(y - f - \alpha / (\gamma v), \; Z^T \alpha)\|}{\|M\| \|x\| + \|y\|} ,

with the columns Z that are not penalised, a column of ones among them.
"""

import math

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row, roundoff
from substrate.least_squares.border import ONES, Border
from substrate.least_squares.saddle_system import target_unit
from substrate.numbers import relative_rounding

__all__ = ["saddle_row"]


@np.errstate(over="ignore", invalid="ignore")  # overflow is not finite, and its row fails
def saddle_row(
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
) -> Row:
    """Return the row of one output, in units of :func:`~substrate.least_squares.saddle_system.target_unit`.

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
        The columns that are not penalised, and the coefficients of these columns besides the constant.
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
    implied, Z = ridge * alpha, border.matrix(y[:, None])
    norm_alpha = float(np.linalg.norm(alpha))
    # A lower bound of ||K|| (its action on alpha, its diagonal): the scale is never too large.
    norm_k = max(float(np.linalg.norm(p)) / norm_alpha if norm_alpha > 0.0 else 0.0, float(diagonal.max()))
    # The border is part of the matrix, so the scale includes its norm times alpha, and the rounding of y.
    scale = (norm_k + float(np.linalg.norm(Z))) * norm_alpha + float(np.linalg.norm(implied))
    scale += float(np.linalg.norm(t)) + root * (abs(b) + rounded / tolerance)
    return Row(
        name="backward error",
        value=math.hypot(float(np.linalg.norm(t - p - b - implied)), float(np.linalg.norm(Z.T @ alpha))),
        scale=scale,
        tolerance=tolerance,
        formula="||(y - f - alpha/(gamma v), Z'alpha)|| / (||M|| ||x|| + ||y||)",
    )
