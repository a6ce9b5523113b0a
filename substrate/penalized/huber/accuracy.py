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
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import EPS, Array
from substrate.certificates.doubled_precision import add, minus
from substrate.certificates.rows import (
    ACCURATE,
    UNPOLISHED,
    Accuracy,
    distance_row,
    page_row,
    power_of_two,
    root_mean_square,
)
from substrate.least_squares.kernel_products import CarefulProducts, KernelProducts, PlainProducts

__all__ = ["ABOUT_MEAN", "AT_BOUND", "HuberMachine", "huber_accuracy", "primal_huber_accuracy"]

Mask = NDArray[np.bool_]

FORMULA = "||w - w*|| <= ||sqrt(gamma v) (e~ - e)|| / 2, times ||phi - mean||, + rounding"
ABOUT_MEAN = "fitted values about their mean"
#: Share of its bound within which the support value of a linear row is taken to be at it; the change is included.
AT_BOUND = 1e-6


@dataclass(frozen=True, slots=True)
class HuberMachine:
    """A stored machine, the data it was fitted to, and the values that predict returns.

    ``diagonal`` holds k(x_i, x_i); ``negative`` bounds the distance of K from positive semi-definite.
    """

    y: Array
    ridge: Array
    delta: float
    a: Array
    b: float
    fitted: Array
    diagonal: Array
    negative: float = 0.0

    @property
    def weights(self) -> Array:
        """v up to a factor."""
        return np.asarray(self.ridge.min() / self.ridge)

    @property
    def finite(self) -> bool:
        """Whether all stored numbers are finite."""
        return bool(np.isfinite(self.a).all() and np.isfinite(self.fitted).all() and np.isfinite(self.b))


def huber_accuracy(
    machine: HuberMachine, careful: CarefulProducts, *, tolerance: float = ACCURATE
) -> tuple[Accuracy, bool]:
    """The row, and whether doubled precision was needed."""
    plain = _row(machine, careful.plain, FORMULA, tolerance)
    if plain.passes or not machine.finite:
        return plain, False
    other = _row(machine, careful, f"{FORMULA}, in doubled precision", tolerance, careful.plain)
    return min(plain, other, key=lambda row: row.value), True


def _row(
    machine: HuberMachine, products: KernelProducts, formula: str, tolerance: float, ties: PlainProducts | None = None
) -> Accuracy:
    bound, about = math.inf, ABOUT_MEAN
    if machine.finite and machine.negative < machine.ridge.min():
        unit = power_of_two(max(float(np.ptp(machine.y)), machine.delta))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            bound, about = _bound(machine, products, unit, ties)
        bound *= unit
    return distance_row(machine.y, machine.weights, bound, formula, tolerance=tolerance, about=about)


def _bound(
    machine: HuberMachine, products: KernelProducts, unit: float, ties: PlainProducts | None
) -> tuple[float, str]:
    y, a, b, delta = machine.y / unit, machine.a / unit, machine.b / unit, machine.delta / unit
    ridge, v, zero = machine.ridge, machine.weights, np.zeros_like(y)
    s = np.sqrt(np.maximum(machine.diagonal, 0.0))
    product, unsure = products(a)
    f = add(product, (np.full_like(y, b), zero))
    rest = add((y, zero), minus(f))
    e = rest[0] + rest[1]

    at_bound, moved, free = _made_feasible(a, e, ridge, v, delta)
    pull = 1.01 * float(s @ moved)
    unsure = 1.01 * (unsure + s * pull + EPS * np.abs(e) + EPS**1.9 * (np.abs(y) + np.abs(f[0])))
    missed = np.where(at_bound, np.maximum(delta - np.sign(a) * e, 0.0), np.abs(ridge * a - e) + ridge * moved)
    missed = missed + unsure + 4.0 * EPS * np.where(at_bound, delta, np.abs(ridge * a))
    stiff = ridge - machine.negative
    rho = float(np.linalg.norm(missed / np.sqrt(stiff)))
    apart = add((machine.fitted / unit, zero), minus(f))
    distance = root_mean_square(np.abs(apart[0] + apart[1]) + unsure, v)

    # rows that are inside at the optimum too
    change = rho / np.sqrt(stiff)
    inside = free & (np.abs(a) + moved + change < (1.0 - 4.0 * EPS) * delta / ridge)
    anchors = inside if inside.any() else np.ones_like(inside)
    c = np.where(anchors, v, 0.0)
    c = c / c.sum()
    spreads = _spreads(products, machine.diagonal, s, c) + np.sqrt(machine.negative)
    apart_of_w = (0.5 * rho + pull) * spreads + machine.negative * (change + float(c @ change))
    if not inside.any():
        return 2.0 * root_mean_square(apart_of_w, v) + distance, ABOUT_MEAN
    near = missed + ridge * change
    # in the norm of the weights the errors of the rows inside are at most twice ||r||, and so is their mean
    mass = float(v[inside].sum())
    norm = math.sqrt(float(ridge.min()))  # from D^-1 to the shares v
    both = norm * (rho + float(np.linalg.norm((missed / np.sqrt(stiff))[inside])))
    mean = both / math.sqrt(mass)
    other = np.where(inside, 0.0, apart_of_w + mean)
    if ties is not None and machine.negative == 0.0 and not inside.all():
        (linear,) = np.nonzero(~inside)
        (tied,) = np.nonzero(inside)
        size, spread = _kriged(ties, ridge, s, linear, tied)
        other[linear] = np.minimum(other[linear], size * both / norm + (0.5 * rho + pull) * spread)
    total = math.hypot(both / math.sqrt(float(v.sum())), root_mean_square(other, v))
    return min(total, root_mean_square(np.where(inside, near, other), v)) + distance, "fitted values"


