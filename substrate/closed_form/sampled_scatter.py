r"""The scatter of all rows of a reduced basis, as some of them tell it: a preconditioner.

.. math::

    M = \frac{l}{m} \sum_{i \in R} \begin{bmatrix} z_i \\ 1 \end{bmatrix} \begin{bmatrix} z_i \\ 1 \end{bmatrix}^T
        + \lambda \begin{bmatrix} I & \\ & 0 \end{bmatrix}, \qquad |R| = m,

with the features of :mod:`~substrate.closed_form.eigen_features` and a free bias. With the basis itself as the sample
the sum of products is :math:`\operatorname{diag}(s)`, which is the preconditioner of [Rudi2017]_ section 3; it is
close to the sum over all rows where n is far above the degrees of freedom. At the usual gammas it is not, and a
sample of several times n rows is worth its :math:`m n^2`: M and the matrix of all rows then differ by factors of
about :math:`(1 \pm \sqrt{n / m})^2`, and conjugate gradients gain a digit in two to three steps whatever n and l are;
rows unlike all others, which a sample misses, cost some more.
"""

from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.closed_form.eigen_features import EigenFeatures
from substrate.closed_form.kernel_rows import KernelRows
from substrate.closed_form.moments import Origin
from substrate.closed_form.reduced_curvature import Curvature
from substrate.closed_form.reduced_statistic import accumulate
from substrate.streaming.array_source import ArraySource
from substrate.threads import blas_threads

__all__ = ["PER_VECTOR", "SampledScatter", "sampled_scatter"]

#: Rows of the sample for every basis vector: fewer take more passes over all rows, more take longer sums (measured).
PER_VECTOR = 8
#: Relative error of the sums up to which they precondition as well as exact ones.
_LARGEST_ERROR = 1e-2
#: The sample is part of the method, not of the model: the same rows whoever asks.
_SEED = 0


@dataclass(frozen=True, slots=True)
class SampledScatter:
    """The Cholesky factor of the centred part of M, the mean feature of the sample, l and m.

    ``curvature`` is of the sampled rows as they are, and so not above that of all rows.
    """

    factor: Array
    mean: Array
    n: int
    sampled: int
    curvature: Curvature

    def solve(self, right: Array) -> Array:
        """M^{-1} times columns whose last entry belongs to the bias."""
        from scipy.linalg import cho_solve

        slope, total = right[:-1], right[-1]
        weights = slope - np.outer(self.mean, total)
        if weights.size:
            weights = cho_solve((self.factor, True), weights)
        return np.vstack([weights, total / self.n - self.mean @ weights])


def sampled_scatter(
    rows: KernelRows, features: EigenFeatures, origin: Origin, lam: float, sizes: Array
) -> SampledScatter:
    """Sums over rows drawn by lot, by kernel values where that is accurate enough, by features where not."""
    n = rows.n_rows
    m = min(n, PER_VECTOR * features.n_basis)
    drawn = np.sort(np.random.default_rng(_SEED).choice(n, size=m, replace=False))
    source = ArraySource(rows.passes.taken(rows.source, drawn), np.zeros((m, origin.targets.size)))
    some = KernelRows(rows.values, source, rows.passes)
    weight = n / m
    statistic = accumulate(some, features, origin, lam / weight, method="accumulated")
    if statistic.error > _LARGEST_ERROR:
        statistic = accumulate(some, features, origin, lam / weight, method="row-wise")
    mean = statistic.total.first / m
    scatter = statistic.total.about(mean, statistic.total.targets / m).second
    centred = weight * scatter
    centred[np.diag_indices(features.rank)] += lam
    with blas_threads(features.rank):
        factor = np.asarray(np.linalg.cholesky(centred), dtype=np.float64)
    full = mean + features.transform.T @ origin.kernel_values
    accumulated = statistic.method == "accumulated"
    known = Curvature(features, scatter, full, mean, float(m), sizes, some.terms, accumulated, whole=False)
    return SampledScatter(factor, full, n, m, known)
