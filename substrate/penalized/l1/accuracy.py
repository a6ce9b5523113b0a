r"""How far the fitted values of an L1 substrate are from those of the exact optimum.

.. math:: \min_{a, b} \; \tfrac12 \|y - K a - b 1\|^2 + \zeta \|a\|_1 \quad \text{s.t.} \quad 1^T a = 0

has the dual :math:`\max_\theta\, y^T \theta - \tfrac12 \|\theta\|^2` over :math:`1^T \theta = 0` and
:math:`|g_i| \le \zeta`, :math:`g = K \theta - \nu 1`. For feasible points with errors e, of any symmetric K,

.. math:: P - Q = \tfrac12 \|e - \theta\|^2 + \sum_i \big(\zeta |a_i| - a_i g_i\big) ,

a sum of non-negative terms. The dual point is :math:`\theta = t\, e`, :math:`\nu` midway between the extreme
correlations, and t shrinks it by what they and their rounding exceed zeta; or one step nearer, as below. A nonzero sum
of the coefficients is subtracted from the largest one, and the bias is the best one for a; the effect of both is added,
and so is the distance of what ``predict`` returns. The plain check suffices for ordinary fits; the other is done in
doubled precision.

Rounding of the correlations contributes a number of its own size to the gap at :math:`\theta = e`, and its root to the
bound on the answer. One step in the columns in use leads to a nearer dual point. Let A be these columns, and those
whose correlations are at their limit, with signs s; :math:`C = [k_j - \bar k_j]_{j \in A}`. The point

.. math:: \theta = e - C x, \qquad C^T C\, x = \delta, \qquad \delta = K_A^T e - \nu 1 - \zeta s

has the correlations :math:`\nu + \zeta s` on A exactly, so the gap is reduced to half of

.. math:: \|e - \theta\|^2 = \delta^T (C^T C)^{-1} \delta ,

rounding squared, as long as no other column exceeds its limit; otherwise :math:`\theta` is shrunk by the excess. The
point is not computed, only its distance is bounded: with C known up to a matrix of norm :math:`\eta` and of smallest
singular value :math:`\sigma`, the form above has an error of at most a factor :math:`(1 - \eta / \sigma)^{-2}`.

With a ridge, :math:`\tfrac{\tau}{2} a^T K a` in the objective and K positive semi-definite, the dual has one vector
more, z, with :math:`g = K (\theta - \tau z) - \nu 1`, and

.. math:: P - Q = \tfrac12 \|e - \theta\|^2 + \tfrac{\tau}{2} (a - z)^T K (a - z)
          + \sum_i \big(\zeta |a_i| - a_i g_i\big) .

The dual point is :math:`t\, (e, a)`; the step is taken in both, in the rows of :math:`M = [C; \sqrt\tau R]`,
:math:`K_{AA} = R^T R`, and :math:`M^T M = C^T C + \tau K_{AA}` takes the place of :math:`C^T C`. If :math:`K_{AA}` is
known up to :math:`\varepsilon` in norm, the factor is :math:`(1 - 2 \eta/\sigma - \tau \varepsilon/\sigma^2)^{-1}`.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.doubled_precision import add, minus
from substrate.certificates.enclosed import UNIT
from substrate.certificates.rounding import OF_PAIRS, relative_rounding
from substrate.certificates.rows import ACCURATE, Accuracy, gap_accuracy, power_of_two, root_mean_square
from substrate.least_squares.kernel_products import CarefulProducts, PlainProducts

__all__ = ["Correlations", "SparseMachine", "dual_errors", "l1_accuracy", "stepped_gap"]

#: Relative distance from their limit at which columns are taken to be at it.
_NEAR = 1e-6


@dataclass(frozen=True, slots=True)
class Correlations:
    """K theta of the errors and a bound on its rounding, the norm of the errors and a bound on theirs.

    ``moved`` bounds the distance of the errors from those of the feasible point. With a ``ridge``, g is
    K (e - ridge a) and the length that of the errors and of the root of the ridge times w.
    """

    g: Array
    doubt: Array
    length: float
    moved: float
    ridge: float = 0.0


def stepped_gap(plain: PlainProducts, a: Array, zeta: float, known: Correlations) -> float:
    """The smaller of the gaps with and without the columns at their limit; infinite where no step is known."""
    used = a != 0.0
    if not used.any() or not np.isfinite(known.g).all():
        return math.inf
    at = known.g[used] - zeta * np.sign(a[used])
    near = np.abs(np.abs(known.g - float(at.mean())) - zeta) <= _NEAR * zeta
    choices = [used] if not (near & ~used).any() else [used, used | near]
    return min(_gap_after_step(plain, a, zeta, known, np.flatnonzero(some)) for some in choices)


def _gap_after_step(plain: PlainProducts, a: Array, zeta: float, known: Correlations, at_limit: Any) -> float:
    n = plain.matrix.shape[0]
    center = float((known.g - zeta * np.sign(a))[a != 0.0].mean())
    signs = np.where(a == 0.0, np.sign(known.g - center), np.sign(a))[at_limit]
    # equal points have equal correlations: one represents all
    groups = plain.groups(at_limit)
    if any(np.ptp(signs[groups == group]) > 0.0 for group in np.unique(groups)):
        return math.inf
    first = np.unique(groups, return_index=True)[1]
    some, signs = at_limit[first], signs[first]
    tau = known.ridge
    if some.size >= n and tau == 0.0:
        return math.inf
    columns = plain.matrix - plain.matrix.mean(axis=0)
    roots = np.sqrt(np.maximum(np.diagonal(plain.matrix), 0.0))
    # kernel values are within p s_i s_j of the true ones; subtracting the mean rounds a sum of n and a difference
    off = plain.rounding * roots * float(np.linalg.norm(roots)) + relative_rounding(n) * np.linalg.norm(
        plain.matrix, axis=0
    )
    try:
        stacked, apart_by = _with_root(plain, columns[:, some], roots, some, tau)
        _, values, across = np.linalg.svd(stacked, full_matrices=False)
    except np.linalg.LinAlgError:
        return math.inf
    eta = float(np.linalg.norm(off[some])) + relative_rounding(8.0 * n) * float(values[0])
    smallest = float(values[-1])
    if not smallest > 2.0 * eta:
        return math.inf
    sure = 1.0 - eta / smallest
    if tau > 0.0:
        squared = 1.0 - 2.0 * eta / smallest - tau * apart_by / (smallest * smallest)
        if not squared > 0.25:
            return math.inf
        sure = math.sqrt(squared)
    pulls = (across @ np.column_stack([known.g[some] - zeta * signs, np.ones(some.size)])) / values[:, None]
    nu = float(pulls[:, 0] @ pulls[:, 1]) / float(pulls[:, 1] @ pulls[:, 1])
    delta = known.g[some] - nu - zeta * signs
    unsure = known.doubt[some] + relative_rounding(8.0) * (np.abs(known.g[some]) + abs(nu) + zeta)
    step = float(np.linalg.norm((across @ delta) / values)) + 2.0 * float(np.linalg.norm(unsure)) / smallest
    step /= sure
    others = np.ones(n, dtype=bool)
    others[at_limit] = False
    lengths = np.linalg.norm(columns, axis=0) + off
    if tau > 0.0:
        lengths = np.hypot(lengths, math.sqrt(tau * (1.01 + plain.rounding)) * roots)
    reached = np.abs(known.g - nu) + known.doubt + lengths * step + relative_rounding(8.0) * (np.abs(known.g) + abs(nu))
    top = float(reached[others].max(initial=0.0))
    lost = 0.0 if top <= zeta else 1.0 - zeta / top + relative_rounding(2.0)
    apart = known.moved + step + lost * (known.length + step)
    size = zeta * float(np.abs(a).sum()) * (1.0 + relative_rounding(n))
    return float(0.5 * apart * apart + lost * size)


def _with_root(plain: PlainProducts, columns: Array, roots: Array, some: Any, tau: float) -> tuple[Array, float]:
    """M = [C; sqrt(tau) R], and a bound on the distance of R'R from K_AA; C alone without a ridge."""
    if tau == 0.0:
        return columns, 0.0
    values, vectors = np.linalg.eigh(plain.matrix[np.ix_(some, some)])
    R = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    rounded = plain.rounding * float(roots[some] @ roots[some]) + relative_rounding(16.0 * some.size) * float(
        np.abs(values).max()
    )
    return np.vstack([columns, math.sqrt(tau) * R]), rounded + max(0.0, -float(values.min()))


