r"""Fusion of structure detection with validation: the weight chosen inside the problem.

.. math::

    (28): \quad \min_{\rho, \alpha, b, t, \xi} \; \|y^v - \Omega^v \alpha - b 1\|^2 \quad \text{s.t. (27) holds}

Symbols: :math:`\Omega^v = \sum_l \Omega^{v,l}` kernel values of the n validation points against the N training points,
:math:`n \times N`; :math:`y^v` their targets; all others, and (27), are as in :mod:`problems.maximal_variation_kkt`.
The products in (27e,f) make it a program with complementarity constraints. The paper moves them into the objective,

.. math::

    (29): \quad \min_{\rho, \alpha, b, t, \xi} \; \|y^v - \Omega^v \alpha - b 1\|^2 + \omega \sum_l \Big(
    \xi^{-lT} (t_l 1 + \Omega^l \alpha) + \xi^{+lT} (t_l 1 - \Omega^l \alpha) \Big) \quad \text{s.t. (27a)-(27d)}

with :math:`\omega = 1`, calls it a quadratic program and states that it has the solution of (28). Neither is so. Under
(27a)-(27d) the penalty is the duality gap :math:`\|P\Omega\alpha\|^2 - y^T P \Omega\alpha + \rho \sum_l t_l` of the
training problem, and its last term is bilinear. Nor is the weight 1 enough in general: with :math:`\Omega = I_2`,
y = (1, -1), :math:`\Omega^v = (2, 0)`, :math:`y^v = 4`, (28) has the value 4 at :math:`\alpha = (1, -1)`, and (29) at
weight 1 the value 3.5 at :math:`\alpha = (1.25, -1.25)`, :math:`\rho = 0.5` with products that add up to 1.25; from
weight 2 on they agree.

For a fixed :math:`\rho` (29) is convex: ``declare`` states that, with the penalty weight as its parameter, and a grid
of :math:`\rho` finds the values above. :class:`problems.FusedMaximalVariationRegressor` solves (28) by the exact path
in :math:`\rho`, and :func:`substrate.fuse` for any machine.

[Pelckmans2005]_ eq. (28)-(29). Errata: the two claims above; (28) has a half on the validation term and (29) none (none
here); the index ranges of :math:`\Omega^v` in (28) are exchanged.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from problems.demonstration import Case, Demonstration, half_validates
from substrate.arrays import Array, positive
from substrate.declare.declared import Declared
from substrate.declare.expansion import checked_targets, validation_rows
from substrate.declare.optimality_conditions import PenalizedFit, fused_conditions, variation_fit
from substrate.declare.variation_expansion import component_grams
from substrate.errors import DataError
from substrate.fits.coordinates import CUTOFF, shared_coordinates
from substrate.kernels import RBF, Componentwise
from substrate.operators.gram import Gram

__all__ = ["DEMONSTRATION", "declare"]

_TASK, _KERNEL = {"task": "classification"}, Componentwise(RBF(sigma=0.5))
DEMONSTRATION = Demonstration(
    equations="Pelckmans2005 (28)-(29)",
    cases=tuple(
        Case(
            label=label,
            choice=_TASK,
            dataset="ripley",
            kernel=_KERNEL,
            parameters={"rho": 2.0, "weight": weight},
            every=10,
            build=half_validates,
        )
        for label, weight in (("rho fixed, weight 1", 1.0), ("rho fixed, weight 10", 10.0))
    ),
)


def declare(
    K: Any,
    y: Any,
    K_val: Any,
    y_val: Any,
    rho: float,
    weight: float = 1.0,
    task: str = "regression",
    bias: bool = True,
    cutoff: float = CUTOFF,
) -> Declared:
    """Declare (29) at one rho, where it is convex, on lists of component matrices and both targets.

    ``K_val`` is a list with the n x N matrix of each component, or their sum.

    :equation [Pelckmans2005]_ (29): its penalised form, convex at one rho
    """
    grams = component_grams(K)
    fit, M, target_val = _numbers(grams, y, K_val, y_val, task, bias, cutoff)
    level = fused_conditions(fit, positive(rho, "rho"), M, target_val, positive(weight, "weight"))
    record = (*grams[0].record(), ("components", str(len(grams))))
    return level.declare(f"Fused maximal variation (29) at one rho, {task}", task, record)


def _numbers(
    grams: Sequence[Gram], y: Any, K_val: Any, y_val: Any, task: str, bias: bool, cutoff: float
) -> tuple[PenalizedFit, Array, Array]:
    target = checked_targets(y, grams[0].n, task)
    below = K_val
    if isinstance(K_val, (list, tuple)) and len(K_val) and np.ndim(K_val[0]) == 2:
        if len(K_val) != len(grams):
            raise DataError(f"K_val must have one matrix per component: expected {len(grams)}, received {len(K_val)}")
        below = np.sum([validation_rows(component, y_val, grams[0].n, task)[0] for component in K_val], axis=0)
    rows, target_val = validation_rows(below, y_val, grams[0].n, task)
    coordinates = shared_coordinates([np.array(gram.matrix) for gram in grams], bias, positive(cutoff, "cutoff"))
    fit = variation_fit(coordinates, target)
    return fit, rows @ fit.coefficients, target_val
