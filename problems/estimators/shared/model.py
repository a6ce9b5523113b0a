"""The model of an estimator: its machine, for any targets and any way to choose its parameters.

An estimator is a task, ``Regressor`` or ``Classifier``, which its class derives from, with parts: a model, which its
parameters choose; where parameters are chosen, a selector; the intervals of a regressor or the calibration of a
classifier. A part is made for an estimator when it is needed, and holds nothing else: parameters and fitted attributes
belong to the estimator, so that a copy, a clone or a file of an estimator needs no part.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from problems.estimators.shared.checks import check_state, column_number
from problems.estimators.shared.components import components_of
from substrate.arrays import Array, non_negative, on_device_of, row_blocks, to_numpy
from substrate.errors import DataError, DeclarationError
from substrate.kernels import Kernel, Restricted, as_kernel
from substrate.least_squares.border import ONES, Border
from substrate.reduced.rows import columns_of
from substrate.streaming.passes import each_block
from substrate.streaming.rows import source_of

if TYPE_CHECKING:
    from substrate.kernels.nodes import Node

__all__ = ["Model"]


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A kernel expansion, a bias, and a linear part: columns that are not penalised, which the kernel does not see.

    The estimator may have a parameter ``linear_columns``; in a regression their coefficients have standard errors.
    The methods suit a machine with one expansion.
    """

    estimator: Any

    def own_kernel(self, given: Any = None) -> Kernel:
        """Return the kernel of the machine, made from the parameter or a candidate of a search, on the columns that are
        not linear.
        """
        model, kernel = self.estimator, as_kernel(self.estimator.kernel if given is None else given)
        if not np.size(getattr(model, "linear_columns", ())):
            return kernel
        if kernel.pairwise:
            raise DeclarationError(
                f"{type(model).__name__} takes its linear part from the columns of X, which a precomputed kernel "
                "matrix does not have; fit with a kernel of substrate.kernels on X itself"
            )
        if not hasattr(model, "n_features_in_"):  # before a fit, as given
            return kernel
        linear = self.linear_numbers()
        return Restricted(kernel, tuple(k for k in range(model.n_features_in_) if k not in linear))

    def linear_numbers(self) -> list[int]:
        """Return the numbers of the columns of the linear part, as fitted where there is a fit."""
        model = self.estimator
        if hasattr(model, "linear_columns_"):
            return [int(column) for column in model.linear_columns_]
        columns = getattr(model, "linear_columns", ())
        n = int(getattr(model, "n_features_in_", 0))
        if isinstance(columns, str) or not hasattr(columns, "__iter__"):
            raise DeclarationError(f"linear_columns must be a list of columns, by number or name; received {columns!r}")
        names = getattr(model, "feature_names_in_", None)
        numbers = [column_number(column, "linear_columns", n, names) for column in columns]
        if len(set(numbers)) < len(numbers):
            raise DeclarationError(f"linear_columns names a column twice: {list(columns)!r}")
        if len(numbers) == n:
            raise DataError(
                f"all {n} columns are in linear_columns, which leaves none to the kernel; leave one out, or use linear "
                "least squares"
            )
        return numbers

    def border(self, X: Any, weights: Any) -> Border:
        """Return the columns that are not penalised, of some rows with their weights: the bias and the linear ones."""
        columns = self.linear_names()
        if not columns:
            return ONES
        if int(X.shape[0]) <= len(columns) + 1:
            raise DataError(
                f"{len(columns)} linear columns and the bias fit all {int(X.shape[0])} rows, which leaves none to "
                "the kernel; use fewer linear columns or more rows"
            )
        center = getattr(self.estimator, "linear_center_", None)
        return Border.of(to_numpy(self.take_linear(X)), to_numpy(weights), columns, center=center)

    def take_linear(self, X: Any) -> Array:
        """Return the columns of the linear part, dense, where X is."""
        return columns_of(X, self.linear_numbers())

    def linear_names(self) -> tuple[str, ...]:
        """Return what the columns of the linear part are called, for refusals."""
        names = getattr(self.estimator, "feature_names_in_", None)
        return tuple(f"column {k if names is None else repr(str(names[k]))}" for k in self.linear_numbers())

    def linear(self, X: Any) -> Array | None:
        """Return the linear columns at the rows of X, less their center."""
        if not hasattr(self.estimator, "linear_center_"):
            return None
        columns = self.take_linear(X)
        return columns - on_device_of(columns, self.estimator.linear_center_)

    def linear_slopes(self) -> Array | None:
        """Return their coefficients, one column per output."""
        return np.atleast_2d(self.estimator.coef_).T if hasattr(self.estimator, "linear_center_") else None

    def bias(self) -> Any:
        """Return the bias at the center of the linear columns."""
        return self.estimator.linear_bias_ if hasattr(self.estimator, "linear_center_") else self.estimator.bias_

    def keep_linear(self, slopes: Array | None, center: Array, bias: Array, one_output: bool, like: Any) -> Array:
        """Keep the coefficients, one column per output, and the bias at the center; return the bias at z = 0."""
        model = self.estimator
        model.linear_columns_ = np.array(self.linear_numbers(), dtype=np.intp)
        if slopes is None:
            model.coef_ = np.zeros((0,) if one_output else (int(bias.shape[0]), 0))
            return bias
        model.coef_ = np.ascontiguousarray(slopes[:, 0] if one_output else slopes.T)
        model.linear_center_ = np.array(center)
        at_center = to_numpy(bias)
        model.linear_bias_ = float(at_center[0]) if one_output else on_device_of(like, at_center)
        return np.asarray(at_center - center @ slopes)

    def keep_errors(self, deviations: Array | None, scale: Array, one_output: bool) -> None:
        """Keep the standard errors: deviations for unit noise, one column or one per output, times the size of the
        noise."""
        deviations = np.zeros((0, scale.size)) if deviations is None else deviations
        is_known = np.isfinite(deviations)  # what is unknown is so too where no noise is seen
        errors = np.where(is_known, np.where(is_known, deviations, 0.0) * scale, np.inf)
        self.estimator.coef_standard_errors_ = np.ascontiguousarray(errors[:, 0] if one_output else errors.T)

    def unpenalised(self, X: Any) -> Any:
        """Return what is added to the kernel expansion at the rows of X: one number per output, or one line per row."""
        linear, slopes = self.linear(X), self.linear_slopes()
        if linear is None or slopes is None:
            return self.bias()
        values = linear @ on_device_of(linear, slopes)
        return (values if self.outputs() else values[:, 0]) + self.bias()

    def outputs(self) -> tuple[int, ...]:
        """Return the shape of one row's prediction."""
        return self.estimator._coefficients().shape[1:]

    def evaluate(self, X: Any) -> Array:
        """Return the predictions of rows that were checked."""
        model = self.estimator
        kernel, support = model.kernel_, model.support_
        points = None if kernel.pairwise else model.support_vectors_
        return kernel.expansion_values(points, model._coefficients(), self.unpenalised(X), X, support)

    def evaluate_stream(self, X: Any) -> Array:
        """Return the predictions of rows that are read in passes, checked against the columns of the fit."""
        model, rows = self.estimator, source_of(X)
        if model.kernel_.pairwise:
            raise DataError("rows of a precomputed kernel matrix are predicted in memory; give them as an array")
        if rows.n_features != model.n_features_in_:
            raise DataError(f"{rows.name} has {rows.n_features} columns, the model has {model.n_features_in_}")
        return np.concatenate(list(each_block(rows, lambda block: self.evaluate(block.X))))

    def express(self, x: "Sequence[Node]") -> "list[Node]":
        """Return the outputs as formulas of the coordinates of a row, in the units of the machine: what
        :meth:`evaluate` computes.
        """
        from substrate.kernels.nodes import add_outputs, expand_kernel, expand_linear

        model = self.estimator
        coefficients = np.reshape(model._coefficients(), (model.support_.size, int(np.prod(self.outputs()))))
        outputs = expand_kernel(model.kernel_, model.support_vectors_, coefficients, x)
        slopes = self.linear_slopes()
        if slopes is not None:
            part = expand_linear(self.linear_numbers(), model.linear_center_, slopes, x)
            outputs = add_outputs(outputs, part)
        return add_outputs(outputs, np.atleast_1d(self.bias()))

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

    def coefficients_of(self, component: int) -> Array:
        """Return the coefficients of a component: all components share one expansion."""
        return self.estimator._coefficients()

    def component_values(self, X: Any) -> Array:
        """Return the components of a sum over the inputs."""
        model = self.estimator
        parts, vectors = components_of(model.kernel_, int(X.shape[1])), model.support_vectors_
        values = np.zeros((X.shape[0], len(parts), *self.outputs()))
        for rows in row_blocks(X.shape[0], vectors.shape[0]):
            for number, part in enumerate(parts):
                values[rows, number] = part(X[rows], vectors) @ self.coefficients_of(number)
        return values

    def move(self, model: Any) -> None:
        """Convert the further attributes of ``model``, a copy of the estimator in numpy, to numpy."""

    def check_loaded(self) -> None:
        """Refuse inconsistent attributes of a fitted model read from a file."""
        model = self.estimator
        if np.size(getattr(model, "linear_columns", ())):
            outputs, k = self.outputs(), len(self.linear_numbers())
            if model.coef_.shape != (*outputs, k) or not np.isfinite(model.coef_).all():
                raise DataError(f"coef_ of shape {model.coef_.shape} does not belong to {k} linear columns")
            if k and (model.linear_center_.shape != (k,) or np.shape(model.linear_bias_) != outputs):
                raise DataError("linear_center_ and linear_bias_ do not belong to coef_")
            if k and getattr(model.kernel_, "columns", None) != getattr(self.own_kernel(), "columns", None):
                raise DataError("kernel_ is not on the columns that linear_columns leaves to it")
        check_state(model)
