r"""The evidence of y as a criterion of gamma: an analytic function of :math:`t = \log\lambda` with bounds.

A least-squares machine is the mean of a Gaussian process of covariance :math:`\gamma s^2 k` with noise :math:`s^2` and
a flat prior on the bias. With the notation of :mod:`~substrate.paths.criteria` and :math:`Q = \sum_k z_k^2 g_k` the
variance of the noise with the largest evidence is :math:`s^2 = \lambda Q / (N - 1)`, and then

.. math:: -2 \log p(y \mid \gamma, k) = (N - 1) \big( \log (2 \pi F) + 1 \big), \qquad
          F = \frac{Q}{N - 1} \prod_k (s_k + \lambda)^{1/(N-1)}

(the restricted likelihood, [Rasmussen2006]_ section 5.4.1 with the bias integrated out; of weighted rows, up to a
constant). So the largest evidence is the smallest F, which has the units of :math:`y^2`, like the other criteria: it is
the variance of y for large :math:`\lambda`. Outputs that share one gamma share :math:`s^2`, and F is their mean.

F is a falling function of t, Q, times a rising one. For complex lambda :math:`|g_k|` is at most
:math:`\cos(\theta/2)^{-1}` times its value at :math:`|\lambda|`, and the product is not larger than there, so the
power of the cosine is one. For the error E of the decomposition, with :math:`q = \|E\| \|B\|`, the exact matrix is
between :math:`(1 - q)` and :math:`(1 + q)` times the computed one, so :math:`F^\star \ge F (1 - q) / (1 + q)`, and
eigenvectors that are orthonormal to :math:`\delta` change the product by at most :math:`1 + \delta`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from substrate.arrays import EPS, Array
from substrate.namespaces import namespace_of, to_numpy
from substrate.paths.criteria import GeneralizedCrossValidation, LeaveOneOut, Samples, between, unknown_at
from substrate.paths.kernel_slope import Slope, evidence_slope

__all__ = ["OF_SPECTRUM", "Evidence", "log_evidence", "log_rounding"]


def log_evidence(criterion: Array, n: int) -> Array:
    """log p(y) of n equally weighted rows, from the criterion F."""
    with np.errstate(divide="ignore"):
        return np.asarray(-0.5 * (n - 1) * (np.log(2.0 * np.pi * np.asarray(criterion)) + 1.0))


def log_rounding(size: int, mean_size: Array) -> Array:
    """A bound on the relative error of exp(mean of logarithms), from the mean of their sizes."""
    return np.asarray(2.0 * (size + 16.0) * EPS * (1.0 + mean_size))


@dataclass(frozen=True, slots=True)
class Evidence(LeaveOneOut):
    """F, whose smallest value is at the largest evidence."""

    cone: ClassVar[int] = 1

    def sample(self, t: Array) -> Samples:
        """Sums over the spectrum only."""
        g = self._inverses(t)
        xp, free = namespace_of(g), int(g.shape[0])
        falling = self._shaped(to_numpy(g.T @ self.targets.coordinates**2) / free, t)
        logs = -xp.log(g)
        rising = np.exp(to_numpy(xp.mean(logs, axis=0))).reshape(*t.shape, 1)
        rounded = log_rounding(self.size, to_numpy(xp.mean(xp.abs(logs), axis=0)).reshape(t.shape)).max(axis=1)
        _, q = unknown_at(self.spectrum, t)
        exact = (1.0 - q[:, 0]) / ((1.0 + q[:, 0]) * (1.0 + self.spectrum.skew)) * (1.0 - rounded)
        nothing = np.zeros((*t.shape, self.targets.outputs))
        moved = self._moved(q, np.zeros(t.shape), nothing, np.sqrt(np.maximum(exact, 0.0)))
        return Samples(falling * rising, between(falling, rising), *moved)

    def _slope(self, g: Array, z: Array, columns: slice) -> Slope:
        return evidence_slope(self.spectrum.basis, g, z).weighted(self.spectrum.root)


#: The criteria of a dense spectrum, by name.
OF_SPECTRUM: Mapping[str, type[LeaveOneOut]] = {
    "loo": LeaveOneOut,
    "gcv": GeneralizedCrossValidation,
    "evidence": Evidence,
}
