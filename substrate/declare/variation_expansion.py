r"""The common cvxpy problem of machines of maximal variation, in the coordinates of their components.

.. math:: \min_{v, b, e, t} \; \tfrac12 \|e\|^2 + \tfrac{\tau}{2} w^T w + \sum_l \rho_l t_l
          \quad \text{s.t.} \quad y = \sum_l C^l v + b 1 + e, \quad |C^l v| \le t_l 1

with :math:`v = \alpha` and :math:`1^T \alpha = 0` in the raw form of [Pelckmans2005]_ eq. (24), otherwise with the
coordinates of :mod:`substrate.fits.coordinates`. There is one kernel matrix per component. In
the orthonormal coordinates u, with multipliers brought into their balls :math:`\|\xi^l\|_1 \le \rho_l`,

.. math:: \tfrac12 \|f - f^\star\|^2 \le P - Q = \tfrac12 \|u - (\tilde y - \textstyle\sum_l B^{lT} \xi^l)\|^2
          + \sum_l \left(\rho_l \|B^l u\|_\infty - \xi^{lT} B^l u\right) .
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import cvxpy as cp
import numpy as np

from substrate.arrays import Array
from substrate.certificate import UNPOLISHED, Accuracy, Row, Tolerance
from substrate.declare.declared import Declared
from substrate.declare.expansion import signs_of
from substrate.declare.regression_page import within_solvers
from substrate.errors import DataError
from substrate.fits.coordinates import ComponentCoordinates
from substrate.fits.variation import (
    TrainedPoint,
    condition_rows,
    solve_maximal_variation,
    trivial_cost,
    variation_unit,
)
from substrate.ingredients import Weights, component_bounds, regression_fit, zero_sum, zero_sum_row
from substrate.numbers import Double
from substrate.operators.gram import Gram
from substrate.penalties import Columns, MaximalVariation, accuracy_of

__all__ = ["component_grams", "component_matrices", "fast_values", "given_coordinates", "variation_expansion"]


def component_grams(K: Any) -> tuple[Gram, ...]:
    """Return one Gram per component from a list of matrices (one matrix: one component), refused where one is
    indefinite.
    """
    grams = _grams(K)
    for gram in grams:
        gram.coordinates()
    return grams


def component_matrices(K: Any) -> list[Array]:
    """Return the matrices themselves, for a closed form: it warns of one that is not positive semi-definite."""
    grams = tuple(Gram.from_matrix(gram.matrix) for gram in _grams(K))
    for gram in grams:
        gram.check_definite()
    return [np.array(gram.matrix) for gram in grams]


def _grams(K: Any) -> tuple[Gram, ...]:
    if isinstance(K, Gram):
        return (K,)
    if isinstance(K, (list, tuple)) and len(K) and (isinstance(K[0], Gram) or np.ndim(K[0]) == 2):
        grams = tuple(matrix if isinstance(matrix, Gram) else Gram.from_matrix(matrix) for matrix in K)
        sizes = sorted({gram.n for gram in grams})
        if len(sizes) > 1:
            raise DataError(f"K must hold matrices of one size, received sizes {sizes}")
        return grams
    if np.ndim(K) == 3:
        raise DataError("K must be a 2-D matrix, or a list of 2-D matrices with one for each component: list(K)")
    return (Gram.from_matrix(K),)


_RAW = "in uncut coefficients no dual feasible point is known: directions of tiny eigenvalues are not determined"


@dataclass(frozen=True, slots=True)
class VariationExpansion:
    """The problem, its variables, and its optimality conditions as certificate rows."""

    problem: Any
    rho: Any
    v: Any
    b: Any
    e: Any
    t: Any
    fit: Any
    bounds: Any
    balance: Any
    coordinates: ComponentCoordinates
    target: Array

    def component_values(self) -> Array:
        """Return the values of the components at the training points, one row per component."""
        return np.asarray(self.coordinates.parts @ self.v.value)

    def weights(self) -> Weights:
        """Return the present value of the parameter rho."""
        value = self.rho.value
        return np.asarray(value, dtype=np.float64) if np.ndim(value) else float(value)

    def rows(self, tolerance: float) -> tuple[Row, ...]:
        """Return the fit, the corrected (27), and the sums to zero."""
        y, e, v, coordinates = self.target, self.e.value, self.v.value, self.coordinates
        unit, nu = variation_unit(y), 0.0 if self.balance is None else float(self.balance.multiplier)
        minus, plus = self.bounds.multipliers
        point = TrainedPoint(self.weights(), v, 0.0, self.t.value, minus, plus, nu)
        cost, pull = trivial_cost(y, coordinates.bias), coordinates.ridge_gradient(v)
        F, parts = coordinates.parts.sum(axis=0), coordinates.parts
        rows = [
            self.fit.row(tolerance),
            *condition_rows(F, parts, y, point, e, tolerance, cost=cost, unit=unit, pull=pull),
        ]
        if coordinates.bias:
            rows.append(zero_sum_row(e, tolerance, np.full(y.size, unit), of="e"))
        if self.balance is not None:
            rows.append(zero_sum_row(v, tolerance, y / (float(np.abs(parts).max()) or 1.0)))
        return tuple(rows)

    def accuracy(self) -> Accuracy:
        """Bound the fitted values, in which the squared loss makes the objective strongly convex."""
        minus, plus = self.bounds.multipliers
        ones, coordinates = np.ones(self.target.size), self.coordinates
        used = coordinates.parts.any(axis=(0, 1))  # none of a matrix of zeros, which no coordinate describes
        parts = [Double(component[:, used]) for component in coordinates.parts]
        root = Double(coordinates.weights[:, used])
        energy = root.T @ root if coordinates.ridge > 0.0 else None
        columns = Columns(reduce(add, parts), ones, coordinates.bias, coordinates.ridge, energy)
        penalty = MaximalVariation(parts, self.weights(), plus - minus)
        tolerance = Tolerance.of_page(self.target, ones, UNPOLISHED)
        return accuracy_of(columns, penalty, self.target, self.v.value[used], self.target - self.e.value, tolerance)

    def units(self) -> dict[str, float]:
        """Return the size of each quantity at the trivial point."""
        largest = float(np.abs(self.target).max())
        return dict.fromkeys(("bias", "errors", "maximal_variation", "component_values"), largest)

    def unit(self) -> float:
        """Return the unit of y in which the trivial machine costs about 1."""
        return variation_unit(self.target) * float(np.sqrt(self.target.size))

    def declare(self, title: str, task: str, grams: tuple[Gram, ...]) -> Declared:
        """Return the declared problem, its quantities in the paper's sign."""
        signs = signs_of(self.target, task)

        def support_values() -> Array:
            a = self.coordinates.expand(self.v.value)
            if task != "classification":  # on a reduced basis there are fewer coefficients than rows
                return a
            return np.asarray(signs * a if a.ndim == 1 else signs[:, None] * a)

        values = {
            "support_values": support_values,
            "bias": lambda: self.b.value,
            "errors": lambda: signs * self.e.value,
            "maximal_variation": lambda: self.t.value,
            "component_values": self.component_values,
            "coordinates": lambda: self.v.value,
            "lower_multipliers": lambda: self.bounds.multipliers[0],
            "upper_multipliers": lambda: self.bounds.multipliers[1],
        }

        def record() -> tuple[tuple[str, str], ...]:
            return (*(grams[0].record() if grams else ()), ("components", str(len(grams))), *self.coordinates.record())

        parameters = {"rho": self.rho}
        stated = self.accuracy if self.coordinates.is_balanced else _RAW
        return Declared(
            title=title,
            problem=self.problem,
            parameters=parameters,
            values=values,
            rows=self.rows,
            record=record,
            units=self.units,
            unit=self.unit,
            accuracy=stated,
        )


