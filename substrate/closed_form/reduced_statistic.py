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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rows import EPS
from substrate.closed_form.eigen_features import EigenFeatures
from substrate.closed_form.kernel_rows import KernelRows
from substrate.namespaces import namespace_of
from substrate.threads import blas_threads

__all__ = ["LARGEST_ERROR", "Moments", "Origin", "Statistic", "accumulate", "origin_of"]

#: Estimated relative error up to which the sums of kernel values are transformed afterwards.
LARGEST_ERROR = 1e-8


@dataclass(frozen=True, slots=True)
class Origin:
    """What is taken off before anything is squared: a row of kernel values, and of targets; and the unit of targets."""

    kernel_values: Array
    targets: Array
    unit: float


@dataclass(frozen=True, slots=True)
class Moments:
    """Sums over rows, about an origin: of features, their products, targets, products with targets, their squares."""

    count: int
    first: Array
    second: Array
    targets: Array
    cross: Array
    squares: Array

    def __add__(self, other: "Moments") -> "Moments":
        return self._with(other, 1.0)

    def __sub__(self, other: "Moments") -> "Moments":
        return self._with(other, -1.0)

    def _with(self, other: "Moments", sign: float) -> "Moments":
        return Moments(
            self.count + int(sign) * other.count,
            self.first + sign * other.first,
            self.second + sign * other.second,
            self.targets + sign * other.targets,
            self.cross + sign * other.cross,
            self.squares + sign * other.squares,
        )

    def transformed(self, T: Array) -> "Moments":
        """The same of T'x instead of x."""
        return Moments(
            self.count, T.T @ self.first, T.T @ self.second @ T, self.targets, T.T @ self.cross, self.squares
        )

    def about(self, mean: Array, target: Array) -> "Moments":
        """The same about another origin."""
        first, targets = self.first - self.count * mean, self.targets - self.count * target
        second = self.second - self.first[:, None] * mean - mean[:, None] * first
        cross = self.cross - self.first[:, None] * target - mean[:, None] * targets
        squares = self.squares - target * (self.targets + targets)
        return Moments(self.count, first, second, targets, cross, namespace_of(squares).clip(squares, min=0.0))


@dataclass(frozen=True, slots=True)
class Statistic:
    """The moments of all rows and of every fold in feature coordinates, and how they were come by."""

    features: EigenFeatures
    origin: Origin
    total: Moments
    folds: tuple[Moments, ...]
    method: str
    error: float


def origin_of(K_basis: Array, Y: Array, unit: float) -> Origin:
    """The mean row of the basis stands for that of all rows; targets are centred exactly, a constant one to zero."""
    scaled, xp = Y / unit, namespace_of(Y)
    mean = xp.clip(xp.mean(scaled, axis=0), xp.min(scaled, axis=0), xp.max(scaled, axis=0))
    return Origin(xp.mean(K_basis, axis=0), mean, unit)


def accumulate(
    rows: KernelRows,
    Y: Array,
    features: EigenFeatures,
    origin: Origin,
    lam: float,
    folds: Sequence[Any] = (),
    method: str = "auto",
) -> Statistic:
    """One pass over all rows; ``lam`` is the smallest 1/gamma that the statistic must serve.

    ``method`` is ``"auto"``, ``"accumulated"`` or ``"row-wise"``.
    """
    labels = _labels(folds, rows.n_rows)
    with blas_threads(rows.n_basis):
        if method == "auto":
            expected = _expected_error(rows, features, origin, lam)
            method = "accumulated" if expected <= LARGEST_ERROR else "row-wise"
            if method == "accumulated":
                fast = _accumulated(rows, Y, features, origin, lam, labels, len(folds))
                if fast.error <= LARGEST_ERROR:
                    return fast
                method = "row-wise"  # the first rows were better behaved than all of them
        if method == "accumulated":
            return _accumulated(rows, Y, features, origin, lam, labels, len(folds))
        return _row_wise(rows, Y, features, origin, labels, len(folds))


