r"""Kernels of vector fields that have no divergence, or no curl, whatever the data.

With a kernel k of functions of d inputs and :math:`D_{ab} = \partial_{x_a} \partial_{z_b} k(x, z)`,

.. math::

    \text{curl-free:} \quad K_{ij} = D_{ij}, \qquad\qquad
    \text{divergence-free:} \quad K_{ij} = \delta_{ij} \sum_{c} D_{cc} - D_{ji}

([Narcowich1994]_; [Fuselier2008]_). The first is the kernel of gradients :math:`f = \nabla g` of functions g of k. The
second is that of sums over the pairs a < b of fields :math:`f_a = \partial_b g_{ab}, f_b = -\partial_a g_{ab}`, each
with a stream function of k, so that both are positive semi-definite for every kernel with first derivatives; the
divergence of every column of the second is zero, since derivatives can be exchanged. Rows are a point and a direction,
2 d columns (:mod:`substrate.kernels.directions`).
"""

import math
from abc import abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.errors import DataError, DeclarationError
from substrate.kernels.algebra import Kernel
from substrate.kernels.base import Formula, Number
from substrate.kernels.derivatives import Orders
from substrate.kernels.directions import OnDirections, exact_parts, refuse_split

__all__ = ["CurlFree", "DivergenceFree"]

#: What a second derivative of a kernel loses, in units of the rounding of its values.
_SECOND = 16.0


class _VectorField(OnDirections):
    """A kernel made of the second derivatives of another, one in each point."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.kernel.refuse_derivatives()
        if self.kernel.largest_order((0,)) < 1:
            raise DeclarationError(f"{type(self).__name__} is made of first derivatives, which {self.kernel!r} lacks")

    def split(self, n_features: int) -> int:
        """Return how many columns the point has: half of them."""
        if n_features % 2 or n_features < 2:
            raise refuse_split(self, n_features, "with as many columns each")
        return n_features // 2

    @abstractmethod
    def weigh(self, u: Array, v: Array, a: int, b: int) -> Array:
        """Return the factors of D_ab for all pairs of directions."""

    def pair(self, x: Array, u: Array, z: Array, v: Array, left: Orders, right: Orders) -> Array:
        """Return the sum over all pairs of inputs."""
        total = np.zeros((x.shape[0], z.shape[0]))
        for a in range(x.shape[1]):
            for b in range(x.shape[1]):
                factors = self.weigh(u, v, a, b)
                if factors.any():
                    orders = ({**one, c: one.get(c, 0) + 1} for one, c in ((left, a), (right, b)))
                    total += factors * self.kernel._derivative(x, z, *orders)
        return total

    @property
    def not_smooth(self) -> str:
        """Empty where the inner kernel has second derivatives."""
        if self.kernel.largest_order((0,)) >= 2:
            return ""
        return f"{self.kernel!r} has first derivatives only, which its values are made of; take a smoother one"

    def largest_order(self, columns: Collection[int]) -> float:
        """Return one less than that of the inner kernel."""
        return 0.0 if self.not_smooth else self.kernel.largest_order(columns) - 1.0

    def cost(self, n_features: int) -> int:
        """Return that of the inner kernel for every pair of inputs."""
        d = self.split(n_features)
        return d * d * self.kernel.cost(d)

    def refuse_scale_gradient(self) -> None:
        """Raise: the derivatives of second derivatives in widths are not known."""
        raise DeclarationError(f"{self!r} has no derivatives in its scales; search over a grid of widths instead")

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Refuse."""
        self.refuse_scale_gradient()
        return np.zeros(0)

    def rounding(self, X: Any) -> float:
        """Return that of second derivatives, by Cauchy and Schwarz where k is a function of the difference."""
        if not self.kernel.has_steady_decay:
            return math.inf
        x, _ = self._parts(X)
        d = x.shape[1]
        return float(_SECOND * (d + 1.0) * self.kernel.rounding(x) + relative_rounding(4.0 * d * d + 4.0))

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """Return the inner kernel's formula in numbers that carry their derivatives, one in each point."""
        d = self.split(n_features)
        inner = self.kernel.exact_formula(number, d)

        def second(x: Any, z: Any, a: int, b: int) -> Any:
            left = [_Jet(value, int(c == a), 0, 0) for c, value in enumerate(x)]
            right = [_Jet(value, 0, int(c == b), 0) for c, value in enumerate(z)]
            return inner(left, right).both

        reason = f"{self!r} has no formula in ball arithmetic; take RBF inside"
        try:
            same = second([number(0.5)] * d, [number(0.5)] * d, 0, 0)
        except (AttributeError, TypeError) as error:
            raise DataError(reason) from error
        if not getattr(same, "is_finite", bool)():  # a root has no derivative at zero
            raise DataError(reason)
        return lambda row, other: self._exact_sum(*exact_parts(row, d), *exact_parts(other, d), second)

    @abstractmethod
    def _exact_sum(self, x: Any, u: Any, z: Any, v: Any, second: Any) -> Any:
        """Return the sum of the formulas, in an exact arithmetic."""


