"""Matrices as maps of vectors: one vocabulary, however the entries are kept.

==================  =====================================================================================
``shape``           the numbers of rows and columns
``product(V)``      A V, one column per vector
``adjoint(U)``      A'U
``block(r, c)``     the entries of some rows and some columns, by their numbers
``diagonal``        that of a symmetric matrix
``factorize(d)``    factor A + diag(d), which :meth:`SystemMatrix.solve` then uses
``solve(B)``        (A + diag(d))^{-1} B
``release()``       give up the factor
==================  =====================================================================================

A kernel matrix is all in memory (:class:`~substrate.gram.Gram`), on a device
(:class:`~substrate.device_gram.DeviceGram`, whose vectors may be on the host), or none of it is stored
(:mod:`substrate.least_squares.kernel_tiles`). Features of rows are computed from the rows anew
(:class:`~substrate.reduced.rows.KernelRows`), or are an orthonormal basis in memory
(:class:`~substrate.least_squares.stacked_least_squares.StackedBasis`). An iteration asks for products, a preconditioner
and a bound for the diagonal, a direct solver for solutions, the choice of a basis for blocks.

Vectors are columns of arrays on the host or, for a matrix on a device whose vectors are there too, on that device.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from substrate.arrays import Array

__all__ = ["Operator", "SymmetricOperator", "SystemMatrix"]


class Operator(ABC):
    """A matrix A as a map of vectors."""

    __slots__ = ()

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Return the numbers of rows and columns."""

    @abstractmethod
    def product(self, V: Array) -> Array:
        """Return A V, one column per vector."""

    @abstractmethod
    def adjoint(self, U: Array) -> Array:
        """Return A'U, one column per vector."""

    @abstractmethod
    def block(self, rows: Any, columns: Any) -> Array:
        """Return a new array of the entries of some rows and some columns, by their numbers."""


class SymmetricOperator(Operator):
    """A kernel matrix K: symmetric, with a diagonal."""

    __slots__ = ()

    @property
    @abstractmethod
    def n(self) -> int:
        """Return the number of points."""

    @property
    def shape(self) -> tuple[int, int]:
        """Return N x N."""
        return self.n, self.n

    @property
    @abstractmethod
    def diagonal(self) -> Array:
        """Return the diagonal of K."""

    def adjoint(self, U: Array) -> Array:
        """Return K U: K' is K."""
        return self.product(U)

    def accurate_product(self, V: Array) -> Array:
        """Return K V for a residual that decides, where the products of an iteration are less accurate."""
        return self.product(V)

    def use_accurate_products(self) -> bool:
        """Let all products be as accurate from now on; False where they are already."""
        return False

    def diagonal_at(self, rows: Any) -> Array:
        """Return the diagonal at some points, by their numbers."""
        entries: Array = self.diagonal[rows]
        return entries

    def columns(self, rows: Any) -> Callable[[int], Array]:
        """Return a function that gives the entries of some points with one of them, by its place among them."""
        return lambda place: self.block(rows, rows[[place]])[:, 0]


class SystemMatrix(SymmetricOperator):
    """A kernel matrix that factors itself with a ridge."""

    __slots__ = ()

    @abstractmethod
    def factorize(self, ridge: Array) -> None:
        """Factor K + diag(ridge); :meth:`solve` then uses it."""

    @abstractmethod
    def solve(self, B: Array) -> Array:
        """Return (K + diag(ridge))^{-1} B with the present factor."""

    @abstractmethod
    def release(self) -> None:
        """Give up the factor."""
