r"""The sums over all rows in feature coordinates: of kernel values, transformed afterwards, or of features.

A fit depends on the rows only by sums whose size does not depend on l,

.. math:: l, \qquad \sum_i z_i, \qquad \sum_i z_i z_i^T, \qquad \sum_i t_i, \qquad \sum_i z_i t_i, \qquad \sum_i t_i^2

about a common centre, with the features :math:`z_i` of :mod:`~substrate.reduced.features`. Sums add and
subtract, so the rows of a fold are left out by subtraction.

There are two methods. *Accumulated*: sums of :math:`k_S(x_i) k_S(x_i)^T`, transformed by :math:`T = V s^{-1/2}` once at
the end; a third of the work, but rounding of the sums is magnified by :math:`1/s`. *Row-wise*: every block of rows is
transformed to features first. The first is used where the magnified rounding, relative to the :math:`a_j + \lambda` it
is added to, is estimated below 1e-8 in every direction; a fit at one gamma to many rows accepts more, corrects what it
solves by the errors of the rows, and lets the bound on its answer decide. The record states the method. Where
:math:`K_{SS}` is well conditioned the triangular factor of T is applied to the rows, for half the work, and the
remaining rotation once.

The origin is subtracted from every tile before squaring, unless the kernel is so narrow that sums about zero have
digits to spare. On a device, where that is one more pass through memory, it is subtracted from the sums instead, unless
the squares of the kernel values are mostly those of their means.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import ROUNDED_ONCE, matrix_noise
from substrate.namespaces import namespace_of, paired_sums
from substrate.reduced.features import EigenFeatures
from substrate.reduced.folds import Folds
from substrate.reduced.moments import FoldSums, Moments, MomentsOfLeaf, Origin, RowWeights
from substrate.reduced.rows import KernelRows
from substrate.reduced.summed_errors import KernelSums
from substrate.streaming.source import LEAF
from substrate.threads import blas_threads

__all__ = ["LARGEST_ERROR", "Statistic", "accepted_error", "accumulate", "spread_rows"]

#: Estimated relative error up to which the sums of kernel values are transformed afterwards.
LARGEST_ERROR = 1e-8

#: The same where one gamma is solved for, and the bound on its answer decides. Leverages, which nothing corrects, were
#: found right to a thousandth of the estimate.
_LARGEST_OF_ONE = 5e-7

#: Number of rows for the estimate.
_SPREAD = 2048

#: The rows among them whose kernel values are computed for it, in numpy.
_ESTIMATED = 128

#: Remaining share of the squares of kernel values about the origin, below which it is subtracted first.
_MOSTLY_MEAN = 1.0 / 16.0

#: The same in numpy, where sums about zero must have digits to spare besides: an error of at most so much.
_HARDLY_MEAN, _NARROW = 1.0 / 4.0, 5e-10


@dataclass(frozen=True, slots=True)
class Statistic:
    """The moments of all rows and of every fold in feature coordinates, and how they were obtained."""

    features: EigenFeatures
    origin: Origin
    total: Moments
    folds: tuple[Moments, ...]
    method: str
    error: float
    #: Of all rows, where the pass that certifies would have to read its tiles again for them.
    kernel_squares: float | None = None
    #: The sums of kernel values with what a certificate needs of them, where that was asked for.
    sums: KernelSums | None = None
    #: Of sums of kernel values: the norm of those of every basis vector, which their rounding is relative to.
    columns: Array | None = None


def accumulate(
    rows: KernelRows,
    features: EigenFeatures,
    origin: Origin,
    lam: float,
    folds: Folds | None = None,
    method: str = "auto",
    numbers: Any = None,
    weights: RowWeights | None = None,
    largest: float = LARGEST_ERROR,
) -> Statistic:
    """Make one pass over all rows; ``lam`` is the smallest 1/gamma for which the statistic is used.

    ``method`` is ``"auto"``, ``"accumulated"`` or ``"row-wise"``; ``some`` are the :func:`spread_rows`, if available.
    With ``weights`` all sums are weighted. ``largest`` is the error up to which sums of kernel values are accepted.

    :equation [Cawley2004]_ (A.2): the sums over all rows that make up the system
    """
    first, accumulated = True, method == "accumulated"
    if method == "auto" or (accumulated and rows.on_device):
        first, expected = _estimate_error(rows, features, origin, lam, numbers)
    if accumulated or (method == "auto" and expected <= largest):
        is_on_host, about = not rows.on_device, origin
        if is_on_host and not first:  # then the sums are about zero, and so are their bounds
            about = replace(origin, kernel_values=0.0 * origin.kernel_values)
        function = MomentsOfLeaf(
            values=rows.values, origin=about, folds=folds, weights=weights, about=first, certifying=is_on_host
        )
        sums = rows.sums(function, "sums of kernel values")
        fast = _in_features(sums, rows, features, about, lam, folds, first or is_on_host)
        if accumulated or fast.error <= largest:
            return fast  # else the estimate from some rows was too optimistic
    return _row_wise(rows, features, origin, folds, weights)


def accepted_error(n_rows: int) -> float:
    """Return the error of the sums with which a fit at one gamma is tried: larger where a pass over the rows takes
    time.
    """
    return LARGEST_ERROR if n_rows < LEAF else _LARGEST_OF_ONE


def _row_wise(
    rows: KernelRows, features: EigenFeatures, origin: Origin, folds: Folds | None, weights: RowWeights | None
) -> Statistic:
    if rows.on_device or not features.is_well_conditioned:
        function = MomentsOfLeaf(
            values=rows.values, origin=origin, transform=features.transform, folds=folds, weights=weights
        )
        total, fold_moments = rows.sums(function, "sums of features").moments()
        return Statistic(
            features=features, origin=origin, total=total, folds=fold_moments, method="row-wise", error=ROUNDED_ONCE
        )
    with blas_threads(features.n_basis):
        Q, R = np.linalg.qr(features.transform.T)
    function = MomentsOfLeaf(
        values=rows.values,
        origin=origin,
        transform=np.asfortranarray(R.T),
        triangular=True,
        folds=folds,
        weights=weights,
    )
    total, fold_moments = rows.sums(function, "sums of features").moments()
    with blas_threads(features.n_basis):
        transformed = tuple(fold.transform(Q.T) for fold in fold_moments)
        return Statistic(
            features=features,
            origin=origin,
            total=total.transform(Q.T),
            folds=transformed,
            method="row-wise",
            error=ROUNDED_ONCE,
        )


def _in_features(
    fold_sums: FoldSums,
    rows: KernelRows,
    features: EigenFeatures,
    origin: Origin,
    lam: float,
    folds: Folds | None,
    first: bool,
) -> Statistic:
    """Return the sums of kernel values in feature coordinates; ``first`` states that they are about the origin."""
    total, fold_moments = fold_sums.moments()
    T, o = features.transform, origin.kernel_values
    squares, sums = None, None
    if not rows.on_device:
        more = 0 if folds is None else 1 + folds.count  # sums of folds are added up
        sums = KernelSums(
            moments=total,
            origin=origin,
            probed=fold_sums.probe_sums,
            seen=fold_sums.seen,
            terms=rows.product_terms + more,
            long=rows.terms + more,
        )
        columns = sums.lengths
    else:
        squares = _kernel_squares(total, o if first else 0.0 * o)
        columns = _lengths_on_device(total, 0.0 * o if first else o)
    with blas_threads(features.n_basis):
        entry = _entry(total.second)
        scatter = None if first else paired_sums(T, total.second @ T, 0)
        if not first:
            total, fold_moments = (
                total.shift_to(o, 0.0 * origin.targets),
                tuple(fold.shift_to(o, 0.0 * origin.targets) for fold in fold_moments),
            )
        total_in_features, folds_in_features = total.transform(T), tuple(fold.transform(T) for fold in fold_moments)
        diagonal = (
            namespace_of(total_in_features.second).linalg.diagonal(total_in_features.second)
            if scatter is None
            else scatter
        )
        error = _error(entry, diagonal, features, lam)
        return Statistic(
            features=features,
            origin=origin,
            total=total_in_features,
            folds=folds_in_features,
            method="accumulated",
            error=error,
            kernel_squares=squares,
            sums=sums,
            columns=columns,
        )


def _lengths_on_device(total: Moments, origin: Array) -> Array:
    """Return the norm of the kernel values of every basis vector, with that of an origin which is subtracted from the
    sums.

    No term of the sums about the origin is larger than the product of two of these. The rounding of the first sums then
    enters by the origin too, which is half as much again, below 1.25 squared.
    """
    xp = namespace_of(origin)
    squares = xp.clip(xp.linalg.diagonal(total.second), min=0.0)
    lengths: Array = 1.25 * (xp.sqrt(squares) + math.sqrt(total.mass) * xp.abs(origin))
    return lengths


def _kernel_squares(total: Moments, origin: Array) -> float:
    """Return the squares of all kernel values from their sums about an origin."""
    xp = namespace_of(origin)
    shifted = 2.0 * xp.sum(origin * total.first) + total.mass * xp.sum(origin * origin)
    return max(float(xp.linalg.trace(total.second) + shifted), 0.0)


def spread_rows(n: int) -> Any:
    """Return numbers of rows spread over all of them, by which the method of summation is chosen."""
    return np.linspace(0, n - 1, min(n, _SPREAD)).astype(np.intp)


def _estimate_error(
    rows: KernelRows, features: EigenFeatures, origin: Origin, lam: float, numbers: Any
) -> tuple[bool, float]:
    """Return whether the origin is subtracted first, and the error of the sums then, from rows spread over all of
    them.
    """
    X = rows.source.take_rows(spread_rows(rows.n_rows)) if numbers is None else numbers
    T, many = features.transform, rows.n_rows
    with blas_threads(features.n_basis):
        if not rows.on_device:
            values = rows.values.matrix(X[:: -(-X.shape[0] // _ESTIMATED)])
            block = values - origin.kernel_values
            if _squares(block) >= _HARDLY_MEAN * _squares(values):
                expected = _expected_here(values, features, lam, many)
                if expected <= _NARROW:
                    return False, expected
            return True, _expected_here(block, features, lam, many)
        values = rows.values.matrix(X)
        block = values - origin.kernel_values
        first = _squares(block) < _MOSTLY_MEAN * _squares(values)
        block = block if first else values
        second = many / block.shape[0] * (block.T @ block)
        return first, _error(_entry(second), paired_sums(T, second @ T, 0), features, lam)


def _expected_here(block: Array, features: EigenFeatures, lam: float, many: int) -> float:
    """Return the error of sums in numpy, from the kernel values of some rows."""
    share, large = many / block.shape[0], block.shape[0] >= features.n_basis
    # B'B and BB' have the same norm
    entry = _entry(block.T @ block if large else block @ block.T) * share
    entry *= 1.0 if large else block.shape[0] / features.n_basis
    return _error(entry, share * np.square(block @ features.transform).sum(axis=0), features, lam)


def _squares(values: Array) -> float:
    return float(namespace_of(values).sum(values * values))


def _entry(second: Array) -> float:
    """Return the root mean square of the entries of a sum."""
    xp = namespace_of(second)
    largest = float(xp.max(xp.abs(second))) or 1.0  # whose square may overflow
    scaled = second / largest
    return largest * math.sqrt(float(xp.mean(scaled * scaled)))


def _error(entry: float, scatter: Array, features: EigenFeatures, lam: float) -> float:
    """Return the rounding of the entries of the sum, as a random matrix, in the units of a_j + lambda."""
    if features.rank == 0:
        return ROUNDED_ONCE
    xp = namespace_of(scatter)
    least = float(xp.min(features.values * (xp.clip(scatter, min=0.0) + lam)))
    return matrix_noise(features.n_basis) * entry / least
