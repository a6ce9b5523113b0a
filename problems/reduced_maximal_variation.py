r"""Maximal variation on a reduced basis: one expansion per component in few vectors, bounds at all points.

.. math::

    \min_{\beta, b, e, t} \; \tfrac12 \|e\|_2^2 + \tfrac{\tau}{2} \sum_{l=1}^d \beta^{lT} \Omega^l_{SS} \beta^l
        + \rho \sum_{l=1}^d t_l \quad \text{s.t.} \quad
    \begin{cases} y = \sum_l \Omega^l_{\cdot S} \beta^l + b 1 + e, \\
                  -t_l 1 \le \Omega^l_{\cdot S} \beta^l \le t_l 1, \quad l = 1, \dots, d \end{cases}

Symbols: S the basis; :math:`\beta^l` coefficients of component l, for which
:math:`f^l(x) = \sum_{j \in S} \beta^l_j k^l(x, x_j)`; :math:`\Omega^l` kernel matrix of component l, a list of which is
``K``; b bias; e errors of all points; :math:`t_l` maximal variation of component l over all points; :math:`\rho`
weight; :math:`\tau` weight of the norm (``ridge``), positive, without which components could exchange constants. The
optimality conditions are as in :mod:`problems.maximal_variation`; components that are not needed vanish exactly.

It is declared in the eigen-features of each :math:`\Omega^l_{SS}`, without directions below ``cutoff``. S is
given, or chosen by the sum of the matrices.

Fast path: :func:`substrate.fits.variation.solve_maximal_variation`.

[Pelckmans2005]_ eq. (13)-(14), (24)-(27), with the expansion of [Cawley2004]_ eq. (2). Errata as for
:mod:`problems.maximal_variation`.
"""

from typing import Any

import numpy as np

from problems.demonstration import Case, Demonstration
from substrate.arrays import Array, positive, real_targets
from substrate.declare.declared import Declared
from substrate.declare.expansion import basis_points
from substrate.declare.variation_expansion import component_grams, component_matrices, variation_expansion
from substrate.fits.coordinates import CUTOFF, ComponentCoordinates, decoupled_coordinates
from substrate.fits.variation import solve_maximal_variation
from substrate.kernels import RBF, Componentwise
from substrate.operators.gram import Gram

__all__ = ["DEMONSTRATION", "closed_form", "declare"]

_KERNEL, _CHOSEN = Componentwise(RBF(sigma=1.0)), {"rho": 10.0, "ridge": 0.1, "n_basis": 0.4}
DEMONSTRATION = Demonstration(
    equations="Pelckmans2005 (13)-(14), (24)-(27) on Cawley2004 (2)",
    cases=(
        Case(
            label="regression",
            choice={},
            dataset="boston",
            kernel=_KERNEL,
            parameters=_CHOSEN,
            every=20,
            standardize=True,
        ),
    ),
)


def declare(
    K: Any, y: Any, rho: float, ridge: float = 1.0, n_basis: float = 0.5, basis: Any = None, cutoff: float = CUTOFF
) -> Declared:
    """Declare the problem on the component matrices of all points (a list, or one matrix) and targets."""
    grams = component_grams(K)  # refused where one is not positive semi-definite
    target = real_targets(y, grams[0].n)
    weight, tau, relative = positive(rho, "rho"), positive(ridge, "ridge"), positive(cutoff, "cutoff")
    matrices = [np.array(gram.matrix) for gram in grams]
    S = _points(matrices, n_basis, basis)
    level = variation_expansion(_coordinates(matrices, S, relative, tau), target, weight)
    return level.declare(f"Maximal variation on a reduced basis of {S.size}", "regression", grams)


def closed_form(
    K: Any, y: Any, rho: float, ridge: float = 1.0, n_basis: float = 0.5, basis: Any = None, cutoff: float = CUTOFF
) -> dict[str, Array]:
    """Return the same quantities by generated rows; beta is left out, since it is determined only up to the cut-off."""
    matrices = component_matrices(K)
    target = real_targets(y, matrices[0].shape[0])
    weight, tau, relative = positive(rho, "rho"), positive(ridge, "ridge"), positive(cutoff, "cutoff")
    S = _points(matrices, n_basis, basis)
    coordinates = _coordinates(matrices, S, relative, tau)
    solved = solve_maximal_variation(coordinates, target, weight)
    components, bias = coordinates.parts @ solved.v, coordinates.bias_of(target, solved.v)
    return {
        "bias": np.asarray(bias),
        "errors": target - components.sum(axis=0) - bias,
        "maximal_variation": solved.maximal_variation,
        "component_values": components,
    }


def _points(matrices: list[Array], n_basis: Any, basis: Any) -> Any:
    return basis_points(Gram.from_matrix(np.sum(matrices, axis=0)), n_basis, basis)


def _coordinates(matrices: list[Array], S: Any, cutoff: float, ridge: float) -> ComponentCoordinates:
    columns, energies = [matrix[:, S] for matrix in matrices], [matrix[np.ix_(S, S)] for matrix in matrices]
    return decoupled_coordinates(columns, True, cutoff, ridge, energies=energies)
