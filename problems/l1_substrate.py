r"""The sparse LS-SVM substrate: the 1-norm of the support values as second level.

.. math::

    \min_{e, \alpha, b, c} \; \tfrac12 \|e\|_2^2 + \zeta \|\alpha\|_1 + \tfrac{\tau}{2} w^T w
    \quad \text{s.t.} \quad
    \begin{cases} y = \Omega \alpha + b 1 + e, \quad 1^T \alpha = 0, \\ e = \alpha + c \end{cases}

Symbols: :math:`\alpha` support values, whose 1-norm bounds the sensitivity of the solution to c (eq. (15)); b bias; e
errors; c additive regularization constants, free and so determined by :math:`c = e - \alpha`; :math:`\Omega` kernel
matrix; :math:`\zeta` weight; :math:`\tau` the ``ridge``, 0 in the paper, the weight of
:math:`w^T w = \alpha^T \Omega \alpha`. In classification :math:`e = 1 - y \circ f` and
:math:`f = \Omega (y \circ \alpha) + b`.

The predictor is :math:`f(x) = \sum_i \alpha_i k(x_i, x) + b` over the rows with :math:`\alpha_i \ne 0`. At
:math:`\zeta \ge \zeta_{max} = (\max_i c^0_i - \min_i c^0_i)/2` with :math:`c^0 = \Omega^T (y - \bar y)` all are zero,
whatever the ridge.

The ridge is not in the paper. It is the norm of the LS-SVM, not the norm of :math:`\alpha`: with :math:`\zeta \to 0`
the machine is the LS-SVM of :math:`\gamma = 1/\tau`, with :math:`\tau = 0` the sparse substrate, and a pair of both is
a machine with few support vectors and small weights. Stationarity is
:math:`|\Omega (e - \tau \alpha) - \nu| \le \zeta`, with equality where :math:`\alpha_i \ne 0`.

Fast path: :func:`substrate.fits.l1.solve_l1`, whose zeros are exact.

[Pelckmans2005]_ eq. (16), and (9)-(10) for the constraints. Errata: (16) has :math:`\|e\|^2` without the half that (24)
has, so its zeta is twice ours; e^v is listed among its variables but does not occur.
"""

from typing import Any

import numpy as np

from problems.demonstration import Case, Demonstration
from substrate.arrays import Array, non_negative, positive
from substrate.declare.declared import Declared, given_gram, own_gram
from substrate.declare.expansion import checked_targets, in_paper_signs, sparse_expansion
from substrate.fits.l1 import solve_l1, zeta_max
from substrate.kernels import RBF

__all__ = ["DEMONSTRATION", "closed_form", "declare", "zeta_max"]

DEMONSTRATION = Demonstration(
    equations="Pelckmans2005 (9)-(10), (16)",
    cases=(
        Case(
            label="regression",
            choice={"task": "regression"},
            dataset="boston",
            kernel=RBF(sigma=4.0),
            parameters={"zeta": 20.0},
            every=4,
            standardize=True,
        ),
        Case(
            label="with a ridge",
            choice={},
            dataset="boston",
            kernel=RBF(sigma=4.0),
            parameters={"zeta": 20.0, "ridge": 0.5},
            every=4,
            standardize=True,
        ),
        Case(
            label="classification",
            choice={"task": "classification"},
            dataset="ripley",
            kernel=RBF(sigma=0.5),
            parameters={"zeta": 2.0},
            every=3,
        ),
    ),
)


_WHY = "as the weight of a squared norm"


def declare(K: Any, y: Any, zeta: float, task: str = "regression", ridge: float = 0.0) -> Declared:
    """Declare the problem on a kernel matrix (or a Gram) and targets or labels -1, +1; ``zeta`` is its parameter.

    A ``ridge`` above zero is a parameter too.

    :equation [Pelckmans2005]_ (16): the sparse substrate
    """
    gram = given_gram(K)
    target = checked_targets(y, gram.n, task)
    gram.coordinates()  # refuses a matrix that is not positive semi-definite
    weight, tau = positive(zeta, "zeta"), non_negative(ridge, "ridge", _WHY)
    level = sparse_expansion(np.array(gram.matrix), target, weight, "zeta", ridge=tau)
    values = in_paper_signs(target, task, lambda: level.a.value, lambda: level.b.value, lambda: level.e.value)
    return level.declare(f"L1 substrate, {task}", values, gram.record)


def closed_form(K: Any, y: Any, zeta: float, task: str = "regression", ridge: float = 0.0) -> dict[str, Array]:
    """Return the same quantities by the exact path in zeta."""
    gram = own_gram(K)
    target = checked_targets(y, gram.n, task)
    gram.check_definite()  # convex for any matrix, but then without a w
    Phi = np.array(gram.matrix)
    solved = solve_l1(Phi, target, positive(zeta, "zeta"), ridge=non_negative(ridge, "ridge", _WHY))
    e = target - Phi @ solved.coefficients - solved.bias
    readings = in_paper_signs(target, task, lambda: solved.coefficients, lambda: solved.bias, lambda: e)
    return {name: np.asarray(read()) for name, read in readings.items()}
