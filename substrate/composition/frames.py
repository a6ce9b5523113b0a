r"""Coordinates of a substrate: the plain numbers of every choice that :mod:`~substrate.composition.compiled` makes.

Every frame writes the coefficients as :math:`a = A z` and the machine as

.. math:: f(x) = (k(x) - \bar k)^T A z + \tilde b, \qquad b = \tilde b - \bar k^T A z,

with :math:`\bar k` the mean of the rows of K (zero where there is no bias). The choices of A are:

- *fitted*: :math:`P K P = U S U^T` with :math:`P = I - 11^T/N`, and :math:`A = U S^{-1}`: z are orthonormal coordinates
  of the fitted values, and :math:`1^T a = 0` is built in.
- *features*: :math:`A = U S^{-1/2}`: the norm is :math:`\|z\|^2`. For many rows from a factor with pivots in place of
  eigenvectors. Further representers may join the training rows
  (:mod:`substrate.composition.span`); only the coefficients of values of f take part in the sum to zero, the centring
  P is that of these, and the identity for the others.
- *stacked*: the singular value decomposition :math:`[\Omega^1; \dots; \Omega^d] P = Q \Sigma V^T`, and
  :math:`A = V \Sigma^{-1}`: the values of all components are orthonormal in z.
- *coefficients*: A = I, uncut, for terms in alpha itself, which cut coordinates would not leave sparse; then
  :math:`1^T a = 0` is a constraint.
- *on a basis*: the same choices for an expansion on n vectors, from their own n x n matrix and the N x n kernel values
  of the training rows: features from the former, fitted values and stacked components from the latter, and the
  coefficients. They need not sum to zero, so that only the values are centred.

Directions below ``cutoff`` times the largest are left out. Where w is penalised, the default leaves out what rounding
hides, and the certificate counts it. Where it is not, fitted values at N distinct points can be anything for a strictly
positive definite kernel: all directions are kept if they can be represented, that is above :data:`REPRESENTED`, and
then the machine is exact in its fitted values. Elsewhere :data:`DEFAULT_CUTOFF` is part of the model: ``missing``
counts the directions that the kernel may have beside those kept, and the certificate says so in its first line.

*Pivots.* With :math:`K \approx L L^T` (centred where there is a bias), f = L z has :math:`w^T w = \|z\|^2`, as with
eigenvectors, at a tenth of their price for many rows. The coefficients of the expansion are those of least norm,

.. math:: a = Q R^{-T} z, \qquad L = Q R ,

so that :math:`K a = L z` up to the remainder :math:`E = K - L L^T`. The factor ends where all pivots left are below
the cut-off [Higham2002]_ (section 10.3). For a matrix that is not positive semi-definite E is not small: it is
estimated by products with random vectors, and a matrix that fails is left to the eigenvalues, which say why.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpstrf

from substrate.arrays import Array
from substrate.composition.span import Reading, SubstrateSpan
from substrate.fits.coordinates import CUTOFF, stacked_directions
from substrate.gram import Coordinates, Gram, refuse_negative
from substrate.least_squares.stacked_least_squares import off_ones, reflect
from substrate.numbers import lost_beside, rank_cutoff, relative_rounding
from substrate.threads import blas_threads

__all__ = [
    "DEFAULT_CUTOFF",
    "REPRESENTED",
    "Frame",
    "basis_frame",
    "coefficient_frame",
    "feature_frame",
    "fitted_frame",
    "largest_eigenvalue",
    "pivoted_factor",
    "stacked_frame",
]

#: Default cut-off without a norm on w, where the machine is ill posed in directions of small eigenvalues.
DEFAULT_CUTOFF = CUTOFF
#: Smallest share of the largest eigenvalue at which coefficients represent fitted values to a millionth.
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
    components: tuple[Array, ...] | None
    norm_factor: Array | None
    centre: Array
    cutoff: float
    #: The values of all representers in z, centred as f is; None where they are the training rows alone.
    representers: Array | None = None
    #: How many directions the kernel may have beside those kept.
    missing: int = 0

    def expand(self, z: Array) -> Array:
        """Return a = A z."""
        return z if self.coefficients is None else np.asarray(self.coefficients @ z)

    def map_from(self, K: Array) -> Array:
        """Return the matrix that takes z to K a, for rows K of kernel values at any points."""
        return K if self.coefficients is None else np.asarray(K @ self.coefficients)


def _eigen(gram: Gram, bias: bool, relative: float) -> tuple[Array, Array, Array]:
    """Return eigenvectors and eigenvalues of P K P off the direction 1, and the mean row of K.

    The direction 1 is removed by a reflection before the decomposition: otherwise its eigenvalue zero would mix with
    the smallest ones, and 1'a = 0 would hold only to the rounding error divided by them.
    """
    K = np.array(gram.matrix)
    with blas_threads(gram.n):
        values, vectors = np.linalg.eigh(_center(K, bias))
    # centring leaves small differences of entries, with the rounding of these
    rounding = lost_beside(float(np.abs(K).max()))
    refuse_negative(values, rounding)
    keep = values > max(relative * max(float(values[-1]), 0.0), gram.n * rounding if bias else 0.0)
    chosen = vectors[:, keep][:, ::-1]
    if not keep.any():  # a zero kernel has the feature zero
        return np.zeros((gram.n, 1)), np.ones(1), np.zeros(gram.n)
    U = off_ones(chosen) if bias else chosen
    mean = K.mean(axis=0) if bias else np.zeros(gram.n)
    return np.ascontiguousarray(U), values[keep][::-1].copy(), mean


def _center(K: Array, bias: bool) -> Array:
    """Return K without its direction 1 where there is a bias, and symmetric."""
    inner = reflect(reflect(K).T)[1:, 1:] if bias else K
    return np.asarray((inner + inner.T) / 2.0)


def _count_kept(U: Array) -> int:
    return int(U.any(axis=0).sum())


def fitted_frame(gram: Gram, bias: bool, cutoff: float | None, rank: int, elsewhere: bool) -> Frame:
    """Return orthonormal coordinates of the fitted values; all of them where they can be represented and none is
    stated.

    ``rank`` is the largest rank that the kernel can have on these points, ``elsewhere`` whether values at other points
    are mentioned, which are ill determined in small directions.
    """
    relative = DEFAULT_CUTOFF if cutoff is None else cutoff
    U, s, mean = _eigen(gram, bias, min(relative, REPRESENTED) if cutoff is None and not elsewhere else relative)
    kept = _count_kept(U)
    if cutoff is None and not elsewhere:
        if kept >= rank:
            relative = REPRESENTED
        else:
            large = s > relative * s[0]
            U, s, kept = np.ascontiguousarray(U[:, large]), s[large], int(large.sum())
    return Frame(
        kind="fitted values",
        size=kept,
        coefficients=U / s,
        training=U,
        components=None,
        norm_factor=None,
        centre=mean,
        cutoff=relative,
        missing=max(rank - kept, 0),
    )


def stacked_frame(
    gram: Gram, components: tuple[Array, ...], bias: bool, cutoff: float | None, with_norm: bool, rank: int
) -> Frame:
    """Return orthonormal coordinates of the stacked values of all components."""
    relative = DEFAULT_CUTOFF if cutoff is None else cutoff
    A, size = stacked_directions(components, bias, relative)
    component_rows = tuple(component @ A for component in components)
    norm_factor = gram.coordinates().factor.T @ A if with_norm else None
    training = np.sum(component_rows, axis=0)
    missing = max(rank - size, 0)
    return Frame(
        kind="stacked components",
        size=size,
        coefficients=A,
        training=training,
        components=component_rows,
        norm_factor=norm_factor,
        centre=np.zeros(gram.n),
        cutoff=relative,
        missing=missing,
    )


def coefficient_frame(gram: Gram, components: tuple[Array, ...] | None, with_norm: bool) -> Frame:
    """Return the coefficients themselves, uncut."""
    norm_factor = gram.coordinates().factor.T if with_norm else None
    return Frame(
        kind="coefficients",
        size=gram.n,
        coefficients=None,
        training=gram.matrix,
        components=components,
        norm_factor=norm_factor,
        centre=np.zeros(gram.n),
        cutoff=0.0,
    )


def feature_frame(span: SubstrateSpan, n_components: int, cutoff: float | None, rank: int) -> Frame:
    """Return coordinates in which the norm of w is Euclidean, on all representers of a span, and so many components.

    The norm determines all directions, so that all are kept that rounding does not hide.
    """
    relative = rank_cutoff(span.size) if cutoff is None else cutoff
    lengths, m = span.lengths(), span.values
    G = lengths[:, None] * span.matrix() * lengths
    inner = _reflect(_reflect(G, m).T, m)[1:, 1:] if span.balanced else G
    inner = (inner + inner.T) / 2.0
    with blas_threads(inner.shape[0]):
        L = pivoted_factor(inner, relative) if cutoff is None and span.size >= _PIVOTED else None
        if L is None:
            # of what centring leaves; beyond it a negative eigenvalue is refused
            rounding = relative_rounding(1.0) * float(np.linalg.norm(G))
            coordinates = Coordinates.of(inner, relative, rounding)
            L, size = coordinates.factor, coordinates.rank
            A = L / coordinates.values if size else L
        else:
            Q, R = np.linalg.qr(L)
            A, size = Q @ np.linalg.inv(R).T, L.shape[1]
    if span.balanced:
        L, A = (_reflect(np.vstack([np.zeros((1, each.shape[1])), each]), m) for each in (L, A))
    A, values = lengths[:, None] * A, L / lengths[:, None]
    centre = G[:m].mean(axis=0) / lengths if span.balanced else np.zeros(span.size)
    return Frame(
        kind="features",
        size=size,
        coefficients=A,
        training=np.ascontiguousarray(values[: span.substrate.n]),
        components=tuple(span.rows(Reading(part=part)) @ A for part in range(n_components)) or None,
        norm_factor=None,
        centre=centre,
        cutoff=relative,
        representers=values,
        missing=max(rank - size, 0),
    )


def _reflect(V: Array, count: int) -> Array:
    """Return the reflection of the first entries of every column."""
    return np.vstack([reflect(V[:count]), V[count:]])


def basis_frame(span: SubstrateSpan, n_components: int, with_norm: bool, with_alpha: bool, largest: int) -> Frame:
    """Return the coordinates of an expansion on a basis, with the values of so many components."""
    s = span.substrate
    K = s.kernel_rows(None)
    components = tuple(span.rows(Reading(part=number)) for number in range(n_components)) if n_components else None
    centre = K.mean(axis=0) if s.bias else np.zeros(span.size)
    if with_alpha:
        norm_factor = s.gram.coordinates().factor.T if with_norm else None
        return Frame(
            kind="coefficients",
            size=span.size,
            coefficients=None,
            training=K,
            components=components,
            norm_factor=norm_factor,
            centre=np.zeros(span.size),
            cutoff=0.0,
        )
    if with_norm:
        relative = rank_cutoff(span.size) if s.cutoff is None else s.cutoff
        coordinates = s.gram.coordinates(relative)
        kind, A, rank = "features", coordinates.basis / np.sqrt(coordinates.values), coordinates.rank
    else:
        relative = DEFAULT_CUTOFF if s.cutoff is None else s.cutoff
        kind = "fitted values" if components is None else "stacked components"
        A, rank = _tall_directions(K - centre if components is None else np.vstack(components), relative)
    A = A if rank else np.zeros((span.size, 1))
    component_rows = None if components is None else tuple(component @ A for component in components)
    return Frame(
        kind=kind,
        size=rank,
        coefficients=A,
        training=(K - centre) @ A,
        components=component_rows,
        norm_factor=None,
        centre=centre,
        cutoff=relative,
        missing=max(largest - rank, 0),
    )


def _tall_directions(values: Array, relative: float) -> tuple[Array, int]:
    """Return A for which the columns of ``values @ A`` are orthonormal, and how many are kept."""
    rounding = relative_rounding(values.shape[1]) * float(np.linalg.norm(values))
    with blas_threads(values.shape[1]):
        _, s, Vt = np.linalg.svd(values, full_matrices=False)
    keep = s > max(relative * float(s[0]), rounding)
    return np.ascontiguousarray(Vt[keep].T / s[keep]), int(keep.sum())


_POWERS, _PROBES = 12, 3
#: Largest accepted remainder, in units of the cut-off and of the root of the number of rows.
_REMAINDER = 10.0


def largest_eigenvalue(K: Array) -> float:
    """Return a lower bound on the largest eigenvalue of a symmetric matrix, within a few hundredths."""
    vector: Array = np.random.default_rng(0).standard_normal((K.shape[0], 1))
    for _ in range(_POWERS):
        vector = K @ vector
        length = float(np.linalg.norm(vector))
        if not 0.0 < length < np.inf:
            return 0.0
        vector = vector / length
    return float(np.vdot(vector, K @ vector))


def pivoted_factor(K: Array, relative: float) -> Array | None:
    """Return L with as many columns as there are pivots above the cut-off; None where K is not semi-definite up to
    it.
    """
    n, largest = K.shape[0], largest_eigenvalue(K)
    tolerance = relative * largest
    if not 0.0 < tolerance < np.inf:
        return None
    packed, pivots, rank, _ = dpstrf(K, tol=tolerance, lower=1)
    if not rank:
        return None
    L = np.empty((n, rank))
    L[pivots - 1] = np.tril(packed[:, :rank])
    probes = np.random.default_rng(1).standard_normal((n, _PROBES))
    remainder = np.linalg.norm(K @ probes - L @ (L.T @ probes), axis=0)
    accepted = _REMAINDER * np.sqrt(n) * tolerance * np.linalg.norm(probes, axis=0)
    return L if bool((remainder <= accepted).all()) else None
