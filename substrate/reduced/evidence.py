r"""The evidence of y as a criterion of gamma on a reduced basis, from sums over the rows.

The machine is a dense one with the kernel matrix :math:`Z Z^T`, see :mod:`~substrate.reduced.criteria`: its zero
eigenvalues contribute :math:`\lambda` each to the product of :mod:`substrate.least_squares.evidence`, so

.. math:: F = \frac{\lambda Q}{l - 1} \prod_k \Big( 1 + \frac{a_k}{\lambda} \Big)^{1/(l-1)}, \qquad
          \lambda Q = \|t\|^2 - \sum_k \frac{c_k^2}{a_k + \lambda} = t^T e .

An error of e of norm at most :math:`\epsilon` changes :math:`\lambda Q` by at most :math:`\|t\| \epsilon`, and features
that change every leverage by at most :math:`\eta` change the logarithm of the product by
:math:`\operatorname{tr}(H^{-1} dH)`, which over l - 1 is at most :math:`\eta\, l / (l - 1)`.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from substrate.arrays import Array
from substrate.least_squares.criteria import Samples, between
from substrate.least_squares.evidence import log_rounding
from substrate.reduced.criteria import OfSums, cancelled

__all__ = ["ReducedEvidence"]


@dataclass(frozen=True, slots=True)
class ReducedEvidence(OfSums):
    """F, whose smallest value is at the largest evidence."""

    cone: ClassVar[int] = 1

    def sample(self, t: Array) -> Samples:
        """The values from sums over the spectrum only."""
        spectrum, c = self.spectrum, self.targets.coordinates
        g, lambdas, free = self._inverses(t), np.exp(t.ravel()), self.spectrum.n - 1.0
        left = np.maximum(spectrum.squares - g.T @ c**2, 0.0) / free
        logs = np.log1p(spectrum.values[:, None] / lambdas).sum(axis=0) / free
        # Q falls and the product of s + lambda rises, each by one power of lambda
        falling = self._shaped(left / lambdas[:, None], t)
        rising = (lambdas * np.exp(logs)).reshape(*t.shape, 1)
        values = falling * rising
        whole = self._shaped(np.broadcast_to(spectrum.squares / free, left.shape) / lambdas[:, None], t) * rising
        rounded = log_rounding(self.size, logs.reshape(t.shape)).max(axis=1)
        shrink = np.sqrt(np.maximum(1.0 - rounded, 0.0))[:, None] * np.ones((t.shape[0], self.outputs))
        ceiling = np.maximum(between(falling, rising), cancelled(values, whole, self.size))
        return Samples(values, ceiling, shrink)

    def relative_error(self, lam: float, lifted: float, errors: Array) -> Array:
        """A bound on the relative error of F, one number per output, for errors of e and of the leverages."""
        spectrum = self.spectrum
        left = np.maximum(spectrum.squares - (1.0 / (spectrum.values + lam)) @ spectrum.cross**2, 0.0)
        sizes = np.sqrt(spectrum.squares) * errors
        if self.pooled:
            left, sizes = left.sum(keepdims=True), sizes.sum(keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(sizes > 0.0, sizes / left, 0.0)
        return np.asarray(share + lifted * spectrum.n / (spectrum.n - 1.0))