#: K x in working or in doubled precision.
Products = CarefulProducts | PlainProducts

FORMULA = "sqrt(|e - theta|^2 + 2 sum(zeta|a| - a g)) + rounding"
_HALF = UNIT


@dataclass(frozen=True, slots=True)
class SparseMachine:
    """One stored output: one coefficient per row of the fit, and the values that predict returns."""

    y: Array
    zeta: float
    a: Array
    b: float
    fitted: Array
    ridge: float = 0.0

    def divided(self, unit: float) -> "SparseMachine":
        """The same machine in another unit of y, in which the ridge is the same number."""
        inside = (self.zeta / unit, self.a / unit, self.b / unit, self.fitted / unit)
        return SparseMachine(self.y / unit, *inside, self.ridge)


def l1_accuracy(
    machine: SparseMachine, careful: CarefulProducts, *, tolerance: float = ACCURATE
) -> tuple[Accuracy, bool]:
    """The row for one output, and whether doubled precision was needed."""
    finite = all(np.isfinite(part).all() for part in (machine.a, machine.fitted, machine.b))
    plain = _row(machine, careful.plain, FORMULA, tolerance, finite)
    if plain.passes or not finite:
        return plain, False
    other = _row(machine, careful, f"{FORMULA}, in doubled precision", tolerance, finite)
    return min(plain, other, key=lambda row: row.value), True


