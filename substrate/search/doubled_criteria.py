r"""The criterion of a machine of few rows where rounding hides it: beyond the end of a default range of gamma.

With a kernel that is much wider than the data, or with few rows, a criterion may rise by an order of magnitude and fall
again where :math:`\lambda = 1/\gamma` is below the rounding of the kernel matrix. Doubled precision sees there. Kernel
values are computed by the formula of the kernel (``substrate.kernels.doubled_matrix``) and factored with pivots,

.. math:: K = L L^T, \qquad \tilde L = L - Q Q^T L, \qquad \tilde y = y - Q Q^T y ,

with Q the orthonormal constant (rows, and Q, times the roots of their weights). The columns of L fall in size, so that
a Cholesky factor of :math:`\tilde L^T \tilde L + \lambda I = C C^T` is right in every entry; with
:math:`T = C^{-1} \tilde L^T`

.. math:: e = \tilde y - T^T T \tilde y, \qquad 1 - h_{ii} = 1 - |Q_i|^2 - |T_i|^2 ,

from which all criteria follow. A basis restricts the pivots to its own vectors. This is no bound: it is what is to be
expected of a wider range (:mod:`~substrate.search.range_end`), in place of the fall that is continued there: where a
range of more rows is said to end too early, and the kernel is so smooth that L has few columns, it is looked at too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, is_sparse
from substrate.certificates.doubled_numbers import DoubledNumbers
from substrate.kernels import Kernel
from substrate.kernels.doubled_matrix import doubled_matrix
from substrate.namespaces import is_device_array
from substrate.search.gamma_result import GammaSearch

__all__ = ["FewRows", "least_further"]

#: Rows, and basis vectors beside them, up to which it is worth the time.
_ROWS = 40
#: The same, and columns of L, where a row of the certificate fails without it.
_MOST_ROWS, _MOST_COLUMNS = 1000, 60
#: A smallest eigenvalue this much larger than lambda: nothing changes beyond.
_SATURATED = 1e3
#: Points beyond the end that are looked at, and the factor between two of them: ten decades.
_POINTS, _FACTOR = 20, 10.0**0.5
#: Pivots below this share of the largest one are rounding of doubled precision.
_CUT = 2.0**-95
#: How far apart, relatively, both precisions may be inside of the range.
_AGREED = 0.1
_CRITERIA = ("loo", "gcv", "evidence", "folds", "validation")

#: Rows that train, and rows that validate, if any.
Split = tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class FewRows:
    """Points, the first ``pivots`` of which may be basis vectors; targets, one row each; weights of the rows.

    Rows of a split are numbers of points; targets of a basis vector that is no row are not read.
    """

    kernel: Kernel
    points: Any
    pivots: int
    Y: Array
    weights: Array
    constant: bool = True

    def features(self, alarmed: bool = False) -> DoubledNumbers | None:
        """Return L, one row for each point; None where they are too many, or the kernel has no such formula.

        ``alarmed``: a row of the certificate fails without a look at them.
        """
        n = int(self.points.shape[0])
        if n > (_MOST_ROWS if alarmed else _ROWS) or self.kernel.pairwise or is_device_array(self.points):
            return None
        if is_sparse(self.points):
            return None
        matrix = doubled_matrix(self.kernel, self.points)
        if matrix is None:
            return None
        return _factor_by_pivots(DoubledNumbers(*matrix[0]), self.pivots, n if n <= _ROWS else _MOST_COLUMNS)

    def least_eigenvalue(self, L: DoubledNumbers, rows: Any) -> float:
        """Return the smallest eigenvalue of the kernel matrix of some rows, off the constant."""
        values = np.linalg.svd(self._center(L, rows)[1].pair[0], compute_uv=False)
        return float(values[min(len(rows) - int(self.constant), values.size) - 1]) ** 2

    def criteria(self, L: DoubledNumbers, criterion: str, splits: Sequence[Split], lambdas: Array) -> Array:
        """Return the criterion at every lambda, one column per output, up to a factor that is the same for all of
        them.
        """
        if criterion not in ("folds", "validation"):
            return self._of_machine(L, criterion, splits[0][0], lambdas)
        return np.asarray(np.mean([self._of_split(L, split, lambdas) for split in splits], axis=0))

    def _center(self, L: DoubledNumbers, rows: Any) -> tuple[DoubledNumbers, DoubledNumbers, DoubledNumbers]:
        """Return the root of the weights of some rows over its length, and features and targets less their weighted
        means.
        """
        root = DoubledNumbers(self.weights[rows]).sqrt()
        Z, Y = root[:, None] * L[rows], root[:, None] * DoubledNumbers(self.Y[rows])
        if not self.constant:
            return root * 0.0, Z, Y
        q = root / (root * root).sum().sqrt()
        return q, Z - q[:, None] * (q[:, None] * Z).sum(), Y - q[:, None] * (q[:, None] * Y).sum()

    def _of_machine(self, L: DoubledNumbers, criterion: str, rows: Any, lambdas: Array) -> Array:
        q, Z, Y = self._center(L, rows)
        T, logarithms = _solve(Z, Z, lambdas)
        E = Y[None] - _fit(T, T, Y)
        if criterion == "evidence":
            # the determinant of K + lambda I off the border, over lambda in every direction
            stretch = (logarithms - Z.shape[1] * np.log(lambdas)) / (len(rows) - int(self.constant))
            return np.asarray((Y[None] * E).sum(axis=1).pair[0] * np.exp(stretch)[:, None])
        spare = (1.0 - q * q)[None] - (T * T).sum(axis=1)
        if criterion == "gcv":
            return np.asarray((E * E).sum(axis=1).pair[0] / np.square(spare.sum(axis=1).pair[0])[:, None])
        left_out = E / spare[:, :, None]
        return np.asarray((left_out * left_out).sum(axis=1).pair[0])

    def _of_split(self, L: DoubledNumbers, split: Split, lambdas: Array) -> Array:
        """Return the weighted mean square error on the rows that validate."""
        train, check = split
        _, Z, Y = self._center(L, train)
        targets_val, features = DoubledNumbers(self.Y[check]), L[check]
        if self.constant:
            v = DoubledNumbers(self.weights[train])
            targets_val = targets_val - (v[:, None] * DoubledNumbers(self.Y[train])).sum() / v.sum()
            features = features - (v[:, None] * L[train]).sum() / v.sum()
        stacked = (np.concatenate(halves) for halves in zip(Z.pair, features.pair, strict=True))
        T, _ = _solve(Z, DoubledNumbers(*stacked), lambdas)
        E = targets_val[None] - _fit(T[:, :, len(train) :], T[:, :, : len(train)], Y)
        share = self.weights[check] / self.weights[check].sum()
        return np.asarray((share[None, :, None] * np.square(E.pair[0])).sum(axis=1))


def least_further(rows: FewRows, criterion: str, splits: Sequence[Split], search: GammaSearch) -> Array | None:
    """Find the least criterion in ten decades beyond the range of a search, for every gamma that it chose.

    It is measured against the criterion at the end of the range. None where doubled precision is not available or not
    worth the time, where the verdict is known without it, where nothing is left to change, or where it does not agree
    with the criterion at the choice.
    """
    if criterion not in _CRITERIA or search.gamma.size not in (1, rows.Y.shape[1]):
        return None
    gap, *end = search.rows()
    if bool((search.values <= search.floor).all()) or not gap.passes:
        return None  # nothing would change
    with np.errstate(all="ignore"):  # what is not finite is not used
        L = rows.features(alarmed=not all(row.passes for row in end))
        return None if L is None or L.shape[1] == 0 else _least(rows, L, criterion, splits, search)


def _least(
    rows: FewRows, L: DoubledNumbers, criterion: str, splits: Sequence[Split], search: GammaSearch
) -> Array | None:
    end = 1.0 / search.gamma_range[1]
    if min(rows.least_eigenvalue(L, train) for train, _ in splits) > _SATURATED * end:
        return None
    lambdas = np.concatenate([1.0 / search.gamma, end / _FACTOR ** np.arange(_POINTS + 1)])
    values = rows.criteria(L, criterion, splits, lambdas)
    if search.gamma.size == 1:
        values = values.mean(axis=1, keepdims=True)
    chosen, ended, further = values[: search.gamma.size].diagonal(), *np.split(values[search.gamma.size :], [1])
    last = search.curve[np.argmax(search.seen)]
    agreed: Any = np.abs(chosen / ended[0] - search.values / last) <= _AGREED * search.values / last
    least: Array = np.where(np.isfinite(further), further, np.inf).min(axis=0) * (last / ended[0])
    return least if bool(agreed.all()) else None


def _factor_by_pivots(K: DoubledNumbers, pivots: int, most: int) -> DoubledNumbers | None:
    """Return L with K = L L', columns falling in size, by the largest pivot of the first points in every step.

    None where it has more columns than ``most``.
    """
    remainder, columns = K[:, :pivots], list[DoubledNumbers]()
    places = np.arange(pivots)
    is_left = np.ones(pivots, dtype=bool)
    largest = 0.0
    for _ in range(pivots):
        diagonal = np.where(is_left, remainder.pair[0][places, places], -np.inf)
        best = int(diagonal.argmax())
        largest = max(largest, float(diagonal[best]))
        if not diagonal[best] > _CUT * largest:
            break
        if len(columns) == most:
            return None
        column = remainder[:, best] / remainder[best, best].sqrt()
        remainder = remainder - column[:, None] * column[None, :pivots]
        is_left[best] = False
        columns.append(column)
    L = DoubledNumbers(np.empty((K.shape[0], len(columns))))
    for number, column in enumerate(columns):
        L[:, number] = column
    return L


def _solve(Z: DoubledNumbers, rows: DoubledNumbers, lambdas: Array) -> tuple[DoubledNumbers, Array]:
    """Return C^-1 times the transposed rows for C C' = Z'Z + lambda I, and log det of that, for every lambda."""
    r, count = Z.shape[1], lambdas.size
    G = DoubledNumbers(np.zeros((r, r)))
    for k in range(Z.shape[0]):
        G = G + Z[k][:, None] * Z[k][None, :]
    A = DoubledNumbers(np.zeros((count, r, r))) + G[None]
    A = A + np.eye(r)[None] * lambdas[:, None, None]
    T = DoubledNumbers(np.zeros((count, r, rows.shape[0]))) + DoubledNumbers(rows.pair[0].T, rows.pair[1].T)[None]
    logarithms = np.zeros(count)
    for j in range(r):
        root = A[:, j, j].sqrt()
        logarithms += 2.0 * np.log(root.pair[0])
        T[:, j] = T[:, j] / root[:, None]
        below = A[:, j + 1 :, j] / root[:, None]
        A[:, j + 1 :, j + 1 :] = A[:, j + 1 :, j + 1 :] - below[:, :, None] * below[:, None, :]
        T[:, j + 1 :] = T[:, j + 1 :] - below[:, :, None] * T[:, j][:, None, :]
    return T, logarithms


def _fit(transform: DoubledNumbers, T: DoubledNumbers, Y: DoubledNumbers) -> DoubledNumbers:
    """Return transposed solutions times features times targets, for every lambda."""
    count, r, rows = transform.shape
    total = DoubledNumbers(np.zeros((count, rows, Y.shape[1])))
    for j in range(r):
        coordinate = (T[:, j][:, :, None] * Y[None]).sum(axis=1)
        total = total + transform[:, j][:, :, None] * coordinate[:, None, :]
    return total
