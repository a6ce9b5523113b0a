r"""Kernels of vector-valued functions: rows are a point and a direction, and the value is that of f along it.

A vector-valued function has a kernel of matrices, :math:`K(x, z)`, and :math:`u^T f(x)` is a bounded functional of it
with the inner products

.. math:: \langle u^T f(x), v^T f(z) \rangle = u^T K(x, z) \, v ,

which is a kernel like any other of the rows :math:`(x, u)`: every machine takes it, and what it predicts at
:math:`(x, u)` is :math:`u^T f(x)`. With the unit vectors for u these are the components of f
(:func:`component_rows`); a measurement along a line of sight is a row with that direction. A machine that reads all of
f has no bias, or one along u: declare it without (``bias=False``).
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from substrate.arrays import Array, is_sparse, real_points
from substrate.errors import DataError, DeclarationError
from substrate.kernels.derivatives import Orders
from substrate.kernels.nested import Nested
from substrate.namespaces import is_device_array

__all__ = ["OnDirections", "component_rows"]


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
    points = real_points(X, "X")
    dense = np.asarray(points.toarray() if is_sparse(points) else points)
    m = dense.shape[1] if n_components is None else int(n_components)
    if m < 1:
        raise DeclarationError(f"n_components must be at least 1, received {n_components!r}")
    return np.hstack([np.repeat(dense, m, axis=0), np.tile(np.eye(m), (dense.shape[0], 1))])


class OnDirections(Nested):
    """A kernel on rows of a point and a direction, made of a kernel on points; linear in both directions."""

    no_matrix = "a precomputed matrix has no points and directions; pass rows and the kernel itself"

    @abstractmethod
    def split(self, n_features: int) -> int:
        """Return how many of so many columns are those of the point; the others are those of the direction."""

    @abstractmethod
    def pair(self, x: Array, u: Array, z: Array, v: Array, left: Orders, right: Orders) -> Array:
        """Return u'K(x, z) v of all pairs of rows, with derivatives of these orders in the points."""

    def _parts(self, X: Any) -> tuple[Array, Array]:
        if is_device_array(X):
            raise DeclarationError(f"{self!r} is computed by numpy; pass numpy arrays (X.cpu().numpy(), X.get())")
        rows = np.asarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)
        d = self.split(rows.shape[1])
        return rows[:, :d], rows[:, d:]

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write u'K(x, z) v into ``out``."""
        out[...] = self.pair(*self._parts(X), *self._parts(Z), {}, {})

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Refuse arrays of other libraries."""
        self._parts(X)
        raise DeclarationError(f"{self!r} is computed by numpy in double precision; pass numpy arrays")

    def diag(self, X: Any) -> Array:
        """Return u'K(x, x) u, in blocks of few rows."""
        x, u = self._parts(X)
        blocks = [slice(start, start + 32) for start in range(0, x.shape[0], 32)]
        return np.concatenate([np.diagonal(self.pair(x[b], u[b], x[b], u[b], {}, {})) for b in blocks])

    def _derivative(self, X: Array, Z: Array, left: Orders, right: Orders) -> Array:
        """Return that of the matrix in points; in a direction, the unit vector takes its place once."""
        sides = []
        for points, orders in ((X, left), (Z, right)):
            x, u = self._parts(points)
            d = x.shape[1]
            along = {c - d: order for c, order in orders.items() if c >= d}
            if sum(along.values()) > 1:
                return np.zeros((X.shape[0], Z.shape[0]))
            if along:
                u = np.tile(np.eye(u.shape[1])[next(iter(along))], (u.shape[0], 1))
            sides.append((x, u, {c: order for c, order in orders.items() if c < d}))
        (x, u, a), (z, v, b) = sides
        return self.pair(x, u, z, v, a, b)

    def _resolve(self, X: Any) -> Self:
        return replace(self, kernel=self.kernel.resolved(self._parts(X)[0]))  # type: ignore[call-arg]

    def compared_columns(self, n_features: int) -> tuple[tuple[int, ...], ...]:
        """Return those of the inner kernel."""
        return self.kernel.compared_columns(self.split(n_features))

    def terms(self, n_features: int) -> tuple[tuple[float, Any], ...]:
        """Return those of the inner kernel, each inside this one."""
        return super().terms(self.split(n_features))

    def relevances(self, spreads: Array) -> Array:
        """Return those of the inner kernel; zero for directions."""
        d = self.split(spreads.size)
        return np.append(self.kernel.relevances(spreads[:d]), np.zeros(spreads.size - d))

    @property
    def decays(self) -> bool:
        """False: it is linear in directions."""
        return False

    def rank(self, n_features: int) -> int | None:
        """Return None: its features are not known."""
        return None


def refuse_split(kernel: Any, n_features: int, expected: str) -> DataError:
    """Return the error of rows that are no points with directions."""
    return DataError(
        f"{kernel!r} takes rows of a point and a direction, {expected}; received {n_features} columns. "
        "component_rows(X) makes them of points"
    )


def exact_parts(x: Sequence[Any], d: int) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the point and the direction of a row in an exact arithmetic."""
    return x[:d], x[d:]
