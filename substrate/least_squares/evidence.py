r"""Criteria of gamma that are sums over the spectrum alone: generalised cross-validation, and the evidence of y.

Both are analytic functions of :math:`t = \log\lambda` with bounds; those of the former are in
:mod:`~substrate.least_squares.criteria`.

A least-squares machine is the mean of a Gaussian process of covariance :math:`\gamma s^2 k` with noise :math:`s^2` and
a flat prior on the bias. With the notation of :mod:`~substrate.least_squares.criteria` and :math:`Q = \sum_k z_k^2 g_k`
the variance of the noise with the largest evidence is :math:`s^2 = \lambda Q / (N - 1)`, and then

.. math:: -2 \log p(y \mid \gamma, k) = (N - 1) \big( \log (2 \pi F) + 1 \big), \qquad
          F = \frac{Q}{N - 1} \prod_k (s_k + \lambda)^{1/(N-1)}

(the restricted likelihood, [Rasmussen2006]_ section 5.4.1 with the bias integrated out; of weighted rows, up to a
constant). Where m columns are not penalised (:mod:`~substrate.least_squares.border`), all have a flat prior, and N - m
is in the place of N - 1. So the largest evidence is the smallest F, which has the units of :math:`y^2`, like the other
criteria: it is the variance of y for large :math:`\lambda`. Outputs that share one gamma share :math:`s^2`, and F is
their mean.

F is a falling function of t, Q, times a rising one. For complex lambda :math:`|g_k|` is at most
:math:`\cos(\theta/2)^{-1}` times its value at :math:`|\lambda|`, and the product is not larger than there, so the
power of the cosine is one. For the error E of the decomposition, with :math:`q = \|E\| \|B\|`, the exact matrix is
between :math:`(1 - q)` and :math:`(1 + q)` times the computed one, so :math:`F^\star \ge F (1 - q) / (1 + q)`, and
eigenvectors that are orthonormal to :math:`\delta` change the product by at most :math:`1 + \delta`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from substrate.arrays import EPS, Array
from substrate.least_squares.criteria import LeaveOneOut, Samples, between, unknown_at
from substrate.least_squares.kernel_slope import Slope, evidence_slope, gcv_slope
from substrate.least_squares.spectrum import Spectrum
from substrate.namespaces import namespace_of, to_numpy

__all__ = ["OF_SPECTRUM", "Evidence", "GeneralizedCrossValidation", "log_evidence", "log_rounding"]


def log_evidence(criterion: Array, n: int, unpenalised: int = 1) -> Array:
    """log p(y) of n equally weighted rows, from the criterion F; ``unpenalised`` columns, a bias alone by default."""
    with np.errstate(divide="ignore"):
        return np.asarray(-0.5 * (n - unpenalised) * (np.log(2.0 * np.pi * np.asarray(criterion)) + 1.0))


def log_rounding(size: int, mean_size: Array) -> Array:
    """A bound on the relative error of exp(mean of logarithms), from the mean of their sizes."""
    return np.asarray(2.0 * (size + 16.0) * EPS * (1.0 + mean_size))


@dataclass(frozen=True, slots=True)
class GeneralizedCrossValidation(LeaveOneOut):
    """Generalised cross-validation: every leverage replaced by their mean, by weight.

    ``masses`` are the :math:`m_k`; None where rows have no weights, and all are one.
    """

    growth: ClassVar[float] = 2.0

    masses: Array | None = None

    @classmethod
    def of(cls, spectrum: Spectrum, Y: Array, *, pooled: bool = False) -> Self:
        """On the targets Y, one column per output."""
        return cls(spectrum, spectrum.targets(Y), spectrum.lift, pooled, spectrum.masses())

    def spare(self, g: Array) -> Array:
        """The sum of 1 - H_ii, each by its weight, over lambda; one number per column of g."""
        return np.asarray(to_numpy(namespace_of(g).sum(g, axis=0) if self.masses is None else self.masses @ g))

    def sample(self, t: Array) -> Samples:
        """Sums over the spectrum only."""
        g = self._inverses(t)
        falling = self._shaped(to_numpy((g**2).T @ self.targets.coordinates**2), t)
        total = self.spare(g)
        rising = (self.spectrum.n / total**2).reshape(*t.shape, 1)
        _, q = unknown_at(self.spectrum, t)
        nothing = np.zeros((*t.shape, self.targets.outputs))
        moved = self._moved(q, np.zeros(t.shape), nothing, (1.0 - q[:, 0]) / (1.0 + q[:, 0]))
        return Samples(falling * rising, between(falling, rising), *moved)

    def _slope(self, g: Array, z: Array, columns: slice) -> Slope:
        return gcv_slope(self.spectrum.basis, g, z, self.spectrum.root).weighted(self.spectrum.root)


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
