r"""Sums over rows, about an origin, in features of them: all that a fit on a reduced basis is computed from.

.. math:: l, \qquad \sum_i v_i z_i, \qquad \sum_i v_i z_i z_i^T, \qquad \sum_i v_i t_i, \qquad \sum_i v_i z_i t_i,
          \qquad \sum_i v_i t_i^2

Sums of parts add up to the sums of all rows, and the rows of a fold are left out by subtraction. Sums are where their
rows are, in numpy or on a device. There are two methods. *Accumulated*: sums of :math:`k_S(x_i) k_S(x_i)^T`,
transformed to features by T once at the end, for a third of the work; but rounding of the sums is magnified by the
squares of T. *Row-wise*: every block of rows is transformed first. The first is used where the magnified rounding,
relative to the :math:`a_j + \lambda` it is added to, is seen to be negligible in every direction.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from operator import add
from typing import Any, ClassVar

import numpy as np

from substrate.arrays import (
    Array,
    diagonal_of,
    is_device_array,
    namespace_of,
    on_device_of,
    strips,
    take_rows,
    to_numpy,
    zeros_beside,
)
from substrate.errors import DeclarationError
from substrate.numbers import ROUNDED_ONCE, matrix_noise
from substrate.reduced.features import Features
from substrate.reduced.rows import PART, KernelRows, RowValues
from substrate.streaming.passes import Tally
from substrate.streaming.rows import Block
from substrate.streaming.survey import TargetSummary
from substrate.threads import blas_threads

__all__ = ["Moments", "Origin", "Statistic", "accumulate", "fold_labels", "origin_of", "sum_moments"]

#: Estimated relative error up to which the sums of kernel values are transformed afterwards.
_LARGEST_ERROR = 1e-8


@dataclass(frozen=True, slots=True)
class Origin:
    """What is subtracted before squaring: a row of kernel values and one of targets; and the unit of the targets."""

    kernel_values: Array
    targets: Array
    unit: float


def origin_of(K_basis: Array, targets: TargetSummary, unit: float, free: int = 0) -> Origin:
    """Return the origin: the mean row of the basis approximates the mean of all rows; targets are centred exactly, a
    constant one to zero.

    ``free`` columns without a penalty follow the kernel values; they are measured from their center already.
    """
    xp = namespace_of(K_basis)
    mean = xp.mean(K_basis, axis=0)
    mean = xp.concat([mean, zeros_beside(mean, free)]) if free else mean
    return Origin(mean, on_device_of(K_basis, targets.means_in(unit)), unit)


@dataclass(frozen=True, slots=True)
class Moments(Tally):
    """Sums over rows, about an origin: of features, their products, targets, products with targets, their squares.

    Where rows have weights every sum but ``count`` is weighted, and ``mass`` is the sum of the weights.
    """

    count: int
    mass: float
    first: Array
    second: Array
    targets: Array
    cross: Array
    squares: Array

    @classmethod
    def of_rows(cls, features: Array, targets: Array, weights: Array | None) -> "Moments":
        """Return the sums of some rows; features may be overwritten."""
        xp, n = namespace_of(targets), int(targets.shape[0])
        roots = xp.ones_like(targets[:, 0])
        if weights is not None:  # sums of products: each factor is multiplied by the root of the weight
            roots = xp.sqrt(weights)
            features, targets = features * roots[:, None], targets * roots[:, None]
        beside = (xp.concat([roots[None, :], targets.T], axis=0) @ features).T
        return cls(
            count=n,
            mass=float(roots @ roots),
            first=beside[:, 0],
            second=_products(features),
            targets=roots @ targets,
            cross=beside[:, 1:],
            squares=xp.sum(targets * targets, axis=0),
        )

    def __sub__(self, other: "Moments") -> "Moments":
        names = [field.name for field in fields(self)]
        return Moments(*(getattr(self, name) - getattr(other, name) for name in names))

    def on_host(self) -> "Moments":
        """Return the same in numpy."""
        names = ("first", "second", "targets", "cross", "squares")
        arrays: dict[str, Any] = {name: to_numpy(getattr(self, name)) for name in names}
        return replace(self, **arrays)

    def transform(self, T: Array) -> "Moments":
        """Return the same for T'x instead of x."""
        return replace(self, first=T.T @ self.first, cross=T.T @ self.cross, second=T.T @ self.second @ T)

    def shift_to(self, mean: Array, target: Array) -> "Moments":
        """Return the same about another origin."""
        first, targets = self.first - self.mass * mean, self.targets - self.mass * target
        second = self.second - self.first[:, None] * mean - mean[:, None] * first
        cross = self.cross - self.first[:, None] * target - mean[:, None] * targets
        squares = namespace_of(targets).clip(self.squares - target * (self.targets + targets), min=0.0)
        return replace(self, first=first, second=second, targets=targets, cross=cross, squares=squares)


def _products(features: Array) -> Array:
    """Return the sum of the products of features, in numpy its upper triangle."""
    if is_device_array(features):
        second: Array = zeros_beside(features, (features.shape[1],) * 2)
        for rows in strips(int(features.shape[0]), PART):
            second += features[rows, :].T @ features[rows, :]
        return second
    if not features.size:
        return np.zeros((features.shape[1],) * 2)
    from scipy.linalg.blas import dsyrk

    return np.asarray(dsyrk(1.0, features.T))


