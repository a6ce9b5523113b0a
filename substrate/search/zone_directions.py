r"""Directions on which kernel matrices of a zone of widths are looked at: all beside the constant, or a few.

Machines with a bias are those of zero-sum vectors, with weights of the rows of vectors beside the root of the weights.
The few are the leading part of the span of K times random vectors at the narrowest width of the zone, which is
deterministic here, and the part of the targets outside of it: with it nothing of them is lost. How many it takes is
read from the compressed matrix itself. With the eigenvalues :math:`s_1 \ge s_2 \ge \dots` and the coordinates z of the
targets there, the criterion on the first k is

.. math:: \log F_k = \log \Big( \sum_{i \le k} \frac{z_i^2}{1 + \gamma s_i} + \frac{\rho^4}{\rho^2 + \gamma e} \Big)
          + \frac1m \sum_{i \le k} \log (1 + \gamma s_i) - \log m , \qquad
          \rho^2 = \|y\|^2 - \sum_{i \le k} z_i^2, \quad e = \sum_{i > k} s_i z_i^2 ,

and what is left out adds at most :math:`\gamma\, (\operatorname{tr} K - \sum_{i \le k} s_i) / m` to it. So k is enough
at a :math:`\gamma` where that is small, and also where :math:`F_k` is far above the value that matters: of a criterion
that is far too large little has to be known.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.least_squares.saddle_system import target_unit
from substrate.namespaces import diagonal_of, on_device_of, to_numpy

__all__ = ["AllDirections", "Enough", "SomeDirections", "centre_targets", "centred_trace", "leading_directions"]

#: Directions that are tried first.
_FIRST = 128
#: Length of what remains of a target, as a share of it, below which it is rounding.
_NOTHING = 1e-10
#: What a zone of the half-length h loses of log F, as a rule, over the square of h and the degrees of freedom per row.
_CURVATURE = 100.0
#: What a criterion on some directions is above the value that matters, at least, in its logarithm.
_MARGIN = 0.05


def centre_targets(Y: Array, root: Array | None) -> tuple[Array, float]:
    """Return targets about their weighted means, times the roots of the weights, in units of the largest; and that."""
    Y = Y[:, None] if Y.ndim == 1 else Y
    unit = target_unit(Y)
    centred = Y / unit
    shares = np.full(Y.shape[0], 1.0 / Y.shape[0]) if root is None else np.square(root) / float(root @ root)
    for _ in range(2):
        centred = centred - shares @ centred
    return centred if root is None else root[:, None] * centred, unit


@dataclass(frozen=True, slots=True)
class SomeDirections:
    """The span of orthonormal ``columns``; ``off`` is the length of their part along the removed direction."""

    columns: Array
    root: Array | None
    off: float

    @classmethod
    def of(cls, root: Array | None, columns: Array) -> "SomeDirections":
        """Measure the part of given columns along the removed direction."""
        return cls(columns, root, float(np.linalg.norm(columns.T @ _removed(root, columns.shape[0]))))

    @property
    def skew(self) -> float:
        """A bound on the norm of what the products of the columns are beside the identity."""
        n, r = self.columns.shape
        defect = float(np.linalg.norm(self.columns.T @ self.columns - np.eye(r)))
        return defect + relative_rounding(n + 2.0) * math.sqrt(r)

    @property
    def rounding(self) -> float:
        """The share that compression changes: products whose errors add up by their squares, and what is off."""
        n, r = self.columns.shape
        return 4.0 * (relative_rounding(n + r + 60.0) + 2.0 * self.off) * (1.0 + math.sqrt(r))

    def compress(self, matrix: Any) -> tuple[Array, Array]:
        """Return the centred products of the scaled matrix with the columns, and their products with the columns."""
        products = np.asarray(to_numpy(matrix @ on_device_of(matrix, _scale(self.columns, self.root))))
        images = _centre(_scale(products, self.root), self.root)
        compressed = self.columns.T @ images
        return images, 0.5 * (compressed + compressed.T)

    def coordinates(self, target: Array) -> Array:
        """Return the coordinates of targets."""
        return np.asarray(self.columns.T @ target)


@dataclass(frozen=True, slots=True)
class AllDirections:
    """All directions beside the removed one, as the columns of a reflection without the first, where matrices are."""

    reflector: Array
    root: Array | None
    skew: float = relative_rounding(16.0)

    @classmethod
    def of(cls, root: Array | None, n: int) -> "AllDirections":
        """Make the reflection that takes the removed direction to the first axis."""
        w = _removed(root, n).copy()
        w[0] += 1.0  # all are positive: nothing cancels
        return cls(w / float(np.linalg.norm(w)), root)

    @property
    def rounding(self) -> float:
        """The share that compression changes of the Frobenius norm: a product and two updates of rank one."""
        return relative_rounding(16.0 * self.reflector.size + 96.0)

    def compress(self, matrix: Any) -> tuple[None, Any]:
        """Return no products, and the compressed matrix, by a reflection from both sides."""
        w = on_device_of(matrix, self.reflector)
        if self.root is not None:
            root = on_device_of(matrix, self.root)
            matrix = root[:, None] * matrix * root[None, :]
        along = matrix @ w
        middle = 2.0 * (along - (w @ along) * w)
        reflected = matrix - middle[:, None] * w[None, :]
        reflected -= w[:, None] * middle[None, :]
        return None, reflected[1:, 1:]

    def coordinates(self, target: Array) -> Array:
        """Return the coordinates of targets."""
        w = self.reflector
        return np.asarray((target - 2.0 * np.outer(w, w @ target))[1:])


@dataclass(frozen=True, kw_only=True, slots=True)
class Enough:
    """When directions are enough, at every one of ``gammas``: by a ``loss`` of log F, or by a value ``wanted`` of F.

    ``half`` is the half-length of the zone, which costs the bound something too.
    """

    gammas: Array
    loss: float
    wanted: float
    half: float

    def counts(self, values: Array, squares: Array, target: Array, trace: float) -> Array:
        """Return for every number of leading directions, from one on, whether they are enough."""
        free, total = target.shape[0] - 1, float(np.square(target).sum())
        with np.errstate(all="ignore"):
            values = np.maximum(values, 0.0)
            stretched = 1.0 + np.outer(values, self.gammas)
            beside = np.maximum(total - np.cumsum(squares), 0.0)
            energy = np.maximum(float(squares @ values) - np.cumsum(squares * values), 0.0)
            quadratic = np.cumsum(squares[:, None] / stretched, axis=0)
            quadratic += np.square(beside)[:, None] / (beside[:, None] + np.outer(energy, self.gammas) + 1e-300)
            logs = np.cumsum(np.log(stretched), axis=0) / free
            freedom = np.cumsum(1.0 - 1.0 / stretched, axis=0) / free
            reached = np.log(quadratic / (free * target.shape[1])) + logs - _CURVATURE * self.half**2 * freedom
            left = (trace - np.cumsum(values))[:, None] * self.gammas / free
            return np.asarray(((left <= self.loss) | (reached >= np.log(self.wanted) + _MARGIN)).all(axis=1))


def leading_directions(
    K: Any, root: Array | None, target: Array, enough: Enough, share: float = 0.45
) -> SomeDirections | None:
    """Return the first directions that are enough, and the targets; None where it takes more than a ``share`` of all.

    They are those of K times random vectors, and of these the leading ones of the compressed K.
    """
    n = int(K.shape[0])
    most = int(share * n)
    trace, count = centred_trace(K, root), min(_FIRST, most)
    generator = np.random.default_rng(n)
    while count:
        draw = _centre(generator.standard_normal((n, count)), root)
        images = SomeDirections(draw, root, 0.0).compress(K)[0]
        # with the targets among them nothing of these is beside, and the criterion of every part is known
        scaled = target / max(float(np.abs(target).max()), 1e-300)
        span = _centre(np.linalg.qr(np.column_stack([images, scaled]))[0], root)
        values, turn = np.linalg.eigh(SomeDirections(span, root, 0.0).compress(K)[1])
        values, columns = values[::-1], span @ turn[:, ::-1]
        squares = np.square(columns.T @ target).sum(axis=1)
        counts = enough.counts(values, squares, target, trace)
        if counts[-1]:
            return SomeDirections.of(root, _with_targets(columns[:, : int(np.argmax(counts)) + 1], target, root))
        if count == most:
            return None
        count = min(2 * count, most)
    return None


def _with_targets(span: Array, target: Array, root: Array | None) -> Array:
    """Return the columns, and what the targets have beside them, orthonormal."""
    columns = span
    for column in target.T:
        length = float(np.linalg.norm(column))
        beside = column
        for _ in range(2):
            beside = _centre(beside - columns @ (columns.T @ beside), root)
        size = float(np.linalg.norm(beside))
        if size > _NOTHING * length > 0.0:
            beside = beside / size
            beside = beside - columns @ (columns.T @ beside)
            columns = np.column_stack([columns, beside / float(np.linalg.norm(beside))])
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


def centred_trace(K: Any, root: Array | None) -> float:
    """Return a bound on the trace of the centred and scaled matrix from above."""
    n = int(K.shape[0])
    v = np.ones(n) if root is None else np.square(root)
    removed = float(v @ np.asarray(to_numpy(K @ on_device_of(K, v)))) / float(v.sum())
    diagonal = np.asarray(to_numpy(diagonal_of(K)))
    return float(v @ diagonal) - removed + relative_rounding(4.0 * n + 20.0) * 2.0 * n
