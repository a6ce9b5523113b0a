r"""K x with a bound on its error, and the values of an expansion, from a matrix or from accurate kernel values.

A computed kernel value is within :math:`p\, s_i s_j` of the true one, :math:`s_i = \sqrt{k(x_i, x_i)}`, and a product
in working precision adds :math:`m u |K| |x|` where blocks of m terms are summed first and their sums then added as
pairs of numbers; in doubled precision (:mod:`substrate.certificates.doubled_precision`) the added error is negligible.
A user's matrix or function is exact by definition: p = 0.

The values of an expansion are computed block by block, in memory that does not grow with the rows. On the host their
sums are formed in blocks, too (:func:`~substrate.certificates.rounding.block_rounding`): less is lost than in one.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np

from substrate.arrays import Array
from substrate.certificates.doubled_precision import Pair, add, exact_product
from substrate.certificates.rounding import at_most, block_length, relative_rounding, sum_rounding
from substrate.kernels import Kernel
from substrate.kernels.base import blocks_beside, strips
from substrate.namespaces import is_device_array, namespace_of, take_columns, zeros_beside
from substrate.threads import blas_threads

__all__ = ["CarefulProducts", "KernelProducts", "PlainProducts", "expansion_values"]

#: Number of terms added up in working precision, and of rows computed at a time.
_TERMS, _ROWS = 32, 128


class KernelProducts(Protocol):
    """A kernel matrix as a map of vectors with a bound on its error."""

    def __call__(self, x: Array) -> tuple[Pair, Array]:
        """Return K x as a pair, and a bound on the error of every entry."""

    def sizes(self, x: Array) -> Array:
        """Bound ``|K| |x|``."""


class PlainProducts(NamedTuple):
    """By a matrix in working precision; ``rounding`` is the kernel's p, ``points`` are its inputs."""

    matrix: Array
    rounding: float
    definite: bool
    points: Any = None

    def __call__(self, x: Array) -> tuple[Pair, Array]:
        """Multiply a block of columns at a time, the products summed as pairs."""
        zero = np.zeros(self.matrix.shape[0])
        total: Pair = (zero, zero)
        for block in strips(x.size, _TERMS):
            if x[block].any():
                total = add(total, (self.matrix[:, block] @ x[block], zero))
        return total, at_most(1.0) * (sum_rounding(_TERMS) + self.rounding) * self.sizes(x)

    def groups(self, block: Any) -> Any:
        """Return a number per given column, the same for equal columns: of equal points, or by values."""
        if self.points is None:
            columns = self.matrix[:, block].T
        else:
            columns = self.points[block]
            columns = columns.toarray() if hasattr(columns, "toarray") else columns
        return np.unique(columns, axis=0, return_inverse=True)[1].ravel()

    def sizes(self, x: Array) -> Array:
        """Bound the sizes by the Cauchy-Schwarz inequality where the matrix is positive semi-definite."""
        if not self.definite:
            return np.asarray(np.abs(self.matrix) @ np.abs(x))
        s = np.sqrt(np.maximum(np.diagonal(self.matrix), 0.0))
        return np.asarray(at_most(1.0) * s * float(s @ np.abs(x)))


class CarefulProducts(NamedTuple):
    """By accurate kernel values, or a given ``matrix``, in doubled precision."""

    kernel: Kernel
    points: Any
    plain: PlainProducts

    def __call__(self, x: Array) -> tuple[Pair, Array]:
        """Compute K x by blocks of rows of the kernel matrix, or by features."""
        if self.kernel.pairwise:
            return exact_product(self.plain.matrix, x)
        if self.kernel.rank(self.points.shape[1]) is not None and self.kernel.feature_rounding() == 0.0:
            return self._by_features(x)
        (used,) = np.nonzero(x)
        points, rounding = self.points[used], self.kernel.careful_rounding(self.points)
        high, low, radius = np.zeros(x.size), np.zeros(x.size), np.zeros(x.size)
        for strip in strips(x.size, _ROWS):
            block = np.empty((strip.stop - strip.start, used.size))
            self.kernel.fill_carefully(self.points[strip], points, block)
            (high[strip], low[strip]), radius[strip] = exact_product(block, x[used])
        return (high, low), at_most(1.0) * (radius + rounding * self.sizes(x))

    def _by_features(self, x: Array) -> tuple[Pair, Array]:
        """Return K x = Phi (Phi'x), where the features are exact."""
        dense = self.points.toarray() if hasattr(self.points, "toarray") else self.points
        features = np.ascontiguousarray(self.kernel.features(dense))
        (w, low_part), radius = exact_product(np.ascontiguousarray(features.T), x)
        product, error = exact_product(features, w)
        less = features @ low_part
        radius = radius + relative_rounding(features.shape[1]) * np.abs(low_part)
        return add(product, (less, np.zeros_like(less))), at_most(1.0) * (error + np.abs(features) @ radius)

    def sizes(self, x: Array) -> Array:
        """Bound the sizes as for the plain matrix."""
        return self.plain.sizes(x)


def expansion_values(kernel: Kernel, points: Any, a: Array, b: Any, X: Any, columns: Any = None) -> Array:
    """Return sum_i a_i k(x_i, x) + b for every row x of X; ``a`` has one column per output, or none.

    ``points`` are the x_i. A precomputed kernel has none: its rows X hold kernel values, of the x_i in ``columns``.
    """
    result: Array = zeros_beside(a, (X.shape[0], *a.shape[1:]))
    is_on_device, xp = is_device_array(X), namespace_of(a)
    if a.shape[0] == 0:  # only the bias is left
        result += b
        return result
    buffer = None if is_on_device else np.empty((256, a.shape[0]))
    with blas_threads(a.shape[0]):
        for rows in blocks_beside(a, X.shape[0], a.shape[0]):
            rows_of_X = X[rows, :]
            if kernel.pairwise and columns is not None:
                rows_of_X = take_columns(rows_of_X, columns)
            if buffer is None:
                columns_of_X = a if points is None else points  # of a given matrix only the number of columns matters
                result[rows, ...] = kernel.evaluate(rows_of_X, columns_of_X, xp.float64) @ a
                continue
            block = buffer[: rows.stop - rows.start]
            kernel.fill(rows_of_X, points, block)
            first, *others = strips(a.shape[0], block_length(a.shape[0]))
            np.matmul(block[:, first], a[first], out=result[rows])
            for terms in others:
                result[rows] += block[:, terms] @ a[terms]
    result += b
    return result
