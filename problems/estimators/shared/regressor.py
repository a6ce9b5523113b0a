r"""The task of regression: numbers as targets, intervals around predictions, R^2.

Every regressor has split conformal intervals: ``calibrate`` measures its errors on rows that it was not fitted to, and
the k-th smallest absolute error, :math:`k = \lceil c (n + 1) \rceil`, is added on both sides ([Vovk2005]_). Machines
with exact leave-one-out need no such rows (:mod:`problems.estimators.full.intervals`).
"""

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from problems.estimators.shared.base import KernelEstimator
from problems.estimators.shared.guarantees import Guarantee, guarantee_of
from substrate.arrays import Array, is_device_array, namespace_of, real_array, same_home, to_numpy
from substrate.errors import DataError
from substrate.intervals.conformal import exact_level, split_ends
from substrate.robust_weights import check_choice

__all__ = ["Regressor"]


class Regressor(RegressorMixin, KernelEstimator):
    """An estimator of numbers, with intervals by the errors of rows that the machine was not fitted to."""

    #: The methods of ``predict_interval``.
    _interval_methods: ClassVar[tuple[str, ...]] = ("auto", "split")

    def predict(self, X: Any) -> Any:
        """Predict f(x) = sum_i alpha_i k(x_i, x) + b."""
        return self._expansion(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R^2 of the predictions of X against y; targets and weights are where X is."""
        from sklearn.metrics import r2_score  # as in scikit-learn: imported only to score

        if is_device_array(X):
            same_home(X=X, y=y, sample_weight=sample_weight)
        return float(r2_score(to_numpy(y), to_numpy(self.predict(X)), sample_weight=to_numpy(sample_weight)))

    def calibrate(self, X: Any, y: Any) -> Self:
        """Measure the errors of this fitted model on rows that it has not seen; the model itself is not changed.

        ``method="split"`` uses ``calibration_scores_``, the absolute errors in ascending order. The coverage
        is guaranteed if these rows are exchangeable with the new ones, however the model was chosen and fitted.
        """
        check_is_fitted(self)
        fitted = self.predict(X)
        if is_device_array(fitted):
            same_home(X=X, y=y)
        targets = real_array(to_numpy(y), "y", ndim=fitted.ndim)
        if targets.shape != tuple(fitted.shape):
            raise DataError(
                f"y must have the targets of the rows of X: expected shape {tuple(fitted.shape)}, received "
                f"{targets.shape}"
            )
        self.calibration_scores_ = np.sort(np.abs(targets - to_numpy(fitted)), axis=0)
        return self

    def predict_interval(self, X: Any, coverage: float = 0.9, method: str = "auto") -> Array:
        """Return lower and upper ends that hold a new target with probability ``coverage``.

        Parameters
        ----------
        X : array of shape (n, n_features)
            New rows.
        coverage : float, default=0.9
            Share of new targets to be covered, above 0 and below 1, for every output on its own.
        method : {"auto", "split"}, default="auto"
            Both are split conformal intervals, after :meth:`calibrate`: the machine without one of its rows is not
            available in closed form.

        Returns
        -------
        array of shape (n, 2) or (n, n_outputs, 2)
            Infinite where there are too few rows for the coverage (8 or fewer for 0.9).
        """
        self._interval_method(coverage, method)
        return self._split_ends(X, coverage)

    def interval_guarantee(self, coverage: float = 0.9, method: str = "auto") -> Guarantee:
        """Return what :meth:`predict_interval` guarantees for this model, and what breaks it, if anything does."""
        method = self._interval_method(coverage, method)
        return guarantee_of(method, coverage, int(np.prod(self._outputs() or (1,))), self._chosen_on_rows())

    def _interval_method(self, coverage: float, method: str) -> str:
        """Return the method to use; refuse an unknown method, an invalid coverage, and a model that is not fitted."""
        check_choice(method, self._interval_methods, "method")
        exact_level(coverage)
        check_is_fitted(self)
        return self._default_method() if method == "auto" else method

    def _default_method(self) -> str:
        """Return the method that "auto" stands for."""
        return "split"

    def _chosen_on_rows(self) -> tuple[str, ...]:
        """Return what was chosen or computed from the training rows, which breaks the guarantee of leaving them out."""
        return ()

    def _split_ends(self, X: Any, coverage: float) -> Array:
        """Return the ends of split conformal intervals."""
        if not hasattr(self, "calibration_scores_"):
            raise DataError(
                f"this {type(self).__name__} has no calibration rows; call calibrate(X, y) first, with rows that it "
                "was not fitted to"
            )
        fitted = self.predict(X)
        columns = fitted[:, None] if fitted.ndim == 1 else fitted
        scores = np.reshape(self.calibration_scores_, (-1, columns.shape[1]))
        return self._joined([split_ends(scores[:, k], columns[:, k], coverage) for k in range(scores.shape[1])])

    def _joined(self, columns: list[Array]) -> Array:
        """Return the results of all outputs in the shape of predictions."""
        return columns[0] if self._outputs() == () else namespace_of(columns[0]).stack(columns, axis=1)
