r"""The optimality conditions of maximal variation as certificate rows, for either way of expanding the components.

.. math:: F^T(f - y) + \tau \, \partial(\tfrac12 w^T w) + \nu 1 = \sum_l C^{lT} (\xi^{-l} - \xi^{+l})

with :math:`C^l = \Omega^l` in the coordinates of [Pelckmans2005]_ eq. (27a), whose right-hand side lacks that matrix in
print; the other conditions are rows of :mod:`substrate.ingredients.component_bounds`.
"""

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.closed_form.component_coordinates import ComponentCoordinates, centred
from substrate.closed_form.maximal_variation import VariationSolution
from substrate.ingredients.component_bounds import variation_rows

__all__ = ["solution_rows", "stationarity_row", "trivial_cost", "variation_unit"]


def trivial_cost(y: Array, bias: bool) -> float:
    """Half the squared errors of the machine without components, or a millionth of those of zero."""
    return 0.5 * float(np.sum(centred(y, bias) ** 2)) + 0.5e-6 * float(y @ y)


def variation_unit(y: Array) -> float:
    """The size of the targets about their mean, or, where they are constant, of the targets."""
    deviation, largest = float(np.abs(y - y.mean()).max()), float(np.abs(y).max())
    return deviation if deviation > 1e-6 * largest else (largest or 1.0)


def stationarity_row(
    parts: Array, ridge_gradient: Array, nu: float, y: Array, e: Array, difference: Array, tolerance: float
) -> Row:
    """(27a) in the coordinates of ``parts``; ``difference`` is xi^- - xi^+, one row per component.

    :equation [Pelckmans2005]_ (27a): stationarity in alpha, corrected
    """
    fitted, bounded = parts.sum(axis=0).T @ e, np.tensordot(difference, parts, 2)
    residual = float(np.linalg.norm(ridge_gradient - fitted + nu - bounded))
    scale = float(np.linalg.norm(parts.sum(axis=0).T @ y) + np.linalg.norm(bounded) + np.linalg.norm(ridge_gradient))
    return Row("(27a) stationarity", residual, scale, tolerance, "||F'(f - y) + nu - sum_l C^l'(xi- - xi+)||")


def solution_rows(
    coordinates: ComponentCoordinates, y: Array, rho: float, solved: VariationSolution, tolerance: float
) -> tuple[Row, ...]:
    """All conditions for a point of the fast path."""
    values = coordinates.parts @ solved.v
    e = y - values.sum(axis=0) - coordinates.bias_of(y, solved.v)
    difference = solved.xi_minus - solved.xi_plus
    cost, unit = trivial_cost(y, coordinates.bias), variation_unit(y)
    t, minus, plus = solved.maximal_variation, solved.xi_minus, solved.xi_plus
    return (
        stationarity_row(coordinates.parts, coordinates.ridge_gradient(solved.v), 0.0, y, e, difference, tolerance),
        *variation_rows(values, t, minus, plus, rho, cost, unit, tolerance),
    )
