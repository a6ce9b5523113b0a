r"""How far the fitted values of a kernel least-squares machine are from the exact optimum.

Let :math:`f = K a + b 1`, :math:`D = \operatorname{diag}(1/(\gamma v_i))` and :math:`r = y - f - D a`, with
:math:`1^T a = 0`. For the exact optimum :math:`(a^\star, b^\star, f^\star)` and :math:`d = a^\star - a`,

.. math::

    (K + D)\, d + (b^\star - b)\, 1 = r, \quad 1^T d = 0
    \quad\Longrightarrow\quad d^T K d + d^T D d = d^T r
    \quad\Longrightarrow\quad \|f - f^\star\|_v \le \|r\|_v ,

where gamma cancels. A nonzero sum :math:`1^T a` is removed first, in proportion to :math:`D^{-1} 1`. With other columns
that are not penalised Z is in the place of 1 (:mod:`~substrate.operators.border`).

:func:`bound_expansion` is this formula, over numbers with a radius (:mod:`~substrate.numbers`), so that
rounding is part of them. With :math:`s_i = \sqrt{k(x_i, x_i)}` and a computed kernel value within :math:`p\, s_i s_j`
of the true one, K a of the fit has the radius :math:`(p + n u)\, s_i \sum_j s_j |a_j|`, once in the residual and once
in what ``predict`` returns. Where that exceeds the tolerance, K a is formed once more in double precision, of kernel
values from differences of the points, each with a radius, and of sums of halves; and what ``predict`` returns is
measured. In balls the formula is a proof (:mod:`substrate.bounds.proof`).

A user's matrix or function is exact by definition, made symmetric. Where only :math:`K + \lambda I` is semi-definite
and :math:`\sigma = \lambda / \min_i D_{ii} < 1`, the identity above gives
:math:`(1 - \sigma) \|D^{1/2} d\| \le \|D^{-1/2} r\|` and

.. math:: \|f - f^\star\|_v \le \max\!\left(1, \frac{\sigma}{1 - \sigma}\right) \|r\|_v .
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from substrate.arrays import Array, is_device_array, strips, to_numpy
from substrate.certificate import NO_BOUND, Row, Tolerance, accuracy_of_outputs
from substrate.kernels.kernel import LEAST_DIAGONAL, Kernel
from substrate.numbers import LEAST, Double, sum_rounding
from substrate.operators.border import ONES, Border
from substrate.operators.gram import Gram

__all__ = [
    "FORMULA",
    "AnswerProblem",
    "Expansion",
    "Facts",
    "bound_answer",
    "bound_expansion",
    "bound_products",
]

FORMULA = "||y - f - alpha/(gamma v)||_v + rounding"
#: The formula where kernel values were computed once more.
_DIFFERENCES = f"{FORMULA}, from differences"
_INDEFINITE = "the kernel matrix is not positive semi-definite, so the fit is a saddle point and no minimum"
_UNKNOWN = (
    "rounding",
    "double precision cannot give the answer to this tolerance; scale the columns, lower gamma, or centre the inputs",
)
#: Entries of a strip of kernel values with radii: few enough for a core's cache.
_ENTRIES = 1 << 16
#: Rows of which all kernel values are computed once more: beyond, that takes minutes.
_MOST_ROWS = 20_000

Facts = tuple[tuple[str, str], ...]


class Expansion(NamedTuple):
    """One output of a stored machine, and the data it was fitted to.

    ``negative`` bounds the distance of K from positive semi-definite, zero for kernels whose formula excludes it.
    ``slopes`` are the coefficients of the columns of the border besides the constant.
    """

    y: Array
    gamma: float
    weights: Array
    a: Array
    b: float
    negative: float = 0.0
    border: Border = ONES
    slopes: Array | None = None


class AnswerProblem(NamedTuple):
    """The fitted problem: a kernel on points, targets (one column per output) with their gammas, weights of the rows.

    ``tolerances`` state the absolute error that is permitted, one for every output: by the targets of the user, of
    which Y may be made (y - c). ``negative`` bounds the distance of the kernel matrix from
    positive semi-definite; infinity: it is not. ``border`` holds the columns that are not penalised.
    """

    kernel: Kernel
    X: Any
    Y: Array
    gammas: tuple[float, ...]
    weights: Array
    tolerances: tuple[Tolerance, ...]
    negative: float = 0.0
    border: Border = ONES


def bound_expansion(
    machine: Expansion, numbers: type[Any], kernel: Callable[[Any], Any], fitted: Array | None = None
) -> Any:
    r"""Bound the distance of the fitted values from the exact optimum.

    .. math:: \|f - f^\star\|_v \le \|f - \tilde f\|_v + \max\!\left(1, \frac{\sigma}{1 - \sigma}\right)
              \|y - \tilde f - D \tilde a\|_v, \qquad \tilde f = K \tilde a + Z c

    Parameters
    ----------
    machine
        What is stored.
    numbers
        The arithmetic: double or balls.
    kernel
        The map of coefficients to K a, in these numbers.
    fitted
        What predict returns; None if that is as far from K a + Z c as the values in these numbers may be.
    """
    v = numbers.exact(machine.weights)
    a = machine.border.balance(numbers.exact(machine.a), v)
    pulls = v * machine.gamma
    f = kernel(a) + machine.b
    if machine.slopes is not None and machine.border.slopes:
        f = f + machine.border.enclose_values(numbers, machine.slopes)
    residual = machine.y - f - a / pulls
    distance = f.error() if fitted is None else fitted - f
    factor = 1.0
    if machine.negative != 0.0:  # only K + negative I is semi-definite, for which D compensates, or does not
        share = pulls.largest() * machine.negative
        factor = max(1.0, float((share / (1.0 - share)).upper())) if share.upper() < 1.0 else math.inf
    norm = residual.bound_norm(machine.weights)
    return (norm if factor == 1.0 else norm * factor) + distance.bound_norm(machine.weights)


def bound_answer(
    problem: AnswerProblem,
    alpha: Array,
    bias: Array,
    products: Array,
    diagonal: Array,
    gram: Gram | None = None,
    *,
    slopes: Array | None = None,
    fitted: Array | None = None,
) -> tuple[tuple[Row, ...], Facts]:
    """Return the row of the answer, none if K is indefinite, and what else the certificate states.

    Parameters
    ----------
    problem
        What was fitted.
    alpha, bias, slopes
        The coefficients on the host, one column or number per output: of the kernel, the constant, and the other
        columns of the border.
    products, diagonal
        K alpha, one column per output, and the diagonal of K.
    gram
        The kernel matrix if available; a user's values are read from it.
    fitted
        What predict returns for the points, one column per output, where it was measured.
    """
    if not np.isfinite(problem.negative):
        return (), ((NO_BOUND, _INDEFINITE),)
    rounding, on_device = problem.kernel.value_rounding(problem.X), is_device_array(problem.X)
    envelope = problem.kernel.envelope
    if envelope is not problem.kernel:
        diagonal = to_numpy(envelope.diag(problem.X))
    # s_i, by which no kernel value exceeds s_i s_j
    roots = np.sqrt(np.maximum(diagonal, LEAST_DIAGONAL) + problem.negative)
    if fitted is None and not problem.kernel.trusted and not on_device:
        fitted = _predict(problem, alpha, bias, slopes)  # a function's rounding may depend on the block
    is_far, rows = on_device or roots.size > _MOST_ROWS, []
    for column, gamma in enumerate(problem.gammas):
        machine = Expansion(
            y=problem.Y[:, column],
            gamma=gamma,
            weights=problem.weights,
            a=alpha[:, column],
            b=float(bias[column]),
            negative=problem.negative,
            border=problem.border,
            slopes=None if slopes is None or not problem.border.slopes else slopes[:, column],
        )
        bound = bound_products(
            machine, products[:, column], roots, rounding, None if fitted is None else fitted[:, column]
        )
        row = problem.tolerances[column].row(bound, FORMULA)
        if not (row.passes or is_far):
            if fitted is None:
                fitted = _predict(problem, alpha, bias, slopes)
            bound = _bound_by_differences(problem, machine, gram, fitted[:, column])
            row = min(row, problem.tolerances[column].row(bound, _DIFFERENCES), key=lambda row: row.value)
        rows.append(row)
    answer = accuracy_of_outputs(rows)
    return (answer,), () if answer.passes else (_UNKNOWN,)


def bound_products(
    machine: Expansion, products: Array, roots: Array, rounding: float, fitted: Array | None = None
) -> float:
    """Return the bound by the ``products`` K a in double precision, of values within ``rounding`` of s_i s_j."""

    def multiply(a: Double) -> Double:
        sizes = (rounding + sum_rounding(roots.size)) * np.abs(a.middle) + a.radius
        weight = max(float(roots @ sizes), LEAST)
        return Double(products, roots * weight if a.middle.any() else np.zeros_like(roots))

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # what is not finite is no bound
        return float(bound_expansion(machine, Double, multiply, fitted).upper())


def _bound_by_differences(problem: AnswerProblem, machine: Expansion, gram: Gram | None, fitted: Array) -> float:
    """Return the bound by kernel values that are computed once more, each with a radius."""
    kernel, X = problem.kernel, problem.X
    matrix = None if kernel.trusted else (Gram.of(kernel, X) if gram is None else gram).matrix
    n = machine.a.size

    def multiply(a: Double) -> Double:
        total = Double(np.zeros(n), np.zeros(n))
        for rows in strips(n, max(1, _ENTRIES // n)):
            values = kernel.enclose(X[rows], X) if matrix is None else Double.exact(matrix[rows, :])
            total = total + (values * a).add_up().place(rows, n)
        return total

    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        return float(bound_expansion(machine, Double, multiply, fitted).upper())


def _predict(problem: AnswerProblem, alpha: Array, bias: Array, slopes: Array | None) -> Array:
    """Return the predictions for the points."""
    points = None if problem.kernel.pairwise else problem.X
    values = problem.kernel.expansion_values(points, alpha, bias, problem.X)
    return np.asarray(values + problem.border.slope_values(slopes))
