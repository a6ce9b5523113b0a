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

Closed form: :func:`substrate.closed_form.saddle_system.solve_saddle_system`.

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
from substrate.closed_form.page_accuracy import least_squares_accuracy
from substrate.closed_form.saddle_system import ridge_of, solve_saddle_system, target_unit
from substrate.declarations.declaration import Declared
from substrate.declarations.optimality_conditions import prove_saddle
from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram
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
from substrate.proof import Proof

__all__ = ["DEMONSTRATION", "closed_form", "declare", "prove"]

DEMONSTRATION = Demonstration(
    equations="Pelckmans2005 (1)-(2); Suykens2002 (1)-(5), (9)",
    cases=tuple(
        Case(form, {"form": form}, "motorcycle", RBF(sigma=10.0), {"gamma": 20.0}) for form in ("primal", "dual")
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
    gram = K if isinstance(K, Gram) else Gram.from_matrix(K)
    target = real_targets(y, gram.n)
    if target_unit(target) != 1.0:
        raise DataError(
            f"max|y| is {np.abs(target).max():.3g} and its square leaves floating point inside the solvers; measure y "
            "in other units, and multiply support values and bias by the unit"
        )
    v = row_weights(weights, gram.n)
    value = positive(gamma, "gamma")
    if form not in ("primal", "dual"):
        raise DeclarationError(f"form must be 'primal' or 'dual', received {form!r}")
    R = gram.coordinates().factor
    return (_primal if form == "primal" else _dual)(gram, R, target, value, v)


def _primal(gram: Gram, R: Array, y: Array, value: float, v: Array) -> Declared:
    w, b, e = cp.Variable(R.shape[1], name="w"), cp.Variable(name="b"), cp.Variable(gram.n, name="e")
    gamma = cp.Parameter(nonneg=True, name="gamma", value=value)
    fit = regression_fit(y, R @ w + b, e)
    norm, errors = squared_norm(w, R), squared_errors(e, gamma, v)
    problem = cp.Problem(cp.Minimize(norm.term + errors.term), [fit.constraint])

    def rows(tolerance: float) -> tuple[Row, ...]:
        alpha, ridge = fit.multiplier, 1.0 / (gamma.value * v)
        dual = (float(y @ alpha), -0.5 * float(np.sum((R.T @ alpha) ** 2)), -0.5 * float(alpha @ (ridge * alpha)))
        return (
            fit.row(tolerance),
            errors.row(alpha, y, tolerance),
            norm.row(alpha, tolerance, y / ridge),
            zero_sum_row(alpha, tolerance, y / ridge),
            gap_row((float(norm.term.value), float(errors.term.value)), dual, tolerance, 0.5 * float(y @ (y / ridge))),
        )

    values = {"support_values": lambda: fit.multiplier, "bias": lambda: b.value, "errors": lambda: e.value}

    def rescaled() -> tuple[Any, float]:
        unit = _unit(y, gamma.value * v)
        return _primal(gram, R, y / unit, gamma.value, v).problem, unit

    def units() -> dict[str, float]:
        return _units(y, gamma.value * v)

    def accuracy() -> Accuracy:
        return least_squares_accuracy(R, y, 1.0 / (gamma.value * v), fit.multiplier, float(b.value), y - e.value)

    title = "LS-SVM regression (primal)"
    return Declared(title, problem, {"gamma": gamma}, values, rows, gram.record, units, rescaled, accuracy)


def _dual(gram: Gram, R: Array, y: Array, value: float, v: Array) -> Declared:
    alpha = cp.Variable(gram.n, name="alpha")
    inverse_gamma = cp.Parameter(nonneg=True, name="inverse_gamma", value=1.0 / value)
    balance = zero_sum(alpha)
    norm, ridge = squared_norm(R.T @ alpha, R), squared_errors(alpha, inverse_gamma, 1.0 / v)
    problem = cp.Problem(cp.Maximize(y @ alpha - norm.term - ridge.term), [balance.constraint])

    def errors() -> Array:
        return np.asarray(inverse_gamma.value * alpha.value / v)

    def rows(tolerance: float) -> tuple[Row, ...]:
        a, b, e = alpha.value, float(balance.multiplier), errors()
        f = R @ (R.T @ a) + b
        primal = (float(norm.term.value), 0.5 * float(np.sum(v * (y - f) ** 2)) / float(inverse_gamma.value))
        trivial = 0.5 * float(np.sum(v * y**2)) / float(inverse_gamma.value)
        return (
            fit_row(y, f, e, tolerance),
            error_row(a, v / inverse_gamma.value, y - f, tolerance, y),
            zero_sum_row(a, tolerance, y * v / inverse_gamma.value),
            gap_row(primal, (float(y @ a), -float(norm.term.value), -float(ridge.term.value)), tolerance, trivial),
        )

    values = {"support_values": lambda: alpha.value, "bias": lambda: balance.multiplier, "errors": errors}

    def rescaled() -> tuple[Any, float]:
        unit = _unit(y, v / inverse_gamma.value)
        return _dual(gram, R, y / unit, 1.0 / inverse_gamma.value, v).problem, unit

    def units() -> dict[str, float]:
        return _units(y, v / inverse_gamma.value)

    def accuracy() -> Accuracy:
        ridge = float(inverse_gamma.value) / v
        return least_squares_accuracy(R, y, ridge, alpha.value, float(balance.multiplier), y - errors())

    title, parameters = "LS-SVM regression (dual)", {"inverse_gamma": inverse_gamma}
    return Declared(title, problem, parameters, values, rows, gram.record, units, rescaled, accuracy)


def _units(y: Array, gamma_v: Array) -> dict[str, float]:
    """How large each quantity is where w = 0: the units in which two ways to it are compared."""
    largest = float(np.abs(y).max())
    return {"support_values": float(np.abs(gamma_v * y).max()), "bias": largest, "errors": largest}


def _unit(y: Array, gamma_v: Array) -> float:
    """The unit of y in which w = 0 costs about 1."""
    largest = float(np.abs(y).max())
    if float(np.ptp(y)) <= 1e-12 * largest:  # constant up to rounding
        return largest if largest > 0.0 else 1.0
    return float(np.sqrt(0.5 * np.sum(gamma_v * (y - y.mean()) ** 2)))


def closed_form(K: Any, y: Any, gamma: float, weights: Any = None) -> dict[str, Array]:
    """The same quantities by linear algebra: support values, bias and errors."""
    gram = Gram.from_matrix(K.matrix if isinstance(K, Gram) else K)
    ridge = ridge_of(positive(gamma, "gamma"), row_weights(weights, gram.n))
    solved = solve_saddle_system(gram, real_targets(y, gram.n), ridge)
    return {
        "support_values": solved.support_values,
        "bias": np.asarray(solved.bias),
        "errors": ridge * solved.support_values,
    }


def prove(solution: Mapping[str, Array], K: Any, y: Any, gamma: float, weights: Any = None) -> Proof:
    """Prove in ball arithmetic how near the fitted values of a solution are to those of the exact optimum."""
    return prove_saddle(K, y, gamma, weights, solution)
