r"""Structure detection by maximal variation: one expansion for all components, and the sum of their largest values.

.. math::

    \min_{\alpha, b, e, t} \; \tfrac12 \|e\|_2^2 + \sum_{l=1}^d \rho_l t_l \quad \text{s.t.} \quad
    \begin{cases} y = \sum_l \Omega^l \alpha + b 1 + e, \quad 1^T \alpha = 0, \\
                  -t_l 1 \le \Omega^l \alpha \le t_l 1, \quad l = 1, \dots, d \end{cases}

Symbols: :math:`\alpha` support values, shared by the components; b bias (dropped with :math:`1^T\alpha = 0` by
``bias=False``, as in the paper from (24) on); e errors; :math:`t_l` maximal variation of component l;
:math:`\Omega^l` its kernel matrix, a list of which is ``K``; :math:`\rho_l` weights. The multipliers of the lower and
upper bounds are :math:`\xi^{-l}, \xi^{+l} \ge 0`; the multiplier of :math:`1^T \alpha = 0` is :math:`\nu`. With
:math:`\Omega = \sum_l \Omega^l` the optimality conditions are

.. math::

    \Omega^T (\Omega \alpha + b 1 - y) + \nu 1 = \sum_l \Omega^{lT} (\xi^{-l} - \xi^{+l}), \qquad
    1^T (\xi^{-l} + \xi^{+l}) = \rho_l \;\; \forall l, \\
    \xi^{-l}_i (t_l + \Omega^l_i \alpha) = 0, \qquad \xi^{+l}_i (t_l - \Omega^l_i \alpha) = 0 .

They are the rows of the certificate; the products add up to the duality gap. The predictor is
:math:`f(x) = \sum_i \alpha_i \sum_l k^l(x_i^l, x^l) + b`.

There is no norm on w, so directions of small eigenvalues are not determined. ``form="raw"`` states the
problem as printed, for teaching; solvers often fail on it. ``form="conditioned"`` writes it in orthonormal coordinates
of the stacked :math:`\Omega^l \alpha` and leaves out those below ``cutoff``, a parameter of the model.

*When zeros are exact.* If some :math:`\Omega^l` is positive definite, :math:`t_l = 0` forces :math:`\alpha = 0`: with
RBF components none vanishes alone, and the zeros of the paper's figures are thresholds. Components of finite rank
(linear, polynomial) vanish exactly; so do the components of :mod:`problems.decoupled_maximal_variation`.

Fast path: :func:`substrate.fits.variation.solve_maximal_variation`.

The paper has one :math:`\rho` for all components; give a number for that. With one weight for each component, the
weights within a group of inputs are equal: inputs that are costly to measure, or less trusted, are given a larger
weight.

[Pelckmans2005]_ eq. (13)-(14), (24)-(27), (30). Errata: (14) has :math:`\|e\|^2` without the half of (24), so its rho
is twice ours; (27a) lacks :math:`\Omega^l` on the right; (27b) holds for each l; in (13)-(14) the map is the feature
map of component l.
"""

from typing import Any

from problems.demonstration import Case, Demonstration
from substrate.arrays import Array, positive
from substrate.declare.declared import Declared
from substrate.declare.expansion import checked_targets
from substrate.declare.variation_expansion import (
    component_matrices,
    fast_values,
    given_coordinates,
    variation_expansion,
)
from substrate.fits.coordinates import CUTOFF, raw_coordinates, shared_coordinates
from substrate.ingredients import weights_of
from substrate.kernels import RBF, Componentwise, Linear
from substrate.robust_weights import check_choice

__all__ = ["DEMONSTRATION", "closed_form", "declare"]

_SMOOTH, _LINEAR, _RHO = Componentwise(RBF(sigma=1.0)), Componentwise(Linear()), {"rho": 10.0}
DEMONSTRATION = Demonstration(
    equations="Pelckmans2005 (13)-(14), (24)-(27)",
    cases=(
        Case(
            label="conditioned",
            choice={"form": "conditioned"},
            dataset="boston",
            kernel=_SMOOTH,
            parameters=_RHO,
            every=20,
            standardize=True,
        ),
        Case(
            label="raw, finite rank",
            choice={"form": "raw"},
            dataset="boston",
            kernel=_LINEAR,
            parameters=_RHO,
            every=30,
            standardize=True,
        ),
    ),
)


def declare(
    K: Any,
    y: Any,
    rho: Any,
    task: str = "regression",
    form: str = "conditioned",
    bias: bool = True,
    cutoff: float = CUTOFF,
) -> Declared:
    """Declare the problem on the component matrices (a list, or one matrix) and targets or labels -1, +1.

    ``rho`` is one number or one for each component, a parameter of the problem of that shape. ``K`` may be
    coordinates computed from the matrices; then ``form``, ``bias`` and ``cutoff`` are theirs.

    :equation [Pelckmans2005]_ (14), (24): structure detection
    """
    check_choice(form, ("conditioned", "raw"), "form")
    weights, relative = weights_of(rho), positive(cutoff, "cutoff")
    make = shared_coordinates if form == "conditioned" else raw_coordinates
    coordinates, grams = given_coordinates(K, lambda matrices: make(matrices, bias, relative))
    weight = weights_of(weights, coordinates.parts.shape[0])
    level = variation_expansion(coordinates, checked_targets(y, coordinates.parts.shape[1], task), weight)
    return level.declare(f"Maximal variation, {task} ({form})", task, grams)


def closed_form(
    K: Any, y: Any, rho: Any, task: str = "regression", bias: bool = True, cutoff: float = CUTOFF
) -> dict[str, Array]:
    """Return the same quantities by the fast path; alpha is left out, since it is determined only up to the cut-off."""
    matrices = component_matrices(K)
    target = checked_targets(y, matrices[0].shape[0], task)
    weight, relative = weights_of(rho, len(matrices)), positive(cutoff, "cutoff")
    return fast_values(shared_coordinates(matrices, bias, relative), target, weight, task)
