r"""A zone of widths on few directions: the evidence of many rows between two deterministic bounds.

Let :math:`A = K + \lambda I` among the m zero-sum vectors, y the centred target, and V any r orthonormal zero-sum
vectors, :math:`A_V = V^T K V + \lambda I`, :math:`W = V^\perp` the others. Without an assumption on V,

.. math::

    \log\det A_V + (m - r) \log \lambda \;\le\; \log\det A \;\le\;
    \log\det A_V + (m - r) \log\Big( \lambda + \frac{\operatorname{tr} K - \operatorname{tr} V^T K V}{m - r} \Big) ,

since the Schur complement of :math:`A_V` in A is the inverse of a block of :math:`A^{-1} \preceq I/\lambda`, and since
the determinant of a positive matrix is at most that of its blocks, and that of a block at most the power of its mean
eigenvalue; and with :math:`u = V A_V^{-1} V^T y`

.. math:: y^T u \;\le\; y^T A^{-1} y \;\le\; y^T u + \|y - A u\|^2 / \lambda ,

as u is the best vector of the span for :math:`2 y^T u - u^T A u`. So :math:`\log F` is known within the sum of both
gaps. V is the leading part of the span of K times random vectors at the narrowest width of the zone, which is
deterministic here, and the part of y outside of it: with it nothing of y is lost.

The lower bound is the evidence of the matrix :math:`V V^T K V V^T`, and compression keeps the Loewner order: every
inequality of :mod:`~substrate.search.width_bounds` holds for it with r in the place of N, and :math:`m - r` eigenvalues
zero beside, on which neither y nor the width acts. Where few directions do not carry the matrix, all are taken.

What costs the square of the number of rows is computed where the distances are, on the host or on a device.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.least_squares.saddle_system import target_unit
from substrate.least_squares.spectrum import Spectrum, Targets
from substrate.namespaces import namespace_of, on_device_of, to_numpy
from substrate.search.width_bounds import WidthFamily, Zone, remainder_bounds
from substrate.threads import blas_threads

__all__ = ["CompressedZone", "centre_targets", "compress_zone", "leading_directions", "narrowest"]

#: Directions that are tried first.
_FIRST = 128
#: Length of what remains of a target, as a share of it, below which it is rounding.
_NOTHING = 1e-10


def centre_targets(Y: Array, root: Array | None) -> tuple[Array, float]:
    """Return targets about their weighted means, times the roots of the weights, in units of the largest; and that."""
    Y = Y[:, None] if Y.ndim == 1 else Y
    unit = target_unit(Y)
    centred = Y / unit
    shares = np.full(Y.shape[0], 1.0 / Y.shape[0]) if root is None else np.square(root) / float(root @ root)
    for _ in range(2):
        centred = centred - shares @ centred
    return centred if root is None else root[:, None] * centred, unit


@dataclass(frozen=True, kw_only=True)
class CompressedZone(Zone):
    """A zone on r directions: ``remainder`` bounds the trace beside them, ``images`` are A's products less lambda.

    ``images`` has one column per direction of the basis of the spectrum, None where all directions are taken;
    ``target`` are the centred targets.
    """

    target: Array
    remainder: float = 0.0
    images: Array | None = field(default=None)

    @property
    def targets(self) -> Targets:
        """The coordinates of the centred targets in the span."""
        outputs = self.target.shape[1]
        return Targets(coordinates=self.spectrum.basis.T @ self.target, mean=np.zeros(outputs), unit=1.0)

    def bound_evidence(self, lam: float) -> float:
        """Return a number that the criterion at the middle of the zone and this lambda does not exceed."""
        z, s = np.asarray(self.targets.coordinates), np.asarray(self.spectrum.values)
        free = s.size + self.outside
        quadratic = float((np.square(z).sum(axis=1) / (s + lam)).sum())
        logs = float(np.log(s + lam).sum())
        lost = 0.0
        if self.images is not None:
            support = z / (s + lam)[:, None]
            residual = self.target - self.images @ support - lam * (self.spectrum.basis @ support)
            lost = float(np.square(residual).sum()) / lam
            logs += self.outside * math.log(lam + self.remainder / self.outside)
        radius = float(self.radius(np.array([lam]))[0])
        rounding = (
            4.0 * radius + 2.0 * self.spectrum.skew + relative_rounding(8.0 * (free + 16.0)) * (1.0 + abs(logs) / free)
        )
        above = float(quadratic + lost) / (free * int(z.shape[1]))
        return above * math.exp(logs / free + min(rounding, 50.0))


def narrowest(family: WidthFamily, t: float, half: float) -> tuple[float, Any, Any, Any]:
    """Return the half-length of a zone with its rounding, and the kernel and two derivatives at its narrowest end."""
    h = half * (1.0 + 1e-9) + 1e-13 * (1.0 + abs(t))  # the ends of neighbours meet whatever their rounding
    return (h, *family.derivatives(t - h))


def compress_zone(
    family: WidthFamily,
    t: float,
    end: tuple[float, Any, Any, Any],
    target: Array,
    directions: Array | None,
    weights: Array | None = None,
) -> CompressedZone:
    """Decompose the middle of a zone, whose ``end`` is that of :func:`narrowest`, on some directions, or on all (None).

    ``weights`` are those of the rows, of mean one; ``target`` is that of :func:`centre_targets`.
    """
    n = int(family.distances.shape[0])
    root = None if weights is None else np.sqrt(weights)
    h, *narrow = end
    with blas_threads(n):
        span = _Reflected.of(root, n) if directions is None else _Columns.of(root, directions)
        # of compressed matrices, which is the same and less work
        low, whole, terms = remainder_bounds(family.dimension, h, *(span.compress(matrix)[1] for matrix in narrow))
        terms *= n / low.shape[0]
        K, slope, _ = family.derivatives(t)
        images, compressed = span.compress(K)
        trace, size = _centred_trace(K, root), _scaled_size(slope, root)
        slope = span.compress(slope)[1]
        values, turn = np.linalg.eigh(compressed)
        turned = [turn.T @ matrix @ turn for matrix in (slope, low, whole)]
        basis = span.columns @ turn
    r = values.size
    norm = float(np.linalg.norm(compressed))
    skew = float(np.linalg.norm(basis.T @ basis - np.eye(r))) + relative_rounding(n + 2.0) * math.sqrt(r)
    rest = float(np.linalg.norm(compressed @ turn - turn * values))
    # products with r vectors, whose errors add up by their squares, vectors that are not quite zero-sum, kernel values
    products = (relative_rounding(n + r + 60.0) + 2.0 * span.off) * (1.0 + math.sqrt(r))
    error = 4.0 * (products + family.rounding) * n + 2.0 * rest
    error += (2.0 * skew + relative_rounding(2.0 * r + 16.0) * math.sqrt(r)) * norm
    lift = max(-float(values[0]), 0.0)  # compressed kernel matrices are positive semi-definite: below zero is rounding
    turns = products + relative_rounding(4.0 * r + 32.0) * (1.0 + math.sqrt(r)) + 2.0 * skew
    errors = (
        4.0 * (turns + family.rounding) * (size + n),
        (4.0 * turns + family.rounding) * terms,
    )
    spectrum = Spectrum(
        basis=basis,
        values=np.maximum(values, 0.0),
        mean_row=np.zeros(n),
        lift=lift,
        trace=trace,
        norm=norm,
        error=error,
        skew=skew * math.sqrt(r),
        root=root,
    )
    slope, low, whole = (0.5 * (matrix + matrix.T) for matrix in turned)
    outside = n - 1 - r
    return CompressedZone(
        t=t,
        half=h,
        spectrum=spectrum,
        slope=slope,
        low=low,
        whole=whole,
        errors=errors,
        outside=outside,
        target=target,
        remainder=max(trace - float(values.sum()), 0.0) + (r + 4.0) * error + skew * trace,
        images=None if outside == 0 else images @ turn,
    )


@dataclass(frozen=True, slots=True)
class _Columns:
    """The span of orthonormal columns; ``off`` is the length of their part along the removed direction."""

    columns: Array
    root: Array | None
    off: float

    @classmethod
    def of(cls, root: Array | None, columns: Array) -> "_Columns":
        return cls(columns, root, float(np.linalg.norm(columns.T @ _removed(root, columns.shape[0]))))

    def compress(self, matrix: Any) -> tuple[Array, Array]:
        """Return the centred products of the scaled matrix with the columns, and their products with the columns."""
        products = np.asarray(to_numpy(matrix @ on_device_of(matrix, _scale(self.columns, self.root))))
        images = _centre(_scale(products, self.root), self.root)
        compressed = self.columns.T @ images
        return images, 0.5 * (compressed + compressed.T)


@dataclass(frozen=True, slots=True)
class _Reflected:
    """All zero-sum directions, as the columns of a reflection without the first."""

    reflector: Array
    root: Array | None
    off: float = 0.0

    @classmethod
    def of(cls, root: Array | None, n: int) -> "_Reflected":
        q = _removed(root, n)
        w = q.copy()
        w[0] += 1.0  # q is positive: nothing cancels
        return cls(w / float(np.linalg.norm(w)), root, relative_rounding(8.0))

    @property
    def columns(self) -> Array:
        w = self.reflector
        return np.eye(w.size)[:, 1:] - 2.0 * np.outer(w, w[1:])

    def compress(self, matrix: Any) -> tuple[Array, Array]:
        """Return nothing of products, and the compressed matrix, by two reflections."""
        M = np.array(to_numpy(matrix))
        if self.root is not None:
            M *= self.root[:, None]
            M *= self.root[None, :]
        w = self.reflector
        along = M @ w
        middle = 2.0 * (along - float(w @ along) * w)
        M -= np.outer(middle, w)
        M -= np.outer(w, middle)
        return np.zeros((0, 0)), np.ascontiguousarray(M[1:, 1:])


def leading_directions(K: Any, root: Array | None, target: Array, loss: float, share: float = 0.45) -> Array | None:
    """Return directions outside of which K has at most a trace of ``loss``, and the targets.

    None where it takes more than a ``share`` of all. They are those of K times random vectors, and of these the
    leading ones of the compressed K.
    """
    n = int(K.shape[0])
    most = int(share * n)
    trace, count = _centred_trace(K, root), min(_FIRST, most)
    generator = np.random.default_rng(n)
    while count:
        draw = _centre(generator.standard_normal((n, count)), root)
        span = np.linalg.qr(_Columns(draw, root, 0.0).compress(K)[0])[0]
        span = _centre(span, root)
        compressed = _Columns(span, root, 0.0).compress(K)[1]
        values, turn = np.linalg.eigh(compressed)
        tails = trace - np.cumsum(values[::-1])
        if tails[-1] <= loss:
            kept = int(np.argmax(tails <= loss)) + 1
            return _with_targets(span @ turn[:, ::-1][:, :kept], target, root)
        # where the tail would not fall far enough at this rate, no more are tried
        rate = math.log(tails[-1] / tails[count // 2]) / (count - count // 2)
        if count == most or math.log(tails[-1] / loss) + rate * (most - count) > 0.0:
            return None
        count = min(2 * count, most)
    return None


def _with_targets(span: Array, target: Array, root: Array | None) -> Array:
    """Return the columns, and what the targets have beside them, orthonormal."""
    columns = span
    for column in target.T:
        length = float(np.linalg.norm(column))
        rest = column
        for _ in range(2):
            rest = _centre(rest - columns @ (columns.T @ rest), root)
        beside = float(np.linalg.norm(rest))
        if beside > _NOTHING * length > 0.0:
            rest = rest / beside
            rest = rest - columns @ (columns.T @ rest)
            columns = np.column_stack([columns, rest / float(np.linalg.norm(rest))])
    # once more, so that the defect of the columns is that of rounding
    return np.asarray(np.linalg.qr(columns)[0])


def _removed(root: Array | None, n: int) -> Array:
    """Return the unit vector beside which machines are: that of a constant, by the weights."""
    return np.full(n, 1.0 / math.sqrt(n)) if root is None else np.asarray(root / float(np.linalg.norm(root)))


def _scale(columns: Array, root: Array | None) -> Array:
    return columns if root is None else root[:, None] * columns


def _centre(columns: Array, root: Array | None) -> Array:
    """Return columns without their part along the removed direction, twice, as rounding leaves some of it."""
    q = _removed(root, columns.shape[0])
    for _ in range(2):
        along = q @ columns
        columns = columns - (q * along if columns.ndim == 1 else np.outer(q, along))
    return columns


def _centred_trace(K: Any, root: Array | None) -> float:
    """Return a bound on the trace of the centred and scaled matrix from above."""
    n = int(K.shape[0])
    v = np.ones(n) if root is None else np.square(root)
    removed = float(v @ np.asarray(to_numpy(K @ on_device_of(K, v)))) / float(v.sum())
    diagonal = np.asarray(to_numpy(namespace_of(K).linalg.diagonal(K)))
    return float(v @ diagonal) - removed + relative_rounding(4.0 * n + 20.0) * 2.0 * n


def _scaled_size(matrix: Any, root: Array | None) -> float:
    """Return the Frobenius norm of a matrix scaled by the roots of the weights."""
    if root is None:
        return float(namespace_of(matrix).linalg.vector_norm(matrix))
    v = on_device_of(matrix, np.square(root))
    return math.sqrt(max(float(v @ ((matrix * matrix) @ v)), 0.0))
