"""Machines with a linear part: columns that are not penalised, and that the kernel does not see."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from problems.estimators.shared.base import KernelEstimator
from problems.estimators.shared.checks import column_number
from problems.estimators.shared.left_out import LeftOutOutputs, leave_one_out
from substrate.arrays import Array, on_device_of, to_numpy
from substrate.certificate import Row
from substrate.errors import DataError, DeclarationError
from substrate.kernels import Kernel, Restricted
from substrate.operators.border import ONES, Border
from substrate.operators.kernel_rows import columns_of

if TYPE_CHECKING:
    from substrate.kernels.nodes import Node

__all__ = ["PartlyLinear"]


class PartlyLinear(KernelEstimator):
    """An estimator with a parameter ``linear_columns``, of which every row can be left out, without a refit where it
    solves one linear system.
    """

    linear_columns: Any

    leave_one_out = leave_one_out

    def _own_kernel(self, given: Any = None) -> Kernel:
        """Return the kernel of the machine, on the columns that are not linear."""
        kernel = super()._own_kernel(given)
        if not np.size(self.linear_columns):
            return kernel
        if kernel.pairwise:
            raise DeclarationError(
                f"{type(self).__name__} takes its linear part from the columns of X, which a precomputed kernel "
                "matrix does not have; fit with a kernel of substrate.kernels on X itself"
            )
        if not hasattr(self, "n_features_in_"):  # before a fit, as given
            return kernel
        linear = self._linear_numbers()
        return Restricted(kernel, tuple(k for k in range(self.n_features_in_) if k not in linear))

    def _linear_numbers(self) -> list[int]:
        """Return the numbers of the columns of the linear part, as fitted where there is a fit."""
        if hasattr(self, "linear_columns_"):
            return [int(column) for column in self.linear_columns_]
        columns, n = self.linear_columns, int(getattr(self, "n_features_in_", 0))
        if isinstance(columns, str) or not hasattr(columns, "__iter__"):
            raise DeclarationError(f"linear_columns must be a list of columns, by number or name; received {columns!r}")
        names = getattr(self, "feature_names_in_", None)
        numbers = [column_number(column, "linear_columns", n, names) for column in columns]
        if len(set(numbers)) < len(numbers):
            raise DeclarationError(f"linear_columns names a column twice: {list(columns)!r}")
        if len(numbers) == n:
            raise DataError(
                f"all {n} columns are in linear_columns, which leaves none to the kernel; leave one out, or use linear "
                "least squares"
            )
        return numbers

    def _linear_names(self) -> tuple[str, ...]:
        """Return what the columns of the linear part are called, for refusals."""
        names = getattr(self, "feature_names_in_", None)
        return tuple(f"column {k if names is None else repr(str(names[k]))}" for k in self._linear_numbers())

    def _border(self, X: Any, weights: Any) -> Border:
        """Return the columns that are not penalised, of some rows with their weights: the bias and the linear ones."""
        if not np.size(self.linear_columns):
            return ONES
        columns = self._linear_names()
        if int(X.shape[0]) <= len(columns) + 1:
            raise DataError(
                f"{len(columns)} linear columns and the bias fit all {int(X.shape[0])} rows, which leaves none to "
                "the kernel; use fewer linear columns or more rows"
            )
        center, values = getattr(self, "linear_center_", None), to_numpy(columns_of(X, self._linear_numbers()))
        return Border.of(values, to_numpy(weights), columns, center=center)

    def _linear_values(self, X: Any) -> Array | None:
        """Return the linear columns at the rows of X, dense, where X is, less their center."""
        if not hasattr(self, "linear_center_"):
            return None
        columns = columns_of(X, self._linear_numbers())
        return columns - on_device_of(columns, self.linear_center_)

    def _linear_slopes(self) -> Array | None:
        """Return their coefficients, one column per output."""
        return np.atleast_2d(self.coef_).T if hasattr(self, "linear_center_") else None

    def _central_bias(self) -> Any:
        """Return the bias at the center of the linear columns."""
        return self.linear_bias_ if hasattr(self, "linear_center_") else self.bias_

    def _unpenalised(self, X: Any) -> Any:
        linear, slopes = self._linear_values(X), self._linear_slopes()
        if linear is None or slopes is None:
            return self.bias_
        values = linear @ on_device_of(linear, slopes)
        return (values if self._outputs() else values[:, 0]) + self.linear_bias_

    def _express(self, x: "Sequence[Node]") -> "list[Node]":
        slopes = self._linear_slopes()
        if slopes is None:
            return super()._express(x)
        from substrate.kernels.nodes import add_outputs, expand_linear

        part = expand_linear(self._linear_numbers(), self.linear_center_, slopes, x)
        return add_outputs(add_outputs(self._express_kernel(x), part), np.atleast_1d(self.linear_bias_))

    def _keep_linear(self, slopes: Array | None, center: Array, bias: Array, one_output: bool, like: Any) -> Array:
        """Keep the coefficients, one column per output, and the bias at the center; return the bias at z = 0."""
        self.linear_columns_ = np.array(self._linear_numbers(), dtype=np.intp)
        if slopes is None:
            self.coef_ = np.zeros((0,) if one_output else (int(bias.shape[0]), 0))
            return bias
        self.coef_ = np.ascontiguousarray(slopes[:, 0] if one_output else slopes.T)
        self.linear_center_ = np.array(center)
        at_center = to_numpy(bias)
        self.linear_bias_ = float(at_center[0]) if one_output else on_device_of(like, at_center)
        return np.asarray(at_center - center @ slopes)

    @abstractmethod
    def _leave_rows_out(self, X: Any, y: Any, sample_weight: Any) -> LeftOutOutputs:
        """Leave every row of the fit out. Rows are given again where the model does not keep them; a refit checks the
        result.
        """

    def _rests_on(self) -> tuple[Row, ...]:
        """Return the accuracy of the fit: left-out residuals are only as accurate as the support values."""
        answer = self.certificate_.answer
        return () if answer is None else (answer.plain("accuracy of the fit"),)
