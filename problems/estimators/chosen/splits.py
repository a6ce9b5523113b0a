"""The rules by which a search judges machines: the meaning of ``cv``, and the splits of the rows of a fit."""

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, LeaveOneOut, check_cv

from substrate.arrays import is_device_array
from substrate.errors import DataError, DeclarationError
from substrate.least_squares.leave_one_out import Split, checked_splits

__all__ = ["judged_by", "refuse_device", "splits_of", "take_points", "trainable_splits"]


def judged_by(cv: Any, words: tuple[str, ...], or_none: str = "") -> str:
    """Return the meaning of ``cv``: one of ``words``, "folds", or, with ``or_none``, "validation" rows."""
    if isinstance(cv, (bool, float)) or (isinstance(cv, str) and cv not in words) or (cv is None and not or_none):
        raise DeclarationError(
            f"cv must be {', '.join(map(repr, words))}, a number of folds, a splitter, "
            f"{'' if or_none else 'or '}a list of splits{or_none}; received {cv!r}"
        )
    return cv if isinstance(cv, str) else "validation" if cv is None else "folds"


def refuse_device(X: Any) -> None:
    """Refuse arrays of a device, whose rows are not divided."""
    if is_device_array(X):
        raise DeclarationError(
            "folds, blocks and validation rows are of numpy arrays (X.cpu().numpy(), X.get()); on a device use "
            "cv='loo' or cv='gcv'"
        )


def splits_of(model: Any, X: Any, y: Any, kept: Any = None, groups: Any = None) -> tuple[Split, ...]:
    """Return the splits of ``cv``, by numbers among the rows ``kept`` of those given (None: all of them).

    A splitter, or a list of splits, names the rows that were given to fit; a number of folds names none, and divides
    the rows that are kept, drawn at random where there is a ``random_state``. No fold of a number of them divides one
    of the ``groups``.
    """
    refuse_device(X)
    cv, labels = model.cv, bool(model._labels)
    if kept is not None and isinstance(cv, Integral):
        X, y, groups, kept = X[kept], y[kept], None if groups is None else groups[kept], None
    if groups is not None and isinstance(cv, Integral):
        cv = GroupKFold(int(cv))
    splitter = LeaveOneOut() if isinstance(cv, str) else check_cv(cv, y, classifier=labels)
    if isinstance(cv, Integral) and model.random_state is not None:
        splitter.shuffle, splitter.random_state = True, model.random_state
    return trainable_splits(splitter.split(X, y, groups), X.shape[0], y if labels else None, kept)


def trainable_splits(splits: Any, n: int, labels: Any = None, kept: Any = None) -> tuple[Split, ...]:
    """Check splits of n rows that also leave at least two rows, and one of every class, to train on.

    ``kept`` are the numbers of the rows of positive weight, None where these are all; the splits that are returned
    number the rows among them.
    """
    pairs = checked_splits(splits, n, kept)
    if kept is not None:
        n, labels = len(kept), None if labels is None else labels[kept]
    for number, (train, valid) in enumerate(pairs):
        if train.size < 2:
            raise DataError(
                f"split {number} has {train.size} training and {valid.size} validation rows of {n}; it needs at least "
                "two and one, so use fewer folds or more rows"
            )
        if labels is not None and np.unique(labels[train]).size < np.unique(labels).size:
            raise DataError(f"split {number} has a class that is absent from its training rows; use stratified folds")
    return pairs


def take_points(model: Any, X: Any, rows: Any, columns: Any) -> Any:
    """Return some of the points; of a precomputed matrix, which has to be square, also some of the columns."""
    if not model.__sklearn_tags__().input_tags.pairwise:
        return X[rows]
    model._resolved_kernel(X)  # refuses a matrix that is not square
    return X[rows][:, columns]
