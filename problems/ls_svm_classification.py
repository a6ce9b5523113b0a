r"""The least-squares support vector classifier.

.. math::

    \min_{w, b, e} \; \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_{i=1}^N v_i e_i^2
    \quad \text{s.t.} \quad y_i (w^T \varphi(x_i) + b) = 1 - e_i, \quad i = 1, \dots, N

Symbols: :math:`y_i \in \{-1, +1\}` labels; w weights in feature space; b bias, not penalised; e shortfall of the
margin; :math:`\gamma` weight of the errors; v weights of the rows, one unless given; K plain and
:math:`\Omega = y y^T \circ K` label-signed kernel matrix.

The multipliers of the equalities are the support values :math:`\alpha`, with :math:`\alpha_i = \gamma v_i e_i`,
:math:`w = \sum_i \alpha_i y_i \varphi(x_i)` and :math:`y^T \alpha = 0`. The classifier is the sign of
:math:`f(x) = \sum_i \alpha_i y_i k(x_i, x) + b`. The dual, whose equality has b as multiplier, is

.. math:: \max_\alpha \; 1^T \alpha - \tfrac12 \alpha^T \Omega \alpha - \tfrac{1}{2\gamma} \sum_i \alpha_i^2 / v_i
          \quad \text{s.t.} \quad y^T \alpha = 0 .

Closed form: regression on the labels, :func:`substrate.operators.saddle_system.solve_saddle_system`, and
:math:`\alpha = y \circ \alpha^{\text{reg}}`.

[Pelckmans2005]_ eq. (4)-(5); [Carvalho2006]_ eq. (1)-(5). Errata: eq. (3) of [Carvalho2006]_ adds :math:`1/\gamma` to
every entry where it belongs on the diagonal; the :math:`-Y^T` of its (4) is harmless but makes the matrix
non-symmetric.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np

from problems.demonstration import Case, Demonstration
from substrate.arrays import Array, positive, row_weights
from substrate.certificate import Accuracy, Row, gap_row
from substrate.declare.declared import Declared, given_gram, own_gram
from substrate.declare.regression_page import RegressionData, least_squares_accuracy, optimality_rows
from substrate.ingredients import (
    classification_fit,
    error_row,
    margin_row,
    signed_labels,
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
    equations="Pelckmans2005 (4)-(5); Carvalho2006 (1)-(5)",
    cases=tuple(
        Case(
            label=form,
            choice={"form": form},
            dataset="ripley",
            kernel=RBF(sigma=0.5),
            parameters={"gamma": 1.0},
            every=4,
        )
        for form in ("primal", "dual")
    ),
)


@dataclass(frozen=True)
class _LabelData(RegressionData):
    """The labels as targets."""

    @property
    def cost(self) -> float:
        return 0.5 * float(self.gamma_v.sum())

    def accuracy(self, values: Mapping[str, Callable[[], Any]]) -> Accuracy:
        y, alpha, e = self.y, values["support_values"](), values["errors"]()
        target_val = (self.R, y, self.gamma, self.v, y * alpha, float(values["bias"]()), y * (1.0 - e))
        return least_squares_accuracy(*target_val)


def declare(K: Any, y: Any, gamma: float, weights: Any = None, form: str = "primal") -> Declared:
    """Declare the problem on a kernel matrix (or a :class:`~substrate.operators.gram.Gram`) and labels -1, +1.

    ``form="primal"`` has the parameter ``gamma``, ``form="dual"`` the parameter ``inverse_gamma``.

    :equation [Pelckmans2005]_ (4): LS-SVM classification, primal
    :equation [Carvalho2006]_ (2): LS-SVM classification, primal
    """
    check_choice(form, ("primal", "dual"), "form")
    gram = given_gram(K)
    return (_primal if form == "primal" else _dual)(_LabelData.of(gram, signed_labels(y, gram.n), gamma, weights))


def _primal(data: _LabelData) -> Declared:
    R, y, v = data.R, data.y, data.v
    w, b, e = cp.Variable(R.shape[1], name="w"), cp.Variable(name="b"), cp.Variable(y.size, name="e")
    gamma = cp.Parameter(nonneg=True, name="gamma", value=data.gamma)
    fit = classification_fit(y, R @ w + b, e)
    norm, errors = squared_norm(w, R), squared_errors(e, gamma, v)
    problem = cp.Problem(cp.Minimize(norm.term + errors.term), [fit.constraint])
    values = {"support_values": lambda: fit.multiplier, "bias": lambda: b.value, "errors": lambda: e.value}

    rows = partial(optimality_rows, fit, norm, errors)
    return data.declare("LS-SVM classification (primal)", problem, {"gamma": gamma}, values, rows)


def _dual(data: _LabelData) -> Declared:
    R, y, v = data.R, data.y, data.v
    alpha = cp.Variable(y.size, name="alpha")
    inverse_gamma = cp.Parameter(nonneg=True, name="inverse_gamma", value=1.0 / data.gamma)
    balance = zero_sum(cp.multiply(y, alpha), letter="y")
    signed = y[:, None] * R  # a factor of Omega
    norm, ridge = squared_norm(signed.T @ alpha, signed), squared_errors(alpha, inverse_gamma, 1.0 / v)
    problem = cp.Problem(cp.Maximize(cp.sum(alpha) - norm.term - ridge.term), [balance.constraint])

    def errors() -> Array:
        return np.asarray(inverse_gamma.value * alpha.value / v)

    values = {"support_values": lambda: alpha.value, "bias": lambda: balance.multiplier, "errors": errors}

    def rows(tolerance: float) -> tuple[Row, ...]:
        a, b = alpha.value, float(balance.multiplier)
        f = R @ (signed.T @ a) + b
        shortfall = 1.0 - y * f
        primal = (float(norm.term.value), 0.5 * float(np.sum(v * shortfall**2)) / float(inverse_gamma.value))
        trivial = 0.5 * float(v.sum()) / float(inverse_gamma.value)
        return (
            margin_row(y, f, errors(), tolerance),
            error_row(a, v / inverse_gamma.value, shortfall, tolerance, y),
            zero_sum_row(y * a, tolerance, y * v / inverse_gamma.value, letter="y"),
            gap_row(primal, (float(a.sum()), -float(norm.term.value), -float(ridge.term.value)), tolerance, trivial),
        )

    parameters = {"inverse_gamma": inverse_gamma}
    return data.declare("LS-SVM classification (dual)", problem, parameters, values, rows)


def closed_form(K: Any, y: Any, gamma: float, weights: Any = None) -> dict[str, Array]:
    """Return the same quantities through the regression factor: alpha = y∘alpha_reg, e = y∘e_reg.

    :equation [Pelckmans2005]_ (5): the linear system of LS-SVM classification
    :equation [Carvalho2006]_ (3): the conditions for optimality with w and e eliminated
    """
    gram = own_gram(K)
    labels = signed_labels(y, gram.n)
    ridge = ridge_of(positive(gamma, "gamma"), row_weights(weights, gram.n))
    solved = solve_saddle_system(gram, labels, ridge)
    alpha = labels * solved.support_values
    return {"support_values": alpha, "bias": np.asarray(solved.bias), "errors": ridge * alpha}
