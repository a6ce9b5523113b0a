r"""Least-squares support vector regression with an even or odd function.

.. math::

    \min_{w, b, e} \; \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_i v_i e_i^2 \quad \text{s.t.} \quad
    y_i = w^T \varphi(x_i) + b + e_i, \quad w^T \varphi(x_i) = s\, w^T \varphi(-x_i), \quad i = 1, \dots, N

Symbols: s = 1 for an even function, -1 for an odd one; b bias, not part of the symmetry; :math:`M_{ij} = k(-x_i, x_j)`
the matrix ``K_mirrored``; all others are as in :mod:`problems.ls_svm_regression`.

The multipliers are the support values :math:`\alpha_i = \gamma v_i e_i` and :math:`\beta_i` of the symmetry, so that
:math:`w = \sum_i \alpha_i \varphi(x_i) - \beta_i (\varphi(x_i) - s\, \varphi(-x_i))`; :math:`\beta = \alpha / 2` is
optimal where :math:`k(-x, -z) = k(x, z)`. Then :math:`f(x) = \sum_i \alpha_i k_s(x_i, x) + b` with :math:`k_s(x, z) =
\tfrac12 (k(x, z) + s\, k(-x, z))`, and f - b is even or odd everywhere, not only at the training points.

Closed form: as in :mod:`problems.ls_svm_regression`, with the kernel matrix :math:`(K + s M) / 2`; [Espinoza2005]_.
"""

from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np

from problems import ls_svm_regression
from problems.demonstration import Case, Demonstration
from substrate.arrays import Array
from substrate.certificate import Row
from substrate.declare.declared import Declared, given_gram
from substrate.declare.regression_page import RegressionData, optimality_rows
from substrate.errors import DataError
from substrate.ingredients import regression_fit, squared_errors, squared_norm
from substrate.kernels import RBF, Symmetric
from substrate.operators.gram import Gram
from substrate.robust_weights import check_choice

__all__ = ["DEMONSTRATION", "closed_form", "declare"]


def _build(kernel: Any, X: Array, y: Array) -> dict[str, Any]:
    plain = kernel.kernel if isinstance(kernel, Symmetric) else kernel
    return {"K": plain(X), "K_mirrored": plain(-X, X), "y": y, "symmetry": getattr(kernel, "symmetry", "even")}


DEMONSTRATION = Demonstration(
    "Espinoza2005",
    tuple(
        Case(
            label=s, choice={}, dataset="sinc", kernel=Symmetric(RBF(1.0), s), parameters={"gamma": 20.0}, build=_build
        )
        for s in ("even", "odd")
    ),
)


def declare(K: Any, y: Any, gamma: float, weights: Any = None, *, K_mirrored: Any, symmetry: str) -> Declared:
    """Declare the problem; features of x_i and -x_i come from one factorisation of the kernel on the 2N points.

    :place [Espinoza2005]_ primal problem: LS-SVM regression with the symmetry as constraints
    """
    K, M, s = _check_arguments(K, K_mirrored, symmetry)
    data = RegressionData.of(K, y, gamma, weights)
    R, L = np.split(Gram.from_matrix(np.block([[K, M], [M, K]])).coordinates().factor, 2)
    return _declare(replace(data, R=(R + s * L) / 2.0), R, R - s * L)


def _declare(data: RegressionData, R: Array, D: Array) -> Declared:
    """Declare the problem with the features R of the rows and the symmetry as D w = 0."""
    y = data.y
    # the rows of D depend on each other, or are rounding alone: solvers are given an orthonormal basis of them
    _, lengths, directions = np.linalg.svd(D, full_matrices=False)
    basis = directions[lengths > 1e-10 * np.linalg.norm(R)]
    w, b, e = cp.Variable(R.shape[1], name="w"), cp.Variable(name="b"), cp.Variable(y.size, name="e")
    gamma = cp.Parameter(nonneg=True, name="gamma", value=data.gamma)
    fit, symmetry = regression_fit(y, R @ w + b, e), (basis @ w == 0).set_label("symmetry")
    norm, errors = squared_norm(w, np.vstack([R, basis])), squared_errors(e, gamma, data.v)
    problem = cp.Problem(cp.Minimize(norm.term + errors.term), [fit.constraint, *([symmetry] if basis.size else ())])
    values = {"support_values": lambda: fit.multiplier, "bias": lambda: b.value, "errors": lambda: e.value}

    def rows(tolerance: float) -> tuple[Row, ...]:
        value, size = float(np.linalg.norm(D @ w.value)), float(np.linalg.norm(y) + np.linalg.norm(fit.f.value))
        multipliers = -symmetry.dual_value if basis.size else np.zeros(0)
        return (
            *optimality_rows(fit, norm, errors, tolerance, multipliers),
            Row(name="symmetry", value=value, scale=size, tolerance=tolerance, formula="||D w||"),
        )

    return data.declare("Symmetric LS-SVM", problem, {"gamma": gamma}, values, rows)


def closed_form(K: Any, y: Any, gamma: float, weights: Any = None, *, K_mirrored: Any, symmetry: str) -> dict[str, Any]:
    """Return the same quantities by linear algebra: support values, bias and errors.

    :place [Espinoza2005]_ dual problem: the LS-SVM system with the equivalent kernel (K + s M) / 2
    """
    K, M, s = _check_arguments(K, K_mirrored, symmetry)
    return ls_svm_regression.closed_form((K + s * M) / 2.0, y, gamma, weights)


def _check_arguments(K: Any, K_mirrored: Any, symmetry: str) -> tuple[Array, Array, float]:
    check_choice(symmetry, ("even", "odd"), "symmetry")
    K, M = given_gram(K).matrix, Gram.from_matrix(K_mirrored, "K_mirrored").matrix
    if M.shape != K.shape:
        raise DataError(f"K_mirrored must have the shape of K, {K.shape}; received {M.shape}")
    return K, M, 1.0 if symmetry == "even" else -1.0
