r"""Kernel spectral clustering as a weighted LS-SVM.

.. math::

    \min_{w, b, e} \; \tfrac12 \sum_{l=1}^{k-1} w_l^T w_l - \tfrac{1}{2N} \sum_{l=1}^{k-1} \gamma_l\, e_l^T D^{-1} e_l
    \quad \text{s.t.} \quad e_l = \Phi w_l + b_l 1, \quad l = 1, \dots, k - 1

Symbols: k number of clusters; :math:`w_l`, :math:`b_l` and :math:`e_l` direction, bias and scores of component l;
:math:`\Phi` features of the rows; D diagonal matrix of the degrees :math:`d_i = \sum_j k(x_i, x_j)`; :math:`\gamma_l`
weights, positive.

The multipliers of the equalities are :math:`\alpha_l`. The conditions of optimality are :math:`w_l = \Phi^T \alpha_l`,
:math:`N \alpha_l = \gamma_l D^{-1} e_l` and :math:`1^T \alpha_l = 0`; without w, b and e they are

.. math:: D^{-1} M_D K \alpha_l = \lambda_l \alpha_l, \qquad \lambda_l = N / \gamma_l, \quad
          M_D = I - \frac{1 1^T D^{-1}}{1^T D^{-1} 1} .

It is the problem of :mod:`problems.kernel_pca` with the weights :math:`v_i = 1/d_i`, and not convex for the same
reason: it is checked by its conditions, a bound on all other eigenvalues, and the relaxation of Ky Fan. Scores of new
rows are :math:`e_l(x) = \sum_i \alpha_{il} k(x_i, x) + b_l`, and their signs are codes of clusters
(:class:`substrate.spectral.CodeBook`). [Alzate2010]_ sections 3 and 4.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from problems import kernel_pca
from problems.demonstration import Case, Demonstration, own_matrix
from substrate.arrays import Array
from substrate.certificate import Row
from substrate.declare.declared import Declared, given_gram
from substrate.kernels import RBF
from substrate.spectral import CodeBook, check_degrees

__all__ = ["EIGENPROBLEM", "closed_form", "conditions", "declare"]

EIGENPROBLEM = Demonstration(
    equations="Alzate2010 sections 3 and 4",
    cases=(
        Case(
            label="three clusters",
            dataset="ripley",
            kernel=RBF(0.5),
            parameters={"n_clusters": 3},
            every=9,
            build=own_matrix,
        ),
    ),
)


def declare(K: Any, n_clusters: int) -> Declared:
    """Declare the relaxation of Ky Fan with the inverse degrees as weights."""
    return kernel_pca.declare(K, n_clusters - 1, _weights(K))


def closed_form(K: Any, n_clusters: int) -> dict[str, Array]:
    """Return eigenvalues, support values, biases, scores, cluster numbers, and the solution of the relaxation.

    :place [Alzate2010]_ dual problem: the eigenproblem with inverse degrees as weights
    """
    solution = kernel_pca.closed_form(K, n_clusters - 1, _weights(K))
    return {**solution, "labels": CodeBook.of(solution["errors"], n_clusters).assign(solution["errors"])}


def conditions(solution: Mapping[str, Array], K: Any, n_clusters: int) -> tuple[Row, ...]:
    """Return the conditions of optimality and the bound on larger eigenvalues, as of weighted components."""
    return kernel_pca.conditions(solution, K, n_clusters - 1, _weights(K))


def _weights(K: Any) -> Array:
    matrix = np.asarray(given_gram(K).matrix)
    return check_degrees(matrix.sum(axis=1))
