r"""Fusion of training and validation by least squares: the plainest way to choose the regularization constants c.

.. math::

    \min_{\alpha, b, c, e, e^v} \; \|e\|_2^2 + \|e^v\|_2^2 \quad \text{s.t.} \quad
    \begin{cases} y = \Omega \alpha + b 1_N + e, \quad 1_N^T \alpha = 0, \quad e = \alpha + c, \\
    y^v = \Omega^v \alpha + b 1_n + e^v \end{cases}

Symbols: :math:`\Omega` kernel matrix of the N training points; :math:`\Omega^v` kernel values of the n validation
points against them, :math:`n \times N`; e and :math:`e^v` errors on both; :math:`\alpha` support values; b bias; c
additive regularization constants. In classification errors are :math:`1 - y \circ f` and the coefficients
:math:`y \circ \alpha`.

Nothing penalises :math:`\alpha`: with N unknowns and N + n equations the machine fits its validation points as closely
as its training points, and over-fits them when N exceeds n (section 4.2), for which a warning is issued. Directions in
which the stacked kernel values are below ``cutoff`` times the largest are left out; the errors are unique,
:math:`\alpha` and b only where the stacked matrix has full rank.

Closed form: :func:`substrate.fits.stacked_least_squares.solve_stacked`.

[Pelckmans2005]_ eq. (20)-(22). Erratum: the lower block of (22) prints :math:`1_N` where :math:`1_n` is meant.
"""

import warnings
from typing import Any

import cvxpy as cp
import numpy as np

from problems.demonstration import Case, Demonstration, half_validates
from substrate.arrays import Array
from substrate.certificate import UNPOLISHED, Accuracy, Row, Tolerance
from substrate.declare.declared import Declared, given_gram, own_gram
from substrate.declare.expansion import checked_targets, signs_of, validation_rows
from substrate.declare.regression_page import within_solvers
from substrate.errors import OverfittingWarning
from substrate.fits.stacked_least_squares import (
    CUTOFF,
    StackedBasis,
    solve_stacked,
    stacked_accuracy,
    stacked_rows,
)
from substrate.ingredients import RegressionFit, regression_fit
from substrate.kernels import RBF

__all__ = ["DEMONSTRATION", "closed_form", "declare", "warn_of_overfitting"]

DEMONSTRATION = Demonstration(
    equations="Pelckmans2005 (20)-(22)",
    cases=(
        Case(
            label="regression",
            choice={"task": "regression"},
            dataset="motorcycle",
            kernel=RBF(sigma=10.0),
            parameters={},
            build=half_validates,
        ),
        Case(
            label="classification",
            choice={"task": "classification"},
            dataset="ripley",
            kernel=RBF(sigma=0.5),
            parameters={},
            every=2,
            build=half_validates,
        ),
    ),
)


def declare(K: Any, y: Any, K_val: Any, y_val: Any, task: str = "regression", cutoff: float = CUTOFF) -> Declared:
    """Declare the problem, in orthonormal coordinates z of the stacked kernel values of all rows.

    :equation [Pelckmans2005]_ (20)-(21): the fused system, and fusion by least squares
    """
    gram = given_gram(K)
    target, below, target_val = _check_arguments(gram.n, y, K_val, y_val, task)
    gram.coordinates()  # refuses a matrix that is not positive semi-definite
    warn_of_overfitting(target.size, target_val.size)
    basis = StackedBasis.of(np.vstack([gram.matrix, below]), cutoff)
    both_targets = within_solvers(np.append(target, target_val))
    problem, fit, e = _problem(basis, both_targets)

    def rows(tolerance: float) -> tuple[Row, ...]:
        return (fit.row(tolerance), *stacked_rows(basis, both_targets, e.value, tolerance))

    def record() -> tuple[tuple[str, str], ...]:
        return (*gram.record(), ("coordinates", f"stacked rows, {basis.rank} kept at cut-off {cutoff:.1e}"))

    signs = np.append(signs_of(target, task), signs_of(target_val, task))
    values = {
        "errors": lambda: (signs * e.value)[: target.size],
        "validation_errors": lambda: (signs * e.value)[target.size :],
    }

    def accuracy() -> Accuracy:
        tolerance = Tolerance.of_page(both_targets, np.ones(both_targets.size), UNPOLISHED)
        return stacked_accuracy(basis.values, both_targets, both_targets - e.value, tolerance)

    title = f"Fused least squares, {task}"
    return Declared(
        title=title,
        problem=problem,
        parameters={},
        values=values,
        rows=rows,
        record=record,
        unit=lambda: float(np.linalg.norm(both_targets)) or 1.0,
        accuracy=accuracy,
    )


def _problem(basis: StackedBasis, both_targets: Array) -> tuple[Any, RegressionFit, Any]:
    z, b, e = cp.Variable(basis.rank, name="z"), cp.Variable(name="b"), cp.Variable(both_targets.size, name="e")
    fit = regression_fit(both_targets, basis.values @ z + b, e)
    return cp.Problem(cp.Minimize(cp.sum_squares(e)), [fit.constraint]), fit, e


def closed_form(
    K: Any, y: Any, K_val: Any, y_val: Any, task: str = "regression", cutoff: float = CUTOFF
) -> dict[str, Array]:
    """Return the errors on both sets, which are unique, and shortest coefficients, by a singular value decomposition.

    Predictions are kernel values with the training points times ``support_values``, in regression's sign, plus
    ``bias``.
    """
    gram = own_gram(K)
    target, below, target_val = _check_arguments(gram.n, y, K_val, y_val, task)
    gram.check_definite()  # convex for any matrix, but then without a w
    a, b, e = solve_stacked(np.vstack([gram.matrix, below]), np.append(target, target_val), cutoff)
    errors = np.append(signs_of(target, task), signs_of(target_val, task)) * e
    return {
        "errors": errors[: target.size],
        "validation_errors": errors[target.size :],
        "support_values": a,
        "bias": np.asarray(b),
    }


def warn_of_overfitting(n_training: int, n_validation: int) -> None:
    """Warn, as section 4.2 does, when there are more training than validation points."""
    if n_training > n_validation:
        warnings.warn(
            f"{n_training} training points are fused with only {n_validation} validation points, and nothing penalises "
            "alpha: expect over-fitting of the validation points; use more of them, or penalized_fusion",
            OverfittingWarning,
            stacklevel=3,
        )


def _check_arguments(n: int, y: Any, K_val: Any, y_val: Any, task: str) -> tuple[Array, Array, Array]:
    """Return the targets, the kernel values of the validation rows with the n training rows, and their targets."""
    target = checked_targets(y, n, task)
    below, target_val = validation_rows(K_val, y_val, n, task)
    return target, below, target_val
