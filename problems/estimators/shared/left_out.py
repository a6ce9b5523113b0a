r"""Leave-one-out of a fitted LS-SVM, from its fitted state: no refit, no training target.

The support values, the bias and the diagonal D of the system give the targets back,
:math:`y = K \alpha + b + D \alpha`, and :mod:`substrate.least_squares.leave_one_out` the residuals
:math:`\alpha_i / B_{ii}`. One row, the one of largest leverage, is refitted as a check. Operations on all pairs of rows
are done where the kernel matrix is; vectors of the length of y are handled on the host.

For a machine that is stored in primal weights,

.. math:: y_i - f^{(-i)}(x_i) = \frac{y_i - f(x_i)}{1 - h_i}, \qquad p_i = \gamma v_i, \qquad
          h_i = \frac{p_i}{\sum_j p_j} + p_i\, \varphi_i^T (I + \Phi_c^T P\, \Phi_c)^{-1} \varphi_i

The support values of such a machine are :math:`p_i (y_i - f(x_i))`, so they give the errors; the inverse of the kernel
system, which other machines use, is not available in double precision here.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import EPS, Array
from substrate.certificates import Certificate, Row
from substrate.certificates.rows import ACCURATE, spread_of
from substrate.gram import Gram
from substrate.least_squares.border import ONES, Border
from substrate.least_squares.leave_one_out import (
    generalized_cross_validation,
    leave_one_out_residuals,
    mean_absolute,
    mean_square,
    median_absolute,
    press,
    projected_diagonal,
    trimmed_mean_square,
)
from substrate.least_squares.primal_weights import PrimalWeights, leverages, solve_primal
from substrate.least_squares.saddle_system import solve_saddle_system, target_unit
from substrate.namespaces import namespace_of, on_device_of, to_numpy

__all__ = ["LeftOut", "MachinesLeftOut", "gcv_of", "leave_rows_out", "leave_rows_out_primal", "shared_columns"]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The outputs of the machines for each row when fitted without it.

    Parameters
    ----------
    outputs
        f(x_i) of the machine without row i; a machine that never used the row is unchanged.
    residuals
        y_i minus that, NaN where a machine never used the row.
    predictions
        The outputs in regression, the classes they decode to in classification.
    degrees_of_freedom
        trace H, one number or one per machine.
    gcv
        Generalised cross-validation; where rows have weights, squared errors and leverages are averaged by weight.
    misclassification
        The share of rows decoded to a wrong class; None in regression.
    certificate
        The check by one refit, and the conditions under which these numbers hold.
    """

    outputs: Array
    residuals: Array
    predictions: Any
    degrees_of_freedom: Any
    gcv: Any
    misclassification: float | None
    certificate: Certificate

    def _used(self) -> list[Array]:
        residuals: Array = to_numpy(self.residuals)
        columns = residuals[:, None] if residuals.ndim == 1 else residuals
        return [column[~np.isnan(column)] for column in columns.T]

    def _each(self, criterion: Any) -> Any:
        values = np.array([float(criterion(column)) for column in self._used()])
        return float(values[0]) if self.residuals.ndim == 1 else values

    @property
    def press(self) -> Any:
        """Predicted residual sum of squares, one number or one per output."""
        return self._each(press)

    @property
    def mean_square(self) -> Any:
        """PRESS over the number of rows."""
        return self._each(mean_square)

    @property
    def mean_absolute(self) -> Any:
        """Mean absolute residual."""
        return self._each(mean_absolute)

    @property
    def median_absolute(self) -> Any:
        """Median absolute residual."""
        return self._each(median_absolute)

    def trimmed_mean_square(self, share: float = 0.1) -> Any:
        """Mean square without a share of the largest residuals."""
        return self._each(lambda column: trimmed_mean_square(column, share))


@dataclass(frozen=True, slots=True)
class MachinesLeftOut:
    """Outputs, residuals, degrees of freedom and GCV of all machines, one column per machine, and a certificate row."""

    outputs: Array
    residuals: Array
    degrees_of_freedom: Array
    gcv: Array
    row: Row


