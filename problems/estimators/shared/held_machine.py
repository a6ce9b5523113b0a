"""Estimators whose fit ends in a machine, which is another estimator, on some of the rows."""

from copy import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar

from problems.estimators.shared.base import KernelEstimator, StoredFit
from substrate.arrays import take_columns, take_points
from substrate.errors import DataError

__all__ = ["HoldsMachine", "OfMachine"]


class OfMachine:
    """An attribute, or a method, of the machine that an estimator holds."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, estimator: Any, owner: type) -> Any:
        return self if estimator is None else getattr(estimator.machine_, self.name)

    def __set__(self, estimator: Any, value: Any) -> None:
        setattr(estimator.machine_, self.name, value)


@dataclass(eq=False, repr=False)
class HoldsMachine(KernelEstimator):
    """A base of estimators that choose a machine: all that predicts is fitted in ``machine_``.

    The machine is an estimator on the rows ``training_rows_``: its coefficients are the coefficients here, and
    ``support_`` are numbers of the rows that were given.
    """

    training_rows_: Any = field(init=False)
    kernel_, support_vectors_, support_values_, bias_ = OfMachine(), OfMachine(), OfMachine(), OfMachine()
    classes_, code_book_ = OfMachine(), OfMachine()
    _outputs, _evaluate = OfMachine(), OfMachine()
    _express, _component_values = OfMachine(), OfMachine()
    #: The estimator that the machine is.
    _plain_type: ClassVar[type[Any]]

    @property
    def support_(self) -> Any:
        """The rows of the expansion."""
        return self.training_rows_[self.machine_.support_]

    def _stated(self) -> dict[str, Any]:
        """Return the weights of the machine, from the fitted estimator."""
        return {"gamma": self.gamma_}

    def _new_points(self, X: Any) -> Any:
        """Return rows as the machine takes them: of a precomputed matrix the columns of the rows that trained it."""
        X = super()._new_points(X)
        return take_columns(X, self.training_rows_) if self.kernel_.pairwise else X

    def _rows_that_trained(self, X: Any, y: Any, sample_weight: Any = None) -> tuple[Any, Any, Any]:
        """Return the rows that trained the machine, with targets and weights, of the data of the fit given again."""
        X, y, weights = self._check_again(X, y, sample_weight)
        rows = self.training_rows_
        if rows.max() >= X.shape[0]:
            raise DataError(f"the model was fitted to more rows than these {X.shape[0]}; pass the X and y of the fit")
        kept = take_points(X, rows, self.kernel_.pairwise)
        return kept, y[rows], None if sample_weight is None else weights[rows]

    def _recall_fit(self, X: Any, y: Any, sample_weight: Any) -> StoredFit:
        """Return the machine on the rows that trained it, with the parameters that the estimator states."""
        machine: Any = copy(self.machine_).set_params(tol=self.tol, **self._stated())
        return machine._recall_fit(*self._rows_that_trained(X, y, sample_weight))
