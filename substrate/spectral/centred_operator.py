r"""The centred and weighted kernel matrix as a map of vectors, with a bound on the error of every product.

With weights :math:`v_i > 0` of the rows, :math:`S = \operatorname{diag}(v^{1/2})` and the unit vector
:math:`q = v^{1/2} / \|v^{1/2}\|`,

.. math:: A = P\, S K S\, P, \qquad P = I - q q^T .

A unit eigenvector u of A with :math:`A u = \lambda u` is a component: the support values :math:`\alpha = S u` have the
sum zero, and :math:`e = K \alpha + b 1 = \lambda S^{-1} u` with :math:`b = -v^T K \alpha / 1^T v`. Of equal weights
A is the kernel matrix of features about their mean; with :math:`v_i = 1/d_i`, the inverse degrees, it is the matrix of
kernel spectral clustering ([Alzate2010]_). Neither A nor a centred copy of K is formed for a product.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import at_most, relative_rounding
from substrate.kernels import Kernel
from substrate.namespaces import namespace_of, on_device_of, paired_sums, to_numpy
from substrate.operators import SymmetricOperator

__all__ = ["LEAST_SQUARES", "CentredOperator", "MeasuredOperator"]

#: Sum of squares from which those that are lost below the range of doubles are less than its rounding.
LEAST_SQUARES = 1e-280


class MeasuredOperator(Protocol):
    """A symmetric matrix with bounds: on its trace, and on the errors of its entries and its products."""

    @property
    def n(self) -> int:
        """Its order."""

    @property
    def trace(self) -> float:
        """A bound on its trace from above."""

    @property
    def definite(self) -> bool:
        """Whether it is known to be positive semi-definite."""

    @property
    def norm(self) -> float:
        """A bound on the norm of what it is formed from, before the mean is taken away."""

    @property
    def matrix_error(self) -> float:
        """A bound on the norm of the error of its entries."""

    @property
    def product_error(self) -> float:
        """A bound on the error of the product with a unit vector."""

    @property
    def square_sum(self) -> float:
        """A bound on the sum of the squares of its eigenvalues from above, the error of its entries included."""

    @abstractmethod
    def product(self, V: Array) -> Array:
        """Return the product with columns."""

    @abstractmethod
    def dense(self) -> Array:
        """Return it as a matrix of its own, right to :attr:`product_error`."""


@dataclass(frozen=True)
class CentredOperator:
    """A = P S K S P.

    Parameters
    ----------
    kernel_matrix
        K, however it is kept.
    root
        The roots of the weights, where K is; None where all weights are one.
    mean_row
        The mean of the rows of K by their weights.
    trace
        A bound on the trace of A from above.
    definite
        Whether the formula of the kernel makes A positive semi-definite.
    norm
        A bound on the Frobenius norm of SKS with entries replaced by their sizes.
    matrix_error
        A bound on the norm of the error of SKS, also on that of Frobenius: of the kernel values and of their scaling.
    """

    kernel_matrix: SymmetricOperator
    root: Array | None
    mean_row: Array
    trace: float
    definite: bool
    norm: float
    matrix_error: float

    @classmethod
    def of(
        cls, kernel_matrix: SymmetricOperator, kernel: Kernel, X: Any, weights: Array | None = None
    ) -> "CentredOperator":
        """Return the operator of a kernel matrix of points, with the error of its values as the kernel states it."""
        v = None if weights is None else np.asarray(to_numpy(weights), dtype=np.float64)
        counted: Any = 1.0 if v is None else v
        sizes = np.abs(np.asarray(to_numpy(kernel_matrix.diagonal), dtype=np.float64))
        mass = at_most(float(np.sum(counted * sizes)))
        envelope = kernel.envelope
        if kernel.pairwise:
            error = 0.0
        elif envelope is kernel:
            error = kernel.rounding(X) * mass
        else:
            error = 2.0 * envelope.rounding(X) * float(np.sum(counted * np.abs(to_numpy(envelope.diag(X)))))
        # |K_ij| <= (K_ii K_jj)^(1/2) where K is a kernel matrix: its entries by size have at most the norm of the trace
        definite = kernel.trusted and not kernel.pairwise
        norm = mass if definite else _entry_norm(kernel_matrix, v)
        root = None if v is None else on_device_of(kernel_matrix.diagonal, np.sqrt(v))
        if v is not None:
            error += relative_rounding(4.0) * norm
        n = kernel_matrix.n
        total = float(n) if v is None else float(v.sum())
        shares = on_device_of(kernel_matrix.diagonal, np.full(n, 1.0 / n) if v is None else v / total)
        mean_row = kernel_matrix.product(shares)
        middle = total * float(shares @ mean_row)
        diagonal = float(np.sum(counted * np.asarray(to_numpy(kernel_matrix.diagonal))))
        trace = diagonal - middle + relative_rounding(3.0 * n + 10.0) * norm + 2.0 * error
        return cls(
            kernel_matrix=kernel_matrix,
            root=root,
            mean_row=mean_row,
            trace=trace,
            definite=definite,
            norm=norm,
            matrix_error=at_most(error),
        )

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.kernel_matrix.n

    @property
    def product_error(self) -> float:
        """A bound on the error of the product with a unit vector, K being what is stored.

        Two projections, two scalings and a product of N terms each lose at most 2N + 4 roundings of the norm.
        """
        return at_most(relative_rounding(3.0 * self.n + 20.0) * self.norm)

    @cached_property
    def square_sum(self) -> float:
        r"""A bound on the sum of the squares of the eigenvalues of A from above, from one pass over the entries.

        .. math:: \|P M P\|_F^2 = \|M\|_F^2 - 2 \|M q\|^2 + (q^T M q)^2, \qquad M = S K S .

        What the computed eigenvalues leave of it is a small difference, so it exceeds the sum by rounding alone.
        """
        entries = _entry_squares(self.kernel_matrix, self.root)
        if not entries > LEAST_SQUARES:
            return math.inf
        # M q, from the mean row: K S q = K v / |v^(1/2)| is the mean row times the root of all the weight
        xp = namespace_of(self.mean_row)
        if self.root is None:
            along, q = math.sqrt(self.n) * self.mean_row, None
            middle = float(xp.sum(along)) / math.sqrt(self.n)
        else:
            length = float(xp.linalg.vector_norm(self.root))
            along, q = self.root * self.mean_row * length, self.root / length
            middle = float(q @ along)
        centred = entries - 2.0 * float(xp.sum(along * along)) + middle**2
        rounding = relative_rounding(8.0 * self.n + 40.0) * 4.0 * (entries + self.norm**2)
        length = math.sqrt(max(centred, 0.0) + rounding) + self.matrix_error
        return length**2 * (1.0 + relative_rounding(8.0))

    def product(self, V: Array) -> Array:
        """Return A V, one column per vector, or for one vector."""
        if self.root is None:
            return self._centre(self.kernel_matrix.product(self._centre(V)))
        root = self.root if V.ndim == 1 else self.root[:, None]
        return self._centre(root * self.kernel_matrix.product(root * self._centre(V)))

    def dense(self) -> Array:
        """Return A as a matrix of its own, right to :attr:`product_error`."""
        K = np.array(to_numpy(self._entries()), dtype=np.float64)
        if self.root is not None:
            root = np.asarray(to_numpy(self.root))
            K *= root[:, None]
            K *= root[None, :]
        q = self._direction(K)
        means = K @ q
        middle = 0.5 * float(q @ means) * q - means
        K += np.outer(q, middle)
        K += np.outer(middle, q)
        return K

    def support_values(self, vectors: Array) -> Array:
        """Return alpha = S u for every column u."""
        if self.root is None:
            return vectors
        values: Array = self.root[:, None] * vectors
        return values

    def biases(self, support_values: Array) -> Array:
        """Return b = -v'K alpha / 1'v for every column alpha: the scores of the rows have the weighted mean zero."""
        biases: Array = -(self.mean_row @ support_values)
        return biases

    def _entries(self) -> Array:
        matrix = getattr(self.kernel_matrix, "matrix", None)
        if matrix is not None:
            entries: Array = matrix
            return entries
        every = np.arange(self.n)
        return self.kernel_matrix.block(every, every)

    def _direction(self, like: Array) -> Array:
        if self.root is None:
            return np.full(like.shape[0], 1.0 / math.sqrt(like.shape[0]))
        root = np.asarray(to_numpy(self.root))
        return np.asarray(root / np.linalg.norm(root))

    def _centre(self, V: Array) -> Array:
        """Return P V."""
        xp = namespace_of(V)
        if self.root is None:
            centred: Array = V - xp.mean(V, axis=0)
            return centred
        q = self.root / xp.linalg.vector_norm(self.root)
        along = q @ V
        rest: Array = V - (q * along if V.ndim == 1 else q[:, None] * along[None, :])
        return rest


def _entry_norm(kernel_matrix: SymmetricOperator, weights: Array | None) -> float:
    """Return the Frobenius norm of SKS."""
    root = None if weights is None else on_device_of(kernel_matrix.diagonal, np.sqrt(weights))
    return at_most(math.sqrt(_entry_squares(kernel_matrix, root)))


def _entry_squares(kernel_matrix: SymmetricOperator, root: Array | None) -> float:
    """Return the sum of the squares of the entries of SKS, some rows at a time."""
    total = 0.0
    for rows, block in kernel_matrix.upper_strips():
        xp = namespace_of(block)
        scaled = block if root is None else root[rows, None] * block * root[None, rows.start :]
        own = scaled[:, : rows.stop - rows.start]
        # behind the square on the diagonal every entry stands for two
        total += 2.0 * float(xp.sum(paired_sums(scaled, scaled, 1))) - float(xp.sum(paired_sums(own, own, 1)))
    return total