def leave_rows_out(
    gram: Gram, alpha: Array, bias: Array, ridge: Array, members: Any, border: Border = ONES
) -> MachinesLeftOut:
    """Leave every row out of every machine; ``members`` marks the rows that a machine was fitted to.

    ``bias`` has one number per machine, or one line per row with the values of the whole ``border``. ``alpha``,
    ``ridge`` and ``members`` have one column per machine, in numpy wherever the matrix is. Machines that share
    rows and ridge share an inverse.
    """
    fitted = to_numpy(gram.product(on_device_of(gram.diagonal, alpha))) + bias
    outputs, residuals = fitted.copy(), np.full(alpha.shape, np.nan)
    freedom, gcv = np.empty(alpha.shape[1]), np.empty(alpha.shape[1])
    checks: list[Row] = []
    for columns in shared_columns(ridge, members):
        (rows,) = np.nonzero(members[:, columns[0]])
        here = np.ix_(rows, columns)
        d = np.ascontiguousarray(ridge[rows, columns[0]])
        part = gram if rows.size == gram.n else gram.block(rows)
        own = border.take(rows, 1.0 / d)
        diagonal = to_numpy(projected_diagonal(part, on_device_of(gram.diagonal, d), own))
        errors = d[:, None] * alpha[here]
        residuals[here] = r = leave_one_out_residuals(alpha[here], diagonal)
        outputs[here] = fitted[here] + errors - r
        freedom[columns] = rows.size - d @ diagonal
        v = d.size / (d * (1.0 / d).sum())
        gcv[columns] = gcv_of(errors, rows.size - v @ (d * diagonal), v)
        checks.append(_refit(part, fitted[here] + errors, d, r, int((d * diagonal).argmin()), own))
    worst = max(checks, key=lambda row: row.relative / row.tolerance)
    return MachinesLeftOut(outputs, residuals, freedom, gcv, worst)


def shared_columns(ridge: Array, members: Any) -> list[Any]:
    """Columns with the same rows and the same ridge."""
    groups: dict[bytes, list[int]] = {}
    for k in range(ridge.shape[1]):
        groups.setdefault(ridge[:, k].tobytes() + members[:, k].tobytes(), []).append(k)
    return [np.array(columns) for columns in groups.values()]


def gcv_of(errors: Array, freedom: float, weights: Array) -> Array:
    """Generalised cross-validation of one column per machine, in units in which no square overflows."""
    unit = target_unit(errors)
    return np.asarray(unit**2 * generalized_cross_validation(errors / unit, freedom, weights))


def _refit(part: Gram, Y: Array, ridge: Array, residuals: Array, row: int, border: Border) -> Row:
    """The row of largest leverage by an actual refit, compared with the closed form."""
    part.release()
    rest = np.flatnonzero(np.arange(part.n) != row)
    target, diagonal = (on_device_of(part.diagonal, values[rest]) for values in (Y, ridge))
    own = border.take(rest, 1.0 / ridge[rest])
    solved = solve_saddle_system(part.block(rest), target, diagonal, border=own)
    values = to_numpy(part.matrix[row, :])[rest]
    explicit = Y[row] - values @ to_numpy(solved.support_values) - to_numpy(solved.bias)
    if border.slopes:
        explicit = explicit - (border.columns[row] - border.center) @ to_numpy(solved.slopes)
    difference = float(np.abs(explicit - residuals[row]).max())
    scale = float(np.abs(residuals).max()) + float(np.abs(Y - Y.mean(axis=0)).max())
    xp = namespace_of(part.matrix)
    largest = max(float(xp.max(part.matrix)), -float(xp.min(part.matrix)))
    condition = part.n * largest / float(ridge.min())
    tolerance = 1e-10 + 100.0 * EPS * condition
    return Row(f"refit without row {row}", difference, scale, tolerance, "alpha_i/B_ii - (y_i - f^(-i)(x_i))")


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
        freedom[column], v = float(h.sum()), d.size / (d * (1.0 / d).sum())
        gcv[column] = float(gcv_of(errors[:, [column]], float(v @ h), v)[0])
        checks.append(_primal_refit(primal, points, fitted[:, column] + errors[:, column], d, r, int(h.argmax())))
    worst = max(checks, key=lambda row: row.relative / row.tolerance)
    return MachinesLeftOut(fitted + errors - residuals, residuals, freedom, gcv, worst)


def _primal_refit(primal: PrimalWeights, X: Array, y: Array, ridge: Array, residuals: Array, row: int) -> Row:
    """The row of largest leverage by an actual refit, compared with the closed form."""
    rest = np.flatnonzero(np.arange(y.size) != row)
    pulls = 1.0 / ridge[rest]
    again = solve_primal(primal.kernel, X[rest], y[rest][:, None], (float(pulls.max()),), pulls / pulls.max())
    difference = float(y[row] - again(X[[row]])[0, 0] - residuals[row])
    spread, rounding = spread_of(y, np.ones(y.size))
    scale = float(np.abs(residuals).max()) + max(spread, rounding / ACCURATE)
    return Row(f"refit without row {row}", difference, scale, ACCURATE, "e_i/(1 - h_i) - (y_i - f^(-i)(x_i))")
