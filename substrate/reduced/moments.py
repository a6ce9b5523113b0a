r"""Sums over rows, about an origin: their arithmetic, and the function of a leaf that computes them.

.. math:: l, \qquad \sum_i z_i, \qquad \sum_i z_i z_i^T, \qquad \sum_i t_i, \qquad \sum_i z_i t_i, \qquad \sum_i t_i^2

Sums of parts add up to those of all, and the rows of a part are left out by subtraction. Sums are where their rows are,
in numpy or on a device.

Every fit on a reduced basis is computed from these sums. Rows become kernel values about the origin, and, where a
transform is given, features, whose products :mod:`~substrate.reduced.row_products` adds up, wherever the rows are
stored.

A pass for a certificate also adds what :mod:`~substrate.reduced.summed_errors` needs: bounds on the kernel values, and,
against errors in the products themselves, :math:`\sum_i z_i (z_i^T w)` for one fixed w, which must be the sum of the
products times w ([Freivalds1979]_).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import numpy as np

from substrate.arrays import Array, is_sparse
from substrate.namespaces import is_device_array, multiply_rows, namespace_of, on_device_of, take_rows, zeros_beside
from substrate.reduced.features import product
from substrate.reduced.folds import Folds
from substrate.reduced.row_products import product_sums
from substrate.reduced.rows import RowValues, Seen
from substrate.streaming.source import Block
from substrate.streaming.survey import TargetSummary
from substrate.streaming.tally import Tally, add_in_pairs

__all__ = [
    "FoldSums",
    "Moments",
    "MomentsOfLeaf",
    "Origin",
    "RowWeights",
    "Sums",
    "origin_of",
    "probe",
    "weights_of_tile",
]


@dataclass(frozen=True, slots=True)
class Origin:
    """What is subtracted before squaring: a row of kernel values and one of targets; and the unit of the targets."""

    kernel_values: Array
    targets: Array
    unit: float


@dataclass(frozen=True, slots=True)
class Moments(Tally):
    """Sums over rows, about an origin: of features, their products, targets, products with targets, their squares.

    Where rows have weights every sum but ``count`` is weighted, and ``mass`` is the sum of the weights.
    """

    count: int
    first: Array
    second: Array
    targets: Array
    cross: Array
    squares: Array
    mass: float

    def transform(self, T: Array) -> "Moments":
        """Return the same for T'x instead of x."""
        first, cross, second = T.T @ self.first, T.T @ self.cross, product(product(T.T, self.second), T)
        return Moments(
            count=self.count,
            first=first,
            second=second,
            targets=self.targets,
            cross=cross,
            squares=self.squares,
            mass=self.mass,
        )

    def shift_to(self, mean: Array, target: Array) -> "Moments":
        """Return the same about another origin."""
        first, targets = self.first - self.mass * mean, self.targets - self.mass * target
        second = self.second - self.first[:, None] * mean - mean[:, None] * first
        cross = self.cross - self.first[:, None] * target - mean[:, None] * targets
        squares = self.squares - target * (self.targets + targets)
        above = namespace_of(squares).clip(squares, min=0.0)
        return Moments(
            count=self.count, first=first, second=second, targets=targets, cross=cross, squares=above, mass=self.mass
        )


def origin_of(K_basis: Array, targets: TargetSummary, unit: float, free: int = 0) -> Origin:
    """Return the origin: the mean row of the basis approximates that of all rows; targets are centred exactly, a
    constant one to zero.

    ``free`` columns without a penalty follow the kernel values; they are measured from their center already.
    """
    xp = namespace_of(K_basis)
    mean = xp.mean(K_basis, axis=0)
    mean = xp.concat([mean, zeros_beside(mean, free)]) if free else mean
    return Origin(mean, on_device_of(K_basis, targets.means_in(unit)), unit)


class RowWeights(Protocol):
    """Weights of rows from their kernel values and their targets in some unit."""

    def __call__(self, tile: Array, targets: Array) -> Array:
        """Return one weight per row."""


def weights_of_tile(block: Block, rows: slice, tile: Array, targets: Array, robust: RowWeights | None) -> Array | None:
    """Return the weights given for the rows of a tile, times those that are found from their errors; None: all are
    one.
    """
    weights: Array | None = None if block.weights is None else block.weights[rows]
    if robust is None:
        return weights
    return robust(tile, targets) if weights is None else weights * robust(tile, targets)


def probe(size: int) -> Array:
    """Return the vector w by which sums of products are checked: pseudo-random, of either sign, none near zero."""
    turns = np.modf(np.arange(1, size + 1) * 0.6180339887498949)[0] - 0.5
    return np.asarray(np.where(turns < 0.0, turns - 0.5, turns + 0.5))


