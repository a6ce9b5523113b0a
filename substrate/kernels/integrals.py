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
integrated exactly by a rule of Gauss; a sum, a multiple, a product of kernels on different columns and a kernel on some
of the columns have the integrals of their parts. A column whose two ends are the
same is taken at that point: the measure of the box is a point mass there, and lengths in the others.
"""

import math
from collections.abc import Callable, Mapping
from functools import cache
from itertools import pairwise, product
from typing import Any

import numpy as np

from substrate.errors import DeclarationError
from substrate.numbers import Array

__all__ = ["integrate_by_rule", "integrate_differences"]

#: Points of the rule of Gauss for one piece.
_POINTS = 20
#: Ends of the pieces on either side, in units of the width: exp(-60) is negligible against one.
_PIECES = (1.0, 3.0, 7.0, 15.0, 30.0, 60.0)
#: The most points of a rule on a box.
_MOST_POINTS = 20_000


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


def integrate_by_rule(kernel: Any, count: int, boxes: Array, others: Array, orders: Mapping[int, int]) -> Array:
    """Return the integrals of a kernel by a rule of Gauss with ``count`` points in every column."""
    rules = [_box_rule(kernel, count, box) for box in others]
    if (boxes[..., 0] == boxes[..., 1]).all():
        columns = [kernel._derivative(boxes[..., 0], points, orders, {}) @ masses for points, masses in rules]
        return np.column_stack(columns)
    rules_of_boxes = [_box_rule(kernel, count, box) for box in boxes]
    return np.array([[m @ kernel.values(x, z) @ masses for z, masses in rules] for x, m in rules_of_boxes])


def _box_rule(kernel: Any, count: int, box: Array) -> tuple[Array, Array]:
    rules = [_interval_rule(count, low, high) for low, high in box]
    size = math.prod(points.size for points, _ in rules)
    if size > _MOST_POINTS:
        raise DeclarationError(
            f"the integral of {kernel!r} over a box of {box.shape[0]} columns needs {size} points; take a smaller "
            "degree or box, kernels on fewer columns, or another rule, s.integral(Measure.of_points(points, weights))"
        )
    points = np.array(list(product(*(points for points, _ in rules))))
    return points, np.array([math.prod(weights) for weights in product(*(weights for _, weights in rules))])


def _interval_rule(count: int, low: float, high: float) -> tuple[Array, Array]:
    if low == high:
        return np.array([low]), np.ones(1)
    nodes, weights = _gauss(count)
    half = 0.5 * (high - low)
    return low + half * (1.0 + nodes), half * weights


@cache
def _gauss(count: int) -> tuple[Array, Array]:
    return np.polynomial.legendre.leggauss(count)
