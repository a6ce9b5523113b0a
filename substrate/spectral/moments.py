r"""Components in the span of few basis vectors, from sums over rows that are read once.

With features :math:`z(x)` of a reduced basis (:mod:`substrate.reduced.features`), in which :math:`w^T w = u^T u` for
:math:`w = \sum_j \beta_j \varphi(s_j)`, the directions of largest variance in the span of the basis are eigenvectors of

.. math:: M = \sum_i v_i (z_i - \bar z)(z_i - \bar z)^T .

M is added up block by block where the rows are, in memory that does not depend on their number, about an origin near
the mean, so that the mean takes away little. Its eigenvalues are at most those of the centred kernel matrix of all rows
(Poincaré), and what is missing of the trace is what the basis does not reach: it bounds their distance (Weyl).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import at_most, relative_rounding
from substrate.kernels import Kernel
from substrate.namespaces import device_blocks, is_device_array, namespace_of, on_device_of, to_numpy, zeros_beside
from substrate.reduced.features import EigenFeatures, eigen_features
from substrate.spectral.centred_operator import LEAST_SQUARES, MeasuredOperator
from substrate.streaming.source import MICRO, Source

__all__ = ["FeatureMoments", "feature_moments", "kept_features"]

#: Share of the largest eigenvalue of the basis below which a direction is left out: its features would be rounding.
_FAINT = 1e-6


@dataclass(frozen=True, slots=True)
class FeatureMoments(MeasuredOperator):
    """The centred second moment M, the mean of the features, the weight of all rows, and the sum of k(x, x).

    ``error`` bounds the norm of the error of M, ``diagonal`` is the weighted sum of k(x, x), ``rows`` their number.
    """

    matrix: Array
    mean: Array
    mass: float
    diagonal: float
    error: float
    rows: int

    @property
    def n(self) -> int:
        """The order of M."""
        return int(self.matrix.shape[0])

    @property
    def reached(self) -> float:
        """The variance that the basis reaches, times the mass."""
        return float(np.trace(self.matrix))

    @property
    def unreached(self) -> float:
        """A bound on what is missing of the sum of k(x, x): the trace of the kernel matrix less that of the features.

        No eigenvalue of the centred kernel matrix of all rows exceeds that of M by more.
        """
        missing = self.diagonal - self.reached - self.mass * float(self.mean @ self.mean)
        return at_most(max(missing, 0.0) + self.n * self.error + relative_rounding(self.rows + 8.0) * self.diagonal)

    @property
    def trace(self) -> float:
        """A bound on the trace from above."""
        return at_most(self.reached + self.n * self.error)

    @property
    def definite(self) -> bool:
        """True: it is a sum of squares."""
        return True

    @property
    def norm(self) -> float:
        """The sum of k(x, x): a bound on the norm of the sums."""
        return self.diagonal

    @property
    def matrix_error(self) -> float:
        """The bound on the error of M."""
        return self.error

    @property
    def product_error(self) -> float:
        """A bound on the error of the product with a unit vector."""
        return relative_rounding(self.n + 2.0) * float(np.linalg.norm(self.matrix))

    @property
    def square_sum(self) -> float:
        """A bound on the sum of the squares of the eigenvalues from above; its error is one of each of them."""
        length = float(np.linalg.norm(self.matrix)) * (1.0 + relative_rounding(self.n**2 + 2.0))
        if not length**2 > LEAST_SQUARES:
            return math.inf
        return (length + math.sqrt(self.n) * self.error) ** 2 * (1.0 + relative_rounding(8.0))

    def product(self, V: Array) -> Array:
        """Return M V."""
        product: Array = self.matrix @ V
        return product

    def dense(self) -> Array:
        """Return M."""
        return np.array(self.matrix)


def kept_features(kernel: Kernel, points: Any) -> EigenFeatures:
    """Return features of the basis where its vectors are, without directions that rounding would fill."""
    features = eigen_features(kernel(points))
    values = np.asarray(to_numpy(features.values))
    kept = int(np.sum(values > _FAINT * values[0])) if features.rank else 0
    return EigenFeatures(features.transform[:, :kept], features.values[:kept])


def feature_moments(
    kernel: Kernel, points: Any, features: EigenFeatures, source: Source, weights: Array | None
) -> FeatureMoments:
    """Add up the moments of the features of all rows, read once, where they are; the sums are returned on the host."""
    xp, transform, rank, n = namespace_of(points), features.transform, features.rank, source.n_rows
    origin = xp.mean(kernel(points) @ transform, axis=0)
    second, first = zeros_beside(points, (rank, rank)), zeros_beside(points, (rank,))
    mass = diagonal = sizes = rounding = 0.0
    for block in source.blocks(0, n, _rows_at_once(points, n)):
        v = np.ones(block.X.shape[0]) if weights is None else weights[block.rows]
        Z = kernel(block.X, points) @ transform - origin
        weighted = on_device_of(points, v)[:, None] * Z
        second = second + weighted.T @ Z
        first = first + xp.sum(weighted, axis=0)
        mass += float(v.sum())
        diagonal += float(v @ np.abs(np.asarray(to_numpy(kernel.diag(block.X)))))
        sizes += float(xp.sum(weighted * Z))
        rounding = max(rounding, float(kernel.rounding(xp.concat([block.X, points], axis=0))))
    mean = np.asarray(to_numpy(first)) / mass
    matrix = np.asarray(to_numpy(second)) - mass * np.outer(mean, mean)
    matrix = (matrix + matrix.T) / 2.0
    # a feature is a sum of kernel values, each right to p (k(x, x) k(s, s))^(1/2), by a matrix of norm s^(-1/2)
    stretch = 1.0 / math.sqrt(float(features.values[-1])) if rank else 0.0
    basis_trace = float(np.sum(np.abs(np.asarray(to_numpy(kernel.diag(points))))))
    per_row = (rounding + relative_rounding(features.n_basis + 4.0)) * stretch * math.sqrt(basis_trace)
    by_values = 2.0 * per_row * math.sqrt(sizes * diagonal) + per_row**2 * diagonal
    by_sums = relative_rounding(n + 8.0) * (sizes + mass * float(mean @ mean))
    # the norm of w is that of its coordinates up to what T'K T is off the identity
    metric_matrix = np.asarray(to_numpy(transform.T @ (kernel(points) @ transform)))
    off = float(np.linalg.norm(metric_matrix - np.eye(rank)))
    metric = off + (rounding + relative_rounding(2.0 * features.n_basis + 4.0)) * stretch**2 * basis_trace
    error = at_most(by_values + by_sums + 1.1 * metric * sizes) if metric <= 0.05 else math.inf
    mean = mean + np.asarray(to_numpy(origin))
    return FeatureMoments(matrix=matrix, mean=mean, mass=mass, diagonal=diagonal, error=error, rows=n)


def _rows_at_once(points: Any, n: int) -> int:
    """Return the rows of a block: a fixed number on the host, what keeps a device busy there."""
    if not is_device_array(points):
        return MICRO
    first = next(iter(device_blocks(n, int(points.shape[0]))))
    return int(first.stop - first.start)
