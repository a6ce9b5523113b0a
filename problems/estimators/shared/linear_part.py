"""The linear part of a machine: columns that are not penalised, which the kernel does not see."""

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from problems.estimators.shared.base import KernelEstimator
from substrate.arrays import Array
from substrate.errors import DataError, DeclarationError
from substrate.kernels import Kernel, Restricted, as_kernel
from substrate.least_squares.primal_weights import LinearTerm, PrimalWeights
from substrate.namespaces import on_device_of, to_numpy
from substrate.reduced.linear_columns import columns_of

__all__ = ["LinearPart", "LinearRegression"]


@dataclass(eq=False, repr=False, kw_only=True)
class LinearPart(KernelEstimator):
    """The linear part: its columns, which the kernel does not see, their coefficients, and where they are measured."""

    linear_columns: Any = ()
    _page = "partially_linear_ls_svm"
    _plain_page: ClassVar[str] = "ls_svm_regression"
    _takes_matrix = False

    def _own_page(self) -> str:
        """That of the plain machine where there is no linear part."""
        return self._page if np.size(self.linear_columns) else self._plain_page

    def _linear_numbers(self) -> list[int]:
        """The numbers of the columns of the linear part, those of the fit where there is one."""
        if hasattr(self, "linear_columns_"):
            return [int(column) for column in self.linear_columns_]
        given, n = self.linear_columns, int(self.n_features_in_)
        if isinstance(given, (str, Integral)) or not hasattr(given, "__iter__"):
            raise DeclarationError(f"linear_columns must be a list of columns, by number or name; received {given!r}")
        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        numbers: list[int] = []
        for column in given:
            if isinstance(column, str):
                if column not in names:
                    known = f"the columns are {', '.join(names)}" if names else "X has no column names; give numbers"
                    raise DataError(f"linear_columns names {column!r}, which X does not have; {known}")
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
            raise DeclarationError(f"linear_columns names a column twice: {list(given)!r}")
        if len(numbers) == n:
            raise DataError(
                f"all {n} columns are in linear_columns, which leaves none to the kernel; leave one out, or use linear "
                "least squares"
            )
        return numbers

    def _own_kernel(self) -> Kernel:
        kernel = as_kernel(self.kernel)
        if kernel.pairwise:
            raise DeclarationError(
                f"{type(self).__name__} takes its linear part from the columns of X, which a precomputed kernel matrix "
                "does not have; fit with a kernel of substrate.kernels on X itself"
            )
        return self._off_linear(kernel)

    def _off_linear(self, kernel: Kernel) -> Kernel:
        """The kernel on the columns that are not in the linear part; before a fit as it is given."""
        linear = self._linear_numbers() if hasattr(self, "n_features_in_") else []
        return Restricted(kernel, tuple(k for k in range(self.n_features_in_) if k not in linear)) if linear else kernel

    def _taken(self, X: Any) -> Array:
        """The columns of the linear part, dense, where X is."""
        return columns_of(X, self._linear_numbers())

    def _column_names(self) -> tuple[str, ...]:
        """What the columns of the linear part are called, for refusals."""
        names = getattr(self, "feature_names_in_", None)
        return tuple(f"column {k if names is None else repr(str(names[k]))}" for k in self._linear_numbers())

    def _linear(self, X: Any) -> Array | None:
        if not hasattr(self, "linear_center_"):
            return None
        part = self._taken(X)
        centred: Array = part - on_device_of(part, self.linear_center_)
        return centred

    def _primal(self) -> PrimalWeights | None:
        primal, slopes = super()._primal(), self._linear_slopes()
        if primal is None or slopes is None:
            return primal
        return replace(primal, linear=LinearTerm(tuple(self._linear_numbers()), self.linear_center_, slopes))

    def _linear_slopes(self) -> Array | None:
        return np.atleast_2d(self.coef_).T if hasattr(self, "linear_center_") else None

    def _bias(self) -> Any:
        return self.linear_bias_ if hasattr(self, "linear_center_") else super()._bias()

    def _keep_linear(self, slopes: Array | None, center: Array, bias: Array, one_output: bool, like: Any) -> Array:
        """Keep the coefficients, one column per output, and the bias at the center; return that where z is zero."""
        self.linear_columns_ = np.array(self._linear_numbers(), dtype=np.intp)
        if slopes is None:
            self.coef_ = np.zeros((0,) if one_output else (int(bias.shape[0]), 0))
            return bias
        self.coef_ = np.ascontiguousarray(slopes[:, 0] if one_output else slopes.T)
        self.linear_center_ = np.array(center)
        at_center = to_numpy(bias)
        self.linear_bias_ = float(at_center[0]) if one_output else on_device_of(like, at_center)
        return np.asarray(at_center - center @ slopes)

    def _check_loaded(self) -> None:
        if self.__sklearn_is_fitted__():
            outputs, k = self._outputs(), len(self._linear_numbers())
            if self.coef_.shape != (*outputs, k) or not np.isfinite(self.coef_).all():
                raise DataError(f"coef_ of shape {self.coef_.shape} does not belong to {k} linear columns")
            if k and (self.linear_center_.shape != (k,) or np.shape(self.linear_bias_) != outputs):
                raise DataError("linear_center_ and linear_bias_ do not belong to coef_")
            wanted = self._own_kernel() if k else None
            if wanted is not None and getattr(self.kernel_, "columns", None) != getattr(wanted, "columns", None):
                raise DataError("kernel_ is not on the columns that linear_columns leaves to it")
        super()._check_loaded()


class LinearRegression(LinearPart):
    """The coefficients of a linear part in regression have standard errors."""

    def _keep_errors(self, deviations: Array | None, scale: Array, one_output: bool) -> None:
        """Keep the standard errors: deviations for noise of size one, a column or one per output, times that size."""
        deviations = np.zeros((0, scale.size)) if deviations is None else deviations
        known = np.isfinite(deviations)  # what is unknown is so too where no noise is seen
        errors = np.where(known, np.where(known, deviations, 0.0) * scale, np.inf)
        self.coef_standard_errors_ = np.ascontiguousarray(errors[:, 0] if one_output else errors.T)
