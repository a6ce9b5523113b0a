"""Columns beside predicted classes: their probabilities, and the labels of a set with a level of coverage."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from problems.estimators.shared.guarantees import Guarantee
from problems.tables.preparation import Preparation
from substrate.arrays import Array
from substrate.errors import DataError, SubstrateError

__all__ = [
    "calibrate_classifier",
    "depend_by",
    "probability_columns",
    "set_columns",
    "set_statement",
    "with_breaks",
]

_STANDARDISED = "the inputs were standardised by these rows"
#: A machine that was fitted again does not know where its kernel and gamma come from.
_REFITTED = "the kernel or gamma was chosen by some of these rows"


def with_breaks(guarantee: Guarantee, preparation: Preparation | None) -> Guarantee:
    """Return a guarantee with what the preparation of the table breaks of it.

    Rows held out are free of all that was chosen, and folds that repeat the search of the choice of kernel and gamma.
    """
    if preparation is None:
        return guarantee
    is_held = preparation.refitted and guarantee.method not in ("split", "nested", "adaptive")
    chosen = (_REFITTED,) if is_held else ()
    standardised = (_STANDARDISED,) if preparation.standardised and guarantee.method != "split" else ()
    broken = (*guarantee.broken, *chosen, *standardised, *depend_by(preparation))
    return replace(guarantee, broken=broken)


def depend_by(preparation: Preparation) -> tuple[str, ...]:
    """Return what makes rows depend on each other, so that they are not exchangeable, whichever are left out."""
    split = preparation.split
    by_group = (f"rows of one {split.group} depend on each other",) if split.group else ()
    return (*by_group, "rows depend on those before them in time") if split.kind == "time" else by_group


def calibrate_classifier(estimator: Any) -> None:
    """Calibrate a classifier while its training rows are there, so that its file holds what probabilities need."""
    with suppress(SubstrateError):  # too few rows, for instance: a file without probabilities predicts
        _ = estimator.calibration_scores_


def probability_columns(estimator: Any, X: Array) -> dict[str, Any]:
    """Return a column ``probability_CLASS`` for every class."""
    if not estimator._labels:
        raise DataError("--proba gives probabilities of classes, and this model predicts numbers; use --coverage")
    p = np.asarray(estimator.predict_proba(X))
    return {f"probability_{label}": p[:, k] for k, label in enumerate(estimator.classes_)}


def set_columns(estimator: Any, X: Array, coverage: float) -> dict[str, Any]:
    """Return a column ``set_CLASS`` for every class: 1 where it belongs to the set, 0 elsewhere."""
    membership = np.asarray(estimator.predict_set(X, coverage)).astype(np.intp)
    return {f"set_{label}": membership[:, k] for k, label in enumerate(estimator.classes_)}


def set_statement(estimator: Any, preparation: Preparation | None, coverage: float) -> str:
    """Return what the sets guarantee."""
    guarantee = estimator.set_guarantee(coverage)
    if guarantee.method == "conformal":
        guarantee = with_breaks(guarantee, preparation)
    return f"label sets by {guarantee.method}: {guarantee}"
