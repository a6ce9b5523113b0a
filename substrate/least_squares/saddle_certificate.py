r"""Certificate rows of the LS-SVM saddle system, recomputed from data and solution, and a bound on its fitted values.

The KKT conditions ([Suykens2002]_ eq. (4)) with w eliminated: the fit equalities with :math:`e = \alpha/(\gamma v)`
inserted, stationarity in e with :math:`e = y - f` inserted, :math:`1^T \alpha = 0`, the duality gap of

.. math:: P = \tfrac12 \alpha^T K \alpha + \tfrac12 \sum_i \gamma v_i (y_i - f_i)^2, \qquad
          D = y^T \alpha - \tfrac12 \alpha^T K \alpha - \tfrac12 \sum_i \frac{\alpha_i^2}{\gamma v_i},

and the normwise backward error of the bordered system (2).

The distance of the fitted values from those of the exact optimum is bounded as follows. Let :math:`f = K a + b 1`,
:math:`D = \operatorname{diag}(1/(\gamma v_i))` and :math:`r = y - f - D a`, with
:math:`1^T a = 0`. For the exact optimum :math:`(a^\star, b^\star, f^\star)` and :math:`d = a^\star - a`,

.. math::

    (K + D)\, d + (b^\star - b)\, 1 = r, \quad 1^T d = 0
    \quad\Longrightarrow\quad d^T K d + d^T D d = d^T r .

K is positive semi-definite, so :math:`\|D^{1/2} d\| \le \|D^{-1/2} r\|`, and from :math:`f - f^\star = D d - r`

.. math::

    \|D^{-1/2}(f - f^\star)\|^2 = \|D^{-1/2} r\|^2 - 2 d^T K d - d^T D d
    \quad\Longrightarrow\quad \|f - f^\star\|_v \le \|r\|_v ,

where gamma cancels. A nonzero sum :math:`\epsilon = 1^T a` is removed first, in proportion to
:math:`D^{-1} 1`, and the effect is added. With other columns that are not penalised Z is in the place of 1
(:mod:`~substrate.least_squares.border`). So is rounding: with :math:`s_i = \sqrt{k(x_i, x_i)}` and a computed
kernel value within :math:`p\, s_i s_j` of the true one, K a is known to :math:`(p + n u)\, s_i \sum_j s_j |a_j|`, once
for the residual and once for what ``predict`` returns. Where that exceeds the tolerance the check is repeated more
accurately: kernel values from plain differences, their product with a in doubled precision
(:mod:`~substrate.certificates.doubled_precision`), and the distance of what ``predict`` returns measured, not bounded.

A user's matrix or function is exact by definition, made symmetric. Where only
:math:`K + \lambda I` is semi-definite and :math:`\sigma = \lambda / \min_i D_{ii} < 1`, the identity above gives
:math:`(1 - \sigma) \|D^{1/2} d\| \le \|D^{-1/2} r\|` and

.. math:: \|f - f^\star\|_v \le \max\!\left(1, \frac{\sigma}{1 - \sigma}\right) \|r\|_v .
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from substrate.arrays import EPS, Array
from substrate.certificates import Row
from substrate.certificates.doubled_precision import add, exact_product, exact_sum, minus, multiplied
from substrate.certificates.rows import (
    ACCURATE,
    Accuracy,
    accuracy_of_outputs,
    accuracy_row,
    gap_row,
    root_mean_square,
    roundoff,
    spread_of,
)
from substrate.gram import Gram
from substrate.ingredients import error_row, fit_row, zero_sum_row
from substrate.kernels import Kernel
from substrate.kernels.base import strips
from substrate.least_squares.border import ONES, Border
from substrate.least_squares.saddle_system import target_unit

__all__ = ["FORMULA", "CarefulRows", "Expansion", "careful_accuracy", "expansion_accuracy", "saddle_rows", "worst_rows"]


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
    """Rows for one output, in units of :func:`~substrate.least_squares.saddle_system.target_unit`.

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
    rounded = 4.0 * EPS * float((np.abs(t) + border.slope_sizes(slopes) / unit).max())
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
    norm_squared, total = float(alpha @ p), exact_sum(alpha)
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
        Row("backward error", residual, scale, tolerance, "||rhs - M x|| / (||M|| ||x|| + ||rhs||)"),
    )