@dataclass(frozen=True, slots=True)
class FoldMoments(Tally):
    """Sums over the rows in no fold, then over the rows of each fold."""

    combine: ClassVar[Mapping[str, Callable[[Any, Any], Any]]] = {
        "parts": lambda first, second: tuple(map(add, first, second))
    }

    parts: tuple[Moments, ...]

    def moments(self) -> tuple[Moments, tuple[Moments, ...]]:
        """Return the moments of all rows, and of each fold."""
        parts = [replace(part, second=_mirrored(part.second)) for part in self.parts]
        return sum(parts[1:], start=parts[0]), tuple(parts[1:])


def fold_labels(splits: Any, n: int) -> Any:
    """Return the number of the split that every row validates, -1 for none, or None without splits.

    Training must be all the others, since sums allow only that.
    """
    labels = np.full(n, -1, dtype=np.int32)
    for number, (train, valid) in enumerate(splits):
        if train.size + valid.size != n or (labels[valid] >= 0).any():
            raise DeclarationError(
                f"split {number} of cv is no fold: each row must validate once at most and train otherwise; use KFold, "
                "StratifiedKFold or GroupKFold"
            )
        labels[valid] = number
    return labels if (labels >= 0).any() else None


def sum_moments(values: RowValues, origin: Origin, transform: Array | None, folds: Any, block: Block) -> FoldMoments:
    """Return sums over a block of kernel values about an origin, or of features of them where a transform is given.

    ``folds`` are the labels of :func:`fold_labels`.
    """
    parts = dict[int, Moments]()
    for part, tile in values.of_block(block):
        tile -= origin.kernel_values
        features = tile if transform is None else tile @ transform
        targets = part.Y / origin.unit - origin.targets
        nothing = Moments.of_rows(features[:0, :], targets[:0, :], None)
        labels = None if folds is None else folds[part.rows]
        for number in (-1,) if labels is None else np.unique(labels):
            members: tuple[Any, ...] = features, targets, part.weights
            if labels is not None:
                of_fold = np.flatnonzero(labels == number)
                members = tuple(None if array is None else take_rows(array, of_fold) for array in members)
            parts[number] = parts.get(number, nothing) + Moments.of_rows(*members)
    count = 0 if folds is None else int(folds.max()) + 1
    return FoldMoments(tuple(parts.get(number, nothing) for number in range(-1, count)))


def _mirrored(upper: Array) -> Array:
    """Return a symmetric matrix from its upper triangle."""
    xp = namespace_of(upper)
    matrix: Array = xp.triu(upper) + xp.triu(upper, k=1).T
    return matrix


@dataclass(frozen=True, slots=True)
class Statistic:
    """The moments of all rows and of every fold in feature coordinates.

    Entries of the sums round by a share of the products of two ``lengths``, which are on the host.
    """

    features: Features
    origin: Origin
    total: Moments
    folds: tuple[Moments, ...]
    lengths: Array


def accumulate(rows: KernelRows, features: Features, origin: Origin, lam: float, folds: Any = None) -> Statistic:
    """Make one pass over all rows, or a second one where rounding needs it; ``lam`` is the smallest 1/gamma of use,
    zero where none is known.

    :equation [Cawley2004]_ (A.2): the sums over all rows that make up the system
    """
    if lam > 0.0:  # a range that ends nowhere needs the smallest rounding there is
        total, of_folds = rows.sums(sum_moments, origin, None, folds).moments()
        T = features.transform
        with blas_threads(features.n_basis):
            transformed = total.transform(T)
            scatter = namespace_of(T).linalg.diagonal(transformed.second)
            if _error(_entry(to_numpy(total.second)), to_numpy(scatter), features, lam) <= _LARGEST_ERROR:
                parts = tuple(fold.transform(T) for fold in of_folds)
                return Statistic(features, origin, transformed, parts, _lengths(total) @ np.abs(to_numpy(T)))
    total, of_folds = rows.sums(sum_moments, origin, features.transform, folds).moments()
    return Statistic(features, origin, total, of_folds, _lengths(total))


def _lengths(total: Moments) -> Array:
    """Return the lengths of the columns, on the host."""
    return np.asarray(np.sqrt(np.maximum(to_numpy(diagonal_of(total.second)), 0.0)))


def _entry(second: Array) -> float:
    """Return the root mean square of the entries of a sum."""
    largest = float(np.abs(second).max(initial=0.0)) or 1.0  # whose square may overflow
    return largest * math.sqrt(float(np.mean(np.square(second / largest)))) if second.size else 0.0


def _error(entry: float, scatter: Array, features: Features, lam: float) -> float:
    """Return the rounding of the entries of the sum, as a random matrix, in the units of a_j + lambda."""
    if features.rank == 0:
        return ROUNDED_ONCE
    lengths = np.square(to_numpy(features.transform)).sum(axis=0)
    with np.errstate(divide="ignore"):
        magnified = lengths / (np.maximum(scatter, 0.0) + lam)
    return matrix_noise(features.n_basis) * entry * float(magnified.max())
