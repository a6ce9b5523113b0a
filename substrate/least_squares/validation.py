"""The criterion of validation rows, and sums of criteria over folds or machines.

Both are bounded as in :mod:`substrate.least_squares.criteria`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from substrate.arrays import Array
from substrate.errors import DataError
from substrate.least_squares.criteria import Criterion, Samples, Spectral, lost_by_moves
from substrate.least_squares.spectrum import Spectrum
from substrate.numbers import at_most
from substrate.threads import blas_threads

__all__ = ["CriterionSum", "ValidationCriterion"]


@dataclass(frozen=True, slots=True)
class ValidationCriterion(Criterion):
    """The mean square error on other points: ``directions`` are c, ``offsets`` are y^v - mean y in units of y.

    Both are multiplied by ``roots``, the roots of the weights of these points, if any.

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
        are the weights of the validation points in the mean, ``linear`` their columns of a linear part, less their
        center.
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
        """Compute three matrix products and one per output; what is in the ceilings falls along an interval."""
        z, g = self.targets.coordinates, self._inverses(t)
        values, ceilings = np.empty((t.size, z.shape[1])), np.empty((t.size, z.shape[1]))
        with blas_threads(self.spectrum.n):
            squared = np.square(self.directions)
            kappa, lengths = squared @ g, np.mean(squared @ np.square(g), axis=0)
            for k in range(z.shape[1]):
                errors = self.offsets[:, [k]] - self.directions @ (g * z[:, [k]])
                values[:, k] = np.mean(errors**2, axis=0)
                sizes = np.abs(self.offsets[:, [k]]) + np.sqrt(kappa * (z[:, k] ** 2 @ g))
                ceilings[:, k] = np.mean(sizes**2, axis=0)
        top = self._shape(ceilings, t)
        alpha = np.square(g).T @ z**2
        lost = lost_by_moves(self.spectrum, t, self._shape(lengths[:, None] * alpha, t))
        lost = lost + at_most(2.0) * self.rounding * np.sqrt(self._shape(alpha, t))  # 1/(1 - q) is two at most
        return Samples(self._shape(values, t), top, lost)


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
    def spectra(self) -> tuple[Spectral, ...]:
        """The spectra of all parts."""
        return tuple(criterion.spectrum for criterion in self.criteria)

    @property
    def size(self) -> int:
        """The size of the largest part."""
        return max(criterion.size for criterion in self.criteria)

    @property
    def outputs(self) -> int:
        """The number of outputs, the same for all parts."""
        return self.criteria[0].outputs

    @property
    def lift(self) -> float:
        """The lift, the same for all parts."""
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
        """Return the sums of values, of ceilings, and of squares of what is lost: all errors are one vector."""
        values, ceilings, squares = (np.zeros((*t.shape, self.outputs)) for _ in range(3))
        condition: Array | None = None
        for criterion, weight in zip(self.criteria, self.weights, strict=True):
            scale, samples = weight * (criterion.unit / self.unit) ** 2, criterion.sample(t)
            values += scale * samples.values
            ceilings += scale * samples.ceilings
            squares += scale * samples.lost**2
            if samples.condition is not None:
                condition = samples.condition if condition is None else np.maximum(condition, samples.condition)
        return Samples(values, ceilings, np.sqrt(squares), condition)
