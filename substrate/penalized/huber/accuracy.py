r"""How far the fitted values of a Huber LS-SVM are from those of the exact optimum.

Let :math:`f = K \alpha + b 1`, :math:`e = y - f`, :math:`1^T \alpha = 0`,
:math:`D = \operatorname{diag}(1/(\gamma v_i))` and :math:`|\alpha_i| \le \gamma v_i \delta`. The support values are
those of errors :math:`\tilde e`, with :math:`\tilde e_i = D_i \alpha_i` inside the bound and any
:math:`|\tilde e_i| \ge \delta` of the same sign at it, so :math:`(\alpha, b)` is the exact optimum of the targets
:math:`y + r`, :math:`r = \tilde e - e`. Subtracting the optimum of y, with :math:`d = \alpha^\star - \alpha`,

.. math::

    d^T K d + d^T (e^\star - \tilde e) = -d^T r, \qquad d_i (e_i^\star - \tilde e_i) \ge D_i d_i^2

(Huber's slope is clipped and so co-coercive), and therefore, with :math:`\rho = \|D^{-1/2} r\|`,

.. math::

    \|D^{1/2} d\| \le \rho, \qquad \|w - w^\star\|^2 = d^T K d \le \rho^2 / 4, \qquad
    |(f_i - f_j) - (f_i^\star - f_j^\star)| \le \tfrac{\rho}{2} \|\varphi(x_i) - \varphi(x_j)\| .

No term is first order in rounding under a root: where no row is linear it is the bound of the LS-SVM. Rows that
are inside by more than :math:`\rho D_i^{-1/2}` are so at the optimum too, where
:math:`f_i^\star - f_i = -D_i d_i - r_i`, and relate the others to the targets: then the fitted values themselves are
bounded. Where gamma is large a linear row i is bounded more closely by any :math:`c` with :math:`1^T c = 1`,

.. math::

    |f_i - f_i^\star| \le \Big|\sum_j c_j (f_j - f_j^\star)\Big|
    + \tfrac{\rho}{2} \Big\|\varphi(x_i) - \sum_j c_j \varphi(x_j)\Big\| .

Without such rows b may be free within an interval, and the bound is that of the fitted values about their mean.

:func:`bound_huber` is this, over numbers with a radius (:mod:`~substrate.certificates.enclosed`): in doubled precision
the certificate, in balls the proof (:mod:`substrate.proof.duality`).
"""

import math
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.certificates.enclosed import Double, Doubled, Enclosed
from substrate.certificates.rows import Accuracy, power_of_two
from substrate.certificates.tolerance import Tolerance
from substrate.least_squares.kernel_products import CarefulProducts
from substrate.penalized.residual_accuracy import ResidualProducts, balancing_bias, bound_primal, residual_accuracy
from substrate.penalized.residual_bound import ABOUT_MEAN, BoundedKernel, bound_by_residual

__all__ = ["ABOUT_MEAN", "HuberMachine", "bound_huber", "huber_accuracy", "primal_huber_accuracy"]

N = TypeVar("N", bound=Enclosed)

Mask = NDArray[np.bool_]

FORMULA = "||w - w*|| <= ||sqrt(gamma v) (e~ - e)|| / 2, times ||phi - mean||, + rounding"
#: Share of its bound within which the support value of a linear row is taken to be at it; the change is included.
AT_BOUND = 1e-6


@dataclass(frozen=True, slots=True)
class HuberMachine:
    """A stored machine, the data it was fitted to, and the values that predict returns.

    ``diagonal`` holds k(x_i, x_i); ``negative`` bounds the distance of K from positive semi-definite.
    """

    y: Array
    gamma: float
    weights: Array
    delta: float
    a: Array
    b: float
    fitted: Array
    diagonal: Array
    negative: float = 0.0

    @property
    def is_sound(self) -> bool:
        """Whether all stored numbers are finite."""
        return bool(np.isfinite(self.a).all() and np.isfinite(self.fitted).all() and np.isfinite(self.b))

    def in_unit(self, unit: float) -> "HuberMachine":
        """Return the machine in another unit of y, a power of two."""
        y, a, fitted = (array / unit for array in (self.y, self.a, self.fitted))
        return replace(self, y=y, a=a, fitted=fitted, b=self.b / unit, delta=self.delta / unit)