@dataclass(frozen=True, repr=False)
class CurlFree(_VectorField):
    """The kernel of gradients of functions of ``kernel``, on rows of a point and a direction."""

    kernel: Kernel

    def weigh(self, u: Array, v: Array, a: int, b: int) -> Array:
        """Return u_a v_b."""
        return np.multiply.outer(u[:, a], v[:, b])

    def _exact_sum(self, x: Any, u: Any, z: Any, v: Any, second: Any) -> Any:
        d = range(len(u))
        return sum(u[a] * v[b] * second(x, z, a, b) for a in d for b in d)


@dataclass(frozen=True, repr=False)
class DivergenceFree(_VectorField):
    """The kernel of fields without divergence made of derivatives of functions of ``kernel``.

    Rows are a point and a direction; there are two inputs at least.
    """

    kernel: Kernel

    def split(self, n_features: int) -> int:
        """Return how many columns the point has: half of them, two at least."""
        d = super().split(n_features)
        if d < 2:
            raise DataError(f"{self!r} needs points of two columns at least: in one, only constants have no divergence")
        return d

    def weigh(self, u: Array, v: Array, a: int, b: int) -> Array:
        """Return -u_b v_a; on the diagonal the sum of all other u_i v_i, in which nothing cancels."""
        if a != b:
            return -np.multiply.outer(u[:, b], v[:, a])
        others = [i for i in range(u.shape[1]) if i != a]
        return np.asarray(u[:, others] @ v[:, others].T)

    def _exact_sum(self, x: Any, u: Any, z: Any, v: Any, second: Any) -> Any:
        d = range(len(u))
        same = [sum(u[i] * v[i] for i in d if i != c) * second(x, z, c, c) for c in d]
        return sum(same) - sum(u[i] * v[j] * second(x, z, j, i) for i in d for j in d if i != j)


class _Jet:
    """A number with its derivatives in one quantity, in another, and in both."""

    __slots__ = ("both", "left", "right", "value")

    def __init__(self, value: Any, left: Any, right: Any, both: Any) -> None:
        self.value, self.left, self.right, self.both = value, left, right, both

    def _chain(self, value: Any, first: Any, second: Any) -> "_Jet":
        """Return a function of it, by its value and its two derivatives."""
        both = first * self.both + second * (self.left * self.right)
        return _Jet(value, first * self.left, first * self.right, both)

    def __add__(self, other: Any) -> "_Jet":
        if not isinstance(other, _Jet):
            return _Jet(self.value + other, self.left, self.right, self.both)
        return _Jet(self.value + other.value, self.left + other.left, self.right + other.right, self.both + other.both)

    __radd__ = __add__

    def __neg__(self) -> "_Jet":
        return _Jet(-self.value, -self.left, -self.right, -self.both)

    def __sub__(self, other: Any) -> "_Jet":
        return self.__add__(-other)

    def __rsub__(self, other: Any) -> "_Jet":
        return self.__neg__().__add__(other)

    def __mul__(self, other: Any) -> "_Jet":
        if not isinstance(other, _Jet):
            return _Jet(self.value * other, self.left * other, self.right * other, self.both * other)
        return _Jet(
            self.value * other.value,
            self.value * other.left + self.left * other.value,
            self.value * other.right + self.right * other.value,
            self.value * other.both + self.left * other.right + self.right * other.left + self.both * other.value,
        )

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> "_Jet":
        return self.__mul__(1 / other)

    def __rtruediv__(self, other: Any) -> "_Jet":
        inverse = 1 / self.value
        return self._chain(inverse, -inverse * inverse, 2 * inverse * inverse * inverse).__mul__(other)

    def __pow__(self, power: Any) -> "_Jet":
        if not isinstance(power, int) or power < 0:
            return NotImplemented
        result: Any = _Jet(self.value * 0 + 1, 0, 0, 0)
        for _ in range(power):
            result = result * self
        return result  # type: ignore[no-any-return]

    def exp(self) -> "_Jet":
        """Return the exponential."""
        value = self.value.exp()
        return self._chain(value, value, value)

    def sqrt(self) -> "_Jet":
        """Return the root."""
        value = self.value.sqrt()
        first = 1 / (2 * value)
        return self._chain(value, first, -first / (2 * self.value))
