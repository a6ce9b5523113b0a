r"""Kernel principal component analysis as an LS-SVM.

.. math::

    \max_{w, e} \; \tfrac{\gamma}{2} \sum_{i=1}^N v_i e_i^2 - \tfrac12 w^T w
    \quad \text{s.t.} \quad e_i = w^T (\varphi(x_i) - \bar\varphi), \quad i = 1, \dots, N

Symbols: w direction in feature space; e scores of the rows, the projections on it about the mean
:math:`\bar\varphi = \sum_i v_i \varphi(x_i) / \sum_i v_i`; :math:`\gamma` weight of their variance; v weights of the
rows, one unless given; K kernel matrix.

The multipliers of the equalities are :math:`\alpha_i`. The conditions of optimality are :math:`w = \sum_i \alpha_i
(\varphi(x_i) - \bar\varphi)`, :math:`\alpha_i = \gamma v_i e_i` and the equalities. Without w and e they are, with
:math:`P = I - 1 v^T / 1^T v`,

.. math:: V\, P K P^T \alpha = \lambda \alpha, \qquad \lambda = 1/\gamma, \quad V = \operatorname{diag}(v) ,

an eigenproblem: the difference of two squares has a stationary point other than zero for some values of
:math:`\gamma` only, one for each eigenvalue, where its value is zero. The largest eigenvalues are the components. With
:math:`w^T w = 1` the scores are :math:`e(x) = \sum_i \alpha_i k(x_i, x) + b`, :math:`\sum_i \alpha_i = 0`, and
:math:`\sum_i v_i e_i^2 = \lambda`.

Such a problem is not checked by a convex solver. Its closed form is checked by the conditions above, and by a bound on
all other eigenvalues (:func:`substrate.spectral.find_components`), which finds one that was missed or counted twice.
A convex problem is declared too: the sum of the k largest eigenvalues by the relaxation of Ky Fan, which is tight
(:mod:`substrate.declare.ky_fan`).

[Suykens2003]_ section III; weights as in [Alzate2010]_ section 3.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from problems.demonstration import Case, Demonstration, own_matrix
from substrate.arrays import Array, row_weights
from substrate.certificate import Row
from substrate.declare.declared import Declared, given_gram
from substrate.declare.ky_fan import declare_ky_fan
from substrate.errors import DataError
from substrate.kernels import RBF, Kernel, Precomputed
from substrate.spectral import Centred, centre, decompose, find_components

__all__ = ["EIGENPROBLEM", "closed_form", "conditions", "declare"]


def _with_weights(kernel: Kernel, X: Array, y: Array) -> dict[str, Any]:
    """Return the kernel matrix, and weights that count every other row three times."""
    return own_matrix(kernel, X, y) | {"weights": np.resize([1.0, 3.0], X.shape[0])}


EIGENPROBLEM = Demonstration(
    equations="Suykens2003 section III",
    cases=(
        Case(
            label="components",
            dataset="motorcycle",
            kernel=RBF(10.0),
            parameters={"n_components": 3},
            every=5,
            build=own_matrix,
        ),
        Case(
            label="weighted rows",
            dataset="motorcycle",
            kernel=RBF(10.0),
            parameters={"n_components": 2},
            every=5,
            build=_with_weights,
        ),
    ),
)


def declare(K: Any, n_components: int, weights: Any = None) -> Declared:
    """Declare the relaxation of Ky Fan for the variance of the leading components."""
    centred = _centre(K, n_components, weights)
    return declare_ky_fan("Kernel PCA (relaxation of Ky Fan)", centred.matrix, n_components, given_gram(K).record())


def closed_form(K: Any, n_components: int, weights: Any = None) -> dict[str, Array]:
    """Return eigenvalues, support values with w'w = 1, biases, scores, and the value and solution of the relaxation.

    :place [Suykens2003]_ dual problem: the eigenproblem of the centred kernel matrix
    """
    centred = _centre(K, n_components, weights)
    pairs = decompose(centred.matrix, centred.error, n_components)
    values, U = pairs.values[:n_components], pairs.vectors[:, :n_components]
    alpha = centred.root[:, None] * U / np.sqrt(values)
    bias = centred.biases(alpha)
    return {
        "eigenvalues": values,
        "support_values": alpha,
        "bias": bias,
        "errors": np.asarray(given_gram(K).matrix) @ alpha + bias,
        "variance": np.asarray(values.sum()),
        "projector": U @ U.T,
    }


def conditions(solution: Mapping[str, Array], K: Any, n_components: int, weights: Any = None) -> tuple[Row, ...]:
    """Return the conditions of optimality, from plain numbers, and the bound on all other eigenvalues.

    :place [Suykens2003]_ conditions of optimality: alpha = gamma v e, the equalities, and the sum of alpha
    """
    centred = _centre(K, n_components, weights)
    alpha, errors, values = (np.asarray(solution[name]) for name in ("support_values", "errors", "eigenvalues"))
    tolerance = 1e-9
    scores = np.asarray(given_gram(K).matrix) @ alpha + np.asarray(solution["bias"])
    size, weighed = float(np.abs(errors).max()), np.square(centred.root)[:, None] * errors
    stored = values, alpha * np.sqrt(values) / centred.root[:, None]
    bounds = find_components(centred.matrix, centred.error, n_components, stored=stored)

    def row(name: str, value: float, scale: float, formula: str) -> Row:
        return Row(name=name, value=value, scale=scale, tolerance=tolerance, formula=formula)

    return (
        row("equalities", float(np.abs(scores - errors).max()), size, "|K alpha + b - e|"),
        row(
            "multipliers",
            float(np.abs(values * alpha - weighed).max()),
            float(np.abs(weighed).max()),
            "|lambda alpha - v e|",
        ),
        row("sum", float(np.abs(alpha.sum(axis=0)).max()), float(np.abs(alpha).sum()), "|1'alpha|"),
        row("unit directions", float(np.abs(np.sum(alpha * errors, axis=0) - 1.0).max()), 1.0, "|w'w - 1|"),
        row("residual", bounds.residual, float(np.abs(values).max()), "||AU - U Theta||, with rounding"),
        row("leading eigenvalues", bounds.radius, float(np.abs(values).max()), "distance from the leading ones of A"),
    )


def _centre(K: Any, n_components: int, weights: Any) -> Centred:
    matrix = np.asarray(given_gram(K).matrix)
    n = matrix.shape[0]
    if not 1 <= n_components < n:
        raise DataError(f"n_components must be from 1 to {n - 1} for {n} rows, received {n_components!r}")
    return centre(Precomputed(), matrix, None if weights is None else row_weights(weights, n))
