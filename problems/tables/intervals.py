"""Intervals beside the predictions of a table, and the sentence that says what they guarantee."""

from typing import Any

import numpy as np

from problems.estimators.chosen.stacked import StackIntervals
from problems.estimators.shared.intervals import LeftOutIntervals
from problems.estimators.shared.model import has_part
from problems.tables.class_columns import depend_by, set_columns, set_statement, with_breaks
from problems.tables.preparation import Preparation
from substrate.arrays import Array
from substrate.errors import DataError
from substrate.uncertainty.levels import exact_level

__all__ = ["interval_columns", "interval_ends", "interval_method", "interval_statement"]


def interval_method(estimator: Any, method: str = "auto") -> str:
    """Return the method asked for; "auto" is by rows that were held out, else by leaving rows out, else Gaussian."""
    if method != "auto":
        return method
    if hasattr(estimator, "calibration_scores_"):
        return "split"
    is_stack = has_part(estimator, StackIntervals)
    if not is_stack and not has_part(estimator, LeftOutIntervals):
        raise DataError(
            f"this {type(estimator).__name__} has no errors of rows that it was not fitted to; fit with --no-refit, "
            "and where the held-out rows chose the weight, give that weight too (--zeta, --rho)"
        )
    resolved: str = estimator._intervals.resolve("auto")
    return resolved if is_stack or hasattr(estimator, "ridge_") else "gaussian"


def interval_ends(estimator: Any, X: Array, coverage: float, method: str = "auto", *, adaptive: bool = False) -> Array:
    """Return the ends of intervals at prepared rows; with ``adaptive``, wide where errors are large."""
    if adaptive:
        return np.asarray(estimator.predict_interval(X, coverage, method, adaptive=True))
    return np.asarray(estimator.predict_interval(X, coverage, interval_method(estimator, method)))


def interval_columns(estimator: Any, X: Array, coverage: float, *, adaptive: bool = False) -> dict[str, Array]:
    """Return columns ``lower`` and ``upper``; of several outputs, numbered as the predictions are; for classes their
    sets.
    """
    exact_level(coverage, "--coverage")
    if estimator._labels:
        if adaptive:
            raise DataError("--adaptive is for intervals of numbers, and this model predicts classes; leave it out")
        return set_columns(estimator, X, coverage)
    ends = interval_ends(estimator, X, coverage, adaptive=adaptive)
    if ends.ndim == 2:
        return {"lower": ends[:, 0], "upper": ends[:, 1]}
    names = ("lower", "upper")
    return {f"{name}_{k}": ends[:, k, side] for k in range(ends.shape[1]) for side, name in enumerate(names)}


def interval_statement(
    estimator: Any, preparation: Preparation | None, coverage: float, *, adaptive: bool = False
) -> str:
    """Return what the columns guarantee."""
    if estimator._labels:
        return set_statement(estimator, preparation, coverage)
    if adaptive:
        method = estimator._intervals.resolve_adaptive("auto")
        guarantee = with_breaks(
            estimator.interval_guarantee(coverage, method, adaptive=True), preparation, method == "split"
        )
        return f"adaptive intervals by method {method}: {guarantee}"
    method = interval_method(estimator)
    guarantee = with_breaks(estimator.interval_guarantee(coverage, method), preparation, method == "split")
    exact = "; substrate fit --no-refit keeps intervals by the rows held out, which are exact"
    can_be_exact = preparation is not None and preparation.refitted and not depend_by(preparation)
    more = exact if can_be_exact and method not in ("gaussian", "nested", "split") else ""
    return f"intervals by method {method}: {guarantee}{more}"
