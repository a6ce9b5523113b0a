"""What a page shows: a fitted model, the rows of its fit and those held out, and the names and units of its columns."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from problems.command_line.fit import Fit
from substrate.arrays import Array
from substrate.namespaces import to_numpy

__all__ = ["Subject"]


@dataclass(frozen=True, slots=True)
class Subject:
    """A fitted model with the rows of its fit, those held out (none: empty), and the names and units of its columns."""

    estimator: Any
    X: Array
    y: Any
    X_val: Array
    y_val: Any
    features: tuple[str, ...]
    target: str
    center: Array
    scale: Array
    #: Columns that hold 0 and 1 for a category.
    coded: NDArray[np.bool_]

    @classmethod
    def of(cls, fit: Fit) -> "Subject":
        """Return the rows and names of ``substrate fit``."""
        prepared = fit.preparation
        each = [input_ for input_ in prepared.inputs for _ in input_.features]
        center, scale = np.array([input_.center for input_ in each]), np.array([input_.scale for input_ in each])
        coded = np.array([input_.categories is not None for input_ in each])
        rows = (fit.X, fit.y, fit.X_val, fit.y_val)
        return cls(fit.model.estimator, *rows, prepared.features, prepared.target, center, scale, coded)

    @property
    def classes(self) -> tuple[str, ...]:
        """Return the names of the classes, none for numbers."""
        return tuple(map(str, self.estimator.classes_)) if self.estimator._labels else ()

    def own_units(self, column: int, values: Array) -> Array:
        """Return the values of an input as they are in the table."""
        return np.asarray(values * self.scale[column] + self.center[column])

    def targets(self) -> tuple[Array, Array, Array, Array]:
        """Return points and targets of the first machine: rows of the fit, rows held out; codes -1 and +1 for
        classes.
        """
        y, y_val = (to_numpy(values) for values in (self.y, self.y_val))
        if not self.classes:
            first, second = (values[:, 0] if values.ndim == 2 else values for values in (y, y_val))
            return self.X, np.asarray(first, dtype=np.float64), self.X_val, np.asarray(second, dtype=np.float64)
        book, names = self.estimator.code_book_[:, 0], self.estimator.classes_
        codes, codes_val = (book[np.searchsorted(names, values)].astype(np.float64) for values in (y, y_val))
        inside, outside = codes != 0.0, codes_val != 0.0  # one class against one: other rows are not in the machine
        return self.X[inside], codes[inside], self.X_val[outside], codes_val[outside]

    @property
    def plus(self) -> str:
        """Return the classes on the positive side of the first machine."""
        side = self.estimator.code_book_[:, 0] > 0
        return " or ".join(name for name, inside in zip(self.classes, side, strict=True) if inside)