def bound_huber(machine: HuberMachine, numbers: type[N], kernel: BoundedKernel) -> tuple[Any, str]:
    """Bound the distance of the fitted values from those of the exact optimum, and say what it is about.

    Parameters
    ----------
    machine
        What is stored.
    numbers
        The arithmetic: doubled precision or balls.
    kernel
        K in these numbers.
    """
    v, signs = machine.weights, np.sign(machine.a)
    a, strong = numbers.exact(machine.a), numbers.exact(v) * machine.gamma
    product = kernel.products(a)
    # only what cancels needs more than double precision: y - f, and the errors that belong to the support values
    pulls, rough = strong.round(), a.round()
    limit = pulls * machine.delta
    at_bound = _rows_at_bound(machine, limit.midpoint, (machine.y - (product + machine.b)).midpoint)
    free = ~at_bound
    correction = (rough - limit * signs).select(at_bound, 0.0)
    if free.any():
        # the sum that is left is taken off the free rows, in proportion to their weights
        share = rough.exact(np.where(free, v, 0.0))
        correction = correction + share * ((limit * signs).select(at_bound, rough).total() / share.sum())
    f = product.absorb(kernel.small_products(correction)) + machine.b
    e, feasible = machine.y - f, a.absorb(correction)
    r = (feasible / strong - e).round()
    if at_bound.any():
        short = (machine.delta - e).select(signs > 0.0, machine.delta + e)
        r = short.positive_part().select(at_bound, r)
    distance = (machine.fitted - f).bound_norm(v)

    def inside(change: Any) -> Mask:
        return np.asarray(free & (abs(feasible.round()) + change).is_below(limit))

    return bound_by_residual(machine, kernel, pulls, r, distance, inside)


def _rows_at_bound(machine: HuberMachine, limit: Array, e: Array) -> Mask:
    """Choose the rows whose support values are put at their bounds; any choice gives a bound."""
    size, signs = np.abs(machine.a), np.sign(machine.a)
    at_bound = (size > limit) | ((size >= (1.0 - AT_BOUND) * limit) & (signs * e >= machine.delta))
    # unless the sum is zero whatever the bounds are, one row must be free
    if at_bound.all() and math.fsum(signs * machine.weights) != 0.0:
        at_bound[int((np.abs(e) - machine.delta).argmin())] = False
    return np.asarray(at_bound)


def huber_accuracy(machine: HuberMachine, careful: CarefulProducts, tolerance: Tolerance) -> tuple[Accuracy, bool]:
    """Return the row, and whether doubled precision was needed."""
    unit = power_of_two(max(float(np.ptp(machine.y)), machine.delta))

    def bound(kernel: ResidualProducts) -> tuple[float, str]:
        found, about = bound_huber(machine.in_unit(unit), Doubled, kernel)
        return found.upper() * unit, about

    return residual_accuracy(machine, careful, tolerance, FORMULA, bound)


def primal_huber_accuracy(
    R: Array, y: Array, gamma_v: Array, delta: float, w: Array, fitted: Array, tolerance: Tolerance
) -> Accuracy:
    r"""Return the row of a declared problem on K = R R', about the mean of the fitted values.

    Take any b, errors :math:`\tilde e` near :math:`e = y - R w - b 1`, and :math:`\alpha = \gamma v \psi(\tilde e)`,
    with the slope :math:`\psi` of Huber's loss. Where :math:`1^T \alpha = 0`, alpha is dual feasible, and

    .. math:: P - Q = \tfrac12 \|w - R^T \alpha\|^2 + \sum_i \gamma v_i \big(h(e_i) - h(\tilde e_i)
              - \psi(\tilde e_i)(e_i - \tilde e_i)\big)
              \le \tfrac12 \|w - R^T \alpha\|^2 + \tfrac12 \sum_i \gamma v_i (e_i - \tilde e_i)^2 ,

    since the slope is Lipschitz. The errors are the computed ones, but for one row inside its bounds, which takes the
    sum of the multipliers; :math:`\tfrac12 w^T w` is strongly convex in w.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        bound = _bound_primal_huber(R, y, gamma_v, delta, w, fitted).upper()
    return tolerance.row_of_norm(bound, y.size, "||w - R'alpha|| ||R - mean R|| + rounding", ABOUT_MEAN)


def _bound_primal_huber(R: Array, y: Array, gamma_v: Array, delta: float, w: Array, fitted: Array) -> Any:
    """Bound the norm of the distance of the fitted values about their mean from those of the exact optimum."""
    n, rows, pulls = y.size, Double(R), Double(gamma_v)
    values = rows @ w
    rest = y - values.middle
    b = balancing_bias(
        float(rest.min()) - delta,
        float(rest.max()) + delta,
        lambda bias: float((gamma_v * np.clip(rest - bias, -delta, delta)).sum()),
    )
    errors = y - values - b
    clipped = np.clip(errors.middle, -delta, delta)
    alpha = pulls * clipped
    total = alpha.total()
    # the row with most room takes the sum, in its errors
    widest = np.array([int((gamma_v * (delta - np.abs(clipped))).argmax())])
    shift = abs(total) / pulls.take(widest)
    if float(total.sizes) > 0.0 and not (shift + np.abs(clipped[widest])).is_below(Double(delta)).all():
        return Double(math.inf)
    alpha = alpha - total.place(widest, n)
    off = errors.error() + shift.place(widest, n)
    return bound_primal(rows, w, alpha, pulls, off, fitted - values)
