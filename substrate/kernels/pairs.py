r"""Kernel matrices of one set of points at many widths, and sums of their derivatives, from differences taken once.

A kernel of the distance with widths :math:`\sigma_c` is a function f of one weighted sum for each pair of points,

.. math:: k(x, z) = f(s), \qquad s = \sum_c \Big( \frac{\sigma^0_c}{\sigma_c} \Big)^p D_c, \qquad
          D_c = \Big( \frac{|x_c - z_c|}{\sigma^0_c} \Big)^p, \qquad
          \frac{\partial k}{\partial \log \sigma_c} = -p f'(s) \Big( \frac{\sigma^0_c}{\sigma_c} \Big)^p D_c,

p = 2, 1 for the Laplacian kernel, or a power of its own, so that a search over the widths keeps D, for the pairs i < j
in the order of their rows, and takes two products of it with a vector at every step; with one width for all columns D
is one number for each pair.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.kernels.base import BaseKernel
from substrate.kernels.distances import metric_distances
from substrate.kernels.laplacian import Laplacian
from substrate.kernels.matern import Matern
from substrate.kernels.power_exponential import PowerExponential
from substrate.kernels.rbf import RBF

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
        if not isinstance(kernel, (RBF, Laplacian, Matern, PowerExponential)) or isinstance(kernel.sigma, str):
            return None
        if isinstance(kernel, Matern) and kernel.nu not in (0.5, 1.5, 2.5):
            return None
        n, d = X.shape
        widths, rows, p = kernel.sigma, d if isinstance(kernel.sigma, tuple) else 1, _power(kernel)
        pairs = n * (n - 1) // 2
        if pairs > _MOST_PAIRS or rows * pairs > _MOST:
            return None
        from scipy.spatial.distance import pdist, squareform

        with np.errstate(over="ignore", invalid="ignore"):
            if isinstance(widths, tuple):
                columns = np.empty((d, pairs))
                for column, x, width in zip(columns, X.T, widths, strict=True):
                    pdist(x[:, None], "cityblock", out=column)
                    column /= width
            else:
                distances = np.empty((n, n))
                if isinstance(kernel, PowerExponential):
                    distances = kernel.distances(X, X)
                else:
                    metric_distances(X, X, kernel.metric, widths, distances)
                columns = squareform(distances, checks=False)[None]
            _raise_to_power(columns, p)
        if not float(columns.max(initial=0.0)) <= _FARTHEST:
            np.minimum(columns, _FARTHEST, out=columns)
        return cls(kernel=kernel, columns=columns, n=n)

    def matrix(self, kernel: BaseKernel) -> tuple[Array, Array]:
        """Return the kernel matrix of a kernel of the same kind with other widths, and -p f'(s) of the pairs."""
        from scipy.spatial.distance import squareform

        values, slopes = _values_and_slopes(self.kernel, self._weights(kernel) @ self.columns)
        K = np.asarray(squareform(values, checks=False)) if self.n > 1 else np.ones((self.n, self.n))
        np.fill_diagonal(K, 1.0)
        return K, slopes

    def scale_gradient(self, kernel: BaseKernel, slopes: Array, weights: Array) -> Array:
        """Return the sums of ``weights[i, j]``, a symmetric matrix, times the derivative of k(x_i, x_j) in each log
        width.
        """
        from scipy.spatial.distance import squareform

        # both of a pair
        pulls = squareform(np.ascontiguousarray(weights), checks=False) * (2.0 * slopes)
        return np.asarray(self._weights(kernel) * (self.columns @ pulls))

    def _weights(self, kernel: Any) -> Array:
        if _formula(kernel) != _formula(self.kernel):
            raise TypeError(f"{kernel!r} differs from {self.kernel!r} by more than its widths")
        ratios: Array = np.divide(self.kernel.sigma, kernel.sigma).reshape(-1)
        _raise_to_power(ratios, _power(kernel))
        return ratios


def _power(kernel: Any) -> float:
    if isinstance(kernel, PowerExponential):
        return kernel.p
    return 1.0 if isinstance(kernel, Laplacian) else 2.0


def _raise_to_power(values: Array, p: float) -> None:
    """Overwrite distances by their power."""
    if p == 2.0:
        np.square(values, out=values)
    elif p != 1.0:
        np.power(values, p, out=values)


def _formula(kernel: Any) -> tuple[Any, ...]:
    """Return what a kernel is but for its widths."""
    return type(kernel), *(getattr(kernel, name, None) for name in ("nu", "p", "q"))


def _values_and_slopes(kernel: Any, s: Array) -> tuple[Array, Array]:
    """Return f(s) and -p f'(s); s is overwritten."""
    if isinstance(kernel, PowerExponential):
        power = np.sqrt(s) if kernel.q == 0.5 * kernel.p else s ** (kernel.q / kernel.p)
        values = _decay(power.copy())
        power *= values
        # at a distance of zero nothing changes
        np.divide(power, s, out=power, where=s > 0.0)
        power *= kernel.q
        return values, power
    if not isinstance(kernel, Matern):
        values = _decay(s)
        return values, _power(kernel) * values
    s *= 2.0 * kernel.nu
    r = np.sqrt(s)
    decay = _decay(r.copy())
    if kernel.nu == 0.5:  # at a distance of zero nothing changes
        return decay, np.divide(decay, r, out=np.zeros_like(r), where=r > 0.0)
    r += 1.0
    r *= decay  # (1 + r) e^(-r)
    if kernel.nu == 1.5:
        decay *= 3.0
        return r, decay
    decay *= s
    decay /= 3.0
    decay += r
    r *= 5.0 / 3.0
    return decay, r


def _decay(values: Array) -> Array:
    """Return e^(-v), in the memory of v."""
    np.negative(values, out=values)
    np.exp(values, out=values)
    return values
