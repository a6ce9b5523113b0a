r"""Maximal variation with one expansion per component: components that vanish exactly.

.. math::

    \min_{w, b, e, t} \; \tfrac12 \|e\|_2^2 + \tfrac{\tau}{2} \sum_l w_l^T w_l + \sum_{l=1}^d \rho_l t_l
    \quad \text{s.t.} \quad
    \begin{cases} y_i = \sum_l w_l^T \varphi_l(x_i^l) + b + e_i, \\
                  |w_l^T \varphi_l(x_i^l)| \le t_l, \quad i = 1, \dots, N, \; l = 1, \dots, d \end{cases}

Symbols: :math:`w_l = \sum_i a_i^l \varphi_l(x_i^l)` weights of component l, each with separate coefficients, so that
:math:`f^l = \Omega^l a^l`; b bias; e errors; :math:`t_l` maximal variation; :math:`\tau` the ``ridge``;
:math:`\rho_l` weights, one number ``rho`` for all or one for each. The predictor is
:math:`f(x) = \sum_l \sum_i a_i^l k^l(x_i^l, x^l) + b`.

In :mod:`problems.maximal_variation` one vector :math:`\alpha` is shared by all components, and with positive definite
kernels none of them can vanish alone. Here each can, and does from a certain rho on. The cost: without the ridge, a
positive definite component may take any values at the training points whatever its input, so that nothing is learnt;
then the problem is refused, unless the components have finite rank and are determined by their sum.

Fast path: :func:`substrate.fits.variation.solve_maximal_variation`.

[Pelckmans2005]_ eq. (13)-(14), with the components decoupled; not in the paper.
"""

from typing import Any

from problems.demonstration import Case, Demonstration
from substrate.arrays import Array, non_negative, positive
from substrate.declare.declared import Declared
from substrate.declare.expansion import checked_targets
from substrate.declare.variation_expansion import (
    component_matrices,
    fast_values,
    given_coordinates,
    variation_expansion,
)
from substrate.fits.coordinates import CUTOFF, decoupled_coordinates
from substrate.ingredients import weights_of
from substrate.kernels import RBF, Componentwise

__all__ = ["DEMONSTRATION", "closed_form", "declare"]

_KERNEL, _WEIGHTS = Componentwise(RBF(sigma=2.0)), {"rho": 3.0, "ridge": 0.1}
DEMONSTRATION = Demonstration(
    equations="Pelckmans2005 (13)-(14), decoupled",
    cases=(
        Case(
            label="with a ridge",
            choice={},
            dataset="boston",
            kernel=_KERNEL,
            parameters=_WEIGHTS,
            every=20,
            standardize=True,
        ),
    ),
)
_WHY = "as the weight of a squared norm"


def declare(
    K: Any, y: Any, rho: Any, ridge: float = 0.0, task: str = "regression", bias: bool = True, cutoff: float = CUTOFF
) -> Declared:
    """Declare the problem on the component matrices (a list, or one matrix) and targets or labels -1, +1.

    ``rho`` is one number or one for each component, a parameter of the problem of that shape. ``K`` may be
    coordinates computed from the matrices; then ``ridge``, ``bias`` and ``cutoff`` are theirs.
    """
    weights, tau, relative = weights_of(rho), non_negative(ridge, "ridge", _WHY), positive(cutoff, "cutoff")
    coordinates, grams = given_coordinates(K, lambda matrices: decoupled_coordinates(matrices, bias, relative, tau))
    weight = weights_of(weights, coordinates.parts.shape[0])
    level = variation_expansion(coordinates, checked_targets(y, coordinates.parts.shape[1], task), weight)
    return level.declare(f"Decoupled maximal variation, {task}", task, grams)


def closed_form(
    K: Any, y: Any, rho: Any, ridge: float = 0.0, task: str = "regression", bias: bool = True, cutoff: float = CUTOFF
) -> dict[str, Array]:
    """Return the same quantities by the fast path."""
    matrices = component_matrices(K)
    target = checked_targets(y, matrices[0].shape[0], task)
    tau, relative = non_negative(ridge, "ridge", _WHY), positive(cutoff, "cutoff")
    weight = weights_of(rho, len(matrices))
    return fast_values(decoupled_coordinates(matrices, bias, relative, tau), target, weight, task)
