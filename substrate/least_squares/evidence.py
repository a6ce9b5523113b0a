r"""Criteria of gamma that are sums over the spectrum alone: generalised cross-validation, and the evidence of y.

Both are analytic functions of :math:`t = \log\lambda` with bounds, for dense machines and those on a reduced basis, by
the sums of :mod:`~substrate.least_squares.coordinates`; the bounds of the former are in
:mod:`~substrate.least_squares.criteria`. Where a machine has zero directions, the squares of y outside of the others
are a difference, and its rounding is in the ceilings.

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

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from substrate.arrays import Array
from substrate.least_squares.criteria import LeaveOneOut, OfMachine, Samples, following
from substrate.numbers import relative_rounding

__all__ = [
    "OF_SPECTRUM",
    "Evidence",
    "GeneralizedCrossValidation",
    "OfSums",
    "ceilings_of_remainder",
    "log_evidence",
    "log_rounding",
]


def log_evidence(criterion: Array, n: int, unpenalised: int = 1) -> Array:
    """Return log p(y) of n equally weighted rows, from the criterion F; ``unpenalised`` columns, a bias alone by
    default.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(-0.5 * (n - unpenalised) * (np.log(2.0 * np.pi * np.asarray(criterion)) + 1.0))


def log_rounding(size: int, mean_size: Array) -> Array:
    """Bound the relative error of exp(mean of logarithms), from the mean of their sizes."""
    return np.asarray(relative_rounding(2.0 * (size + 16.0)) * (1.0 + mean_size))


@dataclass(frozen=True, slots=True)
class OfSums(OfMachine):
    """A criterion that is known from the spectrum alone, without a row: a falling times a rising function of t."""

    @abstractmethod
    def _factors(self, g: Array, lambdas: Array) -> tuple[Array, Array, Array]:
        """Return a factor that falls, one column per output, and one that rises, one line per point.

        The third is the falling factor of the squares whose difference gives the squares outside, zero if none are
        outside.
        """

    def sample(self, t: Array) -> Samples:
        """Sample by sums over the spectrum only."""
        falling, rising, whole = self._factors(*self._at(t))
        rising, falling = rising.reshape(*t.shape, 1), self._shape(falling, t)
        values = falling * rising
        ceilings = falling * following(rising, t)
        ceilings = np.maximum(ceilings, ceilings_of_remainder(values, self._shape(whole, t) * rising, self.size))
        return Samples(values, ceilings, self._lost(t, ceilings))

    @property
    def _whole(self) -> Array:
        """The squares whose difference gives the squares outside, one number per output; zeros if none are outside."""
        return np.zeros(self.targets.outputs) if self.machine.whole is None else self.machine.whole


@dataclass(frozen=True, slots=True)
class GeneralizedCrossValidation(OfSums):
    """Generalised cross-validation: every leverage replaced by their mean, by weight."""

    growth: ClassVar[float] = 2.0
    weighted: ClassVar[bool] = True

    def spare(self, t: Array) -> Array:
        """Return the mean of 1 - H_ii, each by its weight, at points t of any shape."""
        g, lambdas = self._at(t)
        return np.asarray(lambdas * self.machine.trace(g, lambdas) / self.machine.rows).reshape(t.shape)

    def _factors(self, g: Array, lambdas: Array) -> tuple[Array, Array, Array]:
        return *self.machine.gcv(g, lambdas), self._whole / np.square(lambdas)[:, None]


@dataclass(frozen=True, slots=True)
class Evidence(OfSums):
    """F, whose smallest value is at the largest evidence."""

    cone: ClassVar[int] = 1

    def _factors(self, g: Array, lambdas: Array) -> tuple[Array, Array, Array]:
        logs = self.machine.mean_log_stretch(lambdas)
        return *self.machine.evidence(g, lambdas, logs), self._whole / lambdas[:, None] / self.machine.free

    def _unknown(self, t: Array) -> Array:
        """Return q with half of what the product of the eigenvalues loses, which falls along an interval."""
        logs = self.machine.mean_log_stretch(np.exp(t.ravel())).reshape(t.shape)
        return np.asarray(OfSums._unknown(self, t) * 1.5 + 0.5 * log_rounding(self.size, logs))


def ceilings_of_remainder(values: Array, whole: Array, size: int) -> Array:
    """Return ceilings for which the slack of a search covers the rounding of ``whole``, of which values are the
    remainder.
    """
    floor = np.finfo(np.float64).tiny
    with np.errstate(over="ignore"):  # of a value that vanishes nothing is known
        return np.asarray(np.square(whole / (size + 16.0)) / np.maximum(values, floor))


#: The criteria of a dense spectrum, by name.
OF_SPECTRUM: Mapping[str, type[OfMachine]] = {
    "loo": LeaveOneOut,
    "gcv": GeneralizedCrossValidation,
    "evidence": Evidence,
}
