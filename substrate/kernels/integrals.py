r"""Integrals of kernels over boxes, for machines that read integrals of f.

The integral of f over a box B is :math:`\langle w, \int_B \varphi(z)\,dz \rangle`, and its representer has the inner
products

.. math::

    \Big\langle D^a \varphi(x), \int_B \varphi(z)\,dz \Big\rangle = D_x^a \int_B k(x, z)\,dz , \qquad
    \Big\langle \int_B \varphi , \int_{B'} \varphi \Big\rangle = \int_B \int_{B'} k(x, z)\,dz\,dx .

A kernel that is a product of functions :math:`\phi` of one difference is integrated one column after another. Between
intervals that begin at :math:`l` and :math:`l'` and are :math:`a` and :math:`b` long,

.. math::

    \int_0^a \!\! \int_0^b \phi(l - l' + s - t)\,dt\,ds = \int_{-b}^{a} \phi(l - l' + v)\, w(v)\,dv , \qquad
    w(v) = \min(a, v + b) - \max(0, v) ,

and :math:`w = 1` where one of them is a point. Nothing cancels in the integral of a product that is not negative: a
rule of Gauss with 20 points on pieces that grow with the distance from where :math:`\phi` is largest, cut where
:math:`w` or :math:`\phi` has a kink, is right to the last places, by the formula of the kernel alone. A polynomial is
integrated exactly by a rule of Gauss, and its product with an RBF kernel by that rule on pieces as long as the width; a
sum, a multiple and a kernel on some of the columns have the integrals of their parts. A column whose two ends are the
same is taken at that point: the measure of the box is a point mass there, and lengths in the others.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import cache
from itertools import pairwise, product
from typing import Any

import numpy as np

from substrate.arrays import Array, is_sparse, real_array, real_points
from substrate.errors import DataError, DeclarationError
from substrate.kernels.derivatives import Orders, checked_orders

__all__ = ["Integrals", "checked_boxes", "integrate_by_rule", "integrate_differences", "volumes"]

#: Points of the rule of Gauss for one piece.
_POINTS = 20
#: Ends of the pieces on either side, in units of the width: exp(-60) is nothing beside one.
_PIECES = (1.0, 3.0, 7.0, 15.0, 30.0, 60.0)
#: The most points of a rule on a box.
_MOST_POINTS = 20_000


def checked_boxes(boxes: Any, n_features: int, *, flat: bool = False) -> Array:
    """Return boxes as an array of shape (m, n_features, 2), from one box (n_features, 2) or several.

    ``flat`` says whether the two ends of a column may be the same.
    """
    numbers = real_array(boxes, "box", ndim=(2, 3))
    stacked = numbers[None] if numbers.ndim == 2 else numbers
    if stacked.shape[1:] != (n_features, 2):
        raise DataError(
            f"a box has a lower and an upper end for each of the {n_features} columns: expected shape "
            f"({n_features}, 2), received {numbers.shape if numbers.ndim == 2 else numbers.shape[1:]}"
        )
    if not ((stacked[..., 0] < stacked[..., 1]) | (flat & (stacked[..., 0] == stacked[..., 1]))).all():
        raise DataError("every lower end of a box must be below its upper end")
    return stacked


def volumes(boxes: Array) -> Array:
    """Return the volumes of boxes; a column whose ends are the same is a point mass of one."""
    lengths = boxes[..., 1] - boxes[..., 0]
    return np.asarray(np.prod(np.where(lengths > 0.0, lengths, 1.0), axis=-1))


def integrate_differences(
    phi: Callable[[Array], Array], unit: float, offsets: Array, lengths: Array, others: Array
) -> Array:
    """Return the integrals above of phi(offset + s - t) over s and t from zero to both lengths; zero is a point.

    ``unit`` is the distance on which phi changes; the arrays have one shape.
    """
    shape = np.broadcast_shapes(offsets.shape, lengths.shape, others.shape)
    offset, a, b = (np.broadcast_to(each, shape).ravel() for each in (offsets, lengths, others))
    centre = np.clip(-offset, -b, a)
    steps = [centre + sign * unit * step for sign in (-1.0, 1.0) for step in _PIECES]
    edges = np.sort(np.clip([-b, *steps, centre, 0.0 * a, a - b, a], -b, a), axis=0)
    values = np.where((a == 0.0) & (b == 0.0), phi(offset), 0.0)
    nodes, weights = _gauss(_POINTS)
    for start, end in pairwise(edges):
        (at,) = np.nonzero(end > start)
        half = 0.5 * (end - start)[at, None]
        v = start[at, None] + half * (1.0 + nodes)
        inside = np.minimum(a[at, None], v + b[at, None]) - np.maximum(0.0, v)
        masses = np.where((a[at, None] == 0.0) | (b[at, None] == 0.0), 1.0, inside)
        values[at] += (half * phi(offset[at, None] + v) * masses) @ weights
    return values.reshape(shape)


def integrate_by_rule(kernel: Any, count: int, units: Array, boxes: Array, others: Array, orders: Orders) -> Array:
    """Return the integrals of a kernel by a rule of Gauss with ``count`` points on pieces of at most one unit."""
    rules = [_box_rule(kernel, count, units, box) for box in others]
    if (boxes[..., 0] == boxes[..., 1]).all():
        columns = [kernel._derivative(boxes[..., 0], points, orders, {}) @ masses for points, masses in rules]
        return np.column_stack(columns)
    own = [_box_rule(kernel, count, units, box) for box in boxes]
    return np.array([[m @ kernel.values(x, z) @ masses for z, masses in rules] for x, m in own])


def _box_rule(kernel: Any, count: int, units: Array, box: Array) -> tuple[Array, Array]:
    rules = [_interval_rule(count, low, high, unit) for (low, high), unit in zip(box, units, strict=True)]
    size = math.prod(points.size for points, _ in rules)
    if size > _MOST_POINTS:
        raise DeclarationError(
            f"the integral of {kernel!r} over a box of {box.shape[0]} columns needs {size} points; take a smaller "
            "degree or box, kernels on fewer columns, or another rule, s.integral(Measure.of_points(points, weights))"
        )
    points = np.array(list(product(*(points for points, _ in rules))))
    return points, np.array([math.prod(weights) for weights in product(*(weights for _, weights in rules))])


def _interval_rule(count: int, low: float, high: float, unit: float) -> tuple[Array, Array]:
    if low == high:
        return np.array([low]), np.ones(1)
    nodes, weights = _gauss(count)
    edges = np.linspace(low, high, max(math.ceil((high - low) / unit), 1) + 1)
    halves = 0.5 * np.diff(edges)[:, None]
    return (edges[:-1, None] + halves * (1.0 + nodes)).ravel(), (halves * weights).ravel()


@cache
def _gauss(count: int) -> tuple[Array, Array]:
    return np.polynomial.legendre.leggauss(count)


class Integrals:
    """The integrals of a kernel over boxes: one that has them defines ``_integral``."""

    @property
    @abstractmethod
    def inside(self) -> tuple[Any, ...]:
        """The kernels that this one is made of."""

    def smooth_units(self, n_features: int) -> Array | None:
        """Return the distances on which an analytic kernel changes in every column; None where it has kinks."""
        return None

    @property
    def _integrated(self) -> tuple[Any, ...]:
        """The kernels whose integrals make those of this one."""
        return () if type(self)._integral is Integrals._integral else self.inside

    @property
    def no_integral(self) -> str:
        """Why there are no integrals, and what to do instead; empty where there are."""
        if self._integrated:
            return next((kernel.no_integral for kernel in self._integrated if kernel.no_integral), "")
        return (
            "no closed form is known; take RBF, Laplacian, a polynomial, Matern with nu = 0.5, 1.5 or 2.5 on one "
            "column each (Componentwise), or sum values with the weights of a quadrature rule"
        )

    def refuse_integrals(self) -> None:
        """Raise with the reason where there are none."""
        if self.no_integral:
            raise DeclarationError(f"{self!r} has no integrals over boxes in closed form: {self.no_integral}")

    def integral(self, X: Any, boxes: Any, orders: Mapping[Any, int] | None = None) -> Array:
        """Return the integrals of k(x_i, z) over z in each box; ``orders`` are those of a derivative in x, by column.

        A column of a box whose two ends are the same is taken at that point.
        """
        self.refuse_integrals()
        points = real_points(X, "X")
        points = np.asarray(points.toarray() if is_sparse(points) else points)
        checked = checked_orders(orders or {}, points.shape[1])
        flat = np.stack([points, points], axis=-1)
        return self._integral(flat, checked_boxes(boxes, points.shape[1], flat=True), checked)

    def double_integral(self, boxes: Any, others: Any) -> Array:
        """Return the integrals of k(x, z) over all x in one box and all z in another, for all pairs of boxes."""
        self.refuse_integrals()
        n_features = np.asarray(boxes).shape[-2]
        left, right = (checked_boxes(each, n_features, flat=True) for each in (boxes, others))
        return self._integral(left, right, {})

    def _integral(self, boxes: Array, others: Array, orders: Orders) -> Array:
        """Return the integrals over x in one box and z in another; ``orders`` belong to boxes that are points."""
        raise DeclarationError(f"{self!r} states that it has integrals and has no `_integral`: write that method")
