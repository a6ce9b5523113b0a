r"""The Laplacian kernel :math:`k(x, z) = \exp(-\|x - z\|_1 / \sigma)` (scikit-learn's gamma is 1/sigma).

With one width per column,

.. math:: k(x, z) = \exp\!\left(-\sum_c \frac{|x_c - z_c|}{\sigma_c}\right), \qquad
          \frac{\partial k(x, z)}{\partial \log \sigma_c} = \frac{|x_c - z_c|}{\sigma_c} \, k(x, z) .
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import exponential_rounding
from substrate.kernels.base import Formula, Number
from substrate.kernels.derivatives import Orders
from substrate.kernels.distances import metric_distances
from substrate.kernels.exponentials import exponential
from substrate.kernels.integrals import Profile, integrate_interval, integrate_intervals
from substrate.kernels.on_device import manhattan_distances
from substrate.kernels.scales import distances_by_column
from substrate.kernels.widths import KernelOfDistance, one_of

__all__ = ["Laplacian"]


@dataclass(frozen=True, repr=False)
class Laplacian(KernelOfDistance):
    """exp(-||x - z||_1 / sigma), or one width per column.

    ``sigma="median"`` takes the median L1 distance of the training points, ``sigma="each"`` one width per column from
    them.
    """

    metric: ClassVar[str] = "cityblock"

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the kernel values into ``out``."""
        metric_distances(X, Z, self.metric, self._widths(X.shape[1]), out)
        np.negative(out, out=out)
        np.exp(out, out=out)

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return the kernel values as a new array in the namespace of the points."""
        distances = manhattan_distances(X, Z, self._widths(X.shape[1]), dtype)
        return exponential(-distances)

    @property
    def not_smooth(self) -> str:
        """It has a kink."""
        return "it has a kink where x = z; take RBF or Matern(nu > 1)"

    @property
    def no_integral(self) -> str:
        """Empty: it is a product of exponentials of one difference."""
        return ""

    def _integral(self, X: Array, boxes: Array, orders: Orders) -> Array:
        """The product over the columns."""
        self.refuse_orders(orders)
        values = np.ones((X.shape[0], boxes.shape[0]))
        for c in range(X.shape[1]):
            sigma = one_of(self._widths(X.shape[1]), c)
            values *= integrate_interval(_exponential(sigma), sigma, X[:, c], boxes[:, c], 0)
        return values

    def _double_integral(self, boxes: Array, others: Array) -> Array:
        """The product over the columns."""
        values = np.ones((boxes.shape[0], others.shape[0]))
        for c in range(boxes.shape[1]):
            sigma = one_of(self._widths(boxes.shape[1]), c)
            values *= integrate_intervals(_exponential(sigma), sigma, boxes[:, c], others[:, c])
        return values

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return |x_c - z_c|/sigma_c k(x, z), weighted and added up; of one width, the sum over the columns."""
        widths = self._widths(X.shape[1])
        distances = np.empty(weights.shape)
        metric_distances(X, Z, self.metric, widths, distances)
        np.minimum(distances, 1e3, out=distances)  # exp(-1e3) is zero; infinity times zero would be NaN
        slopes = weights * np.exp(-distances)
        if isinstance(widths, float):
            return np.array([np.vdot(slopes, distances)])
        return distances_by_column(X, Z, widths, slopes, 1)

    def rounding(self, X: Any) -> float:
        """Bound the rounding: distances are right to d + 4 roundings, t exp(-t) is at most 1/e, and the exponential
        to four.
        """
        return exponential_rounding(X.shape[1] + 6.0, 4.0)

    def _exact(self, number: Number, sigma: float) -> Formula:
        """Return the formula above."""
        scale = -1 / number(sigma)
        return lambda x, z: (sum(abs(a - b) for a, b in zip(x, z, strict=True)) * scale).exp()


def _exponential(sigma: float) -> Profile:
    """exp(-|u|/sigma) as a function of one difference u; its tails are multiples of itself."""

    def value(u: Array, order: int = 0) -> Array:
        return np.asarray(np.exp(-np.minimum(np.abs(u) / sigma, 1e3)))

    return Profile(value, lambda u: sigma * value(u), lambda u: sigma**2 * value(u))
