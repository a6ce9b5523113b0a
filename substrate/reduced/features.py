r"""Finite-dimensional features of a reduced basis.

.. math:: K_{SS} = L L^T, \qquad z(x) = L^{-1} k_S(x)

They are coordinates of the projection of :math:`\varphi(x)` on the span of the basis, so
:math:`w = \sum_j \beta_j \varphi(z_j)` has :math:`w^T w = u^T u` and :math:`f(x) = u^T z(x) + b` with
:math:`\beta = L^{-T} u`. Vectors that double precision cannot tell from combinations of the others are found by pivots
and left out: nothing is singular, whereas the system printed in [Cawley2002]_ is as soon as two inputs agree, or, to
working precision, for every smooth kernel.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, namespace_of, on_device_of, to_numpy, zeros_beside
from substrate.reduced.linear_columns import LinearColumns
from substrate.reduced.rows import RowValues
from substrate.threads import blas_threads

__all__ = ["Features", "LinearFeatures", "basis_features", "independent_vectors", "reconstruction_errors"]

#: Least squared distance of a vector from the span of the others, as a share of the largest k(z, z).
_INDEPENDENT = 1e-9


@dataclass(frozen=True, slots=True)
class Features:
    """``transform`` is T = L^{-T}, n x r, with lines of zeros for the vectors that are left out.

    ``linear`` has the sizes of columns that follow the kernel values of a row and are not penalised, None if only a
    bias is not penalised: ``transform`` makes features of both, in the same order, see :meth:`beside`.
    """

    transform: Array
    linear: Array | None = None

    @property
    def n_basis(self) -> int:
        """n."""
        return int(self.transform.shape[0])

    @property
    def rank(self) -> int:
        """r."""
        return int(self.transform.shape[1])

    @property
    def free(self) -> int:
        """The number of features that are not penalised, the last ones."""
        return 0 if self.linear is None else int(self.linear.shape[0])

    def beside(self, linear: "LinearColumns | None") -> "Features":
        """Return the same features, followed by the features of columns that are not penalised."""
        if linear is None:
            return self
        xp, turn = namespace_of(self.transform), on_device_of(self.transform, linear.turn)
        (n, r), k = self.transform.shape, turn.shape[0]
        above = xp.concat([self.transform, zeros_beside(self.transform, (n, k))], axis=1)
        below = xp.concat([zeros_beside(self.transform, (k, r)), turn], axis=1)
        return Features(xp.concat([above, below], axis=0), on_device_of(self.transform, linear.sizes))

    @property
    def of_kernel(self) -> "Features":
        """The features of the kernel values alone."""
        m, r = self.n_basis - self.free, self.rank - self.free
        return Features(self.transform[:m, :r])

    def ridges(self, lam: float) -> Any:
        """Return the diagonal of the penalty: lambda, and zeros for what is not penalised."""
        if self.linear is None:
            return lam
        xp = namespace_of(self.linear)
        return xp.concat([xp.full_like(self.transform[0, : self.rank - self.free], lam), xp.zeros_like(self.linear)])

    def coefficients(self, weights: Array) -> Array:
        """Return beta from the weights u."""
        coefficients: Array = self.transform @ weights
        return coefficients

    def weights(self, coefficients: Array) -> Array:
        """Return the weights u from beta, which is zero for the vectors that are left out."""
        transform = to_numpy(self.transform)
        kept = np.flatnonzero(transform.any(axis=1))
        weights = np.linalg.solve(transform[kept], to_numpy(coefficients)[kept])
        weights_there: Array = on_device_of(self.transform, weights)
        return weights_there


def independent_vectors(K: Array) -> Any:
    """Return the numbers of the vectors that double precision can tell from combinations of the others.

    K is their kernel matrix. The pivoted Cholesky factorisation stops where no vector is left at a distance from the
    span of those before it. Without pivots every vector can have its distance and a later order still find none.
    """
    from scipy.linalg.lapack import dpstrf

    largest = float(K.diagonal().max(initial=0.0))
    if not largest > 0.0:
        return np.zeros(0, dtype=np.intp)
    _, pivots, rank, _ = dpstrf(K, tol=_INDEPENDENT * largest, lower=1)
    return np.asarray(np.sort(pivots[:rank] - 1))


def basis_features(K: Any, kept: Any = None) -> Features:
    """Return the features of a basis from its kernel matrix; ``kept`` are vectors that can be told apart, if known."""
    from scipy.linalg.lapack import dpstrf, dtrtri

    host = to_numpy(K)
    numbers = independent_vectors(host) if kept is None else kept
    with blas_threads(host.shape[0]):
        # the furthest vector next: coefficients of features, which magnify rounding, are smallest in this order
        factor, pivots, rank, _ = dpstrf(host[np.ix_(numbers, numbers)], tol=0.0, lower=1)
        inverse = dtrtri(np.tril(factor[:rank, :rank]), lower=1)[0]
    transform = np.zeros((host.shape[0], rank))
    transform[numbers[pivots[:rank] - 1]] = inverse.T
    return Features(on_device_of(K, transform))


def reconstruction_errors(rows: Array, diagonal: Array, features: Features) -> Array:
    r"""Return the relative errors :math:`\delta_i = 1 - \|z(x_i)\|^2 / k_{ii}` of [Cawley2004]_ eq. (4), row by row.

    :equation [Cawley2004]_ (4): the relative error of reconstruction in feature space
    """
    xp = namespace_of(rows)
    explained = xp.sum((rows @ features.transform) ** 2, axis=1)
    positive = diagonal > 0.0
    errors = 1.0 - explained / xp.where(positive, diagonal, xp.ones_like(diagonal))
    clipped: Array = xp.clip(xp.where(positive, errors, xp.zeros_like(errors)), min=0.0, max=1.0)
    return clipped


@dataclass(frozen=True, slots=True)
class LinearFeatures(RowValues):
    """Linear functions of kernel values about an origin: T'(k_S(x) - o) - m, with m zero where no mean is given."""

    values: RowValues
    origin: Array
    transform: Array
    mean: Array | None = None

    @property
    def n_basis(self) -> int:
        """The number of features of a row."""
        return int(self.transform.shape[1])

    def __call__(self, X: Any) -> Array:
        """Return the features of rows."""
        values = self.values(X)
        values -= self.origin
        features: Array = values @ self.transform
        return features if self.mean is None else features - self.mean

    @property
    def step(self) -> int:
        """Rows of a tile of kernel values."""
        return self.values.step
