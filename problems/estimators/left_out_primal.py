r"""Leave-one-out of a machine that is stored in primal weights.

.. math:: y_i - f^{(-i)}(x_i) = \frac{y_i - f(x_i)}{1 - h_i}, \qquad p_i = \gamma v_i, \qquad
          h_i = \frac{p_i}{\sum_j p_j} + p_i\, \varphi_i^T (I + \Phi_c^T P\, \Phi_c)^{-1} \varphi_i

The support values of such a machine are :math:`p_i (y_i - f(x_i))`, so they give the errors; the inverse of the kernel
system, by which other machines leave rows out, is not known in double precision here.
"""

from typing import Any

import numpy as np

from problems.estimators.left_out import MachinesLeftOut, gcv_of
from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.accuracy import ACCURATE, spread_of
from substrate.closed_form.primal_weights import PrimalWeights, leverages, solve_primal

__all__ = ["leave_rows_out_primal"]


def leave_rows_out_primal(primal: PrimalWeights, X: Any, alpha: Array, ridge: Array) -> MachinesLeftOut:
    """Leave every row out of every machine; ``alpha`` and ``ridge`` have one column per machine."""
    points = X.toarray() if hasattr(X, "toarray") else X
    features, fitted = primal.kernel.features(points) - primal.center, primal(points)
    errors = ridge * alpha
    residuals, freedom, gcv = np.empty_like(alpha), np.empty(alpha.shape[1]), np.empty(alpha.shape[1])
    checks: list[Row] = []
    for column in range(alpha.shape[1]):
        d = np.ascontiguousarray(ridge[:, column])
        h = leverages(features, 1.0 / d)
        residuals[:, column] = r = errors[:, column] / np.maximum(1.0 - h, np.finfo(np.float64).tiny)
        freedom[column] = float(h.sum())
        gcv[column] = float(gcv_of(errors[:, [column]], freedom[column], d.size / (d * (1.0 / d).sum()))[0])
        checks.append(_refit(primal, points, fitted[:, column] + errors[:, column], d, r, int(h.argmax())))
    worst = max(checks, key=lambda row: row.relative / row.tolerance)
    return MachinesLeftOut(fitted + errors - residuals, residuals, freedom, gcv, worst)


def _refit(primal: PrimalWeights, X: Array, y: Array, ridge: Array, residuals: Array, row: int) -> Row:
    """The row of largest leverage by an actual refit, against the closed form."""
    rest = np.flatnonzero(np.arange(y.size) != row)
    pulls = 1.0 / ridge[rest]
    again = solve_primal(primal.kernel, X[rest], y[rest][:, None], (float(pulls.max()),), pulls / pulls.max())
    difference = float(y[row] - again(X[[row]])[0, 0] - residuals[row])
    spread, rounding = spread_of(y, np.ones(y.size))
    scale = float(np.abs(residuals).max()) + max(spread, rounding / ACCURATE)
    return Row(f"refit without row {row}", difference, scale, ACCURATE, "e_i/(1 - h_i) - (y_i - f^(-i)(x_i))")