def _made_feasible(a: Array, e: Array, ridge: Array, v: Array, delta: float) -> tuple[Mask, Array, Mask]:
    """Rows put at their bounds, how far each support value moves to be feasible, and the rows that are free."""
    limit = delta / ridge
    at_bound = (np.abs(a) > limit) | ((np.abs(a) >= (1.0 - AT_BOUND) * limit) & (np.sign(a) * e >= delta))
    moved = np.where(at_bound, np.abs(np.abs(a) - limit) + 4.0 * EPS * limit, 0.0)
    signs = np.sign(a)
    if at_bound.all() and math.fsum(signs * v) == 0.0:  # the sum is zero whatever the bounds are
        return at_bound, moved, ~at_bound
    if at_bound.all():
        at_bound[int((np.abs(e) - delta).argmin())] = False
    free = ~at_bound
    excess = abs(math.fsum(np.where(at_bound, signs * limit, a))) + 4.0 * EPS * float(limit[at_bound].sum())
    share = np.where(free, v, 0.0)
    return at_bound, moved + excess * share / share.sum(), free


def _spreads(products: KernelProducts, diagonal: Array, s: Array, c: Array) -> Array:
    """||phi(x_i) - sum_j c_j phi(x_j)||, from above."""
    (high, _), unsure = products(c)
    size = float(s @ c)
    squares = diagonal - 2.0 * high + float(c @ high)
    error = 3.0 * unsure + float(unsure @ c) + 4.0 * c.size * EPS * (s + size) ** 2
    return np.asarray(np.sqrt(np.maximum(squares, 0.0) + error))


def _kriged(
    ties: PlainProducts, ridge: Array, s: Array, linear: NDArray[np.intp], tied: NDArray[np.intp]
) -> tuple[Array, Array]:
    """||D^1/2 c|| and ||phi(x_i) - sum_j c_j phi(x_j)||, from above, for good weights c of each linear row."""
    n, K, across = tied.size, ties.matrix[np.ix_(tied, tied)], ties.matrix[np.ix_(tied, linear)]
    bordered = np.block([[K + np.diag(16.0 * ridge[tied]), np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    try:
        c = np.linalg.solve(bordered, np.vstack([across, np.ones((1, linear.size))]))[:n]
    except np.linalg.LinAlgError:
        return np.full(linear.size, np.inf), np.full(linear.size, np.inf)
    c = c + (1.0 - c.sum(axis=0)) / n
    squares = s[linear] ** 2 - 2.0 * (c * across).sum(axis=0) + (c * (K @ c)).sum(axis=0)
    sizes = s[linear] + s[tied] @ np.abs(c)
    error = (2.0 * ties.rounding + 4.0 * n * EPS) * sizes**2
    # the sum is one up to rounding, which b absorbs; with more than a little of it the weights are useless
    slack = 4.0 * n * EPS * (1.0 + np.abs(c).sum(axis=0))
    spread = np.sqrt(np.maximum(squares, 0.0) + 1.01 * error) + slack * float(s.max())
    spread[slack > 1e-3] = np.inf
    return np.asarray(1.01 * np.sqrt((ridge[tied, None] * c**2).sum(axis=0))), np.asarray(spread)


def primal_huber_accuracy(
    R: Array, y: Array, gamma_v: Array, delta: float, w: Array, fitted: Array, tolerance: float = UNPOLISHED
) -> Accuracy:
    r"""The row of a declared problem on K = R R', about the mean of the fitted values.

    :math:`\tfrac12 w^T w` is strongly convex in w: with the b for which the multipliers
    :math:`\alpha = \gamma v \psi(e)` of :math:`e = y - R w - b 1` sum to zero,
    :math:`P - Q = \tfrac12 \|w - R^T \alpha\|^2`.
    """
    n, own = y.size, R @ w
    rest = y - own

    def pulls(b: float) -> Array:
        return np.asarray(gamma_v * np.clip(rest - b, -delta, delta))

    low, high = float(rest.min()) - delta, float(rest.max()) + delta
    for _ in range(200):  # the sum decreases with b
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (middle, high) if pulls(middle).sum() > 0.0 else (low, middle)
    alpha = pulls(low)
    # multipliers must sum to zero: the rounding is subtracted from the largest, and its effect is added
    left = abs(float(alpha.sum())) + n * EPS * float(np.abs(alpha).sum())
    longest = float(np.sqrt(np.einsum("ij,ij->i", R, R).max(initial=0.0)))
    cost = left**2 / (2.0 * float(gamma_v.max())) + left * 2.0 * float(np.abs(rest - low).max())
    rounded = (n + w.size) * EPS * (float(np.linalg.norm(w)) + longest * float(np.abs(alpha).sum()))
    apart = float(np.linalg.norm(w - R.T @ alpha)) + left * longest + rounded
    bound = np.sqrt(apart**2 + 2.0 * cost)
    centre = R - R.mean(axis=0)
    beside = fitted - own
    moved = float(np.linalg.norm(beside - beside.mean(axis=0))) + n * EPS * float(np.linalg.norm(np.abs(R) @ np.abs(w)))
    row = page_row(float(np.linalg.norm(centre)) * bound + moved, y, tolerance)
    return replace(row, about=ABOUT_MEAN, formula="||w - R'alpha|| ||R - mean R|| + rounding")
