r"""Features of a reduced basis, and sums over rows of them: all that a fit on a reduced basis is computed from.

.. math:: l, \qquad \sum_i v_i z_i, \qquad \sum_i v_i z_i z_i^T, \qquad \sum_i v_i t_i, \qquad \sum_i v_i z_i t_i,
          \qquad \sum_i v_i t_i^2

Sums of parts add up to the sums of all rows, and the rows of a fold are left out by subtraction. Sums are where their
rows are, in numpy or on a device. There are two methods. *Accumulated*: sums of :math:`k_S(x_i) k_S(x_i)^T`,
transformed to features by T once at the end, for a third of the work; but rounding of the sums is magnified by the
squares of T. *Row-wise*: every block of rows is transformed first. The first is used where the magnified rounding,
relative to the :math:`a_j + \lambda` it is added to, is seen to be negligible in every direction.

The features are

.. math:: K_{SS} = L L^T, \qquad z(x) = L^{-1} k_S(x)

coordinates of the projection of :math:`\varphi(x)` on the span of the basis, so
:math:`w = \sum_j \beta_j \varphi(z_j)` has :math:`w^T w = u^T u` and :math:`f(x) = u^T z(x) + b` with
:math:`\beta = L^{-T} u`. Vectors that double precision cannot tell from combinations of the others are found by pivots
and left out: nothing is singular, whereas the system printed in [Cawley2002]_ is as soon as two inputs agree, or, to
working precision, for every smooth kernel.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from operator import add
from typing import Any, ClassVar

import numpy as np

from substrate.arrays import (
    Array,
    blas_threads,
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
from substrate.numbers import random_rounding
from substrate.operators.kernel_rows import PART, KernelRows, KernelValues, LinearColumns, RowValues
from substrate.operators.passes import Tally, TargetSummary
from substrate.operators.sources import Block

__all__ = [
    "Features",
    "LinearFeatures",
    "Moments",
    "Origin",
    "Statistic",
    "accumulate",
    "basis_features",
    "fold_labels",
    "independent_vectors",
    "origin_of",
    "reconstruction_errors",
    "sum_moments",
]

#: Least squared distance of a vector from the span of the others, as a share of the largest k(z, z).
_INDEPENDENT = 1e-9


@dataclass(frozen=True, slots=True)
class Features:
    """``transform`` is T = L^{-T}, n x r, with lines of zeros for the vectors that are left out.

    ``linear`` has the sizes of columns that follow the kernel values of a row and are not penalised, None if only a
    bias is not penalised: ``transform`` makes features of both, in the same order, see :meth:`beside`.
    """

    transform: Array
    linear: Array | None = None

    @property
    def n_basis(self) -> int:
        """n."""
        return int(self.transform.shape[0])

    @property
    def rank(self) -> int:
        """r."""
        return int(self.transform.shape[1])

    @property
    def free(self) -> int:
        """The number of features that are not penalised, the last ones."""
        return 0 if self.linear is None else int(self.linear.shape[0])

    def beside(self, linear: "LinearColumns | None") -> "Features":
        """Return the same features, followed by the features of columns that are not penalised."""
        if linear is None:
            return self
        xp, turn = namespace_of(self.transform), on_device_of(self.transform, linear.turn)
        (n, r), k = self.transform.shape, turn.shape[0]
        above = xp.concat([self.transform, zeros_beside(self.transform, (n, k))], axis=1)
        below = xp.concat([zeros_beside(self.transform, (k, r)), turn], axis=1)
        return Features(xp.concat([above, below], axis=0), on_device_of(self.transform, linear.sizes))

    @property
    def of_kernel(self) -> "Features":
        """The features of the kernel values alone."""
        m, r = self.n_basis - self.free, self.rank - self.free
        return Features(self.transform[:m, :r])

    def ridges(self, lam: float) -> Any:
        """Return the diagonal of the penalty: lambda, and zeros for what is not penalised."""
        if self.linear is None:
            return lam
        xp = namespace_of(self.linear)
        return xp.concat([xp.full_like(self.transform[0, : self.rank - self.free], lam), xp.zeros_like(self.linear)])

    def coefficients(self, weights: Array) -> Array:
        """Return beta from the weights u."""
        coefficients: Array = self.transform @ weights
        return coefficients


def independent_vectors(K: Array) -> Any:
    """Return the numbers of the vectors that double precision can tell from combinations of the others.

    K is their kernel matrix. The pivoted Cholesky factorisation stops where no vector is left at a distance from the
    span of those before it. Without pivots every vector can have its distance and a later order still find none.
    """
    from scipy.linalg.lapack import dpstrf

    largest = float(K.diagonal().max(initial=0.0))
    if not largest > 0.0:
        return np.zeros(0, dtype=np.intp)
    _, pivots, rank, _ = dpstrf(K, tol=_INDEPENDENT * largest, lower=1)
    return np.asarray(np.sort(pivots[:rank] - 1))


def basis_features(K: Any, kept: Any = None) -> Features:
    """Return the features of a basis from its kernel matrix; ``kept`` are vectors that can be told apart, if known."""
    from scipy.linalg.lapack import dpstrf, dtrtri

    host = to_numpy(K)
    numbers = independent_vectors(host) if kept is None else kept
    with blas_threads(host.shape[0]):
        # the furthest vector next: coefficients of features, which magnify rounding, are smallest in this order
        factor, pivots, rank, _ = dpstrf(host[np.ix_(numbers, numbers)], tol=0.0, lower=1)
        inverse = dtrtri(np.tril(factor[:rank, :rank]), lower=1)[0]
    transform = np.zeros((host.shape[0], rank))
    transform[numbers[pivots[:rank] - 1]] = inverse.T
    return Features(on_device_of(K, transform))


def reconstruction_errors(rows: Array, diagonal: Array, features: Features) -> Array:
    r"""Return the relative errors :math:`\delta_i = 1 - \|z(x_i)\|^2 / k_{ii}` of [Cawley2004]_ eq. (4), row by row.

    :equation [Cawley2004]_ (4): the relative error of reconstruction in feature space
    """
    xp = namespace_of(rows)
    explained = xp.sum((rows @ features.transform) ** 2, axis=1)
    positive = diagonal > 0.0
    errors = 1.0 - explained / xp.where(positive, diagonal, xp.ones_like(diagonal))
    clipped: Array = xp.clip(xp.where(positive, errors, xp.zeros_like(errors)), min=0.0, max=1.0)
    return clipped


@dataclass(frozen=True, slots=True)
class LinearFeatures(RowValues):
    """Linear functions of kernel values about an origin: T'(k_S(x) - o) - m, with m zero where no mean is given."""

    values: RowValues
    origin: Array
    transform: Array
    mean: Array | None = None

    @property
    def n_basis(self) -> int:
        """The number of features of a row."""
        return int(self.transform.shape[1])

    def __call__(self, X: Any) -> Array:
        """Return the features of rows."""
        values = self.values(X)
        values -= self.origin
        features: Array = values @ self.transform
        return features if self.mean is None else features - self.mean

    @property
    def step(self) -> int:
        """Rows of a tile of kernel values."""
        return self.values.step


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
    """Sums over the rows in no fold, then over the rows of each fold.

    ``diagonal`` is the sum of v k(x, x) over all rows, and ``rounding`` the largest relative error of a kernel value.
    """

    combine: ClassVar[Mapping[str, Callable[[Any, Any], Any]]] = {
        "parts": lambda first, second: tuple(map(add, first, second)),
        "rounding": max,
    }

    parts: tuple[Moments, ...]
    diagonal: float
    rounding: float

    def moments(self) -> tuple[Moments, tuple[Moments, ...]]:
        """Return the moments of all rows, and of each fold."""
        xp = namespace_of(self.parts[0].second)
        upper = [xp.triu(part.second) for part in self.parts]  # of symmetric matrices
        lower = [xp.triu(part.second, k=1).T for part in self.parts]
        parts = [replace(part, second=u + w) for part, u, w in zip(self.parts, upper, lower, strict=True)]
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


