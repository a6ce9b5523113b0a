r"""Optimality of any convex problem in the user's own terms: constraints, their multipliers, the Lagrangian.

For :math:`\min f_0(x)` subject to :math:`g(x) \le 0`, :math:`h(x) = 0`, :math:`k(x) \in \mathcal{K}` with multipliers
:math:`\lambda, \nu, \mu`, a feasible x is optimal when :math:`\lambda \ge 0`, :math:`\mu \in \mathcal{K}^*`,
:math:`\lambda^T g(x) = 0 = \mu^T k(x)` and x minimises the Lagrangian

.. math:: L(x) = f_0(x) + \lambda^T g(x) + \nu^T h(x) - \mu^T k(x)

([Boyd2004]_ section 5.5.3). L is convex, so x minimises it exactly when there is no direction of descent. Some are
tried here, with both signs, by finite differences that also detect kinks; this links the multipliers that the user
reads to the point, whatever their cones, and :mod:`substrate.composition.conic` proves the rest. A finite step never
rejects an optimal point: a convex function rises at least as fast as its slope.
"""

from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row

__all__ = ["constraint_rows", "cost_at", "lagrangian_row"]

_DIRECTIONS = 4
_STEP = 1e-7
#: Solvers end at relative gaps of 1e-11, where slopes may still be the root of twice that: whether such a point passes
#: must not depend on the rounding of its last iteration.
_SLOPE = 5.0


def constraint_rows(
    constraints: list[Any], names: list[str], cost: float, unit: float, tolerance: float
) -> tuple[Row, ...]:
    """Check feasibility, sign and complementarity of each constraint at its current values.

    ``cost`` is the size of the objective, ``unit`` that of the targets, and so of affine sides. A violation is measured
    by the sides of its constraint, which may have other units than the targets (those of :math:`w^T w` are their
    squares), here and where the variables have other signs: at the solution the sides may be small differences of large
    terms.
    """
    rows: list[Row] = []
    sizes = _sizes(constraints)
    for constraint, name, size in zip(constraints, names, sizes, strict=True):
        affine = all(side.is_affine() for side in constraint.args)  # of variables that may all be zero
        scale = size + unit if affine else size or unit
        violation = _largest(constraint.violation())
        rows.append(
            Row(
                name=f"{name}: feasible", value=violation, scale=scale, tolerance=tolerance, formula="largest violation"
            )
        )
        if not _is_equality(constraint):
            size = max(_largest(dual) for dual in _duals(constraint))
            # a multiplier is measured by what it adds to the objective
            rows.append(
                Row(
                    name=f"{name}: sign",
                    value=_outside(constraint),
                    scale=size + cost / scale,
                    tolerance=tolerance,
                    formula="excess over K*",
                )
            )
            rows.append(
                Row(
                    name=f"{name}: slackness",
                    value=_product(constraint),
                    scale=cost,
                    tolerance=tolerance,
                    formula="|lambda'g|",
                )
            )
    return tuple(rows)


def _sizes(constraints: list[Any]) -> list[float]:
    """Return the sum of the largest entries of both sides of every constraint, at the present values and with other
    signs.
    """
    variables = list({id(v): v for constraint in constraints for v in constraint.variables()}.values())
    point = [np.asarray(variable.value, dtype=np.float64) for variable in variables]
    rng = np.random.default_rng(0)
    sizes = np.zeros(len(constraints))
    try:
        for turn in range(_DIRECTIONS):
            signs = [1.0 if turn == 0 else rng.choice((-1.0, 1.0), size=x.shape) for x in point]
            for variable, value, sign in zip(variables, point, signs, strict=True):
                variable.save_value(value * sign)
            with np.errstate(all="ignore"):
                each = [sum(_largest(side.value) for side in constraint.args) for constraint in constraints]
            sizes = np.maximum(sizes, np.where(np.isfinite(each), each, 0.0))
    finally:
        for variable, value in zip(variables, point, strict=True):
            variable.save_value(value)
    return [float(size) for size in sizes]


