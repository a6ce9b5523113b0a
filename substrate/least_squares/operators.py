"""What solvers need of a matrix: one protocol for a Gram matrix, a stored triangle, blocks computed anew, or a device.

An iteration needs products, a preconditioner and a bound the diagonal, and a factorisation solutions as well. Vectors
are columns of arrays on the host or, for a matrix on a device whose vectors are there too, on that device.
"""

from typing import Protocol

from substrate.arrays import Array

__all__ = ["KernelOperator", "SymmetricMap", "SystemMatrix"]


class SymmetricMap(Protocol):
    """A symmetric matrix as a map of vectors."""

    def product(self, V: Array) -> Array:
        """K V, one column per vector."""


class KernelOperator(SymmetricMap, Protocol):
    """A kernel matrix as a map of vectors."""

    @property
    def diagonal(self) -> Array:
        """The diagonal of K."""


class SystemMatrix(KernelOperator, Protocol):
    """A kernel matrix that factors itself with a ridge."""

    @property
    def n(self) -> int:
        """The number of rows."""

    def factorize(self, ridge: Array) -> None:
        """Factor K + diag(ridge); :meth:`solve` then uses it."""

    def solve(self, B: Array) -> Array:
        """(K + diag(ridge))^{-1} B with the present factor."""
