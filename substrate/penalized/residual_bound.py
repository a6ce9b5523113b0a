r"""How far fitted values are from those of the optimum where losses have clipped slopes, from the residual of a point.

Support values :math:`\alpha` and a bias that are the exact optimum of targets :math:`y + r`, for a loss whose slope
:math:`\alpha = \psi(e)` is co-coercive, :math:`(\alpha_i - \alpha_i') (e_i - e_i') \ge D_i (\alpha_i - \alpha_i')^2`
with :math:`D = \operatorname{diag}(1/(\gamma v_i))`, are related to the optimum of y by

.. math::

    \|D^{1/2} (\alpha^\star - \alpha)\| \le \rho, \qquad \|w - w^\star\| \le \rho / 2, \qquad
    \rho = \|D^{-1/2} r\| ,

as :mod:`substrate.penalized.huber.accuracy` derives. Rows whose slope is not clipped at the point, nor anywhere within
:math:`\rho`, have :math:`f_i^\star - f_i = -D_i d_i - r_i` and relate the others to the targets; without any, the bound
is of the fitted values about their mean. Huber's loss and the squared hinge share this.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array

__all__ = ["ABOUT_MEAN", "BoundedKernel", "BoundedMachine", "bound_by_residual"]

Mask = NDArray[np.bool_]
ABOUT_MEAN = "fitted values about their mean"


class BoundedMachine(Protocol):
    """What the bound needs of a stored machine."""

    @property
    def y(self) -> Array:
        """Return the targets."""

    @property
    def gamma(self) -> float:
        """Return the weight of the losses."""

    @property
    def weights(self) -> Array:
        """Return the weights of the rows."""

    @property
    def negative(self) -> float:
        """Return how far K may be from positive semi-definite."""


class BoundedKernel(Protocol):
    """K in enclosed numbers."""

    @property
    def has_blocks(self) -> bool:
        """Whether linear rows are related to those inside one by one, which needs the entries of K."""

    def products(self, x: Any) -> Any:
        """Return K x."""

    def small_products(self, x: Any) -> Any:
        """Return K x for small numbers, of which the sizes suffice."""

    def diagonal(self) -> Any:
        """Return the diagonal of K."""

    def block(self, rows: Any, columns: Any) -> Any:
        """Return a part of K."""


def bound_by_residual(
    machine: BoundedMachine,
    kernel: BoundedKernel,
    pulls: Any,
    r: Any,
    distance: Any,
    inside_after: Callable[[Any], Mask],
) -> tuple[Any, str]:
    """Bound the distance of the fitted values from those of the exact optimum, and say what it is about.

    ``pulls`` are gamma v, ``r`` is the residual, ``distance`` bounds how far the stored fitted values are from those of
    the point, and ``inside_after`` tells which rows are not clipped wherever alpha is within a given change of each.
    """
    n, v = machine.y.size, machine.weights
    ones, length = np.ones(n), pulls.exact(float(n)).sqrt()
    root = (1.0 / (1.0 / pulls - machine.negative) if machine.negative else pulls).sqrt()
    scaled = r * root
    rho = scaled.bound_norm(ones) * length
    change = root * rho
    inside = inside_after(change)
    anchors = pulls.exact(np.where(inside, v, 0.0) if inside.any() else v)
    c = anchors / anchors.sum()
    far = _distances(kernel, c)
    if machine.negative:
        far = (far + pulls.exact(machine.negative).sqrt()) * (rho * 0.5)
        far = far + (change + (c * change).sum()) * machine.negative
    else:
        far = far * (rho * 0.5)
    if not inside.any():
        return far.bound_norm(v) * 2.0 + distance, ABOUT_MEAN
    # in the norm of the weights the errors of the rows inside are at most twice ||r||, and so is their mean
    sum_of_bounds = rho + scaled.select(inside, 0.0).bound_norm(ones) * length
    mass = anchors.sum() * machine.gamma
    bound_of_clipped = (far + sum_of_bounds / mass.sqrt()).select(~inside, 0.0)
    if kernel.has_blocks and machine.negative == 0.0 and not inside.all():
        (clipped,), (tied,) = np.nonzero(~inside), np.nonzero(inside)
        size, remainder = _relate(kernel, pulls, clipped, tied)
        closer = size * sum_of_bounds + remainder * (rho * 0.5)
        bound_of_clipped = bound_of_clipped.take(clipped).minimum(closer).place(clipped, n)
    inner, outer = sum_of_bounds / pulls.sum().sqrt(), bound_of_clipped.bound_norm(v)
    total = (inner * inner + outer * outer).bound_root()
    near = (abs(r) + change / pulls).select(inside, bound_of_clipped).bound_norm(v)
    return total.minimum(near) + distance, "fitted values"


def _distances(kernel: BoundedKernel, c: Any) -> Any:
    """Bound ||phi(x_i) - sum_j c_j phi(x_j)|| of every row."""
    product = kernel.products(c.careful()).round()
    return (kernel.diagonal().round() - product * 2.0 + (c * product).sum()).bound_root()


def _relate(kernel: BoundedKernel, pulls: Any, linear: Any, tied: Any) -> tuple[Any, Any]:
    """Bound ||D^1/2 c|| and ||phi(x_i) - sum_j c_j phi(x_j)|| for weights c of each linear row that sum to one."""
    n, K, across = tied.size, kernel.block(tied, tied), kernel.block(tied, linear)
    system = np.ones((n + 1, n + 1))
    system[:n, :n] = K.midpoint + np.diag(16.0 / pulls.midpoint[tied])
    system[n, n] = 0.0
    try:
        solution = np.linalg.solve(system, np.vstack([across.midpoint, np.ones((1, linear.size))]))[:n]
    except np.linalg.LinAlgError:
        solution = np.ones((n, linear.size)) / n
    ones = K.exact(np.ones(n))
    c = K.exact(solution)
    c = c + (1.0 - ones @ c) / float(n)
    squares = kernel.diagonal().round().take(linear) - ones @ (c * across) * 2.0 + ones @ (c * (K @ c))
    sizes = ones @ ((c * c).T / pulls.take(tied)).T
    return sizes.bound_root(), squares.bound_root()
