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

Closed form: regression on the labels, :func:`substrate.closed_form.saddle_system.solve_saddle_system`, and
:math:`\alpha = y \circ \alpha^{\text{reg}}`.

[Pelckmans2005]_ eq. (4)-(5); [Carvalho2006]_ eq. (1)-(5). Errata: eq. (3) of [Carvalho2006]_ adds :math:`1/\gamma` to
every entry where it belongs on the diagonal; the :math:`-Y^T` of its (4) is harmless but makes the matrix
non-symmetric.
"""

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np

from problems.demonstration import Case, Demonstration
from substrate.arrays import Array, positive, row_weights
from substrate.certificates import Row
from substrate.certificates.rows import Accuracy, gap_row
from substrate.closed_form.page_accuracy import least_squares_accuracy
from substrate.closed_form.saddle_system import ridge_of, solve_saddle_system
from substrate.declarations.declaration import Declared
from substrate.declarations.optimality_conditions import prove_saddle
from substrate.errors import DeclarationError
from substrate.gram import Gram
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
from substrate.proof import Proof

__all__ = ["DEMONSTRATION", "closed_form", "declare", "prove"]

DEMONSTRATION = Demonstration(
    equations="Pelckmans2005 (4)-(5); Carvalho2006 (1)-(5)",
    cases=tuple(
        Case(form, {"form": form}, "ripley", RBF(sigma=0.5), {"gamma": 1.0}, task="classification")
        for form in ("primal", "dual")
    ),
)


def declare(K: Any, y: Any, gamma: float, weights: Any = None, form: str = "primal") -> Declared:
    """Declare the problem on a kernel matrix (or a :class:`~substrate.gram.Gram`) and labels -1, +1.

    ``form="primal"`` has the parameter ``gamma``, ``form="dual"`` the parameter ``inverse_gamma``.

    :equation [Pelckmans2005]_ (4): LS-SVM classification, primal
    :equation [Carvalho2006]_ (2): LS-SVM classification, primal
    """
    gram = K if isinstance(K, Gram) else Gram.from_matrix(K)
    labels = signed_labels(y, gram.n)
    v = row_weights(weights, gram.n)
    value = positive(gamma, "gamma")
    if form not in ("primal", "dual"):
        raise DeclarationError(f"form must be 'primal' or 'dual', received {form!r}")
    R = gram.coordinates().factor
    return (_primal if form == "primal" else _dual)(gram, R, labels, value, v)


def _primal(gram: Gram, R: Array, y: Array, value: float, v: Array, margin: float = 1.0) -> Declared:
    w, b, e = cp.Variable(R.shape[1], name="w"), cp.Variable(name="b"), cp.Variable(gram.n, name="e")
    gamma = cp.Parameter(nonneg=True, name="gamma", value=value)
    fit = classification_fit(y, R @ w + b, e, margin)
    norm, errors = squared_norm(w, R), squared_errors(e, gamma, v)
    problem = cp.Problem(cp.Minimize(norm.term + errors.term), [fit.constraint])

    def rows(tolerance: float) -> tuple[Row, ...]:
        alpha, ridge = fit.multiplier, 1.0 / (gamma.value * v)
        w_of_alpha = R.T @ (y * alpha)
        dual = (float(alpha.sum()), -0.5 * float(w_of_alpha @ w_of_alpha), -0.5 * float(alpha @ (ridge * alpha)))
        return (
            fit.row(tolerance),
            errors.row(alpha, y, tolerance),
            norm.row(y * alpha, tolerance, y / ridge),
            zero_sum_row(y * alpha, tolerance, y / ridge, letter="y"),
            gap_row(
                (float(norm.term.value), float(errors.term.value)), dual, tolerance, 0.5 * float((1.0 / ridge).sum())
            ),
        )

    values = {"support_values": lambda: fit.multiplier, "bias": lambda: b.value, "errors": lambda: e.value}

    def units() -> dict[str, float]:
        return {"support_values": float((gamma.value * v).max()), "bias": 1.0, "errors": 1.0}

    def rescaled() -> tuple[Any, float]:
        unit = _unit(gamma.value * v)
        return _primal(gram, R, y, gamma.value, v, 1.0 / unit).problem, unit

    def accuracy() -> Accuracy:
        ridge, f = 1.0 / (gamma.value * v), y * (1.0 - e.value)
        return least_squares_accuracy(R, y, ridge, y * fit.multiplier, float(b.value), f)

    title = "LS-SVM classification (primal)"
    return Declared(title, problem, {"gamma": gamma}, values, rows, gram.record, units, rescaled, accuracy)


def _dual(gram: Gram, R: Array, y: Array, value: float, v: Array, margin: float = 1.0) -> Declared:
    alpha = cp.Variable(gram.n, name="alpha")
    inverse_gamma = cp.Parameter(nonneg=True, name="inverse_gamma", value=1.0 / value)
    balance = zero_sum(cp.multiply(y, alpha), letter="y")
    signed = y[:, None] * R  # a factor of Omega
    norm, ridge = squared_norm(signed.T @ alpha, signed), squared_errors(alpha, inverse_gamma, 1.0 / v)
    problem = cp.Problem(cp.Maximize(margin * cp.sum(alpha) - norm.term - ridge.term), [balance.constraint])

    def errors() -> Array:
        return np.asarray(inverse_gamma.value * alpha.value / v)

    def rows(tolerance: float) -> tuple[Row, ...]:
        a, b, e = alpha.value, float(balance.multiplier), errors()
        f = R @ (signed.T @ a) + b
        shortfall = 1.0 - y * f
        primal = (float(norm.term.value), 0.5 * float(np.sum(v * shortfall**2)) / float(inverse_gamma.value))
        trivial = 0.5 * float(v.sum()) / float(inverse_gamma.value)
        return (
            margin_row(y, f, e, tolerance),
            error_row(a, v / inverse_gamma.value, shortfall, tolerance, y),
            zero_sum_row(y * a, tolerance, y * v / inverse_gamma.value, letter="y"),
            gap_row(primal, (float(a.sum()), -float(norm.term.value), -float(ridge.term.value)), tolerance, trivial),
        )

    values = {"support_values": lambda: alpha.value, "bias": lambda: balance.multiplier, "errors": errors}

    def units() -> dict[str, float]:
        return {"support_values": float((v / inverse_gamma.value).max()), "bias": 1.0, "errors": 1.0}

    def rescaled() -> tuple[Any, float]:
        unit = _unit(v / inverse_gamma.value)
        return _dual(gram, R, y, 1.0 / inverse_gamma.value, v, 1.0 / unit).problem, unit

    def accuracy() -> Accuracy:
        ridge, f = float(inverse_gamma.value) / v, y * (1.0 - errors())
        return least_squares_accuracy(R, y, ridge, y * alpha.value, float(balance.multiplier), f)

    title, parameters = "LS-SVM classification (dual)", {"inverse_gamma": inverse_gamma}
    return Declared(title, problem, parameters, values, rows, gram.record, units, rescaled, accuracy)


def _unit(gamma_v: Array) -> float:
    """The unit of the margin in which w = 0 costs about 1."""
    return float(np.sqrt(0.5 * gamma_v.sum()))


def closed_form(K: Any, y: Any, gamma: float, weights: Any = None) -> dict[str, Array]:
    """The same quantities through the regression factor: alpha = y∘alpha_reg, e = y∘e_reg.

    :equation [Pelckmans2005]_ (5): the linear system of LS-SVM classification
    :equation [Carvalho2006]_ (3): the conditions for optimality with w and e eliminated
    """
    gram = Gram.from_matrix(K.matrix if isinstance(K, Gram) else K)
    labels = signed_labels(y, gram.n)
    ridge = ridge_of(positive(gamma, "gamma"), row_weights(weights, gram.n))
    solved = solve_saddle_system(gram, labels, ridge)
    alpha = labels * solved.support_values
    return {"support_values": alpha, "bias": np.asarray(solved.bias), "errors": ridge * alpha}


def prove(solution: Mapping[str, Array], K: Any, y: Any, gamma: float, weights: Any = None) -> Proof:
    """Prove in ball arithmetic how near the outputs of a solution are to those of the exact optimum."""
    labels = np.asarray(y, dtype=np.float64)
    return prove_saddle(K, labels, gamma, weights, solution, labels)
