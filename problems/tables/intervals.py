"""Intervals beside the predictions of a table, and the sentence that says what they guarantee."""

from typing import Any

import numpy as np

from problems.estimators.full.nested import NestedIntervals
from problems.estimators.shared.guarantees import Guarantee
from problems.estimators.shared.intervals import LeftOutIntervals
from problems.estimators.shared.model import has_part
from problems.tables.class_columns import depend_by, set_columns, set_statement, with_breaks
from problems.tables.preparation import Preparation
from substrate.arrays import Array
from substrate.errors import DataError
from substrate.uncertainty import gaussian_ends
from substrate.uncertainty.levels import exact_level

__all__ = [
    "describe_intervals",
    "interval_columns",
    "interval_ends",
    "interval_guarantee",
    "interval_method",
    "interval_statement",
    "keep_intervals",
]

#: What intervals of a method are made by.
_SOURCES = {
    "conformal": "leaving single rows out",
    "gaussian": "the deviation of a Gaussian process",
    "jackknife+": "leaving single rows out",
    "nested": "folds that repeat the search",
    "split": "the rows that were held out",
}


#: Why error bars of a Gaussian process are right, where they are.
_PROCESS = "the targets are a Gaussian process with this kernel, gamma and normal noise"


def interval_method(estimator: Any, method: str = "auto") -> str:
    """Return the method asked for; "auto" is by rows that were held out, else that of the machine, and "gaussian" for
    one that does not keep its rows.
    """
    if method != "auto":
        return method
    if hasattr(estimator, "calibration_scores_"):
        return "split"
    resolved: str = estimator._intervals.resolve("auto")
    if has_part(estimator, NestedIntervals) and resolved != "split":
        return resolved
    if has_part(estimator, LeftOutIntervals) and resolved != "split":
        return "gaussian"
    raise DataError(
        f"this {type(estimator).__name__} has no errors of rows that it was not fitted to; fit with --no-refit, and "
        "where the held-out rows chose the weight, give that weight too (--zeta, --rho)"
    )


def keep_intervals(estimator: Any) -> None:
    """Make the machines of nested intervals where these are the default, so that a file holds them."""
    if not has_part(estimator, NestedIntervals) or hasattr(estimator, "calibration_scores_"):
        return
    if estimator._intervals.resolve("auto") == "nested":
        estimator._intervals.make_nested()


def describe_intervals(estimator: Any, preparation: Preparation | None) -> str:
    """Return by which method intervals are made, and whether a coverage is guaranteed."""
    guarantee = interval_guarantee(estimator, preparation, 0.9, "auto")
    known = "" if guarantee.holds else "; no coverage is guaranteed"
    return f"intervals: method {guarantee.method}, by {_SOURCES[guarantee.method]}{known}"


def interval_ends(estimator: Any, X: Array, coverage: float, method: str = "auto") -> Array:
    """Return the ends of intervals at prepared rows."""
    chosen = interval_method(estimator, method)
    if chosen == "gaussian":
        fitted, deviations = estimator.predict(X, return_std=True)
        return gaussian_ends(np.asarray(fitted), np.asarray(deviations), coverage)
    return np.asarray(estimator.predict_interval(X, coverage, chosen))


def interval_guarantee(estimator: Any, preparation: Preparation | None, coverage: float, method: str) -> Guarantee:
    """Return what intervals guarantee, with what the preparation of the table breaks of it."""
    chosen = interval_method(estimator, method)
    if chosen == "gaussian":
        return Guarantee(chosen, float(exact_level(coverage)), None, (_PROCESS,))
    return with_breaks(estimator.interval_guarantee(coverage, chosen), preparation)


def interval_columns(estimator: Any, X: Array, coverage: float, *, adaptive: bool = False) -> dict[str, Array]:
    """Return columns ``lower`` and ``upper``; of several outputs, numbered as the predictions are; for classes their
    sets.
    """
    exact_level(coverage, "--coverage")
    if estimator._labels:
        if adaptive:
            raise DataError("--adaptive is for intervals of numbers, and this model predicts classes; leave it out")
        return set_columns(estimator, X, coverage)
    ends = interval_ends(estimator, X, coverage, _asked(adaptive))
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
    guarantee = interval_guarantee(estimator, preparation, coverage, _asked(adaptive))
    exact = "; substrate fit --no-refit keeps intervals by the rows held out, which are exact"
    can_be_exact = preparation is not None and preparation.refitted and not depend_by(preparation)
    more = exact if can_be_exact and guarantee.method in ("conformal", "jackknife+") else ""
    return f"intervals by method {guarantee.method}: {guarantee}{more}"


def _asked(adaptive: bool) -> str:
    return "adaptive" if adaptive else "auto"