def sum_moments(values: KernelValues, origin: Origin, transform: Array | None, folds: Any, block: Block) -> FoldMoments:
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
    in_order = tuple(parts.get(number, nothing) for number in range(-1, count))
    return FoldMoments(in_order, values.sum_diagonal(block), values.rounding(block.X))


@dataclass(frozen=True, slots=True)
class Statistic:
    """The moments of all rows and of every fold in feature coordinates.

    Entries of the sums round by a share of the products of two ``lengths``, which are on the host. ``diagonal`` and
    ``rounding`` are as in ``FoldMoments``.
    """

    features: Features
    origin: Origin
    total: Moments
    folds: tuple[Moments, ...]
    lengths: Array
    diagonal: float
    rounding: float


def accumulate(rows: KernelRows, features: Features, origin: Origin, lam: float, folds: Any = None) -> Statistic:
    """Make one pass over all rows, or a second one where rounding needs it; ``lam`` is the smallest 1/gamma of use,
    zero where none is known.

    :equation [Cawley2004]_ (A.2): the sums over all rows that make up the system
    """
    if lam > 0.0:  # a range that ends nowhere needs the smallest rounding there is
        sums: FoldMoments = rows.sums(sum_moments, origin, None, folds)
        total, of_folds = sums.moments()
        T = features.transform
        with blas_threads(features.n_basis):
            transformed = total.transform(T)
            scatter, second = to_numpy(diagonal_of(transformed.second)), to_numpy(total.second)
            # the rounding of the entries of the sum, as a random matrix, in the units of a_j + lambda
            largest = float(np.abs(second).max(initial=0.0)) or 1.0  # whose square may overflow
            entry = largest * float(np.linalg.norm(second / largest)) / max(features.n_basis, 1)
            with np.errstate(divide="ignore"):
                magnified = np.square(to_numpy(T)).sum(axis=0) / (np.maximum(scatter, 0.0) + lam)
            error = 0.25 * random_rounding(features.n_basis) * entry * float(magnified.max(initial=0.0))
            if error <= _LARGEST_ERROR:
                parts = tuple(fold.transform(T) for fold in of_folds)
                lengths = _lengths(total) @ np.abs(to_numpy(T))
                return Statistic(features, origin, transformed, parts, lengths, sums.diagonal, sums.rounding)
    sums = rows.sums(sum_moments, origin, features.transform, folds)
    total, of_folds = sums.moments()
    return Statistic(features, origin, total, of_folds, _lengths(total), sums.diagonal, sums.rounding)


def _lengths(total: Moments) -> Array:
    """Return the lengths of the columns, on the host."""
    return np.asarray(np.sqrt(np.maximum(to_numpy(diagonal_of(total.second)), 0.0)))
