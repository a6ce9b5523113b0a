"""The machine of maximal variation at a chosen weight, by the fast path, or by its exact path where that is better."""

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from problems.estimators.full.variation_fit import Variation, VariationFit, with_answer
from substrate.arrays import Array
from substrate.penalized.homotopy.homotopies import variation_path
from substrate.penalized.variation.accuracy import VariationWitness, refined_witness, solution_rows
from substrate.penalized.variation.active_rows import VariationSolution, divide_from_right, sides_of
from substrate.penalized.variation.component_coordinates import ComponentCoordinates

__all__ = ["best_answer"]


def best_answer(
    kernel: Any, X: Any, coordinates: ComponentCoordinates, y: Array, variation: Variation, tol: float
) -> VariationFit:
    """Return the machine with the row that bounds its answer.

    An active set may be right and its point, after a conic solver's, still known to fewer digits than that of the path:
    whether the row passes must not hang on which of the two came first.
    """
    fit = with_answer(kernel, X, coordinates, y, variation, variation.fit(coordinates, y), tol)
    if isinstance(variation.rho, np.ndarray) or (fit.exact and fit.rows[0].passes):
        return fit
    followed = _follow(coordinates, y, variation.rho)
    if followed is None:
        return fit
    followed_answer = with_answer(kernel, X, coordinates, y, variation, followed, tol)
    return fit if fit.exact and fit.rows[0].relative < followed_answer.rows[0].relative else followed_answer


def _follow(coordinates: ComponentCoordinates, y: Array, rho: float) -> VariationFit | None:
    """Return the machine at rho from its own path, where that reaches it."""
    B = divide_from_right(coordinates.parts, coordinates.metric)
    path = variation_path(list(B), coordinates.targets(y))
    if not path.covers(rho):
        return None
    point = path.at(rho)
    v = solve_triangular(coordinates.metric, point.primal)
    t = np.abs(coordinates.parts @ v).max(axis=1)
    solved = VariationSolution(v, t, *sides_of(point.dual.reshape(B.shape[:2]), rho), 0, 0, True)
    rows = solution_rows(coordinates, y, rho, solved, 1e-6)
    facts = (*coordinates.record(), ("rho", f"{rho:g}"), ("solver", f"exact path, {len(path)} knots"))
    witness = refined_witness(coordinates, VariationWitness(v, solved.xi_plus - solved.xi_minus), rho)
    return VariationFit(
        coefficients=coordinates.expand(v),
        bias=coordinates.bias_of(y, v),
        maximal_variation=t,
        rows=rows,
        facts=facts,
        exact=True,
        witness=witness,
    )
