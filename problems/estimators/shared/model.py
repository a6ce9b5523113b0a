"""The model of an estimator: what its machine is, whatever its targets are and however its parameters were chosen.

An estimator is a task, ``Regressor`` or ``Classifier``, which its class derives from, with parts: a model, which its
parameters choose; where parameters are chosen, a selector; the intervals of a regressor or the calibration of a
classifier. A part is made for an estimator when it is asked for, and holds nothing else:
parameters and fitted attributes are those of the estimator, so that a copy, a clone or a file of an estimator needs no
part.
"""

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from problems.estimators.shared.checked_again import StoredFit
from problems.estimators.shared.checks import check_state
from problems.estimators.shared.components import components_of
from substrate.arrays import Array, non_negative
from substrate.errors import DeclarationError
from substrate.kernels import Kernel, as_kernel
from substrate.least_squares.border import ONES, Border
from substrate.least_squares.kernel_products import expansion_values
from substrate.namespaces import namespace_of, on_device_of, row_blocks

if TYPE_CHECKING:
    from substrate.kernels.nodes import Node

__all__ = ["Model"]


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A kernel expansion and a bias; kinds of machines say what else there is.

    ``recall_fit`` has to be defined; the others are as a machine with one expansion, a bias that is not penalised and
    nothing beside them needs them.
    """

    estimator: Any

    @abstractmethod
    def recall_fit(self, X: Any, y: Any, sample_weight: Any) -> AbstractContextManager[StoredFit]:
        """Return what the model stores, on the data of the fit, which are checked as the fit checks them."""

    def own_kernel(self, given: Any = None) -> Kernel:
        """Return the kernel of the machine, made of the one that was given: a parameter, or a candidate of a search."""
        return as_kernel(self.estimator.kernel if given is None else given)

    def refuse_search(self, search: str | None) -> None:
        """Refuse a search over the scales of kernels that does not know this machine."""

    def border(self, X: Any, weights: Any) -> Border:
        """Return the columns that are not penalised, of some rows with their weights: a bias alone."""
        return ONES

    def linear_slopes(self) -> Array | None:
        """Return the coefficients of those beside the bias, one column per output."""
        return None

    def bias(self) -> Any:
        """Return what predictions have in common: the bias, where the linear part, if any, is at its center."""
        return self.estimator.bias_

    def training_border(self) -> Border:
        """Return the border of the rows of the fit, from what the model keeps of them."""
        estimator = self.estimator
        return (
            ONES
            if self.linear_slopes() is None
            else self.border(estimator.support_vectors_, np.ones(estimator.support_.size))
        )

    def linear(self, X: Any) -> Array | None:
        """Return the columns of the linear part at the rows of X, less their center; None where there is none."""
        return None

    def append_linear(self, values: Array, X: Any) -> Array:
        """Return kernel values of the rows of X and, after them, the columns of the linear part."""
        linear = self.linear(X)
        if linear is None:
            return values
        return namespace_of(values).concat([values, linear], axis=1)  # type: ignore[no-any-return]

    def unpenalised(self, X: Any) -> Any:
        """Return what is added to the kernel expansion at the rows of X: one number per output, or one line per row."""
        linear, slopes = self.linear(X), self.linear_slopes()
        if linear is None or slopes is None:
            return self.bias()
        values = linear @ on_device_of(linear, slopes)
        return (values if self.outputs() else values[:, 0]) + self.bias()

    def outputs(self) -> tuple[int, ...]:
        """Return the shape of one row's prediction."""
        shape: tuple[int, ...] = self.estimator._coefficients().shape[1:]
        return shape

    def evaluate(self, X: Any) -> Array:
        """Return the predictions of rows that were checked."""
        model = self.estimator
        kernel, support = model.kernel_, model.support_
        points = None if kernel.pairwise else model.support_vectors_
        return expansion_values(kernel, points, model._coefficients(), self.unpenalised(X), X, support)

    def express(self, x: "Sequence[Node]") -> "list[Node]":
        """Return the outputs as formulas of the coordinates of a row, in the units of the machine: what
        :meth:`evaluate` computes.
        """
        from substrate.kernels.nodes import add_outputs, expand_kernel, expand_linear

        model = self.estimator
        coefficients = np.reshape(model._coefficients(), (model.support_.size, int(np.prod(self.outputs()))))
        outputs = expand_kernel(model.kernel_, model.support_vectors_, coefficients, x)
        if (slopes := self.linear_slopes()) is not None:
            part = expand_linear(self.linear_numbers(), model.linear_center_, slopes, x)
            outputs = add_outputs(outputs, part)
        return add_outputs(outputs, np.atleast_1d(self.bias()))

    def linear_numbers(self) -> list[int]:
        """Return the numbers of the columns of a linear part, in the order of its coefficients."""
        return []

    def mark_inputs(self, relevance: Any) -> NDArray[np.bool_]:
        """Mark the inputs of the components that vary enough."""
        check_is_fitted(self.estimator)
        mask = np.zeros(self.estimator.n_features_in_, dtype=bool)
        for columns, chosen in zip(self.component_columns(), self.mark_components(relevance), strict=True):
            mask[list(columns)] |= chosen
        return mask

    def mark_components(self, relevance: Any) -> NDArray[np.bool_]:
        """Return a mask of the components that vary enough."""
        if isinstance(relevance, (bool, np.bool_)):
            raise DeclarationError("relevance must be a number; pass indices by name: get_support(indices=True)")
        share = non_negative(relevance, "relevance", "as a share of the largest maximal variation")
        variation = np.atleast_2d(self.estimator.maximal_variation_).max(axis=0)
        return np.asarray(variation > share * variation.max())

    def component_columns(self) -> tuple[tuple[int, ...], ...]:
        """Return the inputs of each component."""
        model = self.estimator
        return tuple(part.columns for part in components_of(model.kernel_, model.n_features_in_))

    def component_values(self, X: Any) -> Array:
        """Return the components of a sum over the inputs, from one expansion for all of them."""
        model = self.estimator
        alpha, parts = model._coefficients(), components_of(model.kernel_, int(X.shape[1]))
        values = np.zeros((X.shape[0], len(parts), *alpha.shape[1:]))
        for rows in row_blocks(X.shape[0], alpha.shape[0]):
            for number, part in enumerate(parts):
                values[rows, number] = part(X[rows], model.support_vectors_) @ alpha
        return values

    def move(self, model: Any) -> None:
        """Take to numpy what else ``model``, a copy in numpy of the estimator, holds."""

    def check_loaded(self) -> None:
        """Refuse inconsistent attributes of a fitted model read from a file."""
        check_state(self.estimator)
