r"""Integrals of kernels over boxes, for machines that read integrals of f.

The integral of f over a box B is :math:`\langle w, \int_B \varphi(z)\,dz \rangle`, and its representer has the inner
products

.. math::

    \Big\langle D^a \varphi(x), \int_B \varphi(z)\,dz \Big\rangle = D_x^a \int_B k(x, z)\,dz , \qquad
    \Big\langle \int_B \varphi , \int_{B'} \varphi \Big\rangle = \int_B \int_{B'} k(x, z)\,dz\,dx .

An even function :math:`\phi` of one difference that decays has, with the tails
:math:`A(s) = \int_s^\infty \phi` and :math:`C(s) = \int_s^\infty A`,

.. math::

    \int_l^h \phi(x - z)\,dz &= \pm A(|x - l|) \mp A(|x - h|) \quad\text{outside } [l, h], \qquad
        2 A(0) - A(|x - l|) - A(|x - h|) \quad\text{inside} , \\
    \int_l^h \int_{l'}^{h'} \phi(x - z)\,dz\,dx &= 2 A(0)\, \big|[l, h] \cap [l', h']\big|
        + C(|h - l'|) - C(|h - h'|) - C(|l - l'|) + C(|l - h'|) ,

which are differences of small numbers where intervals are far apart. Where an interval is short in units of the width
these differences cancel, and a rule of Gauss with 20 points is right to the last places. The RBF kernel is a product of
such functions; a polynomial is integrated exactly by a rule of Gauss; a sum, a multiple and a kernel on some of the
columns have the integrals of their parts. A column whose two ends are the same is taken at that point: the measure of
the box is a point mass there, and lengths in the others.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import cache
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np

from substrate.arrays import Array, is_sparse, real_array, real_points
from substrate.errors import DataError, DeclarationError
from substrate.kernels.derivatives import Orders, checked_orders

__all__ = [
    "Integrals",
    "Profile",
    "checked_boxes",
    "integrate_exactly",
    "integrate_interval",
    "integrate_intervals",
    "volumes",
]

#: Points of the rule of Gauss for a short interval.
_POINTS = 20
#: An interval is short below this length, in units of the width.
_SHORT = 1.0
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


class Profile(NamedTuple):
    """An even function of one difference that decays: its derivatives, and the two tails, by the distance."""

    derivative: Callable[[Array, int], Array]
    tail: Callable[[Array], Array]
    second_tail: Callable[[Array], Array]


def integrate_interval(profile: Profile, width: float, x: Array, ends: Array, order: int) -> Array:
    """Return the derivatives in x of the integrals of phi(x - z) over intervals: one row per x, one column each."""
    lower, upper = ends[None, :, 0], ends[None, :, 1]
    values = np.empty((x.size, ends.shape[0]))
    flat = ends[:, 0] == ends[:, 1]
    if flat.any():
        values[:, flat] = profile.derivative(x[:, None] - lower[:, flat], order)
    short = ~flat & (ends[:, 1] - ends[:, 0] < _SHORT * width)
    if short.any():
        nodes, weights = _gauss(_POINTS)
        values[:, short] = 0.0
        middle = np.clip(x[:, None], lower[:, short], upper[:, short])  # phi may have a kink at zero
        for start, end in ((lower[:, short], middle), (middle, upper[:, short])):
            half = 0.5 * (end - start)
            for node, weight in zip(nodes, weights, strict=True):
                at = start + half * (1.0 + node)
                values[:, short] += weight * half * profile.derivative(x[:, None] - at, order)
    long = ~short & ~flat
    below, above = x[:, None] - lower[:, long], x[:, None] - upper[:, long]
    if order:
        values[:, long] = profile.derivative(below, order - 1) - profile.derivative(above, order - 1)
        return values
    first, second = profile.tail(np.abs(below)), profile.tail(np.abs(above))
    whole = 2.0 * profile.tail(np.zeros(1))[0] - first - second
    inside = (below >= 0.0) & (above <= 0.0)
    values[:, long] = np.where(inside, whole, np.abs(first - second))
    return values


def integrate_intervals(profile: Profile, width: float, ends: Array, others: Array) -> Array:
    """Return the double integrals of phi(x - z) over all pairs of intervals."""
    values = np.empty((ends.shape[0], others.shape[0]))
    flat = ends[:, 0] == ends[:, 1]
    values[flat] = integrate_interval(profile, width, ends[flat, 0], others, 0)
    points = others[:, 0] == others[:, 1]
    values[:, points] = integrate_interval(profile, width, others[points, 0], ends, 0).T
    for i, (lower, upper) in enumerate(ends):
        for j, (low, high) in enumerate(others):
            if flat[i] or points[j]:
                continue
            if min(upper - lower, high - low) < _SHORT * width:  # by the rule on the shorter one
                short, second_column = sorted(((lower, upper), (low, high)), key=lambda pair: pair[1] - pair[0])
                values[i, j] = _integrate_short(profile, width, short, second_column)
                continue
            overlap = max(0.0, min(upper, high) - max(lower, low))
            corners = np.abs(np.array([upper - low, upper - high, lower - low, lower - high]))
            C = profile.second_tail(corners)
            values[i, j] = 2.0 * profile.tail(np.zeros(1))[0] * overlap + (C[0] - C[1] - C[2] + C[3])
    return values


def _integrate_short(profile: Profile, width: float, short: Any, second_column: Any) -> float:
    """Return a double integral by the rule on the shorter interval, between the ends of the other: kinks are there."""
    nodes, weights = _gauss(_POINTS)
    cuts = sorted({*short, *(min(max(end, short[0]), short[1]) for end in second_column)})
    total = 0.0
    for start, end in pairwise(cuts):
        half = 0.5 * (end - start)
        inner = integrate_interval(profile, width, start + half * (1.0 + nodes), np.array([second_column]), 0)
        total += half * float(weights @ inner[:, 0])
    return total


def integrate_exactly(
    kernel: Any, degree: int, left: Array, boxes: Array, orders: Orders, left_is_boxes: bool = False
) -> Array:
    """Return integrals of a kernel that is a polynomial of this degree in each input, by an exact rule of Gauss."""
    count = degree // 2 + 1
    nodes, weights = _gauss(count)
    if count ** boxes.shape[1] > _MOST_POINTS:
        raise DeclarationError(
            f"the integral of {kernel!r} over a box of {boxes.shape[1]} columns needs {count}^{boxes.shape[1]} points; "
            "take a smaller degree, or kernels on fewer columns"
        )
    grid = np.array(list(product(nodes, repeat=boxes.shape[1])))
    mass = np.array([np.prod(factors) for factors in product(weights, repeat=boxes.shape[1])])

    def over(box: Array, values: Callable[[Array], Array]) -> Array:
        half = 0.5 * (box[:, 1] - box[:, 0])
        masses = np.where(half > 0.0, half, 0.5)  # of a point, one
        return np.asarray(np.prod(masses) * (values(box[:, 0] + half * (1.0 + grid)) @ mass))

    def column(box: Array) -> Array:
        if not left_is_boxes:
            return over(box, lambda points: kernel.derivative(left, points, orders))
        inner = [over(own, lambda points: over(box, lambda others: kernel(points, others))) for own in left]
        return np.array(inner)

    return np.column_stack([column(box) for box in boxes])


@cache
def _gauss(count: int) -> tuple[Array, Array]:
    return np.polynomial.legendre.leggauss(count)


class Integrals:
    """The integrals of a kernel over boxes: one that has them defines ``_integral`` and ``_double_integral``."""

    @property
    @abstractmethod
    def inside(self) -> tuple[Any, ...]:
        """The kernels that this one is made of."""

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

    @property
    def has_steady_decay(self) -> bool:
        """Whether k is a function of the difference that falls with the distance."""
        return bool(self._integrated) and all(kernel.has_steady_decay for kernel in self._integrated)

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
        points = points.toarray() if is_sparse(points) else points
        checked = checked_orders(orders or {}, points.shape[1])
        return self._integral(points, checked_boxes(boxes, points.shape[1], flat=True), checked)

    def double_integral(self, boxes: Any, others: Any) -> Array:
        """Return the integrals of k(x, z) over all x in one box and all z in another, for all pairs of boxes."""
        self.refuse_integrals()
        n_features = np.asarray(boxes).shape[-2]
        return self._double_integral(*(checked_boxes(each, n_features, flat=True) for each in (boxes, others)))

    def _integral(self, X: Array, boxes: Array, orders: Orders) -> Array:
        """Return the same as :meth:`integral`, of checked points, boxes and orders."""
        raise self._without_integral("_integral")

    def _double_integral(self, boxes: Array, others: Array) -> Array:
        """Return the same as :meth:`double_integral`, of checked boxes."""
        raise self._without_integral("_double_integral")

    def _without_integral(self, method: str) -> DeclarationError:
        return DeclarationError(f"{self!r} states that it has integrals and has no `{method}`: write that method")
