r"""Least-squares support vector regression with a linear part that is not penalised.

.. math::

    \min_{w, \beta, b, e} \; \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_{i=1}^N v_i e_i^2
    \quad \text{s.t.} \quad y_i = \beta^T z_i + w^T \varphi(x_i) + b + e_i, \quad i = 1, \dots, N

Symbols: z the inputs whose effect is linear, the rows of ``Z``, x the other inputs; :math:`\beta` coefficients of the
linear part, not penalised, as b; all others are as in :mod:`problems.ls_svm_regression`.

The multipliers of the equalities are the support values :math:`\alpha`, with :math:`\alpha_i = \gamma v_i e_i`,
:math:`w = \sum_i \alpha_i \varphi(x_i)`, :math:`1^T \alpha = 0` and :math:`Z^T \alpha = 0`. The predictor is
:math:`f(x, z) = \beta^T z + \sum_i \alpha_i k(x_i, x) + b`. Eliminating w and e gives

.. math::

    \begin{bmatrix} 0 & 0 & Z^T \\ 0 & 0 & 1^T \\ Z & 1 & K + D \end{bmatrix}
    \begin{bmatrix} \beta \\ b \\ \alpha \end{bmatrix} = \begin{bmatrix} 0 \\ 0 \\ y \end{bmatrix},
    \qquad D = \operatorname{diag}\!\left(\frac{1}{\gamma v_i}\right).

The columns of Z must not depend on each other or on a constant. Closed form:
:func:`substrate.operators.saddle_system.solve_saddle_system` with a
:class:`~substrate.operators.border.Border`; [Espinoza2005b]_.
"""

from typing import Any

import cvxpy as cp
import numpy as np

from problems.demonstration import Case, Demonstration
from substrate.arrays import Array, positive, real_array, real_targets, row_weights
from substrate.certificate import Accuracy, Row
from substrate.declare.declared import Declared, own_gram
from substrate.declare.regression_page import RegressionData, least_squares_accuracy, optimality_rows
from substrate.errors import DataError
from substrate.ingredients import regression_fit, squared_errors, squared_norm, zero_sum_row
from substrate.kernels import RBF, Restricted
from substrate.operators.border import Border
from substrate.operators.saddle_system import ridge_of, solve_saddle_system

__all__ = ["DEMONSTRATION", "closed_form", "declare"]


def _build(kernel: Any, X: Any, y: Array) -> dict[str, Any]:
    """Leave to the linear part the columns that the kernel does not take, or the first one if it takes all."""
    dense = np.asarray(X.toarray() if hasattr(X, "toarray") else X)
    kernel_columns = kernel.columns if isinstance(kernel, Restricted) else range(1, dense.shape[1])
    return {"K": kernel(X), "Z": dense[:, [k for k in range(dense.shape[1]) if k not in kernel_columns]], "y": y}


DEMONSTRATION = Demonstration(
    "Espinoza2005b",
    (
        Case(
            label="one linear input",
            choice={},
            dataset="additive_function",
            kernel=RBF(2.0).on(*range(1, 25)),
            parameters={"gamma": 20.0},
            build=_build,
            every=3,
        ),
    ),
)


def declare(K: Any, y: Any, gamma: float, weights: Any = None, *, Z: Any) -> Declared:
    """Declare the problem on a kernel matrix, a target, and the columns of the linear part.

    :place [Espinoza2005b]_ primal problem: LS-SVM regression with a linear part
    """
    data = RegressionData.of(K, y, gamma, weights)
    return _declare(data, _border(Z, data.v))


def _declare(data: RegressionData, border: Border) -> Declared:
    """Declare the problem; solvers are given orthonormal columns that span the centred columns of Z."""
    R, y = data.R, data.y
    w, b, e = cp.Variable(R.shape[1], name="w"), cp.Variable(name="b"), cp.Variable(y.size, name="e")
    theta = cp.Variable(border.slopes, name="theta")
    gamma = cp.Parameter(nonneg=True, name="gamma", value=data.gamma)
    fit = regression_fit(y, border.linear_basis @ theta + R @ w + b, e)
    norm, errors = squared_norm(w, R), squared_errors(e, gamma, data.v)
    problem = cp.Problem(cp.Minimize(norm.term + errors.term), [fit.constraint])

    def linear_part() -> tuple[float, Array]:
        """Return the bias at the means of the columns of Z, and beta."""
        bias, slopes = border.split(np.append(b.value, theta.value)[:, None])
        return float(bias[0]), slopes[:, 0]

    values = {
        "support_values": lambda: fit.multiplier,
        "coefficients": lambda: linear_part()[1],
        "bias": lambda: linear_part()[0] - border.center @ linear_part()[1],
        "errors": lambda: e.value,
    }

    def rows(tolerance: float) -> tuple[Row, ...]:
        alpha, dual_at_zero = fit.multiplier, gamma.value * data.v * y
        columns = border.matrix(y[:, None]).T[1:]
        sums = (zero_sum_row(z * alpha, tolerance, z * dual_at_zero, "z") for z in columns)
        return (*optimality_rows(fit, norm, errors, tolerance), *sums)

    def accuracy(now: RegressionData) -> Accuracy:
        bias, slopes = linear_part()
        solution = (fit.multiplier, bias, now.y - e.value)
        return least_squares_accuracy(now.R, now.y, now.gamma, now.v, *solution, border=border, slopes=slopes)

    def sizes(now: RegressionData) -> dict[str, float]:
        """Return the unit of every coefficient: the size at which its column alone would fit y."""
        return {"coefficients": float(np.abs(now.y).max()) * float(np.abs(border.turn[1:, 1:]).max())}

    title = "Partially linear LS-SVM"
    return data.declare(title, problem, {"gamma": gamma}, values, rows, sizes=sizes, accuracy=accuracy)


def closed_form(K: Any, y: Any, gamma: float, weights: Any = None, *, Z: Any) -> dict[str, Array]:
    """Return the same quantities by linear algebra: support values, coefficients, bias and errors.

    :place [Espinoza2005b]_ dual problem: the linear system with the columns of the linear part next to the ones
    """
    gram = own_gram(K)
    target, v = real_targets(y, gram.n), row_weights(weights, gram.n)
    ridge, border = ridge_of(positive(gamma, "gamma"), v), _border(Z, v)
    solved = solve_saddle_system(gram, target, ridge, border=border)
    slopes = np.asarray(solved.slopes)
    return {
        "support_values": solved.support_values,
        "coefficients": slopes,
        "bias": np.asarray(solved.bias - border.center @ slopes),
        "errors": ridge * solved.support_values,
    }


def _border(Z: Any, v: Array) -> Border:
    columns = real_array(Z, "Z", ndim=2)
    if columns.shape[0] != v.size:
        raise DataError(f"Z must have one row for each of the {v.size} rows of K, received {columns.shape[0]}")
    return Border.of(columns, v)
