r"""Kernel canonical correlation analysis of two views as an LS-SVM.

.. math::

    \max_{w, v, e, r} \; \gamma \sum_{i=1}^N e_i r_i - \tfrac{\nu_1}{2} \sum_i e_i^2 - \tfrac{\nu_2}{2} \sum_i r_i^2
    - \tfrac12 w^T w - \tfrac12 v^T v
    \quad \text{s.t.} \quad e_i = w^T (\varphi_1(x_i) - \bar\varphi_1), \;
    r_i = v^T (\varphi_2(z_i) - \bar\varphi_2)

Symbols: x and z two views of the same rows; w and v directions in their feature spaces; e and r scores; :math:`\gamma`
weight of their covariance; :math:`\nu_1, \nu_2` weights of their variances, which regularise: the larger they are
compared with one, the nearer the scores are to the scores of largest correlation, and at zero their covariance is the
largest (:mod:`problems.kernel_pls`).

The multipliers of the equalities are :math:`\alpha` and :math:`\beta`. The conditions of optimality are
:math:`w = \sum_i \alpha_i (\varphi_1(x_i) - \bar\varphi_1)`, :math:`\alpha_i = \gamma r_i - \nu_1 e_i`, and the same
with the views exchanged. With centred kernel matrices and :math:`\sigma = 1/\gamma` they are the eigenproblem

.. math::

    \begin{bmatrix} 0 & K_2 \\ K_1 & 0 \end{bmatrix} \begin{bmatrix} \alpha \\ \beta \end{bmatrix} = \sigma
    \begin{bmatrix} I + \nu_1 K_1 & 0 \\ 0 & I + \nu_2 K_2 \end{bmatrix}
    \begin{bmatrix} \alpha \\ \beta \end{bmatrix} .

It is not convex, and not checked by a convex solver. Its closed form, :func:`substrate.spectral.find_pairs`,
is checked by the conditions above, and by a bound on all singular values at once, which leaves none out. Their sum is
the sum of the leading eigenvalues of the symmetric matrix with the blocks 0, T, :math:`T^T` and 0, which is declared by
the relaxation of Ky Fan. [Suykens2002b]_ chapter 8.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from problems.demonstration import Case, Demonstration
from substrate.arrays import Array, non_negative
from substrate.certificate import Row
from substrate.declare.declared import Declared
from substrate.declare.ky_fan import declare_ky_fan
from substrate.errors import DataError
from substrate.kernels import RBF, Kernel
from substrate.spectral import View, find_pairs, optimality_rows, view_of

__all__ = ["EIGENPROBLEM", "closed_form", "conditions", "declare", "two_columns"]


def two_columns(kernel: Kernel, X: Array, y: Array) -> dict[str, Any]:
    """Take the inputs as one view and the target as another: points, and kernels of both."""
    second = ((y - y.mean()) / y.std())[:, None]
    return {"K": kernel(X), "X": X, "Y": second, "kernels": (kernel, RBF(1.0))}


EIGENPROBLEM = Demonstration(
    equations="Suykens2002b chapter 8",
    cases=(
        Case(
            label="two views",
            dataset="motorcycle",
            kernel=RBF(10.0),
            parameters={"n_components": 2, "nu": (0.5, 0.1)},
            every=8,
            build=two_columns,
        ),
    ),
)


def declare(X: Any, Y: Any, kernels: Any, n_components: int, nu: Any, K: Any = None) -> Declared:
    """Declare the relaxation of Ky Fan for the sum of the leading singular values."""
    first, second = _views(X, Y, kernels, n_components)
    T = first.factor(nu[0]).T @ second.factor(nu[1])
    dilation = np.block([[np.zeros((T.shape[0],) * 2), T], [T.T, np.zeros((T.shape[1],) * 2)]])
    return declare_ky_fan("Kernel CCA (relaxation of Ky Fan)", dilation, n_components)


def closed_form(X: Any, Y: Any, kernels: Any, n_components: int, nu: Any, K: Any = None) -> dict[str, Array]:
    """Return singular values, support values and scores of both views, and the value of the relaxation."""
    first, second = _views(X, Y, kernels, n_components)
    nus = (non_negative(nu[0], "nu", "as a weight"), non_negative(nu[1], "nu", "as a weight"))
    pairs = find_pairs(first, second, nus, n_components)
    return {
        "singular_values": pairs.values,
        "support_values": pairs.alpha,
        "support_values_of_second": pairs.beta,
        "bias": pairs.alpha_bias,
        "bias_of_second": pairs.beta_bias,
        "variance": np.asarray(pairs.values.sum()),
    }


def conditions(
    solution: Mapping[str, Array], X: Any, Y: Any, kernels: Any, n_components: int, nu: Any, K: Any = None
) -> tuple[Row, ...]:
    """Return the conditions of optimality, from plain numbers, and the bound on the singular values."""
    first, second = _views(X, Y, kernels, n_components)
    again = find_pairs(first, second, (float(nu[0]), float(nu[1])), n_components)
    pairs = replace(
        again,
        values=np.asarray(solution["singular_values"]),
        alpha=np.asarray(solution["support_values"]),
        beta=np.asarray(solution["support_values_of_second"]),
    )
    off = float(np.abs(again.values - pairs.values).max())
    row = Row(
        name="leading",
        value=off + again.radius,
        scale=float(again.values[0]),
        tolerance=1e-7,
        formula="|s - leading singular values|, with their radius",
    )
    return (*optimality_rows(first, second, (float(nu[0]), float(nu[1])), pairs, 1e-7), row)


def _views(X: Any, Y: Any, kernels: Any, n_components: int) -> tuple[View, View]:
    first, second = view_of(kernels[0], np.asarray(X)), view_of(kernels[1], np.asarray(Y))
    n = first.points.shape[0]
    if not 1 <= n_components < n:
        raise DataError(f"n_components must be from 1 to {n - 1} for {n} rows, received {n_components!r}")
    return first, second
