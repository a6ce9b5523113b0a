r"""Prediction intervals of regressors: by rows kept for calibration, or by leaving every training row out.

Every regressor has split conformal intervals: ``calibrate`` measures its errors on rows that it was not fitted to, and
the k-th smallest absolute error, :math:`k = \lceil c (n + 1) \rceil`, is added on both sides ([Vovk2005]_). Machines
with exact leave-one-out need no such rows (:mod:`problems.estimators.full.intervals`).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from problems.estimators.shared.guarantees import Guarantee, check_method, guarantee_of
from substrate.arrays import Array, namespace_of
from substrate.errors import DataError
from substrate.uncertainty.intervals import exact_level, split_ends

__all__ = ["Intervals"]


@dataclass(frozen=True, eq=False, repr=False)
class Intervals:
    """Split conformal intervals, by the errors of rows that the machine was not fitted to."""

    estimator: Any

    #: The methods of ``predict_interval``.
    methods: ClassVar[tuple[str, ...]] = ("auto", "split")

    def resolve(self, method: str) -> str:
        """Return the method that "auto" stands for, and any other method unchanged."""
        return self.left_out_method() if method == "auto" else method

    def left_out_method(self) -> str:
        """Return the method that repeats no fit."""
        return "split"

    def check(self, coverage: float, method: str) -> str:
        """Return the method to use; refuse an unknown method, an invalid coverage, and a model that is not fitted."""
        check_method(method, self.methods)
        exact_level(coverage)
        check_is_fitted(self.estimator)
        return self.resolve(method)

    def guarantee(self, coverage: float, method: str) -> Guarantee:
        """Return what intervals guarantee, and what breaks it, if anything does."""
        method = self.check(coverage, method)
        outputs = int(np.prod(self.estimator._outputs() or (1,)))
        return guarantee_of(method, coverage, outputs, self.chosen_on_rows())

    def chosen_on_rows(self) -> tuple[str, ...]:
        """Return what was chosen or computed from the training rows, which breaks the guarantee of leaving them out."""
        return ()

    def split_ends(self, X: Any, coverage: float) -> Array:
        """Return the ends of split conformal intervals."""
        model = self.estimator
        if not hasattr(model, "calibration_scores_"):
            raise DataError(
                f"this {type(model).__name__} has no calibration rows; call calibrate(X, y) first, with rows that it "
                "was not fitted to"
            )
        fitted, scores = model.predict(X), model.calibration_scores_
        if scores.ndim == 1:
            return split_ends(scores, fitted, coverage)
        ends = [split_ends(scores[:, k], fitted[:, k], coverage) for k in range(scores.shape[1])]
        return namespace_of(fitted).stack(ends, axis=1)

    def check_loaded(self) -> None:
        """Refuse scores that cannot result from a calibration."""
        model = self.estimator
        scores = getattr(model, "calibration_scores_", None)
        if scores is not None and (
            scores.dtype.kind != "f"
            or scores.shape[1:] != model._outputs()
            or not scores.shape[0]
            or not (np.isfinite(scores).all() and (scores >= 0.0).all() and (np.diff(scores, axis=0) >= 0.0).all())
        ):
            raise DataError("calibration scores must be absolute errors in ascending order, one column per output")
