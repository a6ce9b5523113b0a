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

Closed form: :func:`substrate.least_squares.saddle_system.solve_saddle_system`.

[Pelckmans2005]_ eq. (1)-(2); [Suykens2002]_ eq. (1)-(5), (9). Erratum: the Lagrangian below (1) of [Pelckmans2005]_
prints :math:`w^T x_i` where :math:`w^T \varphi(x_i)` is meant.
"""

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np

from problems.demonstration import Case, Demonstration
from substrate.arrays import Array, positive, real_targets, row_weights
from substrate.certificates import Row
from substrate.certificates.rows import Accuracy, gap_row
from substrate.declarations import Declared, own_gram
from substrate.declarations.optimality_conditions import prove_saddle
from substrate.declarations.regression_page import RegressionData, least_squares_accuracy
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
from substrate.least_squares.border import ONES, Border
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.robust_weights import check_choice
from substrate.least_squares.saddle_system import solve_saddle_system
from substrate.proof import Proof

__all__ = ["DEMONSTRATION", "closed_form", "declare", "primal", "prove"]

DEMONSTRATION = Demonstration(
    equations="Pelckmans2005 (1)-(2); Suykens2002 (1)-(5), (9)",
    cases=tuple(
        Case(
            label=form, choice={"form": form}, dataset="motorcycle", kernel=RBF(sigma=10.0), parameters={"gamma": 20.0}
        )
        for form in ("primal", "dual")
    ),
)


def declare(K: Any, y: Any, gamma: float, weights: Any = None, form: str = "primal") -> Declared:
    """Declare the problem on a kernel matrix (or a :class:`~substrate.gram.Gram`) and a target.

    ``form="primal"`` has the parameter ``gamma``, ``form="dual"`` the parameter ``inverse_gamma``.

    :equation [Pelckmans2005]_ (1): LS-SVM regression, primal
    :equation [Suykens2002]_ (1)-(2): LS-SVM regression, primal and model
    :equation [Cawley2002]_ (1): LS-SVM with the error term gamma sum e^2, half of our gamma
    :equation [Cawley2004]_ (1): ridge regression, the LS-SVM with a linear kernel and half of our gamma
    """
    check_choice(form, ("primal", "dual"), "form")
    data = RegressionData.of(K, y, gamma, weights)
    return primal(data, data.R, "LS-SVM regression (primal)") if form == "primal" else _dual(data)


def primal(
    data: RegressionData, R: Array, title: str, border: Border = ONES, weight: Any = None, **zero: Array
) -> Declared:
    """Return the primal with features R of the rows and, by name, matrices D for which D w = 0 is required as well.

    Solvers are given orthonormal rows in place of those of D, which may depend on each other or be rounding alone, and
    orthonormal columns in place of those that the ``border`` has beside the constant. ``weight`` is a parameter that
    several machines share; without one the machine has its own.
    """
    y, v = data.y, data.v
    w, b, e = cp.Variable(R.shape[1], name="w"), cp.Variable(name="b"), cp.Variable(y.size, name="e")
    gamma = cp.Parameter(nonneg=True, name="gamma", value=data.gamma) if weight is None else weight
    model, theta = R @ w + b, cp.Variable(max(border.slopes, 1), name="beta")
    if border.slopes:
        model = border.basis @ theta + model
    fit, errors = regression_fit(y, model, e), squared_errors(e, gamma, v)
    bases = {name: _orthonormal_rows(D, float(np.linalg.norm(R))) for name, D in zero.items()}
    also = [(basis @ w == 0).set_label(name) for name, basis in bases.items() if basis.size]
    norm = squared_norm(w, np.vstack([R, *bases.values()]))
    problem = cp.Problem(cp.Minimize(norm.term + errors.term), [fit.constraint, *also])
    values = {"support_values": lambda: fit.multiplier, "bias": lambda: b.value, "errors": lambda: e.value}

    def linear() -> tuple[Array, Array]:
        """Return the bias at the center of the linear columns, and their coefficients."""
        c = np.append(b.value, theta.value if border.slopes else ())[:, None]
        bias, slopes = border.split(c)
        return bias[0], slopes[:, 0]

    if border.slopes:
        values |= {"bias": lambda: linear()[0] - border.center @ linear()[1], "coefficients": lambda: linear()[1]}

    def accuracy(now: RegressionData) -> Accuracy:
        if not border.slopes:
            return now.accuracy(values)
        bias, slopes = linear()
        data = (now.R, now.y, now.gamma, now.v)
        return least_squares_accuracy(*data, fit.multiplier, float(bias), now.y - e.value, border=border, slopes=slopes)

    def sizes(now: RegressionData) -> dict[str, float]:
        """Compare a coefficient in the unit at which its column alone would fit y."""
        if not border.slopes:
            return {}
        return {"coefficients": float(np.abs(now.y).max()) * float(np.abs(border.transform).max())}

    def rows(tolerance: float) -> tuple[Row, ...]:
        alpha, ridge = fit.multiplier, 1.0 / (gamma.value * v)
        multipliers = np.concatenate([alpha, *(-constraint.dual_value for constraint in also)])
        pulls = np.concatenate([y / ridge, np.zeros(multipliers.size - y.size)])
        objective = (float(norm.term.value), float(errors.term.value))
        square = float(np.sum((norm.factor.T @ multipliers) ** 2))
        dual = (float(y @ alpha), -0.5 * square, -0.5 * float(alpha @ (ridge * alpha)))
        size = float(np.linalg.norm(y) + np.linalg.norm(fit.f.value))
        return (
            fit.row(tolerance),
            *(
                Row(
                    name=name,
                    value=float(np.linalg.norm(D @ w.value)),
                    scale=size,
                    tolerance=tolerance,
                    formula="||D w||",
                )
                for name, D in zero.items()
            ),
            errors.row(alpha, y, tolerance),
            norm.row(multipliers, tolerance, pulls),
            zero_sum_row(alpha, tolerance, y / ridge),
            *(zero_sum_row(z * alpha, tolerance, z * y / ridge, "z") for z in border.matrix(y[:, None]).T[1:]),
            gap_row(objective, dual, tolerance, 0.5 * float(y @ (y / ridge))),
        )

    def build(scaled: RegressionData) -> Declared:
        return primal(scaled, R, title, border, **zero)

    return data.declare(title, problem, {"gamma": gamma}, values, rows, build, sizes=sizes, accuracy=accuracy)


def _orthonormal_rows(D: Array, size: float) -> Array:
    """Return rows that span those of D, without directions that are rounding of numbers of that size."""
    _, lengths, rows = np.linalg.svd(D, full_matrices=False)
    return np.asarray(rows[lengths > 1e-10 * size])


def _dual(data: RegressionData) -> Declared:
    R, y, v = data.R, data.y, data.v
    alpha = cp.Variable(y.size, name="alpha")
    inverse_gamma = cp.Parameter(nonneg=True, name="inverse_gamma", value=Regularization(data.gamma).lam)
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
    return data.declare("LS-SVM regression (dual)", problem, parameters, values, rows, _dual)


def closed_form(K: Any, y: Any, gamma: float, weights: Any = None) -> dict[str, Array]:
    """Return the same quantities by linear algebra: support values, bias and errors."""
    gram = own_gram(K)
    ridge = Regularization(positive(gamma, "gamma")).ridge(row_weights(weights, gram.n))
    solved = solve_saddle_system(gram, real_targets(y, gram.n), ridge)
    return {
        "support_values": solved.support_values,
        "bias": np.asarray(solved.bias),
        "errors": ridge * solved.support_values,
    }


def prove(solution: Mapping[str, Array], K: Any, y: Any, gamma: float, weights: Any = None) -> Proof:
    """Prove in ball arithmetic a bound on the distance of the fitted values from those of the exact optimum."""
    return prove_saddle(K, y, gamma, weights, solution)
