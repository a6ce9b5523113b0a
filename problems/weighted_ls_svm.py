r"""The weighted least-squares support vector machine, robust against outliers.

.. math::

    \min_{w, b, e} \; \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_{k=1}^N v_k e_k^2
    \quad \text{s.t.} \quad y_k = w^T \varphi(x_k) + b + e_k, \quad k = 1, \dots, N

Symbols: v weights of the errors, given or, by Algorithm 1, found in three steps: fit with all :math:`v_k = 1`; a robust
scale :math:`\hat s` of the errors :math:`e_k = \alpha_k / \gamma` of that fit; a weight for each :math:`e_k / \hat s`,
see :mod:`substrate.robust_weights`. Everything else is as in :mod:`problems.ls_svm_regression`, whose
builders this page uses.

The multipliers of the equalities are the support values, :math:`\alpha_k = \gamma v_k e_k`: an outlier has a small
weight and therefore a small support value, where without weights it has the largest of all. They solve

.. math::

    \begin{bmatrix} 0 & 1^T \\ 1 & K + V_\gamma \end{bmatrix} \begin{bmatrix} b \\ \alpha \end{bmatrix} =
    \begin{bmatrix} 0 \\ y \end{bmatrix}, \qquad
    V_\gamma = \operatorname{diag}\!\left(\frac{1}{\gamma v_1}, \dots, \frac{1}{\gamma v_N}\right) .

Closed form: :func:`substrate.operators.saddle_system.solve_saddle_system`.

[Suykens2002]_ eq. (10)-(15) and Algorithm 1. Errata: the ramp of (14) reaches zero, where (13) is infinite, so that
weights are kept at :math:`10^{-4}` or above; the errors of the weighted fit are :math:`\alpha_k / (\gamma v_k)`, not
:math:`\alpha_k / \gamma`; the MAD of page 8 is the MAD of the errors.
"""

from dataclasses import replace
from typing import Any

from problems import ls_svm_regression
from problems.demonstration import Case, Demonstration
from substrate.arrays import Array, positive, real_targets, row_weights
from substrate.declare.declared import Declared, given_gram, own_gram
from substrate.kernels import RBF
from substrate.operators.gram import Gram
from substrate.robust_weights import SCALES, WEIGHTINGS, check_choice, robust_scale, robust_weights

__all__ = ["DEMONSTRATION", "algorithm_1_weights", "closed_form", "declare"]

DEMONSTRATION = Demonstration(
    equations="Suykens2002 (10)-(15)",
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


def declare(
    K: Any,
    y: Any,
    gamma: float,
    weights: Any = None,
    form: str = "primal",
    weighting: str = "hampel",
    scale: str = "iqr",
) -> Declared:
    """Declare (10) on a kernel matrix and a target, with the weights given or found by Algorithm 1.

    ``form="primal"`` has the parameter ``gamma``, ``form="dual"`` the parameter ``inverse_gamma``; the weights do not
    follow when it changes.

    :equation [Suykens2002]_ (10): the weighted LS-SVM, primal
    """
    gram = given_gram(K)
    target = real_targets(y, gram.n)
    gram.coordinates()  # an unsuitable matrix is refused before it is factored
    v = _weights(gram, target, gamma, weights, weighting, scale)
    declared = ls_svm_regression.declare(gram, target, gamma, v, form)
    return replace(declared, title=f"Weighted LS-SVM ({form})", _log=[])


def closed_form(
    K: Any, y: Any, gamma: float, weights: Any = None, weighting: str = "hampel", scale: str = "iqr"
) -> dict[str, Array]:
    """Return the same quantities by linear algebra: support values, bias and errors.

    :equation [Suykens2002]_ (12): the weighted linear system
    """
    gram = own_gram(K)
    target = real_targets(y, gram.n)
    v = _weights(gram, target, gamma, weights, weighting, scale)
    return ls_svm_regression.closed_form(gram, target, gamma, v)


def algorithm_1_weights(K: Any, y: Any, gamma: float, weighting: str = "hampel", scale: str = "iqr") -> Array:
    """Return the weights (14) from the errors of the unweighted fit, steps 1 to 3 of Algorithm 1."""
    check_choice(weighting, WEIGHTINGS, "weighting")
    check_choice(scale, SCALES, "scale")
    errors = ls_svm_regression.closed_form(K, y, gamma)["errors"]
    return robust_weights(errors, robust_scale(errors, scale), weighting)


def _weights(gram: Gram, y: Array, gamma: float, weights: Any, weighting: str, scale: str) -> Array:
    positive(gamma, "gamma")
    return algorithm_1_weights(gram, y, gamma, weighting, scale) if weights is None else row_weights(weights, gram.n)
