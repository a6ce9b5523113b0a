"""Weighted fits on one kernel matrix, each with weights from the errors of the fit before ([Suykens2002]_)."""

from collections.abc import Callable

import numpy as np

from problems.estimators.shared.encoding import Reweighting
from substrate.arrays import Array
from substrate.gram import Gram
from substrate.least_squares.error_distribution import weigh_by_density
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.robust_weights import robust_scale
from substrate.least_squares.saddle_system import SaddleSolution, solve_saddle_system

__all__ = ["reweighted_fits"]


def reweighted_fits(
    gram: Gram,
    y: Array,
    gamma: float,
    weights: Array,
    weighting: str,
    scale: str,
    most: int,
    tolerance: float,
    check: Callable[[SaddleSolution, Array], None] | None = None,
) -> tuple[SaddleSolution, tuple[Reweighting, ...]]:
    """Return the plain fit and up to ``most`` weighted ones on one kernel matrix; the last solution, and the record of
    all.

    ``weights`` are those of the rows, multiplied by the robust ones in each fit. ``check`` is called with each fit and
    its weights: the errors of a fit determine the weights of the next.
    """
    v = np.ones(y.size)
    history: list[Reweighting] = []
    while True:
        ridge = Regularization(gamma).ridge(weights * v)
        solved = solve_saddle_system(gram, y, ridge)
        alpha, bias, change = solved.support_values, float(solved.bias), np.inf
        if check is not None:
            check(solved, weights * v)
        errors = ridge * alpha
        if history:
            largest = float(np.abs(alpha).max())
            change = float(np.abs(alpha - history[-1].support_values).max()) / largest if largest > 0.0 else 0.0
        step = Reweighting(
            weights=v, support_values=alpha, bias=bias, scale=robust_scale(errors, scale, weights), change=change
        )
        history.append(step)
        if len(history) > most or change <= tolerance:
            return solved, tuple(history)
        v, _ = weigh_by_density(errors, step.scale, weighting, weights)
