r"""Measures against which f is integrated: lengths of boxes, weights of points, and products and sums of both.

.. math:: \int f \, d\mu = \sum_j m_j \int_{B_j} f ,

with boxes :math:`B_j` that may be flat: a column whose two ends are the same is taken at that point. A measure on
points has boxes that are flat in all columns, a product of a length and of points has boxes that are flat in some. The
integral is one bounded functional of w, however many terms it has, with one representer
:math:`\sum_j m_j \int_{B_j} \varphi` (``substrate.kernels.integrals``).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, real_array, real_points
from substrate.errors import DataError, DeclarationError
from substrate.kernels.integrals import checked_boxes, volumes

__all__ = ["Measure", "are_measures", "checked_measures"]


@dataclass(frozen=True, eq=False)
class Measure:
    """A finite measure on the inputs, to be read by :meth:`substrate.Substrate.integral`.

    Measures are made by :meth:`of_points`, :meth:`of_box` and :meth:`product`; they are added, and multiplied by
    numbers of either sign.

    Parameters
    ----------
    boxes
        Shape (m, d, 2): m boxes, flat in some columns where the two ends are the same.
    weights
        One number per box.

    Examples
    --------
    The mean of f over three points, and its integral over the first column at two values of the second:

    >>> from substrate import Measure
    >>> mean = Measure.of_points([[0.0, 1.0], [2.0, 1.0], [1.0, 3.0]])
    >>> lines = Measure.product(Measure.of_box([[0.0, 1.0]]), Measure.of_points([[0.0], [2.0]], [1.0, 1.0]))
    >>> float(mean.mass), float(lines.mass), lines.n_features
    (1.0, 2.0, 2)
    """

    boxes: Array
    weights: Array

    @classmethod
    def of_points(cls, points: Any, weights: Any = None) -> "Measure":
        """Return weights at points; equal ones that sum to one, so that the integral is the mean, if none are given."""
        rows = np.asarray(real_points(points, "points"))
        if weights is None:
            masses = np.full(rows.shape[0], 1.0 / rows.shape[0])
        else:
            masses = real_array(weights, "weights", ndim=1)
            if masses.size != rows.shape[0]:
                raise DataError(
                    f"weights must have one entry per point: expected {rows.shape[0]}, received {masses.size}"
                )
        return cls(np.stack([rows, rows], axis=-1), masses)

    @classmethod
    def of_box(cls, box: Any) -> "Measure":
        """Return the volume on a box, given by its lower and upper end for each column."""
        ends = real_array(box, "box", ndim=2)
        return cls(checked_boxes(ends, ends.shape[0]), np.ones(1))

    @classmethod
    def product(cls, *measures: "Measure") -> "Measure":
        """Return the product of measures on different columns; the columns of the first come first."""
        if not measures or not all(isinstance(measure, Measure) for measure in measures):
            raise DeclarationError(f"a product is made of measures, at least one; received {measures!r}")
        boxes, weights = measures[0].boxes, measures[0].weights
        for factor in measures[1:]:
            first, second = (grid.ravel() for grid in np.indices((weights.size, factor.weights.size)))
            boxes = np.concatenate([boxes[first], factor.boxes[second]], axis=1)
            weights = weights[first] * factor.weights[second]
        return cls(boxes, weights)

    @property
    def n_features(self) -> int:
        """The number of columns of the inputs."""
        return int(self.boxes.shape[1])

    @property
    def is_discrete(self) -> bool:
        """Return whether the measure is on points alone."""
        return bool((self.boxes[..., 0] == self.boxes[..., 1]).all())

    @property
    def mass(self) -> float:
        """The integral of one."""
        return float(self.weights @ volumes(self.boxes))

    def __add__(self, other: Any) -> "Measure":
        if not isinstance(other, Measure):
            return NotImplemented
        if other.n_features != self.n_features:
            raise DataError(f"measures on {self.n_features} and on {other.n_features} columns have no sum")
        return Measure(np.concatenate([self.boxes, other.boxes]), np.concatenate([self.weights, other.weights]))

    def __rmul__(self, factor: Any) -> "Measure":
        return Measure(self.boxes, float(factor) * self.weights)

    def __sub__(self, other: Any) -> "Measure":
        return self + (-1.0) * other if isinstance(other, Measure) else NotImplemented


def checked_measures(measures: Any, n_features: int) -> tuple[Measure, ...]:
    """Return one measure or several as a tuple, each on as many columns as there are inputs."""
    given = (measures,) if isinstance(measures, Measure) else tuple(measures)
    for measure in given:
        if not isinstance(measure, Measure):
            raise DeclarationError(f"expected a Measure, as Measure.of_box([[0.0, 1.0]]), received {measure!r}")
        if measure.n_features != n_features:
            raise DataError(f"the measure is on {measure.n_features} columns, the training points have {n_features}")
    if not given:
        raise DataError("there is no measure to integrate against; give at least one")
    return given


def are_measures(measures: Any) -> bool:
    """Return whether what is integrated against is a measure, or several."""
    if isinstance(measures, Measure):
        return True
    return (
        isinstance(measures, Iterable)
        and not isinstance(measures, np.ndarray)
        and any(isinstance(measure, Measure) for measure in measures)
    )
