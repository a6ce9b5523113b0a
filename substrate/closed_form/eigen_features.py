r"""Finite-dimensional features of a reduced basis, rank revealing.

.. math:: K_{SS} = V \operatorname{diag}(s) V^T, \qquad z(x) = \operatorname{diag}(s)^{-1/2} V^T k_S(x)

for the eigenvalues above rounding. They are coordinates of the projection of :math:`\varphi(x)` on the span of the
basis, so :math:`w = \sum_j \beta_j \varphi(z_j)` has :math:`w^T w = u^T u` and :math:`f(x) = u^T z(x) + b` with
:math:`\beta = V \operatorname{diag}(s)^{-1/2} u`. Tied basis vectors only lower the rank: nothing is singular, where
the system printed in [Cawley2002]_ is as soon as two inputs agree, or, to working precision, for every smooth kernel.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rows import EPS
from substrate.threads import blas_threads

__all__ = ["EigenFeatures", "eigen_features", "reconstruction_errors"]

#: Smallest eigenvalue, relative to the largest, beside which a mixed direction keeps its digits.
_FAINT = 1e-9


@dataclass(frozen=True, slots=True)
class EigenFeatures:
    """``transform`` is :math:`V s^{-1/2}`, n x r; ``values`` are the kept eigenvalues s, largest first."""

    transform: Array
    values: Array

    @property
    def n_basis(self) -> int:
        """n."""
        return int(self.transform.shape[0])

    @property
    def rank(self) -> int:
        """r."""
        return int(self.values.size)

    @property
    def well_conditioned(self) -> bool:
        """Whether all directions are kept and none is so faint that mixing them would cost digits."""
        return self.rank == self.n_basis and bool(self.values[-1] > _FAINT * self.values[0])

    def coefficients(self, weights: Array) -> Array:
        """Beta of the weights u."""
        return np.asarray(self.transform @ weights)

    def weights(self, coefficients: Array) -> Array:
        """The weights u of beta: :math:`s^{1/2} V^T \\beta`."""
        return np.asarray((self.transform.T @ coefficients) * _columns(self.values, coefficients))


def _columns(values: Array, like: Array) -> Array:
    return values[:, None] if like.ndim == 2 else values


def eigen_features(K: Any) -> EigenFeatures:
    """Features of the kernel matrix of the basis; directions below n eps times the largest eigenvalue are left out."""
    matrix = np.asarray(K)
    n = matrix.shape[0]
    with blas_threads(n):
        values, vectors = np.linalg.eigh(matrix)
    kept = values > n * EPS * max(float(values[-1]), 0.0)
    s = values[kept][::-1].copy()
    return EigenFeatures(np.ascontiguousarray(vectors[:, kept][:, ::-1] / np.sqrt(s)), s)


def reconstruction_errors(rows: Array, diagonal: Array, features: EigenFeatures) -> Array:
    r"""The relative errors :math:`\delta_i = 1 - \|z(x_i)\|^2 / k_{ii}` of [Cawley2004]_ eq. (4), row by row.

    :equation [Cawley2004]_ (4): the relative error of reconstruction in feature space
    """
    explained = np.square(rows @ features.transform).sum(axis=1)
    positive = diagonal > 0.0
    errors = np.where(positive, 1.0 - explained / np.where(positive, diagonal, 1.0), 0.0)
    return np.asarray(np.clip(errors, 0.0, 1.0))
