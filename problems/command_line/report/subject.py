"""What a page shows: a fitted model, the rows of its fit and those held out, and the names and units of its columns."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import problems
from problems.estimators.chosen.stacked import StackedModel
from problems.estimators.shared.model import has_part
from problems.tables.fit import Fit
from substrate.arrays import Array
from substrate.namespaces import to_numpy

__all__ = ["HeldOutSplit", "Subject", "leading_machine", "leading_words"]


class HeldOutSplit(NamedTuple):
    """Points and targets of the rows of a fit, and of those held out."""

    X: Array
    y: Any
    X_val: Array
    y_val: Any


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
        return cls(
            estimator=fit.model.estimator,
            X=fit.X,
            y=fit.y,
            X_val=fit.X_val,
            y_val=fit.y_val,
            features=prepared.features,
            target=prepared.target,
            center=center,
            scale=scale,
            coded=coded,
        )

    def with_one_machine(self) -> "Subject":
        """Return the subject with the machine of the largest weight in place of a stack; others as they are."""
        if not has_part(self.estimator, StackedModel):
            return self
        return replace(self, estimator=leading_machine(self.estimator, self.X, self.y))

    @property
    def classes(self) -> tuple[str, ...]:
        """Return the names of the classes, none for numbers."""
        return tuple(map(str, self.estimator.classes_)) if self.estimator._labels else ()

    def own_units(self, column: int, values: Array) -> Array:
        """Return the values of an input as they are in the table."""
        return np.asarray(values * self.scale[column] + self.center[column])

    def targets(self) -> HeldOutSplit:
        """Return points and targets of the first machine; codes -1 and +1 for classes."""
        y, y_val = (to_numpy(values) for values in (self.y, self.y_val))
        if not self.classes:
            first, second = (values[:, 0] if values.ndim == 2 else values for values in (y, y_val))
            return HeldOutSplit(
                X=self.X,
                y=np.asarray(first, dtype=np.float64),
                X_val=self.X_val,
                y_val=np.asarray(second, dtype=np.float64),
            )
        book, names = self.estimator.code_book_[:, 0], self.estimator.classes_
        codes, codes_val = (book[np.searchsorted(names, values)].astype(np.float64) for values in (y, y_val))
        inside, outside = codes != 0.0, codes_val != 0.0  # one class against one: other rows are not in the machine
        return HeldOutSplit(X=self.X[inside], y=codes[inside], X_val=self.X_val[outside], y_val=codes_val[outside])

    @property
    def plus(self) -> str:
        """Return the classes on the positive side of the first machine."""
        side = self.estimator.code_book_[:, 0] > 0
        return " or ".join(name for name, inside in zip(self.classes, side, strict=True) if inside)


def leading_machine(stack: Any, X: Any, y: Any) -> Any:
    """Return the machine of a stack with the largest weight, by its kernel and gamma on the rows of the stack."""
    number = stack._model.largest()
    gamma = float(np.ravel(stack.gammas_[number])[0])
    weights = np.zeros(len(y))
    weights[stack.support_] = stack.row_weights_
    coding = {"coding": stack.coding, "calibration": None} if stack._labels else {}
    plain: Any = problems.LSSVMClassifier if stack._labels else problems.LSSVMRegressor
    machine = plain(kernel=stack.kernel_, gamma=gamma, standardize=stack.standardize, **coding)
    return machine.fit(X, y) if (weights == 1.0).all() else machine.fit(X, y, sample_weight=weights)


def leading_words(stack: Any) -> str:
    """Return which machine a page of a stack moves, and what it is of the stack."""
    u = stack._model.weights()[:, 0]
    count = int((u > 0.0).sum())
    return (
        f"The model is a stack of {count} {'machine' if count == 1 else 'machines'}. What moves here is the one with "
        f"the largest weight, {u.max():.2g}, alone: its errors are not those of the stack."
    )
