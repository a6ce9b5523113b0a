r"""Fusion of Tikhonov-regularised training with validation: gamma as an unknown, and its global optimum.

.. math::

    \min_{\gamma, \alpha, b} \; \sum_{j=1}^n (e^v_j)^2 \quad \text{s.t.} \quad
    \begin{cases} y^v = \Omega^v \alpha + b 1_n + e^v, \\
    \begin{bmatrix} 0 & 1_N^T \\ 1_N & \Omega + I/\gamma \end{bmatrix}
    \begin{bmatrix} b \\ \alpha \end{bmatrix} = \begin{bmatrix} 0 \\ y \end{bmatrix} \end{cases}

Symbols: :math:`\Omega` kernel matrix of the N training points; :math:`\Omega^v` kernel values of the n validation
points against them, :math:`n \times N`; :math:`e^v` validation errors; :math:`\alpha` support values; b bias;
:math:`\gamma` the weight of the training errors. Level 1 (17) trains for a given gamma, level 2 (18) chooses the gamma
that validates best; (19) writes both as one problem, with the conditions for optimality of level 1 as constraints. In
classification errors are :math:`1 - y \circ f` and the coefficients :math:`y \circ \alpha`.

The product :math:`\alpha / \gamma` of two unknowns makes (19) non-convex, and the paper turns to additive
regularization (:mod:`problems.fused_least_squares`) for that reason. For fixed gamma, however, it is convex: the LS-SVM
of :mod:`problems.ls_svm_regression`, whose validation error is then a function of one variable. After one
eigendecomposition that function and its bounds cost O(nN) per gamma, and branch and bound gives the global optimum over
a range with a lower bound. So ``declare`` states the convex problem at the optimal gamma, where its solution solves
(19), and the certificate has the gap; gamma stays a parameter, and at any other value of the range the validation error
is no smaller than the lower bound.

Closed form: :func:`substrate.select.gamma_search.search_gamma` and :mod:`substrate.operators.spectrum`.

[Pelckmans2005]_ eq. (17)-(19), and (3) for the validation error. Erratum: :math:`\Omega^v` is n x N here and N x n in
(3).
"""

from dataclasses import replace
from typing import Any

import numpy as np

from problems import ls_svm_regression
from problems.demonstration import Case, Demonstration, half_validates
from substrate.arrays import Array, positive
from substrate.certificate import Row
from substrate.declare.declared import Declared, given_gram, own_gram
from substrate.declare.expansion import checked_targets, signs_of, validation_rows
from substrate.errors import DataError
from substrate.kernels import RBF
from substrate.left_out.criteria import ValidationCriterion
from substrate.operators.gram import Gram
from substrate.operators.spectrum import Spectrum, centred_spectrum
from substrate.select.gamma_search import GAP, GammaSearch, search_gamma

__all__ = ["DEMONSTRATION", "closed_form", "declare", "search"]

_TASKS, _GAP = ({"task": "regression"}, {"task": "classification"}), {"gap": 1e-6}
DEMONSTRATION = Demonstration(
    equations="Pelckmans2005 (3), (17)-(19)",
    cases=(
        Case(
            label="regression",
            choice=_TASKS[0],
            dataset="motorcycle",
            kernel=RBF(sigma=10.0),
            parameters=_GAP,
            build=half_validates,
        ),
        Case(
            label="classification",
            choice=_TASKS[1],
            dataset="ripley",
            kernel=RBF(sigma=0.5),
            parameters=_GAP,
            every=4,
            build=half_validates,
        ),
    ),
)


