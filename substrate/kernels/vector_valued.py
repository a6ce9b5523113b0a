r"""Kernels of vector-valued functions: each row is a point and a direction, and the value is f in that direction.

A vector-valued function has a kernel of matrices, :math:`K(x, z)`, and :math:`u^T f(x)` is a bounded functional of it
with the inner products

.. math:: \langle u^T f(x), v^T f(z) \rangle = u^T K(x, z) \, v ,

which is a kernel like any other of the rows :math:`(x, u)`: every machine takes it, and what it predicts at
:math:`(x, u)` is :math:`u^T f(x)`. With the unit vectors for u these are the components of f
(:func:`component_rows`); a measurement along a line of sight is a row with that direction. A machine that reads all of
f has no bias, or one along u: declare it without (``bias=False``).

All kernels here are sums over entries of matrices of values or derivatives of a kernel k of d inputs. The separable one
is :math:`K(x, z) = B \, k(x, z)` with a positive semi-definite matrix B that says how the components depend on each
other ([Alvarez2012]_ section 4.1); the identity has components that share nothing but the kernel, a matrix of ones one
function for all. With :math:`D_{ab} = \partial_{x_a} \partial_{z_b} k(x, z)`,

.. math::

    \text{curl-free:} \quad K_{ij} = D_{ij}, \qquad\qquad
    \text{divergence-free:} \quad K_{ij} = \delta_{ij} \sum_{c} D_{cc} - D_{ji}

([Narcowich1994]_; [Fuselier2008]_). The first is the kernel of gradients :math:`f = \nabla g` of functions g of k. The
second is the kernel of sums over the pairs a < b of fields :math:`f_a = \partial_b g_{ab}, f_b = -\partial_a g_{ab}`,
each with a stream function of k, so that both are positive semi-definite for every kernel with first derivatives; the
divergence of every column of the second is zero, since derivatives can be exchanged.
"""

import math
from abc import abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from substrate.arrays import Array, is_device_array, real_array, real_points, to_dense
from substrate.errors import DataError, DeclarationError
from substrate.kernels.derivatives import differentiate_formula
from substrate.kernels.kernel import Formula, Kernel, Number
from substrate.numbers import relative_rounding

__all__ = ["CurlFree", "DivergenceFree", "OnDirections", "Separable", "component_rows"]

#: What a second derivative of a kernel loses, in units of the rounding of its values.
_SECOND = 16.0


def component_rows(X: Any, n_components: int | None = None) -> Array:
    """Return the rows of all components of a vector-valued function at points: each point with every unit vector.

    There are as many components as columns of X, unless another number is given. Targets of shape (n, n_components)
    belong to these rows as ``Y.ravel()``, and predictions at them are reshaped back.

    Examples
    --------
    >>> from substrate.kernels import component_rows
    >>> component_rows([[5.0, 7.0]])
    array([[5., 7., 1., 0.],
           [5., 7., 0., 1.]])
    """
    dense = np.asarray(to_dense(real_points(X, "X")))
    m = dense.shape[1] if n_components is None else int(n_components)
    if m < 1:
        raise DeclarationError(f"n_components must be at least 1, received {n_components!r}")
    return np.hstack([np.repeat(dense, m, axis=0), np.tile(np.eye(m), (dense.shape[0], 1))])


class OnDirections(Kernel):
    """A kernel on rows of a point and a direction, made of a kernel on points; linear in both directions."""

    kernel: Kernel
    decays: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel) or self.kernel.pairwise:
            raise DeclarationError(f"{type(self).__name__} is made of a kernel of points, received {self.kernel!r}")

    @abstractmethod
    def split(self, n_features: int) -> int:
        """Return how many of so many columns belong to the point; the others belong to the direction."""

    def _refuse_split(self, n_features: int, expected: str) -> DataError:
        """Return the error of rows that are no points with directions."""
        return DataError(
            f"{self!r} takes rows of a point and a direction, {expected}; received {n_features} columns. "
            "component_rows(X) makes them of points"
        )

    def _parts(self, X: Any) -> tuple[Array, Array]:
        if is_device_array(X):
            raise DeclarationError(f"{self!r} is computed by numpy; pass numpy arrays (X.cpu().numpy(), X.get())")
        rows = np.asarray(to_dense(X), dtype=np.float64)
        d = self.split(rows.shape[1])
        return rows[:, :d], rows[:, d:]

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return u'K(x, z) v by the formula; arrays of other libraries are refused."""
        rows, columns = (np.hstack(self._parts(points)) for points in (X, Z))
        return self._derivative(rows, columns, {}, {}).astype(dtype, copy=False)

    def _resolve(self, X: Any) -> Self:
        return replace(self, kernel=self.kernel.resolved(self._parts(X)[0]))  # type: ignore[call-arg]

    def compared_columns(self, n_features: int) -> tuple[tuple[int, ...], ...]:
        """Return the groups of the kernel inside."""
        return self.kernel.compared_columns(self.split(n_features))


