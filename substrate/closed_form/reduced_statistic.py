r"""Everything a reduced-basis LS-SVM needs to know of its rows: sums over them, of a size that l does not change.

.. math:: l, \qquad \sum_i z_i, \qquad \sum_i z_i z_i^T, \qquad \sum_i t_i, \qquad \sum_i z_i t_i, \qquad \sum_i t_i^2

about a common centre, with the features :math:`z_i` of :mod:`~substrate.closed_form.eigen_features`. Sums add and
subtract, so the rows of a fold are left out by subtraction.

Two ways to them. *Accumulated*: sums of :math:`k_S(x_i) k_S(x_i)^T`, transformed by :math:`T = V s^{-1/2}` once at the
end; a third of the work, but rounding of the sums is magnified by :math:`1/s`. *Row-wise*: every block of rows becomes
features first. The first is taken where the magnified rounding, against the :math:`a_j + \lambda` it is added to, is
estimated below 1e-8 in every direction; which one was taken is on record. Where :math:`K_{SS}` is well conditioned the
transform of a row is applied as the triangular factor of T, for half the work, and the rotation that is left once.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rows import EPS
from substrate.closed_form.eigen_features import EigenFeatures
from substrate.closed_form.fold_labels import Folds
from substrate.closed_form.kernel_rows import KernelRows
from substrate.closed_form.moment_sums import MomentsOfLeaf, RowWeights
from substrate.closed_form.moments import Moments, Origin
from substrate.threads import blas_threads

__all__ = ["LARGEST_ERROR", "Statistic", "accumulate", "spread_rows"]

#: Estimated relative error up to which the sums of kernel values are transformed afterwards.
LARGEST_ERROR = 1e-8
#: Rows that the estimate is made from.
_SPREAD = 2048


@dataclass(frozen=True, slots=True)
class Statistic:
    """The moments of all rows and of every fold in feature coordinates, and how they were come by."""

    features: EigenFeatures
    origin: Origin
    total: Moments
    folds: tuple[Moments, ...]
    method: str
    error: float
    #: Of all rows, where the sums had them for nothing.
    kernel_squares: float | None = None


def accumulate(
    rows: KernelRows,
    features: EigenFeatures,
    origin: Origin,
    lam: float,
    folds: Folds | None = None,
    method: str = "auto",
    some: Any = None,
    weights: RowWeights | None = None,
) -> Statistic:
    """One pass over all rows; ``lam`` is the smallest 1/gamma that the statistic must serve.

    ``method`` is ``"auto"``, ``"accumulated"`` or ``"row-wise"``; ``some`` are the :func:`spread_rows`, if at hand.
    With ``weights`` all sums are weighted.

    :equation [Cawley2004]_ (A.2): the sums over all rows that make up the system
    """
    if method == "auto":
        expected = _expected_error(rows, features, origin, lam, some)
        method = "accumulated" if expected <= LARGEST_ERROR else "row-wise"
        if method == "accumulated":
            fast = _accumulated(rows, features, origin, lam, folds, weights)
            if fast.error <= LARGEST_ERROR:
                return fast
            method = "row-wise"  # the rows looked at were better behaved than all of them
    if method == "accumulated":
        return _accumulated(rows, features, origin, lam, folds, weights)
    return _row_wise(rows, features, origin, folds, weights)


def _row_wise(
    rows: KernelRows, features: EigenFeatures, origin: Origin, folds: Folds | None, weights: RowWeights | None
) -> Statistic:
    if not features.well_conditioned:
        function = MomentsOfLeaf(rows.values, origin, features.transform, folds=folds, weights=weights)
        total, parts = rows.sums(function, "sums of features").moments()
        return Statistic(features, origin, total, parts, "row-wise", EPS)
    with blas_threads(features.n_basis):
        Q, R = np.linalg.qr(features.transform.T)
    function = MomentsOfLeaf(rows.values, origin, np.asfortranarray(R.T), triangular=True, folds=folds, weights=weights)
    total, parts = rows.sums(function, "sums of features").moments()
    with blas_threads(features.n_basis):
        done = tuple(part.transformed(Q.T) for part in parts)
        return Statistic(features, origin, total.transformed(Q.T), done, "row-wise", EPS)


def _accumulated(
    rows: KernelRows,
    features: EigenFeatures,
    origin: Origin,
    lam: float,
    folds: Folds | None,
    weights: RowWeights | None,
) -> Statistic:
    function = MomentsOfLeaf(rows.values, origin, folds=folds, weights=weights)
    total, parts = rows.sums(function, "sums of kernel values").moments()
    with blas_threads(features.n_basis):
        error = _error(total.second, features, lam)
        done = tuple(part.transformed(features.transform) for part in parts)
        return Statistic(features, origin, total.transformed(features.transform), done, "accumulated", error)


def spread_rows(n: int) -> Any:
    """Numbers of rows spread over all of them, by which the way to the sums is chosen."""
    return np.linspace(0, n - 1, min(n, _SPREAD)).astype(np.intp)


def _expected_error(rows: KernelRows, features: EigenFeatures, origin: Origin, lam: float, some: Any) -> float:
    """The estimate from rows spread over all of them."""
    X = rows.source.taken(spread_rows(rows.n_rows)) if some is None else some
    with blas_threads(features.n_basis):
        block = rows.values.matrix(X) - origin.kernel_values
        return _error(rows.n_rows / block.shape[0] * (block.T @ block), features, lam)


def _error(second: Array, features: EigenFeatures, lam: float) -> float:
    """Rounding of the entries of the sum, as a random matrix, in the units of a_j + lambda."""
    if features.rank == 0:
        return EPS
    T = features.transform
    scatter = np.maximum(np.einsum("ij,ij->j", T, second @ T), 0.0)
    largest = float(np.abs(second).max()) or 1.0  # whose square may overflow
    entry = largest * float(np.sqrt(np.mean(np.square(second / largest))))
    return EPS * float(np.sqrt(features.n_basis)) * entry / float((features.values * (scatter + lam)).min())