def declare(
    K: Any, y: Any, K_val: Any, y_val: Any, gap: float = GAP, task: str = "regression", gamma_range: Any = None
) -> Declared:
    """Search gamma, then declare level 1 at the optimum, with the validation errors and the gap.

    :equation [Pelckmans2005]_ (17), (19): level 1, and its fusion with validation
    """
    gram = given_gram(K)
    target, below, target_val = _check_arguments(gram.n, y, K_val, y_val, task)
    gram.coordinates()  # refuses a matrix that is not positive semi-definite
    _, optimum = _search(gram, target, below, target_val, positive(gap, "gap"), gamma_range)
    inner = ls_svm_regression.declare(gram, target, float(optimum.gamma[0]))
    signs, signs_val = signs_of(target, task), signs_of(target_val, task)
    bare = inner.values

    def validation_errors() -> Array:
        return np.asarray(signs_val * (target_val - below @ bare["support_values"]() - bare["bias"]()))

    values = {
        "gamma": lambda: inner.parameters["gamma"].value,
        "support_values": lambda: signs * bare["support_values"](),
        "bias": bare["bias"],
        "errors": lambda: signs * bare["errors"](),
        "validation_errors": validation_errors,
    }

    def rows(tolerance: float) -> tuple[Row, ...]:
        return (*inner.rows(tolerance), *optimum.rows())

    def record() -> tuple[tuple[str, str], ...]:
        return (*inner.record(), *optimum.facts())

    def units() -> dict[str, float]:
        return {**inner.units(), "validation_errors": float(max(np.abs(target_val).max(), np.abs(target).max()))}

    title = f"Tikhonov fusion, {task}"
    return replace(inner, title=title, values=values, rows=rows, record=record, units=units)


def search(
    K: Any, y: Any, K_val: Any, y_val: Any, gap: float = GAP, task: str = "regression", gamma_range: Any = None
) -> GammaSearch:
    """Return the best gamma, its mean square validation error and the lower bound over the range, without cvxpy.

    :equation [Pelckmans2005]_ (18): level 2, the gamma that validates best
    """
    gram = given_gram(K)
    target, below, target_val = _check_arguments(gram.n, y, K_val, y_val, task)
    return _search(gram, target, below, target_val, positive(gap, "gap"), gamma_range)[1]


def closed_form(
    K: Any, y: Any, K_val: Any, y_val: Any, gap: float = GAP, task: str = "regression", gamma_range: Any = None
) -> dict[str, Array]:
    """Return the optimum of (19): gamma, support values, bias and the errors on both sets, from one
    eigendecomposition.
    """
    gram = own_gram(K)
    target, below, target_val = _check_arguments(gram.n, y, K_val, y_val, task)
    gram.check_definite()  # an indefinite matrix has no w
    spectrum, optimum = _search(gram, target, below, target_val, positive(gap, "gap"), gamma_range)
    lam, t = 1.0 / optimum.gamma, spectrum.targets(target)
    alpha = spectrum.support_values(t, lam)
    b = spectrum.bias(t, alpha)[0, 0]
    a = alpha[:, 0, 0]
    signs, signs_val = signs_of(target, task), signs_of(target_val, task)
    return {
        "gamma": np.asarray(optimum.gamma[0]),
        "support_values": signs * a,
        "bias": np.asarray(b),
        "errors": signs * lam[0] * a,
        "validation_errors": signs_val * (target_val - below @ a - b),
    }


def _search(
    gram: Gram, y: Array, below: Array, target_val: Array, gap: float, gamma_range: Any
) -> tuple[Spectrum, GammaSearch]:
    spectrum = centred_spectrum(gram)
    criterion = ValidationCriterion.of_rows(spectrum, y, below, target_val)
    return spectrum, search_gamma(criterion, gamma_range, gap)


def _check_arguments(n: int, y: Any, K_val: Any, y_val: Any, task: str) -> tuple[Array, Array, Array]:
    """Return the targets, the kernel values of the validation rows with the n training rows, and their targets."""
    target = checked_targets(y, n, task)
    below, target_val = validation_rows(K_val, y_val, n, task)
    if target_val.size == 0:
        raise DataError("the validation set is empty; give at least one validation row")
    return target, below, target_val
