r"""Optimality of any convex problem, checked from its own numbers.

For :math:`\min f_0(x)` subject to :math:`g(x) \le 0`, :math:`h(x) = 0` with multipliers :math:`\lambda, \nu`, a
feasible x is optimal when :math:`\lambda \ge 0`, :math:`\lambda^T g(x) = 0` and x minimises the Lagrangian

.. math:: L(x) = f_0(x) + \lambda^T g(x) + \nu^T h(x)

([Boyd2004]_ section 5.5.3). L is convex, so x minimises it exactly when no direction leads down; that is tried, on both
sides of each, along random directions and along every variable by itself, by finite differences that also see kinks.
"""

from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row

__all__ = ["constraint_rows", "stationarity_row"]

_DIRECTIONS = 12
_STEP = 1e-7


def constraint_rows(constraints: list[Any], names: list[str], value: float, tolerance: float) -> tuple[Row, ...]:
    """Feasibility, sign and complementarity of each constraint at its current values."""
    rows: list[Row] = []
    for constraint, name in zip(constraints, names, strict=True):
        sides = [np.asarray(side.value, dtype=np.float64) for side in constraint.args if side.value is not None]
        scale = 1.0 + sum(float(np.abs(side).max(initial=0.0)) for side in sides)
        violation = float(np.max(np.abs(constraint.violation()), initial=0.0))
        rows.append(Row(f"{name}: feasible", violation, scale, tolerance, "largest violation"))
        if _is_inequality(constraint):
            dual, slack = _dual(constraint), np.asarray(constraint.expr.value, dtype=np.float64)
            size = float(np.abs(dual).max(initial=0.0))
            # a multiplier counts by what it adds to the objective
            weight = (abs(value) + 1.0) / scale
            rows.append(
                Row(f"{name}: sign", float(max(-dual.min(initial=0.0), 0.0)), size + weight, tolerance, "max(-lambda)")
            )
            product = float(np.abs(dual * slack).sum())
            rows.append(Row(f"{name}: slackness", product, abs(value) + 1.0, tolerance, "sum |lambda g|"))
        elif not _is_equality(constraint):
            rows.append(Row(f"{name}: sign", np.inf, 1.0, tolerance, "unknown for this kind of constraint"))
    return tuple(rows)


def stationarity_row(objective: Any, constraints: list[Any], variables: list[Any], tolerance: float) -> Row:
    """The steepest way down the Lagrangian from the current point, against the sizes of its terms."""
    point = [np.asarray(variable.value, dtype=np.float64) for variable in variables]
    duals = [_dual(constraint) for constraint in constraints]

    def lagrangian(values: list[Array]) -> tuple[float, float]:
        for variable, value in zip(variables, values, strict=True):
            variable.save_value(value)
        terms = [float(objective.value)]
        terms += [float(np.sum(dual * np.asarray(c.expr.value))) for dual, c in zip(duals, constraints, strict=True)]
        return sum(terms), sum(abs(term) for term in terms)

    if not all(_is_equality(c) or _is_inequality(c) for c in constraints):
        return Row("Lagrangian stationarity", np.inf, 1.0, tolerance, "unknown for these constraints")
    rng = np.random.default_rng(0)
    try:
        here, scale = lagrangian(point)
        steepest = 0.0
        for move in _directions(point, rng):
            for side in (1.0, -1.0):
                there, _ = lagrangian([x + side * _STEP * d for x, d in zip(point, move, strict=True)])
                steepest = max(steepest, (here - there) / _STEP)
    finally:
        for variable, value in zip(variables, point, strict=True):
            variable.save_value(value)
    return Row("Lagrangian stationarity", steepest, scale + 1e-300, tolerance, "steepest descent of L, finite check")


def _directions(point: list[Array], rng: np.random.Generator) -> list[list[Array]]:
    sizes = [max(float(np.abs(x).max(initial=0.0)), 1e-12) for x in point]
    every = [[s * rng.standard_normal(x.shape) for x, s in zip(point, sizes, strict=True)] for _ in range(_DIRECTIONS)]
    for k, (x, size) in enumerate(zip(point, sizes, strict=True)):
        alone = [np.zeros(other.shape) for other in point]
        alone[k] = size * rng.standard_normal(x.shape)
        shrink = [np.zeros(other.shape) for other in point]
        shrink[k] = x.copy()  # towards zero and away from it: where norms bend
        every += [alone, shrink]
    return every


def _dual(constraint: Any) -> Array:
    return np.asarray(constraint.dual_value, dtype=np.float64)


def _is_equality(constraint: Any) -> bool:
    return type(constraint).__name__ in ("Equality", "Zero")


def _is_inequality(constraint: Any) -> bool:
    return type(constraint).__name__ in ("Inequality", "NonPos")
