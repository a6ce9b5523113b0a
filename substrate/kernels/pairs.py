r"""Kernel matrices of one set of points at many widths, and sums of their derivatives, from differences taken once.

A kernel of the distance with widths :math:`\sigma_c` is a function f of one weighted sum for each pair of points,

.. math:: k(x, z) = f(s), \qquad s = \sum_c \Big( \frac{\sigma^0_c}{\sigma_c} \Big)^p D_c, \qquad
          D_c = \Big( \frac{|x_c - z_c|}{\sigma^0_c} \Big)^p, \qquad
          \frac{\partial k}{\partial \log \sigma_c} = -p f'(s) \Big( \frac{\sigma^0_c}{\sigma_c} \Big)^p D_c,

p = 2, 1 for the Laplacian kernel, or a power of its own, so that a search over the widths keeps D, for half of the
pairs, and takes two products of it with a vector at every step; with one width for all columns D is one number for each
pair.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.kernels.base import BaseKernel
from substrate.kernels.distances import metric_distances
from substrate.kernels.laplacian import Laplacian
from substrate.kernels.matern import Matern
from substrate.kernels.power_exponential import PowerExponential
from substrate.kernels.rbf import RBF

__all__ = ["PairDistances"]

#: Most numbers that are kept, and most pairs, whose places are kept too.
_MOST, _MOST_PAIRS = 20_000_000, 8_000_000
#: Beyond this a kernel value is zero at every width of a search; infinity times zero would be NaN.
_FARTHEST = 1e30


@dataclass(frozen=True, slots=True)
class PairDistances:
    """D, one row per width, the pairs as places in a flat matrix, and the kernel in whose widths it is measured."""

    kernel: Any
    columns: Array
    lower: NDArray[np.intp]
    upper: NDArray[np.intp]
    n: int

    @classmethod
    def of(cls, kernel: BaseKernel, X: Array) -> "PairDistances | None":
        """Return the distances of the points of a search from ``kernel`` on; None for a kernel of another kind, or
        where it is too large.
        """
        if not isinstance(kernel, (RBF, Laplacian, Matern, PowerExponential)) or isinstance(kernel.sigma, str):
            return None
        if isinstance(kernel, Matern) and kernel.nu not in (0.5, 1.5, 2.5):
            return None
        n, d = X.shape
        widths, rows, p = kernel.sigma, d if isinstance(kernel.sigma, tuple) else 1, _power(kernel)
        pairs = n * (n - 1) // 2
        if pairs > _MOST_PAIRS or rows * pairs > _MOST:
            return None
        first, second, upper, lower = _places(n)
        if isinstance(widths, tuple):
            columns = np.empty((d, first.size))
            with np.errstate(over="ignore", invalid="ignore"):
                for row, width in enumerate(widths):
                    x = X[:, row]
                    np.subtract(x[first], x[second], out=columns[row])
                    columns[row] /= width
                columns = _to_power(columns, p)
        else:
            distances = np.empty((n, n))
            if isinstance(kernel, PowerExponential):
                distances = kernel.distances(X, X)
            else:
                metric_distances(X, X, kernel.metric, widths, distances)
            with np.errstate(over="ignore"):
                columns = _to_power(distances[first, second][None], p)
        np.minimum(columns, _FARTHEST, out=columns)
        return cls(kernel=kernel, columns=columns, lower=lower, upper=upper, n=n)

    def matrix(self, kernel: BaseKernel) -> tuple[Array, Array]:
        """Return the kernel matrix of a kernel of the same kind with other widths, and -p f'(s) of the pairs."""
        values, slopes = _values_and_slopes(self.kernel, self._weights(kernel) @ self.columns)
        K = np.ones((self.n, self.n))
        flat = K.reshape(-1)
        flat[self.lower] = values
        flat[self.upper] = values
        return K, slopes

    def scale_gradient(self, kernel: BaseKernel, slopes: Array, weights: Array) -> Array:
        """Return the sums of ``weights[i, j]``, a square matrix, times the derivative of k(x_i, x_j) in each log
        width.
        """
        flat = np.ascontiguousarray(weights).reshape(-1)
        pulls = flat[self.lower]
        pulls += flat[self.upper]
        pulls *= slopes
        return np.asarray(self._weights(kernel) * (self.columns @ pulls))

    def _weights(self, kernel: Any) -> Array:
        if _formula(kernel) != _formula(self.kernel):
            raise TypeError(f"{kernel!r} differs from {self.kernel!r} by more than its widths")
        ratios: Array = np.divide(self.kernel.sigma, kernel.sigma).reshape(-1)
        return _to_power(ratios, _power(kernel))


@lru_cache(maxsize=8)
def _places(n: int) -> tuple[NDArray[np.intp], ...]:
    """Return the pairs i < j: their rows, their columns, and the places of (i, j) and (j, i) in a flat matrix."""
    first, second = np.triu_indices(n, 1)
    places = (first, second, first * n + second, second * n + first)
    for each in places:
        each.flags.writeable = False
    return places


def _power(kernel: Any) -> float:
    if isinstance(kernel, PowerExponential):
        return kernel.p
    return 1.0 if isinstance(kernel, Laplacian) else 2.0


def _to_power(values: Array, p: float) -> Array:
    """Return |values|^p."""
    sizes = np.abs(values)
    return np.asarray(sizes if p == 1.0 else np.square(sizes) if p == 2.0 else sizes**p)


def _formula(kernel: Any) -> tuple[Any, ...]:
    """Return what a kernel is but for its widths."""
    return type(kernel), *(getattr(kernel, name, None) for name in ("nu", "p", "q"))


def _values_and_slopes(kernel: Any, s: Array) -> tuple[Array, Array]:
    """Return f(s) and -p f'(s)."""
    if isinstance(kernel, PowerExponential):
        power = np.sqrt(s) if kernel.q == 0.5 * kernel.p else s ** (kernel.q / kernel.p)
        values = np.exp(-power)
        # at a distance of zero nothing changes
        return values, np.where(s > 0.0, kernel.q * values * power / np.where(s > 0.0, s, 1.0), 0.0)
    if not isinstance(kernel, Matern):
        values = np.exp(-s)
        return values, _power(kernel) * values
    r = np.sqrt(2.0 * kernel.nu * s)
    decay = np.exp(-r)
    if kernel.nu == 0.5:  # at a distance of zero nothing changes
        return decay, np.where(r > 0.0, decay / np.where(r > 0.0, r, 1.0), 0.0)
    if kernel.nu == 1.5:
        return (1.0 + r) * decay, 3.0 * decay
    linear = (1.0 + r) * decay
    return linear + r * r / 3.0 * decay, 5.0 / 3.0 * linear
