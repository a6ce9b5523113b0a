r"""The scales of the inputs: what ``standardize=True`` subtracts from every column, and divides it by.

.. math::

    x \leftarrow (x - m) / s, \qquad m = \frac{\sum_i v_i x_i}{\sum_i v_i}, \quad
    s^2 = \frac{\sum_i v_i (x_i - m)^2}{\sum_i v_i}

with the sample weights :math:`v_i`, so that a row of weight 2 counts as two. A column that is constant, or varies by
rounding only, :math:`s \le 10^{-12} \max_i |x_i|`, has the scale 1. A sparse matrix is divided and not centred: it
would not stay sparse. A machine on scaled inputs is a machine on these numbers, rounded as they are: its certificate,
its left-out rows and its proof are about them, and new rows are scaled by the same two operations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from substrate.arrays import Array, is_sparse
from substrate.errors import DataError
from substrate.namespaces import namespace_of, on_device_of, to_numpy

if TYPE_CHECKING:
    from substrate.streaming.array_source import ScaledSource
    from substrate.streaming.source import Source
    from substrate.streaming.survey import Survey

__all__ = ["InputScales"]

#: The least deviation of a column that varies, as a share of its largest number.
_VARIES = 1e-12


@dataclass(frozen=True, slots=True)
class InputScales:
    """One center and one positive scale per column."""

    center: Array
    scale: Array

    @classmethod
    def of(cls, X: Any, weights: Any = None) -> Self:
        """Return the scales of the columns of X: dense, sparse or on a device; rows of weight zero are absent."""
        v = np.ones(int(X.shape[0])) if weights is None else np.asarray(to_numpy(weights), dtype=np.float64)
        if not (v > 0.0).any():
            raise DataError("all rows have weight zero; give some rows a positive sample_weight")
        if not (v > 0.0).all():
            (rows,) = np.nonzero(v)
            X, v = X[rows] if is_sparse(X) else namespace_of(X).take(X, on_device_of(X, rows), axis=0), v[rows]
        share = v / v.max()
        share /= share.sum()
        return cls._of_sparse(X, share) if is_sparse(X) else cls._of_dense(X, share)

    @classmethod
    def _of_dense(cls, X: Any, share: Array) -> Self:
        xp = namespace_of(X)
        low, high = (np.asarray(to_numpy(extreme(X, axis=0)), dtype=np.float64) for extreme in (xp.min, xp.max))
        middle, half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
        unit = np.where(half > 0.0, half, 1.0)
        # between -1 and 1, so that neither the unit nor the offset of a column spoils its sums
        inside = (X - on_device_of(X, middle)) / on_device_of(X, unit)
        v = on_device_of(X, share)
        mean = v @ inside
        deviations = to_numpy(xp.sqrt(v @ xp.square(inside - mean)))
        center = middle + unit * to_numpy(mean)
        return cls._checked(center, unit * deviations, np.maximum(np.abs(low), np.abs(high)))

    @classmethod
    def _of_sparse(cls, X: Any, share: Array) -> Self:
        largest = np.asarray(abs(X).max(axis=0).toarray()).ravel()
        unit = np.where(largest > 0.0, largest, 1.0)
        entries = X.tocsc(copy=True)
        columns = np.repeat(np.arange(entries.shape[1]), np.diff(entries.indptr))
        values, v = entries.data / unit[columns], share[entries.indices]
        mean = np.bincount(columns, v * values, minlength=unit.size)
        stored = np.bincount(columns, v, minlength=unit.size)
        square = np.bincount(columns, v * np.square(values - mean[columns]), minlength=unit.size)
        deviations = np.sqrt(square + np.maximum(1.0 - stored, 0.0) * np.square(mean))
        return cls._checked(np.zeros(unit.size), unit * deviations, largest)

    @classmethod
    def of_survey(cls, survey: "Survey", name: str, columns: Sequence[str] | None = None) -> Self:
        """Return the scales of rows that are read in passes, from the survey of them, each row counted once."""
        largest = np.maximum(np.abs(survey.low), np.abs(survey.high))
        if not np.isfinite(survey.standard_deviation).all():
            column = int(np.flatnonzero(~np.isfinite(survey.standard_deviation))[0])
            what = f"column {columns[column]!r}" if columns is not None else f"column {column} of {name}"
            raise DataError(
                f"{what} holds a number of size {largest[column]:g}, whose square is infinite; correct that cell, or "
                "give the column another unit"
            )
        return cls._checked(survey.mean, survey.standard_deviation, largest)

    @classmethod
    def _checked(cls, center: Array, deviations: Array, largest: Array) -> Self:
        scale = np.where(deviations > _VARIES * largest, deviations, 1.0)
        return cls(np.asarray(center, dtype=np.float64), np.asarray(scale, dtype=np.float64))

    def keep_columns(self, columns: Sequence[int]) -> Self:
        """Return the scales with some columns left as they are."""
        center, scale = self.center.copy(), self.scale.copy()
        center[list(columns)], scale[list(columns)] = 0.0, 1.0
        return type(self)(center, scale)

    def without_center(self) -> Self:
        """Return the scales alone, for machines to which the origin means something."""
        return type(self)(np.zeros_like(self.center), self.scale)

    def apply(self, X: Any) -> Any:
        """Return rows in these units, where they are; a sparse matrix is not centred."""
        if is_sparse(X):
            scaled = X.tocsr(copy=True)
            scaled.data = scaled.data / self.scale[scaled.indices]
        else:
            with np.errstate(over="ignore"):
                scaled = (X - on_device_of(X, self.center)) / on_device_of(X, self.scale)
        xp = namespace_of(scaled.data if is_sparse(scaled) else scaled)
        # a missing cell stays missing; of a finite number these operations make none
        if bool(xp.any(xp.isinf(scaled.data if is_sparse(scaled) else scaled))):
            raise DataError(
                "X has a number that is infinite in units of the training rows (standardize=True); correct it, or give "
                "its column another unit"
            )
        return scaled

    def undo(self, X: Any) -> Any:
        """Return rows in the units in which they were given, to rounding."""
        if is_sparse(X):
            given = X.tocsr(copy=True)
            given.data = given.data * self.scale[given.indices]
            return given
        return X * on_device_of(X, self.scale) + on_device_of(X, self.center)

    def of_source(self, rows: "Source") -> "ScaledSource":
        """Return rows that are read in passes, in these units."""
        from substrate.streaming.array_source import ScaledSource

        return ScaledSource(rows, self.center, self.scale)

    def check(self, n_features: int) -> None:
        """Refuse scales from a file that do not belong to the columns of a model."""
        for values, name in ((self.center, "input_center_"), (self.scale, "input_scale_")):
            if values.shape != (n_features,) or values.dtype.kind != "f" or not np.isfinite(values).all():
                raise DataError(f"{name} must hold one finite number for each of the {n_features} columns")
        if not (self.scale > 0.0).all():
            raise DataError("input_scale_ must hold positive numbers")
