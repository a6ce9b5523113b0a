r"""How far the fitted values of a machine of maximal variation are from those of the exact optimum.

In coordinates (:mod:`substrate.penalized.variation.component_coordinates`) the machine is

.. math:: \min_{v, b} \; \tfrac12 \|y - F v - b 1\|^2 + \tfrac{\tau}{2} \|W v\|^2 + \sum_l \rho_l \|C^l v\|_\infty,
          \qquad F = \sum_l C^l ,

whose dual has :math:`\theta` with :math:`1^T \theta = 0`, multipliers :math:`\|\xi^l\|_1 \le \rho_l` and some z with
:math:`F^T \theta = \sum_l C^{lT} \xi^l + \tau W^T W z`. For feasible points with errors e

.. math:: P - Q = \tfrac12 \|e - \theta\|^2 + \tfrac{\tau}{2} \|W (v - z)\|^2
          + \sum_l \big(\rho_l \|C^l v\|_\infty - \xi^{lT} C^l v\big) ,

a sum of non-negative terms. The multipliers are those that a solver found, shrunk into their balls; e and
v then violate the equation by :math:`q = F^T e - \sum_l C^{lT} \xi^l - \tau W^T W v`, and the nearest
:math:`(\theta, z)` that satisfies it adds :math:`\tfrac12 q^T H^{-1} q`, :math:`H = F^T P F + \tau W^T W = R^T R`. All
this is computed in doubled precision; only rows with a multiplier or near the largest value matter for the last term.

The directions that the cut-off keeps are part of the model as double precision computes them: the bound does not cover
their choice. The values of the components along them are products of kernel values. For kernels of finite rank their
rounding E is covered: it changes q by :math:`\sum_l E^{lT} (e - \xi^l)`, and R by no more than the share
:math:`\|E R^{-1}\|`; where that share is a half, nothing is known. Columns far from zero need this: at an offset of 1e8
what is left of the values of a linear kernel without their mean is rounding. What the kernel's rounding can change in
the values that ``predict`` returns is added, as is the distance of these from the feasible point.

The optimality conditions as certificate rows, for either expansion of the components, are

.. math:: F^T(f - y) + \tau \, \partial(\tfrac12 w^T w) + \nu 1 = \sum_l C^{lT} (\xi^{-l} - \xi^{+l})

with :math:`C^l = \Omega^l` in the coordinates of [Pelckmans2005]_ eq. (27a), whose right-hand side lacks that matrix in
print; the other conditions are rows of :mod:`substrate.ingredients.component_bounds`.

The gap of an exact point is :math:`\sum_l \sum_i |\xi^l_i| (t_l - s_i C^l_i v)`, first order in the rounding of the
differences between rows that share a bound, and the fitted values are known to its root only. These differences are
therefore computed in doubled precision and removed by the shortest step in :math:`u = R v`,

.. math:: \min_{\delta} \|R \delta\| \quad \text{s.t.} \quad
          (s_i C^l_i - s_{ref} C^l_{ref})\, \delta = s_{ref} C^l_{ref} v - s_i C^l_i v .
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from substrate.arrays import EPS, Array
from substrate.certificates import Row
from substrate.certificates.doubled_precision import Pair, add, exact_product, minus
from substrate.certificates.rows import Accuracy, gap_accuracy, power_of_two, root_mean_square
from substrate.ingredients.component_bounds import variation_rows
from substrate.ingredients.component_weights import Weights, each_weight, per_row
from substrate.penalized.variation.active_rows import VariationSolution
from substrate.penalized.variation.component_coordinates import ComponentCoordinates, centred

__all__ = [
    "VariationWitness",
    "refined_witness",
    "shrunk",
    "solution_rows",
    "stationarity_row",
    "trivial_cost",
    "variation_accuracy",
    "variation_unit",
]

FORMULA = "sqrt(|R^-T q|^2 + 2 sum(rho |C v|_max - xi'C v)) + rounding"


@dataclass(frozen=True, slots=True)
class VariationWitness:
    """A point in coordinates and net multipliers xi^+ - xi^- (one row per component), from any method."""

    v: Array
    xi: Array


def variation_accuracy(
    coordinates: ComponentCoordinates,
    y: Array,
    rho: Weights,
    witness: VariationWitness,
    fitted: Array,
    rounded: Array,
    *,
    tolerance: float,
    unsure_parts: Array | None = None,
) -> Accuracy:
    """The row; ``fitted`` is what predict returns, ``rounded`` the effect of the kernel's rounding on it.

    ``unsure_parts`` bounds the effect of that rounding on the values of the components along the directions.
    """
    ones, unit = np.ones_like(y), power_of_two(float(np.ptp(y)))
    gap = apart = math.inf
    if np.isfinite(fitted).all() and np.isfinite(witness.v).all() and np.isfinite(witness.xi).all():
        with np.errstate(over="ignore", invalid="ignore"):
            point = VariationWitness(witness.v / unit, witness.xi / unit)
            center = float(np.clip(y.mean(), y.min(), y.max()))
            gap, values, unsure = _gap(coordinates, (y - center) / unit, rho / unit, point, unsure_parts)
            moved = np.abs((fitted - center) / unit - values) + unsure + rounded / unit
            apart = root_mean_square(moved + EPS * (np.abs(y - center) + abs(center)) / unit, ones)
    if not (math.isfinite(gap) and math.isfinite(apart)):
        gap = apart = math.inf
    return gap_accuracy(y, ones, gap, apart, FORMULA, tolerance=tolerance, unit=unit)


def shrunk(xi: Array, rho: Weights) -> Array:
    """The multipliers of every component, shrunk where they leave their ball."""
    sizes = np.array([math.fsum(np.abs(one)) for one in xi])
    factors = np.where(sizes > rho, rho / np.maximum(sizes, np.maximum(rho, 1e-300)) * (1.0 - 4.0 * EPS), 1.0)
    return np.asarray(xi * factors[:, None])


def _gap(
    coordinates: ComponentCoordinates,
    y: Array,
    rho: Weights,
    witness: VariationWitness,
    unsure_parts: Array | None = None,
) -> tuple[float, Array, Array]:
    """The gap, the fitted values of the feasible point, and a bound on their rounding."""
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
    if unsure_parts is not None:
        # C + E in place of C: q changes by E'(e - xi), and R by no more than the share of E R^-1
        inverse = np.abs(solve_triangular(R, np.eye(r)))
        share = float(np.linalg.norm(unsure_parts.sum(axis=0) @ inverse))
        if not share < 0.5:
            return math.inf, whole, unsure
        pulled = np.einsum("lnr,ln->r", unsure_parts, np.abs(e - xi))
        missed = (missed + float(np.linalg.norm(inverse.T @ pulled))) / (1.0 - share)
    between = sum(
        _complementarity(parts[part], v, xi[part], weight, values[part], slip[part])
        for part, weight in enumerate(each_weight(rho, d))
    )
    return 0.5 * missed * missed + between, whole + shift, unsure


def _unmet(coordinates: ComponentCoordinates, theta: Array, xi: Array, v: Array) -> Array:
    """q = sum_l C^l'(theta - xi^l) - tau W'W v, in doubled precision."""
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
    """rho max|C v| - xi'C v of one component, an upper bound; never negative."""
    largest = float((np.abs(values) + slip).max())
    (rows,) = np.nonzero((np.abs(values) + slip >= float((np.abs(values) - slip).max())) | (xi != 0.0))
    (high, low), error = exact_product(np.ascontiguousarray(part[rows]), v)
    signs, weights = np.sign(xi[rows]), np.abs(xi[rows])
    # the largest value as a pair: its distance from every other one is then accurate enough
    top = int(np.lexsort((np.sign(high) * low, np.abs(high)))[-1])
    sign = 1.0 if high[top] >= 0.0 else -1.0
    behind = (sign * high[top] - signs * high) + (sign * low[top] - signs * low)
    behind = np.maximum(behind, 0.0) + float(error.max()) + error + 2.0 * EPS * np.abs(behind)
    left = max(rho - math.fsum(weights), 0.0) + 2.0 * EPS * rho
    slack = left * largest + float(weights @ behind)
    return slack * (1.0 + rows.size * EPS)


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
    coordinates: ComponentCoordinates, y: Array, rho: Weights, solved: VariationSolution, tolerance: float
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


