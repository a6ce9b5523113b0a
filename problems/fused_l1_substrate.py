r"""Fusion of the sparse substrate with validation: structure detection's fusion with every support value a component.

The optimality conditions of :math:`\tfrac12 \|e\|^2 + \zeta \|\alpha\|_1`, written with bounds
:math:`-t_i \le \alpha_i \le t_i` and their multipliers, are

.. math::

    \begin{cases}
    \Omega^T (\Omega \alpha + b 1 - y) + \nu 1 = \xi^- - \xi^+, \qquad \xi^-_i + \xi^+_i = \zeta \quad \forall i, \\
    \xi^-, \xi^+ \ge 0, \quad -t \le \alpha \le t, \quad 1^T \alpha = 0, \quad 1^T (\Omega \alpha + b 1 - y) = 0, \\
    \xi^-_i (t_i + \alpha_i) = 0, \qquad \xi^+_i (t_i - \alpha_i) = 0,
    \end{cases}

and the fused problems are as in :mod:`problems.fused_maximal_variation`:

.. math::

    \min_{\zeta, \alpha, b, t, \xi} \; \|y^v - \Omega^v \alpha - b 1\|^2 \;\; \text{s.t. all of them}, \qquad
    \min_{\zeta, \alpha, b, t, \xi} \; \|y^v - \Omega^v \alpha - b 1\|^2 + \omega \sum_i \Big( \xi^-_i (t_i + \alpha_i)
    + \xi^+_i (t_i - \alpha_i) \Big) \;\; \text{s.t. the linear ones.}

Symbols: :math:`\Omega` kernel matrix; :math:`\Omega^v` (n x N) kernel values of the validation points, :math:`y^v`
their targets; :math:`\alpha` support values; :math:`\zeta` weight; :math:`\omega` penalty weight. In classification the
coefficients are :math:`y \circ \alpha`.

The second problem is convex for a fixed :math:`\zeta` (``declare``) and bilinear otherwise;
:class:`problems.FusedL1SubstrateRegressor` solves the first by the exact path in :math:`\zeta`, and
:func:`substrate.fuse` for any machine.

[Pelckmans2005]_ section 4.2 leaves this case to the reader, as following (24)-(29); the objections to (29) apply to it
as well.
"""

from typing import Any

import numpy as np

from problems.demonstration import Case, Demonstration, half_validates
from substrate.arrays import Array, positive
from substrate.declare.declared import Declared, given_gram
from substrate.declare.expansion import checked_targets, validation_rows
from substrate.declare.optimality_conditions import PenalizedFit, fused_conditions, sparse_fit
from substrate.kernels import RBF
from substrate.operators.gram import Gram

__all__ = ["DEMONSTRATION", "declare"]

_TASK, _WEIGHTS = {"task": "classification"}, {"zeta": 0.5, "weight": 1.0}
DEMONSTRATION = Demonstration(
    equations="Pelckmans2005 (28)-(29) for (16)",
    cases=(
        Case(
            label="zeta fixed, weight 1",
            choice=_TASK,
            dataset="ripley",
            kernel=RBF(sigma=0.2),
            parameters=_WEIGHTS,
            every=12,
            build=half_validates,
        ),
    ),
)


def declare(
    K: Any, y: Any, K_val: Any, y_val: Any, zeta: float, weight: float = 1.0, task: str = "regression"
) -> Declared:
    """Declare the penalised fusion at one zeta, where it is convex; ``weight`` is its parameter.

    :place [Pelckmans2005]_ section 4.2, "along the same lines": fusion of the sparse substrate with validation
    """
    gram = given_gram(K)
    fit, below, target_val = _numbers(gram, y, K_val, y_val, task)
    level = fused_conditions(fit, positive(zeta, "zeta"), below, target_val, positive(weight, "weight"))
    return level.declare(f"Fused L1 substrate at one zeta, {task}", task, gram.record())


def _numbers(gram: Gram, y: Any, K_val: Any, y_val: Any, task: str) -> tuple[PenalizedFit, Array, Array]:
    target = checked_targets(y, gram.n, task)
    below, target_val = validation_rows(K_val, y_val, gram.n, task)
    gram.coordinates()  # refuses a matrix that is not positive semi-definite
    return sparse_fit(np.array(gram.matrix), target), below, target_val
