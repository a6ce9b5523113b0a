r"""The componentwise LS-SVM: an additive model, a sum of functions of one input each.

.. math::

    \min_{w, b, e} \; \tfrac12 \sum_{l=1}^d w_l^T w_l + \tfrac{\gamma}{2} \sum_{i=1}^N v_i e_i^2
    \quad \text{s.t.} \quad y_i = \sum_l w_l^T \varphi_l(x_i^l) + b + e_i, \quad i = 1, \dots, N

Symbols: :math:`w_l` weights of component l; b bias; e errors; :math:`\gamma` weight of the errors; v
weights of the rows, one unless given; :math:`\Omega^l_{ij} = k^l(x_i^l, x_j^l)` kernel matrix of component l, a list of
which is ``K``.

The multipliers of the equalities are the support values :math:`\alpha_i = \gamma v_i e_i`, shared by the components:
:math:`w_l = \sum_i \alpha_i \varphi_l(x_i^l)`. So component l has the values :math:`f^l = \Omega^l \alpha` at the
training points and the norm :math:`\|w_l\| = (\alpha^T \Omega^l \alpha)^{1/2}`, and the predictor is
:math:`f(x) = \sum_l \sum_i \alpha_i k^l(x_i^l, x^l) + b`. Components are determined up to constants, which the bias
absorbs; the constant of a component is determined by its kernel.

Closed form: :func:`substrate.operators.saddle_system.solve_saddle_system` with :math:`\Omega = \sum_l \Omega^l`.

[Pelckmans2005]_ eq. (6)-(8).
"""

from typing import Any

import cvxpy as cp
import numpy as np

from problems.demonstration import Case, Demonstration
from substrate.arrays import Array, positive, real_targets, row_weights
from substrate.certificate import Row, gap_row
from substrate.declare.declared import Declared
from substrate.declare.regression_page import RegressionData, declared_targets
from substrate.declare.variation_expansion import component_grams, component_matrices
from substrate.ingredients import regression_fit, squared_errors, squared_norm, zero_sum_row
from substrate.kernels import RBF, Componentwise
from substrate.operators.gram import Gram
from substrate.operators.saddle_system import ridge_of, solve_saddle_system

__all__ = ["DEMONSTRATION", "closed_form", "declare"]

DEMONSTRATION = Demonstration(
    equations="Pelckmans2005 (6)-(8)",
    cases=(
        Case(
            label="primal",
            choice={},
            dataset="boston",
            kernel=Componentwise(RBF(sigma=4.0)),
            parameters={"gamma": 10.0},
            every=10,
            standardize=True,
        ),
    ),
)


def declare(K: Any, y: Any, gamma: float, weights: Any = None) -> Declared:
    """Declare the problem on the component matrices (a list, or one matrix) and a target.

    :equation [Pelckmans2005]_ (6)-(7): the componentwise LS-SVM, model and primal
    """
    grams = component_grams(K)  # refused where one is not positive semi-definite
    target, v = declared_targets(y, grams[0].n), row_weights(weights, grams[0].n)
    value = positive(gamma, "gamma")
    ridge_of(value, v)  # refuses values outside the range of floating point
    factors = [gram.coordinates().factor for gram in grams]

    def record() -> tuple[tuple[str, str], ...]:
        return (*grams[0].record(), ("components", str(len(grams))))

    return _declare(RegressionData(record=record, R=np.hstack(factors), y=target, v=v, gamma=value), factors)


def _declare(data: RegressionData, factors: list[Array]) -> Declared:
    y, v = data.y, data.v
    gamma = cp.Parameter(nonneg=True, name="gamma", value=data.gamma)
    b, e = cp.Variable(name="b"), cp.Variable(y.size, name="e")
    w = [cp.Variable(R.shape[1], name=f"w{component}") for component, R in enumerate(factors, start=1)]
    components = [R @ weights for R, weights in zip(factors, w, strict=True)]
    fit = regression_fit(y, cp.sum(components) + b, e)
    norms = [squared_norm(weights, R) for weights, R in zip(w, factors, strict=True)]
    errors = squared_errors(e, gamma, v)
    problem = cp.Problem(cp.Minimize(cp.sum([norm.term for norm in norms]) + errors.term), [fit.constraint])
    values = {
        "support_values": lambda: fit.multiplier,
        "bias": lambda: b.value,
        "errors": lambda: e.value,
        "component_values": lambda: np.array([component.value for component in components]),
        "component_norms": lambda: np.array([np.linalg.norm(weights.value) for weights in w]),
    }

    def rows(tolerance: float) -> tuple[Row, ...]:
        alpha, gamma_v = fit.multiplier, gamma.value * v
        squares = [float(np.sum((R.T @ alpha) ** 2)) for R in factors]
        primal = (*(float(norm.term.value) for norm in norms), float(errors.term.value))
        dual = (float(y @ alpha), -0.5 * sum(squares), -0.5 * float(alpha @ (alpha / gamma_v)))
        return (
            fit.row(tolerance),
            errors.row(alpha, y, tolerance),
            max((norm.row(alpha, tolerance, gamma_v * y) for norm in norms), key=lambda row: row.relative),
            zero_sum_row(alpha, tolerance, gamma_v * y),
            gap_row(primal, dual, tolerance, 0.5 * float(y @ (gamma_v * y))),
        )

    def sizes(data: RegressionData) -> dict[str, float]:
        norm = float(np.sqrt(data.y @ data.dual_at_zero))
        return {"component_norms": norm, "component_values": float(np.abs(data.y).max())}

    return data.declare("Componentwise LS-SVM", problem, {"gamma": gamma}, values, rows, sizes=sizes)


def closed_form(K: Any, y: Any, gamma: float, weights: Any = None) -> dict[str, Array]:
    """Return the same quantities by linear algebra.

    :equation [Pelckmans2005]_ (8): its linear system, with the sum of the component matrices
    """
    matrices = component_matrices(K)
    gram = Gram.from_matrix(np.sum(matrices, axis=0))
    ridge = ridge_of(positive(gamma, "gamma"), row_weights(weights, gram.n))
    solved = solve_saddle_system(gram, real_targets(y, gram.n), ridge)
    alpha = solved.support_values
    values = np.array([matrix @ alpha for matrix in matrices])
    return {
        "support_values": alpha,
        "bias": np.asarray(solved.bias),
        "errors": ridge * alpha,
        "component_values": values,
        "component_norms": np.sqrt(np.maximum(values @ alpha, 0.0)),
    }
