r"""Coordinates of a substrate: the plain numbers of every choice that :mod:`~substrate.composition.compiled` makes.

Every frame writes the coefficients as :math:`a = A z` and the machine as

.. math:: f(x) = (k(x) - \bar k)^T A z + \tilde b, \qquad b = \tilde b - \bar k^T A z,

with :math:`\bar k` the mean of the rows of K, or zero. Which it is follows from what a machine mentions:

- *coefficients*, where alpha is: A = I, uncut, since cut coordinates would not leave alpha sparse; :math:`1^T a = 0` is
  a constraint.
- *features*, where the norm of w is: with :math:`P = I - 11^T/N` and :math:`P K P = U S U^T`, :math:`A = U S^{-1/2}`,
  so that :math:`1^T a = 0` is built in and the norm is :math:`\|z\|`. Further representers may join the training rows
  (:mod:`substrate.composition.span`); only the coefficients of values of f take part in the sum to zero, so P centres
  these and is the identity for the others. For many rows A comes from a factor with pivots in place of eigenvectors.
- *fitted values* or *stacked components*: the singular value decomposition
  :math:`[\Omega^1; \dots; \Omega^d] P = Q \Sigma V^T`, or of K alone, centred, and :math:`A = V \Sigma^{-1}`: the
  values are orthonormal in z.

On a basis the same choices hold for an expansion on n vectors, from their n x n matrix and the N x n kernel values of
the training rows; its coefficients need not sum to zero.

Features leave out what rounding hides, and the certificate counts it. Where w is not penalised, fitted values at N
distinct points can be anything for a strictly positive definite kernel: all directions are kept if they can be
represented, that is above :data:`REPRESENTED` times the largest, and then the machine is exact in its fitted values.
Elsewhere :data:`DEFAULT_CUTOFF` is part of the model: ``missing`` counts the directions that the kernel may have
besides the ones kept, and the certificate says so in its first line.

*Pivots.* With :math:`K \approx L L^T` (centred where there is a bias), f = L z has :math:`w^T w = \|z\|^2`, as with
eigenvectors, at a tenth of their price for many rows. The coefficients of the expansion have least norm,

.. math:: a = Q R^{-T} z, \qquad L = Q R ,

so that :math:`K a = L z` up to the remainder :math:`K - L L^T`. The factor ends where all pivots left are below the
cut-off, by which the remainder of a matrix without negative eigenvalues is small ([Higham2002]_ section 10.3); kernels
that are not positive by their formula are left to the eigenvalues, which say what is wrong.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpstrf

from substrate.arrays import Array, blas_threads
from substrate.composition.span import Reading, SubstrateSpan
from substrate.fits.coordinates import CUTOFF, stacked_directions
from substrate.gram import Coordinates
from substrate.least_squares.stacked_least_squares import reflect
from substrate.numbers import relative_rounding

__all__ = ["DEFAULT_CUTOFF", "REPRESENTED", "Frame", "coefficient_frame", "feature_frame", "value_frame"]

#: Default cut-off without a norm on w, where the machine is ill posed in directions of small singular values.
DEFAULT_CUTOFF = CUTOFF
#: Smallest share of the largest singular value at which coefficients represent fitted values to a millionth.
REPRESENTED = 1e-10
#: Number of rows from which features come from pivots.
_PIVOTED = 400


@dataclass(frozen=True, slots=True)
class Frame:
    """Plain numbers of one choice of coordinates: the directions kept; A as ``coefficients``, None for the identity."""

    kind: str
    size: int
    coefficients: Any
    training: Array
    centre: Array
    cutoff: float
    #: A factor F with w'w = ||F z||^2, None where that is the squared length of z, or not asked for.
    norm_factor: Array | None = None
    #: The values of all representers in z, centred as f is; None where they are the training rows alone.
    representers: Array | None = None
    #: How many directions the kernel may have besides the ones kept.
    missing: int = 0

    def expand(self, z: Array) -> Array:
        """Return a = A z."""
        return z if self.coefficients is None else np.asarray(self.coefficients @ z)

    def map_from(self, K: Array) -> Array:
        """Return the matrix that takes z to K a, for rows K of kernel values at any points."""
        return K if self.coefficients is None else np.asarray(K @ self.coefficients)


def coefficient_frame(span: SubstrateSpan, with_norm: bool) -> Frame:
    """Return the coefficients themselves, uncut."""
    return Frame(
        kind="coefficients",
        size=span.size,
        coefficients=None,
        training=span.rows(Reading()),
        centre=np.zeros(span.size),
        cutoff=0.0,
        norm_factor=span.substrate.gram.coordinates().factor.T if with_norm else None,
    )


def value_frame(span: SubstrateSpan, count: int, reads_more: bool) -> Frame:
    """Return orthonormal coordinates of the fitted values, or of the stacked values of so many components.

    Fitted values have all directions that can be represented, unless more is read than these: values at other points
    are ill determined in small directions.
    """
    s, K = span.substrate, span.rows(Reading())
    if not s.kernel.trusted:
        s.gram.coordinates()  # refuses a negative eigenvalue
    centre = K.mean(axis=0) if s.bias and not count else np.zeros(span.size)
    components = tuple(span.rows(Reading(part=part)) for part in range(count))
    relative, complete = DEFAULT_CUTOFF, False
    if not (count or reads_more or s.basis is not None):
        A, size = stacked_directions((K - centre,), span.balanced, REPRESENTED)
        complete = size >= span.rank
    if complete:
        relative = REPRESENTED
    else:
        A, size = stacked_directions(components or (K - centre,), span.balanced, relative)
    return Frame(
        kind="stacked components" if count else "fitted values",
        size=size,
        coefficients=A,
        training=(K - centre) @ A,
        centre=centre,
        cutoff=relative,
        missing=max(span.rank - size, 0),
    )


def feature_frame(span: SubstrateSpan) -> Frame:
    """Return coordinates in which the norm of w is Euclidean, on all representers of a span.

    The norm determines all directions, so that all are kept that rounding does not hide.
    """
    s, lengths, m, relative = span.substrate, span.lengths(), span.values, relative_rounding(span.size)
    G = lengths[:, None] * span.matrix() * lengths
    inner = _reflect(_reflect(G, m).T, m)[1:, 1:] if span.balanced else G
    inner = (inner + inner.T) / 2.0
    with blas_threads(inner.shape[0]):
        if s.kernel.trusted and span.size >= _PIVOTED and inner.any():
            packed, pivots, size, _ = dpstrf(inner, tol=relative * float(np.linalg.norm(inner)), lower=1)
            L = np.empty((inner.shape[0], size))
            L[pivots - 1] = np.tril(packed[:, :size])
            Q, R = np.linalg.qr(L)
            A = Q @ np.linalg.inv(R).T
        else:
            # of what centring leaves; beyond it a negative eigenvalue is refused
            coordinates = Coordinates.of(inner, relative, relative_rounding(1.0) * float(np.linalg.norm(G)))
            L, size = coordinates.factor, coordinates.rank
            A = L / coordinates.values if size else L
    if span.balanced:
        L, A = (_reflect(np.vstack([np.zeros((1, each.shape[1])), each]), m) for each in (L, A))
    A, values = lengths[:, None] * A, L / lengths[:, None]
    return Frame(
        kind="features",
        size=size,
        coefficients=A,
        training=np.ascontiguousarray(values[: s.n]) if s.basis is None else span.rows(Reading()) @ A,
        centre=G[:m].mean(axis=0) / lengths if span.balanced else np.zeros(span.size),
        cutoff=relative,
        representers=values,
        missing=max(span.rank - size, 0),
    )


def _reflect(V: Array, count: int) -> Array:
    """Return the reflection of the first entries of every column."""
    return np.vstack([reflect(V[:count]), V[count:]])
