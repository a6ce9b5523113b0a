r"""How far the fitted values of an L1 substrate are from those of the exact optimum.

.. math:: \min_{a, b} \; \tfrac12 \|y - K a - b 1\|^2 + \zeta \|a\|_1 \quad \text{s.t.} \quad 1^T a = 0

has the dual :math:`\max_\theta\, y^T \theta - \tfrac12 \|\theta\|^2` over :math:`1^T \theta = 0` and
:math:`|g_i| \le \zeta`, :math:`g = K \theta - \nu 1`. For feasible points with errors e, of any symmetric K,

.. math:: P - Q = \tfrac12 \|e - \theta\|^2 + \sum_i \big(\zeta |a_i| - a_i g_i\big) ,

a sum of terms none of which is negative. The dual point is :math:`\theta = t\, e`, :math:`\nu` midway between the
extreme correlations, and t shrinks it by what they and their rounding exceed zeta; or one step nearer, see
:mod:`~substrate.closed_form.l1_step`. A sum of the coefficients that is
not zero is taken off the largest one, the bias is the best one for a; what both move is added, and so is the distance
of what ``predict`` returns. The plain check settles ordinary fits; the other is done in doubled precision.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from substrate.arrays import EPS, Array
from substrate.certificates.accuracy import ACCURATE, Accuracy, root_mean_square
from substrate.certificates.doubled_precision import add, minus
from substrate.certificates.gap_accuracy import gap_accuracy, power_of_two
from substrate.closed_form.kernel_products import CarefulProducts, PlainProducts
from substrate.closed_form.l1_step import Correlations, stepped_gap

__all__ = ["SparseMachine", "dual_errors", "l1_accuracy"]

#: K x in working or in doubled precision.
Products = CarefulProducts | PlainProducts

FORMULA = "sqrt(|e - theta|^2 + 2 sum(zeta|a| - a g)) + rounding"
_HALF = EPS / 2.0


@dataclass(frozen=True, slots=True)
class SparseMachine:
    """One output as it is stored, a coefficient for every row of the fit, and the values that predict returns."""

    y: Array
    zeta: float
    a: Array
    b: float
    fitted: Array

    def divided(self, unit: float) -> "SparseMachine":
        """The same machine in another unit of y."""
        return SparseMachine(self.y / unit, self.zeta / unit, self.a / unit, self.b / unit, self.fitted / unit)


def l1_accuracy(
    machine: SparseMachine, careful: CarefulProducts, *, tolerance: float = ACCURATE
) -> tuple[Accuracy, bool]:
    """The row for one output, and whether it took doubled precision."""
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
    """The errors that the dual point is made of: a witness for a proof, which need not know how it was found."""
    unit = power_of_two(float(np.ptp(machine.y)))
    return unit * _errors(machine.divided(unit), products)[0]


def _gap(machine: SparseMachine, products: Products) -> tuple[float, float]:
    """The gap, and how far predict is from the feasible point, root mean square."""
    y, zeta, zero, n = machine.y, machine.zeta, np.zeros_like(machine.y), machine.y.size
    e, unsure, a = _errors(machine, products)
    # what predict returns less the values of the feasible point, whose errors are e
    moved = add(add((machine.fitted, zero), (-y, zero)), (e, zero))
    apart = root_mean_square(np.abs(moved[0] + moved[1]) + unsure, np.ones(n))

    left = abs(math.fsum(e))
    (g, low), doubt = products(e)
    g = g + low
    doubt = doubt + EPS * np.abs(g) + products.sizes(np.full(n, left / n))
    top, bottom = float((g + doubt).max()), float((g - doubt).min())
    nu = 0.5 * (top + bottom)
    half = 0.5 * (top - bottom) + 2.0 * EPS * (abs(top) + abs(bottom))
    t = 1.0 if half <= zeta else zeta / half * (1.0 - 2.0 * EPS)
    slack = zeta - t * np.sign(a) * (g - nu) + t * doubt + 4.0 * EPS * (zeta + np.abs(g) + abs(nu))
    between = float((np.abs(a) * np.maximum(slack, 0.0)).sum()) * (1.0 + n * EPS)
    length = float(np.linalg.norm(e))
    known = EPS * length + float(np.linalg.norm(unsure)) + left / math.sqrt(n)
    missed = (1.0 - t) * length + known
    plain = products if isinstance(products, PlainProducts) else products.plain
    stepped = stepped_gap(plain, a, zeta, Correlations(g, doubt, length, known))
    return min(0.5 * missed * missed + between, stepped), apart


def _errors(machine: SparseMachine, products: Products) -> tuple[Array, Array, Array]:
    """Errors of the feasible point, how far rounding may have moved them, and its coefficients."""
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
    unsure += EPS**1.9 * (np.abs(y) + abs(machine.b) + np.abs(product[0]))
    shift = math.fsum(e) / n
    e = e - shift
    unsure = unsure + float(unsure.mean()) + EPS * (np.abs(e) + abs(shift))
    return e, unsure, a
