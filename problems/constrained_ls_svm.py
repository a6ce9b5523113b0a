r"""Least-squares support vector regression with a given noise, or with a given norm.

.. math::

    \min_{w, b, e} \; \tfrac12 w^T w \quad \text{s.t.} \quad
    \Big( \sum_{i=1}^N v_i e_i^2 \Big)^{1/2} \le \varsigma \Big( \sum_{i=1}^N v_i \Big)^{1/2}
    \qquad \text{(Morozov)}

.. math::

    \min_{w, b, e} \; \tfrac12 \sum_{i=1}^N v_i e_i^2 \quad \text{s.t.} \quad \|w\| \le \pi \qquad \text{(Ivanov)}

with :math:`y_i = w^T \varphi(x_i) + b + e_i` in both.

Symbols: :math:`\varsigma` standard deviation of the noise, the parameter ``noise``; :math:`\pi` norm of w, the
parameter ``norm``; all others are as in :mod:`problems.ls_svm_regression`.

Where the constraint is active its multiplier :math:`\nu` gives the weight gamma of the LS-SVM with the same solution:
:math:`\gamma = \nu / (\sum_i v_i e_i^2)^{1/2}` in Morozov's problem and :math:`\gamma = \|w\| / \nu` in Ivanov's. The
multipliers of the equalities are :math:`\alpha_i = \gamma v_i e_i` and :math:`v_i e_i`. A noise above the standard
deviation of y, or a norm that no gamma has, is refused with the range that is reached. Closed form: the root of
:class:`substrate.select.secular_equation.SecularEquation`, then
:func:`substrate.operators.saddle_system.solve_saddle_system`. [Morozov1984]_, [Ivanov1976]_, [Tikhonov1977]_.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import cvxpy as cp
import numpy as np

from problems import ls_svm_regression
from problems.demonstration import Case, Demonstration
from substrate.arrays import Array, positive, real_targets, row_weights
from substrate.bounds.saddle import FORMULA
from substrate.certificate import UNPOLISHED, Accuracy, Row, Tolerance, gap_row
from substrate.declare.declared import Declared, given_gram, own_gram
from substrate.declare.regression_page import RegressionData, declared_targets, least_squares_accuracy
from substrate.ingredients import error_row, norm_row, regression_fit, squared_errors, squared_norm, zero_sum_row
from substrate.kernels import RBF
from substrate.numbers import at_most, relative_rounding
from substrate.operators.gram import Gram
from substrate.operators.spectrum import centred_spectrum
from substrate.select.secular_equation import Quantity, SecularEquation, quantity_given

__all__ = ["DEMONSTRATION", "closed_form", "declare"]

DEMONSTRATION = Demonstration(
    equations="Morozov1984; Ivanov1976",
    cases=(
        Case(
            label="norm",
            choice={},
            dataset="additive_function",
            kernel=RBF(sigma=3.0),
            parameters={"norm": 1.0},
            every=2,
        ),
        Case(
            label="noise",
            choice={},
            dataset="additive_function",
            kernel=RBF(sigma=3.0),
            parameters={"noise": 0.6},
            every=2,
        ),
    ),
)


@dataclass(frozen=True)
class _ConstrainedData(RegressionData):
    """The data, with the quantity that is given; gamma is the root that belongs to it."""

    gram: Gram
    quantity: Quantity
    value: float

    def current(self, parameters: Mapping[str, Any]) -> Self:
        """Return the data at the value that the parameter has now, with its gamma."""
        value = float(parameters[self.quantity].value)
        return replace(self, value=value, gamma=_gamma(self.gram, self.y, self.v, self.quantity, value))

    def bound(self, alpha: Array, b: float, e: Array, gamma: float) -> Accuracy:
        """Bound the distance by way of the machine at the gamma of the multipliers, which is near the root."""
        permitted = Tolerance.of_page(self.y, self.v, UNPOLISHED)
        if gamma == 0.0:
            return permitted.row(np.inf, FORMULA)
        near = least_squares_accuracy(self.R, self.y, gamma, self.v, alpha, b, self.y - e)
        ends = _equation(self.gram, self.y, self.v).bracket(self.quantity, self.value, 1.0 / self.gamma)
        distance = np.inf
        if ends is not None:
            low, high = min(ends[0], 1.0 / gamma), max(ends[1], 1.0 / gamma)
            noise = float(np.sqrt(np.sum(self.v * e**2) / self.v.sum())) + near.value
            distance = at_most(near.value + (high / low - 1.0) * noise)
        return permitted.row(distance, FORMULA)


def declare(K: Any, y: Any, weights: Any = None, *, noise: float | None = None, norm: float | None = None) -> Declared:
    """Declare the problem on a kernel matrix and a target, with the parameter ``noise`` or ``norm``.

    :place [Morozov1984]_ discrepancy principle: the norm of w at a given noise
    :place [Ivanov1976]_ quasi-solution: the errors at a given norm of w
    """
    quantity, value = quantity_given(noise, norm)
    gram = own_gram(K)
    target, v = declared_targets(y, gram.n), row_weights(weights, gram.n)
    given_gram(K).coordinates()  # refuses an indefinite matrix, of which no gamma is looked for
    gamma = _gamma(gram, target, v, quantity, value)
    data = _ConstrainedData.of(K, y, gamma, weights, gram=gram, quantity=quantity, value=value)
    return _declare(data)


def _declare(data: _ConstrainedData) -> Declared:
    R, y, v, by_noise = data.R, data.y, data.v, data.quantity == "noise"
    w, b, e = cp.Variable(R.shape[1], name="w"), cp.Variable(name="b"), cp.Variable(y.size, name="e")
    value = cp.Parameter(nonneg=True, name=data.quantity, value=data.value)
    fit, norm, errors = regression_fit(y, R @ w + b, e), squared_norm(w, R), squared_errors(e, 1.0, v)
    root = np.sqrt(v)
    if by_noise:
        limit = (cp.norm(cp.multiply(root, e)) <= float(np.sqrt(v.sum())) * value).set_label("noise")
        problem = cp.Problem(cp.Minimize(norm.term), [fit.constraint, limit])
    else:
        limit = (cp.norm(w) <= value).set_label("norm")
        problem = cp.Problem(cp.Minimize(errors.term), [fit.constraint, limit])

    def gamma() -> float:
        nu, length = float(limit.dual_value), float(np.linalg.norm(root * e.value if by_noise else w.value))
        top, bottom = (nu, length) if by_noise else (length, nu)
        return top / bottom if top > 0.0 and bottom > 0.0 else 0.0  # zero where the constraint is not active

    def support_values() -> Array:
        return np.asarray(fit.multiplier if by_noise else gamma() * fit.multiplier)

    values = {
        "support_values": support_values,
        "bias": lambda: b.value,
        "errors": lambda: e.value,
        "gamma": lambda: gamma(),
    }

    def rows(tolerance: float) -> tuple[Row, ...]:
        if gamma() == 0.0:
            name = f"multiplier of the {data.quantity}"
            return (Row(name=name, value=1.0, scale=1.0, tolerance=tolerance, formula="nu > 0"),)
        alpha, weight, dual_at_zero = support_values(), gamma(), data.dual_at_zero
        reached = float(np.linalg.norm(root * e.value) / np.sqrt(v.sum()) if by_noise else np.linalg.norm(w.value))
        # both problems have the value of the LS-SVM at their gamma, where its dual is known
        primal = (0.5 * float(w.value @ w.value), 0.5 * weight * float(np.sum(v * e.value**2)))
        dual = (
            float(y @ alpha),
            -0.5 * float(np.sum((R.T @ alpha) ** 2)),
            -0.5 * float(np.sum(alpha**2 / v)) / weight,
        )
        return (
            fit.row(tolerance),
            Row(
                name=f"{data.quantity} reached",
                value=abs(reached - float(value.value)),
                scale=float(value.value),
                tolerance=tolerance,
                formula=f"|{data.quantity} - its bound|",
            ),
            error_row(alpha, weight * v, e.value, tolerance, y),
            norm_row(w.value, R, alpha, tolerance, dual_at_zero),
            zero_sum_row(alpha, tolerance, dual_at_zero),
            gap_row(primal, dual, tolerance, 0.5 * float(y @ dual_at_zero)),
        )

    def accuracy(now: _ConstrainedData) -> Accuracy:
        return now.bound(support_values(), float(b.value), e.value, gamma())

    return data.declare(
        f"LS-SVM regression with a given {data.quantity}",
        problem,
        {data.quantity: value},
        values,
        rows,
        sizes=lambda now: {"gamma": now.gamma},
        accuracy=accuracy,
    )


def closed_form(
    K: Any, y: Any, weights: Any = None, *, noise: float | None = None, norm: float | None = None
) -> dict[str, Array]:
    """Return the same quantities by linear algebra: support values, bias, errors and gamma."""
    quantity, value = quantity_given(noise, norm)
    gram = own_gram(K)
    target, v = real_targets(y, gram.n), row_weights(weights, gram.n)
    gram.check_definite()
    gamma = _gamma(gram, target, v, quantity, value)
    return ls_svm_regression.closed_form(gram, target, gamma, v) | {"gamma": np.asarray(gamma)}


def _gamma(gram: Gram, y: Array, v: Array, quantity: Quantity, value: float) -> float:
    return 1.0 / _equation(gram, y, v).root(quantity, positive(value, quantity))


def _equation(gram: Gram, y: Array, v: Array) -> SecularEquation:
    spectrum = centred_spectrum(gram, relative_rounding(4.0 * gram.n), v)  # what coordinates lack of the matrix
    return SecularEquation.of(spectrum, spectrum.targets(y))
