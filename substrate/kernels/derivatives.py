r"""Derivatives of kernels in their inputs, for machines that read derivatives of f.

With the features :math:`\varphi` of a kernel, those of the derivative in input c are
:math:`\varphi_c(x) = \partial \varphi(x) / \partial x_c`, and

.. math::

    \langle \varphi_c(x), \varphi(z) \rangle = \frac{\partial k(x, z)}{\partial x_c}, \qquad
    \langle \varphi_c(x), \varphi_d(z) \rangle = \frac{\partial^2 k(x, z)}{\partial x_c \, \partial z_d}

([Solak2003]_ section 2). The derivative in the second argument alone is the first formula with x and z exchanged. They
exist where k has the mixed second derivative, also at x = z.
"""

import operator
from collections.abc import Sequence
from typing import Any

from substrate.arrays import Array, is_sparse, real_points
from substrate.errors import DataError, DeclarationError
from substrate.namespaces import is_device_array

__all__ = ["Derivatives", "checked_column"]


def checked_column(column: Any, n_features: int) -> int:
    """The number of an input, or an error that names those there are."""
    if isinstance(column, bool) or not hasattr(column, "__index__") or not 0 <= operator.index(column) < n_features:
        raise DeclarationError(f"column must be an integer from 0 to {n_features - 1}, received {column!r}")
    return operator.index(column)


class Derivatives:
    """The derivatives of a kernel: a smooth one has ``_gradient``, ``_mixed_derivative``, and no :attr:`not_smooth`."""

    @property
    def not_smooth(self) -> str:
        """Why there are no derivatives, and what to do instead; empty where there are."""
        return "their formula is not known; take RBF, Linear, Polynomial or Matern(nu > 1), or differences of values"

    def gradient(self, X: Any, Z: Any, column: int) -> Array:
        """The derivatives of k(x_i, z_j) in input ``column`` of x_i."""
        left, right, (c,) = self._checked(X, Z, column)
        return self._gradient(left, right, c)

    def mixed_derivative(self, X: Any, Z: Any, column: int, other: int) -> Array:
        """The second derivatives of k(x_i, z_j), in input ``column`` of x_i and in input ``other`` of z_j."""
        left, right, (c, d) = self._checked(X, Z, column, other)
        return self._mixed_derivative(left, right, c, d)

    def refuse_derivatives(self) -> None:
        """Raise with the reason where there are none."""
        if self.not_smooth:
            raise DeclarationError(f"{self!r} has no derivatives: {self.not_smooth}")

    def _checked(self, X: Any, Z: Any, *columns: Any) -> tuple[Array, Array, Sequence[int]]:
        self.refuse_derivatives()
        if is_device_array(X) or is_device_array(Z):
            raise DeclarationError("derivatives are computed by numpy; pass numpy arrays (X.cpu().numpy(), X.get())")
        left, right = real_points(X, "X"), real_points(Z, "Z")
        if left.shape[1] != right.shape[1]:
            raise DataError(f"X has {left.shape[1]} columns and Z has {right.shape[1]}; they must agree")
        left, right = (points.toarray() if is_sparse(points) else points for points in (left, right))
        return left, right, [checked_column(column, left.shape[1]) for column in columns]

    def _gradient(self, X: Array, Z: Array, column: int) -> Array:
        """As :meth:`gradient`, of two checked dense point sets."""
        raise self._without("_gradient")

    def _mixed_derivative(self, X: Array, Z: Array, column: int, other: int) -> Array:
        """As :meth:`mixed_derivative`, of two checked dense point sets."""
        raise self._without("_mixed_derivative")

    def _without(self, method: str) -> DeclarationError:
        """Return the error of a kernel that states derivatives and does not compute them."""
        return DeclarationError(
            f"{self!r} states that it is smooth and has no `{method}`: write that method, or return from `not_smooth` "
            "why it has no derivatives"
        )
