"""What every kernel estimator shares: validated input, a frozen kernel that can be tuned, prediction in blocks."""

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import Tags
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from substrate.arrays import Array, is_sparse, refuse_disguised
from substrate.errors import DataError, ScaleWarning
from substrate.kernels import Kernel, as_kernel
from substrate.kernels.base import row_blocks
from substrate.threads import blas_threads

__all__ = ["KernelEstimator"]

#: Ratio of column standard deviations beyond which a distance is the distance of one column.
_SCALES_APART = 100.0


class KernelEstimator(BaseEstimator):
    """Base of all estimators with a ``kernel``; :meth:`fit` sets ``kernel_`` and the expansion."""

    kernel: Any

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``kernel__sigma=2.0`` replaces the kernel by one with that width.

        Kernels are frozen values. scikit-learn would call ``set_params`` on the kernel and drop the new kernel it
        returns, so nested parameters of the kernel are taken care of here.
        """
        nested = {key.removeprefix("kernel__"): params[key] for key in params if key.startswith("kernel__")}
        super().set_params(**{key: value for key, value in params.items() if not key.startswith("kernel__")})
        if nested:
            if hasattr(self.kernel, "set_params"):  # a kernel object of scikit-learn, which is mutable
                self.kernel = clone(self.kernel).set_params(**nested)
            else:
                self.kernel = as_kernel(self.kernel).with_params(**nested)
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed" or bool(getattr(self.kernel, "pairwise", False))
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "support_values_")

    def _forget(self) -> None:
        """Drop what an earlier fit left: a fit that fails must not leave half of each behind."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def _checked(self, X: Any, y: Any, sample_weight: Any, *, multi_output: bool) -> tuple[Any, Array, Array, Any]:
        """Rows that count, their targets and weights, and which rows they are."""
        for values, name in ((X, "X"), (y, "y"), (sample_weight, "sample_weight")):
            refuse_disguised(values, name)
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=np.float64, order="C", y_numeric=True,
            multi_output=multi_output, ensure_min_samples=2,
        )  # fmt: skip
        if y.ndim == 2 and y.shape[1] == 1:
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected; it is read as y.ravel().",
                DataConversionWarning,
                stacklevel=3,
            )
            y = y.ravel()
        weights = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64), dtype=np.float64)
        if (weights < 0.0).any():
            raise DataError(f"sample_weight must not be negative, received {weights.min()} at row {weights.argmin()}")
        (rows,) = np.nonzero(weights)
        if rows.size < 2:
            raise DataError(
                f"at least two rows of positive weight are needed, received {rows.size} of {weights.size}; "
                "give more rows a positive sample_weight"
            )
        y = np.asarray(y, dtype=np.float64)
        if rows.size == weights.size:
            return X, y, weights, rows
        kept = X[rows][:, rows] if self.__sklearn_tags__().input_tags.pairwise else X[rows]
        return kept, y[rows], weights[rows], rows

    def _resolved_kernel(self, X: Any) -> Kernel:
        kernel = as_kernel(self.kernel)
        if kernel.pairwise and X.shape[0] != X.shape[1]:
            raise DataError(f"a precomputed kernel matrix must be square, received shape {X.shape}")
        if kernel.compares_distances and not is_sparse(X) and X.shape[1] > 1:
            self._warn_if_unscaled(X, kernel)
        return kernel.resolved(X)

    def _warn_if_unscaled(self, X: Array, kernel: Kernel) -> None:
        # In units of each column's largest entry: the squares of a column at 1e200 would overflow.
        sizes = np.abs(X).max(axis=0)
        units = np.where(sizes > 0.0, sizes, 1.0)
        spread = (X / units).std(axis=0) * units
        (moving,) = np.nonzero(spread > 0.0)
        if moving.size < 2:
            return
        low, high = moving[spread[moving].argmin()], moving[spread[moving].argmax()]
        if spread[high] > _SCALES_APART * spread[low]:
            names = getattr(self, "feature_names_in_", np.arange(X.shape[1]))
            warnings.warn(
                f"{kernel!r} compares distances, and column {names[high]!s} (standard deviation {spread[high]:.3g}) "
                f"drowns column {names[low]!s} ({spread[low]:.3g}); scale the columns first, for instance "
                "make_pipeline(StandardScaler(), ...)",
                ScaleWarning,
                stacklevel=5,
            )

    def _expansion(self, X: Any) -> Array:
        """sum_i alpha_i k(x_i, x) + b for every row x, block by block in constant memory."""
        check_is_fitted(self)
        refuse_disguised(X, "X")
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, order="C", reset=False)
        kernel, alpha = self.kernel_, self.support_values_
        points = None if kernel.pairwise else self.support_vectors_
        result = np.empty((X.shape[0], *alpha.shape[1:]))
        buffer = np.empty((256, alpha.shape[0]))
        with blas_threads(alpha.shape[0]):
            for rows in row_blocks(X.shape[0], alpha.shape[0]):
                block = buffer[: rows.stop - rows.start]
                given = X[rows][:, self.support_] if kernel.pairwise else X[rows]
                kernel.fill(given, points, block)
                np.matmul(block, alpha, out=result[rows])
        result += self.bias_
        return result
