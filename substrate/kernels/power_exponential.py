r"""The exponential of a power of a distance, between the Laplacian kernel and the RBF kernel, and beyond the first.

.. math:: k(x, z) = \exp\!\left( - \Big( \frac{\|x - z\|_p}{\sigma} \Big)^{q} \right)
                  = \exp\!\left( - \Big( \sum_c \frac{|x_c - z_c|^p}{\sigma_c^p} \Big)^{q/p} \right), \qquad
          0 < q \le p \le 2 .

:math:`|u|^p` is negative definite for :math:`0 < p \le 2`, sums of such functions are, and so are powers of them with
exponents from 0 to 1; the exponential of the negative is then positive definite ([Schoenberg1938]_). p = q = 1 is the
Laplacian kernel, p = q = 2 the RBF kernel, p = 2 and q = 1 the Matérn kernel of smoothness 1/2. With p below 2 the axes
of the inputs matter, and with q below 1 the values near a row fall faster, and those far from it slower, than with any
width of the Laplacian kernel. With :math:`s = (\|x - z\|_p / \sigma)^q`,

.. math:: \frac{\partial k(x, z)}{\partial \log \sigma_c} = q\, s\, e^{-s} \,
          \frac{|x_c - z_c|^p / \sigma_c^p}{\sum_j |x_j - z_j|^p / \sigma_j^p} .
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from substrate.arrays import Array, is_sparse, positive
from substrate.certificates.rounding import exponential_rounding
from substrate.errors import DeclarationError
from substrate.kernels.base import Formula, Number
from substrate.kernels.distances import Units, metric_distances
from substrate.kernels.exponentials import exponential
from substrate.kernels.widths import KernelOfDistance, each_distance, median_distance, one_of
from substrate.namespaces import namespace_of

__all__ = ["PowerExponential"]

#: Smallest q for which the largest and the smallest difference of two numbers are those of infinity and zero.
_SMALLEST_KNOWN = 0.1
#: The powers of which distances are computed at once.
_METRICS = {1.0: "cityblock", 2.0: "euclidean"}
#: Differences in units of the width: beyond the first every value is zero, and their powers are numbers.
_FARTHEST, _NEAREST = 1e150, float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, repr=False)
class PowerExponential(KernelOfDistance):
    """exp(-(||x - z||_p / sigma)^q), 0 < q <= p <= 2, or one width per column.

    ``sigma="median"`` takes the median distance of the training points, by the same p, ``sigma="each"`` one width per
    column from them.
    """

    p: float = 1.0
    q: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("p", "q"):
            object.__setattr__(self, name, positive(getattr(self, name), name))
        if not self.q <= self.p <= 2.0:
            raise DeclarationError(
                f"exp(-(||x - z||_p / sigma)^q) is positive definite for 0 < q <= p <= 2, received p={self.p:g} and "
                f"q={self.q:g}; take p at most 2 and q at most p"
            )

    def _resolve(self, X: Any) -> Self:
        if isinstance(self.sigma, str):
            rule: Any = each_distance if self.sigma == "each" else median_distance
            return replace(self, sigma=rule(X, "minkowski", self.p))
        return super()._resolve(X)

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the kernel values into ``out``."""
        with np.errstate(over="ignore", under="ignore"):
            np.exp(-self._exponents(X, Z), out=out)

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return the kernel values as a new array in the namespace of the points."""
        xp = namespace_of(X)
        points = (xp.astype(X, dtype), xp.astype(Z, dtype))
        largest, total = _largest_and_sum(xp, *points, self._widths(X.shape[1]), self.p)
        return exponential(-self._power(largest, total))

    def distances(self, X: Any, Z: Any) -> Array:
        """Return ||x - z||_p in units of the widths."""
        widths = self._widths(X.shape[1])
        if self.p in _METRICS:
            out = np.empty((X.shape[0], Z.shape[0]))
            metric_distances(X, Z, _METRICS[self.p], widths, out)
            return out
        left, right = (points.toarray() if is_sparse(points) else points for points in (X, Z))
        largest, total = _largest_and_sum(np, left, right, widths, self.p)
        return np.asarray(largest * total ** (1.0 / self.p))

    def _exponents(self, X: Any, Z: Any) -> Array:
        """Return s."""
        if self.p in _METRICS:
            distances = self.distances(X, Z)
            return np.asarray(np.sqrt(distances) if self.q == 0.5 else distances**self.q)
        left, right = (points.toarray() if is_sparse(points) else points for points in (X, Z))
        return np.asarray(self._power(*_largest_and_sum(np, left, right, self._widths(X.shape[1]), self.p)))

    def _power(self, largest: Any, total: Any) -> Any:
        """Return s, from the largest difference of a pair and the sum of p-th powers in units of it."""
        return largest**self.q * (total if self.p == self.q else total ** (self.q / self.p))

    @property
    def not_smooth(self) -> str:
        """It has a kink, or a cusp."""
        return "it has a kink where x = z, unless p = q = 2; take RBF or Matern(nu > 1)"

    @property
    def has_steady_decay(self) -> bool:
        """False: sums in the place of integrals have no bound here."""
        return False

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return the derivatives above, weighted and added up; of one width, the sum over the columns."""
        widths = self._widths(X.shape[1])
        largest, total = _largest_and_sum(np, X, Z, widths, self.p)
        with np.errstate(over="ignore", under="ignore"):
            s = np.minimum(self._power(largest, total), 1e3)  # exp(-1e3) is zero; infinity times zero would be NaN
            slopes = weights * (self.q * s * np.exp(-s))
        if isinstance(widths, float):
            return np.array([float(slopes.sum())])
        slopes /= np.where(total > 0.0, total, 1.0)  # equal points change nothing
        sums = np.empty(widths.size)
        for column in range(widths.size):
            ratio = _difference(np, X, Z, widths, column) / largest
            sums[column] = float(np.vdot(slopes, ratio**self.p))
        return sums

    def rounding(self, X: Any) -> float:
        """Bound the rounding: s is right to the operations of its ratios, powers (each to four units of the last place)
        and sums.

        No bound is known for a q so small that differences which underflow or overflow have values of their own.
        """
        if self.q < _SMALLEST_KNOWN:
            return math.inf
        return exponential_rounding(X.shape[1] + 40.0, 4.0)

    def _exact(self, number: Number, sigma: float) -> Formula:
        """Return the formula above."""
        p, q, unit = number(self.p), number(self.q), number(sigma)

        def value(x: Any, z: Any) -> Any:
            differences = (abs(a - b) / unit for a, b in zip(x, z, strict=True))
            return (-(sum(difference**p for difference in differences) ** (q / p))).exp()

        return value


def _difference(xp: Any, X: Any, Z: Any, widths: Units, column: int) -> Any:
    """Return |x_c - z_c| / sigma_c for all pairs, as numbers whose powers are numbers."""
    with np.errstate(over="ignore", under="ignore"):
        differences = xp.abs(X[:, column, None] - Z[None, :, column]) / one_of(widths, column)
        return xp.clip(differences, max=_FARTHEST)


def _largest_and_sum(xp: Any, X: Any, Z: Any, widths: Units, p: float) -> tuple[Any, Any]:
    """Return the largest difference of every pair in units of the widths, and the sum of p-th powers over its own.

    The largest is not below the smallest normal number, so that ratios are numbers; the sum of equal points is zero.
    """
    d = X.shape[1]
    largest = _difference(xp, X, Z, widths, 0)
    for column in range(1, d):
        largest = xp.maximum(largest, _difference(xp, X, Z, widths, column))
    largest = xp.clip(largest, min=_NEAREST)
    with np.errstate(under="ignore"):
        total = (_difference(xp, X, Z, widths, 0) / largest) ** p
        for column in range(1, d):
            total = total + (_difference(xp, X, Z, widths, column) / largest) ** p
    return largest, total