@dataclass(frozen=True, slots=True)
class Sums(Tally):
    """Moments, the second ones in the upper triangle only; ``probed`` are sums of products times the probe."""

    count: int
    first: Array
    second: Array
    targets: Array
    cross: Array
    squares: Array
    mass: float
    probed: Array

    def moments(self) -> Moments:
        """Return the moments with both triangles."""
        xp = namespace_of(self.second)
        upper = xp.triu(self.second)
        second = upper + xp.triu(upper, k=1).T
        return Moments(
            count=self.count,
            first=self.first,
            second=second,
            targets=self.targets,
            cross=self.cross,
            squares=self.squares,
            mass=self.mass,
        )


@dataclass(frozen=True, slots=True)
class FoldSums(Tally):
    """Sums over the rows in no fold, then over those of each fold."""

    parts: Annotated[tuple[Sums, ...], add_in_pairs]
    seen: Seen

    @property
    def probe_sums(self) -> Array:
        """Sums of products with the probe, of all rows."""
        return sum((fold.probed for fold in self.parts[1:]), start=self.parts[0].probed)

    def moments(self) -> tuple[Moments, tuple[Moments, ...]]:
        """Return the moments of all rows, and of each fold."""
        moments = [fold.moments() for fold in self.parts]
        total = moments[0]
        for fold in moments[1:]:
            total = total + fold
        return total, tuple(moments[1:])


class _Observations:
    """What is seen of the kernel values of a leaf; one row of every tile is computed again, all of them at the end."""

    def __init__(self, values: RowValues) -> None:
        self.values, self.diagonal, self.rounding = values, 0.0, 0.0
        self.points: list[Any] = []
        self.rows: list[Array] = []

    def add_block(self, block: Block) -> None:
        self.rounding = max(self.rounding, self.values.rounding(block.X))

    def add_tile(self, block: Block, rows: slice, tile: Array, weights: Array | None) -> None:
        X, row = block.X[rows], tile.shape[0] // 2
        self.diagonal += self.values.lengths(Block(X, None, block.start + rows.start), weights)
        self.points.append(X[row : row + 1])
        self.rows.append(tile[row : row + 1].copy())

    def finish(self) -> Seen:
        if not self.rows:
            return Seen()
        if is_sparse(self.points[0]):
            from scipy.sparse import vstack

            points = vstack(self.points).tocsr()
        else:
            points = np.concatenate(self.points)
        return Seen(self.diagonal, self.rounding, self.values.deviation(points, np.concatenate(self.rows)))


@dataclass(frozen=True, slots=True)
class MomentsOfLeaf:
    """Sums of kernel values, or of features where a transform is given, which may be lower ``triangular``.

    ``about`` states that the origin is subtracted from kernel values; otherwise it is subtracted from the sums.
    ``certifying`` states that what a certificate needs is computed too; rows are numpy's then.
    """

    values: RowValues
    origin: Origin
    transform: Array | None = None
    triangular: bool = False
    folds: Folds | None = None
    weights: RowWeights | None = None
    about: bool = True
    certifying: bool = False

    def __call__(self, blocks: Iterable[Block]) -> FoldSums:
        """Accumulate over the micro-blocks of a leaf."""
        size = self.values.n_basis if self.transform is None else self.transform.shape[1]
        target_means, unit = self.origin.targets, self.origin.unit
        tested = probe(size) if self.certifying else None
        about = self.origin.kernel_values if self._is_shifted_while_adding else None
        sums = [
            product_sums(size, target_means, about, tested)
            for _ in range(1 + (0 if self.folds is None else self.folds.count))
        ]
        buffer, observations = self.values.buffer(), _Observations(self.values)
        for block in blocks:
            labels = None if self.folds is None else self.folds.labels(block.rows, block.Y)
            if self.certifying:
                observations.add_block(block)
            for rows, tile in self.values.tiles(block, buffer):
                targets_of_tile = block.Y[rows, :] / unit
                weights = weights_of_tile(block, rows, tile, targets_of_tile, self.weights)
                if self.certifying:
                    observations.add_tile(block, rows, tile, weights)
                features, targets = self._features(tile), targets_of_tile - target_means
                if labels is None:
                    sums[0].add(features, targets, weights)
                    continue
                present = labels[rows]
                for number in np.unique(present):
                    members = np.flatnonzero(present == number)  # rows in no fold come first
                    light = None if weights is None else take_rows(weights, members)
                    sums[number + 1].add(take_rows(features, members), take_rows(targets, members), light)
        return FoldSums(
            tuple(Sums(sums_of_fold.count, **sums_of_fold.finish()._asdict()) for sums_of_fold in sums),
            observations.finish(),
        )

    @property
    def _is_shifted_while_adding(self) -> bool:
        """Whether the origin is subtracted from a few rows in cache, as they are added; features need it before."""
        return self.about and self.transform is None and not is_device_array(self.origin.kernel_values)

    def _features(self, tile: Array) -> Array:
        if self.about and not self._is_shifted_while_adding:
            tile -= self.origin.kernel_values
        if self.triangular:
            features: Array = multiply_rows(tile, self.transform)
            return features
        return tile if self.transform is None else tile @ self.transform
