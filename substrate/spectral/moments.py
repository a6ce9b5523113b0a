r"""Components in the span of few basis vectors, from sums over rows that are read once.

With features :math:`z(x)` of a reduced basis (:mod:`substrate.reduced.features`), in which :math:`w^T w = u^T u` for
:math:`w = \sum_j \beta_j \varphi(s_j)`, the directions of largest variance in the span of the basis are eigenvectors of

.. math:: M = \sum_i v_i (z_i - \bar z)(z_i - \bar z)^T .

M is added up block by block where the rows are, in memory that does not depend on their number, about an origin near
the mean, so that the mean takes away little. Its eigenvalues are at most those of the centred kernel matrix of all rows
(Poincaré), and what is missing of the trace is what the basis does not reach: it bounds their distance (Weyl).
Directions of the basis whose features would be rounding are left out. What they hold is part of what is missing, so
that it bounds the distance from the eigenvalues of all that the basis spans, too.
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

__all__ = ["FeatureMoments", "feature_moments"]

#: Shares of the largest eigenvalue of the basis below which directions may be left out.
_CUTS = (1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 0.0)
#: Deviation of the features from coordinates of an orthonormal basis beyond which nothing is said.
_MOST_DEVIATION = 0.05
#: For the rounding of norms.
_SLACK = 1.0 + 1e-9


@dataclass(frozen=True, slots=True)
class FeatureMoments(MeasuredOperator):
    """The centred second moment M, the mean of the features, the weight of all rows, and the sum of k(x, x).

    ``error`` bounds the norm of the error of M, ``diagonal`` is the weighted sum of k(x, x), ``rows`` their number.
    ``unreached`` bounds what is missing of ``diagonal``, the trace of the kernel matrix less that of the features: no
    eigenvalue of the centred kernel matrix of all rows exceeds that of M by more. ``complete`` says whether the
    features are all that the basis spans.
    """

    matrix: Array
    mean: Array
    mass: float
    diagonal: float
    error: float
    unreached: float
    complete: bool
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
    def lost(self) -> float:
        """A bound on the variance in directions of the basis that were left out, times the mass."""
        return 0.0 if self.complete else self.unreached

    @property
    def trace(self) -> float:
        """A bound on the trace from above, with what was left out."""
        return at_most(self.reached + self.n * self.error + self.lost)

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
        """A bound on the distance of the eigenvalues of M from those of all that the basis spans.

        With features Z that were kept and W that were left out, one column per row, these are the eigenvalues of
        :math:`Z^T Z + W^T W`, and the second term has at most the norm :attr:`lost`.
        """
        return at_most(self.error + self.lost)

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
        return (length + math.sqrt(self.n) * self.error + self.lost) ** 2 * (1.0 + relative_rounding(8.0))

    def product(self, V: Array) -> Array:
        """Return M V."""
        product: Array = self.matrix @ V
        return product

    def dense(self) -> Array:
        """Return M."""
        return np.array(self.matrix)


def feature_moments(
    kernel: Kernel, points: Any, source: Source, weights: Array | None
) -> tuple[FeatureMoments, EigenFeatures]:
    """Add up the moments of the features of all rows, read once, where they are; return them on the host.

    Directions of the basis are left out where their rounding would cost more than they hold; the features that are kept
    are returned too.
    """
    K = kernel(points)
    every = eigen_features(K)
    xp, transform, rank, n = namespace_of(points), every.transform, every.rank, source.n_rows
    origin = xp.mean(K @ transform, axis=0)
    second, first = zeros_beside(points, (rank, rank)), zeros_beside(points, (rank,))
    mass = diagonal = rounding = 0.0
    for block in source.blocks(0, n, _rows_at_once(points, n)):
        v = np.ones(block.X.shape[0]) if weights is None else weights[block.rows]
        Z = kernel(block.X, points) @ transform - origin
        weighted = on_device_of(points, v)[:, None] * Z
        second = second + weighted.T @ Z
        first = first + xp.sum(weighted, axis=0)
        mass += float(v.sum())
        diagonal += float(v @ np.abs(np.asarray(to_numpy(kernel.diag(block.X)))))
        rounding = max(rounding, float(kernel.rounding(xp.concat([block.X, points], axis=0))))
    sums = _Sums(
        second=np.asarray(to_numpy(second)),
        first=np.asarray(to_numpy(first)),
        origin=np.asarray(to_numpy(origin)),
        mass=mass,
        diagonal=diagonal,
        rows=n,
        metric=_Metric(
            transform=np.asarray(to_numpy(transform)),
            deviation=np.asarray(to_numpy(transform.T @ (K @ transform))) - np.eye(rank),
            matrix_norm=float(np.linalg.norm(to_numpy(K))),
            trace=float(np.sum(np.abs(np.asarray(to_numpy(kernel.diag(points)))))),
            rounding=rounding,
        ),
        largest_rank=min(every.n_basis, kernel.rank(int(points.shape[1])) or every.n_basis),
    )
    values = np.asarray(to_numpy(every.values))
    ranks = sorted({int(np.sum(values > cut * values[0])) for cut in _CUTS}) if rank else [0]
    found = min((sums.moments(kept) for kept in ranks), key=lambda moments: moments.matrix_error)
    return found, EigenFeatures(transform[:, : found.n], every.values[: found.n])


@dataclass(frozen=True, slots=True)
class _Metric:
    """How far the features are from coordinates of an orthonormal basis: T'KT - I, computed, and its rounding."""

    transform: Array
    deviation: Array
    matrix_norm: float
    trace: float
    rounding: float

    def bound_feature(self, kept: int) -> float:
        """Bound the error of the first features of a row, in units of the length of the row."""
        T = self.transform[:, :kept]
        relative = self.rounding + relative_rounding(T.shape[0] + 4.0)
        return relative * float(np.linalg.norm(T, 2)) * _SLACK * math.sqrt(self.trace) if kept else 0.0

    def bound_product(self, matrix: Array) -> float:
        """Bound the norm of T'KT - I, of the first features, times a matrix."""
        kept = matrix.shape[0]
        T = self.transform[:, :kept]
        measured = float(np.linalg.norm(self.deviation[:kept, :kept] @ matrix))
        sizes = np.abs(T) @ np.abs(matrix)
        entries = self.rounding * self.trace + relative_rounding(2.0 * T.shape[0] + 4.0) * self.matrix_norm
        return _SLACK * (measured + entries * float(np.linalg.norm(T)) * float(np.linalg.norm(sizes)))


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums over the rows of all features, about their origin.

    ``largest_rank`` is how many directions the basis can have at most.
    """

    second: Array
    first: Array
    origin: Array
    mass: float
    diagonal: float
    rows: int
    metric: _Metric
    largest_rank: int

    def moments(self, kept: int) -> FeatureMoments:
        r"""Return the moments of the first features, with bounds on their error and on what the others hold.

        With :math:`E = T^T K T - I`, coordinates in an orthonormal basis are :math:`(I + E)^{-1/2} z`. Where
        :math:`\|E\| \le 1/20`, their second moment differs from M by at most :math:`1.2 \|E M\|`.
        """
        mean = self.first[:kept] / self.mass
        block = self.second[:kept, :kept]
        matrix = block - self.mass * np.outer(mean, mean)
        matrix = (matrix + matrix.T) / 2.0
        sizes = float(np.trace(block))
        per_row = self.metric.bound_feature(kept)
        by_values = 2.0 * per_row * math.sqrt(sizes * self.diagonal) + per_row**2 * self.diagonal
        by_sums = relative_rounding(self.rows + 8.0) * (sizes + self.mass * float(mean @ mean))
        by_metric = 1.2 * self.metric.bound_product(matrix)
        error = at_most(by_values + by_sums + by_metric)
        if not self.metric.bound_product(np.eye(kept)) <= _MOST_DEVIATION:
            error = math.inf
        mean = mean + self.origin[:kept]
        about_zero = matrix + self.mass * np.outer(mean, mean)
        missing = self.diagonal - float(np.trace(about_zero))
        unreached = (
            max(missing, 0.0)
            + (2.0 * per_row + per_row**2 + relative_rounding(self.rows + kept + 8.0)) * self.diagonal
            + 1.2 * math.sqrt(kept) * self.metric.bound_product(about_zero)
        )
        return FeatureMoments(
            matrix=matrix,
            mean=mean,
            mass=self.mass,
            diagonal=self.diagonal,
            error=error,
            unreached=at_most(unreached),
            complete=kept >= self.largest_rank,
            rows=self.rows,
        )


def _rows_at_once(points: Any, n: int) -> int:
    """Return the rows of a block: a fixed number on the host, what keeps a device busy there."""
    if not is_device_array(points):
        return MICRO
    first = next(iter(device_blocks(n, int(points.shape[0]))))
    return int(first.stop - first.start)