def given_coordinates(
    K: Any, make: Callable[[list[Array]], ComponentCoordinates]
) -> tuple[ComponentCoordinates, tuple[Gram, ...]]:
    """Return given coordinates, or compute them from component matrices, refused if one is indefinite."""
    if isinstance(K, ComponentCoordinates):
        return K, ()
    grams = component_grams(K)
    return make([np.array(gram.matrix) for gram in grams]), grams


def variation_expansion(coordinates: ComponentCoordinates, target: Array, rho: Weights) -> VariationExpansion:
    """Build the problem with ``rho`` as its parameter, one number or a vector with one for each component."""
    components = coordinates.parts
    d, n, r = components.shape
    v, t = cp.Variable(r, name="v" if coordinates.is_balanced else "alpha"), cp.Variable(d, name="t")
    b = cp.Variable(name="b") if coordinates.bias else cp.Constant(0.0)
    e, weight = cp.Variable(n, name="e"), cp.Parameter(np.shape(rho), nonneg=True, name="rho", value=rho)
    # each value is stated once and bounded twice, which halves what cvxpy has to compile
    values = cp.Variable(d * n, name="components")
    stated = values == components.reshape(d * n, r) @ v
    stated.set_label("component values")
    fit = regression_fit(within_solvers(target), components.sum(axis=0) @ v + b, e)
    bounds = component_bounds(values, t)
    balance = zero_sum(v) if coordinates.bias and not coordinates.is_balanced else None
    constraints = [fit.constraint, stated, *bounds.constraints]
    constraints += [balance.constraint] if balance is not None else []
    objective = 0.5 * cp.sum_squares(e) + (weight @ t if weight.shape else weight * cp.sum(t))
    if coordinates.ridge > 0.0:
        objective += 0.5 * coordinates.ridge * cp.sum_squares(coordinates.weights @ v)
    problem = cp.Problem(cp.Minimize(objective), constraints)
    return VariationExpansion(
        problem=problem,
        rho=weight,
        v=v,
        b=b,
        e=e,
        t=t,
        fit=fit,
        bounds=bounds,
        balance=balance,
        coordinates=coordinates,
        target=target,
    )


def fast_values(coordinates: ComponentCoordinates, target: Array, rho: Weights, task: str) -> dict[str, Array]:
    """Return the same quantities by the closed form; alpha is left out, since the data determine it only up to the
    cut-off.
    """
    solved = solve_maximal_variation(coordinates, target, rho)
    values, b = coordinates.parts @ solved.v, coordinates.bias_of(target, solved.v)
    e = target - values.sum(axis=0) - b
    return {
        "bias": np.asarray(b),
        "errors": (target if task == "classification" else 1.0) * e,
        "maximal_variation": solved.maximal_variation,
        "component_values": values,
    }
