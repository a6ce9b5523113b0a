r"""The LS-SVM with Huber's loss: squared errors near the fit, absolute ones far from it.

.. math::

    \min_{w, b, e} \; \tfrac12 w^T w + \gamma \sum_{i=1}^N v_i h_\delta(e_i)
    \quad \text{s.t.} \quad y_i = w^T \varphi(x_i) + b + e_i, \quad
    h_\delta(e) = \begin{cases} \tfrac12 e^2 & |e| \le \delta \\ \delta |e| - \tfrac12 \delta^2 & |e| > \delta
    \end{cases}

Symbols: :math:`\delta` the error, in the units of y, from which the loss is linear; everything else is as in
:mod:`problems.ls_svm_regression`.

The multipliers of the equalities are the support values, :math:`\alpha_i = \gamma v_i \, \mathrm{clip}(e_i, -\delta,
\delta)`, with :math:`w = \sum_i \alpha_i \varphi(x_i)` and :math:`1^T \alpha = 0`: the multiplier of an outlier is
:math:`\gamma v_i \delta`, however far away it is. The dual is the dual of the LS-SVM with bounds,

.. math:: \max_\alpha \; y^T \alpha - \tfrac12 \alpha^T K \alpha - \tfrac{1}{2\gamma} \sum_i \alpha_i^2 / v_i
          \quad \text{s.t.} \quad 1^T \alpha = 0, \quad |\alpha_i| \le \gamma v_i \delta ,

declared in the shares :math:`a = \alpha / \gamma`, whose bound does not contain :math:`\gamma`, so that :math:`\gamma`
is a parameter of either form. For :math:`\delta \to \infty` it is the LS-SVM; for :math:`\delta \to 0` at constant
:math:`\gamma \delta` it is the machine of least absolute deviations. The problem is convex, so the weights of
:mod:`problems.weighted_ls_svm` are not needed and nothing depends on a first fit; but the influence of an outlier is
bounded, not zero.

Fast path: :func:`substrate.fits.row_newton.solve_rows` with the loss :class:`substrate.losses.Huber`.

[Huber1964]_; not in the papers of this package, whose introduction to weights ([Suykens2002]_ section 1) names it.
"""

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np

from problems.demonstration import Case, Demonstration
from substrate.arrays import Array, positive, real_targets, row_weights
from substrate.bounds.rows import bound_declared
from substrate.certificate import UNPOLISHED, Accuracy, Row, Tolerance, gap_row
from substrate.declare.declared import Declared, own_gram
from substrate.declare.regression_page import RegressionData
from substrate.fits.row_newton import solve_losses
from substrate.ingredients import (
    huber_conjugate,
    huber_errors,
    huber_loss,
    huber_rows,
    regression_fit,
    squared_norm,
    zero_sum,
    zero_sum_row,
)
from substrate.kernels import RBF
from substrate.losses import Huber
from substrate.robust_weights import check_choice

__all__ = ["DEMONSTRATION", "closed_form", "declare"]

# The dual is not among them: on a kernel matrix of low numerical rank the QP of HiGHS ends in an internal error.
DEMONSTRATION = Demonstration(
    equations="Huber1964",
    cases=tuple(
        Case(
            label=label,
            choice={"form": "primal"},
            dataset="motorcycle",
            kernel=RBF(sigma=10.0),
            parameters={"gamma": 20.0, "delta": delta},
        )
        for label, delta in (("few rows linear", 40.0), ("half of the rows linear", 10.0))
    ),
)


@dataclass(frozen=True)
class _HuberData(RegressionData):
    delta: float

    @property
    def dual_at_zero(self) -> Array:
        return self.gamma_v * np.clip(self.y, -self.delta, self.delta)

    @property
    def cost(self) -> float:
        return float(self.gamma_v @ huber_loss(self.y - np.median(self.y), self.delta))

    def bound(self, w: Array, e: Array) -> Accuracy:
        tolerance = Tolerance.of_page(self.y, np.ones(self.y.size), UNPOLISHED)
        return bound_declared(self.R, Huber(self.delta).of_rows(self.y, self.gamma_v), w, self.y - e, tolerance)


def declare(K: Any, y: Any, gamma: float, delta: float, weights: Any = None, form: str = "primal") -> Declared:
    """Declare the problem on a kernel matrix (or a Gram) and a target; ``gamma`` is the parameter of both forms."""
    check_choice(form, ("primal", "dual"), "form")
    data = _HuberData.of(K, y, gamma, weights, delta=positive(delta, "delta"))
    return (_primal if form == "primal" else _dual)(data)


