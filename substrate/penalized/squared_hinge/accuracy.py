r"""How far the decision values of a 2-norm SVM are from those of the exact optimum.

Let :math:`f = K a + b 1`, :math:`a = y \circ \alpha`, :math:`\alpha \ge 0`, :math:`1^T a = 0` and the slack
:math:`s_i = 1 - y_i f_i`. The support values are those of slacks :math:`\tilde s_i = \alpha_i / (\gamma v_i)` where
:math:`\alpha_i > 0` and of any :math:`\tilde s_i \le 0` where :math:`\alpha_i = 0`, so that the machine is the exact
optimum of margins :math:`1 + r_i`, with

.. math:: r_i = \begin{cases} \alpha_i / (\gamma v_i) - s_i & \alpha_i > 0 \\ -\max(0, s_i) & \alpha_i = 0 \end{cases}

The slope :math:`\alpha = \gamma v \max(0, s)` is co-coercive, as Huber's is, and the rest is the bound of
:mod:`substrate.penalized.residual_bound`. A row whose :math:`\alpha_i` is larger than what it can change by is in the
support of the optimum too. :func:`bound_squared_hinge` is this, over numbers with a radius: in doubled precision the
certificate, in balls the proof.
"""

import math
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.certificates.enclosed import Double, Doubled, Enclosed
from substrate.certificates.rows import Accuracy
from substrate.certificates.tolerance import Tolerance
from substrate.least_squares.kernel_products import CarefulProducts
from substrate.penalized.residual_accuracy import ResidualProducts, balancing_bias, bound_primal, residual_accuracy
from substrate.penalized.residual_bound import ABOUT_MEAN, BoundedKernel, bound_by_residual

__all__ = ["HingeMachine", "bound_squared_hinge", "hinge_accuracy", "primal_hinge_accuracy"]

N = TypeVar("N", bound=Enclosed)
FORMULA = "||w - w*|| <= ||sqrt(gamma v) (s~ - s)|| / 2, times ||phi - mean||, + rounding"
#: Support values at least this share of the largest slack away from zero take what their sum lacks to zero.
_LARGE = 0.5


@dataclass(frozen=True, slots=True)
class HingeMachine:
    """A stored machine, the labels -1 and +1 it was fitted to, and the decision values that predict uses.

    ``a`` are the coefficients y alpha, exact zeros outside of the support; ``diagonal`` holds k(x_i, x_i).
    """

    y: Array
    gamma: float
    weights: Array
    a: Array
    b: float
    fitted: Array
    diagonal: Array
    negative: float = 0.0

    @property
    def is_sound(self) -> bool:
        """Whether all numbers are finite and every support value has its sign."""
        finite = np.isfinite(self.a).all() and np.isfinite(self.fitted).all() and np.isfinite(self.b)
        return bool(finite and (self.y * self.a >= 0.0).all())


def bound_squared_hinge(machine: HingeMachine, numbers: type[N], kernel: BoundedKernel) -> tuple[Any, str]:
    """Bound the distance of the decision values from those of the exact optimum, and say what it is about."""
    v, y = machine.weights, machine.y
    a, strong = numbers.exact(machine.a), numbers.exact(v) * machine.gamma
    product = kernel.products(a)
    pulls, rough = strong.round(), a.round()
    is_support = machine.a != 0.0
    slack = y * machine.a / v
    large = is_support & (slack >= _LARGE * slack.max(initial=0.0))
    correction = numbers.exact(np.zeros(y.size)).round()
    if large.any():
        share = rough.exact(np.where(large, v, 0.0))
        correction = share * (rough.total() / share.sum())
        if not abs(correction).is_below(abs(rough))[large].all():
            return numbers.exact(math.inf), ABOUT_MEAN
    f = product.absorb(kernel.small_products(correction)) + machine.b
    feasible, e = a.absorb(correction), y - f
    r = (feasible / strong - e).round()
    if not is_support.all():
        r = (e * y).round().positive_part().select(~is_support, r)
    distance = (machine.fitted - f).bound_norm(v)

    def inside(change: Any) -> NDArray[np.bool_]:
        return np.asarray(is_support & change.is_below(abs(feasible.round())))

    return bound_by_residual(machine, kernel, pulls, r, distance, inside)


def hinge_accuracy(machine: HingeMachine, careful: CarefulProducts, tolerance: Tolerance) -> tuple[Accuracy, bool]:
    """Return the row, and whether doubled precision was needed."""

    def bound(kernel: ResidualProducts) -> tuple[float, str]:
        found, about = bound_squared_hinge(machine, Doubled, kernel)
        return found.upper(), about

    return residual_accuracy(machine, careful, tolerance, FORMULA, bound)


def primal_hinge_accuracy(
    R: Array, y: Array, gamma_v: Array, w: Array, fitted: Array, tolerance: Tolerance
) -> Accuracy:
    r"""Return the row of a declared problem on K = R R', about the mean of the decision values.

    Take any b, slacks :math:`\tilde s` near :math:`s = 1 - y \circ (R w + b 1)` and :math:`\alpha = \gamma v \max(0,
    \tilde s)`. Where :math:`y^T \alpha = 0`, alpha is dual feasible, and since the slope is Lipschitz

    .. math:: P - Q \le \tfrac12 \|w - R^T (y \circ \alpha)\|^2 + \tfrac12 \sum_i \gamma v_i (s_i - \tilde s_i)^2 .

    The slacks are the computed ones, but for that of the row with the largest support value, which takes the sum.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        bound = _bound_primal_hinge(R, y, gamma_v, w, fitted).upper()
    return tolerance.row_of_norm(bound, y.size, "||w - R'(y alpha)|| ||R - mean R|| + rounding", ABOUT_MEAN)


def _bound_primal_hinge(R: Array, y: Array, gamma_v: Array, w: Array, fitted: Array) -> Any:
    """Bound the norm of the distance of the decision values about their mean from those of the exact optimum."""
    n, rows, pulls = y.size, Double(R), Double(gamma_v)
    values = rows @ w
    reach = 2.0 * (1.0 + float(np.abs(values.middle).max(initial=0.0)))
    b = balancing_bias(
        -reach, reach, lambda bias: float((gamma_v * y * np.maximum(1.0 - y * (values.middle + bias), 0.0)).sum())
    )
    slack = 1.0 - (values + b) * y
    positive = np.maximum(slack.middle, 0.0)
    a = pulls * (y * positive)
    total = a.total()
    largest = np.array([int((gamma_v * positive).argmax())])
    shift = abs(total) / pulls.take(largest)
    if not shift.is_below(Double(positive[largest])).all():
        return Double(math.inf)
    a = a - total.place(largest, n)
    off = slack.error() + shift.place(largest, n)
    return bound_primal(rows, w, a, pulls, off, fitted - values)