def _row(machine: SparseMachine, products: Products, formula: str, tolerance: float, finite: bool) -> Accuracy:
    ones = np.ones_like(machine.y)
    if not finite:
        return gap_accuracy(machine.y, ones, math.inf, math.inf, formula, tolerance=tolerance)
    unit = power_of_two(float(np.ptp(machine.y)))
    with np.errstate(over="ignore", invalid="ignore"):
        gap, apart = _gap(machine.divided(unit), products)
    row = gap_accuracy(machine.y, ones, gap, apart, formula, tolerance=tolerance, unit=unit)
    return row if math.isfinite(row.value) else replace(row, value=math.inf)


def dual_errors(machine: SparseMachine, products: Products) -> Array:
    """The errors of which the dual point is made: a witness for a proof, however it was found."""
    unit = power_of_two(float(np.ptp(machine.y)))
    return unit * _errors(machine.divided(unit), products)[0]


def _gap(machine: SparseMachine, products: Products) -> tuple[float, float]:
    """The gap, and the root mean square distance of predict from the feasible point."""
    y, zeta, zero, n = machine.y, machine.zeta, np.zeros_like(machine.y), machine.y.size
    e, unsure, a = _errors(machine, products)
    # what predict returns minus the values of the feasible point, whose errors are e
    moved = add(add((machine.fitted, zero), (-y, zero)), (e, zero))
    apart = root_mean_square(np.abs(moved[0] + moved[1]) + unsure, np.ones(n))

    left = abs(math.fsum(e))
    tau, energy = machine.ridge, 0.0
    (g, low), doubt = products(e if tau == 0.0 else e - tau * a)
    g = g + low
    doubt = doubt + relative_rounding(1.0) * np.abs(g) + products.sizes(np.full(n, left / n))
    if tau > 0.0:
        doubt = doubt + products.sizes(relative_rounding(2.0) * (np.abs(e) + tau * np.abs(a)))
        energy = tau * float(np.abs(a) @ products.sizes(a))  # of w, from above
    top, bottom = float((g + doubt).max()), float((g - doubt).min())
    nu = 0.5 * (top + bottom)
    half = 0.5 * (top - bottom) + relative_rounding(2.0) * (abs(top) + abs(bottom))
    t = 1.0 if half <= zeta else zeta / half * (1.0 - relative_rounding(2.0))
    slack = zeta - t * np.sign(a) * (g - nu) + t * doubt + relative_rounding(4.0) * (zeta + np.abs(g) + abs(nu))
    between = float((np.abs(a) * np.maximum(slack, 0.0)).sum()) * (1.0 + relative_rounding(n))
    length = float(np.linalg.norm(e))
    known = relative_rounding(1.0) * length + float(np.linalg.norm(unsure)) + left / math.sqrt(n)
    missed = (1.0 - t) * length + known
    plain = products if isinstance(products, PlainProducts) else products.plain
    stepped = stepped_gap(plain, a, zeta, Correlations(g, doubt, math.hypot(length, math.sqrt(energy)), known, tau))
    return min(0.5 * missed * missed + 0.5 * (1.0 - t) ** 2 * energy + between, stepped), apart


def _errors(machine: SparseMachine, products: Products) -> tuple[Array, Array, Array]:
    """Errors of the feasible point, a bound on their rounding, and its coefficients."""
    y, a, zero, n = machine.y, machine.a.copy(), np.zeros_like(machine.y), machine.y.size
    product, unsure = products(a)
    rest = add(add((y, zero), minus(product)), (np.full(n, -machine.b), zero))
    excess = math.fsum(a)
    largest = int(np.abs(a).argmax())
    a[largest] -= excess
    taken = np.zeros(n)
    taken[largest] = excess
    e = rest[0] + rest[1]
    unsure = unsure + products.sizes(taken) + _HALF * np.abs(e)
    unsure += OF_PAIRS * (np.abs(y) + abs(machine.b) + np.abs(product[0]))
    shift = math.fsum(e) / n
    e = e - shift
    unsure = unsure + float(unsure.mean()) + relative_rounding(1.0) * (np.abs(e) + abs(shift))
    return e, unsure, a
