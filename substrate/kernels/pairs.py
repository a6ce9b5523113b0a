r"""Kernel matrices of one set of points at many widths, and sums of their derivatives, from differences taken once.

A kernel of the distance with widths :math:`\sigma_c` is a function f of one weighted sum for each pair of points,

.. math:: k(x, z) = f(s), \qquad s = \sum_c \Big( \frac{\sigma^0_c}{\sigma_c} \Big)^p D_c, \qquad
          D_c = \Big( \frac{|x_c - z_c|}{\sigma^0_c} \Big)^p, \qquad
          \frac{\partial k}{\partial \log \sigma_c} = -p f'(s) \Big( \frac{\sigma^0_c}{\sigma_c} \Big)^p D_c,

so that a search over the widths keeps D, for the pairs i < j in the order of their rows, and takes two products of it
with a vector at every step; with one width for all columns D is one number for each pair.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.kernels.base import BaseKernel
from substrate.kernels.matern import ELEMENTARY, Matern
from substrate.kernels.of_distance import NUMPY, KernelOfDistance

__all__ = ["PairDistances"]

#: Most numbers that are kept, and most pairs.
_MOST, _MOST_PAIRS = 28_000_000, 8_000_000
#: Beyond this a kernel value is zero at every width of a search; infinity times zero would be NaN.
_FARTHEST = 1e30


@dataclass(frozen=True, slots=True)
class PairDistances:
    """D, one row per width and one column per pair, and the kernel in whose widths it is measured."""

    kernel: Any
    columns: Array
    n: int

    @classmethod
    def of(cls, kernel: BaseKernel, X: Array) -> "PairDistances | None":
        """Return the distances of the points of a search from ``kernel`` on; None for a kernel of another kind, or
        where it is too large.
        """
        if not isinstance(kernel, KernelOfDistance) or kernel.codes or isinstance(kernel.sigma, str):
            return None
        n, d = X.shape
        pairs, rows = n * (n - 1) // 2, d if isinstance(kernel.sigma, tuple) else 1
        bessel = isinstance(kernel, Matern) and kernel.nu not in ELEMENTARY
        if bessel or pairs > _MOST_PAIRS or rows * pairs > _MOST:
            return None
        from scipy.spatial.distance import pdist

        columns, units = np.zeros((rows, pairs)), kernel._unit(d)
        with np.errstate(over="ignore", invalid="ignore"):
            for c in range(d):
                differences = pdist(X[:, [c]], "cityblock")
                differences /= units[c]
                differences **= kernel.power
                columns[c if rows > 1 else 0] += differences
        return cls(kernel=kernel, columns=np.minimum(columns, _FARTHEST, out=columns), n=n)

    def matrix(self, kernel: BaseKernel) -> tuple[Array, Array]:
        """Return the kernel matrix of a kernel of the same kind with other widths, and -p f'(s) of the pairs."""
        from scipy.spatial.distance import squareform

        s = self._weights(kernel) @ self.columns
        values = self.kernel.formula(s, NUMPY)
        K = np.asarray(squareform(values, checks=False)) if self.n > 1 else np.ones((self.n, self.n))
        np.fill_diagonal(K, 1.0)
        return K, self.kernel.slope(s, values)

    def scale_gradient(self, kernel: BaseKernel, slopes: Array, weights: Array) -> Array:
        """Return the sums of ``weights[i, j]``, a symmetric matrix, times the derivative of k(x_i, x_j) in each log
        width.
        """
        from scipy.spatial.distance import squareform

        # both of a pair
        pulls = squareform(np.ascontiguousarray(weights), checks=False) * (2.0 * slopes)
        return np.asarray(self._weights(kernel) * (self.columns @ pulls))

    def _weights(self, kernel: Any) -> Array:
        if not isinstance(kernel, type(self.kernel)) or replace(kernel, sigma=self.kernel.sigma) != self.kernel:
            raise TypeError(f"{kernel!r} differs from {self.kernel!r} by more than its widths")
        return np.asarray(np.divide(self.kernel.sigma, kernel.sigma).reshape(-1) ** kernel.power)
