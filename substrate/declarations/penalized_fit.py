r"""Least squares with a weighted sum of maxima: the training problem of both fusions, as plain numbers.

.. math:: \min_{v, b} \; \tfrac12 \|y - F v - b 1\|^2 + \rho \sum_{l=1}^d \max_i |C^l_i v|

Structure detection has :math:`F = \sum_l C^l` with :math:`C^l = \Omega^l` in the coordinates v; the sparse substrate
has :math:`F = \Omega`, :math:`v = \alpha`, and for every atom a part of one row, :math:`C^l = e_l^T`, so that the sum
of maxima is :math:`\|\alpha\|_1`. Their optimality conditions are those of [Pelckmans2005]_ eq. (27),

.. math::

    F^T (F v + b 1 - y) + \nu 1 = \sum_l C^{lT} (\xi^{-l} - \xi^{+l}), \qquad 1^T (\xi^{-l} + \xi^{+l}) = \rho, \\
    \xi \ge 0, \qquad |C^l v| \le t_l 1, \qquad 1^T (F v + b 1 - y) = 0, \qquad 1^T v = 0,

the last one and :math:`\nu` only where v = :math:`\alpha`, and slackness of every bound. With P the projection off 1
(the identity without bias), inserting the equations into the sum of the products gives the duality gap

.. math:: \|P F v\|^2 - y^T P F v + \rho \sum_l t_l .
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.fits.coordinates import ComponentCoordinates, center
from substrate.fits.variation import TrainedPoint, condition_rows, trivial_cost, variation_unit
from substrate.ingredients.complementary_slackness import ComplementarySlackness, complementary_slackness
from substrate.ingredients.component_weights import penalty
from substrate.ingredients.zero_sum import zero_sum_row

__all__ = ["PenalizedFit", "sparse_fit", "variation_fit"]


@dataclass(frozen=True, slots=True)
class PenalizedFit:
    """F (n x r), the parts C (d x m x r), the targets, whether there is a bias, and whether 1'v = 0 is required."""

    features: Array
    parts: Array
    target: Array
    bias: bool
    balanced: bool
    coefficients: Array

    @property
    def centred_features(self) -> Array:
        """P F."""
        return center(self.features, self.bias)

    @property
    def centred_target(self) -> Array:
        """P y."""
        return center(self.target, self.bias)

    @property
    def unit(self) -> float:
        """The size of the bounded values."""
        largest = float(np.abs(self.features).max()) or 1.0
        return variation_unit(self.target) / (largest if self.balanced else 1.0)

    def bias_of(self, v: Array) -> float:
        """Return the b for which the errors sum to zero."""
        return float(np.mean(self.target) - np.mean(self.features @ v)) if self.bias else 0.0

    def errors(self, point: TrainedPoint) -> Array:
        """Return y - F v - b."""
        return np.asarray(self.target - self.features @ point.v - point.b)

    def values(self, point: TrainedPoint) -> Array:
        """Return the bounded values, one row per part."""
        return np.asarray(self.parts @ point.v)

    def slackness(self, point: TrainedPoint, tolerance: float = 1e-6) -> ComplementarySlackness:
        """Return the report on all products, relative to the cost of the trivial machine and the penalty."""
        size = trivial_cost(self.target, self.bias) + penalty(point.rho, np.abs(point.t))
        return complementary_slackness(
            self.values(point), point.t, point.xi_minus, point.xi_plus, size or None, tolerance
        )

    def rows(self, point: TrainedPoint, tolerance: float, slackness: bool = True) -> tuple[Row, ...]:
        """Return the conditions (27) as rows; without the products where ``slackness`` is false."""
        e, y = self.errors(point), self.target
        cost = trivial_cost(y, self.bias)
        stationarity, *bounds = condition_rows(
            self.features, self.parts, y, point, e, tolerance, cost=cost, unit=self.unit
        )
        # at rho = 0 multipliers are compared with their size at other rho
        size = float(np.abs(self.features.T @ self.centred_target).max()) / (float(np.abs(self.parts).max()) or 1.0)
        rows = [stationarity, *(replace(row, scale=row.scale + size) for row in bounds[:2])]
        rows += bounds[2:] if slackness else bounds[2:3]
        if self.bias:
            rows.append(zero_sum_row(e, tolerance, np.full(y.size, variation_unit(y)), of="e"))
        if self.balanced:
            rows.append(zero_sum_row(point.v, tolerance, np.full(y.size, self.unit)))
        return tuple(rows)


def variation_fit(coordinates: ComponentCoordinates, y: Array) -> PenalizedFit:
    """Detect the structure; in orthonormal coordinates of the fitted values unless the coordinates are raw."""
    if not coordinates.is_balanced:
        components = coordinates.parts
        return PenalizedFit(
            features=components.sum(axis=0),
            parts=components,
            target=y,
            bias=coordinates.bias,
            balanced=coordinates.bias,
            coefficients=coordinates.coefficients,
        )
    d, n, r = coordinates.parts.shape
    stacked = np.vstack([coordinates.parts.reshape(d * n, r), coordinates.coefficients])
    divided = solve_triangular(coordinates.metric, stacked.T, trans="T").T
    components = divided[: d * n].reshape(d, n, r)
    return PenalizedFit(
        features=components.sum(axis=0),
        parts=components,
        target=y,
        bias=coordinates.bias,
        balanced=False,
        coefficients=divided[d * n :],
    )


def sparse_fit(omega: Array, y: Array) -> PenalizedFit:
    """Return the sparse substrate: every support value is a part of one row."""
    n = y.size
    return PenalizedFit(
        features=omega, parts=np.eye(n)[:, None, :], target=y, bias=True, balanced=True, coefficients=np.eye(n)
    )
