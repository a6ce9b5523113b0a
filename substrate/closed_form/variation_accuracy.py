r"""How far the fitted values of a machine of maximal variation are from those of the exact optimum.

In coordinates (:mod:`substrate.closed_form.component_coordinates`) the machine is

.. math:: \min_{v, b} \; \tfrac12 \|y - F v - b 1\|^2 + \tfrac{\tau}{2} \|W v\|^2 + \rho \sum_l \|C^l v\|_\infty,
          \qquad F = \sum_l C^l ,

whose dual has :math:`\theta` with :math:`1^T \theta = 0`, multipliers :math:`\|\xi^l\|_1 \le \rho` and some z with
:math:`F^T \theta = \sum_l C^{lT} \xi^l + \tau W^T W z`. For feasible points with errors e

.. math:: P - Q = \tfrac12 \|e - \theta\|^2 + \tfrac{\tau}{2} \|W (v - z)\|^2
          + \sum_l \big(\rho \|C^l v\|_\infty - \xi^{lT} C^l v\big) ,

a sum of terms none of which is negative. The multipliers are those that a solver found, shrunk into their balls; e and
v then miss the equation by :math:`q = F^T e - \sum_l C^{lT} \xi^l - \tau W^T W v`, and the nearest
:math:`(\theta, z)` that meets it costs :math:`\tfrac12 q^T H^{-1} q`, :math:`H = F^T P F + \tau W^T W = R^T R`. All
this is found in doubled precision; only rows with a multiplier or near the largest value matter for the last term.

The directions that the cut-off keeps, and the values of the components along them, are part of the model as double
precision computes them: a direction is kept or left out, and no bound crosses that line. What the kernel's rounding can
move of the values that ``predict`` returns is added, as is the distance of these from the feasible point.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from substrate.arrays import EPS, Array
from substrate.certificates.accuracy import Accuracy, root_mean_square
from substrate.certificates.doubled_precision import Pair, add, exact_product, minus
from substrate.certificates.gap_accuracy import gap_accuracy, power_of_two
from substrate.closed_form.component_coordinates import ComponentCoordinates

__all__ = ["VariationWitness", "shrunk", "variation_accuracy"]

FORMULA = "sqrt(|R^-T q|^2 + 2 sum(rho |C v|_max - xi'C v)) + rounding"


@dataclass(frozen=True, slots=True)
class VariationWitness:
    """A point in coordinates and net multipliers xi^+ - xi^- (one row per component), from whatever found them."""

    v: Array
    xi: Array


def variation_accuracy(
    coordinates: ComponentCoordinates,
    y: Array,
    rho: float,
    witness: VariationWitness,
    fitted: Array,
    rounded: Array,
    *,
    tolerance: float,
) -> Accuracy:
    """The row; ``fitted`` is what predict returns, ``rounded`` how far the kernel's rounding can move it."""
    ones, unit = np.ones_like(y), power_of_two(float(np.ptp(y)))
    gap = apart = math.inf
    if np.isfinite(fitted).all() and np.isfinite(witness.v).all() and np.isfinite(witness.xi).all():
        with np.errstate(over="ignore", invalid="ignore"):
            point = VariationWitness(witness.v / unit, witness.xi / unit)
            center = float(np.clip(y.mean(), y.min(), y.max()))
            gap, values, unsure = _gap(coordinates, (y - center) / unit, rho / unit, point)
            moved = np.abs((fitted - center) / unit - values) + unsure + rounded / unit
            apart = root_mean_square(moved + EPS * (np.abs(y - center) + abs(center)) / unit, ones)
    if not (math.isfinite(gap) and math.isfinite(apart)):
        gap = apart = math.inf
    return gap_accuracy(y, ones, gap, apart, FORMULA, tolerance=tolerance, unit=unit)


def shrunk(xi: Array, rho: float) -> Array:
    """The multipliers of every component, less where they leave their ball."""
    sizes = np.array([math.fsum(np.abs(one)) for one in xi])
    factors = np.where(sizes > rho, rho / np.maximum(sizes, max(rho, 1e-300)) * (1.0 - 4.0 * EPS), 1.0)
    return np.asarray(xi * factors[:, None])


