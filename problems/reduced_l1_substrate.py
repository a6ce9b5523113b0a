r"""The L1 substrate on a reduced basis: few candidate vectors, the errors of all points, and the 1-norm between them.

.. math::

    \min_{\beta, b, e} \; \tfrac12 \|e\|_2^2 + \zeta \|\beta\|_1
    \quad \text{s.t.} \quad y_i = \sum_{j \in S} \beta_j k(x_i, x_j) + b + e_i, \quad i = 1, \dots, l

Symbols: S the basis, n of the l points; :math:`\beta` its coefficients; b bias; e errors; :math:`\zeta` weight. On the
full basis this is [Pelckmans2005]_ eq. (16) without :math:`1^T \alpha = 0`: there :math:`\alpha` are multipliers of
equalities that contain b, here :math:`\beta` are coefficients of an expansion ([Cawley2004]_ eq. (2)) and need
not sum to zero. It is a lasso with a free bias on n columns of kernel values.

The predictor is :math:`f(x) = \sum_{j} \beta_j k(x_j, x) + b` over the vectors with :math:`\beta_j \ne 0`. At
:math:`\zeta \ge \zeta_{max} = \max_j |\sum_i k(x_i, x_j) (y_i - \bar y)|` all are zero.

S is given, or chosen by :func:`~substrate.operators.basis_choice.select_feature_vectors`.

Fast path: the exact path in zeta (:func:`substrate.fits.l1.solve_l1`).
"""

from typing import Any

import numpy as np

from problems.demonstration import Case, Demonstration
from substrate.arrays import Array, positive, real_targets
from substrate.declare.declared import Declared, given_gram, own_gram
from substrate.declare.expansion import basis_points, sparse_expansion
from substrate.fits.l1 import solve_l1
from substrate.kernels import RBF

__all__ = ["DEMONSTRATION", "closed_form", "declare"]

_CHOSEN = {"zeta": 20.0, "n_basis": 0.1}
DEMONSTRATION = Demonstration(
    equations="Pelckmans2005 (16) on Cawley2004 (2)",
    cases=(
        Case(
            label="regression",
            choice={},
            dataset="boston",
            kernel=RBF(sigma=4.0),
            parameters=_CHOSEN,
            every=4,
            standardize=True,
        ),
    ),
)


def declare(K: Any, y: Any, zeta: float, n_basis: float = 0.5, basis: Any = None) -> Declared:
    """Declare the problem on a kernel matrix (or a Gram) of all points; ``basis`` names the vectors S itself."""
    gram = given_gram(K)
    target, weight = real_targets(y, gram.n), positive(zeta, "zeta")
    S = basis_points(gram, n_basis, basis)
    gram.coordinates()  # refuses a matrix that is not positive semi-definite
    level = sparse_expansion(np.array(gram.matrix[:, S]), target, weight, "zeta", balanced=False)
    values = {"coefficients": lambda: level.a.value, "bias": lambda: level.b.value, "errors": lambda: level.e.value}

    def record() -> tuple[tuple[str, str], ...]:
        return (*gram.record(), ("basis", f"{S.size} of {gram.n} points"))

    return level.declare("L1 substrate on a reduced basis", values, record)


def closed_form(K: Any, y: Any, zeta: float, n_basis: float = 0.5, basis: Any = None) -> dict[str, Array]:
    """Return the same quantities by the path in zeta."""
    gram = own_gram(K)
    target, weight = real_targets(y, gram.n), positive(zeta, "zeta")
    S = basis_points(gram, n_basis, basis)
    gram.check_definite()  # convex for any matrix, but then without a w
    Phi = np.ascontiguousarray(gram.matrix[:, S])
    solved = solve_l1(Phi, target, weight, zero_sum=False)
    e = target - Phi @ solved.coefficients - solved.bias
    return {"coefficients": solved.coefficients, "bias": np.asarray(solved.bias), "errors": e}
