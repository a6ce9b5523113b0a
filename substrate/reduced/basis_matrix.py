r"""The kernel matrix of a basis as a penalty: its accuracy, and the machine on all directions of the basis.

What is certified of a machine on a reduced basis is the answer on **all directions of the span of its basis vectors, in
exact arithmetic**,

.. math:: \min_{w, b} \tfrac{\lambda}{2} w^T w + \tfrac12 \sum_i v_i (y_i - w^T \varphi(x_i) - b)^2, \qquad
          w \in \operatorname{span} \{ \varphi(s) : s \in S \} .

It is solved in coordinates :math:`w = \sum_j (T u)_j \varphi(s_j)`, T a matrix of plain numbers. There
:math:`w^T w = u^T M u` with :math:`M = T^T K_{SS} T = I + E`, and E is not zero: :math:`K_{SS}` is rounded, and T
divides by the roots of its eigenvalues. So the gradient is computed from beta itself,

.. math:: g = T^T \big( \lambda K_{SS} \beta - \hat K^T V (e - \bar e) \big) ,

and :math:`\lambda E` enters the curvature. Values of the kernel with more digits are used where the first ones do not
suffice: for E by a formula that loses fewer digits, for :math:`K_{SS} \beta` in doubled precision
(``substrate.kernels.doubled_matrix``), then for both.

Directions below rounding are cut. Let C have the rows :math:`P \varphi(x_i)`, P the projection on the directions of the
span that are left out. With the others optimal, their coordinates are
:math:`c^\star = (\lambda I + C^T N C)^{-1} C^T e` for an N between zero and the identity, and change the
fitted values by :math:`N C c^\star`, that is by at most

.. math:: \min\!\Big( \gamma \Delta, \tfrac12 \sqrt{\gamma \Delta} \Big) \|e\|_v, \qquad
          \Delta = \sum_i v_i \big( k(x_i, x_i) - z_i^T M^{-1} z_i \big)
          \le \sum_i v_i \big( k(x_i, x_i) - z_i^T z_i + z_i^T E z_i \big) ,

since what is outside the kept directions bounds what is in the cut ones, and :math:`M^{-1} \succeq I - E`. Nothing is
lost where the vectors beyond the rank depend on others exactly: those that agree, and those of a kernel with no more
features than directions were kept.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.doubled_precision import Pair, SlicedMatrix, add
from substrate.certificates.enclosed import Doubled, Enclosed
from substrate.certificates.rounding import OF_PAIRS, at_most, sum_rounding
from substrate.namespaces import is_device_array, namespace_of, on_device_of, to_numpy
from substrate.reduced.features import EigenFeatures
from substrate.reduced.rows import BasisValues
from substrate.threads import blas_threads

__all__ = ["BasisMatrix", "Deviation", "Penalty", "change_by_cut", "resolved_features"]


@dataclass(frozen=True, slots=True)
class Deviation:
    """E = T'K T - I, and bounds on its errors: ``relative`` times the lengths of both directions, plus ``errors``.

    The length of a direction is the sum of the sizes of its coefficients, each times the root of k(z, z).
    """

    matrix: Array
    lengths: Array
    relative: float
    errors: Array | None = None

    def norm(self, root: Array, lam: float) -> float:
        """Bound the norm of lambda W E W', with W the inverse root of H, where lambda W'W is at most one."""
        xp = namespace_of(root)
        norm = float(xp.linalg.vector_norm(self.matrix))
        if not norm <= 1e-4:
            norm = min(norm, lam * float(xp.linalg.vector_norm(root @ self.matrix @ root.T)))
        sizes = xp.abs(root)
        norm += self.relative * lam * float(xp.sum((sizes @ self.lengths) ** 2))
        if self.errors is not None:
            norm += lam * float(xp.linalg.vector_norm(sizes @ self.errors @ sizes.T))
        return at_most(norm)

    def quadratic(self, second: Array) -> float:
        """Bound the sum of all z'E z, from the sum of all z z'."""
        xp, sizes = namespace_of(second), abs(second)
        form_bound = float(xp.sum(self.matrix * second)) + self.relative * float(self.lengths @ (sizes @ self.lengths))
        return form_bound if self.errors is None else form_bound + float(xp.sum(self.errors * sizes))


@dataclass(frozen=True, slots=True)
class Penalty:
    """Values of K_SS, right to ``rounding`` times the sizes of both vectors; ``doubled`` has more digits of them."""

    features: EigenFeatures
    high: Array
    sizes: Array
    rounding: float
    doubled: "DoubledMatrix | None" = None

    def product(self, beta: Array) -> Doubled:
        """Return K beta, one column per output, on the host; radii are relative to the sizes of both vectors."""
        sizes = to_numpy(self.sizes)
        terms = sizes[:, None] * (sizes @ np.abs(beta))
        if self.doubled is None:
            values = to_numpy(self.high @ on_device_of(self.high, beta))
            return Doubled(values, None, (self.rounding + sum_rounding(beta.shape[0] + 2)) * terms)
        high, low, check = (np.empty_like(beta) for _ in range(3))
        for k in range(beta.shape[1]):
            (high[:, k], low[:, k]), check[:, k] = self.doubled.times(beta[:, k])
        return Doubled(high, low, self.rounding * terms + check)

    def deviation(self) -> Deviation:
        """Return E of the features."""
        T, n = self.features.transform, self.features.n_basis
        xp, r = namespace_of(T), self.features.rank
        lengths = self.sizes @ xp.abs(T)
        if self.doubled is None:
            with blas_threads(n):
                E = T.T @ (self.high @ T)
            E = E - xp.eye(r, dtype=E.dtype, device=E.device)
            return Deviation(E, lengths, self.rounding + sum_rounding(2 * n + 6))
        high, low, check = (np.empty((n, r)) for _ in range(3))
        for k in range(r):
            (high[:, k], low[:, k]), check[:, k] = self.doubled.times(np.ascontiguousarray(T[:, k]))
        sizes = np.abs(T).T
        with blas_threads(n):
            E = T.T @ high + T.T @ low - np.eye(r)
            errors = sum_rounding(n + 4) * (sizes @ (np.abs(high) + np.abs(low))) + sizes @ check
        return Deviation(E, lengths, self.rounding, errors + sum_rounding(4) * np.eye(r))


class DoubledMatrix:
    """An unevaluated sum of two matrices, cut into slices for products with vectors."""

    def __init__(self, high: Array, low: Array) -> None:
        self._low, self._sizes, self._sliced = low, np.abs(low), SlicedMatrix(high)

    def times(self, vector: Array) -> tuple[Pair, Array]:
        """Return the product with a vector as a pair, and a bound on the error of every entry."""
        product, check = self._sliced.times(vector)
        low_part = self._low @ vector
        check = check + sum_rounding(vector.size + 2) * (self._sizes @ np.abs(vector)) + OF_PAIRS * np.abs(product[0])
        return add(product, (low_part, np.zeros_like(low_part))), check


@dataclass(slots=True)
class BasisMatrix:
    """K_SS of a basis and its features; values with more digits are computed when they are asked for, once."""

    values: BasisValues
    matrix: Array
    features: EigenFeatures
    _penalties: list[Penalty | None] = field(default_factory=list)
    _deviations: dict[int, Deviation] = field(default_factory=dict)
    _dimension: int | None = None
    #: The first level worth trying: those below were found too inaccurate.
    first: int = 0

    @property
    def sizes(self) -> Array:
        """The roots of k(z, z)."""
        xp = namespace_of(self.matrix)
        sizes: Array = xp.sqrt(xp.clip(xp.linalg.diagonal(self.matrix), min=0.0))
        return sizes

    def penalty(self, level: int) -> Penalty | None:
        """Return K_SS as it was computed (level 0), by the more accurate formula (1), and in doubled precision (2)."""
        while len(self._penalties) <= level:
            self._penalties.append(self._compute(len(self._penalties)))
        return self._penalties[level]

    def deviation(self, level: int) -> Deviation | None:
        """Return E at a level; None where there is none."""
        penalty = self.penalty(level)
        if penalty is None:
            return None
        if level not in self._deviations:
            self._deviations[level] = penalty.deviation()
        return self._deviations[level]

    def product(self, level: int) -> Penalty | None:
        """Return the matrix that multiplies coefficients at a level: in doubled precision above level 0, where that
        exists.
        """
        return self.penalty(0) if level == 0 else self.penalty(2) or self.penalty(1)

    def best(self) -> int:
        """Return the level of the most digits."""
        return max(level for level in range(3) if self.penalty(level) is not None)

    def _compute(self, level: int) -> Penalty | None:
        f, K, sizes = self.features, self.matrix, self.sizes
        away = is_device_array(K)
        if level == 0:
            return Penalty(f, K, sizes, self.values.basis_rounding())
        if away:
            f = EigenFeatures(*(to_numpy(array) for array in (f.transform, f.values)))
            sizes = to_numpy(sizes)
        if level == 1:
            careful = None if away else self.values.careful_matrix()
            return None if careful is None else Penalty(f, careful[0], sizes, careful[1])
        doubled = None if away else self.values.doubled_matrix(K)
        if doubled is None:
            return None
        (high, low), p = doubled
        return Penalty(features=f, high=high, sizes=sizes, rounding=p, doubled=DoubledMatrix(high, low))

    @property
    def dimension(self) -> int:
        """A bound on the dimension of the span in exact arithmetic: of vectors that agree one counts, of zeros none."""
        if self._dimension is None:
            vectors = self.values.distinct_vectors(to_numpy(self.matrix))
            self._dimension = min(vectors.size, self.values.most_directions)
        return self._dimension

    @property
    def n_cut(self) -> int:
        """How many directions of the span are not among the features."""
        if self.features.rank >= self.matrix.shape[0]:  # no matrix leaves its device for nothing
            return 0
        return max(self.dimension - self.features.rank, 0)


def change_by_cut(share: Any, length: Any) -> Any:
    """Return what the cut directions may change in the fitted values, for errors of this length; ``share`` is gamma
    Delta.

    Both are plain numbers, or enclosed ones.
    """
    if isinstance(share, Enclosed):
        return share.minimum(share.bound_root() * 0.5) * length
    return min(share, 0.5 * math.sqrt(share)) * length


#: Share of the largest eigenvalue above which a direction of the rounded matrix is a direction of the true one.
_STRONG = 1e-8
#: The same of directions that doubled precision finds, below which no expansion in double precision has digits left.
_FAINTEST = 1e-20
#: Vectors up to which directions are found by doubled precision: a minute of work.
_MOST_VECTORS = 1500


def resolved_features(basis: BasisMatrix) -> EigenFeatures | None:
    r"""Return features of all directions down to far below rounding, from the matrix in doubled precision.

    With eigenvectors :math:`(V, F)` of the rounded matrix, F those of its faint eigenvalues, the directions
    :math:`F - V (V^T K V)^{-1} V^T K F` have the Gram matrix

    .. math:: F^T K F - F^T K V (V^T K V)^{-1} V^T K F ,

    whose terms are computed in doubled precision and are as small as the result. Its eigenvectors are the directions.
    None where the matrix is exact as given, so that what is below its rounding means nothing, or not known better.
    """
    n = basis.features.n_basis
    if basis.values.defined_by_values or n > _MOST_VECTORS or is_device_array(basis.matrix):
        return None
    penalty = basis.penalty(2)
    if penalty is None or penalty.doubled is None:
        return None
    doubled = penalty.doubled
    with blas_threads(n):
        values, vectors = np.linalg.eigh(penalty.high)
        strong = values > _STRONG * max(float(values[-1]), 0.0)
        if strong.all() or not strong.any():
            return None
        V, F = np.ascontiguousarray(vectors[:, strong]), np.ascontiguousarray(vectors[:, ~strong])
        high, low = np.empty_like(F), np.empty_like(F)
        for k in range(F.shape[1]):
            (high[:, k], low[:, k]), _ = doubled.times(np.ascontiguousarray(F[:, k]))
        rows = SlicedMatrix(np.ascontiguousarray(vectors.T))
        product = np.empty((n, F.shape[1]))
        for k in range(F.shape[1]):
            (high_part, low_part), _ = rows.times(np.ascontiguousarray(high[:, k]))
            product[:, k] = high_part + (low_part + vectors.T @ low[:, k])
        across, inner = product[strong], product[~strong]
        pulled = across / values[strong][:, None]
        inner = inner - across.T @ pulled
        faint, rotation = np.linalg.eigh((inner + inner.T) / 2.0)
        kept = faint > _FAINTEST * float(values[-1])
        directions = (F - V @ pulled) @ rotation[:, kept] / np.sqrt(faint[kept])
        T = np.concatenate([directions, V / np.sqrt(values[strong])], axis=1)[:, ::-1]
        eigenvalues = np.concatenate([faint[kept], values[strong]])[::-1]
        T = np.ascontiguousarray(T)
        dual = np.empty_like(T)
        for k in range(T.shape[1]):
            (high_part, low_part), _ = doubled.times(np.ascontiguousarray(T[:, k]))
            dual[:, k] = high_part + low_part
    return EigenFeatures(T, np.ascontiguousarray(eigenvalues), dual)
