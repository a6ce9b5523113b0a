"""A kernel matrix as a map of vectors: one vocabulary, however the entries are kept.

==================  =====================================================================================
``n``               the number of points
``product(V)``      K V, one column per vector
``block(r, c)``     the entries of some rows and some columns, by their numbers
``diagonal``        the diagonal of K
==================  =====================================================================================

A kernel matrix is in memory (:class:`~substrate.gram.Gram`, on the host or on a device), or none of it is stored
(:mod:`substrate.least_squares.kernel_tiles`). An iteration asks for products, a preconditioner and a bound for the
diagonal, the choice of a basis for blocks.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from substrate.arrays import Array

__all__ = ["KernelOperator"]


class KernelOperator(ABC):
    """A kernel matrix K as a map of vectors."""

    __slots__ = ()

    @property
    @abstractmethod
    def n(self) -> int:
        """Return the number of points."""

    @property
    @abstractmethod
    def diagonal(self) -> Array:
        """Return the diagonal of K."""

    @abstractmethod
    def product(self, V: Array) -> Array:
        """Return K V, one column per vector."""

    @abstractmethod
    def block(self, rows: Any, columns: Any) -> Array:
        """Return a new array of the entries of some rows and some columns, by their numbers."""

    def accurate_product(self, V: Array) -> Array:
        """Return K V for a residual that decides, where the products of an iteration are less accurate."""
        return self.product(V)

    def use_accurate_products(self) -> bool:
        """Let all products be as accurate from now on; False where they are already."""
        return False

    def columns(self, rows: Any) -> Callable[[int], Array]:
        """Return a function that gives the entries of some points with one of them, by its place among them."""
        return lambda place: self.block(rows, rows[[place]])[:, 0]