_STEPS = 3
#: Share of rho above which a multiplier implies that its row is at its bound.
_ACTIVE = 1e-9
#: Relative size of directions of the rows that are left unchanged.
_DEPENDENT = 1e-12


def refined_witness(coordinates: ComponentCoordinates, witness: VariationWitness, rho: Weights) -> VariationWitness:
    """The same multipliers with a point whose active rows agree more closely."""
    parts, R, xi = coordinates.parts, coordinates.metric, witness.xi
    sizable = np.abs(xi) > _ACTIVE * per_row(rho)
    rows: list[Array] = []
    signs: list[float] = []
    references: list[int] = []
    for part in range(parts.shape[0]):
        (active,) = np.nonzero(sizable[part])
        if active.size > 1:
            start = len(rows)
            order = active[np.argsort(-np.abs(xi[part, active]), kind="stable")]
            rows += [parts[part, row] for row in order]
            signs += np.sign(xi[part, order]).tolist()
            references += [start] * order.size
    if not rows:
        return witness
    signed = np.array(signs)[:, None] * np.array(rows)
    reference = np.array(references)
    (others,) = np.nonzero(reference != np.arange(reference.size))
    differences = signed[others] - signed[reference[others]]
    along = np.asarray(solve_triangular(R, differences.T, trans="T").T)
    v = witness.v
    for _ in range(_STEPS):
        (high, low), _ = exact_product(signed, v)
        apart = (high[reference[others]] - high[others]) + (low[reference[others]] - low[others])
        if not np.isfinite(apart).all() or not apart.any():
            break
        step: Array = np.linalg.lstsq(along, apart, rcond=_DEPENDENT)[0]
        v = v + np.asarray(solve_triangular(R, step))
    return VariationWitness(v, xi)
