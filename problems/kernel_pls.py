r"""Kernel partial least squares of two views as an LS-SVM: directions whose scores have the largest covariance.

.. math::

    \max_{w, v, e, r} \; \gamma \sum_{i=1}^N e_i r_i - \tfrac12 w^T w - \tfrac12 v^T v
    \quad \text{s.t.} \quad e_i = w^T (\varphi_1(x_i) - \bar\varphi_1), \;
    r_i = v^T (\varphi_2(z_i) - \bar\varphi_2)

Symbols: as in :mod:`problems.kernel_cca`; this is its case without weights of the variances,
:math:`\nu_1 = \nu_2 = 0`.

The conditions of optimality are :math:`\alpha_i = \gamma r_i` and :math:`\beta_i = \gamma e_i`, and, with centred
kernel matrices and :math:`\sigma = 1/\gamma`,

.. math:: K_2 \beta = \sigma \alpha, \qquad K_1 \alpha = \sigma \beta .

All components come from one decomposition; nothing is deflated between them. Checks, closed form and relaxation are as
in :mod:`problems.kernel_cca`. [Suykens2002b]_ chapter 8.
"""

from collections.abc import Mapping
from typing import Any

from problems import kernel_cca
from problems.demonstration import Case, Demonstration
from substrate.arrays import Array
from substrate.certificate import Row
from substrate.declare.declared import Declared
from substrate.kernels import RBF

__all__ = ["EIGENPROBLEM", "closed_form", "conditions", "declare"]

EIGENPROBLEM = Demonstration(
    equations="Suykens2002b chapter 8",
    cases=(
        Case(
            label="two views",
            dataset="motorcycle",
            kernel=RBF(10.0),
            parameters={"n_components": 2},
            every=8,
            build=kernel_cca.two_columns,
        ),
    ),
)


def declare(X: Any, Y: Any, kernels: Any, n_components: int, K: Any = None) -> Declared:
    """Declare the relaxation of Ky Fan for the sum of the leading covariances."""
    return kernel_cca.declare(X, Y, kernels, n_components, (0.0, 0.0))


def closed_form(X: Any, Y: Any, kernels: Any, n_components: int, K: Any = None) -> dict[str, Array]:
    """Return singular values, support values and biases of both views, and the value of the relaxation.

    :place [Suykens2002b]_ kernel PLS: the eigenproblem of two views without weights of the variances
    """
    return kernel_cca.closed_form(X, Y, kernels, n_components, (0.0, 0.0))


def conditions(
    solution: Mapping[str, Array], X: Any, Y: Any, kernels: Any, n_components: int, K: Any = None
) -> tuple[Row, ...]:
    """Return the conditions of optimality, from plain numbers, and the bound on the singular values."""
    return kernel_cca.conditions(solution, X, Y, kernels, n_components, (0.0, 0.0))