def worst_rows(outputs: list[tuple[Row, ...]]) -> tuple[Row, ...]:
    """Of several outputs' rows of the same name, the one that comes closest to failing; the accuracy of every output.

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


FORMULA = "||y - f - alpha/(gamma v)||_v + rounding"
_HALF = EPS / 2.0
_BLOCK = 128
#: Below this k(x, x) may have lost digits to underflow; as a floor it keeps the bounds valid at no cost.
_LEAST_DIAGONAL = 1e-290
#: An upper bound on the underflow of a sum of two products.
_LEAST = 1e-318


@dataclass(frozen=True, slots=True)
class Expansion:
    """One output of a stored machine, and the data it was fitted to.

    ``diagonal`` holds k(x_i, x_i); ``negative`` bounds the distance of K from positive semi-definite, zero for kernels
    whose formula excludes it; ``observed`` the targets of the user where y is made of them: the spread is theirs.
    ``slopes`` are the coefficients of the columns of the border beside the constant.
    """

    y: Array
    ridge: Array
    a: Array
    b: float
    diagonal: Array
    negative: float = 0.0
    observed: Array | None = None
    border: Border = ONES
    slopes: Array | None = None

    @property
    def weights(self) -> Array:
        """v up to a factor: gamma drops out of the bound."""
        return np.asarray(self.ridge.min() / self.ridge)

    @property
    def roots(self) -> Array:
        """Upper bounds of s_i."""
        return np.asarray(np.sqrt(np.maximum(self.diagonal, _LEAST_DIAGONAL)))


@dataclass(frozen=True, slots=True)
class CarefulRows:
    """Rows of the kernel matrix of some points, from accurate kernel values.

    A user's matrix or function is taken as its values, made symmetric: the matrix of the fit.
    """

    kernel: Kernel
    points: Any

    @property
    def rounding(self) -> float:
        """The kernel's p for accurate values, by its envelope."""
        envelope = self.kernel.envelope
        factor = 1.0 if envelope is self.kernel else 2.0
        return factor * envelope.careful_rounding(self.points) if self.kernel.trusted else 0.0

    def __iter__(self) -> Iterator[tuple[slice, Array]]:
        n = self.points.shape[0]
        given = None if self.kernel.trusted else Gram.of(self.kernel, self.points).matrix
        for rows in strips(n, _BLOCK):
            if given is not None:
                yield rows, given[rows]
                continue
            block = np.empty((rows.stop - rows.start, n))
            self.kernel.fill_carefully(self.points[rows], self.points, block)
            yield rows, block


def expansion_accuracy(
    machine: Expansion, products: Array, rounding: float, *, fitted: Array | None = None, tolerance: float = ACCURATE
) -> Accuracy:
    """The row for one output by K a in working precision and the kernel's ``rounding``: a few sums over the rows.

    ``fitted`` is what predict returns, where its kernel values cannot be bounded and its distance must be measured.
    """
    v, s, a = machine.weights, machine.roots, np.abs(machine.a)
    linear = machine.border.slope_values(machine.slopes)
    residual = machine.y - products - machine.b - machine.ridge * machine.a - linear
    sizes = np.abs(machine.y) + np.abs(products) + abs(machine.b) + machine.ridge * a
    sizes = sizes + machine.border.slope_sizes(machine.slopes)
    rounded = 1.01 * (s * (float(s @ a) * (rounding + a.size * _HALF)) + 4.0 * _HALF * sizes + _least(sizes))
    distance = 0.0 if fitted is None else root_mean_square(fitted - (products + machine.b + linear), v)
    return _row(machine, root_mean_square(residual, v), root_mean_square(rounded, v), distance, FORMULA, tolerance)


def careful_accuracy(
    machine: Expansion, rows: CarefulRows, fitted: Array, *, tolerance: float = ACCURATE
) -> tuple[Accuracy, Array]:
    """The row for one output by accurate kernel values, and the residual; ``fitted`` is what predict returns."""
    y, a, v, s = machine.y, machine.a, machine.weights, machine.roots
    zero = np.zeros_like(y)
    high, low, unsure = np.empty_like(y), np.empty_like(y), np.empty_like(y)
    known = s * (rows.rounding * float(s @ np.abs(a)))
    with np.errstate(over="ignore", invalid="ignore"):  # overflow is not finite, and no bound
        for some, block in rows:
            (high[some], low[some]), unsure[some] = exact_product(block, a)
        f = add((high, low), (np.full_like(y, machine.b), zero))
        if machine.slopes is not None:
            linear, doubt = machine.border.careful_values(machine.slopes)
            f, unsure = add(f, linear), unsure + doubt
        rest = add(add((y, zero), minus(f)), minus(multiplied(machine.ridge, a)))
        residual: Array = rest[0] + rest[1]
        apart = add((fitted, zero), minus(f))
        implied = machine.ridge * np.abs(a)
        sizes = np.abs(y) + abs(machine.b) + implied + np.abs(high) + machine.border.slope_sizes(machine.slopes)
        # the diagonal 1/(gamma v) is itself rounded, twice
        rounded = 1.01 * (unsure + known + 2.0 * _HALF * implied + EPS**1.9 * sizes + _least(sizes))
        distance = root_mean_square(apart[0] + apart[1], v)
    formula = f"{FORMULA}, in doubled precision"
    row = _row(machine, root_mean_square(residual, v), root_mean_square(rounded, v), distance, formula, tolerance)
    return row, residual


def _least(sizes: Array) -> Array:
    """A bound on the underflow of sums of these sizes: zero where there is nothing to add."""
    return np.where(sizes > 0.0, _LEAST, 0.0)


def _row(
    machine: Expansion, residual: float, rounded: float, distance: float, formula: str, tolerance: float
) -> Accuracy:
    """||r|| and its rounding, times the factor of indefiniteness, plus the rounding of predict."""
    spread, rounding = spread_of(machine.y if machine.observed is None else machine.observed, machine.weights)
    factor = _indefinite_factor(machine)
    moved = machine.border.imbalance(machine.a, machine.weights, machine.roots, float(machine.ridge.min()))
    bound = factor * (residual + rounded + moved) + moved + rounded + distance
    return accuracy_row(1.01 * bound, spread, formula, tolerance=tolerance, rounding=rounding)


def _indefinite_factor(machine: Expansion) -> float:
    """The factor where only K + negative I is semi-definite; infinite where D does not compensate for it."""
    share = 1.01 * machine.negative / float(machine.ridge.min())
    if share >= 1.0:
        return math.inf
    return max(1.0, share / (1.0 - share))