def _gap(
    coordinates: ComponentCoordinates, y: Array, rho: float, witness: VariationWitness
) -> tuple[float, Array, Array]:
    """The gap, the fitted values of the feasible point, and how far rounding may have moved those."""
    parts, R, v = coordinates.parts, coordinates.metric, witness.v
    d, n, r = parts.shape
    xi = shrunk(witness.xi, rho)
    values = parts @ v
    lengths = np.sqrt(np.einsum("lnr,lnr->ln", parts, parts))
    size = lengths * float(np.linalg.norm(v))
    slip = (r + 2.0) * EPS * size
    whole = values.sum(axis=0)
    e = y - whole
    shift = float(e.mean())
    e = e - shift
    unsure = (slip + d * EPS * np.abs(values)).sum(axis=0) + 4.0 * n * EPS * float(np.abs(y).max() + size.sum(0).max())
    missed = float(np.linalg.norm(unsure)) + abs(math.fsum(e)) / math.sqrt(n)
    missed += 4.0 * EPS * math.sqrt(coordinates.ridge) * float(np.linalg.norm(coordinates.weights @ v))
    q = _unmet(coordinates, e, xi, v)
    singular = np.linalg.svd(R, compute_uv=False)
    trust = 10.0 * (n + r) * EPS * float(singular[0]) / max(float(singular[-1]), 1e-300)
    if not trust < 1e-2:
        return math.inf, whole, unsure
    missed += float(np.linalg.norm(solve_triangular(R, q, trans="T"))) * (1.0 + 4.0 * trust)
    between = sum(_complementarity(parts[part], v, xi[part], rho, values[part], slip[part]) for part in range(d))
    return 0.5 * missed * missed + between, whole + shift, unsure


def _unmet(coordinates: ComponentCoordinates, theta: Array, xi: Array, v: Array) -> Array:
    """q = sum_l C^l'(theta - xi^l) - tau W'W v, of these very numbers, in doubled precision."""
    r = v.size
    total: Pair = (np.zeros(r), np.zeros(r))
    for part, pulls in zip(coordinates.parts, xi, strict=True):
        columns = np.ascontiguousarray(part.T)
        total = add(total, exact_product(columns, theta)[0])
        (rows,) = np.nonzero(pulls)
        if rows.size:
            total = add(total, minus(exact_product(np.ascontiguousarray(columns[:, rows]), pulls[rows])[0]))
    if coordinates.ridge > 0.0:
        W = coordinates.weights
        (high, low), _ = exact_product(W, coordinates.ridge * v)
        pull = add(exact_product(np.ascontiguousarray(W.T), high)[0], (W.T @ low, np.zeros(r)))
        total = add(total, minus(pull))
    return np.asarray(total[0] + total[1])


def _complementarity(part: Array, v: Array, xi: Array, rho: float, values: Array, slip: Array) -> float:
    """rho max|C v| - xi'C v of one component, from above; never negative."""
    largest = float((np.abs(values) + slip).max())
    (rows,) = np.nonzero((np.abs(values) + slip >= float((np.abs(values) - slip).max())) | (xi != 0.0))
    (high, low), error = exact_product(np.ascontiguousarray(part[rows]), v)
    signs, weights = np.sign(xi[rows]), np.abs(xi[rows])
    # the largest value as a pair: its distance from every other one is then exact enough
    top = int(np.lexsort((np.sign(high) * low, np.abs(high)))[-1])
    sign = 1.0 if high[top] >= 0.0 else -1.0
    behind = (sign * high[top] - signs * high) + (sign * low[top] - signs * low)
    behind = np.maximum(behind, 0.0) + float(error.max()) + error + 2.0 * EPS * np.abs(behind)
    left = max(rho - math.fsum(weights), 0.0) + 2.0 * EPS * rho
    slack = left * largest + float(weights @ behind)
    return slack * (1.0 + rows.size * EPS)
