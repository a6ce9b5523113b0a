"""The linear part of a machine: columns that are not penalised, which the kernel does not see."""

from numbers import Integral
from typing import Any

import numpy as np

from problems.estimators.shared.model import Model
from substrate.arrays import Array
from substrate.errors import DataError, DeclarationError
from substrate.kernels import Kernel, Restricted
from substrate.least_squares.border import Border
from substrate.namespaces import on_device_of, to_numpy
from substrate.reduced.linear_columns import columns_of

__all__ = ["LinearColumnsModel"]


class LinearColumnsModel(Model):
    """The linear part: its columns, which the kernel does not see, their coefficients, and where they are measured.

    The estimator has a parameter ``linear_columns``; the coefficients of a regression have standard errors.
    """

    def linear_numbers(self) -> list[int]:
        """Return the numbers of the columns of the linear part, those of the fit where there is one."""
        model = self.estimator
        if hasattr(model, "linear_columns_"):
            return [int(column) for column in model.linear_columns_]
        columns, n = model.linear_columns, int(model.n_features_in_)
        if isinstance(columns, (str, Integral)) or not hasattr(columns, "__iter__"):
            raise DeclarationError(f"linear_columns must be a list of columns, by number or name; received {columns!r}")
        names = [str(name) for name in getattr(model, "feature_names_in_", ())]
        numbers: list[int] = []
        for column in columns:
            if isinstance(column, str):
                if column not in names:
                    columns_in_words = (
                        f"the columns are {', '.join(names)}" if names else "X has no column names; give numbers"
                    )
                    raise DataError(f"linear_columns names {column!r}, which X does not have; {columns_in_words}")
                numbers.append(names.index(column))
            elif isinstance(column, Integral) and not isinstance(column, bool):
                if not 0 <= int(column) < n:
                    raise DataError(
                        f"linear_columns holds {int(column)}, and X has {n} columns, numbered from 0 to {n - 1}"
                    )
                numbers.append(int(column))
            else:
                raise DeclarationError(f"linear_columns must hold numbers or names of columns, received {column!r}")
        if len(set(numbers)) < len(numbers):
            raise DeclarationError(f"linear_columns names a column twice: {list(columns)!r}")
        if len(numbers) == n:
            raise DataError(
                f"all {n} columns are in linear_columns, which leaves none to the kernel; leave one out, or use linear "
                "least squares"
            )
        return numbers

    def own_kernel(self, given: Any = None) -> Kernel:
        """Return the kernel on the columns that are not linear."""
        kernel = super().own_kernel(given)
        if kernel.pairwise and (np.size(self.estimator.linear_columns) or not self.estimator._takes_matrix):
            raise DeclarationError(
                f"{type(self.estimator).__name__} takes its linear part from the columns of X, which a precomputed "
                "kernel matrix does not have; fit with a kernel of substrate.kernels on X itself"
            )
        # before a fit as it is given
        linear = self.linear_numbers() if hasattr(self.estimator, "n_features_in_") else []
        return (
            Restricted(kernel, tuple(k for k in range(self.estimator.n_features_in_) if k not in linear))
            if linear
            else kernel
        )

    def border(self, X: Any, weights: Any) -> Border:
        """Return the bias and the linear columns."""
        columns = self.column_names()
        if not columns:
            return super().border(X, weights)
        if int(X.shape[0]) <= len(columns) + 1:
            raise DataError(
                f"{len(columns)} linear columns and the bias fit all {int(X.shape[0])} rows, which leaves none to "
                "the kernel; use fewer linear columns or more rows"
            )
        center = getattr(self.estimator, "linear_center_", None)
        return Border.of(to_numpy(self.take_linear(X)), to_numpy(weights), columns, center=center)

    def refuse_search(self, search: str | None) -> None:
        """Refuse searches that know no linear part."""
        if np.size(self.estimator.linear_columns) and search == "gradient":
            raise DeclarationError(
                "search='gradient' supports a bias, but no other unpenalised columns; use a list of kernels, or "
                "linear_columns=()"
            )

    def take_linear(self, X: Any) -> Array:
        """Return the columns of the linear part, dense, where X is."""
        return columns_of(X, self.linear_numbers())

    def column_names(self) -> tuple[str, ...]:
        """Return what the columns of the linear part are called, for refusals."""
        names = getattr(self.estimator, "feature_names_in_", None)
        return tuple(f"column {k if names is None else repr(str(names[k]))}" for k in self.linear_numbers())

    def linear(self, X: Any) -> Array | None:
        """Return the linear columns at the rows of X, less their center."""
        if not hasattr(self.estimator, "linear_center_"):
            return None
        columns = self.take_linear(X)
        centred: Array = columns - on_device_of(columns, self.estimator.linear_center_)
        return centred

    def linear_slopes(self) -> Array | None:
        """Return their coefficients, one column per output."""
        return np.atleast_2d(self.estimator.coef_).T if hasattr(self.estimator, "linear_center_") else None

    def bias(self) -> Any:
        """Return the bias at the center of the linear columns."""
        return self.estimator.linear_bias_ if hasattr(self.estimator, "linear_center_") else super().bias()

    def keep_linear(self, slopes: Array | None, center: Array, bias: Array, one_output: bool, like: Any) -> Array:
        """Keep the coefficients, one column per output, and the bias at the center; return that where z is zero."""
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
        """Keep the standard errors: deviations for noise of size one, a column or one per output, times that size."""
        deviations = np.zeros((0, scale.size)) if deviations is None else deviations
        is_known = np.isfinite(deviations)  # what is unknown is so too where no noise is seen
        errors = np.where(is_known, np.where(is_known, deviations, 0.0) * scale, np.inf)
        self.estimator.coef_standard_errors_ = np.ascontiguousarray(errors[:, 0] if one_output else errors.T)

    def check_loaded(self) -> None:
        """Refuse a linear part that no fit leaves."""
        model = self.estimator
        if not np.size(model.linear_columns):
            super().check_loaded()
            return
        outputs, k = self.outputs(), len(self.linear_numbers())
        if model.coef_.shape != (*outputs, k) or not np.isfinite(model.coef_).all():
            raise DataError(f"coef_ of shape {model.coef_.shape} does not belong to {k} linear columns")
        if k and (model.linear_center_.shape != (k,) or np.shape(model.linear_bias_) != outputs):
            raise DataError("linear_center_ and linear_bias_ do not belong to coef_")
        wanted = self.own_kernel() if k else None
        if wanted is not None and getattr(model.kernel_, "columns", None) != getattr(wanted, "columns", None):
            raise DataError("kernel_ is not on the columns that linear_columns leaves to it")
        super().check_loaded()
