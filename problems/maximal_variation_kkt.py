r"""The optimality conditions of structure detection, corrected, as a separate problem.

.. math::

    \begin{cases}
    \Omega^T (\Omega \alpha + b 1 - y) + \nu 1 = \sum_l \Omega^{lT} (\xi^{-l} - \xi^{+l}) & (a) \\
    1^T (\xi^{-l} + \xi^{+l}) = \rho \quad \forall l & (b) \\
    \xi^{-l}, \xi^{+l} \ge 0 & (c) \\
    -t_l 1 \le \Omega^l \alpha \le t_l 1, \quad 1^T \alpha = 0, \quad 1^T (\Omega \alpha + b 1 - y) = 0 & (d) \\
    \xi^{-l}_i (t_l + \Omega^l_i \alpha) = 0 & (e) \\
    \xi^{+l}_i (t_l - \Omega^l_i \alpha) = 0 & (f)
    \end{cases}

Symbols: as in :mod:`problems.maximal_variation`; :math:`\xi^{-l}, \xi^{+l}` are variables here, not multipliers that a
solver returns.

(a) to (d) are linear; ``conditions`` returns them as cvxpy constraints for any use. (e) and (f) are not, but under
(a) to (d) no product is negative and their sum is the duality gap of (25). So for a fixed :math:`\rho`

.. math::

    \min_{\alpha, b, t, \xi, \nu} \; \|P \Omega \alpha\|^2 - y^T P \Omega \alpha + \rho \sum_l t_l \quad \text{s.t.}
    \quad \text{(a), (b), (c), (d)}, \qquad P = I - 11^T/N,

is a convex quadratic program whose optimum is zero, and its solutions are the solutions of (25) with their multipliers.
This is the problem of ``declare``. ``form``, ``bias`` and ``cutoff`` are as in :mod:`problems.maximal_variation`.

Fast path: :func:`substrate.fits.variation.solve_maximal_variation`.

[Pelckmans2005]_ eq. (26)-(27). Errata: (27a) lacks :math:`\Omega^l` on its right-hand side; (27b) is printed as one
equation and holds for each l; b and :math:`1^T \alpha = 0` are dropped from (24) on, ``bias=False`` does the same.
"""

from typing import Any

import numpy as np

from problems import maximal_variation
from problems.demonstration import Case, Demonstration
from substrate.arrays import Array, positive
from substrate.declare.declared import Declared
from substrate.declare.expansion import checked_targets, signs_of
from substrate.declare.optimality_conditions import (
    OptimalityConditions,
    PenalizedFit,
    optimality_conditions,
    variation_fit,
)
from substrate.declare.variation_expansion import component_grams
from substrate.fits.coordinates import CUTOFF, raw_coordinates, shared_coordinates
from substrate.fits.variation import variation_unit
from substrate.ingredients import complementary_slackness
from substrate.kernels import RBF, Componentwise
from substrate.operators.gram import Gram
from substrate.robust_weights import check_choice

__all__ = ["DEMONSTRATION", "closed_form", "complementary_slackness", "conditions", "declare"]

_WIDE, _NARROW = Componentwise(RBF(sigma=0.5)), Componentwise(RBF(sigma=0.2))
DEMONSTRATION = Demonstration(
    equations="Pelckmans2005 (26)-(27)",
    cases=(
        Case(
            label="conditioned",
            choice={"form": "conditioned"},
            dataset="ripley",
            kernel=_WIDE,
            parameters={"rho": 2.0},
            every=10,
        ),
        Case(label="raw", choice={"form": "raw"}, dataset="ripley", kernel=_NARROW, parameters={"rho": 1.0}, every=25),
    ),
)

_UNBOUNDED = "the objective is a sum of products that vanishes at the optimum, without strong convexity"


def conditions(
    K: Any,
    y: Any,
    rho: Any,
    task: str = "regression",
    form: str = "conditioned",
    bias: bool = True,
    cutoff: float = CUTOFF,
) -> OptimalityConditions:
    """Return (27a) to (27d) as cvxpy constraints; ``rho`` is a number, a parameter or a variable, not negative.

    :equation [Pelckmans2005]_ (27a)-(27d): the linear ones as constraints
    """
    return optimality_conditions(_fit(component_grams(K), y, task, form, bias, cutoff), rho)


def declare(
    K: Any,
    y: Any,
    rho: float,
    task: str = "regression",
    form: str = "conditioned",
    bias: bool = True,
    cutoff: float = CUTOFF,
) -> Declared:
    """Declare the smallest sum of products on the component matrices (a list, or one matrix) and targets or labels."""
    import cvxpy as cp

    grams = component_grams(K)
    fit = _fit(grams, y, task, form, bias, cutoff)
    weight = cp.Parameter(nonneg=True, name="rho", value=positive(rho, "rho"))
    level = optimality_conditions(fit, weight)
    problem = cp.Problem(cp.Minimize(level.products), level.constraints)
    signs = signs_of(fit.target, task)
    values = {
        "support_values": lambda: signs * (fit.coefficients @ level.v.value),
        "bias": lambda: level.b.value,
        "errors": lambda: signs * fit.errors(level.point()),
        "maximal_variation": lambda: level.t.value,
        "component_values": lambda: fit.values(level.point()),
        "lower_multipliers": lambda: level.point().xi_minus,
        "upper_multipliers": lambda: level.point().xi_plus,
        "complementarity": lambda: level.complementary_slackness().sum,
    }

    def units() -> dict[str, float]:
        largest = float(np.abs(fit.target).max())
        return dict.fromkeys(("bias", "errors", "maximal_variation", "component_values"), largest)

    def record() -> tuple[tuple[str, str], ...]:
        report = level.complementary_slackness().verdict
        return (*grams[0].record(), ("components", str(len(grams))), ("products", report))

    def rows(tolerance: float) -> Any:
        return fit.rows(level.point(), tolerance)

    title = f"Optimality conditions of maximal variation, {task} ({form})"
    return Declared(
        title=title,
        problem=problem,
        parameters={"rho": weight},
        values=values,
        rows=rows,
        record=record,
        units=units,
        unit=lambda: variation_unit(fit.target) * float(np.sqrt(fit.target.size)),
        accuracy=_UNBOUNDED,
    )


def closed_form(
    K: Any, y: Any, rho: float, task: str = "regression", bias: bool = True, cutoff: float = CUTOFF
) -> dict[str, Array]:
    """Return the same quantities by the fast path, at one rho for all components, which is what these conditions
    have.
    """
    return maximal_variation.closed_form(K, y, positive(rho, "rho"), task, bias, cutoff)


def _fit(grams: tuple[Gram, ...], y: Any, task: str, form: str, bias: bool, cutoff: float) -> PenalizedFit:
    check_choice(form, ("conditioned", "raw"), "form")
    target: Array = checked_targets(y, grams[0].n, task)
    relative = positive(cutoff, "cutoff")
    matrices = [np.array(gram.matrix) for gram in grams]
    coordinates = (shared_coordinates if form == "conditioned" else raw_coordinates)(matrices, bias, relative)
    return variation_fit(coordinates, target)
