r"""Finite-dimensional features of a reduced basis, rank revealing.

.. math:: K_{SS} = V \operatorname{diag}(s) V^T, \qquad z(x) = \operatorname{diag}(s)^{-1/2} V^T k_S(x)

for the eigenvalues above rounding. They are coordinates of the projection of :math:`\varphi(x)` on the span of the
basis, so :math:`w = \sum_j \beta_j \varphi(z_j)` has :math:`w^T w = u^T u` and :math:`f(x) = u^T z(x) + b` with
:math:`\beta = V \operatorname{diag}(s)^{-1/2} u`. Tied basis vectors only lower the rank: nothing is singular, whereas
the system printed in [Cawley2002]_ is as soon as two inputs agree, or, to working precision, for every smooth kernel.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import rank_cutoff
from substrate.kernels.base import strips
from substrate.namespaces import is_device_array, namespace_of, on_device_of, own_copy, zeros_beside
from substrate.reduced.linear_columns import LinearColumns
from substrate.reduced.rows import RowValues
from substrate.streaming.source import Block
from substrate.threads import blas_threads

__all__ = [
    "INNER",
    "EigenFeatures",
    "LinearFeatures",
    "eigen_features",
    "product",
    "reconstruction_errors",
]

#: Terms of an entry of a product of matrices that are added in sequence.
INNER = 64
#: Smallest eigenvalue, relative to the largest, for which a mixed direction keeps its digits.
_FAINT = 1e-9


@dataclass(frozen=True, slots=True)
class EigenFeatures:
    """``transform`` is :math:`V s^{-1/2}`, n x r; ``values`` are the kept eigenvalues s, largest first.

    ``dual`` is K_SS times it, where that is not :math:`V s^{1/2}` up to rounding: of features by doubled precision.
    ``linear`` are the sizes of columns that follow the kernel values of a row and are not penalised, None where a bias
    is all that is not: ``transform`` makes features of both, which follow each other too, see :meth:`beside`.
    """

    transform: Array
    values: Array
    dual: Array | None = None
    linear: Array | None = None

    @property
    def n_basis(self) -> int:
        """n."""
        return int(self.transform.shape[0])

    @property
    def rank(self) -> int:
        """r."""
        return int(self.values.shape[0])

    @property
    def is_well_conditioned(self) -> bool:
        """Whether all directions are kept and no eigenvalue is so small that mixing them would cost digits."""
        return self.rank == self.n_basis and bool(self.values[-1] > _FAINT * self.values[0])

    @property
    def free(self) -> int:
        """The number of features that are not penalised, the last ones."""
        return 0 if self.linear is None else int(self.linear.shape[0])

    def beside(self, linear: "LinearColumns | None") -> "EigenFeatures":
        """Return the same features and, after them, those of columns that are not penalised."""
        if linear is None:
            return self
        xp, turn = namespace_of(self.transform), on_device_of(self.transform, linear.turn)
        (n, r), k = self.transform.shape, turn.shape[0]
        above = xp.concat([self.transform, zeros_beside(self.transform, (n, k))], axis=1)
        below = xp.concat([zeros_beside(self.transform, (k, r)), turn], axis=1)
        values = xp.concat([self.values, 1.0 / xp.sum(turn * turn, axis=0)])
        sizes = on_device_of(self.transform, linear.sizes)
        return EigenFeatures(xp.concat([above, below], axis=0), values, self.dual, sizes)

    @property
    def of_kernel(self) -> "EigenFeatures":
        """The features of the kernel values alone."""
        if self.linear is None:
            return self
        m, r = self.n_basis - self.free, self.rank - self.free
        return EigenFeatures(self.transform[:m, :r], self.values[:r], self.dual)

    def pull(self, weights: Array, lam: float) -> Array:
        """Return the gradient of the penalty, lambda u, zero for what is not penalised."""
        if self.linear is None:
            return lam * weights
        xp, r = namespace_of(weights), self.rank - self.free
        return xp.concat([lam * weights[:r, :], xp.zeros_like(weights[r:, :])], axis=0)  # type: ignore[no-any-return]

    def ridges(self, lam: float) -> Any:
        """Return the diagonal of the penalty: lambda, and zeros for what is not penalised."""
        if self.linear is None:
            return lam
        xp = namespace_of(self.values)
        lams = xp.full_like(self.values[: self.rank - self.free], lam)
        return xp.concat([lams, xp.zeros_like(self.linear)])

    def coefficients(self, weights: Array) -> Array:
        """Return beta from the weights u."""
        coefficients: Array = self.transform @ weights
        return coefficients

    def weights(self, coefficients: Array) -> Array:
        """Return the weights u from beta: :math:`s^{1/2} V^T \\beta`."""
        if self.linear is not None:
            xp, m, r = namespace_of(coefficients), self.n_basis - self.free, self.rank - self.free
            line = coefficients[m:] if coefficients.ndim == 2 else coefficients[m:, None]
            last = xp.linalg.solve(self.transform[m:, r:], line)
            last = last if coefficients.ndim == 2 else last[:, 0]
            return xp.concat([self.of_kernel.weights(coefficients[:m]), last])  # type: ignore[no-any-return]
        if self.dual is not None:
            weights_of_features: Array = self.dual.T @ coefficients
            return weights_of_features
        weights: Array = (self.transform.T @ coefficients) * _columns(self.values, coefficients)
        return weights


def _columns(values: Array, like: Array) -> Array:
    return values[:, None] if like.ndim == 2 else values


def eigen_features(K: Any) -> EigenFeatures:
    """Return features of the kernel matrix of the basis; directions below n eps times the largest eigenvalue are left
    out.
    """
    xp, n = namespace_of(K), K.shape[0]
    with blas_threads(n):
        values, vectors = xp.linalg.eigh(K)  # ascending
    dropped = n - int(xp.sum(xp.astype(values > rank_cutoff(n) * max(float(values[-1]), 0.0), xp.int64)))
    s = own_copy(xp.flip(values[dropped:]))
    return EigenFeatures(own_copy(xp.flip(vectors[:, dropped:], axis=1) / xp.sqrt(s)), s)


def product(left: Array, right: Array) -> Array:
    """Return the matrix product; the terms of an entry are added in parts, and their number determines its bound."""
    if right.shape[0] <= INNER or not right.shape[1]:
        product_: Array = left @ right
        return product_
    if is_device_array(right):
        product_ = left[:, :INNER] @ right[:INNER, :]
        for strip in strips(right.shape[0] - INNER, INNER):
            columns = slice(strip.start + INNER, strip.stop + INNER)
            product_ += left[:, columns] @ right[columns, :]
        return product_
    from scipy.linalg.blas import dgemm

    total = np.zeros((left.shape[0], right.shape[1]), order="F")
    for strip in strips(right.shape[0], INNER):
        total = dgemm(1.0, left[:, strip], right[strip], beta=1.0, c=total, overwrite_c=1)
    return np.ascontiguousarray(total)


def reconstruction_errors(rows: Array, diagonal: Array, features: EigenFeatures) -> Array:
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

    def fill(self, X: Any, out: Array) -> None:
        """Write the features of rows into ``out``."""
        for rows, features in self.tiles(Block(X, None, 0), self.buffer()):
            out[rows, :] = features

    def evaluate(self, X: Any) -> Array:
        """Return the features of rows on a device."""
        out: Array = zeros_beside(self.transform, (X.shape[0], self.n_basis))
        self.fill(X, out)
        return out

    def tiles(self, block: Block, buffer: Array) -> Iterator[tuple[slice, Array]]:
        """Yield the features of the tiles of kernel values, whose memory ``buffer`` is."""
        for rows, tile in self.values.tiles(block, buffer):
            tile -= self.origin
            features = tile @ self.transform
            yield rows, features if self.mean is None else features - self.mean

    def buffer(self) -> Array:
        """Allocate memory for tiles of kernel values."""
        return self.values.buffer()

    @property
    def step(self) -> int:
        """Rows of a tile of kernel values."""
        return self.values.step
