r"""The LS-SVM substrate: least squares with additive regularization.

.. math::

    \min_{w, b, e} \; \tfrac12 w^T w + \tfrac12 \sum_{i=1}^N (e_i - c_i)^2
    \quad \text{s.t.} \quad y_i = w^T \varphi(x_i) + b + e_i, \quad i = 1, \dots, N

Symbols: w weights in feature space; b bias, not penalised; e errors; c additive regularization constants, given at this
level; K kernel matrix. In classification :math:`y_i (w^T \varphi(x_i) + b) = 1 - e_i`.

The multipliers of the equalities are the support values :math:`\alpha = e - c`, with
:math:`w = \sum_i \alpha_i \varphi(x_i)` and :math:`1^T \alpha = 0`, so that

.. math:: \begin{bmatrix} 0 & 1^T \\ 1 & K + I \end{bmatrix} \begin{bmatrix} b \\ \alpha \end{bmatrix}
          + \begin{bmatrix} 0 \\ c \end{bmatrix} = \begin{bmatrix} 0 \\ y \end{bmatrix} .

Where c satisfies :math:`\gamma^{-1} \alpha = \alpha + c` the machine is the LS-SVM with that :math:`\gamma` (12); and
:math:`\alpha_i = -\partial p^* / \partial c_i` for the optimal value :math:`p^*` (15).

Closed form: :func:`substrate.operators.saddle_system.solve_saddle_system` on the target y - c with unit ridge.

[Pelckmans2005]_ eq. (9)-(12), (15). (12) and (15) are correct as printed.
"""

from typing import Any

import cvxpy as cp
import numpy as np

from problems.demonstration import Case, Demonstration
from substrate.arrays import Array, real_array
from substrate.certificate import UNPOLISHED, Accuracy, Row, Tolerance, gap_row
from substrate.declare.declared import Declared, given_gram, own_gram
from substrate.declare.expansion import checked_targets, signs_of
from substrate.declare.regression_page import least_squares_accuracy, within_solvers
from substrate.errors import DataError
from substrate.ingredients import error_row, regression_fit, squared_norm, zero_sum_row
from substrate.kernels import RBF
from substrate.operators.gram import Gram
from substrate.operators.saddle_system import solve_saddle_system

__all__ = ["DEMONSTRATION", "closed_form", "declare", "tikhonov_constants"]

DEMONSTRATION = Demonstration(
    equations="Pelckmans2005 (9)-(12), (15)",
    cases=(
        Case(
            label="regression",
            choice={"task": "regression"},
            dataset="motorcycle",
            kernel=RBF(sigma=10.0),
            parameters={"c": 1.0},
        ),
        Case(
            label="classification",
            choice={"task": "classification"},
            dataset="ripley",
            kernel=RBF(sigma=0.5),
            parameters={"c": -0.5},
            every=4,
        ),
    ),
)


def declare(K: Any, y: Any, c: Any, task: str = "regression") -> Declared:
    """Declare the problem on a kernel matrix (or a Gram), targets (or labels -1, +1) and c (one, or one per row).

    ``c`` is the parameter; in classification the problem is written for the target y and the constants y∘c, which is
    the same problem since :math:`y_i^2 = 1`.

    :equation [Pelckmans2005]_ (9): the substrate with additive regularization, primal
    """
    gram = given_gram(K)
    target = checked_targets(y, gram.n, task)
    signs = signs_of(target, task)
    return _declare(gram, gram.coordinates().factor, within_solvers(target), signs, _constants(c, gram.n), task)


def _declare(gram: Gram, R: Array, target: Array, signs: Array, c: Array, task: str) -> Declared:
    constants = cp.Parameter(gram.n, name="c", value=c)
    w, b, e = cp.Variable(R.shape[1], name="w"), cp.Variable(name="b"), cp.Variable(gram.n, name="e")
    fit, norm = regression_fit(target, R @ w + b, e), squared_norm(w, R)
    distance = 0.5 * cp.sum_squares(e - cp.multiply(signs, constants))
    problem = cp.Problem(cp.Minimize(norm.term + distance), [fit.constraint])

    def rows(tolerance: float) -> tuple[Row, ...]:
        a, shifted = fit.multiplier, target - signs * constants.value
        dual = (float(shifted @ a), -0.5 * float(np.sum((R.T @ a) ** 2)), -0.5 * float(a @ a))
        primal = (float(norm.term.value), float(distance.value))
        # where y - c vanishes nothing is left to fit, and a solver's noise is small relative to y and c only
        size = np.abs(shifted) + 1e-3 * (np.abs(target) + np.abs(constants.value))
        return (
            fit.row(tolerance),
            error_row(a, np.ones(gram.n), e.value - signs * constants.value, tolerance, size),
            norm.row(a, tolerance, size),
            zero_sum_row(a, tolerance, size),
            gap_row(primal, dual, tolerance, 0.5 * float(size @ size)),
        )

    def units() -> dict[str, float]:
        largest = float(np.abs(target).max() + np.abs(constants.value).max())
        return {"support_values": largest, "bias": largest, "errors": largest}

    values = {
        "support_values": lambda: signs * fit.multiplier,
        "bias": lambda: b.value,
        "errors": lambda: signs * e.value,
    }

    def unit() -> float:
        return float(np.linalg.norm(target - signs * constants.value)) or 1.0

    def accuracy() -> Accuracy:
        shifted, ones = target - signs * constants.value, np.ones(gram.n)
        f = target - e.value
        permitted = Tolerance.of_page(target, ones, UNPOLISHED)  # by the user's y, not by y - c
        return least_squares_accuracy(R, shifted, 1.0, ones, fit.multiplier, float(b.value), f, permitted)

    title = f"LS-SVM substrate, {task}"
    return Declared(
        title=title,
        problem=problem,
        parameters={"c": constants},
        values=values,
        rows=rows,
        record=gram.record,
        units=units,
        unit=unit,
        accuracy=accuracy,
    )


def closed_form(K: Any, y: Any, c: Any, task: str = "regression") -> dict[str, Array]:
    """Return the same quantities by the linear system (10).

    :equation [Pelckmans2005]_ (10): its linear system
    :equation [Pelckmans2005]_ (15): support values as sensitivities of the optimal value to c
    """
    gram = own_gram(K)
    target = checked_targets(y, gram.n, task)
    signs = signs_of(target, task)
    constants = _constants(c, gram.n)
    solved = solve_saddle_system(gram, target - signs * constants, np.ones(gram.n))
    alpha = signs * solved.support_values
    return {"support_values": alpha, "bias": np.asarray(solved.bias), "errors": alpha + constants}


def tikhonov_constants(support_values: Any, gamma: float) -> Array:
    """Return the constants c = alpha/gamma - alpha that make the substrate the LS-SVM with that gamma, eq. (12).

    :equation [Pelckmans2005]_ (12): Tikhonov regularization as a special case
    """
    alpha = real_array(support_values, "support_values", ndim=1)
    constants: Array = alpha / gamma - alpha
    return constants


def _constants(c: Any, n: int) -> Array:
    if isinstance(c, (bool, np.bool_)):
        raise DataError(f"c must be one number or one for each row, received {c!r}")
    constants = real_array(c, "c", ndim=(0, 1))
    if constants.ndim == 1 and constants.size != n:
        raise DataError(f"c must be one number or one for each row: expected {n}, received {constants.size}")
    return np.array(np.broadcast_to(constants, n))
