r"""Criteria of model selection on a reduced basis, as analytic functions of :math:`t = \log\lambda`.

A reduced basis is a dense LS-SVM with the kernel matrix :math:`Z Z^T`, of low rank: its spectrum is that of
:mod:`~substrate.closed_form.reduced_spectrum` and otherwise zero, so :mod:`~substrate.paths.criteria` and its bounds
hold as they are. What is written here is only how to get the numbers without the zero directions, whose share is
known by subtraction: with :math:`g_k = 1/(a_k + \lambda)`,

.. math::

    \lambda Q = \|t\|^2 - \sum_k c_k^2 g_k, \qquad \lambda B_{ii} = 1 - h_{ii}, \qquad
    \|e\|^2 = \|t\|^2 - \sum_k c_k^2 g_k (1 + \lambda g_k), \qquad l - \operatorname{tr} H = l - 1 - \sum_k a_k g_k .

Leave-one-out (:mod:`~substrate.paths.reduced_leave_one_out`) takes a pass over the rows for all points of a call;
generalised cross-validation and folds take none, the sums of a fold being left out by subtraction; with features d of a
fold's row, Cauchy's inequality bounds
:math:`(\sum_k d_k c_k g_k)^2 \le \sum_k d_k^2 g_k \sum_k c_k^2 g_k`. Rounding of the differences is put under the
ceilings, from which the search takes its slack. What a device has summed up and decomposed is brought to the host once,
and searched there.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from substrate.arrays import Array
from substrate.closed_form.moments import Moments
from substrate.closed_form.reduced_spectrum import ReducedSpectrum
from substrate.namespaces import to_numpy
from substrate.paths.criteria import Criterion, Samples, between
from substrate.threads import blas_threads

__all__ = ["ReducedFold", "ReducedGCV"]


@dataclass(frozen=True, slots=True)
class ReducedGCV(Criterion):
    """Generalised cross-validation: every leverage replaced by their mean."""

    growth: ClassVar[float] = 2.0

    spectrum: ReducedSpectrum

    @classmethod
    def of(cls, spectrum: ReducedSpectrum, *, pooled: bool = False) -> Self:
        """On a statistic."""
        known = spectrum.on_host()
        return cls(known, known.targets, 0.0, pooled)

    def sample(self, t: Array) -> Samples:
        """Sums over the spectrum only."""
        spectrum, c = self.spectrum, self.targets.coordinates
        g, lambdas, n = self._inverses(t), np.exp(t.ravel()), self.spectrum.n
        errors = np.maximum(spectrum.squares - (g * (1.0 + lambdas * g)).T @ c**2, 0.0)
        spare = np.maximum(n - 1.0 - spectrum.values @ g, np.finfo(np.float64).tiny)
        rising = (n * np.square(lambdas / spare)).reshape(*t.shape, 1)
        falling = self._shaped(errors / lambdas[:, None] ** 2, t)
        values = falling * rising
        whole = self._shaped(np.broadcast_to(spectrum.squares, errors.shape) / lambdas[:, None] ** 2, t) * rising
        return Samples(values, np.maximum(between(falling, rising), _cancelled(values, whole, self.size)))


@dataclass(frozen=True, slots=True)
class ReducedFold(Criterion):
    """The mean square error on the rows of a fold, of the machine on the others; both are sums already.

    ``scatter`` and ``cross`` are those of the fold's features about the others' mean, in the others'
    eigen-coordinates; ``squares`` those of its targets about the others' mean.
    """

    cone: ClassVar[int] = 2
    growth: ClassVar[float] = 2.0

    spectrum: ReducedSpectrum
    count: int
    scatter: Array
    cross: Array
    squares: Array

    @classmethod
    def of(cls, spectrum: ReducedSpectrum, fold: Moments, *, pooled: bool = False) -> Self:
        """From the spectrum of the other rows and the moments of the fold about the same origin."""
        held = fold.about(spectrum.mean, spectrum.target_mean).transformed(spectrum.rotation)
        known, sums = spectrum.on_host(), (to_numpy(part) for part in (held.second, held.cross, held.squares))
        return cls(known, known.targets, 0.0, pooled, held.count, *sums)

    def sample(self, t: Array) -> Samples:
        """Quadratic forms of the fold's sums, and the ceiling from each interval's lowest lambda."""
        c, g = self.targets.coordinates, self._inverses(t)
        lowest = np.ascontiguousarray(g.reshape(-1, *t.shape)[:, :, 0])
        outputs = c.shape[1]
        values, ceiling = np.empty((t.size, outputs)), np.empty((t.shape[0], outputs))
        spread = self.scatter.diagonal() @ lowest
        with blas_threads(c.shape[0]):
            for k in range(outputs):
                weights = g * c[:, [k]]
                product = np.einsum("ij,ij->j", weights, self.scatter @ weights) - 2.0 * (self.cross[:, k] @ weights)
                values[:, k] = np.maximum(self.squares[k] + product, 0.0) / self.count
                ceiling[:, k] = 2.0 * (self.squares[k] + (c[:, k] ** 2 @ lowest) * spread) / self.count
        shaped = self._shaped(values, t)
        top = ceiling.mean(axis=1, keepdims=True) if self.pooled else ceiling
        whole = np.broadcast_to((self.squares.mean(keepdims=True) if self.pooled else self.squares), shaped.shape)
        return Samples(shaped, np.maximum(top, _cancelled(shaped, whole / self.count, self.size)))


def _cancelled(values: Array, whole: Array, size: int) -> Array:
    """A ceiling high enough that the search's slack covers rounding of ``whole``, of which values are what is left."""
    floor = np.finfo(np.float64).tiny
    return np.asarray((np.square(whole / (size + 16.0)) / np.maximum(values, floor)).max(axis=1))
