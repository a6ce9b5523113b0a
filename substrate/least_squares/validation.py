"""The criterion of validation rows, and sums of criteria over folds or machines.

Both are bounded as in :mod:`substrate.least_squares.criteria`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from substrate.arrays import Array
from substrate.errors import DataError
from substrate.least_squares.criteria import Criterion, Samples, following, unknown_at
from substrate.least_squares.spectrum import Spectrum
from substrate.threads import blas_threads

__all__ = ["CriterionSum", "ValidationCriterion"]


@dataclass(frozen=True, slots=True)
class ValidationCriterion(Criterion):
    """The mean square error on other points: ``directions`` are c, ``offsets`` are y^v - mean y in units of y.

    Both are multiplied by ``roots``, those of the weights of these points, if any.

    :equation [Pelckmans2005]_ (3): the validation error as a function of gamma
    """

    cone: ClassVar[int] = 2
    growth: ClassVar[float] = 2.0

    spectrum: Spectrum
    directions: Array
    offsets: Array
    rounding: float
    roots: Array | None = None

    @classmethod
    def of(
        cls,
        spectrum: Spectrum,
        Y: Array,
        rows: Array,
        Y_val: Array,
        *,
        pooled: bool = False,
        rounding: float = 0.0,
        weights: Array | None = None,
        linear: Array | None = None,
    ) -> Self:
        """Build the criterion from targets and the rows of kernel values of the validation points against the training
        points.

        ``rounding`` bounds, root mean square over the validation points, the error of a row, as a length; ``weights``
        are those of the validation points in the mean, ``linear`` their columns of a linear part, less their center.
        """
        if rows.shape[0] == 0:
            raise DataError("the validation set is empty; give at least one validation row")
        targets = spectrum.targets(Y)
        with blas_threads(spectrum.n):
            centred = spectrum.about_border(rows, linear)
            directions = (centred if spectrum.root is None else centred * spectrum.root) @ spectrum.basis
        targets_val = Y_val[:, None] if Y_val.ndim == 1 else Y_val
        offsets = (targets_val / targets.unit - targets.mean) - targets.rest
        if spectrum.linear is not None and linear is not None and targets.slopes is not None:
            offsets = offsets - spectrum.linear[0].line(linear)[:, 1:] @ targets.slopes
        roots = None
        if weights is not None:  # a weighted mean of squares is a plain one of errors times the roots of the weights
            roots = np.sqrt(weights / weights.mean())
            directions, offsets = roots[:, None] * directions, roots[:, None] * offsets
        return cls(
            spectrum=spectrum,
            targets=targets,
            lift=spectrum.lift,
            pooled=pooled,
            directions=directions,
            offsets=offsets,
            rounding=rounding,
            roots=roots,
        )

    def sample(self, t: Array) -> Samples:
        """Compute one matrix product per output, and the ceiling from each interval's lowest lambda."""
        z = self.targets.coordinates
        g = self._inverses(t)
        lowest = g.reshape(-1, *t.shape)[:, :, 0]
        values, ceiling = np.empty((t.size, z.shape[1])), np.empty((t.shape[0], z.shape[1]))
        unknown, q = unknown_at(self.spectrum, t)
        with blas_threads(self.spectrum.n):
            squared = np.square(self.directions)
            kappa = squared @ lowest
            lengths = np.sqrt(np.mean(squared @ np.square(g), axis=0)).reshape(t.shape)
            for k in range(z.shape[1]):
                errors = self.offsets[:, [k]] - self.directions @ (g * z[:, [k]])
                values[:, k] = np.mean(errors**2, axis=0)
                sizes = np.abs(self.offsets[:, [k]]) + np.sqrt(kappa * (z[:, k] ** 2 @ lowest))
                ceiling[:, k] = np.mean(sizes**2, axis=0)
        share = (following(unknown, t) * lengths + self.rounding) / np.maximum(1.0 - q, 1e-300)
        alpha = np.sqrt(np.square(g).T @ z**2).reshape(*t.shape, -1)
        shifts = self._shrink_and_shift(q, share, alpha, np.ones(len(t)))
        top = ceiling.mean(axis=1, keepdims=True) if self.pooled else ceiling
        return Samples(self._shape(values, t), top, *shifts)


@dataclass(frozen=True, slots=True)
class CriterionSum:
    """A weighted sum of criteria with one common gamma per output: folds, or machines on different rows."""

    criteria: tuple[Criterion, ...]
    weights: tuple[float, ...]

    @classmethod
    def of(cls, criteria: Sequence[Criterion], weights: Sequence[float]) -> Self:
        """Count lambda from the same point on in all parts."""
        lift = max(criterion.lift for criterion in criteria)
        return cls(tuple(criterion.with_lift(lift) for criterion in criteria), tuple(weights))

    @property
    def size(self) -> int:
        """The size of the largest part."""
        return max(criterion.size for criterion in self.criteria)

    @property
    def outputs(self) -> int:
        """As each part has."""
        return self.criteria[0].outputs

    @property
    def lift(self) -> float:
        """As each part has."""
        return self.criteria[0].lift

    @property
    def cone(self) -> int:
        """The largest of the parts."""
        return max(criterion.cone for criterion in self.criteria)

    @property
    def growth(self) -> float:
        """The largest of the parts."""
        return max(criterion.growth for criterion in self.criteria)

    @property
    def unit(self) -> float:
        """The largest; parts in smaller units are converted."""
        return max(criterion.unit for criterion in self.criteria)

    @property
    def spread(self) -> Array:
        """That of the part where it is largest, in the common unit, one number per criterion."""
        spreads = [criterion.spread * (criterion.unit / self.unit) ** 2 for criterion in self.criteria]
        return np.asarray(np.max(spreads, axis=0))

    def sample(self, t: Array) -> Samples:
        """Return the sums of values and of ceilings."""
        values, ceiling = np.zeros((*t.shape, self.outputs)), np.zeros((t.shape[0], self.outputs))
        shrink, squares = np.ones_like(ceiling), np.zeros_like(values)
        condition: Array | None = None
        for criterion, weight in zip(self.criteria, self.weights, strict=True):
            scale, samples = weight * (criterion.unit / self.unit) ** 2, criterion.sample(t)
            values += scale * samples.values
            ceiling += scale * samples.ceiling
            if samples.shrink is not None:
                shrink = np.minimum(shrink, samples.shrink)
            if samples.shifts is not None:
                squares += scale * samples.shifts**2  # the triangle inequality for all errors in one vector
            if samples.condition is not None:
                condition = samples.condition if condition is None else np.maximum(condition, samples.condition)
        return Samples(values, ceiling, shrink, np.sqrt(squares), condition=condition)
