r"""The radial basis function kernel.

.. math:: k(x, z) = \exp\!\left(-\frac{\|x - z\|^2}{\sigma^2}\right)

This is the form all five source papers use ([Pelckmans2005]_ after eq. (3), [Suykens2002]_ after eq. (9));
scikit-learn's ``gamma`` is 1/sigma^2. With one width per column,

.. math:: k(x, z) = \exp\!\left(-\sum_c \frac{(x_c - z_c)^2}{\sigma_c^2}\right), \qquad
          \frac{\partial k(x, z)}{\partial \log \sigma_c} = 2 \frac{(x_c - z_c)^2}{\sigma_c^2} \, k(x, z) .
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, is_sparse
from substrate.certificates.rounding import at_most, exponential_rounding, relative_rounding
from substrate.kernels.base import Formula, Number
from substrate.kernels.derivatives import Orders
from substrate.kernels.distances import (
    differences,
    exact_squared_distance,
    metric_distances,
    pair_shares,
    scaled_squared_distances,
    squared_distance_error,
)
from substrate.kernels.exponentials import exponential
from substrate.kernels.integrals import Profile, integrate_interval, integrate_intervals
from substrate.kernels.on_device import negative_squared_distances
from substrate.kernels.scales import squares_by_column
from substrate.kernels.widths import KernelOfDistance, one_of

__all__ = ["RBF"]

#: In units of the width: exp(-50^2) is zero.
_FAR = 50.0
_ROOT_LOG2_E = 1.4426950408889634**0.5
#: Of a squared distance, in units of the width, that is computed by products; see scaled_squared_distances.
_ERROR = 2e-13
#: The error of an exponent from which on nothing is said of one value by its own size.
_LARGEST_SHARE = 1e-3


@dataclass(frozen=True, repr=False)
class RBF(KernelOfDistance):
    """exp(-||x - z||^2 / sigma^2), or one width per column.

    ``sigma="median"`` takes the median distance of the training points, ``sigma="each"`` one width per column from
    them.
    """

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the kernel values into ``out``."""
        # 2^(x log2 e) is e^x, and a power of two is a tenth cheaper than the exponential
        scaled_squared_distances(X, Z, self._inverse(X.shape[1], _ROOT_LOG2_E), -1.0, out)
        np.exp2(out, out=out)

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return the kernel values as a new array in the namespace of the points."""
        values = negative_squared_distances(X, Z, self._inverse(X.shape[1]), dtype)
        return exponential(values, is_rounded=dtype != X.dtype)

    @property
    def not_smooth(self) -> str:
        """Empty: it has derivatives of all orders."""
        return ""

    def _derivative(self, X: Array, Z: Array, left: Orders, right: Orders) -> Array:
        r"""Return the product over the columns, with the polynomials of Hermite and one exponential.

        .. math:: D_x^a D_z^b k = \prod_c (-1)^{a_c} \sigma_c^{-a_c-b_c} H_{a_c+b_c}(t_c) \, e^{-t^T t} , \qquad
                  t_c = (x_c - z_c)/\sigma_c .
        """
        unit = self._unit(X.shape[1])
        values = np.empty((X.shape[0], Z.shape[0]))
        metric_distances(X, Z, self.metric, unit, values)
        np.minimum(values, _FAR, out=values)
        np.square(values, out=values)
        np.negative(values, out=values)
        with np.errstate(under="ignore", over="ignore"):
            np.exp(values, out=values)
            for c in sorted({*left, *right}):
                order, width = left.get(c, 0) + right.get(c, 0), one_of(unit, c)
                if order:
                    values *= _hermites(order, np.clip(differences(X, Z, c) / width, -_FAR, _FAR))[order]
                for _ in range(order):
                    values /= width
        return -values if sum(left.values()) % 2 else values

    def derivative_sums(
        self, X: Array, Z: Array, every: Sequence[Orders], right: Orders, coefficients: Array
    ) -> list[Array]:
        """Return the derivatives of a sum; the exponential and the polynomials of every column are computed once."""
        unit = self._unit(X.shape[1])
        values = self._derivative(X, Z, {}, {})
        values *= coefficients
        columns = sorted({c for left in (*every, right) for c in left})
        tables = {}
        for c in columns:
            t = np.clip(differences(X, Z, c) / one_of(unit, c), -_FAR, _FAR)
            tables[c] = _hermites(max(left.get(c, 0) for left in every) + right.get(c, 0), t)
        partial: dict[tuple[int, ...], Array] = {(): values}
        sums = []
        for left in every:
            key: tuple[int, ...] = ()
            factor = -1.0 if sum(left.values()) % 2 else 1.0
            for c in columns:
                order = left.get(c, 0) + right.get(c, 0)
                before, key = key, (*key, order)
                if key not in partial:
                    partial[key] = partial[before] * tables[c][order] if order else partial[before]
                factor /= one_of(unit, c) ** order
            sums.append(factor * partial[key].sum(axis=1))
        return sums

    def _profile(self, r: Array, order: int, power: int) -> Array:
        """Return (-1)^order r^power exp(-r^2)."""
        with np.errstate(under="ignore"):
            return np.asarray((-1.0) ** order * r**power * np.exp(-np.square(r)))

    @property
    def no_integral(self) -> str:
        """Empty: it is a product of functions of one difference."""
        return ""

    def _integral(self, X: Array, boxes: Array, orders: Orders) -> Array:
        """Return the product over the columns."""
        values = np.ones((X.shape[0], boxes.shape[0]))
        for c in range(X.shape[1]):
            sigma = one_of(self._widths(X.shape[1]), c)
            values *= integrate_interval(_gaussian(sigma), sigma, X[:, c], boxes[:, c], orders.get(c, 0))
        return values

    def _double_integral(self, boxes: Array, others: Array) -> Array:
        """Return the product over the columns."""
        values = np.ones((boxes.shape[0], others.shape[0]))
        for c in range(boxes.shape[1]):
            sigma = one_of(self._widths(boxes.shape[1]), c)
            values *= integrate_intervals(_gaussian(sigma), sigma, boxes[:, c], others[:, c])
        return values

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return 2 (x_c - z_c)^2/sigma_c^2 k(x, z), weighted and added up; of one width, the sum over the columns."""
        widths = self._widths(X.shape[1])
        squares = np.empty(weights.shape)
        scaled_squared_distances(X, Z, self._inverse(X.shape[1]), 1.0, squares)
        np.minimum(squares, 1e3, out=squares)  # exp(-1e3) is zero; infinity times zero would be NaN
        slopes = 2.0 * weights * np.exp(-squares)
        if isinstance(widths, float):
            sizes = np.abs(slopes)
            if _ERROR * sizes.sum() > 1e-10 * np.vdot(sizes, squares):  # the pairs that count are near each other
                metric_distances(X, Z, self.metric, widths, squares)
                np.square(np.minimum(squares, 1e2, out=squares), out=squares)
            return np.array([np.vdot(slopes, squares)])
        return squares_by_column(X, Z, widths, slopes)

    def rounding(self, X: Any) -> float:
        """Return the absolute error of the exponent, and that of the exponential."""
        error = squared_distance_error(X, self._inverse(X.shape[1]))
        return error + relative_rounding(X.shape[1] + 10.0)

    def pair_rounding(self, X: Any, Z: Any) -> tuple[Array, Array] | None:
        """Return the absolute errors of the exponents, by the distances from the centre, and that of the
        exponential.
        """
        if is_sparse(X) or is_sparse(Z):
            return None
        left, right = pair_shares(X, Z, self._inverse(X.shape[1]))
        left, right = (at_most(1.0) * (share + relative_rounding(2.5)) for share in (left, right))
        # up to here the exponential of an error is one and little more than the error
        is_small = max(float(left.max()), float(right.max())) < _LARGEST_SHARE
        return (left, right) if is_small else None

    def fill_carefully(self, X: Any, Z: Any, out: Array) -> None:
        """Fill ``out`` by plain differences."""
        metric_distances(X, Z, self.metric, self._widths(X.shape[1]), out)
        with np.errstate(over="ignore"):
            np.square(out, out=out)
        np.negative(out, out=out)
        np.exp(out, out=out)

    def careful_rounding(self, X: Any) -> float:
        """Bound the rounding: t exp(-t) is at most 1/e, and differences are right to a few units in the last place.

        Widths of columns are squared and inverted, which takes two roundings more than one division.
        """
        more = 0.0 if isinstance(self.sigma, float) else 2.0
        return exponential_rounding(X.shape[1] + 8.0 + more, 3.0)

    def _exact(self, number: Number, sigma: float) -> Formula:
        """Return the formula above."""
        scale = -1 / number(sigma) ** 2
        return lambda x, z: (exact_squared_distance(x, z) * scale).exp()


def _hermites(order: int, t: Array) -> list[Array]:
    """Return the polynomials of Hermite up to this order."""
    every = [np.ones_like(t), 2.0 * t]
    for k in range(1, order):
        every.append(2.0 * (t * every[-1] - k * every[-2]))
    return every


def _gaussian(sigma: float) -> Profile:
    """Return exp(-u^2/sigma^2) as a function of one difference u."""
    from scipy.special import erfc, erfcx, eval_hermite

    def derivative(u: Array, order: int) -> Array:
        v = np.clip(u / sigma, -_FAR, _FAR)
        return np.asarray((-1.0) ** order * eval_hermite(order, v) * np.exp(-np.square(v)) / sigma**order)

    def tail(u: Array) -> Array:
        return np.asarray(0.5 * math.sqrt(math.pi) * sigma * erfc(np.minimum(u / sigma, _FAR)))

    def second_tail(u: Array) -> Array:
        v = np.minimum(u / sigma, _FAR)
        return np.asarray(sigma**2 * np.exp(-np.square(v)) * (0.5 - 0.5 * math.sqrt(math.pi) * v * erfcx(v)))

    return Profile(derivative, tail, second_tail)
