"""Estimators that hold a fitted machine: an estimator with the chosen parameters, on the rows that were kept.

Predictions, certificates, probabilities and files come from that machine.
"""

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from problems.estimators.shared.base import KernelEstimator
from problems.estimators.shared.checked_again import StoredFit
from problems.estimators.shared.model import Model
from substrate.arrays import Array, take_columns, take_points
from substrate.errors import DataError

if TYPE_CHECKING:
    from substrate.kernels.nodes import Node

__all__ = ["HeldModel", "HoldsMachine", "OfMachine"]


class OfMachine:
    """An attribute of the machine that an estimator holds; of another name there, where one is given."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = self.name or name

    def __get__(self, estimator: Any, owner: type) -> Any:
        return self if estimator is None else getattr(estimator.machine_, str(self.name))

    def __set__(self, estimator: Any, value: Any) -> None:
        setattr(estimator.machine_, str(self.name), value)


class HoldsMachine(KernelEstimator):
    """A base of estimators whose fitted machine, ``machine_``, is an estimator on the rows ``training_rows_``.

    Its coefficients are the coefficients of that machine; ``support_`` are numbers of the rows that were given.
    """

    training_rows_: Any
    kernel_, support_vectors_, support_values_, bias_ = OfMachine(), OfMachine(), OfMachine(), OfMachine()
    classes_, code_book_, support_codes_ = OfMachine(), OfMachine(), OfMachine()
    _plain_type: ClassVar[type[Any]]
    #: Whether the machines of a classifier are regressions on the codes.
    _regressed: ClassVar[Any] = property(lambda self: hasattr(self, "machine_") and self.machine_._regressed)

    @property
    def support_(self) -> Any:
        """The rows of the expansion."""
        return self.training_rows_[self.machine_.support_]

    def _machine_types(self) -> tuple[type[Any], ...]:
        """Return the classes that the machine can have."""
        return (self._plain_type,)

    def _stated(self) -> dict[str, Any]:
        """Return the parameters of the machine, from the fitted estimator."""
        raise NotImplementedError

    def _coefficients(self) -> Array:
        coefficients: Array = self.machine_._coefficients()
        return coefficients

    def _machine_with(self, kind: type[Any], **chosen: Any) -> Any:
        """Return an estimator with the parameters that it shares with this one, and the chosen ones."""
        own, machine = self.get_params(deep=False), kind()
        shared = {name: own[name] for name in machine.get_params(deep=False) if name in own}
        return machine.set_params(**shared | chosen)


class HeldModel(Model):
    """The machine that an estimator holds."""

    @property
    def of_machine(self) -> Any:
        """Return the model of that machine."""
        return self.estimator.machine_._model

    def points(self, X: Any) -> Any:
        """Return rows as that machine takes them: of a precomputed matrix the columns of the rows that trained it."""
        rows = self.estimator.training_rows_
        return take_columns(X, rows) if self.estimator.kernel_.pairwise else X

    def training_rows(self, X: Any, y: Any, sample_weight: Any = None) -> tuple[Any, Any, Any]:
        """Return the rows that trained the machine, with targets and weights, of the data of the fit given again."""
        model, rows = self.estimator, self.estimator.training_rows_
        X, y, weights = model._check_again(X, y, sample_weight, numeric=not model._labels)
        if rows.max() >= X.shape[0]:
            raise DataError(f"the model was fitted to more rows than these {X.shape[0]}; pass the X and y of the fit")
        return take_points(X, rows, model.kernel_.pairwise), y[rows], weights[rows]

    def recall_fit(self, X: Any, y: Any, sample_weight: Any) -> StoredFit:
        """Return that machine on the rows that trained it, with the parameters that the estimator states."""
        model = self.estimator
        machine = copy(model.machine_).set_params(**model._stated())
        X, y, weights = self.training_rows(X, y, sample_weight)
        recalled: StoredFit = machine._model.recall_fit(X, y, weights)
        return recalled

    def outputs(self) -> tuple[int, ...]:
        """Return the shape of one row's prediction."""
        shape: tuple[int, ...] = self.of_machine.outputs()
        return shape

    def evaluate(self, X: Any) -> Array:
        """Return the predictions of rows that were checked."""
        values: Array = self.of_machine.evaluate(self.points(X))
        return values

    def express(self, x: "Sequence[Node]") -> "list[Node]":
        """Return the outputs as formulas of the coordinates of a row."""
        outputs: list[Node] = self.of_machine.express(x)
        return outputs

    def mark_inputs(self, relevance: Any) -> NDArray[np.bool_]:
        """Mark the inputs of the components that vary enough."""
        mask: NDArray[np.bool_] = self.of_machine.mark_inputs(relevance)
        return mask

    def component_values(self, X: Any) -> Array:
        """Return the components of a sum over the inputs."""
        values: Array = self.of_machine.component_values(X)
        return values

    def check_loaded(self) -> None:
        """Refuse a machine of another kind, or rows that it was not fitted to."""
        model, rows = self.estimator, self.estimator.training_rows_
        if not isinstance(model.machine_, model._machine_types()):
            raise DataError(f"the machine of a {type(model).__name__} cannot be a {type(model.machine_).__name__}")
        model.machine_._check_loaded()
        if rows.ndim != 1 or rows.dtype.kind not in "iu" or not rows.size or rows.min() < 0:
            raise DataError("training_rows_ must be numbers of rows")
        if rows.size <= model.machine_.support_.max(initial=-1):
            raise DataError("training_rows_ and the support of the machine do not belong together")