def _primal(data: _HuberData) -> Declared:
    R, y, v, delta = data.R, data.y, data.v, data.delta
    w, b, e = cp.Variable(R.shape[1], name="w"), cp.Variable(name="b"), cp.Variable(y.size, name="e")
    gamma = cp.Parameter(nonneg=True, name="gamma", value=data.gamma)
    fit = regression_fit(y, R @ w + b, e)
    norm, errors = squared_norm(w, R), huber_errors(e, gamma, v, delta)
    problem = cp.Problem(cp.Minimize(norm.term + errors.term), [fit.constraint])
    values = {"support_values": lambda: fit.multiplier, "bias": lambda: b.value, "errors": lambda: e.value}

    def rows(tolerance: float) -> tuple[Row, ...]:
        alpha, gamma_v = fit.multiplier, gamma.value * v
        dual_at_zero = gamma_v * np.clip(y, -delta, delta)
        dual = (float(y @ alpha), -0.5 * float(np.sum((R.T @ alpha) ** 2)), -0.5 * float(alpha @ (alpha / gamma_v)))
        primal = (float(norm.term.value), float(errors.term.value))
        return (
            fit.row(tolerance),
            *errors.rows(alpha, y, tolerance),
            norm.row(alpha, tolerance, dual_at_zero),
            zero_sum_row(alpha, tolerance, dual_at_zero),
            gap_row(primal, dual, tolerance, float(gamma_v @ huber_loss(y, delta))),
        )

    def accuracy(data: _HuberData) -> Accuracy:
        return data.bound(w.value, e.value)

    title, parameters = "Huber LS-SVM (primal)", {"gamma": gamma}
    return data.declare(title, problem, parameters, values, rows, accuracy=accuracy)


def _dual(data: _HuberData) -> Declared:
    R, y, v, delta = data.R, data.y, data.v, data.delta
    shares = cp.Variable(y.size, name="alpha/gamma")
    gamma = cp.Parameter(nonneg=True, name="gamma", value=data.gamma)
    balance, (conjugate, bounds) = zero_sum(shares), huber_conjugate(shares, v, delta)
    norm = squared_norm(R.T @ shares, R)
    objective = cp.Maximize(y @ shares - gamma * norm.term - conjugate)
    problem = cp.Problem(objective, [balance.constraint, *bounds])

    def support_values() -> Array:
        return np.asarray(gamma.value * shares.value)

    def errors() -> Array:
        return np.asarray(y - R @ (R.T @ support_values()) - float(balance.multiplier))

    values = {"support_values": support_values, "bias": lambda: balance.multiplier, "errors": errors}

    def rows(tolerance: float) -> tuple[Row, ...]:
        alpha, e, gamma_v = support_values(), errors(), gamma.value * v
        norm_squared = float(np.sum((R.T @ alpha) ** 2))
        primal = (0.5 * norm_squared, float(gamma_v @ huber_loss(e, delta)))
        dual = (float(y @ alpha), -0.5 * norm_squared, -0.5 * float(alpha @ (alpha / gamma_v)))
        return (
            *huber_rows(alpha, gamma_v, e, delta, tolerance, y),
            zero_sum_row(alpha, tolerance, gamma_v * np.clip(y, -delta, delta)),
            gap_row(primal, dual, tolerance, float(gamma_v @ huber_loss(y, delta))),
        )

    def accuracy(data: _HuberData) -> Accuracy:
        return data.bound(R.T @ support_values(), errors())

    title, parameters = "Huber LS-SVM (dual)", {"gamma": gamma}
    return data.declare(title, problem, parameters, values, rows, accuracy=accuracy)


def closed_form(K: Any, y: Any, gamma: float, delta: float, weights: Any = None) -> dict[str, Array]:
    """Return the same quantities by Newton's method on the rows: support values, bias and errors."""
    gram = own_gram(K)
    target, gamma_v = real_targets(y, gram.n), positive(gamma, "gamma") * row_weights(weights, gram.n)
    solved = solve_losses(gram, Huber(delta).of_rows(target, gamma_v), target)
    return {"support_values": solved.u, "bias": np.asarray(solved.c[0]), "errors": target - solved.f}