def _row_wise(
    rows: KernelRows, Y: Array, features: EigenFeatures, origin: Origin, labels: Any, count: int
) -> Statistic:
    if not features.well_conditioned:
        total, parts = _sums(rows, Y, features.transform, origin, labels, count)
        return Statistic(features, origin, total, parts, "row-wise", EPS)
    Q, R = np.linalg.qr(features.transform.T)
    total, parts = _sums(rows, Y, np.asfortranarray(R.T), origin, labels, count, triangular=True)
    done = tuple(part.transformed(Q.T) for part in parts)
    return Statistic(features, origin, total.transformed(Q.T), done, "row-wise", EPS)


def _accumulated(
    rows: KernelRows, Y: Array, features: EigenFeatures, origin: Origin, lam: float, labels: Any, count: int
) -> Statistic:
    total, parts = _sums(rows, Y, None, origin, labels, count)
    error = _error(total.second, features, lam)
    done = tuple(part.transformed(features.transform) for part in parts)
    return Statistic(features, origin, total.transformed(features.transform), done, "accumulated", error)


def _labels(folds: Sequence[Any], n: int) -> Any:
    labels = np.full(n, -1, dtype=np.intp)
    for number, fold in enumerate(folds):
        labels[fold] = number
    return labels


def _expected_error(rows: KernelRows, features: EigenFeatures, origin: Origin, lam: float) -> float:
    """The estimate from rows spread over all of them."""
    some = np.linspace(0, rows.n_rows - 1, min(rows.n_rows, rows.step)).astype(np.intp)
    block = rows.taken(some) - origin.kernel_values
    return _error(rows.n_rows / some.size * (block.T @ block), features, lam)


def _error(second: Array, features: EigenFeatures, lam: float) -> float:
    """Rounding of the entries of the sum, as a random matrix, in the units of a_j + lambda."""
    if features.rank == 0:
        return EPS
    T = features.transform
    scatter = np.maximum(np.einsum("ij,ij->j", T, second @ T), 0.0)
    entry = float(np.sqrt(np.mean(np.square(second))))
    return EPS * float(np.sqrt(features.n_basis)) * entry / float((features.values * (scatter + lam)).min())


def _sums(
    rows: KernelRows, Y: Array, T: Array | None, origin: Origin, labels: Any, n_folds: int, triangular: bool = False
) -> tuple[Moments, tuple[Moments, ...]]:
    """Sums of kernel values, or of features where a transform is given; those of folds add up to those of all."""
    from scipy.linalg.blas import dtrmm

    size = rows.n_basis if T is None else T.shape[1]
    sums = [_Sums(size, Y.shape[1]) for _ in range(n_folds + 1)]
    for where, block in rows.blocks():
        block -= origin.kernel_values
        targets = Y[where] / origin.unit - origin.targets
        if triangular:
            features = dtrmm(1.0, T, block.T, lower=1, trans_a=1, overwrite_b=1).T
        else:
            features = block if T is None else block @ T
        if n_folds == 0:
            sums[0].add(features, targets)
            continue
        present = labels[where]
        for number in np.unique(present):
            members = present == number
            sums[number + 1].add(features[members], targets[members])  # rows in no fold come first
    moments = [one.moments() for one in sums]
    total = moments[0]
    for part in moments[1:]:
        total = total + part
    return total, tuple(moments[1:])


class _Sums:
    """Sums in the making: the second moments in one triangle."""

    def __init__(self, size: int, outputs: int) -> None:
        self.count = 0
        self.first, self.second = np.zeros(size), np.zeros((size, size), order="F")
        self.targets, self.cross, self.squares = np.zeros(outputs), np.zeros((size, outputs)), np.zeros(outputs)

    def add(self, features: Array, targets: Array) -> None:
        from scipy.linalg.blas import dsyrk

        self.count += features.shape[0]
        self.targets += targets.sum(axis=0)
        self.squares += np.square(targets).sum(axis=0)
        if self.first.size == 0:
            return
        both = features.T @ np.column_stack([np.ones(features.shape[0]), targets])
        self.first += both[:, 0]
        self.cross += both[:, 1:]
        self.second = dsyrk(1.0, features.T, beta=1.0, c=self.second, overwrite_c=1)

    def moments(self) -> Moments:
        upper = np.triu(self.second)
        second = upper + np.triu(upper, 1).T
        return Moments(self.count, self.first, second, self.targets, self.cross, self.squares)