@dataclass(frozen=True, repr=False)
class Separable(OnDirections):
    """(u'B v) kernel(x, z) on rows of a point x and a direction u; ``mixing`` is B, one row per component."""

    kernel: Kernel
    mixing: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        B = real_array(self.mixing, "mixing", ndim=2)
        if B.shape[0] != B.shape[1] or not np.array_equal(B, B.T):
            raise DeclarationError(f"mixing must be a square symmetric matrix, received the shape {B.shape}")
        values = np.linalg.eigvalsh(B)
        if values[0] < -relative_rounding(4.0 * values.size) * max(float(values[-1]), 0.0):
            raise DeclarationError(
                f"mixing must be positive semi-definite, its smallest eigenvalue is {values[0]:.3g}; B = L L' is for "
                "any L"
            )
        object.__setattr__(self, "mixing", tuple(tuple(float(entry) for entry in row) for row in B))

    def split(self, n_features: int) -> int:
        """Return how many columns the point has: all but one per component."""
        m = len(self.mixing)
        if n_features <= m:
            raise self._refuse_split(n_features, f"the last {m} columns being the direction")
        return n_features - m

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return the product of both, without the loop over the entries of B."""
        (x, u), (z, v) = self._parts(X), self._parts(Z)
        return ((u @ np.array(self.mixing) @ v.T) * self.kernel(x, z)).astype(dtype, copy=False)

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return the derivatives of the kernel inside, weighted by u'B v."""
        (x, u), (z, v) = self._parts(X), self._parts(Z)
        return self.kernel._scale_gradient(x, z, weights * (u @ np.array(self.mixing) @ v.T))

    def rounding(self, X: Any, by_differences: bool = False) -> float:
        """Add the rounding of u'B v relative to both lengths, which cancellation makes small."""
        inside = self.kernel.rounding(self._parts(X)[0])
        B, (_, u) = np.array(self.mixing), self._parts(X)
        sizes = np.abs(u) @ np.sqrt(np.maximum(np.diagonal(B), 0.0))
        lengths = np.sqrt(np.maximum(np.einsum("ni,ij,nj->n", u, B, u), 0.0))
        if not (sizes > 0.0).any():
            return inside
        with np.errstate(divide="ignore"):
            ratio = float(np.max(np.where(sizes > 0.0, sizes / lengths, 1.0)))
        return inside + relative_rounding(2.0 * len(self.mixing) + 5.0) * ratio**2

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """Return the product of both."""
        d = self.split(n_features)
        inner, B = self.kernel.exact_formula(number, d), [[number(entry) for entry in row] for row in self.mixing]

        def value(x: Any, z: Any) -> Any:
            pairs = (
                (a, entry, b) for a, row in zip(x[d:], B, strict=True) for entry, b in zip(row, z[d:], strict=True)
            )
            return sum(a * entry * b for a, entry, b in pairs) * inner(x[:d], z[:d])

        return value


class _VectorField(OnDirections):
    """A kernel made of the second derivatives of another, one in each point."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.kernel.refuse_orders({0: 1})

    def split(self, n_features: int) -> int:
        """Return how many columns the point has: half of them."""
        if n_features % 2 or n_features < 2:
            raise self._refuse_split(n_features, "with as many columns each")
        return n_features // 2

    @abstractmethod
    def weigh(self, u: Any, v: Any, a: int, b: int) -> Any:
        """Return the factor of D_ab, from the entries of two directions."""

    @property
    def not_smooth(self) -> str:
        """Empty where the kernel inside has second derivatives."""
        if self.kernel.largest_order((0,)) >= 2:
            return ""
        return f"{self.kernel!r} has first derivatives only, which its values are made of; take a smoother one"

    def largest_order(self, columns: Collection[int]) -> float:
        """Return one less than the order of the kernel inside."""
        return 0.0 if self.not_smooth else self.kernel.largest_order(columns) - 1.0

    def rounding(self, X: Any, by_differences: bool = False) -> float:
        """Return the rounding of second derivatives, by Cauchy and Schwarz where k is a function of the difference."""
        if not self.kernel.decays:
            return math.inf
        points = self._parts(X)[0]
        d = points.shape[1]
        return float(_SECOND * (d + 1.0) * self.kernel.rounding(points) + relative_rounding(4.0 * d * d + 4.0))

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """Return the sum over all pairs of inputs of derivatives of the formula of the kernel inside."""
        d = self.split(n_features)
        pairs, inner = [(a, b) for a in range(d) for b in range(d)], self.kernel.exact_formula(number, d)

        def value(x: Any, z: Any) -> Any:
            derivatives = (differentiate_formula(inner, x[:d], z[:d], {a: 1}, {b: 1}) for a, b in pairs)
            weights = (self.weigh(x[d:], z[d:], a, b) for a, b in pairs)
            return sum(weight * derivative for weight, derivative in zip(weights, derivatives, strict=True))

        return value


@dataclass(frozen=True, repr=False)
class CurlFree(_VectorField):
    """The kernel of gradients of functions of ``kernel``, on rows of a point and a direction."""

    kernel: Kernel

    def weigh(self, u: Any, v: Any, a: int, b: int) -> Any:
        """Return u_a v_b."""
        return u[a] * v[b]


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

    def weigh(self, u: Any, v: Any, a: int, b: int) -> Any:
        """Return -u_b v_a; on the diagonal the sum of all other u_i v_i, in which nothing cancels."""
        if a != b:
            return -(u[b] * v[a])
        return sum(first * second for c, (first, second) in enumerate(zip(u, v, strict=True)) if c != a)
