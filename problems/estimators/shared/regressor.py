"""The task of regression: numbers as targets, intervals around predictions, R^2."""

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from problems.estimators.shared.base import KernelEstimator
from problems.estimators.shared.coded import Numbers
from problems.estimators.shared.guarantees import Guarantee
from problems.estimators.shared.intervals import Intervals
from substrate.arrays import Array, is_device_array, real_array, same_home, to_numpy
from substrate.errors import DataError

__all__ = ["Regressor"]


class Regressor(RegressorMixin, KernelEstimator):
    """An estimator of numbers; its intervals are made by a kind of :class:`Intervals`."""

    #: The kind of its prediction intervals.
    _intervals_type: ClassVar[type[Intervals]] = Intervals

    @property
    def _intervals(self) -> Any:
        return self._intervals_type(self)

    def predict(self, X: Any) -> Any:
        """Predict f(x) = sum_i alpha_i k(x_i, x) + b."""
        return self._expansion(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R^2 of the predictions of X against y; targets and weights are where X is."""
        if not is_device_array(X):
            return float(super().score(X, y, sample_weight))
        from sklearn.metrics import r2_score  # as in scikit-learn: imported only to score

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
        self._intervals.check(coverage, method)
        return self._intervals.split_ends(X, coverage)

    def interval_guarantee(self, coverage: float = 0.9, method: str = "auto") -> Guarantee:
        """Return what :meth:`predict_interval` guarantees for this model, and what breaks it, if anything does."""
        return self._intervals.guarantee(coverage, method)

    def _encode(self, y: Any) -> Numbers:
        """Return the coding of the targets: numbers, unchanged."""
        return Numbers()

    def _codes_again(self, y: Any) -> Any:
        """Return the targets of the fit, given again, one column per output."""
        return Numbers().codes(y)

    def _keep_classes(self, classes: Any, codes: Any = None) -> None:
        """Do nothing: there are no classes."""

    def _check_coding(self) -> None:
        """Do nothing: a regressor has no coding."""

    def _check_loaded(self) -> None:
        super()._check_loaded()
        self._intervals.check_loaded()
