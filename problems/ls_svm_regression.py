r"""Least-squares support vector regression.

.. math::

    \min_{w, b, e} \; \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_{i=1}^N v_i e_i^2
    \quad \text{s.t.} \quad y_i = w^T \varphi(x_i) + b + e_i, \quad i = 1, \dots, N

Symbols: w weights in feature space; b bias, not penalised; e errors; :math:`\gamma` weight of the errors; v weights of
the rows, one unless given; K kernel matrix, :math:`K_{ij} = \varphi(x_i)^T \varphi(x_j)`.

The multipliers of the equalities are the support values :math:`\alpha`, with :math:`\alpha_i = \gamma v_i e_i`,
:math:`w = \sum_i \alpha_i \varphi(x_i)` and :math:`1^T \alpha = 0`. The predictor is
:math:`f(x) = \sum_i \alpha_i k(x_i, x) + b`. The dual, whose equality has b as multiplier, is

.. math:: \max_\alpha \; y^T \alpha - \tfrac12 \alpha^T K \alpha - \tfrac{1}{2\gamma} \sum_i \alpha_i^2 / v_i
          \quad \text{s.t.} \quad 1^T \alpha = 0 .

Closed form: :func:`substrate.operators.saddle_system.solve_saddle_system`.

[Pelckmans2005]_ eq. (1)-(2); [Suykens2002]_ eq. (1)-(5), (9). Erratum: the Lagrangian below (1) of [Pelckmans2005]_
prints :math:`w^T x_i` where :math:`w^T \varphi(x_i)` is meant.
"""

from typing import Any

import cvxpy as cp
import numpy as np

from problems.demonstration import Case, Demonstration
from substrate.arrays import Array, positive, real_targets, row_weights
from substrate.certificate import Row, gap_row
from substrate.declare.declared import Declared, own_gram
from substrate.declare.regression_page import RegressionData, optimality_rows
from substrate.ingredients import (
    error_row,
    fit_row,
    regression_fit,
    squared_errors,
    squared_norm,
    zero_sum,
    zero_sum_row,
)
from substrate.kernels import RBF
from substrate.operators.saddle_system import ridge_of, solve_saddle_system
from substrate.robust_weights import check_choice

__all__ = ["DEMONSTRATION", "closed_form", "declare"]

DEMONSTRATION = Demonstration(
    equations="Pelckmans2005 (1)-(2); Suykens2002 (1)-(5), (9)",
    cases=tuple(
        Case(
            label=form,
            choice={"form": form},
            dataset="motorcycle",
            kernel=RBF(sigma=10.0),
            parameters={"gamma": 20.0},
            every=2,
        )
        for form in ("primal", "dual")
    ),
)


def declare(K: Any, y: Any, gamma: float, weights: Any = None, form: str = "primal") -> Declared:
    """Declare the problem on a kernel matrix (or a :class:`~substrate.operators.gram.Gram`) and a target.

    ``form="primal"`` has the parameter ``gamma``, ``form="dual"`` the parameter ``inverse_gamma``.

    :equation [Pelckmans2005]_ (1): LS-SVM regression, primal
    :equation [Suykens2002]_ (1)-(2): LS-SVM regression, primal and model
    :equation [Cawley2002]_ (1): LS-SVM with the error term gamma sum e^2, half of our gamma
    :equation [Cawley2004]_ (1): ridge regression, the LS-SVM with a linear kernel and half of our gamma
    """
    check_choice(form, ("primal", "dual"), "form")
    data = RegressionData.of(K, y, gamma, weights)
    return _primal(data) if form == "primal" else _dual(data)


def _primal(data: RegressionData) -> Declared:
    R, y, v = data.R, data.y, data.v
    w, b, e = cp.Variable(R.shape[1], name="w"), cp.Variable(name="b"), cp.Variable(y.size, name="e")
    gamma = cp.Parameter(nonneg=True, name="gamma", value=data.gamma)
    fit = regression_fit(y, R @ w + b, e)
    norm, errors = squared_norm(w, R), squared_errors(e, gamma, v)
    problem = cp.Problem(cp.Minimize(norm.term + errors.term), [fit.constraint])
    values = {"support_values": lambda: fit.multiplier, "bias": lambda: b.value, "errors": lambda: e.value}

    def rows(tolerance: float) -> tuple[Row, ...]:
        return optimality_rows(fit, norm, errors, tolerance)

    return data.declare("LS-SVM regression (primal)", problem, {"gamma": gamma}, values, rows)


def _dual(data: RegressionData) -> Declared:
    R, y, v = data.R, data.y, data.v
    alpha = cp.Variable(y.size, name="alpha")
    inverse_gamma = cp.Parameter(nonneg=True, name="inverse_gamma", value=1.0 / data.gamma)
    balance = zero_sum(alpha)
    norm, ridge = squared_norm(R.T @ alpha, R), squared_errors(alpha, inverse_gamma, 1.0 / v)
    problem = cp.Problem(cp.Maximize(y @ alpha - norm.term - ridge.term), [balance.constraint])

    def errors() -> Array:
        return np.asarray(inverse_gamma.value * alpha.value / v)

    values = {"support_values": lambda: alpha.value, "bias": lambda: balance.multiplier, "errors": errors}

    def rows(tolerance: float) -> tuple[Row, ...]:
        a, b, gamma_v = alpha.value, float(balance.multiplier), v / inverse_gamma.value
        f = R @ (R.T @ a) + b
        primal = (float(norm.term.value), 0.5 * float(np.sum(v * (y - f) ** 2)) / float(inverse_gamma.value))
        trivial = 0.5 * float(np.sum(v * y**2)) / float(inverse_gamma.value)
        return (
            fit_row(y, f, errors(), tolerance),
            error_row(a, gamma_v, y - f, tolerance, y),
            zero_sum_row(a, tolerance, y * v / inverse_gamma.value),
            gap_row(primal, (float(y @ a), -float(norm.term.value), -float(ridge.term.value)), tolerance, trivial),
        )

    parameters = {"inverse_gamma": inverse_gamma}
    return data.declare("LS-SVM regression (dual)", problem, parameters, values, rows)


def closed_form(K: Any, y: Any, gamma: float, weights: Any = None) -> dict[str, Array]:
    """Return the same quantities by linear algebra: support values, bias and errors."""
    gram = own_gram(K)
    ridge = ridge_of(positive(gamma, "gamma"), row_weights(weights, gram.n))
    solved = solve_saddle_system(gram, real_targets(y, gram.n), ridge)
    return {
        "support_values": solved.support_values,
        "bias": np.asarray(solved.bias),
        "errors": ridge * solved.support_values,
    }
