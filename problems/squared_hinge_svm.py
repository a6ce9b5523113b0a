r"""The machine with the squared hinge, the 2-norm SVM: an LS-SVM on the rows inside the margin.

.. math::

    \min_{w, b, e} \; \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_{i=1}^N v_i \max(0, e_i)^2
    \quad \text{s.t.} \quad y_i \big( w^T \varphi(x_i) + b \big) = 1 - e_i, \quad y_i = \pm 1

Symbols: :math:`e` the slacks of the margin, of which positive ones count; everything else is as in
:mod:`problems.ls_svm_classification`.

The multipliers of the equalities are the support values, :math:`\alpha_i = \gamma v_i \max(0, e_i) \ge 0`, with
:math:`w = \sum_i y_i \alpha_i \varphi(x_i)` and :math:`y^T \alpha = 0`: a row beyond its margin has none, and could be
left out without a change. The dual is the dual of the LS-SVM with :math:`\alpha \ge 0`,

.. math:: \max_{\alpha \ge 0} \; 1^T \alpha - \tfrac12 \alpha^T \Omega \alpha
          - \tfrac{1}{2\gamma} \sum_i \alpha_i^2 / v_i \quad \text{s.t.} \quad y^T \alpha = 0, \quad
          \Omega_{ij} = y_i y_j k(x_i, x_j) .

On the rows with :math:`\alpha_i > 0` it is the LS-SVM of the labels, so that its leave-one-out formula holds as long as
leaving a row out does not change that set. The LS-SVM on all rows is the regularised kernel Fisher discriminant,
:math:`w \propto (S_w + \tfrac1\gamma I)^{-1} (m_+ - m_-)`, since labels are an affine function of Fisher's targets.

Fast path: :func:`substrate.fits.row_newton.solve_rows` with the loss :class:`substrate.losses.SquaredHinge`.

[Cawley2004]_ section 4, which names both machines; [Keerthi2005]_ and [Chapelle2007]_ for the active set.
"""

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np

from problems.demonstration import Case, Demonstration
from substrate.arrays import Array, positive, row_weights
from substrate.bounds.rows import bound_declared
from substrate.certificate import UNPOLISHED, Accuracy, Row, Tolerance, gap_row
from substrate.declare.declared import Declared, given_gram, own_gram
from substrate.declare.regression_page import RegressionData
from substrate.fits.row_newton import solve_losses
from substrate.ingredients import classification_fit, signed_labels, squared_norm, zero_sum_row
from substrate.kernels import RBF
from substrate.losses import SquaredHinge

__all__ = ["DEMONSTRATION", "closed_form", "declare"]

DEMONSTRATION = Demonstration(
    equations="Cawley2004 section 4",
    cases=tuple(
        Case(label=label, choice={}, dataset="ripley", kernel=RBF(sigma=0.5), parameters={"gamma": gamma}, every=4)
        for label, gamma in (("most rows in the support", 1.0), ("half of the rows in the support", 30.0))
    ),
)


@dataclass(frozen=True)
class _MarginData(RegressionData):
    """The labels as targets."""

    @property
    def cost(self) -> float:
        return 0.5 * float(self.gamma_v.sum())


def declare(K: Any, y: Any, gamma: float, weights: Any = None) -> Declared:
    """Declare the problem on a kernel matrix (or a :class:`~substrate.operators.gram.Gram`) and labels -1, +1."""
    gram = given_gram(K)
    return _primal(_MarginData.of(gram, signed_labels(y, gram.n), gamma, weights))


def _primal(data: _MarginData) -> Declared:
    R, y, v = data.R, data.y, data.v
    w, b, e = cp.Variable(R.shape[1], name="w"), cp.Variable(name="b"), cp.Variable(y.size, name="e")
    gamma = cp.Parameter(nonneg=True, name="gamma", value=data.gamma)
    fit = classification_fit(y, R @ w + b, e)
    norm = squared_norm(w, R)
    loss = 0.5 * cp.sum_squares(cp.multiply(np.sqrt(v), cp.pos(e)))
    problem = cp.Problem(cp.Minimize(norm.term + gamma * loss), [fit.constraint])
    values = {"support_values": lambda: fit.multiplier, "bias": lambda: b.value, "errors": lambda: e.value}

    def rows(tolerance: float) -> tuple[Row, ...]:
        alpha, gamma_v = fit.multiplier, gamma.value * v
        slack = np.maximum(e.value, 0.0)
        w_of_alpha = R.T @ (y * alpha)
        dual = (float(alpha.sum()), -0.5 * float(w_of_alpha @ w_of_alpha), -0.5 * float(alpha @ (alpha / gamma_v)))
        primal = (float(norm.term.value), 0.5 * float(gamma_v @ np.square(slack)))
        slope = Row(
            name="stationarity in e",
            value=float(np.linalg.norm((alpha - gamma_v * slack) / np.sqrt(gamma_v))),
            scale=float(np.sqrt(gamma_v.sum())),
            tolerance=tolerance,
            formula="||(alpha - gamma v max(0, e)) / sqrt(gamma v)||",
        )
        return (
            fit.row(tolerance),
            slope,
            norm.row(y * alpha, tolerance, y * gamma_v),
            zero_sum_row(y * alpha, tolerance, y * gamma_v, letter="y"),
            gap_row(primal, dual, tolerance, 0.5 * float(gamma_v.sum())),
        )

    def accuracy(data: _MarginData) -> Accuracy:
        tolerance = Tolerance.of_page(y, np.ones(y.size), UNPOLISHED)
        losses = SquaredHinge().of_rows(y, data.gamma_v)
        return bound_declared(data.R, losses, w.value, y * (1.0 - e.value), tolerance)

    title, parameters = "Squared-hinge machine (primal)", {"gamma": gamma}
    return data.declare(title, problem, parameters, values, rows, accuracy=accuracy)


def closed_form(K: Any, y: Any, gamma: float, weights: Any = None) -> dict[str, Array]:
    """Return the same quantities by Newton's method on the rows: support values, bias and errors."""
    gram = own_gram(K)
    labels, gamma_v = signed_labels(y, gram.n), positive(gamma, "gamma") * row_weights(weights, gram.n)
    solved = solve_losses(gram, SquaredHinge().of_rows(labels, gamma_v), labels)
    return {"support_values": labels * solved.u, "bias": np.asarray(solved.c[0]), "errors": 1.0 - labels * solved.f}
