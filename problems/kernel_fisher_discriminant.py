r"""The kernel Fisher discriminant of several classes as kernel CCA with the classes as the second view.

.. math::

    \max_{w, v, e, r} \; \gamma \sum_{i=1}^N e_i r_i - \tfrac{\nu}{2} \sum_i e_i^2 - \tfrac12 w^T w - \tfrac12 v^T v
    \quad \text{s.t.} \quad e_i = w^T (\varphi(x_i) - \bar\varphi), \; r_i = v^T (z_i - \bar z)

Symbols: as in :mod:`problems.kernel_cca`; :math:`z_i` the code of the class c of row i, :math:`N_c^{-1/2}` at position
c and zeros elsewhere, with :math:`N_c` rows in the class.

The kernel matrix of these codes is the projection :math:`\Pi` on vectors that are constant over classes, and the
conditions of optimality of :mod:`problems.kernel_cca` with :math:`\nu_2 = 0` become, with :math:`K_2 = \Pi - 1 1^T/N`,

.. math:: K_1 K_2 K_1 \alpha = \sigma^2 (I + \nu K_1) K_1 \alpha :

the variance of the class means of the scores, as a share of the variance of all scores with the norm of w as
regularisation, is the quantity that the leading directions maximise; c classes have c - 1 of them. Checks, closed form
and relaxation are as in :mod:`problems.kernel_cca`. [Mika1999b]_.
"""

from typing import Any

import numpy as np

from problems import kernel_cca
from problems.demonstration import Case, Demonstration
from problems.kernel_cca import conditions, declare
from substrate.arrays import Array
from substrate.kernels import RBF, Kernel, Linear
from substrate.spectral import class_codes

__all__ = ["EIGENPROBLEM", "closed_form", "conditions", "declare"]


def _with_codes(kernel: Kernel, X: Array, y: Array) -> dict[str, Any]:
    """Take the inputs as one view and three ranges of the target as classes."""
    classes = np.digitize(y, np.quantile(y, [1.0 / 3.0, 2.0 / 3.0]))
    return {"K": kernel(X), "X": X, "Y": class_codes(classes), "kernels": (kernel, Linear())}


EIGENPROBLEM = Demonstration(
    equations="Mika1999b, by Suykens2002b chapter 8",
    cases=(
        Case(
            label="three classes",
            dataset="motorcycle",
            kernel=RBF(10.0),
            parameters={"n_components": 2, "nu": (0.5, 0.0)},
            every=8,
            build=_with_codes,
        ),
    ),
)


def closed_form(X: Any, Y: Any, kernels: Any, n_components: int, nu: Any, K: Any = None) -> dict[str, Array]:
    """Return singular values, support values and biases of rows and codes, and the value of the relaxation.

    :place [Mika1999b]_ Fisher criterion: the variance of class means against the variance of all scores, regularised
    """
    return kernel_cca.closed_form(X, Y, kernels, n_components, nu)
