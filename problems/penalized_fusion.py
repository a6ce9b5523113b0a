r"""Fusion of training and validation with a penalty on the support values.

.. math::

    \min_{\alpha, b, c, e, e^v} \; \tfrac12 \|e\|_2^2 + \tfrac12 \|e^v\|_2^2 + \xi \|\alpha\|_1 \quad \text{s.t.} \quad
    \begin{cases} y = \Omega \alpha + b 1_N + e, \quad 1_N^T \alpha = 0, \quad e = \alpha + c, \\
    y^v = \Omega^v \alpha + b 1_n + e^v \end{cases}

Symbols: :math:`\Omega` kernel matrix of the N training points; :math:`\Omega^v` kernel values of the n validation
points against them, :math:`n \times N`; e and :math:`e^v` errors on both; :math:`\alpha` support values; b bias; c
additive regularization constants; :math:`\xi` weight. In classification errors are :math:`1 - y \circ f` and the
coefficients :math:`y \circ \alpha`.

The validation rows are fitted here, so they cannot tune :math:`\xi`: that requires further rows.

Fast path: :func:`substrate.fits.l1.solve_l1` on the stacked rows.

[Pelckmans2005]_ eq. (20), (23). Errata: :math:`\Omega^v` is n x N here and N x n in (3); (23) has no halves, so its xi
is twice ours.
"""

from typing import Any

import numpy as np

from problems.demonstration import Case, Demonstration, half_validates
from substrate.arrays import Array, positive
from substrate.declare.declared import Declared, given_gram, own_gram
from substrate.declare.expansion import checked_targets, in_paper_signs, sparse_expansion, validation_rows
from substrate.fits.l1 import solve_l1
from substrate.kernels import RBF

__all__ = ["DEMONSTRATION", "closed_form", "declare"]

_TASKS, _KERNELS = ({"task": "regression"}, {"task": "classification"}), (RBF(sigma=4.0), RBF(sigma=0.5))
DEMONSTRATION = Demonstration(
    equations="Pelckmans2005 (20), (23)",
    cases=(
        Case(
            label="regression",
            choice=_TASKS[0],
            dataset="boston",
            kernel=_KERNELS[0],
            parameters={"xi": 20.0},
            every=3,
            standardize=True,
            build=half_validates,
        ),
        Case(
            label="classification",
            choice=_TASKS[1],
            dataset="ripley",
            kernel=_KERNELS[1],
            parameters={"xi": 2.0},
            every=2,
            build=half_validates,
        ),
    ),
)


def declare(K: Any, y: Any, K_val: Any, y_val: Any, xi: float, task: str = "regression") -> Declared:
    """Declare the problem on the kernel matrix, the rows of the validation points, and both targets.

    :equation [Pelckmans2005]_ (23): fusion with a penalty on the support values
    """
    gram = given_gram(K)
    target = checked_targets(y, gram.n, task)
    below, target_val = validation_rows(K_val, y_val, gram.n, task)
    gram.coordinates()  # refuses a matrix that is not positive semi-definite
    stacked, both_targets = np.vstack([gram.matrix, below]), np.append(target, target_val)
    level = sparse_expansion(stacked, both_targets, positive(xi, "xi"), "xi")
    read = (lambda: level.a.value, lambda: level.b.value, lambda: level.e.value)
    values = in_paper_signs(target, task, *read, y_val=target_val)
    return level.declare(f"Penalized fusion, {task}", values, gram.record)


def closed_form(K: Any, y: Any, K_val: Any, y_val: Any, xi: float, task: str = "regression") -> dict[str, Array]:
    """Return the same quantities by the active set."""
    gram = own_gram(K)
    target = checked_targets(y, gram.n, task)
    below, target_val = validation_rows(K_val, y_val, gram.n, task)
    gram.check_definite()  # convex for any matrix, but then without a w
    stacked, both_targets = np.vstack([gram.matrix, below]), np.append(target, target_val)
    solved = solve_l1(stacked, both_targets, positive(xi, "xi"))
    e = both_targets - stacked @ solved.coefficients - solved.bias
    read = (lambda: solved.coefficients, lambda: solved.bias, lambda: e)
    readings = in_paper_signs(target, task, *read, y_val=target_val)
    return {name: np.asarray(read()) for name, read in readings.items()}