def lagrangian_row(objective: Any, constraints: list[Any], variables: list[Any], cost: float, tolerance: float) -> Row:
    """Return the steepest descent of the Lagrangian from the current point, relative to the size of its terms."""
    point = [np.asarray(variable.value, dtype=np.float64) for variable in variables]

    def lagrangian(values: list[Array]) -> tuple[float, float]:
        for variable, value in zip(variables, values, strict=True):
            variable.save_value(value)
        terms = [float(objective.value), *(_lagrangian_term(constraint) for constraint in constraints)]
        return sum(terms), sum(abs(term) for term in terms)

    rng = np.random.default_rng(0)
    try:
        value_here, size = lagrangian(point)
        steepest = 0.0
        for move in _directions(point, rng):
            for side in (1.0, -1.0):
                moved_value, _ = lagrangian([x + side * _STEP * d for x, d in zip(point, move, strict=True)])
                steepest = max(steepest, (value_here - moved_value) / _STEP)
    finally:
        for variable, value in zip(variables, point, strict=True):
            variable.save_value(value)
    return Row(
        name="Lagrangian stationarity",
        value=steepest,
        scale=_SLOPE * (size + cost),
        tolerance=tolerance,
        formula="steepest descent of L, finite check",
    )


def cost_at(objective: Any, variables: list[Any], values: list[Any]) -> float:
    """Return the size of the objective at a point, zero where it is not defined there; the variables keep their
    values.
    """
    kept = [variable.value for variable in variables]
    try:
        for variable, value in zip(variables, values, strict=True):
            variable.save_value(value)
        with np.errstate(all="ignore"):
            cost = abs(float(objective.value))
    finally:
        for variable, value in zip(variables, kept, strict=True):
            variable.save_value(value)
    return cost if np.isfinite(cost) else 0.0


def _directions(point: list[Array], rng: np.random.Generator) -> list[list[Array]]:
    sizes = [max(_largest(x), 1e-12) for x in point]
    every = [[s * rng.standard_normal(x.shape) for x, s in zip(point, sizes, strict=True)] for _ in range(_DIRECTIONS)]
    for k, (x, size) in enumerate(zip(point, sizes, strict=True)):
        alone = [np.zeros(array.shape) for array in point]
        alone[k] = size * rng.standard_normal(x.shape)
        shrink = [np.zeros(array.shape) for array in point]
        shrink[k] = x.copy()  # towards zero and away from it, where norms have kinks
        every += [alone, shrink]
    return every


def _largest(value: Any) -> float:
    return float(np.abs(np.asarray(value, dtype=np.float64)).max(initial=0.0))


def _kind(constraint: Any) -> str:
    return type(constraint).__name__


def _is_equality(constraint: Any) -> bool:
    return _kind(constraint) in ("Equality", "Zero")


def _is_inequality(constraint: Any) -> bool:
    return _kind(constraint) in ("Inequality", "NonPos")


def _duals(constraint: Any) -> list[Array]:
    return [np.asarray(dual.value, dtype=np.float64) for dual in constraint.dual_variables]


def _pairs(constraint: Any) -> list[tuple[Array, Array]]:
    """Return each multiplier with its constraint function, in the shape of the latter."""
    sides = [constraint.expr] if _is_equality(constraint) or _is_inequality(constraint) else constraint.args
    values = [np.asarray(side.value, dtype=np.float64) for side in sides]
    return [(dual.reshape(value.shape), value) for dual, value in zip(_duals(constraint), values, strict=True)]


def _product(constraint: Any) -> float:
    """Return |lambda'g|, entry by entry where the inequality is; of matrices the largest entry of their product."""
    if _is_inequality(constraint) or _kind(constraint) == "NonNeg":
        return sum(float(np.abs(dual * value).sum()) for dual, value in _pairs(constraint))
    if _kind(constraint) == "PSD":
        return max(_largest(dual @ value) for dual, value in _pairs(constraint))
    return abs(_lagrangian_term(constraint))


def _lagrangian_term(constraint: Any) -> float:
    total = sum(float(np.sum(dual * value)) for dual, value in _pairs(constraint))
    return total if _is_equality(constraint) or _is_inequality(constraint) else -total


def _outside(constraint: Any) -> float:
    """Return how far the multiplier is outside the dual cone; infinity for a cone that is not supported."""
    kind, duals = _kind(constraint), _duals(constraint)
    if _is_inequality(constraint) or kind == "NonNeg":
        excess = float((-duals[0]).max(initial=0.0))
    elif kind == "SOC":
        norms = np.linalg.norm(duals[1], axis=constraint.axis if duals[1].ndim == 2 else None)
        excess = float((norms - duals[0].ravel()).max(initial=0.0))
    elif kind == "PSD":
        excess = -float(np.linalg.eigvalsh((duals[0] + np.swapaxes(duals[0], -1, -2)) / 2.0).min())
    else:
        excess = np.inf
    return max(excess, 0.0)
